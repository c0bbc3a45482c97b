"""The table of how loops run is made without a GPU."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.fork_server import MODULE, ForkServer

ROOT = Path(__file__).resolve().parents[2]


def test_a_row(fork_server: ForkServer, tmp_path: Path) -> None:
    done = fork_server.completed(MODULE, ["tools.loop_table", "--only=data end"], os.environ, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    [row] = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    _, program, on_cpu, on_gpu, _ = (cell.strip() for cell in row.split("|"))
    assert program == "tf.while_loop that data end"
    assert on_cpu.startswith("one op; ")
    assert on_gpu.startswith("one op, the host waits for its condition; ")


def test_the_page_has_all_programs() -> None:
    from tools.benchmark.loop_programs import PROGRAMS  # whose tensors start TensorFlow's threads

    page = (ROOT / "benchmarks" / "loops.md").read_text().splitlines()
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page if line.startswith("| ")]
    assert rows[2:] == list(PROGRAMS)
    assert len(PROGRAMS) >= 30
