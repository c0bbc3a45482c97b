"""What the tool that times decoding asks for, and the page that it writes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tools import decode_benchmark
from tools.benchmark.raw_rows import page_of, read_rows


class Fake:
    """A process in which each call takes as long as its backend is given here, and XLA finds other words."""

    asked: ClassVar[list[tuple[object, ...]]] = []
    ended: ClassVar[list[str]] = []

    def __init__(self, program: str, config: str, batch: int, sampler: str, tf32: bool, policy: str, name: str, *,
                 backend: str) -> None:
        assert program == "decode_worker"
        self.asked.append((config, batch, policy, name))
        self.name = name

    def wait(self) -> None:
        pass

    def ask(self, calls: int) -> dict[str, Any]:
        seconds = {"tf": 0.2, "xla": 0.1, "stitch": 0.05}[self.name]
        texts = [1, 2 + (self.name == "xla")]
        return {"seconds": [seconds] * calls, "processor": [2 * seconds] * calls, "texts": texts}

    def said(self) -> list[str]:
        self.ended.append(self.name)
        return []

    def report(self) -> dict[str, Any]:
        return {"graphs": [{"loops": [{"name": "while", "reason": "", "regions": [0]}]}]}


def test_rows_of_all_configurations_and_their_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(decode_benchmark, "Worker", Fake)
    monkeypatch.setattr(Fake, "asked", [])
    monkeypatch.setattr(Fake, "ended", [])
    out = tmp_path / "raw" / "decoding.json.gz"
    asked = ["--config=paper,medium", "--batch=1,16", "--turns=3"]
    monkeypatch.setattr(sys, "argv", ["tools/decode_benchmark.py", *asked, f"--out={out}"])
    decode_benchmark.main()
    assert [one[:3] for one in Fake.asked[::3]] == [("paper", 1, "float32"), ("paper", 16, "float32"),
                                                    ("medium", 1, "float32"), ("medium", 16, "float32")]
    assert len(Fake.ended) == len(Fake.asked) == 12, "a process of another row would take a core"
    document = read_rows(out)
    assert document["command"] == " ".join(["python -m tools.decode_benchmark", *asked])
    assert [len(row["seconds"]["stitch"]) for row in document["rows"]] == [3] * 4
    text = page_of(out).read_text()
    assert "| texts | tf | xla | stitch | tf / stitch | xla / stitch | first call, s |" in text
    assert ("| paper, 16, float32, xla's differ | 200 (200 to 200) | 100 (100 to 100) | 50 (50 to 50) | 4.00 | 2.00 | "
            "0.2, 0.1, 0.1 |") in text
    assert "loop while: one op of regions [0]" in capsys.readouterr().out


def test_medians_go_to_a_csv_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in benchmarks/decoding_gpu.csv; a backend that did not run is empty."""
    path = tmp_path / "decoding.csv"
    root = Path(decode_benchmark.__file__).parents[1]
    header = (root / "benchmarks" / "decoding_gpu.csv").read_text().splitlines()[0]
    path.write_text(f"{header}\n")
    monkeypatch.setattr(decode_benchmark, "Worker", Fake)
    monkeypatch.setattr(decode_benchmark, "describe_gpu", lambda: {"gpu": "NVIDIA H200"})
    monkeypatch.setattr(sys, "argv", ["tools/decode_benchmark.py", "--batch=1,16", "--backends=stitch", "--turns=3",
                                      f"--csv={path}"])
    decode_benchmark.main()
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    assert [row[2:] for row in rows] == [["H200", batch, "float32", "", "", "50", "50 to 50"] for batch in ("1", "16")]
    assert all(len(row[1]) == 8 for row in rows), "the commit"
