"""`tools/region_benchmark.py`: rows stay until they are measured again, each with the run that it comes from."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import MODULE, ForkServer
from tools.benchmark.region_rows import is_done, joined, table

MLP, ENCODER = "mlp_4x256_batch256", "encoder_6x512_batch8_length64"
BACKENDS = ("tensorflow", "xla", "tf_stitch", "call")


def row(workload: str, mode: str, date: str = "2026-11-21", **more: Any) -> dict[str, Any]:
    mib = dict.fromkeys(BACKENDS, 3 << 20)
    graphs = {"launches": 2, "host_ns": 60_000, "known": 1, "known_ns": 9_000}
    return {"workload": workload, "mode": mode, "failures": {}, "first_call_s": dict.fromkeys(BACKENDS, 1.0),
            "peak_bytes": mib, "steady_peak_bytes": mib, "difference": {"tf_stitch": 1e-7}, "tf_us": 400.0,
            "xla_us": 200.0, "stitch_us": 100.0, "call_us": 50.0, "graphs": [graphs], "rounds": 4, "calls": 20,
            "machine": {"gpu": "NVIDIA H200", "date": date}, "command": "python -m tools.region_benchmark"} | more


Benchmark = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def benchmark(fork_server: ForkServer, tmp_path: Path) -> Benchmark:
    return lambda *flags: fork_server.completed(MODULE, ["tools.region_benchmark", *flags], os.environ, tmp_path)


def test_what_is_done() -> None:
    rows = [row(MLP, "train"), row(ENCODER, "train", failures={"xla": "no"})]
    assert is_done(rows, MLP, "train", BACKENDS)
    assert not is_done(rows, MLP, "infer", BACKENDS)
    assert not is_done(rows, ENCODER, "train", BACKENDS), "what failed is repeated"
    del rows[0]["xla_us"]
    assert not is_done(rows, MLP, "train", BACKENDS), "a backend is missing"
    assert is_done(rows, MLP, "train", ("tensorflow", "tf_stitch"))


def test_rows_come_in_the_order_of_workloads() -> None:
    rows = joined([row("tiny", "infer"), row(MLP, "train")], [row(ENCODER, "infer"), row(MLP, "train", "2026-11-22")])
    assert [(found["workload"], found["machine"]["date"]) for found in rows] == \
        [(ENCODER, "2026-11-21"), (MLP, "2026-11-22"), ("tiny", "2026-11-21")]


def test_a_row_keeps_its_run() -> None:
    old = row(ENCODER, "infer", graphs=[{"launches": 2, "host_ns": 60_000}])  # as once written
    del old["steady_peak_bytes"]
    lines = table([row(MLP, "train", "2026-11-22"), old, row(ENCODER, "train")]).splitlines()
    [mlp, infer, train] = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines
                           if line.startswith((f"| {MLP}", f"| {ENCODER}"))]  # fmt: skip
    assert mlp[2:8] == ["400", "200", "100", "50", "4.00", "2.00"]
    assert (mlp[10], infer[10]) == ("3 / 3 / 3", "- / - / -")
    assert (mlp[11], infer[11]) == ("30 / 9", "30 / -")
    assert [cells[-1] for cells in (mlp, infer, train)] == ["1", "2", "2"]
    assert "1. `python -m tools.region_benchmark`: 4 turns of 20 calls; gpu NVIDIA H200, date 2026-11-22." in lines


def test_nothing_is_measured_twice(benchmark: Benchmark, tmp_path: Path) -> None:
    out, more = tmp_path / "rows.json", tmp_path / "more.json"
    out.write_text(json.dumps([row(MLP, "train")]))
    more.write_text(json.dumps([row(ENCODER, "infer", "2026-11-22")]))
    done = benchmark(f"--join={more}", f"--out={out}")
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text()) == [row(ENCODER, "infer", "2026-11-22"), row(MLP, "train")]
    done = benchmark(f"--workloads={MLP}", f"--out={out}")
    assert done.returncode == 0, done.stderr
    assert f"{MLP} train is there" in done.stderr
    assert out.with_suffix(".md").read_text() == table(json.loads(out.read_text()))


def test_a_row_is_measured_again(benchmark: Benchmark, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    out.write_text(json.dumps([row("tiny", "infer"), row(MLP, "train")]))
    small = ["--backends=call,tensorflow", "--rounds=2", "--calls=1", "--warm_up=0", "--modes=infer"]
    done = benchmark("--workloads=tiny", "--again", f"--out={out}", *small)
    assert done.returncode == 0, done.stderr
    [mlp, tiny] = json.loads(out.read_text())
    assert mlp == row(MLP, "train")
    assert (tiny["workload"], tiny["rounds"]) == ("tiny", 2)
    assert tiny["command"].endswith("--modes=infer")
