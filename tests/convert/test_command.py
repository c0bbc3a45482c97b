"""What cannot be converted is refused with what to do, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tests.support.fork_server import Forked, ForkServer
from tf_stitch.config import load_config, plain_environment
from tf_stitch.convert import conversion, paths
from tf_stitch.convert.command import INTERRUPTED, OK, REFUSED, USAGE, main
from tf_stitch.convert.folder import LIBRARY
from tf_stitch.convert.paths import CERTIFICATE, MANIFEST, ORIGINAL, OWN_FOLDER

Make = Callable[[str], Path]


def refused(capsys: pytest.CaptureFixture[str], source: Path, target: Path, *flags: str) -> str:
    """What is said of a model that is not converted."""
    before = sorted(path for path in target.parent.rglob("*")) if target.parent.exists() else []
    assert main([f"--input_dir={source}", f"--output_dir={target}", *flags]) == REFUSED
    after = sorted(path for path in target.parent.rglob("*")) if target.parent.exists() else []
    assert after == before
    return capsys.readouterr().err


def test_no_such_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no directory" in refused(capsys, tmp_path / "gone", tmp_path / "out")


def test_a_wrong_path_is_told_at_once(tmp_path: Path) -> None:
    """Before TensorFlow is imported, or the native op is built."""
    code = ("import sys, tf_stitch.convert.command as command\n"
            "code = command.main(['--input_dir=nope', '--output_dir=out'])\n"
            "sys.exit(code if 'tensorflow' not in sys.modules else 'TensorFlow was imported')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
                          env=plain_environment() | {"PYTHONPATH": str(Path(__file__).parents[2])})
    assert done.returncode == REFUSED, done.stderr
    assert done.stderr == "tf_stitch convert: there is no directory nope: --input_dir names that of a SavedModel\n"


def test_no_saved_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model").mkdir()
    assert "is no SavedModel" in refused(capsys, tmp_path / "model", tmp_path / "out")
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"\xff" * 64)
    assert "is damaged, or no SavedModel" in refused(capsys, tmp_path / "model", tmp_path / "out")


def test_an_unknown_signature(models: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, models("module"), tmp_path / "out", "--signatures=serve")
    assert "no signature 'serve'; it has other, serving_default" in said


def test_a_model_that_is_converted_already(converted: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is converted already" in refused(capsys, converted("keras"), tmp_path / "out")


def test_a_model_that_another_version_converted(converted: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
                                                ) -> None:
    model = tmp_path / "model"
    shutil.copytree(converted("keras"), model)
    file = model / OWN_FOLDER / MANIFEST
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tf_stitch": "0.0.1"}))
    assert "by tf_stitch 0.0.1, which is not this version" in refused(capsys, model, tmp_path / "out")
    assert main([f"--verify_only={model}"]) == REFUSED
    assert "was converted by tf_stitch 0.0.1" in capsys.readouterr().err


def test_an_output_that_exists(models: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "precious").write_text("x")
    assert "--overwrite" in refused(capsys, models("keras"), target)
    assert "is no SavedModel, and is not replaced" in refused(capsys, models("keras"), target, "--overwrite")
    assert (target / "precious").exists()


def test_a_model_is_overwritten_where_that_is_asked_for(models: Make, tmp_path: Path) -> None:
    shutil.copytree(models("keras"), tmp_path / "out")
    assert main([f"--input_dir={models('keras')}", f"--output_dir={tmp_path / 'out'}", "--overwrite", "--nomeasure"]
                ) == OK
    assert (tmp_path / "out" / OWN_FOLDER / MANIFEST).exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_output_that_is_the_input_or_in_it(models: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "mine" / "model"
    shutil.copytree(models("keras"), model)
    for target in (model, model / "out", model.parent):
        assert "the input is only read" in refused(capsys, model, target, "--overwrite")


def test_a_report_that_cannot_be_written_is_said_before_the_work(models: Make, tmp_path: Path,
                                                                capsys: pytest.CaptureFixture[str]) -> None:
    for report in (tmp_path / "gone" / "report.json", tmp_path):
        assert "--report=" in refused(capsys, models("keras"), tmp_path / "out", f"--report={report}")


def test_a_full_disk(models: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
                     ) -> None:
    def full(folder: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(conversion, "own_folder", full)
    said = refused(capsys, models("keras"), tmp_path / "out", "--nomeasure")
    assert "cannot be written to" in said
    assert "No space left on device" in said


@pytest.mark.parametrize(("name", "text"), [(ORIGINAL, None), (MANIFEST, "{}"), (MANIFEST, "[1]"), (MANIFEST, "{"),
                                            (CERTIFICATE, None), (CERTIFICATE, '{"cases": []}')])
def test_a_converted_model_whose_papers_are_damaged(name: str, text: str | None, converted: Make, tmp_path: Path,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model"
    shutil.copytree(converted("keras"), model)
    (model / OWN_FOLDER / name).unlink()
    if text is not None:
        (model / OWN_FOLDER / name).write_text(text)
    assert main([f"--verify_only={model}"]) == REFUSED
    said = capsys.readouterr().err
    assert str(OWN_FOLDER / name) in said


def test_an_output_that_cannot_be_written(models: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--input_dir={models('keras')}", "--output_dir=/proc/sys/out"]) == REFUSED
    assert "cannot be written to" in capsys.readouterr().err


def test_a_corrupt_shard_of_variables(models: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model"
    shutil.copytree(models("keras"), model)
    shard = next((model / "variables").glob("*.data-*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2:] = bytes(len(data) - len(data) // 2)
    shard.write_bytes(data)
    assert "TensorFlow cannot load" in refused(capsys, model, tmp_path / "out")
    shard.unlink()
    assert "TensorFlow cannot load" in refused(capsys, model, tmp_path / "out")


def test_an_unknown_custom_op(models: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model"
    shutil.copytree(models("keras"), model)
    proto = SavedModel.FromString((model / "saved_model.pb").read_bytes())
    proto.meta_graphs[0].graph_def.node.add(name="mine", op="MyOwnOp")
    (model / "saved_model.pb").write_bytes(proto.SerializeToString())
    assert "MyOwnOp, an op that this TensorFlow" in refused(capsys, model, tmp_path / "out")


def test_a_graph_over_two_gigabytes(models: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "LARGEST_GRAPH", 1000)
    assert "is larger than 2 GB" in refused(capsys, models("keras"), tmp_path / "out")


def test_inputs_that_the_model_cannot_take(models: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, models("module"), tmp_path / "out", "--input_shapes=serving_default/x=batch,16",
                   "--input_shapes=s=7,7")
    assert "--input_shapes gives s 2 dimensions; the model has 1" in said


class LayersInModule(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [keras.layers.Dense(4), keras.layers.LayerNormalization()]
        for layer, width in zip(self.layers, (16, 4), strict=True):
            layer.build((None, width))

    @tf.function(input_signature=[tf.TensorSpec([None, 16], name="x")])
    def serve(self, x: Any) -> dict[str, Any]:
        return {"y": self.layers[1](self.layers[0](x))}


def test_a_model_that_no_session_restores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And what is advised then converts."""
    model, out = LayersInModule(), tmp_path / "outputs" / "out"
    out.parent.mkdir()
    tf.saved_model.save(model, str(tmp_path / "module"), signatures={"serving_default": model.serve})
    said = refused(capsys, tmp_path / "module", out, "--nomeasure")
    assert "no session restores its variable" in said
    assert "only tf.saved_model.load runs the model" in said
    archive = keras.export.ExportArchive()
    for layer in model.layers:
        archive.track(layer)
    archive.add_endpoint("serve", lambda x: model.serve(x), input_signature=[tf.TensorSpec([None, 16], name="x")])
    archive.write_out(str(tmp_path / "archive"), verbose=False)
    assert main([f"--input_dir={tmp_path / 'archive'}", f"--output_dir={out}", "--nomeasure",
                 "--input_ranges=batch=3:4"]) == OK


