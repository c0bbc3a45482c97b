"""Rows that are fetched while the row before is worked on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.differential import patterns as p
from tests.differential.patterns import B
from tests.differential.runner import (
    Values,
    build_cubin,
    compare,
    compiled,
    random_values,
    reference,
    region,
    run_kernel_ir,
)
from tests.support.numbers import set_numbers
from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.device.spec import H200
from tf_stitch.errors import VerifyError
from tf_stitch.families.row import propose
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph, key_of, users_of
from tf_stitch.ir.interpreter import interpret
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.array_memory import overlapping
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.kernel_ir.walk import arrays, rewritten, statements
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.free_nodes import free_nodes, live_out, plannable
from tf_stitch.planning.pattern import make_pattern
from tf_stitch.schedule import prefetch as ahead
from tf_stitch.schedule import shared_rows

BLOCKS = 2


def graph(rows: int, cols: int) -> TensorGraph:
    """Rows scaled by their dot product with another matrix, and first stages of sums across rows of each."""
    x, y = (B.input(f"{n}:0", DType.F32, (rows, cols)) for n in "xy")
    scaled = B.mul(B.mul(x, y), B.sum(B.mul(x, y), [1], True))
    parts = [B.sum(B.reshape(v, (BLOCKS, rows // BLOCKS, cols)), [1]) for v in (x, B.mul(x, y))]
    return region("g", [scaled, *parts])


def kernel(rows: int = 32, cols: int = 256) -> LoweredKernel:
    g = graph(rows, cols)
    nodes = g.nodes()
    free = free_nodes(nodes)
    pattern = make_pattern(plannable(g, free), users_of(nodes), frozenset(live_out(g)), free)
    lowered = compile_pattern(pattern, H200)
    verify_program(lowered.program)
    return lowered


def buffers_of(lowered: LoweredKernel) -> Values:
    rng = np.random.default_rng(0)
    return {b.name: rng.standard_normal(b.size).astype(np.float32) for b in lowered.program.buffers}


@pytest.mark.parametrize("cols", [256, 300])
def test_computes_the_same(cols: int) -> None:
    lowered = kernel(32, cols)
    assert lowered.schedule.ahead
    buffers = buffers_of(lowered)
    arguments = [(*argument, b.name) for argument, b in zip(lowered.arguments, lowered.program.buffers, strict=True)]
    inputs = {key_of(node): buffers[name].copy().reshape(node.type.dims)
              for node, mode, name in arguments if mode is k.Mode.READ}
    interpret_program(lowered.program, buffers)
    want = interpret(graph(32, cols), inputs)
    for name in [name for _, mode, name in arguments if mode is k.Mode.WRITE]:
        close = [np.allclose(buffers[name], w.reshape(-1), rtol=1e-4, atol=1e-4) for w in want.values()
                 if w.size == buffers[name].size]
        assert any(close), name


def test_matrices_are_fetched_and_not_loaded() -> None:
    lowered = kernel()
    inside = [s for s in lowered.program.body if isinstance(s, k.For) and s.var.name == "step"]
    fetched = {s.buffer for s in statements(inside) if isinstance(s, k.AsyncCopy)}
    assert len(fetched) == 2
    assert not fetched & {s.buffer for s in statements(inside) if isinstance(s, k.LoadVector)}


def test_few_rows_are_not() -> None:
    assert not kernel(8, 256).schedule.ahead


def test_what_has_not_arrived_cannot_be_read() -> None:
    lowered = kernel()
    late = replace(lowered.program, body=rewritten(lowered.program.body, lambda s: (
        replace(s, pending=s.pending + 1) if isinstance(s, k.AwaitAsyncCopies) else s)))
    interpret_program(lowered.program, buffers_of(lowered))
    with pytest.raises(VerifyError, match="read before it is written"):
        interpret_program(late, buffers_of(lowered))


def test_fetches_stay_inside_their_array() -> None:
    lowered = kernel()
    moved = replace(lowered.program, body=rewritten(lowered.program.body, lambda s: (
        replace(s, at=s.at + 4) if isinstance(s, k.AsyncCopy) else s)))
    with pytest.raises(VerifyError, match="is too small"):
        verify_program(moved)


# Rows that blocks share in turn.
IN_TURN = replace(H200, processors=4, profile=replace(H200.profile, shared_bytes=1 << 14), shared_bytes=1 << 14,
                  largest_cluster=1)  # clusters would have room
ROWS = {"softmax": lambda x, cols: p.softmax(x),
        "layernorm": lambda x, cols: p.layernorm(x, *(B.input(f"{n}:0", DType.F32, (cols,)) for n in ("g", "b"))),
        "log softmax": lambda x, cols: p.log_softmax(x)}


def limit(patch: pytest.MonkeyPatch, name: str, value: int) -> None:
    """Another limit for rows, in each module that has it."""
    for module in (propose, shared_rows):
        patch.setattr(module, name, value, raising=module is propose)


@pytest.fixture
def short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long rows are short here: eight blocks of 64 threads have room for two rows of 4000."""
    for name, value in {"LONG_ROW": 256, "MAX_THREADS": 128, "SHARING_THREADS": 64, "SHARING_BYTES": 4096,
                        "REGISTER_ELEMENTS": 16}.items():
        limit(monkeypatch, name, value)
    set_numbers(monkeypatch, IN_TURN, "sizes", turn_elements=16, turn_threads=64, turn_blocks=2)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("cols", [4000, 4096])
