"""`python -m tools.region_profile`: what calls are made of, by form and class, the longest kernels of each."""

from __future__ import annotations

from tools.benchmark.profile_table import SHOWN, table
from tools.benchmark.raw_rows import page_of, raw_rows, read_rows


def test_table() -> None:
    kernels = [[f"kernel_{i}", 2.0, float(i), None] for i in range(SHOWN)]
    seen = {"call_us": 14769.4, "host_us": 1576.2, "classes": {"memory": 303.0, "library": 309.0, "copies": 98.0},
            "class_us": {"memory": 4922.0, "library": 10190.0, "copies": 102.0}, "kernels": kernels,
            "library": [["gemm", 24.0, 2507.6, None]]}  # fmt: skip
    lines = table({"machine": {"gpu": "H200"}, "command": "c", "rows": {"mlp/train": {"XLA": seen}}}).splitlines()
    assert "| mlp/train | XLA | 14769 | 1576 | 4922 (303) | 10190 (309) | 102 (98) | 15214 |" in lines
    shown = [line.split("`")[1] for line in lines if "`" in line and line.startswith("|")]
    assert shown == ["gemm", *(f"kernel_{i}" for i in range(SHOWN - 1, 0, -1))]


def test_the_page_is_that_of_the_rows() -> None:
    rows = raw_rows("h200_region_profile")
    assert page_of(rows).read_text() == table(read_rows(rows))
