"""How far losses are apart: what the tool measures and says, and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest

from models import language, vision
from tools import half_losses
from tools.benchmark.loss_cases import CASES
from tools.benchmark.loss_worker import moved
from tools.benchmark.raw_rows import page_of, raw_rows, read_rows

ROW = {"case": "x", "policy": "mixed_float16", "tensorflow": [4.0, 3.0], "perturbed": [[4.0, 3.25], [4.125, 3.0]],
       "tf_stitch": [4.0, 3.125], "regions": 2, "fallbacks": []}  # fmt: skip


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
def test_weights_move_by_one_unit_in_the_last_place(half: Any) -> None:
    random = np.random.default_rng(1)
    values = random.standard_normal(1000).astype(np.float32)
    after = moved(values, half, random)
    assert after.dtype == np.float32
    # The same place within a unit of the half type, which is the next one up or down.
    off = (after.astype(np.float64) - values) / np.spacing(np.abs(values.astype(half))).astype(np.float64)
    assert set(np.round(off * 4) / 4) <= {-1.0, -0.5, 0.5, 1.0}  # half of it below a power of two
    assert (off > 0).sum() == pytest.approx(500, abs=100)
    assert not np.array_equal(after, moved(values, half, random)), "another draw"


def test_how_far_runs_are_apart() -> None:
    assert half_losses.apart([1.0, 2.0], [1.5, 2.25]) == (0.375, 0.5)
    assert half_losses.spread(ROW) == (0.125, 0.25)
    assert half_losses.is_within(ROW)
    assert not half_losses.is_within(ROW | {"tf_stitch": [4.0, 3.375]}), "more in one step"
    assert not half_losses.is_within(ROW | {"tf_stitch": [3.8125, 3.1875]}), "more on average"


class Fake:
    """A process whose losses depend on its backend and seed."""

    asked: ClassVar[list[tuple[str, int, int]]] = []

    def __init__(self, program: str, case: str, name: str, *, backend: str, variables: Mapping[str, str]) -> None:
        assert program == "loss_worker"
        assert ("NVIDIA_TF32_OVERRIDE" in variables) is (case == "vit_bf16")
        self.backend = backend

    def ask(self, seed: int, steps: int, limit: float) -> dict[str, Any]:
        self.asked.append((self.backend, seed, steps))
        return {"losses": [1.0 + seed / 64 + (self.backend == "tf_stitch") / 128] * steps}

    def close(self) -> str:
        return ""

    def report(self) -> dict[str, Any]:
        return {"regions": [{}, {}], "fallbacks": [{"reason": "so"}]}


def test_rows_and_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_losses, "Worker", Fake)
    row = half_losses.measure("gpt2_bf16", seeds=2, steps=3)
    assert Fake.asked == [("tensorflow", 0, 3), ("tensorflow", 1, 3), ("tensorflow", 2, 3), ("tf_stitch", 0, 3)]
    assert row["fallbacks"] == ["so"]
    other = half_losses.measure("vit_bf16", seeds=1, steps=3, tf32=False) | {"tf_stitch": [2.0] * 3}
    page = half_losses.table({"machine": {"cpu": "some"}, "command": "python -m tools.half_losses", "steps": 3,
                              "seeds": 2, "rows": [row, other]})  # fmt: skip
    assert "| gpt2_bf16 | mixed_bfloat16 | 1.000 / 1.000 | 0.031 / 0.031 | 0.0078 / 0.0078 | yes | 2 | 1 |" in page
    assert "| 1 / 1 | no | 2 | 1 |" in page


def test_cases_are_networks_in_half_types() -> None:
    for case in CASES.values():
        assert case.network in (vision.NAMES if case.size else language.NAMES)
        assert (case.config is None) is bool(case.size)
        assert case.policy in ("mixed_float16", "mixed_bfloat16")


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES)
def test_losses_are_within_tensorflows_own_spread(case: str) -> None:
    row = half_losses.measure(case, seeds=4, steps=50)
    assert row["regions"] > 0
    assert row["fallbacks"] == []
    assert np.isfinite([row["tensorflow"], row["tf_stitch"], *row["perturbed"]]).all()
    assert row["tensorflow"][-1] < row["tensorflow"][0]
    assert half_losses.is_within(row), half_losses.table({"machine": {}, "command": "", "steps": 50, "seeds": 4,
                                                          "rows": [row]})


def test_the_committed_table() -> None:
    document = read_rows(raw_rows("half_losses"))
    assert {row["case"] for row in document["rows"]} == set(CASES)
    assert all(half_losses.is_within(row) for row in document["rows"])
    page: Path = page_of(raw_rows("half_losses"))
    assert page.read_text() == half_losses.table(document)
