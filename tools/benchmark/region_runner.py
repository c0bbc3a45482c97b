"""Times compiled regions as TensorFlow runs them: as a StitchOp, on a GPU in a CUDA graph."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.config import load_config
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.jit.kernel_library import Images, KernelLibrary
from tf_stitch.native.bindings import load_op
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.targets.registry import target_of

WARM_UP = 6
"""Calls until the op runs a CUDA graph, and some more."""


class RegionRunner:
    """Runs regions on a device. The process can have no others."""

    def __init__(self, place: str, device: DeviceSpec) -> None:
        self._place, self._device = place, device
        self._words: list[list[int]] = []
        self._images: list[Images] = []
        self._cache = KernelCache(load_config().cache_dir)
        self._kernels = KernelLibrary(self._cache)
        self._library = load_op(load_config().cache_dir)
        self._library.set_callbacks(lambda region, device, key, memory: self._words[region],
                                    lambda region, reason: None, _fail)

    def build(self, region: CompiledRegion) -> float:
        """Compiles its kernels; in how many seconds."""
        start = time.perf_counter()
        if region.source:
            target_of(self._device).build(region.source, self._device.architecture, self._cache)
        return time.perf_counter() - start

    def add(self, region: CompiledRegion, repeats: int) -> int:
        """The number of a region that does its steps so many times, one after the other."""
        cubin = Path()
        if region.source:
            cubin = target_of(self._device).build(region.source, self._device.architecture, self._cache)
        words, images = repeated(region, repeats, cubin, self._kernels)
        self._words.append(words)
        self._images.append(images)
        return len(self._words) - 1

    def call(self, number: int, inputs: list[Any], dtype: str) -> tuple[float, Any]:
        """Seconds of one call, and its result."""
        start = time.perf_counter()
        with tf.device(self._place):
            out = self._library.raw_ops.stitch_op(inputs=inputs, variables=[], Tout=[dtype], region=number,
                                                  output_shapes=[])[0]
            np.asarray(tf.reshape(out, [-1])[:1])  # waits
        return time.perf_counter() - start, out


def repeated(region: CompiledRegion, repeats: int, cubin: Path, kernels: KernelLibrary) -> tuple[list[int], Images]:
    """The words of a region that does its steps so many times, and what has to live as long.

    Args:
        cubin: has all of its kernels.
    """
    executable = replace(region.executable, steps=region.executable.steps * repeats, after=None)
    return kernels.words_of(executable, dict.fromkeys(filter(None, region.launches), cubin))


def _fail(region: int, call: object) -> None:
    raise RuntimeError(f"region {region} did not run")
