from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tf_stitch.convert import folder as module
from tf_stitch.convert.folder import PREFIX, copy_model, remove_abandoned, staged
from tf_stitch.convert.paths import GRAPH_FILE, check_apart
from tf_stitch.errors import ConvertError


def test_a_folder_comes_into_place_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "a" / "model"
    with staged(target, False) as folder:
        (folder / "file").write_text("x")
        assert not target.exists()
    assert (target / "file").read_text() == "x"
    assert os.listdir(target.parent) == ["model"]


def test_nothing_is_left_of_one_that_fails(tmp_path: Path) -> None:
    def interrupted() -> None:
        with staged(tmp_path / "a" / "b" / "model", False) as folder:
            (folder / "file").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(ConvertError), staged(tmp_path / "a" / "model", False):
        raise ConvertError("no")
    assert os.listdir(tmp_path) == ["a"]


def test_the_model_that_was_there_is_back_if_the_new_one_cannot_be_moved(tmp_path: Path,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / GRAPH_FILE).write_text("old")
    rename = os.rename

    def failing(source: Path, end: Path) -> None:
        if Path(source).name == "model" and end == target:
            raise OSError(28, "No space left on device")
        rename(source, end)

    monkeypatch.setattr(module.os, "rename", failing)
    with pytest.raises(ConvertError, match="No space left"), staged(target, True):
        pass
    assert (target / GRAPH_FILE).read_text() == "old"
    assert os.listdir(tmp_path) == ["model"]


def test_what_a_killed_conversion_left_is_removed_and_what_is_in_the_making_is_not(tmp_path: Path) -> None:
    abandoned = tmp_path / f"{PREFIX}gone"
    abandoned.mkdir()
    (abandoned / ".lock").write_text("")
    with staged(tmp_path / "model", False) as folder:
        assert not abandoned.exists()
        remove_abandoned(tmp_path)
        assert folder.exists()


@pytest.mark.parametrize("whose", ["ours, but for the lock", "a link", "others write there", "another user's"])
def test_what_others_put_beside_the_target_is_left_alone(tmp_path: Path, whose: str) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("precious")
    shared, partial = tmp_path / "shared", tmp_path / "shared" / f"{PREFIX}x"
    shared.mkdir()
    if whose == "a link":
        partial.symlink_to(precious)
    else:
        partial.mkdir()
        (partial / ".lock").symlink_to(precious / "file")
    if whose == "others write there":
        partial.chmod(0o777)
    if whose == "another user's":
        if os.getuid() != 0:
            pytest.skip("needs root to give a folder away")
        os.chown(partial, 4712, -1)
    remove_abandoned(shared)
    assert (precious / "file").read_text() == "precious"
    assert os.listdir(precious) == ["file"]
    assert partial.exists()


def test_the_watch_removes_the_folder_when_its_process_has_ended(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    code = f"import os, pathlib\nfrom tf_stitch.convert.folder import _removed_at_the_end\n" \
           f"with _removed_at_the_end(pathlib.Path({str(made)!r})):\n os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    deadline = time.monotonic() + 10
    while made.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not made.exists()


def test_input_and_output_are_apart(tmp_path: Path) -> None:
    source = tmp_path / "model"
    source.mkdir()
    (tmp_path / "link").symlink_to(source)
    check_apart(source, tmp_path / "model2")
    for target in (source, tmp_path / "link", source / "out", source / "assets" / "out", tmp_path):
        with pytest.raises(ConvertError, match="the input is only read"):
            check_apart(source, target)


def test_a_copy_has_all_files_but_the_graph_and_what_is_in_the_making(tmp_path: Path) -> None:
    source, target = tmp_path / "model", tmp_path / "copy"
    (source / "assets" / "inner").mkdir(parents=True)
    (source / f"{PREFIX}x").mkdir()
    target.mkdir()
    (source / "assets" / "inner" / "words").write_text("a")
    (source / GRAPH_FILE).write_bytes(b"old")
    copy_model(source, SavedModel(saved_model_schema_version=7), target)
    assert sorted(os.listdir(target)) == ["assets", GRAPH_FILE]
    assert (target / "assets" / "inner" / "words").read_text() == "a"
    assert SavedModel.FromString((target / GRAPH_FILE).read_bytes()).saved_model_schema_version == 7
    with pytest.raises(ConvertError, match="cannot be copied"):
        copy_model(source, SavedModel(), target / GRAPH_FILE)
