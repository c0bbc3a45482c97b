"""tf_stitch's functions, in processes of their own and in a Jupyter kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.fork_server import ForkServer
from tests.support.start import python_path

ROOT = Path(__file__).parents[1]
USE = """
import numpy as np
def fresh():
    return tf.function(lambda x: tf.nn.softmax(tf.tanh(x) * 2.0 + 1.0))
def regions():
    report = tf_stitch.last_report()
    return 0 if report is None else len(report["regions"])
x = tf.ones([4, 8])
"""
EXCLUDED = """
def plain(x):
    if tf.reduce_sum(x) > 1e9:  # autograph
        x = x + 1.0
    return tf.sigmoid(tf.sin(x) * 3.0)
@tf.function
def step(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf_stitch.exclude(plain)(tf.tanh(x) * 2.0 + 1.0)
        with tf_stitch.exclude():
            z = tf.cos(y)
        loss = tf.reduce_sum(tf.nn.softmax(z * 4.0))
    return tape.gradient(loss, x)
got = step(x)
"""
STITCHED_OPS = ("print(sorted({op for region in tf_stitch.last_report()['regions'] "
                "for op in region['nodes'].values()}))\n")


Run = Callable[..., subprocess.CompletedProcess[str]]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=250,
                          env=_environment({}))


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("TF_STITCH") or name == "TF_STITCH_CACHE"}  # fmt: skip
    return environment | {"TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": python_path(ROOT), "TF_STITCH_ASYNC": "0",
                          "TF_STITCH_FIRST_STEP_SECONDS": "3000", **variables}  # the first step is stitched


@pytest.fixture
def forked(fork_server: ForkServer, tmp_path: Path) -> Run:
    """As run, in a process that has imported TensorFlow already."""
    return lambda code, **variables: fork_server.completed(code, [], _environment(variables), tmp_path)


def test_a_tensorflow_that_was_imported_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """That reads pip's records of all distributions, which takes a third of a second."""
    from tf_stitch import api
    from tf_stitch.plugin import activation, graph_hook  # imports TensorFlow

    assert "tensorflow" in sys.modules
    done: list[str] = []
    monkeypatch.setattr(api, "find_tensorflow", lambda: done.append("looked for"))
    monkeypatch.setattr(activation, "enable", lambda config: done.append("enabled"))
    monkeypatch.setattr(graph_hook, "switch", lambda on: done.append("on"))
    api.enable()
    assert done == ["enabled", "on"]


def test_importing_imports_no_tensorflow() -> None:
    done = run("import sys, tf_stitch; print('tensorflow' in sys.modules, tf_stitch.is_enabled(), "
               "tf_stitch.last_report())")
    assert done.stdout == "False False None\n", done.stderr
    assert done.stderr == ""


def test_enable_and_disable(forked: Run) -> None:
    done = forked("import tensorflow as tf, tf_stitch\n" + USE + """
fresh()(x); print(tf_stitch.is_enabled(), regions())
tf_stitch.enable(); fresh()(x); print(tf_stitch.is_enabled(), regions())
tf_stitch.disable(); fresh()(x); print(tf_stitch.is_enabled(), regions())
tf_stitch.enable(); fresh()(x); print(tf_stitch.is_enabled(), regions())
with tf_stitch.exclude(): fresh()(x)
tf_stitch.exclude(fresh())(x); print(regions())
print(tf_stitch.last_report())
""", TF_STITCH_REPORT="/nonexistent/x")  # so that it keeps what is freed
    *seen, line = done.stdout.splitlines()
    assert seen == ["False 0", "True 1", "False 1", "True 2", "2"], done.stderr
    assert line.startswith("no step was measured: <lambda>: called once, too seldom; "), line


@pytest.mark.parametrize("imports", ["import tf_stitch, os; os.environ['TF_STITCH'] = '1'; import tensorflow as tf",
                                     "import os; os.environ['TF_STITCH'] = '1'; import tensorflow as tf, tf_stitch"])
def test_the_variable_set_in_the_program(imports: str) -> None:
    done = run(imports + USE + "step = fresh(); step(x); print(tf_stitch.is_enabled(), regions())")
    assert done.stdout == "True 1\n", done.stderr


def test_the_variable_set_too_late(forked: Run) -> None:
    done = forked("import tf_stitch.plugin.autoload\n"  # as importing tf_stitch does at first
                  "import os, tensorflow as tf; os.environ['TF_STITCH'] = '1'" + USE + "fresh()(x)")
    assert "TF_STITCH was set after TensorFlow had been imported" in done.stderr
    assert "tf_stitch.enable()" in done.stderr


def test_excluded_ops_and_their_gradients_stay(forked: Run) -> None:
    done = forked("import tensorflow as tf, tf_stitch\ntf_stitch.enable()\n" + USE + EXCLUDED + STITCHED_OPS +
                  "tf_stitch.disable(); tf.config.run_functions_eagerly(True)\n"
                  "np.testing.assert_allclose(got, step(x), rtol=1e-5, atol=1e-7)\n", TF_STITCH_GUARD="0")
    assert done.returncode == 0, done.stderr
    assert "Tanh" in done.stdout
    for op in ("Sin", "Sigmoid", "Cos", "SigmoidGrad"):
        assert f"'{op}'" not in done.stdout


def test_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path(ROOT))
    monkeypatch.delenv("TF_STITCH", raising=False)
    monkeypatch.setenv("TF_STITCH_ASYNC", "0")
    cells = ["import os\nos.environ['TF_STITCH'] = '1'\nimport tf_stitch\nimport tensorflow as tf" + USE,
             "f = fresh()  # kept: what is freed leaves the report\nf(x)\nprint(tf_stitch.is_enabled(), regions())",
             "tf_stitch.disable()\ng = fresh()\ng(x)\nprint(tf_stitch.is_enabled(), regions())",
             "tf_stitch.enable()\nwith tf_stitch.exclude():\n    h = fresh()\n    h(x)\nprint(regions())"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=280, kernel_name="python3").execute()
    said = ["".join(out["text"] for out in cell.outputs if out.get("name") == "stdout") for cell in notebook.cells]
    assert said == ["", "True 1\n", "False 1\n", "1\n"]
