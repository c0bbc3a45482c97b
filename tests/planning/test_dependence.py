"""What has to run before what."""

from __future__ import annotations

import pytest

from tf_stitch.planning.dependence import order_groups, representatives


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
