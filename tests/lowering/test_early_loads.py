"""Loads of small GPU kernels come first; what may not move does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.differential.patterns import B
from tests.differential.runner import compare, compiled, random_values, reference, region, run_kernel_ir
from tf_stitch.device.spec import H200
from tf_stitch.families.elementwise import ELEMENTWISE
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, var
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.kernel_ir.walk import accesses, statements
from tf_stitch.lowering import early_loads as placing
from tf_stitch.lowering.early_loads import MOST_HELD, early_loads

F32 = DType.F32
THREAD = var(Var(k.THREAD, 32))
EARLY = H200.profile.sizes.early_bytes


def momentum(rows: int, cols: int, variables: int = 2) -> TensorGraph:
    """The gradient of a bias, and variables of its size that it updates."""
    gradient = B.sum(B.input("g:0", F32, (rows, cols)), [0])
    state = [B.variable(f"v{i}", F32, (cols,)) for i in range(variables)]
    return region("g", [], {f"v{i}": B.add(B.mul(v, B.constant(0.9, F32)), gradient) for i, v in enumerate(state)})


def compiled_once(graph: TensorGraph) -> k.Program:
    values = random_values(graph)
    found = compiled(graph, H200, barriers=False)
    compare(graph, run_kernel_ir(graph, found, values), *reference(graph, values), "kernel IR")
    kernel, = found.kernels
    return kernel.program


def loads(body: Sequence[k.Stmt]) -> list[k.Stmt]:
    """Loads that stand in a body itself."""
    return [s for s in body if isinstance(s, k.LoadVector) or (isinstance(s, k.Let) and isinstance(s.value, k.Load))]


def test_what_follows_a_column_reduction_is_read_before_it() -> None:
    program = compiled_once(momentum(40, 64))
    before = program.body[:[isinstance(s, k.For) for s in program.body].index(True)]
    assert {s.buffer for s in loads(before) if isinstance(s, k.LoadVector)} == {
        b.name for b in program.buffers if b.mode is k.Mode.UPDATE and b.name.startswith("in")}
    assert not [s for s in statements(program.body) if isinstance(s, k.If) and loads(s.body)]


def test_variables_are_still_updated_in_place() -> None:
    """Their loads come before all stores, by which the memory plan knows."""
    program = compiled_once(momentum(40, 64))
    assert sum(b.mode is k.Mode.UPDATE for b in program.buffers) == 4
    writes = [a.write for a in accesses(program.body)]
    assert writes == sorted(writes)


def test_registers_bound_what_is_held_over_a_reduction() -> None:
    program = compiled_once(momentum(40, 64, variables=12))
    barrier = next(i for i, s in enumerate(program.body) if isinstance(s, k.Barrier))
    held = [s for s in loads(program.body[:barrier]) if isinstance(s, k.LoadVector)]
    assert sum(s.width for s in held) == MOST_HELD
    assert len(held) < 12


def test_elementwise_loads_leave_the_guard() -> None:
    """They do not wait for a scalar and what is computed of it."""
    scale = B.op(OpKind.POW, B.constant(0.9, F32), B.cast(B.input("step:0", DType.I64, ()), F32))
    program = compiled_once(region("g", [B.mul(B.input("x:0", F32, (40,)), scale)]))
    first = next(i for i, s in enumerate(program.body) if isinstance(s, k.Let) and not isinstance(s.value, k.Load))
    assert len(loads(program.body[:first])) == len(loads(list(statements(program.body)))) == 2


def test_large_kernels_stay_as_they_are() -> None:
    graph = region("g", [B.mul(B.input("x:0", F32, (4, 999_999)), B.input("scale:0", F32, (4, 1)))])
    kernel, = compiled(graph, H200).kernels
    assert kernel.schedule.family == ELEMENTWISE.name
    assert early_loads(kernel.program, EARLY) is kernel.program


def program(*body: k.Stmt, mode: k.Mode = k.Mode.READ) -> k.Program:
    found = k.Program((k.Buffer("x", F32, 32, mode), k.Buffer("y", F32, 32, k.Mode.WRITE)), 1, 32, body)
    verify_program(found)
    return found


def load(name: str, at: Index) -> k.Let:
    return k.Let(name, k.Load("x", at, F32))


HALF = k.InRange(THREAD, 0, 16)
SUM = (k.Accumulator("a", F32, 0.0), k.AllReduce((("a", OpKind.SUM),), 32))


def test_a_load_moves_before_a_reduction() -> None:
    value = load("v", THREAD)
    assert early_loads(program(*SUM, value), EARLY).body == (value, k.LoadFence(("v",)), *SUM)


def test_what_the_kernel_wrote_stays() -> None:
    fixed = program(*SUM, load("v", THREAD), mode=k.Mode.SCRATCH)
    assert early_loads(fixed, EARLY) == fixed


@pytest.mark.parametrize("at", [THREAD + 1, THREAD - 1])
def test_a_load_that_may_leave_its_buffer_stays_guarded(at: Index) -> None:
    fixed = program(k.If(HALF, (load("v", at),)))
    assert early_loads(fixed, EARLY) == fixed


def test_an_index_leaves_with_the_load_that_needs_it() -> None:
    place = k.LetIndex(Var("place", 32), THREAD, 31)
    value = load("v", var(place.var))
    store = k.Store("y", var(place.var), k.Local("v", F32))
    assert early_loads(program(*SUM, k.If(HALF, (place, value, store))), EARLY).body == (
        place, value, k.LoadFence(("v",)), *SUM, k.If(HALF, (store,)))


def test_an_index_of_two_meanings_stays() -> None:
    places = [k.LetIndex(Var("place", 32), source, 31) for source in (THREAD, constant(3))]
    branches = [k.If(HALF, (place, load(f"v{i}", var(place.var)))) for i, place in enumerate(places)]
    fixed = program(*branches)
    assert early_loads(fixed, EARLY) == fixed


def test_a_load_by_a_loaded_index_waits_for_it() -> None:
    first = k.Let("i", k.Load("x", THREAD, F32))
    place = k.LetIndex(Var("place", 32), k.Apply(OpKind.CAST, (k.Local("i", F32),), DType.I32), 31)
    value = load("v", var(place.var))
    body = (first, place, k.Barrier(), value)
    moved = early_loads(program(*body), EARLY)
    assert moved.body == (first, k.LoadFence(("i",)), place, value, k.LoadFence(("v",)), k.Barrier())


def test_long_bodies_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for every load: kernels of unrolled loops have thousands."""
    seen: list[object] = []
    look = placing.load_of
    monkeypatch.setattr(placing, "load_of", lambda unit: (seen.append(unit), look(unit))[1])
    counts = []
    for count in (50, 200):
        seen.clear()
        early_loads(program(*(load(f"v{i}", THREAD) for i in range(count))), EARLY)
        counts.append(len(seen))
    assert counts[1] <= 4 * counts[0]
