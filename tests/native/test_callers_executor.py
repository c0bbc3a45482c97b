"""The executor of callers_executor.cc where TensorFlow's wheel lacks a header, or the functions that it declares."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import tensorflow as tf

from tf_stitch.config import load_config
from tf_stitch.native.bindings import OpLibrary
from tf_stitch.native.build import SOURCE_DIR, STITCH_OP, build_library

HEADER = Path("tensorflow/core/common_runtime/single_threaded_executor.h")
FUNCTIONS = ("NewSingleThreadedExecutor", "ValidateOpIsSafeForSyncExecution")
PROGRAM = """
import ctypes, os, sys
import tensorflow as tf
*without, library = [ctypes.CDLL(path, mode=os.RTLD_NOW).tfs_callers_executor() for path in sys.argv[1:]]
if library:
    with tf.experimental.function_executor_type("TF_STITCH"):
        assert float(tf.function(lambda x: x + 1)(tf.constant(1.0))) == 2
print(*without, library)
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


def undefined(path: Path, *options: str) -> dict[str, str]:
    """Symbols of an object file, or with -D of a library, that others define, with their kind: "w" is weak."""
    text = subprocess.run(["nm", "-u", *options, str(path)], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {name: kind for kind, name in map(str.split, text.splitlines())}


def symbol_of(function: str, symbols: Mapping[str, str]) -> str:
    [symbol] = [name for name in symbols if name.startswith(f"_ZN10tensorflow{len(function)}{function}E")]
    return symbol


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """callers_executor.cc, compiled without the header, and what says that it comes first."""
    folder = tmp_path_factory.mktemp("executor")
    headers = headers_without(HEADER, folder / "include")
    assert (headers / HEADER).with_name("executor.h").exists()
    assert not (headers / HEADER).exists()
    others = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
    subprocess.run(["g++", "-c", "-fPIC", "-w", *others, f"-I{headers}", f"-I{SOURCE_DIR}",
                    "-include", str(SOURCE_DIR / "op/first_copy.cc"), str(SOURCE_DIR / "op/callers_executor.cc"), "-o",
                    str(folder / "executor.o")], check=True)
    return folder / "executor.o"


def linked(compiled: Path, missing: str | None) -> Path:
    """A library of it. The function that is missing is one that this TensorFlow does not hold."""
    library, renamed = compiled.with_name(f"{missing}.so"), compiled.with_name(f"{missing}.o")
    symbol = symbol_of(missing, undefined(compiled)) if missing else ""
    options = [f"--redefine-sym={symbol}={symbol}_not_in_this_TensorFlow"] if missing else []
    subprocess.run(["objcopy", *options, str(compiled), str(renamed)], check=True)
    subprocess.run(["g++", "-shared", str(renamed), "-o", str(library), *tf.sysconfig.get_link_flags()], check=True)
    return library


def test_this_tensorflow_holds_the_functions(library: OpLibrary) -> None:
    assert library.callers_executor


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_native_op_can_do_without_a_function(function: str) -> None:
    """Compiled with the header, whose declarations are not weak."""
    symbols = undefined(build_library(STITCH_OP, load_config().cache_dir), "-D")
    assert symbols[symbol_of(function, symbols)] == "w"


def test_without_the_header_or_a_function(compiled: Path) -> None:
    """As in the wheels of TensorFlow 2.16 to 2.18, which have no header. Where a function is missing, the library is
    loaded all the same, and says that there is no executor. In another process: an executor's name can be registered
    only once."""
    libraries = [str(linked(compiled, missing)) for missing in (*FUNCTIONS, None)]
    run = subprocess.run([sys.executable, "-c", PROGRAM, *libraries], stdout=subprocess.PIPE, text=True, check=True)
    assert run.stdout.split() == ["0", "0", "1"]
