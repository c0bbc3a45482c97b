"""CUDA C++ of attention kernels: the constants that the template in attention.cu reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources

from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir.attention import AttentionShape, AttentionTiling, Rows, SingleQueryTiling, shared_tiles
from tf_stitch.kernel_ir.attention_gradient import GradientShape, GradientTiling, float_vector

TEMPLATE, SINGLE_TEMPLATE, GRADIENT_TEMPLATE = "tfs_attention", "tfs_attention_single", "tfs_attention_gradient"
"""The structs of the templates; the first is what names of all begin with."""
_ELEMENT = {DType.F32: "tfs_tf32", DType.F16: "tfs_f16", DType.BF16: "tfs_bf16"}


def attention_template() -> str:
    """What kernels with attention need besides the prelude."""
    folder = resources.files("tf_stitch.emit")
    names = ("attention_ptx.cu", "attention_tiles.cu", "attention.cu", "attention_single.cu",
             "attention_gradient.cu")
    return "\n".join((folder / name).read_text() for name in names)


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
