"""The references of kernels give the published values."""

from __future__ import annotations

import pytest

from tests.support.hashes import blake256, ethash_cache, ethash_item, hashimoto, keccak


@pytest.mark.parametrize(("message", "digest"), [
    (b"", "716f6e863f744b9ac22c97ec7b76ea5f5908bc5b2f67c61510bfc4751384ea7a"),
    (bytes(1), "0ce8d4ef4dd7cd8d62dfded9d4edb0a774ae6a41929a74da23109e8f11139c87"),
    (bytes(72), "d419bad32d504fb7d44d460c42c5593fe544fa4c135dec31e21bd9abdcc22d41")])
def test_blake256_of_the_proposal(message: bytes, digest: str) -> None:
    assert blake256(message).hex() == digest


def test_keccak_of_nothing() -> None:
    assert keccak(b"", 32).hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak(b"", 64).hex().startswith("0eab42de4c3ceb9235fc91acffe746b29c29a8c366b7c60e4e67c466f36a4304")


def test_hashimoto_of_a_small_dataset() -> None:
    """The values that go-ethereum tests itself with: a cache of 1 KiB, a dataset of 32 KiB, nonce 0."""
    cache = ethash_cache(1024, bytes(32))
    assert cache[0].hex().startswith("7ce2991c951f7bf4c4c1bb119887ee07871eb5339d7b97b8588e85c742de90e5")
    dataset = [ethash_item(cache, i) for i in range(512)]
    header = bytes.fromhex("c9149cc0386e689d789a1c2f3d5d169a61a6218ed30e74414dc736e442ef3d1f")
    mix, result = hashimoto(dataset, header, 0)
    assert mix.hex() == "e4073cffaef931d37117cefd9afd27ea0f1cad6a981dd2605c4a1ac97c519800"
    assert result.hex() == "d3539235ee2e6f8db665c0a72169f55b7f6c605712330b778ec3944f0eb5a557"
