"""Text of graphs, read back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.golden.test_plans import GRAPHS
from tests.planning.dags import random_graph
from tf_stitch.errors import TypeRuleError
from tf_stitch.ir.op_attrs import Combine, ScatterAttrs
from tf_stitch.ir.text_format import format_graph
from tf_stitch.ir.text_parser import parse_graph


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_come_back(seed: int) -> None:
    text = format_graph(random_graph(seed))
    again = format_graph(parse_graph(text))
    assert [line.partition("#")[0] for line in again.splitlines() if "array[" not in line] == \
        [line for line in text.splitlines() if "array[" not in line]


@pytest.mark.parametrize("path", sorted(GRAPHS.glob("*.txt")), ids=lambda path: path.stem)
def test_dumps_of_scripts_come_back(path: Path) -> None:
    text = path.read_text()
    assert format_graph(parse_graph(text)) == text


@pytest.mark.parametrize("line", ["  %0 = nothing() : float32[2]", "hello", "  out o0 = %7",
                                  "  %0 = input() {key=x, type=float32[2]} : float32[3]",
                                  "  %0 = input() {key=x} : float32[3]"])
def test_a_wrong_line_is_quoted(line: str) -> None:
    with pytest.raises(TypeRuleError, match=re.escape(repr(line))):
        parse_graph(f"graph g\n{line}\n")


def test_text_begins_with_the_graph() -> None:
    with pytest.raises(TypeRuleError, match="begins"):
        parse_graph("nothing")


def test_attributes_that_a_text_is_older_than_have_their_defaults() -> None:
    graph = parse_graph("""graph g
  %0 = input() {key=x, type=float32[4,2]} : float32[4,2]
  %1 = input() {key=rows, type=int32[3]} : int32[3]
  %2 = input() {key=y, type=float32[3,2]} : float32[3,2]
  %3 = scatter(%0, %1, %2) {shape=[4,2], combine=sum, updates_first=True} : float32[4,2]
  out o0 = %3
""")
    assert graph.outputs[0][1].attrs == ScatterAttrs((4, 2), Combine.SUM, updates_first=True)
