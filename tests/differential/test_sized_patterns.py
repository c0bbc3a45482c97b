"""Patterns of models have kernels for changing sizes at whatever sizes are at hand, and these are right."""

from __future__ import annotations

import itertools
from functools import reduce

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, keys_of, random_values, reference, region, run_kernel_ir
from tests.differential.sized_patterns import SIZED_PATTERNS
from tests.differential.test_sizes import with_numbers_of
from tests.support.tiers import each_commit
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.kernel_ir.instantiate import instantiate
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.planning.plan_memory import PlanMemory

B = p.B
HAND = (1, 2, 3, 4, 7, 8, 33, 64)
DEVICES = pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
NAMES = pytest.mark.parametrize("name", SIZED_PATTERNS)


def graph_of(name: str, b: int, n: int) -> TensorGraph:
    return region(name, SIZED_PATTERNS[name](b, n))


def compiled(name: str, b: int, n: int, device: DeviceSpec, plans: PlanMemory) -> CompiledRegion:
    """For a batch and a length that change, both known to be multiples of a vector where they are."""
    multiple = 4 if device.simt else 1
    sizes = (size(key, value, 1 if value % multiple else multiple) for key, value in (("b", b), ("n", n)))
    graph = graph_of(name, *sizes)
    return compile_region(graph, *keys_of(graph), CompileOptions(device, plans=plans))


@DEVICES
@pytest.mark.parametrize("name", each_commit([*SIZED_PATTERNS][::3], SIZED_PATTERNS))
def test_no_sizes_at_hand_are_refused(name: str, device: DeviceSpec) -> None:
    plans = PlanMemory()
    for b, n in itertools.product(HAND, HAND):
        compiled(name, b, n, device, plans)


@DEVICES
@NAMES
def test_kernels_are_right_for_every_size(name: str, device: DeviceSpec) -> None:
    """What runs for a size is the kernel made for an earlier one, where they have one name."""
    plans, programs = PlanMemory(), dict[str, tuple[Program, ...]]()
    for b, n in [(1, 33), (3, 5), (2, 4), (1, 1), (2, 9)]:
        made = compiled(name, b, n, device, plans)
        for symbol, wanted in made.programs.items():
            known = programs.setdefault(symbol, wanted)
            made.programs[symbol] = tuple(map(with_numbers_of, known, wanted))
        graph = graph_of(name, b, n)
        values = random_values(graph)
        compare(graph, run_kernel_ir(graph, made, values), *reference(graph, values), f"{name} for {b}, {n}")


@pytest.mark.parametrize(("length", "values"), [(516, 3), (260, 5), (1280, 2), (1284, 6)])
def test_rows_that_are_kept_do_not_meet_in_shared_memory(length: int, values: int) -> None:
    """Several values of a row are needed in a second phase, more than registers hold."""
    def graph_of(n: int) -> TensorGraph:
        rows = [B.input(f"x{i}:0", DType.F32, (13, n)) for i in range(values)]
        scaled = [B.mul(x, B.sum(x, [1], keepdims=True)) for x in rows]
        return region("kept", [reduce(B.add, scaled)])

    graph = graph_of(size("n", length // 4, 1) * 4)
    made = compile_region(graph, *keys_of(graph), CompileOptions(H200, plans=PlanMemory()))
    for symbol, programs in made.programs.items():
        made.programs[symbol] = tuple(map(instantiate, programs))
    plain = graph_of(length)
    given = random_values(plain)
    compare(plain, run_kernel_ir(plain, made, given), *reference(plain, given), f"{values} rows of {length}")