def test_flags_that_make_no_sense(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--output_dir=x"], ["--input_dir=x"], ["--input_dir=x", "--output_dir=y", "z"], ["--inputdir=x"],
                 ["--input_dir=x", "--output_dir=y", "--tolerance=nan"],
                 ["--verify_only=x", "--input_dir=y"], ["--verify_only=x", "--copy_library"],
                 ["--input_dir=x", "--dry_run", "--copy_library"],
                 ["--input_dir=x", "--dry_run", "--buckets=batch=1,2", "--input_ranges=batch=1:2"]):
        assert main(argv) == USAGE, argv
        assert "--help says more" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--target=gpu", "--input_ranges=batch=0:4", "--input_ranges=bacth=1:4",
                                  "--input_shapes=x=1;16", "--input_shapes=y=1,16"])
def test_flags_that_make_no_sense_for_the_model(flag: str, models: Make, tmp_path: Path,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--input_dir={models('keras')}", f"--output_dir={tmp_path / 'out'}", flag]) == USAGE
    assert "--help says more" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_library_comes_with_the_model_for_all_to_read(models: Make, tmp_path: Path,
                                                          capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main([f"--input_dir={models('keras')}", f"--output_dir={out}", "--nomeasure", "--buckets=batch=3,5",
                 "--copy_library"]) == OK
    said = capsys.readouterr().out
    copy = out / LIBRARY
    assert f"load it after tf.load_op_library({str(copy)!r})" in said
    assert stat.S_IMODE(copy.stat().st_mode) == 0o644
    tf.load_op_library(str(copy))
    assert "in a server that batches: max_batch_size { value: 5 } allowed_batch_sizes: [3, 5]" in said
    assert [one["x"] for one in json.loads((out / OWN_FOLDER / MANIFEST).read_text())["shapes"]["serve"]] == [
        [3, 16], [5, 16]]


def test_help_tells_every_flag_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == OK
    said = capsys.readouterr().out
    for word in ("input_dir", "output_dir", "signatures", "target", "input_shapes", "input_ranges", "samples", "scope",
                 "tolerance", "report", "dry_run", "overwrite", "verify_only", "Exit codes: 0"):
        assert word in said, word


WAITING = """
import signal, sys, time
from tf_stitch.convert.command import main
from tf_stitch.convert.progress import Progress

said = Progress.step

def step(self, words):
    said(self, words)
    if words == "forming regions":
        time.sleep(60)

Progress.step = step
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs behind it without one
sys.exit(main(sys.argv[1:]))
"""
"""A conversion that is at work until a signal comes, however busy the machine is."""


def test_an_interrupted_conversion_leaves_nothing(models: Make, fork_server: ForkServer, tmp_path: Path,
                                                  tmp_path_factory: pytest.TempPathFactory) -> None:
    for end, code in ((signal.SIGINT, INTERRUPTED), (signal.SIGKILL, -signal.SIGKILL)):
        folder = tmp_path_factory.mktemp("interrupted")
        (folder / "program.py").write_text(WAITING)
        command = [str(folder / "program.py"), f"--input_dir={models('module')}", f"--output_dir={tmp_path / 'out'}"]
        variables = {"TF_STITCH_CACHE": str(_with_native_libraries_alone(folder))}
        assert _ended_by(end, fork_server.start(command, plain_environment() | variables, folder), folder) == code
        deadline = time.monotonic() + 10
        while list(tmp_path.iterdir()) and time.monotonic() < deadline:  # another process removes what is left
            time.sleep(0.05)
        assert list(tmp_path.iterdir()) == [], end


def _with_native_libraries_alone(folder: Path) -> Path:
    """A cache with which a conversion has kernels to build."""
    shutil.copytree(load_config().cache_dir / "native", folder / "cache" / "native")
    return folder / "cache"


def _ended_by(end: signal.Signals, running: Forked, folder: Path) -> int:
    """The exit code of a conversion that gets a signal at work."""
    deadline, stderr = time.monotonic() + 120, folder / "stderr"
    while not stderr.exists() or "forming regions" not in stderr.read_text():
        assert time.monotonic() < deadline, "the conversion does not begin"
        time.sleep(0.05)
    os.kill(running.pid, end)
    return running.wait(60)
