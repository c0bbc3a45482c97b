"""Makes a wheel for the TensorFlow that is installed, with the native libraries inside: it needs no g++ where it goes.

    python -m tools.wheel --wheel_out=dist
    python -m tools.wheel --libraries_out=prebuilt      # the libraries alone, beside those of other versions

The wheel's name has TensorFlow's version ("-2.21.0tf-"). Beside another TensorFlow it works as any other: the libraries
are built from their sources when they are first used. tools/release.sh makes one wheel for all versions.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, PREBUILT, SOURCE_DIR, STITCH_OP, build_library

_OUT = flags.DEFINE_string("wheel_out", "dist", "folder for the wheel")
_LIBRARIES_OUT = flags.DEFINE_string("libraries_out", None, "folder for native libraries; then no wheel is made")

ROOT = Path(__file__).parents[1]
_PARTS = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE", "tf_stitch")


def put_libraries(folder: Path) -> None:
    """Puts the native libraries for the installed TensorFlow into a folder. They come from the cache, or are built.

    Raises:
        NativeError: they cannot be built.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for library in (GRAPH_HOOK, STITCH_OP):
        shutil.copy(build_library(library, load_config().cache_dir, portable=True), folder)


def make_wheel(folder: Path) -> Path:
    """The wheel, in `folder`.

    Raises:
        NativeError: they cannot be built.
        subprocess.CalledProcessError: pip failed.
    """
    with tempfile.TemporaryDirectory() as temporary:
        tree, made = Path(temporary, "tree"), Path(temporary, "made")
        tree.mkdir()
        for part in _PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, tree / part, ignore=shutil.ignore_patterns("__pycache__", PREBUILT.name))
            else:
                shutil.copy(source, tree / part)
        put_libraries(tree / "tf_stitch" / SOURCE_DIR.name / PREBUILT.name)
        flags_of_pip = ["-q", "--no-deps", "--no-build-isolation", "-w", str(made)]
        subprocess.run([sys.executable, "-m", "pip", "wheel", *flags_of_pip, str(tree)], check=True)
        [wheel] = made.glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, folder / wheel.name))


def main(argv: Sequence[str]) -> None:
    """Raises SystemExit for arguments that are no flags."""
    if len(argv) > 1:
        raise app.UsageError(f"{argv[1]} is no flag")
    if _LIBRARIES_OUT.value:
        put_libraries(Path(_LIBRARIES_OUT.value))
    else:
        print(make_wheel(Path(_OUT.value)))


if __name__ == "__main__":
    app.run(main)
