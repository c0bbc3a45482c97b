"""Pages, comments and docstrings have no turns that no native speaker uses."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = {
    r"\banew\b": "again",
    r"\bso many\b(?! that)": "this many, or as many",
    r"\b(for )?nobody knows\b": "unknown",
    r"\bnone of ours\b": "we skip ...",
    r"\bin halves\b": "in half precision",
    r"\bgo(es)? beside\b": "run in the background",
    r"\bg[ia]ves? way\b|\bgiving way\b": "falls back, becomes selects, is replaced",
    r"\bmend(s|ed|ing)?\b": "fix, repair",
    r"\bever after\b": "from then on",
    r"(?:[.:;] |^)who (reads|stacks|needs|loads|shares|goes|draws|has|had|sets)\b": "what, or whoever",
    r"\bloops? for nobody\b": "a loop without a known trip count",
}
"""Pattern -> what to say instead."""
UNREAD = ("cli", "jit", "report")
"""Packages of tf_stitch whose comments are not read yet."""
PAGES = sorted(path for folder in (ROOT, ROOT / "docs", ROOT / "docs" / "decisions", ROOT / "docs" / "tutorials")
               for path in folder.glob("*.md") if path.name != "CHANGELOG.md")  # fmt: skip
SOURCES = sorted(path for path in (ROOT / "tf_stitch").rglob("*.py")
                 if path.relative_to(ROOT / "tf_stitch").parts[0] not in UNREAD)  # fmt: skip


def found(prose: str) -> list[str]:
    """What WORDS find, with what to say instead."""
    flat = " ".join(prose.split())
    return [f"{match[0]!r}: say {instead}; in: ...{flat[max(match.start() - 30, 0):match.end() + 30]}..."
            for pattern, instead in WORDS.items() for match in re.finditer(pattern, flat, re.I)]


def prose_of_page(text: str) -> str:
    """Without blocks of code, which show what programs print, and without what stands in backticks or quotes."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`|\"[^\"\n]*\"", "", text)


def prose_of_source(text: str) -> Iterator[str]:
    """Comments, and strings that are statements, as docstrings are."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@pytest.mark.parametrize("page", [*PAGES, ROOT / "benchmarks" / "README.md"], ids=lambda p: str(p.relative_to(ROOT)))
def test_pages(page: Path) -> None:
    assert found(prose_of_page(page.read_text())) == []


def test_comments_and_docstrings() -> None:
    assert {str(path.relative_to(ROOT)): turns for path in SOURCES
            if (turns := [turn for prose in prose_of_source(path.read_text()) for turn in found(prose)])} == {}


def test_docstrings_begin_with_what_there_is() -> None:
    """"The threads of a block", not "Of a block": the name above is not part of the sentence."""
    beginnings = {f"{path.relative_to(ROOT)}: {node.name}" for path in SOURCES
                  for node in ast.walk(ast.parse(path.read_text()))
                  if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
                  and (ast.get_docstring(node) or "").startswith(("Of ", "That of ", "Those "))}
    assert beginnings == set()


def test_a_turn_is_found_over_lines_and_not_in_code() -> None:
    assert len(found("made\n    anew by so\nmany threads")) == 2
    assert found(prose_of_page("```\n0 gave way\n```\n`anew`, \"mended\"")) == []
    assert list(prose_of_source('x = "anew"  # a comment\n"""of x"""\n')) == ["of x", "# a comment"]
