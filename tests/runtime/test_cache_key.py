from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tf_stitch.runtime.cache_key import package_digest, sources_digest


def tree(folder: Path) -> Path:
    for name, text in (("a.py", "1"), ("inner/b.py", "2"), ("inner/c.json", "{}"), ("inner/d.txt", "3")):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_equal_trees_have_one_digest_wherever_they_lie(tmp_path: Path) -> None:
    assert sources_digest(tree(tmp_path / "one")) == sources_digest(tree(tmp_path / "other"))


@pytest.mark.parametrize(("change", "counts"), [
    (lambda folder: (folder / "a.py").write_text("2"), True),
    (lambda folder: (folder / "inner/c.json").write_text("[]"), True),
    (lambda folder: (folder / "inner/b.py").rename(folder / "b.py"), True),
    (lambda folder: (folder / "inner/new.py").write_text(""), True),
    (lambda folder: (folder / "inner/d.txt").write_text("4"), False),
])
def test_what_changes_it(tmp_path: Path, change: Callable[[Path], object], counts: bool) -> None:
    folder = tree(tmp_path)
    before = sources_digest(folder)
    change(folder)
    assert (sources_digest(folder) != before) == counts


def test_of_the_package_itself() -> None:
    assert package_digest() == sources_digest(Path(__file__).parents[2] / "tf_stitch")
