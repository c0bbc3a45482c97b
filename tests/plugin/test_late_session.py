"""`import tensorflow` waits for none of what rewrites graphs; the first function makes the session."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.fork_server import ForkServer
from tests.support.start import python_path
from tf_stitch.config import StitchConfig, plain_environment
from tf_stitch.plugin.late_session import NOTHING_RAN, LateSession
from tf_stitch.report.report import Report

ROOT = Path(__file__).parents[2]
LATE = ("networkx", "pulp", "highspy", "tf_stitch.plugin.session", "tf_stitch.planning", "tf_stitch.compiler",
        "tf_stitch.kernel_ir", "tf_stitch.libraries", "tf_stitch.ir.graph", "tf_stitch.report")
STITCHED = {"TF_STITCH": "1", "PYTHONPATH": python_path(ROOT)}
PROGRAM = f"""
import sys, tensorflow as tf
import tf_stitch
assert tf_stitch.is_enabled()
print([name for name in {LATE!r} if name in sys.modules])
function = tf.function(lambda x: tf.nn.softmax(tf.exp(x) * 2.0))  # what is freed is not in the report
function(tf.ones([4, 9]))
function(tf.ones([4, 9]))
print([name for name in {LATE!r} if name in sys.modules])
tf_stitch.wait()
print([name for name in {LATE!r} if name not in sys.modules and name not in ("pulp", "highspy")])
print(sum(graph["stitched_nodes"] for graph in tf_stitch.last_report()["graphs"]) > 0)
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200,
                          env=plain_environment() | STITCHED)


def test_the_first_rewriting_loads_what_rewrites_graphs() -> None:
    done = run(f"import tf_stitch\n{PROGRAM}")
    assert done.stdout.splitlines() == ["[]", "[]", "[]", "True"], done.stderr


def test_a_program_without_functions_loads_nothing() -> None:
    program = ("import atexit, sys, tensorflow\n"
               f"atexit.register(lambda: print([name for name in {LATE!r} if name in sys.modules]))")
    done = run(f"import tf_stitch\n{program}")
    assert done.stdout == "[]\n"
    assert f"[tf_stitch] {NOTHING_RAN}" in done.stderr


def test_the_first_function_at_exit_runs(fork_server: ForkServer, tmp_path: Path) -> None:
    """Pools take nothing any more by then."""
    program = ("import tf_stitch.plugin.autoload\n"  # as importing tf_stitch does at first
               "import atexit, tensorflow as tf\n"
               "atexit.register(lambda: print(float(tf.function(lambda x: tf.exp(x) * 2.0)(tf.zeros([])))))")
    done = fork_server.completed(program, [], plain_environment() | STITCHED, tmp_path)
    assert done.stdout == "2.0\n", done.stderr
    assert "Traceback" not in done.stderr


def test_its_line_is_that_of_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Report().status_line("", "") == NOTHING_RAN
    LateSession(StitchConfig(cache_dir=tmp_path), None).close()
    assert capsys.readouterr().err == f"[tf_stitch] {NOTHING_RAN}\n"


def test_a_report_is_written_without_a_session(tmp_path: Path) -> None:
    LateSession(StitchConfig(cache_dir=tmp_path, report_dir=tmp_path / "report"), None).close()
    assert (tmp_path / "report" / "report.json").exists()


@pytest.mark.parametrize("strict", [False, True])
def test_a_session_that_cannot_be_made(strict: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    """The program is TensorFlow's alone from then on, and that is said once; in strict mode it fails."""
    def broken(*_: object) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr("tf_stitch.plugin.session.Session", broken)
    late = LateSession(StitchConfig(cache_dir=tmp_path, strict=strict), None)
    if strict:
        with pytest.raises(RuntimeError, match="no luck"):
            late.get()
    assert late.get() is None
    assert late.first_calls() is None
    late.close()
    assert late.failed
    said = "" if strict else "[tf_stitch] disabled, TensorFlow runs this program alone: no luck\n"
    assert capsys.readouterr().err == said


def test_threads_make_one(tmp_path: Path) -> None:
    late = LateSession(StitchConfig(cache_dir=tmp_path), None)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: late.get(), range(32)))) == 1


def test_a_forked_child_writes_a_report_of_its_own(fork_server: ForkServer, tmp_path: Path) -> None:
    """Also where its parent had run no function yet."""
    program = ("import tf_stitch.plugin.autoload\n"  # as importing tf_stitch does at first
               "import os, tensorflow as tf\nchild = os.fork()\n"
               "if child: os.waitpid(child, 0)\n"
               "else: tf.function(lambda x: tf.exp(x) * 2.0)(tf.ones([9]))")
    variables = STITCHED | {"TF_STITCH_REPORT": str(tmp_path / "report")}
    done = fork_server.completed(program, [], plain_environment() | variables, tmp_path)
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "report").glob("*.json"))
    assert len(names) == 2
    assert "report.json" in names
