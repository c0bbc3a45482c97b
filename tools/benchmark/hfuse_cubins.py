"""Cubins of the evaluation of HFuse, compiled by NVRTC before they are needed, on all cores and without a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tf_stitch.errors import BuildError
from tf_stitch.hfuse.device import Code, code_of
from tf_stitch.hfuse.fuse import Fused, fuse
from tf_stitch.hfuse.search import Processor, Profile, partitions, register_bound, resident_blocks
from tf_stitch.hfuse.source import Kernel
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.kernel_resources import KernelResources
from tf_stitch.runtime.nvrtc_builder import build_cuda, known_cubin, resources_of
from tools.benchmark.hfuse_cases import CASES, PAIRS

BLOCK = 1024
"""Threads of a fused block, where they may be chosen."""
PROCESSORS = {"90": Processor(65536, 233472, 2048)}
"""By compute capability: the bound on registers follows from them (CUDA C++ Programming Guide, Technical
Specifications)."""
Pair = tuple[str, str]


class Cubins:
    """A folder of cubins for one compute capability.

    Attributes:
        kernels: the nine, parsed.
    """

    def __init__(self, folder: Path, architecture: str) -> None:
        self.architecture, self.cache = architecture, KernelCache(folder)
        self.kernels: dict[str, Kernel] = {name: case.kernel(architecture) for name, case in CASES.items()}
        self._modules: dict[Code, Any] = {}

    def module(self, code: Code) -> Any:
        """A CuPy module, loaded once: device.Modules.

        Raises:
            BuildError: NVRTC refuses the source.
        """
        import cupy

        if code not in self._modules:
            self._modules[code] = cupy.RawModule(path=str(build_cuda(code.source, self.architecture, self.cache)))
        return self._modules[code]

    def fused(self, pair: Pair, threads: tuple[int, int], resident: int = 1) -> Fused:
        """Side by side."""
        shapes = [CASES[name].launch.with_threads(own) for name, own in zip(pair, threads, strict=True)]
        return fuse([self.kernels[name] for name in pair], shapes, self.architecture, resident=resident)

    def vertical(self, pair: Pair) -> Fused:
        """Standard fusion: the same threads run both."""
        shapes = [CASES[name].native for name in pair]
        return fuse([self.kernels[name] for name in pair], shapes, self.architecture, True)

    def compile_all(self, pairs: Iterable[Pair] = PAIRS) -> dict[str, str]:
        """Compiles what the evaluation of the pairs runs, but what is there already. Bounds follow from what was
        compiled without one.

        Returns:
            Reasons, by what cannot be compiled.
        """
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
            work = _Work(self, pool)
            alone = {name: work.begin(name, code_of(self.kernels[name])) for pair in pairs for name in pair}
            free = [
                (pair, threads, fused, work.begin(f"{'+'.join(pair)} {threads}", Code(fused.source, fused.symbol)))
                for pair in pairs
                for threads in partitions([CASES[name].launch for name in pair], BLOCK)
                for fused in (self.fused(pair, threads),)
            ]
            for pair in pairs:
                fused = self.vertical(pair)
                work.begin(f"{'+'.join(pair)} vertical", Code(fused.source, fused.symbol))
            for pair, threads, fused, made in free:
                own = [work.end(alone[name]) for name in pair]
                resident = self._resident(threads, fused, work.end(made), own)
                if resident > 1:
                    bounded = self.fused(pair, threads, resident)
                    work.begin(f"{'+'.join(pair)} {threads} bounded", Code(bounded.source, bounded.symbol))
            return work.problems()

    def _resident(
        self,
        threads: tuple[int, int],
        fused: Fused,
        made: KernelResources | None,
        alone: list[KernelResources | None],
    ) -> int:
        """As search.search has it; 1 where something is not known."""
        processor = PROCESSORS.get(self.architecture)
        profiles = [Profile(0.0, r.registers, r.static_shared_bytes, 0) for r in alone if r is not None]
        if made is None or processor is None or len(profiles) < len(alone):
            return 1
        resident = resident_blocks(processor, profiles, threads, made.static_shared_bytes + fused.dynamic_bytes)
        return resident if resident > 1 and register_bound(processor, resident, threads) else 1


class _Work:
    """What is being compiled."""

    def __init__(self, cubins: Cubins, pool: ProcessPoolExecutor) -> None:
        self._cubins, self._pool = cubins, pool
        self._begun: dict[str, tuple[Code, Future[None] | None]] = {}

    def begin(self, name: str, code: Code) -> str:
        if name not in self._begun:
            cubins = self._cubins
            known = known_cubin(code.source, cubins.architecture, cubins.cache)
            folder = cubins.cache.folder
            future = None if known else self._pool.submit(_compile, folder, cubins.architecture, code.source)
            self._begun[name] = code, future
        return name

    def end(self, name: str) -> KernelResources | None:
        """What it takes; None if it cannot be compiled."""
        code, future = self._begun[name]
        if future is not None and future.exception() is not None:
            return None
        path = known_cubin(code.source, self._cubins.architecture, self._cubins.cache)
        return None if path is None else resources_of(path).get(code.name)

    def problems(self) -> dict[str, str]:
        ended = {name: future.exception() for name, (_, future) in self._begun.items() if future is not None}
        return {name: str(problem) for name, problem in ended.items() if problem is not None}


def _compile(folder: Path, architecture: str, source: str) -> None:
    """In a process of the pool, whose exceptions come back by their text."""
    try:
        build_cuda(source, architecture, KernelCache(folder))
    except BuildError as error:
        raise RuntimeError(error.message) from None
