"""CUDA C++ of attention kernels: the constants that the template in attention.cu reads."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir.attention import AttentionShape, AttentionTiling, Rows, shared_tiles

TEMPLATE = "tfs_attention"
"""The struct of the template."""
_ELEMENT = {DType.F32: "tfs_tf32", DType.F16: "tfs_f16", DType.BF16: "tfs_bf16"}


def attention_template() -> str:
    """What kernels with attention need besides the prelude."""
    folder = resources.files("tf_stitch.emit")
    return "\n".join((folder / name).read_text() for name in ("attention_ptx.cu", "attention.cu"))


def attention_constants(name: str, shape: AttentionShape, tiling: AttentionTiling, barrier: str) -> Iterator[str]:
    """The struct that the template takes, as lines.

    Args:
        barrier: type of the one that all threads wait at.
    """
    tiles = shared_tiles((shape.depth, shape.width), shape.dtype)
    numbers = {"HEADS": shape.heads, "QUERIES": shape.queries, "KEYS": shape.keys,
               "DEPTH": shape.depth, "WIDTH": shape.width,
               "QUERY_WARPS": tiling.query_warps, "KEY_WARPS": tiling.key_warps, "WARP_KEYS": tiling.warp_keys,
               "K_VECTOR": tiles.k_vector, "V_VECTOR": tiles.v_vector,
               "K_STRIDE": tiles.k_stride, "V_STRIDE": tiles.v_stride,
               **_rows("Q", shape.q), **_rows("K", shape.k), **_rows("V", shape.v), **_rows("O", shape.out)}
    yield f"struct {name} {{"
    yield f"  using Element = {_ELEMENT[shape.dtype]};"
    yield f"  using Barrier = {barrier};"
    yield f"  enum : int {{ {', '.join(f'{key} = {int(value)}' for key, value in numbers.items())} }};"
    yield "};"


def _rows(operand: str, rows: Rows) -> dict[str, int]:
    return {f"{operand}_OUTER": rows.outer, f"{operand}_HEAD": rows.head, f"{operand}_ROW": rows.row}
