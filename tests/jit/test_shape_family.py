"""Which symbols of a region change, and which sizes are expected of them."""

from __future__ import annotations

from tf_stitch.ir.symbolic_dims import size
from tf_stitch.jit.shape_family import MOST_SIGNATURES, ShapeFamily, expected_sizes, with_parts


def test_what_differed_changes() -> None:
    family: ShapeFamily[int] = ShapeFamily()
    family.observe({"b": 4, "n": 17})
    assert not family.change.symbols
    family.observe({"b": 4, "n": 17})
    assert not family.change.symbols
    family.observe({"b": 4, "n": 1})
    assert family.change.symbols == {"n"}
    family.observe({"b": 8, "n": 17})
    assert family.change.symbols == {"b", "n"}, "for good"


def test_the_executable_not_used_for_longest_is_dropped() -> None:
    family: ShapeFamily[int] = ShapeFamily()
    for i in range(MOST_SIGNATURES):
        family.keep(((i,),), i)
    assert family.find(((0,),)) == 0
    family.keep(((MOST_SIGNATURES,),), -1)
    assert family.find(((0,),)) == 0
    assert family.find(((1,),)) is None


def test_expected_sizes() -> None:
    alone = expected_sizes({"b": 4, "n": 17}, {"n"}, {}, (1, 50), {})
    assert alone == [{"b": 4, "n": 50}, {"b": 4, "n": 1}], "those near to what was met first"
    both = expected_sizes({"b": 4, "n": 17}, {"b", "n"}, {}, (1, 50), {})
    assert both[-1] == {"b": 1, "n": 1}
    assert {"b": 4, "n": 50} in both
    assert {"b": 50, "n": 50} in both
    rows = expected_sizes({"n": 17, "rows": 68}, {"n", "rows"}, {"rows": size("n", 17) * 4}, (1, 50), {})
    assert rows == [{"n": 50, "rows": 200}, {"n": 1, "rows": 4}]


def test_expected_sizes_of_an_empty_tensor() -> None:
    assert expected_sizes({"n": 0}, {"n"}, {}, (1, 50), {}) == [{"n": 1}, {"n": 50}]


def test_expected_sizes_of_a_multiple() -> None:
    related = {"rows": size("part", 17) * 4}
    parts = expected_sizes(with_parts({"rows": 68}, related), {"rows"}, related, (1, 50), {})
    assert [sizes["rows"] for sizes in parts] == [200, 4]


def test_sizes_that_were_equal_twice_are_expected_to_be() -> None:
    """Batch, length of the source and of the target."""
    names, sizes = {"b", "n", "m"}, {"b": 8, "n": 17, "m": 17}
    found = [tuple(one.values()) for one in expected_sizes(sizes, names, {}, (1, 50), {"b": 4, "n": 32, "m": 32})]
    assert sorted(found) == [(1, 1, 1), (1, 17, 17), (8, 1, 1), (8, 50, 50), (50, 17, 17), (50, 50, 50)]
    apart = [tuple(one.values()) for one in expected_sizes(sizes, names, {}, (50,), {"b": 4, "n": 32, "m": 31})]
    assert sorted(apart) == [(8, 17, 50), (8, 50, 17), (8, 50, 50), (50, 17, 17), (50, 17, 50), (50, 50, 17),
                             (50, 50, 50)]


def test_multiples_beside_others_are_expected() -> None:
    sizes = {"b": 10, "n": 10}
    apart = [tuple(one.values()) for one in expected_sizes(sizes, sizes, {}, (1, 31, 32), {"b": 3, "n": 4})]
    assert {(31, 31), (32, 32), (31, 32), (32, 31)} <= set(apart)
    assert (1, 31) not in apart
    assert len(set(apart)) == len(apart)
    assert (31, 32) not in [tuple(one.values()) for one in expected_sizes(sizes, sizes, {}, (1, 31, 32), {})]


def test_kernels_serve_the_sizes_that_are_known_to_change() -> None:
    family = ShapeFamily[int]()
    family.observe({"n": 3, "m": 4})
    assert not family.covers({"n": 3, "m": 4}), "nothing changes"
    family.observe({"n": 5, "m": 4})
    assert family.change.symbols == {"n"}
    assert family.covers({"n": 7, "m": 4})
    assert not family.covers({"n": 7, "m": 5})
