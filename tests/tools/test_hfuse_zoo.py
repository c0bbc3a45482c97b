"""What the report about kernels in shared blocks measures, and what its page says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.compiler.test_horizontal_fusion import built, six_kernels, two_kernels
from tests.compiler.test_partition_search import Times
from tests.support.numbers import set_numbers
from tf_stitch.compiler.program_times import ProgramTimer, timed_kernels
from tf_stitch.device.spec import H200
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.jit.tuner import Job
from tf_stitch.planning.measured_cost import MeasuredTimes
from tf_stitch.planning.measured_fusions import MeasuredFusions
from tf_stitch.planning.tuned_templates import TunedTemplates
from tf_stitch.runtime.kernel_cache import KernelCache
from tools.benchmark import hfuse_zoo_rows, hfuse_zoo_worker
from tools.benchmark.hfuse_zoo_worker import Sets, launches


@pytest.fixture(autouse=True)
def small_kernels_stand_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    set_numbers(monkeypatch, H200, "sizes", packed_elements=256)


def job(folder: Path, graph: TensorGraph, fusions: MeasuredFusions | None) -> Job:
    compiled = built(graph)
    return Job(compiled.plan, H200, 0, True, MeasuredTimes(folder / "t.json"), TunedTemplates(folder / "u.json"),
               compiled.kernels, compiled.buffers, fusions)


def test_what_is_built_before_is_all_but_the_winner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, timed, times = set[str](), list[str](), Times(lambda program: 12.0)
    monkeypatch.setattr(hfuse_zoo_worker, "target_of", lambda device: SimpleNamespace(
        build=lambda source, architecture, cache: before.add(source)))

    def together(self: ProgramTimer, programs: Sequence[Any]) -> list[float]:
        timed.append(timed_kernels(programs, self.device)[0])
        return times(programs)

    def apart(self: ProgramTimer, programs: Sequence[Any]) -> float:
        timed.append(timed_kernels(programs, self.device)[0])
        return times.apart(programs)

    monkeypatch.setattr(ProgramTimer, "__call__", together)
    monkeypatch.setattr(ProgramTimer, "apart", apart)
    fusions = MeasuredFusions(tmp_path / "f.json")
    sets = Sets([job(tmp_path, two_kernels(), fusions)] * 2, KernelCache(tmp_path / "kernels"))
    assert sets.build(3)["proposed"] == 1, "regions of one structure count once"
    found = sets.measure(60)
    assert len(set(timed) - before) == 1, "which is fastest is not known before"
    (row,) = found["rows"]
    assert (row["apart_us"], row["together_us"], row["faster"]) == (20.0, 12.0, True)
    assert sets.measure(60)["rows"] == []
    counts = launches([job(tmp_path, two_kernels(), fusions)])
    assert counts == {"regions": 1, "launches": 1, "rounds": 1, "able": 2, "shared": 1, "sharing": 2}
    assert launches([job(tmp_path, two_kernels(), None)])["launches"] == 2


def test_sets_of_three_follow_pairs_that_are_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = Times(lambda program: 12.0 if len(program.body) == 2 else 29.9)
    monkeypatch.setattr(ProgramTimer, "__call__", lambda self, programs: times(programs))
    monkeypatch.setattr(ProgramTimer, "apart", lambda self, programs: times.apart(programs))
    fusions = MeasuredFusions(tmp_path / "f.json")
    one = job(tmp_path, six_kernels(), fusions)
    rows = Sets([one], KernelCache(tmp_path / "kernels")).measure(20)["rows"]
    sizes = [len(row["families"]) for row in rows]
    assert sizes.count(2) == 15
    assert sizes.count(3) > 0
    assert [row["faster"] for row in rows] == [size == 2 for size in sizes]
    assert launches([one])["shared"] == 3


class Process:
    """Answers as a worker does."""

    def __init__(self, *ms: float, shared: int = 0) -> None:
        self.ms, self.shared = list(ms), shared

    def ask(self, what: str, number: object = 0, limit: float | None = None) -> dict[str, Any]:
        if what == "launches":
            return {"launches": 9, "shared": self.shared}
        warm = number in (hfuse_zoo_rows.WARM_UP, 5)
        return {"ms": 100.0 if warm else self.ms.pop(0), "result": 1.5}


def test_turns_are_compared_in_pairs() -> None:
    hfuse_zoo_rows.TURN_SECONDS, kept = 1.0, hfuse_zoo_rows.TURN_SECONDS  # ten steps
    try:
        pair: Any = [Process(2.0, 3.0, 4.0), Process(1.0, 2.0, 4.0, shared=1)]
        row = hfuse_zoo_rows.compared({"case": "x"}, pair, 3, hfuse_zoo_rows.Clock(60))
    finally:
        hfuse_zoo_rows.TURN_SECONDS = kept
    assert row["ratios"] == [2.0, 1.5, 1.0]
    assert row["ms"] == [3.0, 2.0]
    assert row["with"]["shared"] == 1


FOUND = {"kernels": ["a", "b"], "families": ["row_reduction", "elementwise"], "threads": [128, 384], "resident": 0,
         "predicted_us": 1.5, "apart_us": 11.0, "together_us": 10.0, "tried": 30, "faster": True}  # fmt: skip


def test_page() -> None:
    counts = {"launches": 12, "able": 4, "rounds": 2}
    rows = [
        {"case": "a/train", "counts": counts, "proposed": 3, "rows": [FOUND], "ms": [2.0, 1.9],
         "ratios": [1.0, 1.05, 1.1], "with": {"shared": 1}},
        {"case": "b/train", "counts": counts, "proposed": 1, "rows": [FOUND | {"faster": False, "together_us": 12.0}]},
        {"case": "c/train", "failed": "no memory"},
        {"case": "d/train", "counts": counts, "proposed": 1, "rows": [FOUND], "not_compared": "no answer within 9 s"}]
    text = hfuse_zoo_rows.page({"command": "python -m tools.hfuse_zoo", "machine": {"gpu": "X"}, "rows": rows})
    assert "In 1 of 3 steps kernels share blocks. Time of a step without over with: 1.050" in text
    assert "Of 5 pairs that the model proposed, and larger sets, 3 were timed and 2 were faster." in text
    assert "| a/train | 12 | 4, 2 | 3, 1, 1 | 1 | 2.000 1.900 | 1.050 (1.000 to 1.100) |" in text
    assert "| b/train | 12 | 4, 2 | 1, 1, 0 | 0 | - | - |" in text
    assert "| c/train | failed: no memory |" in text
    assert "| 0 | no answer within 9 s | - |" in text
    assert "| a/train | row_reduction + elementwise | 1.50 | 11.00 | 10.00 | 128 + 384 | no bound | 10.0 |" in text
    assert "| 12.00 | 128 + 384 | no bound | -8.3 |" in text
