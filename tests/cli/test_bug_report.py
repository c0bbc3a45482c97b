"""The archive of a bug report: what is in it, and that nothing of the user's data is."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tf_stitch.cli import bug_report
from tf_stitch.cli.bisect import BisectError, Outcome
from tf_stitch.cli.bug_report import collect, compared, main, without_values

GRAPH = """graph Sum
  %0 = input() {key=i2, type=float32[4,8]} : float32[4,8]  // x (_Arg)
  %1 = constant() {value=42.424198150634766} : float32[]  // mul/y (Const)
  %2 = constant() {value=[[1, 77],
 [-3, 4]]} : int32[2,2]  // table (Const)
  %3 = leaky_relu(%0) {slope=0.8125} : float32[4,8]  // act (LeakyRelu)
"""
SECRETS = ("42.42", "77", "-3", "8125", "0.513", "password", "import tensorflow")


class Program:
    """A command whose second region is wrong, where it is."""

    def __init__(self, is_wrong: bool) -> None:
        self.is_wrong = is_wrong

    def __call__(self, command: Sequence[str], variables: dict[str, str], timeout: float | None = None,
                 report_dir: Path | None = None) -> Outcome:
        fuel = variables.get("TF_STITCH_FUEL", "9r")
        right = variables["TF_STITCH"] == "0" or not self.is_wrong or int(fuel.partition("r")[0].partition(".")[0]) < 2
        if report_dir is not None:
            (report_dir / "report.json").write_text(json.dumps({"home": f"{Path.home()}/train.py:3"}))
        if dump := variables.get("TF_STITCH_DUMP_DIR"):
            for name in ("region_1_0.graph.0_bound.txt", "region_1_0.plan.txt", "region_1_0.source.c",
                         "region_1_0.kernel_ir.txt", "region_0_0.plan.txt"):
                Path(dump, name).write_text(GRAPH if ".graph." in name else f"{name} 42.42" * (".plan." not in name))
        regions = [{f"layer_{i}/Tanh": "Tanh"} for i in range(3)]
        return Outcome({"step 1": 0.51312 if right else 0.5141}, regions, [[], [], []],
                       messages=("[tf_stitch] said",))


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setattr(bug_report, "_doctor", lambda: "ok  cache folder  /home/somebody/.cache/tf_stitch\n")


@pytest.mark.usefixtures("home")
def test_what_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bug_report, "execute", Program(is_wrong=False))
    monkeypatch.setenv("TF_STITCH_PLANNER", "greedy")
    files = collect(["train"])
    assert list(files) == ["doctor.txt", "messages.txt", "report.json", "summary.txt", "versions.txt"]
    assert files["report.json"] == '{"home": "~/train.py:3"}'
    assert files["doctor.txt"] == "ok  cache folder  ~/.cache/tf_stitch\n"
    assert files["messages.txt"] == "[tf_stitch] said\n"
    assert "results: 1 compared, largest relative difference 0\n" in files["summary.txt"]
    assert "\ntensorflow" in files["versions.txt"]
    assert files["versions.txt"].endswith("\nTF_STITCH_PLANNER=greedy\n")


@pytest.mark.usefixtures("home")
def test_a_region_that_differs_is_in_it_without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bug_report, "execute", Program(is_wrong=True))
    files = collect(["train", "--password=password"])
    assert [name for name in files if name.startswith("stages/")] == [
        "stages/region_1_0.graph.0_bound.txt", "stages/region_1_0.plan.txt"]
    assert "region 1 is the first that makes a difference\n" in files["summary.txt"]
    assert "largest relative difference 0.0019" in files["summary.txt"]
    assert not [(name, secret) for name, text in files.items() for secret in SECRETS
                if secret in text and name != "versions.txt"]


def test_values_are_left_out_of_graphs() -> None:
    assert without_values(GRAPH).splitlines()[1:] == [
        "  %0 = input() {key=i2, type=float32[4,8]} : float32[4,8]  // x (_Arg)",
        "  %1 = constant() {value=?} : float32[]  // mul/y (Const)",
        "  %2 = constant() {value=?} : int32[2,2]  // table (Const)",
        "  %3 = leaky_relu(%0) {slope=?} : float32[4,8]  // act (LeakyRelu)"]


def test_results_that_are_no_numbers() -> None:
    nan, inf = float("nan"), float("inf")
    assert compared(Outcome({"a": nan, "b": inf}), Outcome({"a": nan, "b": inf})).endswith("difference 0")
    assert compared(Outcome({"a": 1.0}), Outcome({"a": nan})).endswith("difference inf")
    assert compared(Outcome({"a": 1.0, "b": 2.0}), Outcome({"a": 1.0})).endswith("; 1 are missing")
    assert compared(Outcome({"a": 1.0}), Outcome({}, failure="exit status 1: a line")) == "none to compare"


def test_the_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bug_report, "collect", lambda *_: {"a.txt": "one", "stages/b.txt": "two"})
    assert main([f"--out={tmp_path}/bug.tar.gz", "--", "python", "train.py"]) == 0
    with tarfile.open(tmp_path / "bug.tar.gz") as archive:
        assert archive.getnames() == ["tf_stitch_bug_report/a.txt", "tf_stitch_bug_report/stages/b.txt"]
    assert "stages/b.txt" in capsys.readouterr().out
    assert main([f"--out={tmp_path}/gone/bug.tar.gz", "--", "python"]) == 1
    assert main([]) == 2


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BisectError, match="no-such-program cannot be run"):
        collect(["no-such-program"])


def test_doctor_imports_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user may have put it there."""
    for module in ("tf_stitch", "absl", "ctypes"):
        (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    assert "TensorFlow" in bug_report._doctor()
    assert not (tmp_path / "was_run").exists()
