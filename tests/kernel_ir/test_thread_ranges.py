"""Programs that share blocks by their threads compute what they compute alone, and nothing waits for ever."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.generator import make_case
from tests.differential.runner import compiled, region
from tests.emit.ptx import ptx_of_source
from tests.support.cuda_on_cpu import ADVERSARIES, Adversary, LaunchError, build, launch
from tests.support.hip_target import HIP_DEVICE
from tf_stitch.compiler.template_kernels import templated
from tf_stitch.compiler.thread_partitions import Partition, can_share, partitions
from tf_stitch.device.spec import CPU, H200
from tf_stitch.emit.cuda import emit_cuda
from tf_stitch.emit.rendered import Packed
from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.attention import AttentionTiling
from tf_stitch.kernel_ir.cost import shared_bytes
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.kernel_ir.roles import Where
from tf_stitch.kernel_ir.statement import Statement
from tf_stitch.kernel_ir.text_format import format_program
from tf_stitch.kernel_ir.thread_ranges import cannot_be_range, side_by_side
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.kernel_ir.walk import rewritten, statements
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.placement.executable import DeviceLaunch
from tf_stitch.runtime.host_run import aligned_copy
from tf_stitch.templates import parse_template

B, F32 = p.B, DType.F32
Memory = dict[str, Any]
BEHIND = 4096
"""Elements behind a buffer, which no thread may touch."""


def x(*shape: int, dtype: DType = F32) -> Node:
    return B.input("x:0", dtype, shape)


MADE: dict[str, Callable[[], list[Node]]] = {
    "elements": lambda: [B.op(OpKind.TANH, x(900))],
    "softmax": lambda: [p.softmax(x(3, 1100))],
    "short rows": lambda: [p.softmax(x(33, 20))],
    "argmax": lambda: [B.arg_reduce(OpKind.ARGMAX, x(3, 1100), 1, DType.I64)],
    "columns": lambda: [B.sum(x(20, 40), [0])],
    "transpose": lambda: [B.transpose(B.op(OpKind.TANH, x(70, 50)), [1, 0])],
    "attention": lambda: attention(),
    "wide rows": lambda: [p.softmax(x(2, 3000))],
    "exact": lambda: [B.op(OpKind.TANH, x(512))],
    "running sum": lambda: [B.cumsum(x(70, 50), False, False)],
}
WIDE = {"wide rows": "; ".join(f"{op}[GRID,THREAD_3-CTA_256-THREAD_4]{kept}" for op, kept
                               in (("max_1", "S"), ("sum_1", "S"), ("mul_1", ""))) + ";"}
"""Templates of those that have not what the rules give them."""


@cache
def made(name: str) -> k.Program:
    """A program by itself."""
    kernel = compiled(region(name, MADE[name]()), H200).kernels[0]
    return templated(parse_template(WIDE[name]), kernel, H200, True).program if name in WIDE else kernel.program


def memory_of(program: k.Program, seed: int) -> Memory:
    """Numbers for what it reads, and for what it is to write."""
    rng = np.random.default_rng(seed)
    return {b.name: aligned_copy(rng.integers(-9, 10, b.size).astype(b.dtype.numpy)) if b.dtype is not DType.BOOL
            else aligned_copy(rng.integers(0, 2, b.size).astype(bool)) for b in program.parameters}


def both(memories: Sequence[Memory]) -> Memory:
    """As the parameters of a program side by side."""
    return {f"k{i}_{name}": value for i, memory in enumerate(memories, 1) for name, value in memory.items()}


def copied(memory: Memory) -> Memory:
    return {name: aligned_copy(value) for name, value in memory.items()}


def equal(a: Memory, b: Memory) -> bool:
    return all(value.tobytes() == b[name].tobytes() for name, value in a.items())


def interpreted(program: k.Program, memory: Memory) -> Memory:
    result = copied(memory)
    interpret_program(program, result)
    return result


class OnCpu:
    """The CUDA source of two programs and of both side by side, run on this machine."""

    def __init__(self, *programs: k.Program) -> None:
        self.programs = programs
        named = [(f"stitch_{i}", program) for i, program in enumerate(programs)]
        self.library = build(emit_cuda(named, [Packed(f"launch_{i}", (i,)) for i in range(len(programs))]))

    def run(self, number: int, memory: Memory, adversary: Adversary) -> Memory:
        program = self.programs[number]
        held = {name: aligned_copy(np.pad(value, (0, BEHIND), mode="wrap")) for name, value in memory.items()}
        behind = {name: value[-BEHIND:].copy() for name, value in held.items()}
        step = DeviceLaunch(f"launch_{number}", program.grid, program.threads, shared_bytes(program), ())
        launch(self.library, step, [value.ctypes.data for value in held.values()], 1, adversary)
        assert equal({name: value[-BEHIND:] for name, value in held.items()}, behind), "more is written than there is"
        return {name: value[:-BEHIND] for name, value in held.items()}


def check(*programs: k.Program, seed: int = 0, on_cpu: bool = True) -> None:
    """Side by side they compute what they compute alone, to the last bit."""
    fused = side_by_side(programs)
    verify_program(fused)
    memories = [memory_of(program, seed + i) for i, program in enumerate(programs)]
    want = both([interpreted(program, memory) for program, memory in zip(programs, memories, strict=True)])
    assert equal(interpreted(fused, both(memories)), want)
    if not on_cpu:
        return
    device = OnCpu(*programs, fused)
    for adversary in ADVERSARIES:
        want = both([device.run(i, memory, adversary) for i, memory in enumerate(memories)])
        assert equal(device.run(len(programs), both(memories), adversary), want), adversary


PAIRS = [("softmax", "elements"), ("exact", "elements"), ("elements", "softmax"), ("softmax", "softmax"),
         ("softmax", "wide rows"), ("argmax", "argmax"), ("columns", "argmax"), ("running sum", "short rows"),
         ("transpose", "transpose")]


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_pairs(pair: tuple[str, str]) -> None:
    check(*map(made, pair))


@cache
def random_kernels(seed: int) -> tuple[LoweredKernel, ...]:
    """Those of a random graph that can be ranges."""
    built = compiled(make_case(random.Random(seed), 14, 1500).graph, H200, solver="greedy")
    return tuple(kernel for kernel in built.kernels if kernel.program.grid and can_share(kernel, H200))


def random_partition(seed: int, count: int) -> Partition:
    """So many kernels of random graphs, in any blocks that they have."""
    draw = random.Random(seed)
    for _ in range(100):
        graphs = [random_kernels(seed + 100 * i) for i in range(count)]
        if all(graphs):
            found = list(partitions(tuple(map(draw.choice, graphs)), H200))
            if found:
                return draw.choice(found)
        seed += 1000
    raise AssertionError("no kernels that share a block")


@pytest.mark.parametrize("seed", range(12))
def test_random_pairs(seed: int) -> None:
    found = random_partition(seed, 2)
    check(*(kernel.program for kernel in found.kernels), seed=seed, on_cpu=seed < 6)


@pytest.mark.parametrize("seed", range(100, 106))
def test_random_sets_of_three(seed: int) -> None:
    found = random_partition(seed, 3)
    check(*(kernel.program for kernel in found.kernels), seed=seed, on_cpu=seed < 103)


def test_reductions_that_begin_within_another_ones_width() -> None:
    widths = {s.width for s in statements(made("wide rows").body) if isinstance(s, k.AllReduce)}
    assert made("softmax").threads < max(widths), "test_pairs has them"


def test_three_programs_share_a_block() -> None:
    check(*(made(name) for name in ("softmax", "short rows", "columns")))


def test_text() -> None:
    text = format_program(side_by_side([made("softmax"), made("elements")]))
    threads, blocks = made("softmax").threads, made("softmax").grid
    assert f"\n  threads 0..{threads - 1} of blocks 0..{blocks - 1}:\n" in text
    assert f" threads at 1 of {threads}: max" in text


def test_who_cannot_share_a_block() -> None:
    on_cpu = compiled(region("g", MADE["elements"]()), CPU).kernels[0].program
    assert "no whole warps" in cannot_be_range(on_cpu)
    assert "wait for each other" in cannot_be_range(side_by_side([made("elements"), made("columns")]))
    meets = replace(made("elements"), body=(*made("elements").body, Meets()))
    assert cannot_be_range(meets) == "Meets is for a whole block"
    with pytest.raises(VerifyError, match="Meets is for a whole block"):
        side_by_side([made("columns"), meets])
    ranges = side_by_side([made("elements"), made("columns")])
    with pytest.raises(VerifyError, match="Meets in a thread range"):
        verify_program(of_range(ranges, 1, body=(*ranges.body[1].body, Meets())))  # type: ignore[union-attr]


@dataclass(frozen=True)
class Meets(Statement):
    """All threads wait, and nobody can tell where."""

    where = Where.TOGETHER


def attention() -> list[Node]:
    """Behind it nothing reads the scores."""
    q, key, v = (B.input(f"{name}:0", F32, (1, 2, 64, 32)) for name in "qkv")
    return [B.dot(p.softmax(B.dot(q, key, False, True)), v)]


@pytest.mark.parametrize("beside", ["elements", "softmax", "attention"])
def test_attention(beside: str) -> None:
    """Tensor cores beside a kernel that moves bytes."""
    check(made("attention"), made(beside))
    check(made(beside), made("attention"))


def test_barriers_are_named_in_ptx() -> None:
    fused = side_by_side([made("transpose"), made("softmax")])
    text = ptx_of_source(emit_cuda([("stitch", fused)], [Packed("launch", (0,))]))
    assert f"bar.sync 1, {made('transpose').threads};" in text
    assert f"bar.sync 2, {made('softmax').threads};" in text
    assert not re.search(r"bar(rier)?\.sync\S*\s+0", text)


def causal_attention() -> list[Node]:
    """Of many matrices, so that no warps share keys."""
    q, key, v = (B.input(f"{name}:0", F32, (30, 8, rows, 32)) for name, rows in (("q", 70), ("k", 90), ("v", 90)))
    scores = B.dot(q, key, False, True)
    row, column = (B.iota(scores.type.shape[-2:], axis, DType.I32) for axis in range(2))
    seen = B.broadcast(B.op(OpKind.LESS_EQUAL, column, row), scores.type.shape)
    return [B.dot(p.softmax(B.select(seen, scores, B.broadcast(B.constant(-1e9, F32), scores.type.shape))), v)]


def test_threads_ask_those_of_their_range_alone() -> None:
    """Whether all of them can leave out what is masked."""
    kernel = compiled(region("causal", causal_attention()), H200).kernels[0].program
    [stmt] = (s for s in statements(kernel.body) if isinstance(s, k.Attention))
    assert isinstance(stmt.tiling, AttentionTiling)
    assert stmt.tiling.skips(stmt.shape)
    text = ptx_of_source(emit_cuda([("stitch", side_by_side([kernel, made("softmax")]))], [Packed("launch", (0,))]))
    assert re.search(rf"bar\.red\.and\.pred q, 1, {kernel.threads}, p", text)
    assert "barrier.red" not in text
    assert "barrier.sync \t0" not in text


def test_capability() -> None:
    assert H200.block_barriers == 16
    assert HIP_DEVICE.block_barriers == CPU.block_barriers == 1


def change(kind: type, **fields: Any) -> Callable[[k.Stmt], k.Stmt]:
    return lambda stmt: replace(stmt, **fields) if isinstance(stmt, kind) else stmt


def of_range(fused: k.Program, number: int, **fields: Any) -> k.Program:
    body = list(fused.body)
    body[number] = replace(body[number], **fields)
    return replace(fused, body=tuple(body))


def inside(fused: k.Program, number: int, edit: Callable[[k.Stmt], k.Stmt]) -> k.Program:
    return of_range(fused, number, body=rewritten(fused.body[number].body, edit))  # type: ignore[union-attr]


def waits_at(barrier: k.BlockBarrier) -> Callable[[k.Stmt], k.Stmt]:
    return change(k.Barrier | k.AllReduce | k.ArgAllReduce, barrier=barrier)  # type: ignore[arg-type]


def _thin() -> k.Program:
    """A transpose, whose threads meet at barriers, beside another."""
    return side_by_side([made("transpose"), made("transpose")])


def _threads() -> int:
    return made("transpose").threads


REFUSED: dict[str, tuple[Callable[[], k.Program], str]] = {
    "a barrier for more threads": (
        lambda: inside(_thin(), 0, waits_at(k.BlockBarrier(1, _threads() + 32))), r"barrier of \d+ threads in a range"),
    "a barrier for fewer threads": (
        lambda: inside(_thin(), 0, waits_at(k.BlockBarrier(1, _threads() - 32))), r"barrier of \d+ threads in a range"),
    "the barrier of the whole block": (lambda: inside(_thin(), 1, waits_at(k.WHOLE_BLOCK)), "waits at barrier 0"),
    "one barrier for both": (
        lambda: inside(_thin(), 1, waits_at(k.BlockBarrier(1, _threads()))), "two ranges wait at barrier 1"),
    "a barrier that is not there": (
        lambda: inside(_thin(), 1, waits_at(k.BlockBarrier(16, _threads()))), "waits at barrier 16"),
    "a barrier that some threads miss": (
        lambda: of_range(_thin(), 0, body=(k.If(_first_half(), (k.Barrier(k.BlockBarrier(1, _threads())),)),)),
        "Barrier where threads part"),
    "half a warp": (
        lambda: replace(of_range(of_range(_thin(), 0, threads=_threads() - 16), 1, first=_threads() - 16,
                                 threads=_threads() + 16)), "no whole warps"),
    "threads of two ranges": (lambda: of_range(_thin(), 1, first=_threads() - 32), "in no range, or in two"),
    "threads of none": (lambda: replace(_thin(), threads=2 * _threads() + 32), "ranges of"),
    "one shared memory": (
        lambda: inside(_thin(), 1, lambda s: replace(s, offset=0) if isinstance(s, k.Array) and s.offset else s),
        "of two ranges share memory"),
    "one writes what the other reads": (lambda: _mixed(), "written in one range, touched in another"),
    "something beside": (lambda: replace(_thin(), body=(*_thin().body, k.Barrier())), "Barrier beside thread ranges"),
    "a cluster": (lambda: replace(_thin(), cluster=2, grid=_thin().grid * 2), "a cluster of partitioned blocks"),
    "a range inside a range": (
        lambda: of_range(_thin(), 0, body=(_thin().body[0],)), "ThreadRange inside a grid loop"),
}


def _first_half() -> k.Expr:
    return k.InRange(k_thread(), 0, _threads() // 2)


def k_thread() -> Any:
    from tf_stitch.kernel_ir.index import Var, var

    return var(Var(k.THREAD, _threads()))


def _mixed() -> k.Program:
    """The second range writes what the first one writes."""
    fused = _thin()
    return inside(fused, 1, lambda s: replace(s, buffer=s.buffer.replace("k2", "k1")) if isinstance(s, k.Store) else s)


@pytest.mark.parametrize("name", REFUSED)
def test_the_verifier_refuses(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(VerifyError, match=message):
        verify_program(make())


def test_the_whole_block_has_one_barrier() -> None:
    program = made("transpose")
    verify_program(program)
    with pytest.raises(VerifyError, match="outside of a thread range"):
        verify_program(replace(program, body=rewritten(program.body, waits_at(k.BlockBarrier(1, program.threads)))))


def test_what_the_verifier_refuses_hangs() -> None:
    """As on a GPU, but that here it ends."""
    fused = _thin()
    assert any(isinstance(s, k.Barrier) for s in statements(fused.body))
    wrong = inside(fused, 0, waits_at(k.BlockBarrier(1, _threads() + 32)))
    memory = both([memory_of(made("transpose"), i) for i in range(2)])
    with pytest.raises(LaunchError, match="deadlock"):
        OnCpu(wrong).run(0, memory, ADVERSARIES[0])
    with pytest.raises(VerifyError, match="a barrier is reached by"):
        interpreted(wrong, memory)
