"""Which programs reach the graph hook, and what happens when a rewrite goes wrong."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import ForkServer
from tf_stitch.config import plain_environment
from tf_stitch.plugin import graph_hook
from tools.benchmark.machine import module_path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = plain_environment() | {"PYTHONPATH": module_path(ROOT)}


@pytest.fixture(scope="module")
def report(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    program = ROOT / "tests" / "plugin" / "hook_program.py"
    run = fork_server.completed(program, [], ENVIRONMENT, tmp_path_factory.mktemp("hook"))
    assert run.returncode == 0, run.stderr[-3000:]
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("case", ["function", "train", "while", "session", "data", "loop"])
def test_reaches_the_hook(report: dict[str, Any], case: str) -> None:
    assert report["calls"][case] > 0
    assert report["ops"][case]["Tanh"] > 0


def test_keras_fit_is_one_graph(report: dict[str, Any]) -> None:
    # The remapper has made _FusedMatMul of the forward Tanh; its gradient and Adam are there.
    assert {"TanhGrad", "AssignAddVariableOp", "Sqrt"} <= report["ops"]["keras"].keys()


@pytest.mark.parametrize("case", ["jit", "suspended"])
def test_stays_away(report: dict[str, Any], case: str) -> None:
    assert report["ops"].get(case, {}).get("Tanh", 0) == 0


def test_train_step_is_one_graph(report: dict[str, Any]) -> None:
    assert {"TanhGrad", "AssignSubVariableOp"} <= report["ops"]["train"].keys()


def test_input_pipelines_are_marked(report: dict[str, Any]) -> None:
    assert report["tf_data"]["data"] == [True]
    assert report["tf_data"]["loop"] == [False]
    assert report["tf_data"]["train"] == [False]


def test_output_types(report: dict[str, Any]) -> None:
    [[dtype, dims]] = report["types"]["function"]
    assert dtype == 1
    assert dims[0] < 0
    assert dims[1] == 8
    [[_, dims]] = report["types"]["session"]
    assert dims[1] == 8
    assert "after its callback" in report["late"]


def test_mistakes_leave_the_graph_alone(report: dict[str, Any]) -> None:
    assert report["raise_is_tf"]
    assert report["dangle_is_tf"]
    assert "a bug in the rewriter" in report["errors"][0]
    assert any("'nowhere' does not exist" in error for error in report["errors"])


def test_a_rewrite_is_run(report: dict[str, Any]) -> None:
    assert not report["double_is_tf"]
    assert report["double_is_abs"]


def test_ctrl_c_before_the_graph_is_looked_at_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """ctypes prints what leaves a callback, and goes on: a loop without an end then had no end."""
    def pressed() -> bool:
        raise KeyboardInterrupt

    hook, errors = object.__new__(graph_hook._Hook), list[Exception]()
    hook.on_error = errors.append  # type: ignore[assignment]
    monkeypatch.setattr(graph_hook, "is_on_here", pressed)
    assert hook._on_graph(0, 0, 0, b"graph", b"", b"CPU", 8, 0) == 8 + graph_hook._PRESSED
    assert [type(error).__name__ for error in errors] == ["StitchError"]


# SIGINT comes when TensorFlow is about to call Python: C++ between the two raises it.
BETWEEN = """
#include <signal.h>
#include <stdint.h>
typedef int (*optimize)(const void*, int64_t, const void*, const char*, const char*, const char*, int, void*);
static optimize python;
static int left;
static int stale(int call) {
  volatile int stack[4096];
  for (int i = 0; i < 4096; ++i) stack[i] = call;
  return stack[9];
}
void between(optimize callback, int times) { python = callback; left = times; }
int pressed(const void* graph, int64_t bytes, const void* item, const char* id, const char* feeds, const char* device,
            int call, void* result) {
  if (left-- > 0) raise(SIGINT);
  stale(call - 2);  // what the call before returned, "left alone", lies on the stack
  return python(graph, bytes, item, id, feeds, device, call, result);
}
"""
PENDING = """
import ctypes, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts tests in the background ignores it
import tensorflow as tf
from tf_stitch.config import load_config
from tests.support.fork_server import ForkServer
from tf_stitch.config import plain_environment
from tf_stitch.plugin import graph_hook
from tools.benchmark.machine import module_path
graph_hook.install(lambda item: None, print, load_config().cache_dir)
between = ctypes.CDLL(sys.argv[1])
hook = graph_hook._installed
between.between(hook._callback, int(sys.argv[2]))
hook._library.tfs_hook_set_callback(graph_hook._CALLBACK(("pressed", between)))
if sys.argv[2] == "0":  # what else is raised as Python is entered is no Ctrl-C
    def fails(*_): raise RecursionError
    fails = graph_hook._CALLBACK(fails)
    hook._library.tfs_hook_set_callback(fails)
try:
    print(tf.function(lambda x: tf.tanh(x) * 1.5 + 0.25)(tf.ones([4])).numpy()[0])
    print("went on")
except KeyboardInterrupt:
    print("ended")
hook._library.tfs_hook_set_callback(hook._callback)
print(tf.function(lambda x: tf.tanh(x) * 2.5 + 0.25)(tf.ones([4])).numpy()[0])
"""


@pytest.mark.parametrize(("presses", "said"), [(1, "ended"), (0, "went on")])
def test_ctrl_c_before_python_is_entered_is_not_lost(fork_server: ForkServer, tmp_path: Path, presses: int, said: str
                                                     ) -> None:
    (tmp_path / "between.c").write_text(BETWEEN)
    subprocess.run(["gcc", "-shared", "-fPIC", "between.c", "-o", "between.so"], cwd=tmp_path, check=True)
    done = fork_server.completed(PENDING, [tmp_path / "between.so", presses], ENVIRONMENT, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-2] == said, done
