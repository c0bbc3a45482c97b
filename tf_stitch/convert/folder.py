"""The folder of a converted model: made beside its place, and moved there when it is whole."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import EncodeError
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tf_stitch.atomic_file import write_atomically
from tf_stitch.child_process import run_at_the_end
from tf_stitch.convert.paths import GRAPH_FILE, OWN_FOLDER, check_target
from tf_stitch.errors import ConvertError
from tf_stitch.private_folder import check_own, open_lock

PREFIX = ".tf_stitch_partial_"
"""Of folders in the making, beside their place. Each holds a lock while its process lives."""
LIBRARY = "tf_stitch_op.so"
"""The op library's name in a model's folder. TensorFlow's loaders leave files alone that they do not know."""
_LOCK = ".lock"


@contextlib.contextmanager
def staged(target: Path, overwrite: bool) -> Iterator[Path]:
    """An empty folder that becomes `target` at the end, if nothing is raised; else nothing is left of it.

    Raises:
        ConvertError: the target exists, or there is no writing beside it.
    """
    check_target(target, overwrite)
    absent = [parent for parent in target.parents if not parent.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target.parent)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=target.parent))
    except OSError as error:
        raise ConvertError(f"{target.parent} cannot be written to ({error.strerror or error}): give another "
                           "--output_dir") from None
    try:
        with open_lock(folder / _LOCK) as lock, _removed_at_the_end(folder):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            inner = folder / "model"
            inner.mkdir()
            yield inner
            _move(inner, target, folder / "before")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for parent in absent:
            with contextlib.suppress(OSError):  # the model is there, or what others wrote
                parent.rmdir()


@contextlib.contextmanager
def _removed_at_the_end(folder: Path) -> Iterator[None]:
    """The folder is removed also if this process is killed."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a folder is left, which the next conversion removes
            stack.enter_context(run_at_the_end(["rm", "-rf", "--", str(folder.absolute())]))
        yield


def _move(made: Path, target: Path, before: Path) -> None:
    try:
        if target.exists():
            os.rename(target, before)
        os.rename(made, target)
    except OSError as error:
        if before.exists() and not target.exists():
            os.rename(before, target)
        raise ConvertError(f"{target} cannot be written ({error.strerror or error}): give another --output_dir"
                           ) from None


def remove_abandoned(parent: Path) -> None:
    """Removes what conversions left that were killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            check_own(folder)
            with open_lock(folder / _LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # one in the making, or another user's
            continue


def copy_model(source: Path, proto: SavedModel, target: Path, link: bool = False) -> None:
    """A model's folder with another graph: all other files are copied, or linked to where they are not to stay.

    Raises:
        ConvertError: the disk is full, or the graph larger than a protocol buffer may be.
    """
    try:
        for path in sorted(source.iterdir()):
            if path.name == GRAPH_FILE or path.name.startswith(PREFIX):
                continue
            if link:
                (target / path.name).symlink_to(path.resolve())
            elif path.is_dir():
                shutil.copytree(path, target / path.name)
            else:
                shutil.copy2(path, target / path.name)
        (target / GRAPH_FILE).write_bytes(proto.SerializeToString(deterministic=True))
    except (EncodeError, ValueError):  # protobuf's own words differ from version to version
        raise ConvertError("the graph with its regions' own nodes is larger than 2 GB, which no protocol buffer may "
                           "be: keep the weights as variables rather than constants") from None
    except (OSError, shutil.Error) as error:
        raise ConvertError(f"{source} cannot be copied to {target}: {error}") from None


def own_folder(model: Path) -> Path:
    """The folder of a converted model for what only people and --verify_only read, made if it is not there."""
    folder = model / OWN_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def copy_library(library: Path, model: Path) -> Path:
    """Copies the op library into a model's folder, where any user may read it; returns the copy.

    Raises:
        ConvertError: the disk is full, or the folder cannot be written.
    """
    copy = model / LIBRARY
    try:
        write_atomically(copy, library.read_bytes(), mode=0o644)
    except OSError as error:
        raise ConvertError(f"{library} cannot be copied to {copy} ({error.strerror or error}): copy it "
                           "yourself") from None
    return copy
