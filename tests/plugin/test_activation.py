"""Activation by environment variable, in processes of their own."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.fork_server import ForkServer
from tests.support.start import python_path
from tf_stitch.config import load_config, plain_environment
from tf_stitch.native.build import GRAPH_HOOK, build_library

ROOT = Path(__file__).parents[2]
PTH_LINE = 'import os; os.environ.get("TF_STITCH", "0") not in ("", "0") and __import__("tf_stitch.plugin.autoload")'

# A session that counts, in place of the real one.
TOY_SESSION = """
import sys, types
class Session:
    def __init__(self, config, native, process, first_calls=None):
        self.rewrites = 0
        print("session", config.strict, native is not None)
    def rewrite(self, item):
        self.rewrites += 1
    def build(self, region, device, key): return None
    def fallback_bytes(self, region, device, key): return 0
    def smaller(self, region, device, key, free): return []
    fallbacks = types.SimpleNamespace(subgraph=lambda region, reason: None, run=lambda region, call: None)
    labels, profitability, lifetimes, first_calls = None, None, types.SimpleNamespace(left=None), None
    turns = None
    def hook_error(self, exc): raise exc
    def close(self): print("closed", self.rewrites > 0)
module = types.ModuleType("tf_stitch.plugin.session")
module.Session = Session
sys.modules["tf_stitch.plugin.session"] = module
"""
RUN = """
import tensorflow as tf
tf.function(lambda x: tf.tanh(x) * 2.0 + 1.0)(tf.ones([4]))
"""
START = f"exec({PTH_LINE!r})\n"  # what the interpreter does with the .pth file


Run = Callable[..., subprocess.CompletedProcess[str]]


def run(code: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-c", code] if code else [sys.executable, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=_environment(variables))


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    return plain_environment() | {"TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": python_path(ROOT), **variables}


@pytest.fixture
def forked(fork_server: ForkServer, tmp_path: Path) -> Run:
    """As run, in a process that has imported TensorFlow already: START activates at once."""
    return lambda code, **variables: fork_server.completed(code, [], _environment(variables), tmp_path)


@pytest.mark.parametrize("value", [None, "", "0"])
def test_costs_nothing_when_off(value: str | None) -> None:
    code = (
        "import sys, time, os\n"
        f"line = compile({PTH_LINE!r}, 'pth', 'exec')\n"
        "start = time.perf_counter(); exec(line); print(time.perf_counter() - start)\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('tf_stitch', 'tensorflow')])"
    )
    result = run(code, **({} if value is None else {"TF_STITCH": value}))
    seconds, modules = result.stdout.splitlines()
    assert float(seconds) < 1e-3
    assert modules == "[]"


def test_setup_writes_that_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    assert runpy.run_path(str(ROOT / "setup.py"))["PTH_LINE"] == PTH_LINE + "\n"


def test_active_from_start_to_end() -> None:
    # Looking TensorFlow up before importing it, as some libraries do, must not use the hook up.
    look_up = "import importlib.util; importlib.util.find_spec('tensorflow')\n"
    result = run(TOY_SESSION + START + look_up + RUN, TF_STITCH="1", TF_STITCH_ASYNC="0")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:2] == ["session False True", "closed True"]


def test_tensorflow_imported_before(forked: Run) -> None:
    result = forked(TOY_SESSION + "import tensorflow\n" + START + RUN, TF_STITCH="strict", TF_STITCH_WRAP="py_function")
    assert result.stdout.split("\n")[:2] == ["session True False", "closed True"], result.stderr


@pytest.mark.parametrize("background", ["0", "1"])
def test_active_while_the_programs_exit_handlers_run(background: str, forked: Run) -> None:
    """They meet a new shape, when no thread can be started any more."""
    early = "import atexit; atexit.register(lambda: print(f(tf.ones([5])).numpy()[4]))\n"
    late = "f = tf.function(lambda x: tf.nn.relu(x) * 2.0 + 1.0, [tf.TensorSpec([None])])\nf(tf.ones([4]))\n"
    begin = run if background == "1" else forked  # the default from the start
    result = begin(START + early + "import tensorflow as tf\n" + late, TF_STITCH="1", TF_STITCH_ASYNC=background)
    assert result.stdout == "3.0\n", result.stderr
    assert "fallback" not in result.stderr


@pytest.mark.parametrize(
    ("name", "value"), [("TF_STITCH", "yes"), ("TF_STITCH_PLANNER", "magic"), ("TF_STITCH_TYPO", "1")]
)
def test_wrong_variable_ends_the_program(name: str, value: str) -> None:
    result = run(START + "import tensorflow", **{"TF_STITCH": "1", name: value})
    assert result.returncode == 1
    assert name in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_failure_leaves_tensorflow_alone(forked: Run) -> None:
    broken = TOY_SESSION + "def broken(*_): raise RuntimeError('no luck')\nmodule.Session = broken\n" + START
    result = forked(broken + RUN + "print('went on')", TF_STITCH="1", TF_STITCH_ASYNC="0")
    assert result.stdout.strip() == "went on"
    assert "[tf_stitch] disabled, TensorFlow runs this program alone: no luck" in result.stderr
    result = forked(broken + RUN, TF_STITCH="strict")
    assert result.returncode == 1
    assert "RuntimeError: no luck" in result.stderr


def test_no_compiler(forked: Run, tmp_path: Path) -> None:
    cache = {"TF_STITCH": "1", "TF_STITCH_CACHE": str(tmp_path), "PATH": "/nonexistent"}
    result = forked(TOY_SESSION + START + RUN + "print('went on')", **cache)
    assert result.stdout == "went on\n", "without the hook no session is begun"
    assert "[tf_stitch] disabled, TensorFlow runs this program alone: no C++ compiler" in result.stderr


def test_without_the_native_op_tensorflow_runs_the_program(forked: Run, tmp_path: Path) -> None:
    """A region in Python would be slower. The next process does not try again."""
    compiler = tmp_path / "g++"
    rejects = 'case "$*" in *op_stitch_op.cc*) echo "stitch_op.cc:7: error: no luck" >&2; exit 1;; esac'
    compiler.write_text(f'#!/bin/sh\n{rejects}\nexec {shutil.which("g++")} "$@"\n')
    compiler.chmod(0o755)
    hook = build_library(GRAPH_HOOK, load_config().cache_dir)
    (tmp_path / "native").mkdir(mode=0o700)
    shutil.copy2(hook, tmp_path / "native")
    variables = {"TF_STITCH": "1", "TF_STITCH_CACHE": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    asks = "from tf_stitch.plugin.autoload import was_active; print(was_active())\n"
    first, again = (forked(START + RUN + asks, **variables) for _ in range(2))
    for result in (first, again):
        assert (result.returncode, result.stdout) == (0, "False\n"), result.stderr
        said = [line for line in result.stderr.splitlines() if line.startswith("[tf_stitch] disabled")]
        assert len(said) == 1
        assert "TensorFlow runs this program alone" in said[0]
        assert "could not build stitch_op" in said[0]
        assert "error: no luck" in result.stderr
    assert "not tried again" in again.stderr
    assert "not tried again" not in first.stderr
    asked = forked(START + RUN + asks, **variables, TF_STITCH_WRAP="py_function")
    assert asked.stdout == "True\n", asked.stderr
    assert "disabled" not in asked.stderr


def test_python_m(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(TOY_SESSION + RUN + "import sys; print(__name__, sys.argv[1:])")
    result = run("", "-m", "tf_stitch", str(script), "--flag", TF_STITCH="1", TF_STITCH_ASYNC="0")
    assert result.stdout.split("\n")[:3] == ["session False True", "__main__ ['--flag']", "closed True"], result.stderr
    assert run("", "-m", "tf_stitch").returncode == 1
    assert "usage" in run("", "-m", "tf_stitch").stderr


KERAS = """
from keras.src.trainers import trainer
trainer.model_supports_jit = lambda model: True
tf.config.list_physical_devices = lambda *_: [tf.config.PhysicalDevice("/gpu", "GPU")]
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse"); print("auto", model.jit_compile)
for _ in range(2): model.compile("sgd", "mse", jit_compile=True); print("explicit", model.jit_compile)
"""


@pytest.mark.parametrize("imports", ["import keras, tensorflow as tf\n", "import tensorflow as tf\nimport keras\n"])
def test_keras_auto_is_false(imports: str) -> None:
    variables = {"TF_STITCH": "1", "TF_STITCH_WRAP": "py_function"}
    result = run(TOY_SESSION + START + imports + KERAS, **variables)
    assert result.stdout.split("\n")[:3] == ["auto False", "explicit True", "explicit True"], result.stderr
    assert result.stderr.count("XLA compiles this model") == 1


def test_wheel_and_editable_contents(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE", "tf_stitch"):
        (source / name).symlink_to(ROOT / name)
    build = (
        "from setuptools import build_meta\n"
        f"build_meta.build_wheel({str(tmp_path / 'wheel')!r})\n"
        f"build_meta.build_editable({str(tmp_path / 'editable')!r})\n"
        f"build_meta.build_sdist({str(tmp_path / 'sdist')!r})\n"
    )
    for folder in ("wheel", "editable", "sdist"):
        (tmp_path / folder).mkdir()
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True, timeout=200)
    [wheel] = (tmp_path / "wheel").glob("*.whl")
    [editable] = (tmp_path / "editable").glob("*.whl")
    for path in (wheel, editable):
        with zipfile.ZipFile(path) as archive:
            assert archive.read("tf_stitch.pth").decode() == PTH_LINE + "\n"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [metadata] = [archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
    sources = [path for path in (ROOT / "tf_stitch/native").rglob("*.[ch]*") if path.suffix != ".pyc"]
    assert {path.relative_to(ROOT).as_posix() for path in sources} <= names
    assert {Path(name).name for name in names if ".dist-info/licenses/" in name} == {
        "LICENSE", "NOTICE", "cytoscape.LICENSE", "dagre.LICENSE"}
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    [sdist] = (tmp_path / "sdist").glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        held = {Path(name).name for name in packed.getnames()}
    assert {"LICENSE", "NOTICE", "cytoscape.LICENSE", "setup.py", "graph_hook.cc"} <= held
    assert {"tf_stitch/plugin/autoload.py", "tf_stitch/frontend/tensorflow/__init__.py"} <= names
