"""Builds CUDA kernels with NVRTC through CuPy; needs no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tf_stitch.emit.comments import code_of
from tf_stitch.emit.cuda import relaxable
from tf_stitch.emit.matmul import needs_own_architecture
from tf_stitch.errors import BuildError, BuildInterruptedError
from tf_stitch.interruption import run_foreign
from tf_stitch.runtime import kernel_resources
from tf_stitch.runtime.cache_key import cache_key
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.kernel_resources import KernelResources
from tf_stitch.runtime.library_check import check_elf

# Every op of the user's rounds its own result: no fma but those that functions ask for (docs/decisions/rounding.md).
OPTIONS = ("--std=c++17", "--device-as-default-execution-space", "--fmad=false", "--ptxas-options=-v")

TIMEOUT_SECONDS = 120
"""For another process that compiles the same."""
SMALL_SPILL = 128
"""Bytes of a thread's registers in memory that cost less than half of a processor's blocks. On an H200 a cross-entropy
of 4096x50264 in bfloat16 took 332 us with two blocks and 16 bytes spilled, 448 with one and none; an earlier kernel of
it 558 with two and 120 bytes, 636 with one."""


def build_cuda(source: str, architecture: str, cache: KernelCache, options: tuple[str, ...] = OPTIONS) -> Path:
    """A cubin of the source `emit_cuda` made, from the cache or NVRTC. Launches whose register bound makes them spill
    more than a little are compiled a second time, without it.

    Args:
        architecture: compute capability, as "90".
        options: for NVRTC; others are for measurements.

    Raises:
        BuildError: CuPy or NVRTC is missing, or NVRTC's log.
        BuildInterruptedError: NVRTC failed for something else than the source, or made no cubin.
    """
    nvrtc = _nvrtc()
    known = known_cubin(source, architecture, cache, options)
    if known is not None:
        return known
    key = _cubin_key(source, architecture, options)
    with cache.alone(key, TIMEOUT_SECONDS) as waited:
        known = cache.get(key, ".cubin") if waited else None
        return known or _build(nvrtc, source, architecture, cache, options)


def _build(nvrtc: Any, source: str, architecture: str, cache: KernelCache, options: tuple[str, ...]) -> Path:
    cubin, resources = run_foreign(lambda: _compile(nvrtc, source, architecture, options))
    spilling = [symbol for symbol, r in resources.items()
                if r.spilled_bytes > SMALL_SPILL and relaxable(symbol) in source]
    if spilling:
        relaxed = tuple(f"-D{relaxable(symbol)}=1" for symbol in spilling)
        cubin, resources = run_foreign(lambda: _compile(nvrtc, source, architecture, (*options, *relaxed)))
    check_elf(cubin, f"NVRTC {_version(nvrtc)}")
    key = _cubin_key(source, architecture, options)
    cache.put(_resources_key(key), ".json", kernel_resources.write(resources))
    return cache.put(key, ".cubin", cubin)


def known_cubin(source: str, architecture: str, cache: KernelCache, options: tuple[str, ...] = OPTIONS) -> Path | None:
    """The cubin that `build_cuda` kept; None where there is none.

    Raises:
        BuildError: NVRTC, whose version is part of the question, is missing.
    """
    return cache.get(_cubin_key(source, architecture, options), ".cubin")


def _cubin_key(source: str, architecture: str, options: tuple[str, ...]) -> str:
    return cache_key(code_of(source), "cuda", architecture, options, f"nvrtc {_version(_nvrtc())}", "")


def _version(nvrtc: Any) -> str:
    return ".".join(map(str, nvrtc.getVersion()))


def build_ptx(source: str, architecture: str, cache: KernelCache) -> Path:
    """PTX of the source, for the driver of a later device to compile; it ends with a NUL.

    Args:
        architecture: compute capability that it needs at least, as "90".

    Raises:
        BuildError, BuildInterruptedError: as build_cuda.
    """
    nvrtc = _nvrtc()
    options = tuple(option for option in OPTIONS if not option.startswith("--ptxas"))
    key = cache_key(code_of(source), "ptx", architecture, options, f"nvrtc {_version(nvrtc)}", "")
    return cache.get(key, ".ptx") or cache.put(key, ".ptx", run_foreign(
        lambda: _compile_ptx(nvrtc, source, architecture, options)))


def nvrtc_version() -> str:
    """The version of NVRTC that is found here.

    Raises:
        BuildError: there is none.
    """
    return _version(_nvrtc())


def resources_of(cubin: Path) -> dict[str, KernelResources]:
    """What the launches of a cubin that `build_cuda` made take, by symbol."""
    return kernel_resources.read(cubin.with_name(_resources_key(cubin.stem) + ".json"))


def _resources_key(key: str) -> str:
    return f"{key}_resources"


def _nvrtc() -> Any:
    try:
        from cupy_backends.cuda.libs import nvrtc
        nvrtc.getVersion()
    except (ImportError, RuntimeError, OSError) as error:
        raise BuildError(f"NVRTC is not available ({error}); install cupy-cuda12x or cupy-cuda13x") from None
    return nvrtc


def _compile_ptx(nvrtc: Any, source: str, architecture: str, options: Sequence[str]) -> bytes:
    program = nvrtc.createProgram(source, "tf_stitch.cu", [], [])
    try:
        nvrtc.compileProgram(program, [f"-arch=compute_{architecture}", *options])
        made = nvrtc.getPTX(program)
        return (made.encode() if isinstance(made, str) else bytes(made)).rstrip(b"\0") + b"\0"
    except nvrtc.NVRTCError as error:
        raise _failure(nvrtc, program, error, "NVRTC made no PTX of a generated kernel") from None
    finally:
        nvrtc.destroyProgram(program)


def _failure(nvrtc: Any, program: Any, error: Exception, refused: str) -> BuildError:
    """The error to raise for one of NVRTC's: all but the refusal of a source or an option may pass."""
    if not any(kind in str(error) for kind in ("ERROR_COMPILATION", "ERROR_INVALID_OPTION")):
        return BuildInterruptedError(f"NVRTC did not finish: {error}")
    return BuildError(f"{refused} ({error}): {nvrtc.getProgramLog(program).strip()[:2000]}")


def _compile(nvrtc: Any, source: str, architecture: str, options: Sequence[str]
             ) -> tuple[bytes, dict[str, KernelResources]]:
    try:
        program = nvrtc.createProgram(source, "tf_stitch.cu", [], [])
    except nvrtc.NVRTCError as error:
        raise BuildInterruptedError(f"NVRTC did not begin: {error}") from None
    try:
        only = "a" if needs_own_architecture(source) else ""
        nvrtc.compileProgram(program, [f"-arch=sm_{architecture}{only}", *options])
        cubin = bytes(nvrtc.getCUBIN(program)) + b"\0"  # CuPy leaves the last byte out, as if it ended a text
        return cubin, kernel_resources.read_log(nvrtc.getProgramLog(program))
    except nvrtc.NVRTCError as error:
        raise _failure(nvrtc, program, error, "NVRTC rejected a generated kernel") from None
    finally:
        nvrtc.destroyProgram(program)
