"""What the documents say of the code is so."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.end_to_end.conftest import ROOT
from tf_stitch import errors
from tf_stitch.config import VARIABLES, StitchConfig

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")),
             *(ROOT / "benchmarks" / name for name in ("README.md", "networks.md", "models.md"))]  # fmt: skip

SOURCES = [str(path.relative_to(ROOT)) for top in ("tf_stitch", "tests", "tools", "models", "pyproject.toml")
           for path in ([ROOT / top] if (ROOT / top).is_file() else (ROOT / top).rglob("*.*"))]
EXAMPLES = {"train.py", "script.py", "source.cu"}
"""Programs of the user's, and a file of a dump."""


def rows(path: Path) -> dict[str, list[str]]:
    """Table rows by the code in their first cell."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in path.read_text().splitlines()
             if line.startswith("| `")]  # fmt: skip
    return {row[0].strip("`"): row[1:] for row in cells}


def test_every_variable_is_documented() -> None:
    table = {name: row for name, row in rows(ROOT / "docs" / "environment.md").items() if name.startswith("TF_STITCH")}
    assert list(table) == list(VARIABLES)
    for name, variable in VARIABLES.items():
        allowed, default, purpose = table[name]
        assert (allowed, purpose) == (variable.allowed, variable.doc)
        value = getattr(StitchConfig(), variable.field)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            assert default == f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def test_variables_of_the_readme_exist() -> None:
    for document in DOCUMENTS:
        named = set(re.findall(r"TF_STITCH\w*", document.read_text())) - {"TF_STITCH_X", "TF_STITCH_"}
        assert named <= VARIABLES.keys(), document.name


def test_every_error_is_documented() -> None:
    classes = {name for name, value in vars(errors).items()
               if isinstance(value, type) and issubclass(value, errors.StitchError)}  # fmt: skip
    documented = {name for name in rows(ROOT / "docs" / "errors.md") if name.endswith("Error")}
    assert documented == classes - {"StitchError"}


def test_every_dependency_is_documented() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    lists = re.findall(r"^(?:dependencies|gpu|demo|test|dev) = \[(.*?)\]$", project, re.M | re.S)
    assert len(lists) == 5
    names = {name for text in lists for name in re.findall(r'"([\w-]+)', text)} - {"tf_stitch"}
    assert names <= set(re.findall(r"[\w-]+", (ROOT / "docs" / "dependencies.md").read_text()))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for link, _, anchor in re.findall(r"\]\(([\w./-]*)(#([\w-]+))?\)", document.read_text()):
        target = document.parent / link if link else document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), f"{link}#{anchor}"


def anchors(document: Path) -> set[str]:
    """What links may name of a page: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_that_are_named_exist(document: Path) -> None:
    """Sources by their path, or by their name alone where one file has it; examples that a reader is to write are in
    blocks of code."""
    prose = re.sub(r"^ *```.*?^ *```", "", document.read_text(), flags=re.M | re.S)
    for code in re.findall(r"`([^`\n]+)`", prose):
        for name in re.findall(r"(?<![\w/<*.-])((?:[\w.-]+/)*\w+\.(?:py|cc|cu|h|sh|toml))\b", code):
            assert name in EXAMPLES or any(f"/{source}".endswith(f"/{name}") for source in SOURCES), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_exist(document: Path) -> None:
    text = document.read_text()
    for name in re.findall(r"`((?:tools|tests|models|docs|tf_stitch|plugin|graph|jit|report|compiler|native|ir|"
                           r"frontend|legalize|planning|passes|schedule|lowering|emit|runtime)/[\w./]+)`",
                           text):  # fmt: skip
        places = (ROOT, ROOT / "tf_stitch", ROOT / "tf_stitch" / "frontend" / "tensorflow")
        assert any((place / name).exists() or (place / f"{name}.py").exists() for place in places), name


@pytest.mark.parametrize("command", ["tools/demo.sh", "tools/test.sh", ".ci/run"])
def test_commands_can_be_run(command: str) -> None:
    assert os.access(ROOT / command, os.X_OK)


def test_ci_runs_the_second_command() -> None:
    assert "tools/test.sh" in (ROOT / ".ci" / "run").read_text()


def test_every_stage_of_the_report_is_documented() -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    sources = "".join(path.read_text() for path in (ROOT / "tf_stitch").rglob("*.py"))
    said = set(re.findall(r"\.(?:fallback|note|remark)\(\s*\"([\w ]+)\"", sources))
    assert said
    assert {stage for stage in said if f"`{stage}`" not in text} == set()
