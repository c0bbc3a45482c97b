"""Times the kernels of a report's last executables on this machine, each launch by itself, from their sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tf_stitch.cli.explain.load import Document
from tf_stitch.cli.explain.rows import last_builds
from tf_stitch.config import load_config
from tf_stitch.errors import BuildError
from tf_stitch.runtime.device_query import compute_capability
from tf_stitch.runtime.device_run import gpu_is_here, time_on_device
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_timer import time_on_host, with_timer
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tf_stitch.runtime.timed_kernel import TimedKernel

Times = dict[str, float]
"""Microseconds of the launches of one source, by symbol."""


def measure(document: Document) -> Iterator[str]:
    """Adds `measured_us`, the time of its launch, to kernel entries. Gives what could not be timed, in words.

    CPU kernels are timed in one thread, CUDA kernels in a queue of their like; over the same memory each time, which
    small kernels find in caches.
    """
    cache = KernelCache(load_config().kernels_dir)
    timed: dict[str, Times] = {}  # regions of equal structure share a source
    for region, (number, build) in last_builds(document).items():
        source = build["source"]
        if source is None:
            continue
        if source not in timed:
            try:
                timed[source] = _time(document["sources"].get(source), source, build["launches"], cache)
            except BuildError as error:
                timed[source] = {}
                yield f"{source} is not timed: {error}"
        for entry in document["kernels"]:
            if (entry["region"], entry["build"]) == (region, number) and entry["launch"] in timed[source]:
                entry |= {"measured_us": timed[source][entry["launch"]], "whole_launch": True}


def _time(text: str | None, name: str, launches: list[dict[str, Any]], cache: KernelCache) -> Times:
    if text is None:
        raise BuildError("it is not in the folder sources/ beside the report")
    kernels = [TimedKernel(e["symbol"], e["grid"], e["threads"], e["shared_bytes"], tuple(map(tuple, e["buffers"])),
                           e["cooperative"])
               for e in launches if e["grid"]]  # fmt: skip
    if name.endswith(".c"):
        times = time_on_host(build_host(with_timer(text), "native", cache), kernels)
    elif gpu_is_here():
        times = time_on_device(build_cuda(text, compute_capability(0), cache), kernels)
    else:
        raise BuildError("its kernels need a GPU, and CuPy finds none here")
    return {kernel.symbol: us for kernel, us in zip(kernels, times, strict=True) if us == us}
