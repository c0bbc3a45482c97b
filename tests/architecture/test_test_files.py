"""A test file is named after what it tests (docs/architecture.md)."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import TESTS
from tests.support.durations import recorded

ROOT = TESTS.parent
SUBJECTS = {"architecture", "differential", "end_to_end", "golden"}
"""Folders whose tests are about the tree, about levels that have to agree, about whole programs, and about plans as
text: named after a rule, a kind of value or graph, and what a user does."""
SOURCES = {".py", ".cc", ".h", ".cu", ".sh"}


def home(folder: Path) -> Path:
    """The sources that the tests of a folder of tests/ are about."""
    part, *_ = folder.parts or ("",)
    return {"tools": ROOT / "tools", "support": TESTS / "support"}.get(part, ROOT / "tf_stitch" / part)


def names(folder: Path) -> set[str]:
    """What a test in a folder of tests/ may be called: after its part, and modules and folders in it; beside the parts
    after modules that are in none. `__main__` is called main."""
    place = home(folder)
    below = place.rglob("*") if folder.parts else place.glob("*")
    return {path.stem.strip("_") for path in (place, *below) if path.is_dir() or path.suffix in SOURCES}


def wrongly_named(files: list[Path]) -> list[str]:
    """Those of `files`, relative to tests/, that no module or folder of their part is called like. A test that needs a
    GPU may stand in a file of its own beside the others: `test_while_op_gpu.py`."""
    def is_right(file: Path) -> bool:
        name = file.stem.removeprefix("test_")
        return file.parts[0] in SUBJECTS or not names(file.parent).isdisjoint({name, name.removesuffix("_gpu")})

    return [str(file) for file in files if not is_right(file)]


def test_test_files_are_named_after_their_modules() -> None:
    files = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py"))]
    assert wrongly_named(files) == [], "name it after its module, or put it in a folder of SUBJECTS"


def test_a_subject_is_no_module() -> None:
    assert wrongly_named([Path("planning/test_planner.py"), Path("native/test_while_op_gpu.py"),
                          Path("cli/test_page.py"), Path("test_main.py"), Path("end_to_end/test_loops.py"),
                          Path("planning/test_growth.py"), Path("test_planner.py"), Path("ir/test_planner.py")]
                         ) == ["planning/test_growth.py", "test_planner.py", "ir/test_planner.py"]


def test_files_on_record_are_there() -> None:
    assert [name for name in recorded() if not (TESTS / name).is_file()] == []
