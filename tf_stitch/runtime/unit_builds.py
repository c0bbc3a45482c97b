"""Builds the launches of a region side by side: a compiler run for each unit of source, as many at a time as there are
cores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context
from pathlib import Path

from tf_stitch.emit.rendered import Rendered, units
from tf_stitch.runtime.device_query import cpu_count

_PAUSE = 0.02
"""Seconds after which who waits looks whether it is interrupted."""


def build_units(kernels: Collection[Rendered], most: int, build: Callable[[Sequence[Rendered]], Path]
                ) -> dict[str, Path]:
    """The binary that has each symbol.

    Args:
        most: characters of a unit (see emit.rendered.units).
        build: the binary of a unit; is called in several threads.

    Raises:
        BuildError, BuildInterruptedError: those of the first unit that `build` has none for.
    """
    parts = list(units(kernels, most))
    binaries = [build(unit) for unit in parts] if len(parts) < 2 else _side_by_side(parts, build)
    return {kernel.symbol: binary for unit, binary in zip(parts, binaries, strict=True) for kernel in unit}


def _side_by_side(parts: Sequence[Sequence[Rendered]], build: Callable[[Sequence[Rendered]], Path]) -> list[Path]:
    pool = ThreadPoolExecutor(min(len(parts), cpu_count()), "tf_stitch_build")
    try:
        try:
            futures = [pool.submit(copy_context().run, build, unit) for unit in parts]
        except RuntimeError:  # no more threads
            pool.shutdown(wait=False, cancel_futures=True)
            return [build(unit) for unit in parts]
        while True:
            done, left = wait(futures, _PAUSE, FIRST_EXCEPTION)
            for error in filter(None, (future.exception() for future in done)):
                raise error
            if not left:
                return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
