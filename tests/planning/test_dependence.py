"""What has to run before what."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.dependence import order_groups, representatives, update_edges


def test_a_group_comes_after_what_it_needs_whatever_is_wished() -> None:
    assert order_groups([[0], [1]], [(1,), ()], [(0, 1)]) == [1, 0]


def test_wishes_are_kept_where_nothing_contradicts_them() -> None:
    assert order_groups([[0], [1], [2]], [(), (), (0,)], [(1, 0)]) == [1, 0, 2]


def test_ties_go_to_the_first_position() -> None:
    assert order_groups([[2], [1], [0]], [(), (), ()], []) == [2, 1, 0]


def test_groups_that_need_each_other_have_no_order() -> None:
    with pytest.raises(ValueError, match="groups need each other"):
        order_groups([[0, 3], [1, 2]], [(), (0,), (), (2,)], [])


def test_sets_that_overlap_have_one_representative() -> None:
    found = representatives([(0, 1), (1, 2), (5, 6)])
    assert found[0] == found[1] == found[2]
    assert found[5] == found[6] != found[0]


@pytest.mark.parametrize("in_place", [False, True])
def test_who_reads_what_a_scatter_writes_over_comes_first(in_place: bool) -> None:
    b = p.B
    old, rows = b.input("old", DType.F32, (8, 4)), b.input("rows", DType.I32, (2,))
    updates = b.input("updates", DType.F32, (2, 4))
    first, second = old, old
    for _ in range(2):
        first, second = second, b.scatter(second, rows, updates, (8, 4), Combine.SET, in_place=in_place)
    seen = b.exp(b.reshape(first, (4, 8)))
    nodes = TensorGraph("g", [("o0", second), ("o1", seen)]).nodes()
    work = [n for n in nodes if n.kind in (OpKind.SCATTER, OpKind.EXP)]
    edges = {(work[a], work[b]) for a, b in update_edges(TensorGraph("g", [("o0", second), ("o1", seen)]), nodes, work)}
    assert edges == ({(seen, second)} if in_place else set())
