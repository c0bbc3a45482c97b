"""The mutants can be made: each edit applies, once, to what is there, and names tests that are there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tools.mutants.__main__ import MUTANTS, ROOT
from tools.mutants.mutant import DoesNotApplyError, Mutant
from tools.mutants.trial import Tree


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_applies(mutant: Mutant) -> None:
    text = mutant.applied(ROOT)
    if mutant.file.endswith(".py"):
        compile(text, mutant.file, "exec")
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).exists()
        assert not name or f"def {name}(" in (ROOT / file).read_text()


def test_each_commit_kills_every_mutant(request: pytest.FixtureRequest) -> None:
    """What killed a mutant when all were last tried is not marked exhaustive, of what pytest collected: of all tests
    where it runs all."""
    known = json.loads(gzip.decompress((ROOT / "benchmarks/raw/mutants.json.gz").read_bytes()))["mutants"]
    killers = {mutant["killed_by"] for mutant in known.values()}
    assert len(killers) > 100
    exhaustive = {item.nodeid for item in request.session.items if item.get_closest_marker("exhaustive") is not None}
    assert killers.isdisjoint(exhaustive)


def test_names_are_distinct() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len({mutant.key for mutant in MUTANTS}) == len(MUTANTS) >= 60


def test_what_is_there_twice_does_not_apply(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(DoesNotApplyError, match="2 times"):
        Mutant("m", "a.py", "x = 1", "x = 2", ()).applied(tmp_path)


def test_a_mutant_is_killed_or_survives() -> None:
    """And the tree is as before."""
    mutant = Mutant("values that overlap share memory", "tf_stitch/kernel_ir/first_fit.py",
                    "offset = max(offset, end)", "offset = end - 1", ("tests/placement/test_arena.py",))
    with Tree(ROOT) as tree:
        before = (tree.path / mutant.file).read_text()
        killed = tree.checked(tree.try_mutant(mutant, 200), 200)
        assert killed.killed_by.startswith("tests/placement/test_arena.py::")
        assert (tree.path / mutant.file).read_text() == before
        survived = tree.try_mutant(Mutant("m", mutant.file, '"""The lowest place', '"""A low place', mutant.tests), 200)
        assert (survived.killed_by, survived.error) == ("", "")
