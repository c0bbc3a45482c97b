"""The grammar of templates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_stitch.errors import TemplateError
from tf_stitch.templates import ANY_OP, Level, LevelKind, OpSchedule, Template, parse_template

LEVELS = st.builds(Level, st.sampled_from(LevelKind), st.none() | st.integers(1, 1 << 40))
TILINGS = st.lists(LEVELS, min_size=1, max_size=5).map(tuple)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True) | st.just(ANY_OP)
OPS = st.builds(OpSchedule, NAMES, st.lists(TILINGS, min_size=1, max_size=4).map(tuple), st.booleans())
TEMPLATES = st.builds(Template, st.lists(OPS, min_size=1, max_size=4).map(tuple))


@given(TEMPLATES)
def test_what_is_printed_is_read(template: Template) -> None:
    assert parse_template(str(template)) == template


@given(TEMPLATES, st.sampled_from(["", " ", "\n", "\t "]))
def test_blanks_do_not_matter(template: Template, blank: str) -> None:
    text = str(template)
    for mark in "[],;-":
        text = text.replace(mark, f"{blank}{mark}{blank}")
    assert parse_template(text) == template


@pytest.mark.parametrize("text", [
    "mul_1[GRID,CTA]; add_1[GRID,CTA];", "mul_1[GRID,WARP,CTA];",
    "reduce_1[GRID,WARP,WARP,CTA]; dot_1[GRID,WARP,WARP];",
    "reduce_1[GRID_128-WARP_2,WARP,WARP,CTA]S;", "x[GRID,CTA,CTA,THREAD];"])
def test_templates_of_the_paper(text: str) -> None:
    assert str(parse_template(text)) == text


@pytest.mark.parametrize(("text", "message"), [
    ("", "its end, where an op's name"), ("mul_1", r"its end, where '\['"), ("mul_1[GRID]", "its end, where ';'"),
    ("mul_1[GRIDS];", "'GRIDS' before character 11, where GRID, CLUSTER, WARP, CTA or THREAD"),
    ("mul_1[];", "where GRID"),
    ("mul_1[GRID_0];", "a number from 1"), ("mul_1[GRID_];", "where GRID"), ("mul_1[GRID-];", "where GRID"),
    ("mul_1[GRID,];", "where GRID"), ("mul_1[GRID]T;", "'T' .* where ';'"), ("1x[GRID];", "'1'"),
    ("mul_1[GRID]; $", "'\\$' .* a name or one of"), (";", "an op's name")])
def test_bad_text_is_told_where(text: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        parse_template(text)
