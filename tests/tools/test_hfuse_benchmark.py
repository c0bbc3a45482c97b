"""The evaluation of HFuse measures what it can, says why not of the rest, and runs what was compiled before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tools.hfuse_benchmark as benchmark
from tf_stitch.errors import BuildError
from tf_stitch.hfuse.device import Code, code_of
from tf_stitch.hfuse.fuse import Fused
from tf_stitch.hfuse.launch import Shape
from tf_stitch.hfuse.search import Profile, search
from tf_stitch.runtime.nvrtc_builder import known_cubin, resources_of
from tools.benchmark.hfuse_bench import Row, chosen
from tools.benchmark.hfuse_cases import CASES, PAIRS
from tools.benchmark.hfuse_cubins import BLOCK, PROCESSORS, Cubins, Pair
from tools.benchmark.raw_rows import read_rows
from tools.hfuse_benchmark import Evaluation, evaluate

PAIR = ("hist", "maxpool")


class FakeBench:
    """Rows without a device, or what goes wrong.

    Attributes:
        asked: pairs and scales, in order.
    """

    def __init__(self, broken: set[tuple[str, ...]] | None = None) -> None:
        self.broken, self.asked = broken or set(), list[tuple[Pair, float]]()

    def calibrate(self, name: str) -> None:
        self._check((name, "input"))

    def alone(self, name: str) -> Row:
        self._check((name,))
        return {"amount": 1, "threads": 512, "blocks": 1, "ms": 0.4, "registers": 32}

    def row(self, pair: Pair, scale: float) -> Row:
        self.asked.append((pair, scale))
        self._check(pair)
        tried = {"threads": [512, 512], "bound": None, "resident": 1, "problem": "", "ms": 0.5, "registers": 32}
        vertical = None if pair == PAIRS[1] else 0.6
        return {"pair": list(pair), "scale": scale, "varied": 0, "alone_ms": [0.4 * scale, 0.4], "streams_ms": 0.7,
                "vertical_ms": vertical, "vertical_problem": "", "even_ms": 0.5, "best": tried, "free": tried,
                "bounded": None, "tried": [tried]}  # fmt: skip

    def equal(self, pair: Pair, row: Row) -> bool:
        return True

    def _check(self, what: tuple[str, ...]) -> None:
        if what in self.broken:
            raise BuildError("the device refused it")


def evaluated(out: Path, bench: Any, seconds: float = 60, counted: float = 0) -> Row:
    evaluation = Evaluation(out, seconds, {"command": "it", "machine": {"gpu": "none"}})
    evaluate(evaluation, bench, counted)
    return dict(read_rows(out))


def test_ratios_of_all_pairs_come_after_all_pairs(tmp_path: Path) -> None:
    bench = FakeBench()
    rows = evaluated(tmp_path / "rows.json", bench)
    assert bench.asked == [(pair, scale) for scale in (1.0, *benchmark.SCALES) for pair in PAIRS]
    assert not rows["left_out"]
    assert all(row["equal"] for row in rows["pairs"])
    text = (tmp_path / "rows.md").read_text()
    assert "16 of 16 pairs: 16 faster than separate kernels" in text
    assert "Averaged over 5 ratios of the kernels' times: 16 of 16 pairs" in text


def test_what_fails_is_a_row_and_costs_no_other(tmp_path: Path) -> None:
    rows = evaluated(tmp_path / "rows.json", FakeBench({PAIRS[0], ("sha256",), ("hist", "input")}))
    assert len(rows["pairs"]) == len(PAIRS) - 1
    assert set(rows["kernels"]) == set(CASES) - {"sha256"}
    assert [row["what"] for row in rows["left_out"][:3]] == ["hist, its input", "sha256", "+".join(PAIRS[0])]
    assert {row["reason"] for row in rows["left_out"]} == {"BuildError: the device refused it"}
    assert "- sha256: BuildError: the device refused it" in (tmp_path / "rows.md").read_text()


def test_time_that_counters_need_is_kept(tmp_path: Path) -> None:
    rows = evaluated(tmp_path / "rows.json", FakeBench(), counted=1e6)
    assert len(rows["pairs"]) == len(PAIRS)
    assert not rows["ratios"]
    assert {row["reason"] for row in rows["left_out"]} == {"no time was left"}


def test_a_device_that_does_not_answer_costs_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[int]()
    monkeypatch.setattr(benchmark.os, "_exit", ended.append)
    evaluation = Evaluation(tmp_path / "rows.json", 60, {"command": "it", "machine": {}})
    evaluation.document["pairs"].append(FakeBench().row(PAIRS[0], 1.0))
    evaluation.give_up()
    assert ended == [2]
    rows = read_rows(tmp_path / "rows.json")
    assert len(rows["pairs"]) == 1
    assert rows["left_out"] == [{"what": "all that follows", "reason": "the device did not answer"}]


class Compiled:
    """A search.Profiler that only knows what was compiled: a GPU's, without the GPU."""

    def __init__(self, cubins: Cubins, pair: Pair) -> None:
        self.cubins, self.pair = cubins, pair

    def alone(self, index: int, shape: Shape) -> Profile:
        return self._profile(code_of(self.cubins.kernels[self.pair[index]]))

    def fused(self, fused: Fused) -> Profile:
        return self._profile(Code(fused.source, fused.symbol))

    def _profile(self, code: Code) -> Profile:
        path = known_cubin(code.source, self.cubins.architecture, self.cubins.cache)
        assert path is not None, f"{code.name} was not compiled before"
        found = resources_of(path)[code.name]
        return Profile(1.0, found.registers, found.static_shared_bytes, found.spilled_bytes)


def test_all_that_a_pair_runs_is_compiled_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = Cubins(tmp_path, "90")
    assert cubins.compile_all([PAIR]) == {}
    profiler = Compiled(cubins, PAIR)
    kernels, launches = [cubins.kernels[name] for name in PAIR], [CASES[name].launch for name in PAIR]
    found = search(kernels, launches, BLOCK, "90", PROCESSORS["90"], profiler)
    assert {c.threads for c in found} == {(d, BLOCK - d) for d in range(128, BLOCK, 128)}
    assert {c.bound for c in found} == {None, 32}
    rows = chosen(found)
    assert rows["even_ms"] == 1.0
    assert len(rows["tried"]) == 14
    profiler.fused(cubins.vertical(PAIR))
    monkeypatch.setattr("tools.benchmark.hfuse_cubins.ProcessPoolExecutor.submit", None)
    assert cubins.compile_all([PAIR]) == {}  # nothing is compiled twice


def test_what_does_not_compile_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = Cubins(tmp_path, "90")
    monkeypatch.setattr("tools.benchmark.hfuse_cubins.code_of", lambda kernel: Code("int x = ;", "x"))
    problems = cubins.compile_all([PAIR])
    assert set(problems) == set(PAIR)
    assert "NVRTC rejected" in problems["hist"]
