"""The page of supported ops is what the importer's tables say."""

from __future__ import annotations

from tf_stitch.frontend.tensorflow.registry import BARRIERS, LEGALIZATIONS
from tools.supported_ops import LIBRARY, PAGE, groups, page, reasons


def test_the_committed_page_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m tools.supported_ops"


def test_every_op_is_on_it_once() -> None:
    named = [op.removesuffix(LIBRARY) for ops in groups().values() for op in ops]
    assert sorted(named) == sorted(LEGALIZATIONS)
    assert sorted(op for ops in reasons().values() for op in ops) == sorted(BARRIERS)


def test_an_op_is_in_the_group_of_its_function() -> None:
    assert f"MatMul{LIBRARY}" in groups()["matmuls"]
    assert f"AvgPool{LIBRARY}" in groups()["pooling"], "a function that wraps another"
    assert "Softmax" in groups()["losses"]
