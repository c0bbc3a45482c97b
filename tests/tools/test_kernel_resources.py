"""No kernel of the zoo spills: a sample built here, all of them in the committed table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential.runner import cache
from tf_stitch.device.spec import H200
from tf_stitch.kernel_ir.nodes import Program
from tools.benchmark.raw_rows import raw_rows, read_rows
from tools.cost_report.cases import program_regions
from tools.cost_report.resources import collect, markdown, measured, summary

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("name", ["dyn-rnn", "word2vec", "perceptron", "dien"])
def test_a_models_kernels_do_not_spill(name: str) -> None:
    """Of dyn-rnn's two spilled with vectors of four: inlined matmuls take hundreds of registers so. Of dien's one
    did whose blocks read all partial sums of two columns before they added them up."""
    launches: dict[tuple[Program, ...], str] = {}
    collect(name, program_regions(H200, name), launches)
    rows = measured(launches, H200, cache())
    assert len(rows) == len(launches) > 0
    assert all(row["registers"] * row["threads"] * max(row["resident"], 1) <= 65536 for row in rows)
    assert [row for row in rows if row["spilled_bytes"]] == []


def test_the_committed_table() -> None:
    document = read_rows(raw_rows("kernel_resources"))
    assert document["summary"] == summary(document["launches"])
    assert [row for row in document["launches"] if row["spilled_bytes"]] == []
    assert document["summary"]["all"]["launches"] > 700
    assert (BENCHMARKS / "kernel_resources.md").read_text() == markdown(document)
