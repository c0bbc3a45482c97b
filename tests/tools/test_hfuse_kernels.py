"""The kernels of HFuse's evaluation compute what they are named after: on this machine, by other means."""

from __future__ import annotations

import hashlib
import struct
from functools import cache

import numpy as np
import pytest

from tests.support.cuda_on_cpu import Adversary, Order
from tests.support.handwritten_on_cpu import KERNELS, Argument, run_separate
from tests.support.hashes import blake256, ethash_cache, ethash_item, hashimoto
from tf_stitch.hfuse.launch import Shape
from tf_stitch.hfuse.source import Kernel, find_kernel, parse

RNG = np.random.default_rng(0)
F32 = np.float32
HEADER = bytes(RNG.integers(0, 256, 80, np.uint8))


@cache
def kernel(name: str) -> Kernel:
    return find_kernel(parse(KERNELS / f"{name}.cu", "90"), name)


def run(name: str, block: tuple[int, int, int], grid: int, *arguments: Argument, dynamic: int = 0) -> None:
    run_separate(kernel(name), Shape(block, (grid, 1, 1), dynamic), arguments, Adversary(Order.SHUFFLED))


def images(*shape: int) -> np.ndarray:  # type: ignore[type-arg]
    return RNG.normal(size=shape).astype(F32)


def test_maxpool() -> None:
    x = images(3, 11, 9)
    out, where = np.zeros((3, 6, 5), F32), np.zeros((3, 6, 5), np.int32)
    run("maxpool", (32, 1, 1), 2, x, out, where, 3, 11, 9, 3, 2, 1, 6, 5)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
    np.testing.assert_array_equal(out, windows.max((3, 4)))
    np.testing.assert_array_equal(np.take_along_axis(x.reshape(3, -1), where.reshape(3, -1), 1).reshape(out.shape), out)


@pytest.mark.parametrize("block", [(8, 8, 1), (32, 1, 1), (16, 16, 1)])
def test_batchnorm(block: tuple[int, int, int]) -> None:
    x = images(5, 4, 33) + 3
    mean, rstd = np.zeros(4, F32), np.zeros(4, F32)
    run("batchnorm", block, 4, x, mean, rstd, 5, 4, 33, 1e-3)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean((0, 2)), rtol=1e-5)
    np.testing.assert_allclose(rstd, 1 / np.sqrt(wide.var((0, 2)) + 1e-3), rtol=1e-5)


def test_upsample() -> None:
    x = images(2, 5, 7)
    out = np.zeros((2, 9, 13), F32)
    run("upsample", (32, 1, 1), 3, x, out, 2, 5, 7, 9, 13)

    def weights(size: int, out_size: int) -> np.ndarray:  # type: ignore[type-arg]
        at = np.maximum((np.arange(out_size) + 0.5) * size / out_size - 0.5, 0)
        matrix = np.maximum(1 - np.abs(at[:, None] - np.arange(size)), 0)
        matrix[:, -1] += 1 - matrix.sum(1)  # beyond the last centre is its value
        return matrix

    want = np.einsum("yh,phw,xw->pyx", weights(5, 9), x.astype(np.float64), weights(7, 13))
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)


def test_im2col() -> None:
    x = images(3, 8, 7)
    out = np.zeros((3 * 9, 4, 4), F32)
    run("im2col", (32, 1, 1), 2, x, out, 3, 8, 7, 3, 2, 1, 4, 4)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
    np.testing.assert_array_equal(out, windows.transpose(0, 3, 4, 1, 2).reshape(out.shape))


def test_hist() -> None:
    x = images(3000)
    counts = np.zeros(50, np.int32)
    run("hist", (64, 1, 1), 4, x, counts, 3000, 50, -2.0, 2.0, dynamic=200)
    inside = x[(x >= -2) & (x <= 2)]
    bins = np.minimum((inside - F32(-2)) / F32(4) * F32(50), 49).astype(int)
    np.testing.assert_array_equal(counts, np.bincount(bins, minlength=50))


def best(digests: list[bytes], order: str, threads: int, tries: int) -> list[int]:
    """Which try each thread keeps: by the first word of the digest."""
    first = [struct.unpack_from(order, digest)[0] for digest in digests]
    return [min(range(tries), key=lambda n: first[thread + n * threads]) for thread in range(threads)]


@pytest.mark.parametrize("name", ["sha256", "blake256"])
def test_hash_of_words_of_32_bits(name: str) -> None:
    threads, tries, first = 64, 3, 1000
    digest = {"sha256": lambda m: hashlib.sha256(hashlib.sha256(m).digest()).digest(), "blake256": blake256}[name]
    header = np.array(struct.unpack(">20I", HEADER), np.uint32)
    nonces, digests = np.zeros(threads, np.uint32), np.zeros((threads, 8), np.uint32)
    run(name, (32, 1, 1), 2, header, first, tries, nonces, digests)
    tried = [digest(HEADER[:76] + struct.pack(">I", first + i)) for i in range(threads * tries)]
    for thread, n in enumerate(best(tried, ">I", threads, tries)):
        assert nonces[thread] == first + thread + n * threads
        assert struct.pack(">8I", *map(int, digests[thread])) == tried[thread + n * threads]


def test_blake2b() -> None:
    threads, tries, first = 64, 3, 1 << 40
    header = np.array(struct.unpack("<10Q", HEADER), np.uint64)
    nonces, digests = np.zeros(threads, np.uint64), np.zeros((threads, 4), np.uint64)
    run("blake2b", (32, 1, 1), 2, header, first, tries, nonces, digests)
    tried = [hashlib.blake2b(HEADER[:72] + struct.pack("<Q", first + i), digest_size=32).digest()
             for i in range(threads * tries)]
    for thread, n in enumerate(best(tried, "<Q", threads, tries)):
        assert int(nonces[thread]) == first + thread + n * threads
        assert struct.pack("<4Q", *map(int, digests[thread])) == tried[thread + n * threads]


def test_ethash() -> None:
    """The first thread's first nonce is the published one of tests/support/test_hashes.py."""
    threads, tries = 32, 2
    light = ethash_cache(1024, bytes(32))
    dataset = [ethash_item(light, i) for i in range(512)]
    header = bytes.fromhex("c9149cc0386e689d789a1c2f3d5d169a61a6218ed30e74414dc736e442ef3d1f")
    words = np.array(struct.unpack("<4Q", header), np.uint64)
    memory = np.frombuffer(b"".join(dataset) + bytes(16), np.uint8)
    aligned = np.zeros(512 * 64 + 16, np.uint8)
    at = -aligned.ctypes.data % 16
    aligned[at : at + 512 * 64] = memory[: 512 * 64]
    nonces = np.zeros(threads, np.uint64)
    results, mixes = np.zeros((threads, 4), np.uint64), np.zeros((threads, 4), np.uint64)
    run("ethash", (32, 1, 1), 1, aligned[at:], 256, words, 0, tries, nonces, results, mixes)
    tried = [hashimoto(dataset, header, nonce) for nonce in range(threads * tries)]
    for thread, n in enumerate(best([result for _, result in tried], "<Q", threads, tries)):
        mix, result = tried[thread + n * threads]
        assert nonces[thread] == thread + n * threads
        assert struct.pack("<4Q", *map(int, results[thread])) == result
        assert struct.pack("<4Q", *map(int, mixes[thread])) == mix
