"""Folders of SavedModels: what lies where, and which can be read or written. Imports no TensorFlow, so that a wrong
path is told at once."""

from __future__ import annotations

import json
from pathlib import Path

from tf_stitch.errors import ConvertError
from tf_stitch.version import __version__

GRAPH_FILE = "saved_model.pb"
OWN_FOLDER = Path("assets.extra", "tf_stitch")
"""Of a converted model: what nobody needs who loads it."""
MANIFEST, ORIGINAL, CERTIFICATE = "manifest.json", "original_saved_model.pb", "certificate.json"
LARGEST_GRAPH = (1 << 31) - 1
"""Bytes: a protocol buffer holds no more. Variables are not counted."""


def check_paths(source: Path, target: Path | None, overwrite: bool) -> None:
    """
    Args:
        target: None where nothing is written.

    Raises:
        ConvertError: there is no model to convert, or no place for the converted one.
    """
    if target is not None:
        check_apart(source, target)
        check_target(target, overwrite)
    check_source(source)


def check_source(path: Path) -> None:
    """
    Raises:
        ConvertError: it is no folder of a SavedModel that could be converted.
    """
    if not path.exists():
        raise ConvertError(f"there is no directory {path}: --input_dir names that of a SavedModel")
    if not path.is_dir():
        raise ConvertError(f"{path} is a file: --input_dir names the directory of a SavedModel")
    file = path / GRAPH_FILE
    if (path / OWN_FOLDER / MANIFEST).exists():
        raise ConvertError(f"{path} is converted already{_by_whom(path)}: convert the model that it was made of, or "
                           "check it with --verify_only")
    if not file.exists():
        kind = "a SavedModel as text, which has to be saved anew" if (path / "saved_model.pbtxt").exists() else \
            f"no SavedModel: it has no {GRAPH_FILE}. Save the model with `model.export` or `tf.saved_model.save`"
        raise ConvertError(f"{path} is {kind}")
    if file.stat().st_size > LARGEST_GRAPH:
        raise ConvertError(f"{file} is larger than 2 GB, which no protocol buffer may be: keep the weights as "
                           "variables rather than constants")


def check_apart(source: Path, target: Path) -> None:
    """
    Raises:
        ConvertError: the model would be written over the one that is read, or into it.
    """
    one, other = source.resolve(), target.resolve()
    if one == other or one in other.parents or other in one.parents:
        raise ConvertError(f"{target} is the input, in it, or has it inside, and the input is only read: give another "
                           "--output_dir")


def check_target(target: Path, overwrite: bool) -> None:
    """
    Raises:
        ConvertError: the target exists and is not to be overwritten, or is no folder.
    """
    if target.exists() and not overwrite:
        raise ConvertError(f"{target} exists: give another --output_dir, or --overwrite to replace it")
    if target.exists() and not target.is_dir():
        raise ConvertError(f"{target} is a file: give another --output_dir")
    if overwrite and target.exists() and any(target.iterdir()) and not (target / GRAPH_FILE).exists():
        raise ConvertError(f"{target} is no SavedModel, and is not replaced by one: give another --output_dir")


def _by_whom(path: Path) -> str:
    try:
        version = json.loads((path / OWN_FOLDER / MANIFEST).read_text()).get("tf_stitch")
    except (OSError, ValueError, AttributeError):
        return " (its manifest cannot be read)"
    return f" by tf_stitch {version}, which is not this version ({__version__})" if version != __version__ else ""
