"""What is known of masks of scores that no input decides."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential import patterns as p
from tf_stitch.ir.causal_masks import CausalMask, causal_mask_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.symbolic_dims import size

B, F32 = p.B, DType.F32
SHAPE = (2, 3, 5, 7)
X = B.input("x", F32, SHAPE)
FAR = -1e9


def filled(value: float, like: Node = X) -> Node:
    with np.errstate(over="ignore"):
        return B.broadcast(B.constant(value, like.type.dtype), like.type.shape)


def masked(mask: Node, x: Node = X, value: float = FAR) -> Node:
    return B.select(mask, x, filled(value, x))


def compared(kind: K = K.LESS_EQUAL, ahead: int = 0, shape: tuple[int, ...] = SHAPE) -> Node:
    """Numbers of keys, compared with those of queries + ahead."""
    query, key = (B.iota(shape, len(shape) - 2 + i, DType.I32) for i in range(2))
    return B.op(kind, key, B.add(query, filled(ahead, query)))


def allowed(shape: tuple[int, ...] = SHAPE) -> Node:
    return B.input("allowed", DType.BOOL, shape)


@pytest.mark.parametrize("ahead", [-5, -2, 0, 1, 5])
def test_of_a_comparison(ahead: int) -> None:
    assert causal_mask_of(masked(compared(ahead=ahead))) == CausalMask(ahead, FAR)
    assert causal_mask_of(masked(compared(K.LESS, ahead + 1))) == CausalMask(ahead, FAR)


@pytest.mark.parametrize("ahead", [-9, -6])
def test_no_query_sees_a_key(ahead: int) -> None:
    """However far: no key of the last query, which is number 4, is seen."""
    assert causal_mask_of(masked(compared(ahead=ahead))) == CausalMask(-5, FAR)


def test_queries_that_see_nothing_do_not_decide() -> None:
    mask = np.tri(5, 7, -2, dtype=bool)
    assert not mask[:2].any()
    assert causal_mask_of(masked(B.broadcast(B.constant(mask, DType.BOOL), SHAPE))) == CausalMask(-2, FAR)


@pytest.mark.parametrize("ahead", [6, 7, 100])
def test_where_every_query_sees_every_key_nothing_is_known(ahead: int) -> None:
    assert causal_mask_of(masked(compared(ahead=ahead))) is None


def test_inverted() -> None:
    known = CausalMask(1, FAR)
    above = compared(K.GREATER, 1)
    assert causal_mask_of(B.select(above, filled(FAR), X)) == known
    assert causal_mask_of(masked(B.op(K.LOGICAL_NOT, above))) == known
    assert causal_mask_of(B.select(B.op(K.LOGICAL_NOT, compared(ahead=1)), filled(FAR), X)) == known
    assert causal_mask_of(masked(above)) is None, "the last key is seen by all but few, the first by none"


def test_with_a_mask_that_inputs_decide() -> None:
    """What is not seen by one of the two is not seen."""
    known = CausalMask(1, FAR)
    for one, other in ((compared(ahead=1), allowed()), (allowed(), compared(ahead=1))):
        assert causal_mask_of(masked(B.op(K.AND, one, other))) == known
        assert causal_mask_of(masked(B.op(K.OR, one, other))) is None
    for one, other in ((compared(K.GREATER, 1), allowed()), (allowed(), compared(K.GREATER, 1))):
        assert causal_mask_of(B.select(B.op(K.OR, one, other), filled(FAR), X)) == known
        assert causal_mask_of(B.select(B.op(K.AND, one, other), filled(FAR), X)) is None
    assert causal_mask_of(masked(B.op(K.AND, compared(ahead=3), B.op(K.AND, compared(ahead=2), allowed())))) == \
        CausalMask(2, FAR)


def test_of_one_matrix_for_all() -> None:
    matrix = B.reshape(compared(shape=SHAPE[-2:], ahead=2), (1, 1, 5, 7))
    assert causal_mask_of(masked(B.broadcast(matrix, SHAPE))) == CausalMask(2, FAR)
    known = B.op(K.AND, matrix, allowed((1, 1, 5, 7)))
    assert causal_mask_of(masked(B.broadcast(known, SHAPE))) == CausalMask(2, FAR)
    split = B.reshape(B.op(K.AND, compared(shape=(6, 5, 7)), allowed((6, 5, 7))), SHAPE)
    assert causal_mask_of(masked(split)) == CausalMask(0, FAR)


def test_of_what_is_broadcast_along_keys_or_queries() -> None:
    """Positions are those of the scores, not of the operand."""
    keys = B.constant(np.arange(7) < 3, DType.BOOL)
    assert causal_mask_of(masked(B.broadcast(keys, SHAPE))) == CausalMask(2, FAR)
    queries = B.constant((np.arange(5) < 2)[:, None], DType.BOOL)
    assert causal_mask_of(masked(B.broadcast(queries, SHAPE))) is None


def test_a_reshape_of_other_positions_is_looked_at_as_a_whole() -> None:
    row = B.constant(np.tri(5, 7, dtype=bool).reshape(35), DType.BOOL)
    assert causal_mask_of(masked(B.broadcast(B.reshape(row, (5, 7)), SHAPE))) == CausalMask(0, FAR)
    assert causal_mask_of(masked(B.broadcast(B.reshape(allowed((35,)), (5, 7)), SHAPE))) is None


@pytest.mark.parametrize(("given", "cast", "known"), [
    (DType.BF16, F32, True), (DType.F16, F32, True), (F32, DType.F64, True),
    (F32, DType.BF16, False), (DType.F16, DType.BF16, False), (DType.I32, F32, False)])
def test_casts_that_keep_each_value(given: DType, cast: DType, known: bool) -> None:
    x = B.input("y", given, SHAPE)
    value = -30000.0
    stored = float(np.array(value).astype(given.numpy))
    found = causal_mask_of(B.cast(masked(compared(), x, value), cast))
    assert found == (CausalMask(0, stored) if known else None)


def test_values_as_they_are_stored() -> None:
    assert causal_mask_of(masked(compared(), B.input("h", DType.F16, SHAPE))) == CausalMask(0, -np.inf)


def test_a_constant_matrix_and_a_band() -> None:
    rows, columns = np.indices((5, 7))
    band = (columns <= rows + 1) & (columns >= rows - 2)
    assert causal_mask_of(masked(B.broadcast(B.constant(band, DType.BOOL), SHAPE))) == CausalMask(1, FAR)
    computed = B.op(K.AND, compared(ahead=1), compared(K.GREATER_EQUAL, -2))
    assert causal_mask_of(masked(computed)) == CausalMask(1, FAR)


def test_matrices_that_differ_know_what_they_have_in_common() -> None:
    each = np.stack([np.tri(5, 7, k, dtype=bool) for k in (0, 3, 1)])
    assert causal_mask_of(masked(B.broadcast(B.constant(each, DType.BOOL), SHAPE))) == CausalMask(3, FAR)


def test_what_inputs_decide_is_unknown() -> None:
    assert causal_mask_of(masked(allowed())) is None
    assert causal_mask_of(masked(B.op(K.LOGICAL_NOT, allowed()))) is None
    last = B.broadcast(B.input("last", DType.I32, ()), SHAPE)
    assert causal_mask_of(masked(B.op(K.LESS_EQUAL, B.iota(SHAPE, 3, DType.I32), last))) is None
    assert causal_mask_of(masked(B.op(K.LESS_EQUAL, B.iota(SHAPE, 3, DType.I32),
                                      B.broadcast(B.variable("v", DType.I32, ()), SHAPE)))) is None


def test_values_that_are_not_one_constant_are_unknown() -> None:
    table = B.broadcast(B.constant(np.full(7, FAR), F32), SHAPE)
    for other in (B.input("z", F32, SHAPE), B.broadcast(B.input("s", F32, ()), SHAPE), table):
        assert causal_mask_of(B.select(compared(), X, other)) is None
    assert causal_mask_of(B.add(masked(compared()), X)) is None
    numbers = B.input("n", DType.I32, SHAPE)
    assert causal_mask_of(masked(compared(), numbers, -1)) is None


def test_of_vectors_nothing_is_known() -> None:
    x = B.input("row", F32, (7,))
    assert causal_mask_of(masked(B.constant(np.arange(7) < 3, DType.BOOL), x)) is None


def test_large_masks_are_not_computed_to_be_looked_at() -> None:
    shape = (16, 12, 256, 256)
    x = B.input("large", F32, shape)
    assert causal_mask_of(masked(compared(shape=shape), x)) is None
    one = B.broadcast(compared(shape=(256, 256)), shape)
    assert causal_mask_of(masked(one, x)) == CausalMask(0, FAR)


def test_sizes_that_change() -> None:
    """A size is one of many: what is true of it may not be of the next."""
    n = size("n", 7, 1)
    x = B.input("x", F32, (2, n, n))
    assert causal_mask_of(masked(compared(shape=(2, n, n)), x)) is None
    batch = B.input("x", F32, (n, 5, 7))
    assert causal_mask_of(masked(B.broadcast(compared(shape=(5, 7)), (n, 5, 7)), batch)) == CausalMask(0, FAR)


def test_a_size_that_changes_shifts_the_mask() -> None:
    x = B.input("x", F32, (5, 7))
    query, key = (B.iota((5, 7), axis, DType.I32) for axis in range(2))
    count = B.broadcast(B.extent((size("n", 3, 1),), DType.I32), (5, 7))
    assert causal_mask_of(masked(B.op(K.LESS_EQUAL, key, B.sub(query, count)), x)) is None
    known = B.broadcast(B.extent((3,), DType.I32), (5, 7))
    assert causal_mask_of(masked(B.op(K.LESS_EQUAL, key, B.sub(query, known)), x)) == CausalMask(-3, FAR)


def test_a_part_that_begins_at_a_size_that_changes() -> None:
    x = B.input("x", F32, (5, 7))
    long = B.constant(np.tri(20, 7, dtype=bool), DType.BOOL)
    assert causal_mask_of(masked(B.slice(long, (size("n", 3, 1), 0), (1, 1), (5, 7)), x)) is None
    assert causal_mask_of(masked(B.slice(long, (1, 0), (1, 1), (5, 7)), x)) == CausalMask(1, FAR)


def test_masks_of_fewer_positions_are_repeated() -> None:
    """select and its condition's operands broadcast on their own: what is true of the first key, or query, is true of
    each."""
    queries = B.constant((np.arange(5) < 2)[:, None], DType.BOOL)
    assert causal_mask_of(masked(queries)) is None, "the first queries see every key"
    assert causal_mask_of(masked(B.op(K.AND, queries, allowed()))) is None
    assert causal_mask_of(masked(B.op(K.AND, B.op(K.AND, queries, compared(ahead=1)), allowed()))) == \
        CausalMask(1, FAR)
    assert causal_mask_of(masked(compared(shape=(5, 7), ahead=1))) == CausalMask(1, FAR)
    row = B.broadcast(B.constant(FAR, F32), (1, 7))
    assert causal_mask_of(B.select(compared(), B.input("r", F32, (1, 1)), row)) == CausalMask(0, FAR)
