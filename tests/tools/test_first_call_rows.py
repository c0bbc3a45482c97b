"""What the page of first calls says of rows."""

from __future__ import annotations

from tools.benchmark.first_call_rows import Row, page, ratios, stalls

ROWS = [Row("a", "tensorflow", 1.0, 2.0, 4.0, 0.1), Row("a", "cold", 2.0, 3.0, 5.0, 0.3),
        Row("a", "warm", 1.0, 2.0, 4.0, 0.1), Row("a", "tensorflow", 3.0, 2.0, 4.0, 0.2)]


def test_ratios_are_of_medians() -> None:
    assert ratios(ROWS, "processor_s") == {"a": {"cold": 1.0, "warm": 0.5}}


def test_calls_are_longer_than_tensorflows_longest() -> None:
    found = stalls(ROWS)["a"]
    assert {backend: round(more, 6) for backend, more in found.items()} == {"cold": 0.15, "warm": -0.05}


def test_the_page_has_a_line_for_each_case_and_the_mean() -> None:
    text = page(ROWS, {"gpu": "H200", "calls": 11})
    assert "| a | 1.00 | 0.50 | 1.50 | 1.00 | 1.25 | 1.00 | 150 | -50 |" in text
    assert "| geometric mean | 1.00 | 0.50 | 1.50 | 1.00 | 1.25 | 1.00 |  |  |" in text
    assert "gpu H200" in text
