"""CUDA C++ of matmul kernels: the constants that the template in matmul.cu reads."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir.matmul import MatmulOperand, MatmulShape, MatmulTiling, line_words

TEMPLATE = "tfs_matmul"
"""The struct of the template."""
_ELEMENT = {DType.F32: "tfs_tf32", DType.F16: "tfs_f16", DType.BF16: "tfs_bf16"}


def matmul_template(alone: bool) -> str:
    """What kernels with matmuls need besides the prelude.

    Args:
        alone: no kernel with attention is beside them, which needs the same of tensor cores.
    """
    folder = resources.files("tf_stitch.emit")
    names = (*(["attention_ptx.cu"] if alone else []), "matmul.cu")
    return "\n".join((folder / name).read_text() for name in names)


def matmul_constants(name: str, shape: MatmulShape, tiling: MatmulTiling, barrier: str, ahead: bool) -> Iterator[str]:
    """The struct that the template takes, as lines.

    Args:
        ahead: b's first stages are on their way when it runs.
        barrier: type of the one that all threads wait at.
    """
    numbers = {"MATRICES": shape.matrices, "M": shape.m, "N": shape.n, "K": shape.k,
               "ROWS": tiling.rows, "COLUMNS": tiling.columns, "WORDS": tiling.words,
               "ROW_WARPS": tiling.row_warps, "COLUMN_WARPS": tiling.column_warps, "PARTS": tiling.parts,
               "SHARERS": tiling.sharers, "STAGES": tiling.stages, "AHEAD": ahead, "VECTOR": shape.vector,
               "GATES": shape.gates}
    operands = {"A": _operand(shape.a, shape.m, tiling.rows, 1, shape, tiling),
                "B": _operand(shape.b, shape.n, tiling.columns, shape.gates, shape, tiling)}
    yield f"struct {name} {{"
    yield f"  using Element = {_ELEMENT[shape.dtype]};"
    yield f"  using Barrier = {barrier};"
    yield f"  enum : int {{ {_listed(numbers)} }};"
    for operand, its_numbers in operands.items():
        yield f"  struct {operand} {{"
        yield f"    enum : int {{ {_listed(its_numbers)} }};"
        yield "  };"
    yield "};"


def _operand(operand: MatmulOperand, whole: int, extent: int, gates: int, shape: MatmulShape, tiling: MatmulTiling
             ) -> dict[str, int]:
    place = operand.place
    return {"EXTENT": extent, "WHOLE": whole, "GATES": gates,
            "ALONG_TERMS": operand.along_terms, "VECTOR": operand.vector,
            "LINE": line_words(extent, operand.along_terms, shape.dtype, tiling), "PLAIN": place is not None,
            "MATRIX_STEP": place.matrix if place else 0, "LINE_STEP": place.line if place else 0}


def _listed(numbers: dict[str, int]) -> str:
    return ", ".join(f"{key} = {int(value)}" for key, value in numbers.items())
