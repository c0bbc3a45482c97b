"""Builds the native libraries against the installed TensorFlow, once per TensorFlow version and source.

Nothing is built at install time, when TensorFlow may not be there (pip isolates builds): the first use builds, in
about half a minute on one core. A file serves the CPU and the GPU wheel of its TensorFlow version, so a cache folder
can be carried to a machine without a compiler.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tf_stitch.errors import NativeError
from tf_stitch.private_folder import make_private, temporary_folder

SOURCE_DIR = Path(__file__).parent
COMPILERS = ("g++", "c++", "clang++")
COMPILE_SECONDS = 600
_FLAGS = ("-O2", "-DNDEBUG", "-fPIC", "-w")
_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_X86_FLAGS = {"cpu/host_blocks_avx2.cc": _AVX2,
              "cpu/host_blocks_avx512.cc": (*_AVX2, "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl")}
"""Source -> instructions it may use where processors are x86: which file runs is decided by the processor at hand."""


@dataclass(frozen=True)
class Library:
    """A shared library made from sources of this folder.

    Attributes:
        name: the stem of its file name.
        sources: paths below SOURCE_DIR. Those for special processors come last: of a function that several hold, the
            linker takes the first.
        links_tensorflow: resolves TensorFlow's symbols (the op does; the graph hook must not).
    """

    name: str
    sources: tuple[str, ...]
    links_tensorflow: bool


STITCH_OP = Library(
    "stitch_op",
    ("op/stitch_op.cc", "op/executable.cc", "op/region_runtime.cc", "op/guard.cc", "op/callers_executor.cc",
     "op/exports.cc", "loop/while_op.cc", "loop/loop_roles.cc", "loop/loop_spec.cc", "cuda/cuda_driver.cc",
     "cuda/gpu_modules.cc", "cuda/gpu_timer.cc", "cuda/cuda_graph.cc", "cuda/graph_nodes.cc", "cuda/graph_places.cc",
     "cuda/cublas_lt.cc", "cuda/lt_library.cc", "cpu/host_gemm.cc", "cpu/host_blocks_baseline.cc",
     "cpu/host_blocks_avx2.cc", "cpu/host_blocks_avx512.cc"),
    links_tensorflow=True,
)
GRAPH_HOOK = Library("graph_hook", ("hook/graph_hook.cc",), links_tensorflow=False)


def build_library(library: Library, cache_dir: Path) -> Path:
    """Returns the library's file, compiled unless `cache_dir`/native has it for this TensorFlow and these sources.

    Raises:
        NativeError: no compiler, or it rejected the sources; the message says what to do.
    """
    import tensorflow as tf

    flags = [*_FLAGS, *tf.sysconfig.get_compile_flags()]
    libraries = [*tf.sysconfig.get_link_flags(), "-ldl"] if library.links_tensorflow else ["-ldl"]
    version = tf.version.VERSION
    special = [flag for source in library.sources for flag in _special_flags(source)]
    digest = _digest(library, [version, tf.version.GIT_VERSION, *flags, *special, *libraries])
    file = f"{library.name}-tf{version}-{digest[:16]}.so"
    folder = cache_dir.expanduser() / "native"
    access = make_private(folder)
    if access.reading and (folder / file).exists():  # perhaps where nothing can be written
        return folder / file
    if access.problem:
        folder = _temporary_folder(folder, access.problem)
    target = folder / file
    if not target.exists():  # it is moved into place when it is finished
        with _locked(folder / f"{library.name}.lock"):
            if not target.exists():
                _compile(library, flags, libraries, target)
    return target


def _digest(library: Library, settings: list[str]) -> str:
    """Hex sha256 of everything that decides what the compiler makes."""
    # Where TensorFlow lies does not matter: its version is among the settings.
    settings = [setting for setting in settings if not setting.startswith(("-I", "-L"))]
    digest = hashlib.sha256("\0".join(settings).encode())
    for path in [*(SOURCE_DIR / name for name in library.sources), *sorted(SOURCE_DIR.rglob("*.h"))]:
        digest.update(path.relative_to(SOURCE_DIR).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def _temporary_folder(wanted: Path, reason: str) -> Path:
    _say(f"native libraries go to a temporary folder ({wanted}: {reason}); TF_STITCH_CACHE names a lasting one")
    return temporary_folder(str(wanted))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps other processes out; they find the finished file afterwards."""
    with open(path, "w") as file:
        # Without lock support (some network folders) both compile, and the atomic rename keeps that right.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(library: Library, flags: list[str], libraries: list[str], target: Path) -> None:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NativeError(
            f"no C++ compiler ({', '.join(COMPILERS)}) to build {library.name}: install g++, or set "
            "TF_STITCH_WRAP=py_function"
        )
    _say(f"building {library.name} for this TensorFlow, once (kept in {target.parent})")
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory(prefix="tf_stitch-") as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = [f"{folder}/{source.replace('/', '_')}.o" for source in library.sources]
            commands = [[compiler, *flags, f"-I{SOURCE_DIR}", *_special_flags(source), "-c", str(SOURCE_DIR / source),
                         "-o", made]
                        for source, made in zip(library.sources, objects, strict=True)]
            for _ in pool.map(lambda command: _run(library, command), commands):
                pass
            _run(library, [compiler, "-shared", *objects, "-o", str(partial), *libraries])
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _special_flags(source: str) -> tuple[str, ...]:
    return _X86_FLAGS.get(source, ()) if platform.machine() == "x86_64" else ()


def _run(library: Library, command: list[str]) -> None:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeError(f"{command[0]} could not build {library.name}: {error}") from error
    if run.returncode != 0:
        raise NativeError(
            f"{command[0]} could not build {library.name} (exit {run.returncode}); it needs C++17 and the headers of "
            f"the installed TensorFlow:\n{_first_errors(run.stderr)}"
        )


def _first_errors(output: str) -> str:
    lines = output.splitlines()
    errors = [line for line in lines if "error" in line]
    return "\n".join((errors or lines)[:12])


def _say(message: str) -> None:
    print(f"[tf_stitch] {message}", file=sys.stderr)
