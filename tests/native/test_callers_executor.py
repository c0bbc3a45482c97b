"""The executor of callers_executor.cc where TensorFlow's wheel lacks a header, or the functions that it declares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from tf_stitch.native.bindings import OpLibrary
from tf_stitch.native.build import SOURCE_DIR

HEADER = Path("tensorflow/core/common_runtime/single_threaded_executor.h")
PROGRAM = """
import ctypes, os, sys
import tensorflow as tf
found = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW).tfs_callers_executor()
if found:
    with tf.experimental.function_executor_type("TF_STITCH"):
        assert float(tf.function(lambda x: x + 1)(tf.constant(1.0))) == 2
print(found)
"""


def headers_without(header: Path, folder: Path) -> Path:
    """A copy in links of TensorFlow's headers, but for one."""
    source = Path(tf.sysconfig.get_include())
    kept = {*header.parents, header}
    for parent in reversed(header.parents):
        (folder / parent).mkdir()
        for path in (source / parent).iterdir():
            if parent / path.name not in kept:
                (folder / parent / path.name).symlink_to(path)
    return folder


def found_when_loaded(folder: Path, include: str, *flags: str) -> int:
    """Compiles callers_executor.cc alone, loads it in another process (an executor's name can be registered only once),
    and says whether the executor is there."""
    library = folder / "executor.so"
    others = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
    subprocess.run(["g++", "-shared", "-fPIC", "-w", *flags, *others, f"-I{include}", f"-I{SOURCE_DIR}",
                    str(SOURCE_DIR / "op/callers_executor.cc"), "-o", str(library), *tf.sysconfig.get_link_flags()],
                   check=True)
    run = subprocess.run([sys.executable, "-c", PROGRAM, str(library)], stdout=subprocess.PIPE, text=True, check=True)
    return int(run.stdout)


def test_this_tensorflow_holds_the_functions(library: OpLibrary) -> None:
    assert library.callers_executor


def test_without_the_header(tmp_path: Path) -> None:
    """As in the wheels of TensorFlow 2.16 to 2.18."""
    headers = headers_without(HEADER, tmp_path / "include")
    assert (headers / HEADER).with_name("executor.h").exists()
    assert not (headers / HEADER).exists()
    assert found_when_loaded(tmp_path, str(headers)) == 1


@pytest.mark.parametrize("function", ["NewSingleThreadedExecutor", "ValidateOpIsSafeForSyncExecution"])
def test_without_a_function(tmp_path: Path, function: str) -> None:
    """The library is loaded all the same, and says that there is no executor."""
    assert found_when_loaded(tmp_path, tf.sysconfig.get_include(), f"-D{function}=NotInThisTensorFlow") == 0
