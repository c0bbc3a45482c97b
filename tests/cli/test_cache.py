"""The cache folder, shown and cleared; and filled."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import tensorflow as tf

import tf_stitch
from tests.cli.test_commands import command
from tf_stitch.cli.cache import KINDS, main
from tf_stitch.config import load_config


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for kind, files in (("kernels", 3), ("steps", 2), ("native", 1), ("somebodys", 1)):
        (tmp_path / "cache" / kind).mkdir(parents=True)
        for number in range(files):
            (tmp_path / "cache" / kind / f"{number}").write_bytes(bytes(1 << 20))
    return tmp_path / "cache"


def test_it_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--cache={folder}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(folder)
    assert [line.split()[:4] for line in lines[1:]] == [["kernels", "3", "files", "3.0"],
                                                        ["steps", "2", "files", "2.0"],
                                                        ["native", "1", "files", "1.0"]]


def test_every_kind_is_known() -> None:
    sources = Path(tf_stitch.__file__).parent.rglob("*.py")
    kept = {kind for source in sources for kind in re.findall(r'cache_dir / "(\w+)"', source.read_text())}
    assert {"kernels", "steps"} <= kept
    assert kept <= set(KINDS)


def test_what_is_made_anew_is_removed_and_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--cache={folder}", "--clear"]) == 0
    assert "removed kernels" in capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {"native", "somebodys"}
    assert main([f"--cache={folder}", "--clear=all"]) == 0
    assert {path.name for path in folder.iterdir()} == {"somebodys"}
    assert main([f"--cache={folder}", "--clear=somebodys"]) == 2
    assert (folder / "somebodys").exists()
    assert main([f"--cache={folder / 'gone'}"]) == 0


class Model(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 64])])
    def serve(self, x: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(tf.tanh(x) * 2.0)


def test_a_saved_model_fills_it(tmp_path: Path) -> None:
    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), {"serving_default": model.serve})
    cache = tmp_path / "cache"
    shutil.copytree(load_config().cache_dir.expanduser() / "native", cache / "native")
    done = command("prebuild", f"--cache={cache}", str(tmp_path / "model"), "--size=8", "--size=24")
    assert done.returncode == 0, done.stderr
    assert "serving_default: built for 8" in done.stdout
    assert "serving_default: built for 24" in done.stdout
    assert list((cache / "kernels").iterdir())


def test_a_program_fills_it(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(load_config().cache_dir.expanduser() / "native", cache / "native")
    (tmp_path / "program.py").write_text("import tensorflow as tf, sys\nprint(sys.argv[1:])\n"
                                         "tf.function(lambda x: tf.exp(x) * 2.0)(tf.ones([9]))\n")
    done = command("prebuild", f"--cache={cache}", "program.py", "--steps=2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "['--steps=2']" in done.stdout
    assert list((cache / "kernels").iterdir())