@pytest.mark.usefixtures("short_rows")
def test_shared_rows_in_turn(name: str, cols: int) -> None:
    g = region(name, [ROWS[name](B.input("x:0", DType.F32, (5, cols)), cols)])
    built = compiled(g, IN_TURN)
    (one,) = built.kernels
    (loop,) = (s for s in one.program.body if isinstance(s, k.GridLoop))
    assert one.schedule.ahead
    assert (one.schedule.mapping.row_blocks, loop.blocks, one.program.grid) == (4, 20, 8)
    assert one.program.buffers[0].name not in {s.buffer for s in statements(loop.body) if isinstance(s, k.LoadVector)}
    values = random_values(g)
    values["x:0"][1, 7], values["x:0"][2], values["x:0"][3, 9] = np.nan, -np.inf, np.inf
    want, allowed = reference(g, values)
    compare(g, run_kernel_ir(g, built, values), want, allowed, "kernel IR")
    build_cubin(built)


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 9), quarters=st.integers(260, 420), ragged=st.sampled_from([0, 0, 1]),
       elements=st.sampled_from([4, 8, 16, 16]), nbytes=st.sampled_from([1024, 4096]), name=st.sampled_from([*ROWS]))
def test_any_shared_rows(rows: int, quarters: int, ragged: int, elements: int, nbytes: int, name: str) -> None:
    """Whatever room blocks have: in registers or shared memory, at once or in turn, with and without whole fetches."""
    cols = 4 * quarters + ragged
    tight = replace(IN_TURN, shared_bytes=5 << 10, profile=replace(H200.profile, shared_bytes=5 << 10))
    with pytest.MonkeyPatch.context() as limits:
        for name_, value in {"LONG_ROW": 256, "MAX_THREADS": 128, "SHARING_THREADS": 32, "SHARING_BYTES": nbytes,
                             "REGISTER_ELEMENTS": 8, "SHARED_ELEMENTS": 4, "REDUCTION_BYTES": 256}.items():
            limit(limits, name_, value)
        set_numbers(limits, tight, "sizes", turn_elements=elements, turn_threads=32, turn_blocks=2)
        limits.setattr(ahead, "REDUCTION_BYTES", 256)
        g = region(name, [ROWS[name](B.input("x:0", DType.F32, (rows, cols)), cols)])
        built = compiled(g, tight)
    event("ahead" if any(kernel.schedule.ahead for kernel in built.kernels) else "not ahead")
    values = random_values(g)
    want, allowed = reference(g, values)
    compare(g, run_kernel_ir(g, built, values), want, allowed, "kernel IR")


@pytest.mark.usefixtures("short_rows")
def test_what_is_carried_keeps_its_memory() -> None:
    built = compiled(region("softmax", [p.softmax(B.input("x:0", DType.F32, (5, 4000)))]), IN_TURN)
    (program,) = (program for programs in built.programs.values() for program in programs)
    carried = [a for a in arrays(program.body, k.Space.SHARED) if a.carried]
    assert len(carried) == 1
    assert not overlapping(next(program.phases()))
    forgotten = replace(program, body=rewritten(program.body, lambda s: (
        replace(s, carried=False) if isinstance(s, k.Array) else s)))
    with pytest.raises(VerifyError, match="read before it is written"):
        interpret_program(forgotten, {b.name: np.zeros(b.size, np.float32) for b in program.buffers})
