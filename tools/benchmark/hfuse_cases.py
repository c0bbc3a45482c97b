"""The nine kernels of HFuse's evaluation, how they are launched and what they are given, and the sixteen pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tf_stitch.hfuse.launch import Launch, Shape
from tf_stitch.hfuse.source import Kernel, find_kernel, parse

KERNELS = Path(__file__).resolve().parents[1] / "hfuse_kernels"
GRID, CHANNELS = 528, 512
"""Blocks of kernels that take any number of them: four for each processor of an H200. Batchnorm has one a channel."""
NATIVE, CRYPTO = 512, 256
"""Threads of a block of a kernel by itself."""
DATASET_PAGES = 1 << 23
"""Of 128 bytes: 1 GiB, as of Ethereum's first epoch."""


@dataclass(frozen=True)
class KernelCase:
    """A kernel of the evaluation.

    Attributes:
        amount: what its work is proportional to, at a scale of 1.
        make: its arguments on the device, for an amount.
    """

    name: str
    title: str
    launch: Launch
    amount: int
    make: Callable[[int], list[Any]]

    def kernel(self, architecture: str) -> Kernel:
        """Parsed."""
        return find_kernel(parse(KERNELS / f"{self.name}.cu", architecture), self.name)

    @property
    def native(self) -> Shape:
        """As it is launched by itself."""
        return self.launch.with_threads(NATIVE)


def _random(*shape: int) -> Any:
    import cupy

    return cupy.random.default_rng(0).standard_normal(shape, dtype=cupy.float32)


def _maxpool(planes: int) -> list[Any]:
    import cupy

    size = planes * 56 * 56
    return [
        _random(planes, 112, 112),
        cupy.zeros(size, np.float32),
        cupy.zeros(size, np.int32),
        *map(np.int32, (planes, 112, 112, 3, 2, 1, 56, 56)),
    ]


def _batchnorm(batch: int) -> list[Any]:
    import cupy

    return [
        _random(batch, CHANNELS, 784),
        cupy.zeros(CHANNELS, np.float32),
        cupy.zeros(CHANNELS, np.float32),
        *map(np.int32, (batch, CHANNELS, 784)),
        np.float32(1e-5),
    ]


def _upsample(planes: int) -> list[Any]:
    import cupy

    return [
        _random(planes, 112, 112),
        cupy.zeros((planes, 224, 224), np.float32),
        *map(np.int32, (planes, 112, 112, 224, 224)),
    ]


def _im2col(channels: int) -> list[Any]:
    import cupy

    return [
        _random(channels, 56, 56),
        cupy.zeros((channels * 9, 56, 56), np.float32),
        *map(np.int32, (channels, 56, 56, 3, 1, 1, 56, 56)),
    ]


def _hist(count: int) -> list[Any]:
    import cupy

    return [_random(count), cupy.zeros(100, np.int32), np.int32(count), np.int32(100), np.float32(-3), np.float32(3)]


def _mined(words: Any, digest_words: int, tries: int) -> list[Any]:
    import cupy

    threads = GRID * CRYPTO
    header = np.random.default_rng(0).integers(0, 1 << 32, 20, np.uint32).view(words)
    return [
        cupy.asarray(header),
        words(0),
        np.int32(tries),
        cupy.zeros(threads, words),
        cupy.zeros((threads, digest_words), words),
    ]


def _ethash(tries: int) -> list[Any]:
    """Contents of the dataset are of no consequence for time, and are not Ethereum's."""
    import cupy

    threads = GRID * CRYPTO
    dataset = cupy.arange(DATASET_PAGES * 32, dtype=np.uint32)
    dataset *= np.uint32(2654435761)
    header = np.random.default_rng(0).integers(0, 1 << 63, 4, np.int64).view(np.uint64)
    return [
        dataset,
        np.uint32(DATASET_PAGES),
        cupy.asarray(header),
        np.uint64(0),
        np.int32(tries),
        cupy.zeros(threads, np.uint64),
        cupy.zeros((threads, 4), np.uint64),
        cupy.zeros((threads, 4), np.uint64),
    ]


_ANY = Launch((None, 1, 1), (GRID, 1, 1))
_MINER = Launch((CRYPTO, 1, 1), (GRID, 1, 1))
CASES = {
    case.name: case
    for case in (
        KernelCase("maxpool", "Maxpool", _ANY, 8192, _maxpool),
        KernelCase("batchnorm", "Batchnorm", Launch((None, 16, 1), (CHANNELS, 1, 1)), 512, _batchnorm),
        KernelCase("upsample", "Upsample", _ANY, 4096, _upsample),
        KernelCase("im2col", "Im2Col", _ANY, 16384, _im2col),
        KernelCase("hist", "Hist", Launch((None, 1, 1), (GRID, 1, 1), None, 400), 1 << 28, _hist),
        KernelCase("sha256", "SHA256", _MINER, 64, lambda tries: _mined(np.uint32, 8, tries)),
        KernelCase("blake256", "Blake256", _MINER, 128, lambda tries: _mined(np.uint32, 8, tries)),
        KernelCase("blake2b", "Blake2B", _MINER, 64, lambda tries: _mined(np.uint64, 4, tries)),
        KernelCase("ethash", "Ethash", _MINER, 1, _ethash),
    )
}

PAIRS = (
    ("batchnorm", "hist"),
    ("blake256", "ethash"),
    ("hist", "maxpool"),
    ("blake2b", "ethash"),
    ("hist", "upsample"),
    ("ethash", "sha256"),
    ("maxpool", "upsample"),
    ("batchnorm", "maxpool"),
    ("hist", "im2col"),
    ("im2col", "maxpool"),
    ("im2col", "upsample"),
    ("batchnorm", "upsample"),
    ("batchnorm", "im2col"),
    ("blake256", "blake2b"),
    ("blake256", "sha256"),
    ("blake2b", "sha256"),
)
"""Those that the paper finds worth fusing first."""
VARIED = {("hist", "maxpool"): 1, ("hist", "upsample"): 1, ("ethash", "sha256"): 1}
"""Which kernel's input changes between the points of Fig. 7: the first unless it stands here."""
