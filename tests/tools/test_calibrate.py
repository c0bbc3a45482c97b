"""What `python -m tools.calibrate` measures in TensorFlow: on few sizes, for the machine is busy with other tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import tensorflow as tf

from tests.support.fork_server import ForkServer
from tf_stitch.config import load_config
from tf_stitch.device.matmul_times import Sizes
from tf_stitch.device.profile import parse_profile, read_profile
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.runtime.device_profiles import device_spec
from tools.calibrate import host, kernels
from tools.calibrate.executor import Executor
from tools.calibrate.measure import PLANS, common, kept_numbers, marginal, multiply_add_rate

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from tools.calibrate import executor
executor.SIZES["cpu"], executor.ROUNDS["cpu"], executor.CHECKED["cpu"] = (1, 64), 1, ((1, 8, 8, 8),)
from tools.calibrate import __main__ as calibrate
from absl import app
app.run(calibrate.main, argv=["calibrate", "--parts=executor", "--out=" + sys.argv[1]])
"""


def test_matmuls_and_ops_of_this_machine(fork_server: ForkServer, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    done = fork_server.completed(PROGRAM, [out], os.environ, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    profile = read_profile(out)
    assert profile.rates == device_spec(load_config().cache_dir, None).profile.rates, "the rest is as it was"
    small, large = (profile.matmul_us("float32", (1, n, n, n)) for n in (1, 64))
    assert small is not None
    assert large is not None
    assert 0.01 < small < large < 10_000  # 0.06 us; 524,288 operations, 10 us
    assert 0 < profile.op_us < 100
    assert "matmul 1x8x8x8: measured" in done.stdout
    assert json.loads(out.read_text())["made"]["executor"]["command"].startswith("python -m tools.calibrate")


@pytest.mark.parametrize(("short", "long", "us"), [(10.0, 30.0, 1.0), (11.0, 9.0, 0.03), (1.0, 30.0, 1.0)])
def test_one_more_takes_something_on_a_busy_machine(short: float, long: float, us: float) -> None:
    assert marginal(short, long, 10, 30) == pytest.approx(us)


def test_the_rate_of_a_matmul_in_tasks() -> None:
    assert multiply_add_rate(lambda nodes: [2.0 for _ in nodes], (10, 20, 30)) == pytest.approx(3.0)


def test_rates_are_positive_where_the_machine_was_busy_during_short_chains() -> None:
    def timer(nodes: Sequence[Node]) -> list[float]:
        return [9.0 if i % 2 else 11.0 for i in range(len(nodes))]

    rates = common(PLANS["cpu"], timer)["rates"]
    assert all(rate > 0 for of in rates.values() for rate in of.values())
    assert set(rates) == {dtype.value for dtype in kernels.MEASURED}


def test_unknown_parts_are_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "tools.calibrate", "--parts=wheels"], capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode != 0
    assert "kernels, executor" in done.stderr + done.stdout


def test_a_matmul_that_the_library_lacks_is_measured_padded(monkeypatch: pytest.MonkeyPatch,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Sizes] = []

    def microseconds(self: Executor, dtype: DType, sizes: Sizes) -> float:
        asked.append(sizes)
        if sizes[1] == 1:
            raise tf.errors.InternalError(None, None, "no such matmul\nfurther lines")
        return 2.0

    monkeypatch.setattr(Executor, "_microseconds", microseconds)
    executor = Executor.__new__(Executor)  # a whole one would take this process' native op
    assert executor._supported(DType.F32, (3, 1, 40, 16)) == 2.0
    assert asked == [(3, 1, 40, 16), (3, 16, 48, 16)]
    assert "float32 (3, 1, 40, 16): no such matmul; 16x48x16 instead" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "kept"), [("NVIDIA H200", True), ("NVIDIA A100", False)])
def test_numbers_of_other_hardware_are_not_kept(name: str, kept: bool) -> None:
    before = H200.profile.document()
    assert kept_numbers(before, {"gpu": name}) == (before["numbers"] if kept else {})


def test_numbers_of_a_cpu_that_a_command_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LOADING", "print('TensorFlow is loaded')\nprint(0.25)")
    found = host._numbers()
    assert found["host.load_seconds"]["value"] == 0.25
    assert 1 << 12 <= found["kernels.near_bytes"]["value"] <= 1 << 20
    assert parse_profile({**CPU.profile.document(), "numbers": found}).host.load_seconds == 0.25
    monkeypatch.setattr(host, "LOADING", "import no_such_module")
    assert set(host._numbers()) == {"kernels.near_bytes"}
