"""Builds C kernels with the system compiler."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import tempfile
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NoReturn

from tf_stitch.child_process import find_program
from tf_stitch.compiler_run import refuses_the_source, run_compiler
from tf_stitch.emit.comments import code_of
from tf_stitch.errors import BuildError, BuildInterruptedError
from tf_stitch.runtime.cache_key import cache_key
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.library_check import check_library
from tf_stitch.runtime.recorded_compiler import record_compiler, recorded_compiler

# NaN and infinities keep their meaning: no -ffast-math. Traps and errno are not observable from a kernel. Every op of
# the user's rounds its own result: no fma but those that cpu_math.h asks for (docs/decisions/rounding.md).
OPTIONS = ("-O3", "-std=gnu11", "-shared", "-fPIC", "-fwrapv", "-fno-math-errno", "-fno-trapping-math",
           "-ffp-contract=off", "-fopenmp-simd", "-fvisibility=default", "-w",
           # gcc makes cos(atan(x)) and the like roots, without any fast maths, and forgets NaN.
           *(f"-fno-builtin-{name}" for name in ("atan", "atanf", "atanh", "atanhf")))
# Of no effect where the machine has no such registers; there kernels of exp and erf gain up to 1.8x.
_WIDE_VECTORS = ("-mprefer-vector-width=512",) if platform.machine() == "x86_64" else ()
TIMEOUT_SECONDS = 120
"""For one run of the compiler, which then is killed."""
VERSION_SECONDS = 30


@lru_cache(maxsize=1)
def compiler() -> str | None:
    """Path of the C compiler, or None."""
    return find_program(("gcc", "cc", "clang"))


def compiler_version() -> str:
    """What the C compiler calls itself, "" without one.

    Raises:
        BuildInterruptedError: it was killed.
    """
    cc = compiler()
    return next(iter(_version(cc).splitlines()), "") if cc else ""


def kernels_compiler(kernels: Path) -> str:
    """What the C compiler says of itself whose kernels can be had: the one that is there, else the one that the kernels
    of a cache are of, else "".

    Args:
        kernels: the cache's folder of kernels.

    Raises:
        BuildInterruptedError: it was killed.
    """
    cc = compiler()
    return _version(cc) if cc else recorded_compiler(kernels)


def has_host_kernels(kernels: Path) -> bool:
    """Whether kernels for this processor can be built, or may be in a folder."""
    return compiler() is not None or recorded_compiler(kernels) != ""


def build_host(source: str, architecture: str, cache: KernelCache, options: tuple[str, ...] = OPTIONS) -> Path:
    """A shared library of the C source `emit_cpu` made, from the cache or the compiler. Without a compiler, the one
    that the cache has from its compiler.

    Args:
        options: for the compiler; others are for measurements.

    Raises:
        BuildError: no compiler, or the compiler's message.
        BuildInterruptedError: the compiler failed for something else than the source, or wrote no library.
    """
    cc = compiler()
    version = kernels_compiler(cache.folder)
    options = (*options, f"-march={architecture}", *_WIDE_VECTORS)
    key = cache_key(code_of(source + _headers()), "cpu", architecture, options, version, _cpu_features())
    found = cache.get(key, ".so")
    if cc is None:
        return found or _cannot_build(cache, version)
    if found is None:
        with cache.alone(key, TIMEOUT_SECONDS) as waited:  # workers that start together compile each kernel once
            found = cache.get(key, ".so") if waited else None
            found = found or cache.put(key, ".so", _compile(cc, source, options), lambda path: check_library(path, cc))
    record_compiler(cache.folder, version)
    return found


def _cannot_build(cache: KernelCache, version: str) -> NoReturn:
    lacks = f", and the kernels in {cache.folder} (by {version.splitlines()[0]}) lack one" if version else ""
    raise BuildError(f"no C compiler found (gcc, cc or clang){lacks}; install one, e.g. `apt-get install gcc`"
                     + (", or fill the cache again: tf_stitch prebuild" if version else ""))


def _compile(cc: str, source: str, options: tuple[str, ...]) -> bytes:
    try:
        return _compile_in_a_folder(cc, source, options)
    except OSError as error:
        raise BuildInterruptedError(f"{cc} could not run: {error}") from None


def _compile_in_a_folder(cc: str, source: str, options: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tf_stitch_") as folder:
        file, library = Path(folder, "kernel.c"), Path(folder, "kernel.so")
        file.write_text(source)
        includes = [f"-I{resources.files('tf_stitch') / part}" for part in ("emit", "native")]
        command = [cc, *options, *includes, str(file), "-o", str(library), "-lm"]
        try:
            result = run_compiler(command, TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"{cc} did not finish within {error.timeout:.0f} s, and was ended") from None
        if refuses_the_source(result):
            raise BuildError(f"{cc} rejected a generated kernel: {result.stderr.strip()[:2000]}")
        if result.returncode:
            raise BuildInterruptedError(f"{cc} did not finish (exit {result.returncode}): "
                                        f"{result.stderr.strip()[:2000] or 'it was killed'}")
        return library.read_bytes() if library.exists() else b""


@lru_cache(maxsize=4)
def _version(cc: str) -> str:
    try:
        said = run_compiler([cc, "--version"], VERSION_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildInterruptedError(f"{cc} --version failed: {error}") from None
    if said.returncode != 0:
        raise BuildInterruptedError(f"{cc} --version did not finish (exit {said.returncode}): "
                                    f"{said.stderr.strip()[:2000]}")
    return said.stdout


@lru_cache(maxsize=1)
def _headers() -> str:
    package = resources.files("tf_stitch")
    headers = (package / "emit" / "cpu_math.h", package / "emit" / "cpu_matmul.h",
               package / "emit" / "random_bits.h", package / "emit" / "float8.h",
               package / "native" / "cpu" / "stitch_abi.h")
    return "".join(header.read_text() for header in headers)


@lru_cache(maxsize=1)
def _cpu_features() -> str:
    """-march=native means this machine: its features are part of the key."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    kept = sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()
