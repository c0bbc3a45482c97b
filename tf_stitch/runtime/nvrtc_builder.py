"""Builds CUDA kernels with NVRTC through CuPy; needs no GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tf_stitch.errors import BuildError
from tf_stitch.runtime.cache_key import cache_key
from tf_stitch.runtime.kernel_cache import KernelCache

OPTIONS = ("--std=c++17", "--device-as-default-execution-space")


def build_cuda(source: str, architecture: str, cache: KernelCache) -> Path:
    """A cubin of the source `emit_cuda` made, from the cache or NVRTC.

    Args:
        architecture: compute capability, as "90".

    Raises:
        BuildError: CuPy or NVRTC is missing, or NVRTC's log.
    """
    nvrtc = _nvrtc()
    version = ".".join(map(str, nvrtc.getVersion()))
    key = cache_key(source, "cuda", architecture, OPTIONS, f"nvrtc {version}", "")
    return cache.get(key, ".cubin") or cache.put(key, ".cubin", _compile(nvrtc, source, architecture))


def _nvrtc() -> Any:
    try:
        from cupy_backends.cuda.libs import nvrtc
        nvrtc.getVersion()
    except (ImportError, RuntimeError, OSError) as error:
        raise BuildError(f"NVRTC is not available ({error}); install cupy-cuda12x or cupy-cuda13x") from None
    return nvrtc


def _compile(nvrtc: Any, source: str, architecture: str) -> bytes:
    program = nvrtc.createProgram(source, "tf_stitch.cu", [], [])
    try:
        nvrtc.compileProgram(program, [f"-arch=sm_{architecture}", *OPTIONS])
        return bytes(nvrtc.getCUBIN(program))
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program)
        raise BuildError(f"NVRTC rejected a generated kernel ({error}): {log.strip()[:2000]}") from None
    finally:
        nvrtc.destroyProgram(program)
