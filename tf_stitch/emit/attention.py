"""CUDA C++ of attention kernels: what calls the templates in attention.cu, attention_single.cu and
attention_gradient.cu."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources

from tf_stitch.emit.c_family import Lines
from tf_stitch.emit.cuda_kernel import CudaKernel
from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.attention import AttentionShape, AttentionTiling, Rows, SingleQueryTiling, shared_tiles
from tf_stitch.kernel_ir.attention_gradient import GradientShape, GradientTiling, float_vector

TEMPLATE, SINGLE_TEMPLATE, GRADIENT_TEMPLATE = "tfs_attention", "tfs_attention_single", "tfs_attention_gradient"
"""The structs of the templates; the first is what names of all begin with."""
_ELEMENT = {DType.F32: "tfs_tf32", DType.F16: "tfs_f16", DType.BF16: "tfs_bf16"}


_FAST_EXP = "  const auto& tfs_expf = tfs_exp_fast;"
"""In elements of gradients."""


def attention_template() -> str:
    """What kernels with attention need besides the prelude."""
    folder = resources.files("tf_stitch.emit")
    names = ("attention_ptx.cu", "attention_tiles.cu", "attention.cu", "attention_single.cu",
             "attention_gradient.cu")
    return "\n".join((folder / name).read_text() for name in names)


@CudaKernel.rules(k.Attention)
def _attention(kernel: CudaKernel, stmt: k.Attention) -> Lines:
    barrier, shape = kernel.barrier_type(stmt.barrier), stmt.shape
    masked = kernel.literal(shape.causal.value if shape.causal else 0.0, DType.F32)
    yield "{"
    yield from (f"  {line}" for line in attention_constants("Constants", shape, stmt.tiling, barrier, masked))
    yield from kernel.closure("score_of", [f"float {stmt.score}"], stmt.position, stmt.body, stmt.score)
    yield from kernel.closure("weigh", [f"float {stmt.weight}"], stmt.position, stmt.weigh, stmt.weight)
    yield from kernel.closure("keep", [f"float {stmt.most}", f"float {stmt.total}"], stmt.position[:3], stmt.keep)
    pointers = [f"{name} + {rows.offset}" for name, rows in
                ((stmt.q, shape.q), (stmt.k, shape.k), (stmt.v, shape.v), (stmt.out, shape.out))]
    arguments = ["thread", "(int)block", *pointers, f"(uint32_t*){stmt.tiles}", "score_of", "weigh", "keep"]
    template = SINGLE_TEMPLATE if isinstance(stmt.tiling, SingleQueryTiling) else TEMPLATE
    yield f"  {template}<Constants>().run({', '.join(arguments)});"
    yield "}"


@CudaKernel.rules(k.AttentionQueryGradient)
def _attention_query_gradient(kernel: CudaKernel, stmt: k.AttentionQueryGradient) -> Lines:
    row_sum = f"float {stmt.row_sum}"
    yield from ("{", _FAST_EXP)
    yield from kernel.closure("summand", [f"float {stmt.score}", f"float {stmt.gradient}"], stmt.position, stmt.summand,
                              stmt.gradient)
    yield from kernel.closure("keep", [row_sum], stmt.position[:3], stmt.keep)
    yield from _gradient(kernel, stmt, row_sum, f"{stmt.result} + {stmt.shape.result.offset}")


@CudaKernel.rules(k.AttentionKeyGradient)
def _attention_key_gradient(kernel: CudaKernel, stmt: k.AttentionKeyGradient) -> Lines:
    assert stmt.shape.result_2 is not None
    yield from ("{", _FAST_EXP, "  const int summand = 0, keep = 0;")
    yield from _gradient(kernel, stmt, "float", f"{stmt.result_2} + {stmt.shape.result_2.offset}")


def _gradient(kernel: CudaKernel, stmt: k.AttentionQueryGradient | k.AttentionKeyGradient, row_sum: str, result_2: str
              ) -> Lines:
    barrier, shape = kernel.barrier_type(stmt.barrier), stmt.shape
    masked = kernel.literal(shape.causal.value if shape.causal else 0.0, DType.F32)
    yield from (f"  {line}" for line in gradient_constants("Constants", shape, stmt.tiling, barrier, masked))
    if shape.causal is None:
        yield "  const int most_of = 0;"
    else:
        yield from kernel.closure("most_of", [f"float {stmt.most}"], stmt.position[:3], stmt.find_most, stmt.most)
    yield from kernel.closure("element", [f"float& {stmt.score}", f"float& {stmt.gradient}", row_sum], stmt.position,
                              stmt.body)
    pointers = [f"{name} + {rows.offset}" for name, rows in
                ((stmt.own, shape.own), (stmt.own_2, shape.own_2), (stmt.other, shape.other),
                 (stmt.other_2, shape.other_2), (stmt.result, shape.result))]
    arguments = ["thread", "(int)block", *pointers, result_2, f"(uint32_t*){stmt.tiles}", "most_of", "summand", "keep",
                 "element"]
    yield f"  {GRADIENT_TEMPLATE}<Constants>().run({', '.join(arguments)});"
    yield "}"


def attention_constants(name: str, shape: AttentionShape, tiling: AttentionTiling | SingleQueryTiling, barrier: str,
                        masked: str) -> Iterator[str]:
    """The struct that the template takes, as lines.

    Args:
        barrier: type of the one that all threads wait at.
        masked: the score of what is masked, if any is known to be.
    """
    if isinstance(tiling, SingleQueryTiling):
        own = {"WARPS": tiling.warps, "LANES": tiling.lanes, "STEPS": tiling.steps}
    else:
        tiles = shared_tiles((shape.depth, shape.width), shape.dtype)
        own = {"QUERY_WARPS": tiling.query_warps, "KEY_WARPS": tiling.key_warps, "WARP_KEYS": tiling.warp_keys,
               "K_VECTOR": tiles.k_vector, "V_VECTOR": tiles.v_vector,
               "K_STRIDE": tiles.k_stride, "V_STRIDE": tiles.v_stride,
               "CAUSAL": tiling.skips(shape), "AHEAD": shape.causal.ahead if shape.causal else 0}
    numbers = {"HEADS": shape.heads, "QUERIES": shape.queries, "KEYS": shape.keys,
               "DEPTH": shape.depth, "WIDTH": shape.width, **own,
               **_rows("Q", shape.q), **_rows("K", shape.k), **_rows("V", shape.v), **_rows("O", shape.out)}
    yield from _constants(name, shape.dtype, numbers, barrier, _masked(masked))


def gradient_constants(name: str, shape: GradientShape, tiling: GradientTiling, barrier: str, masked: str
                       ) -> Iterator[str]:
    """As attention_constants, for the other template."""
    numbers = {"HEADS": shape.heads, "ROWS_": shape.rows, "COLUMNS": shape.columns,
               "DEPTH": shape.depth, "WIDTH": shape.width, "WARPS": tiling.warps, "TILE": tiling.tile,
               "BY_KEYS": shape.by_keys, "HELD": tiling.held,
               "CAUSAL": shape.causal is not None, "AHEAD": shape.causal.ahead if shape.causal else 0,
               "VECTOR": float_vector(shape.depth), "VECTOR_2": float_vector(shape.width),
               **_rows("OWN", shape.own), **_rows("OWN_2", shape.own_2), **_rows("OTHER", shape.other),
               **_rows("OTHER_2", shape.other_2), **_rows("RESULT", shape.result),
               **_rows("RESULT_2", shape.result_2 or shape.result)}
    yield from _constants(name, shape.dtype, numbers, barrier, _masked(masked))


def _masked(value: str) -> str:
    return f"static __device__ __forceinline__ float masked() {{ return {value}; }}"


def _constants(name: str, dtype: DType, numbers: Mapping[str, int], barrier: str, *functions: str) -> Iterator[str]:
    yield f"struct {name} {{"
    yield f"  using Element = {_ELEMENT[dtype]};"
    yield f"  using Barrier = {barrier};"
    yield f"  enum : int {{ {', '.join(f'{key} = {int(value)}' for key, value in numbers.items())} }};"
    yield from (f"  {function}" for function in functions)
    yield "};"


def _rows(operand: str, rows: Rows) -> dict[str, int]:
    return {f"{operand}_OUTER": rows.outer, f"{operand}_HEAD": rows.head, f"{operand}_ROW": rows.row}
