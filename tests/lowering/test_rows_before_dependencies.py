"""Keys and values of one query are on their way before a launch awaits others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, region
from tests.emit.ptx import ptx_of_source
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.device.spec import H200, gpu_spec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.dependencies import awaits_itself, read_before
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.text_format import format_program
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.kernel_ir.walk import statements
from tf_stitch.lowering.rows_before_dependencies import LINE_BYTES, rows_before_dependencies

B = p.B
ROOM = 1 << 20


def decoding(dtype: DType = DType.F32, batch: int = 2, queries: int = 1, keys: int = 20, heads: int = 3, size: int = 48
             ) -> TensorGraph:
    """Attention of few queries to a cache [batch, keys, heads, size]."""
    def matrices(name: str, rows: int) -> object:
        return B.transpose(B.input(name, dtype, (batch, rows, heads, size)), [0, 2, 1, 3])

    q, keys_, values = matrices("q:0", queries), matrices("k:0", keys), matrices("v:0", keys)
    return region("decoding", [B.dot(p.softmax(B.dot(q, keys_, False, True)), values)])


def programs(graph: TensorGraph, device: object = H200) -> list[k.Program]:
    return [program for found in compiled(graph, device).programs.values() for program in found]


@pytest.mark.parametrize(("dtype", "queries"), [(DType.F32, 1), (DType.BF16, 1), (DType.F16, 2)])
def test_every_line_of_a_block_is_asked_for(dtype: DType, queries: int) -> None:
    """By some thread, and no byte beyond what the block will read but in the lines that it reads of."""
    heads, keys, size = 3, 20, 48
    program, = programs(decoding(dtype, queries=queries))
    for_k, for_v = (s for s in program.body if isinstance(s, k.For))
    for loop in (for_k, for_v):
        line, hint = loop.body
        assert isinstance(line, k.LetIndex)
        assert isinstance(hint, k.Prefetch)
        for block in (0, 2 * queries, program.grid - 1):
            asked = set()
            for thread in range(program.threads):
                for item in range(loop.var.extent):
                    at = line.source.value({loop.var: item, Var(k.THREAD, program.threads): thread})  # type: ignore[union-attr]
                    at = min(at, line.limit or 0)
                    index = hint.index.value({line.var: at, Var(k.BLOCK, program.grid): block})
                    asked.add(index * dtype.size // LINE_BYTES)
            matrix = block // queries
            rows = [((matrix // heads * keys + key) * heads + matrix % heads) * size for key in range(keys)]
            read = {(row + i) * dtype.size // LINE_BYTES for row in rows for i in range(0, size, 16)}
            assert asked <= read
            assert len(read - asked) <= keys  # rows that begin in the middle of a line end in another


def test_it_stands_before_the_wait(golden: Callable[[str, str], None]) -> None:
    program, = programs(decoding())
    verify_program(program)
    assert awaits_itself(program)
    assert not read_before(program)
    golden("rows_before_dependencies", format_program(program))
    code = ptx_of_source(compiled(decoding(), H200).source)
    before, after = code.split("griddepcontrol.wait;")
    assert "prefetch.global.L2" in before
    assert "prefetch.global.L2" not in after


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_results_are_the_same(dtype: DType) -> None:
    graph = decoding(dtype)
    values = random_values(graph)
    found = run_on_cpu(graph, compiled(graph, H200), values, Adversary(Order.SHUFFLED))
    compare(graph, found, *reference(graph, values), "emitted")


def test_others_stay_as_they_are() -> None:
    """Many queries, whose keys go through shared memory; devices without early starts; what awaits by itself."""
    many, = programs(decoding(queries=64, keys=64))
    assert not awaits_itself(many)
    assert rows_before_dependencies(many, ROOM) is many
    older = replace(gpu_spec(H200.profile, "80"), grid_barrier=False)
    found = [s for program in programs(decoding(), older) for s in statements(program.body)]
    assert not any(isinstance(s, k.Prefetch) for s in found)
    once, = programs(decoding())
    assert rows_before_dependencies(once, ROOM) is once


def without_hints(keys: int = 20) -> k.Program:
    """Of 2 x 3 heads of 48 columns, float32."""
    program, = programs(decoding())
    kept = [s for s in program.body if not isinstance(s, k.AwaitDependencies)
            and not (isinstance(s, k.For) and isinstance(s.body[-1], k.Prefetch))]
    body = (replace(s, shape=replace(s.shape, keys=keys)) if isinstance(s, k.Attention) else s for s in kept)
    return replace(program, body=tuple(body))


def test_no_more_is_asked_for_than_the_cache_holds() -> None:
    """A long cache of many texts would leave it before it is read, and come twice."""
    program, = programs(decoding())
    nbytes = 2 * 3 * 20 * (48 + 48) * 4
    assert rows_before_dependencies(without_hints(), nbytes) == program
    bare = without_hints()
    assert rows_before_dependencies(bare, nbytes - 1) is bare


def test_many_hints_of_a_thread_are_a_loop() -> None:
    after = rows_before_dependencies(without_hints(8192), 1 << 30)
    assert [s.loop for s in after.body if isinstance(s, k.For)] == [k.Loop.SERIAL] * 2
