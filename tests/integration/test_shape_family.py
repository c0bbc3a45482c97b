"""Which symbols of a region change, and which sizes are expected of them."""

from __future__ import annotations

from tf_stitch.integration.shape_family import MOST_SIGNATURES, ShapeFamily, expected_sizes
from tf_stitch.ir.sizes import size


def test_what_differed_changes() -> None:
    family: ShapeFamily[int] = ShapeFamily()
    family.meet({"b": 4, "n": 17})
    assert not family.changing
    family.meet({"b": 4, "n": 17})
    assert not family.changing
    family.meet({"b": 4, "n": 1})
    assert family.changing == {"n"}
    family.meet({"b": 8, "n": 17})
    assert family.changing == {"b", "n"}, "for good"


def test_the_executable_not_used_for_longest_is_dropped() -> None:
    family: ShapeFamily[int] = ShapeFamily()
    for i in range(MOST_SIGNATURES):
        family.keep(((i,),), i)
    assert family.find(((0,),)) == 0
    family.keep(((MOST_SIGNATURES,),), -1)
    assert family.find(((0,),)) == 0
    assert family.find(((1,),)) is None


def test_expected_sizes() -> None:
    alone = expected_sizes({"b": 4, "n": 17}, {"n"}, {}, (1, 50))
    assert alone == [{"b": 4, "n": 1}, {"b": 4, "n": 50}]
    both = expected_sizes({"b": 4, "n": 17}, {"b", "n"}, {}, (1, 50))
    assert both[-1] == {"b": 50, "n": 50}
    assert {"b": 4, "n": 50} in both
    rows = expected_sizes({"n": 17, "rows": 68}, {"n", "rows"}, {"rows": size("n", 17) * 4}, (1, 50))
    assert rows == [{"n": 1, "rows": 4}, {"n": 50, "rows": 200}]


def test_expected_sizes_of_a_multiple() -> None:
    parts = expected_sizes({"rows": 68}, {"rows"}, {"rows": size("part", 17) * 4}, (1, 50))
    assert [sizes["rows"] for sizes in parts] == [4, 200]
