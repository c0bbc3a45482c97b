"""The main diagonals of matrices: read, made and replaced. Others have TensorFlow's ops."""

from __future__ import annotations

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K


@legalize("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part(ctx: NodeContext) -> Node:
    """[..., m, n] to [..., min(m, n)]: every (n + 1)th element of a matrix."""
    x = ctx.value(0)
    rows, columns = _matrix(ctx, x, 1)
    lead, length = x.type.shape[:-2], min(rows, columns)
    flat = ctx.b.reshape(x, (*lead, rows * columns))
    return ctx.b.slice(flat, [0] * len(lead) + [0], [1] * len(lead) + [columns + 1], (*lead, length))


@legalize("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def matrix_diag(ctx: NodeContext) -> Node:
    """[..., n] to [..., n, n], or to matrices that have more of rows or of columns; with zeros, or what is said, beside
    the diagonal."""
    x = ctx.value(0)
    size = x.type.shape[-1] if x.type.rank else None
    if not isinstance(size, int):
        raise UnsupportedError(f"{ctx.op} of {x.type}")
    rows = columns = size
    if len(ctx) > 1:
        _require_main(ctx, 1)
        rows, columns = (size if said == -1 else said for said in (ctx.scalar(2, "rows"), ctx.scalar(3, "columns")))
    if min(rows, columns) != size:  # for TensorFlow's kernel to say
        raise UnsupportedError(f"{ctx.op}: {size} elements in matrices of {rows} x {columns}")
    beside = ctx.value(4) if len(ctx) > 4 else ctx.b.scalar_like(0, x)
    return ctx.b.select(_on_diagonal(ctx.b, rows, columns), _along(ctx.b, x, rows, columns), beside)


@legalize("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag(ctx: NodeContext) -> Node:
    """Matrices [..., m, n] with [..., min(m, n)] on their diagonals."""
    x, diagonal = ctx.value(0), ctx.value(1)
    rows, columns = _matrix(ctx, x, 2)
    return ctx.b.select(_on_diagonal(ctx.b, rows, columns), _along(ctx.b, diagonal, rows, columns), x)


def _along(b: Builder, diagonal: Node, rows: int, columns: int) -> Node:
    """[..., min(rows, columns)] as matrices of one column, or of one row: each element has the row and the column."""
    lead = diagonal.type.shape[:-1]
    return b.reshape(diagonal, (*lead, rows, 1) if rows <= columns else (*lead, 1, columns))


def _matrix(ctx: NodeContext, x: Node, which: int) -> tuple[int, int]:
    """Rows and columns of matrices whose main diagonal an op is about.

    Args:
        which: the input that says the diagonal, if there is one.
    """
    rows, columns = x.type.shape[-2:] if x.type.rank > 1 else (None, None)
    if not isinstance(rows, int) or not isinstance(columns, int) or 0 in (rows, columns):
        raise UnsupportedError(f"{ctx.op} of {x.type}")
    if len(ctx) > which:
        _require_main(ctx, which)
    return rows, columns


def _require_main(ctx: NodeContext, which: int) -> None:
    if set(ctx.ints(which, "the diagonal")) != {0}:
        raise UnsupportedError(f"{ctx.op} of other diagonals than the main one")


def _on_diagonal(b: Builder, rows: int, columns: int) -> Node:
    """Whether an element is, [rows, columns]."""
    return b.op(K.EQUAL, b.iota((rows, 1), 0, DType.I32), b.iota((1, columns), 1, DType.I32))
