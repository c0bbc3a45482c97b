"""Hash functions that hashlib lacks, from their definitions: BLAKE-256, Keccak with its original padding, Ethash."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_PI = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89,
       0x452821E6, 0x38D01377, 0xBE5466CF, 0x34E90C6C, 0xC0AC29B7, 0xC97C50DD, 0x3F84D5B5, 0xB5470917]
"""The first digits of pi behind the point: BLAKE's constants."""
_SHA256_START = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
_SIGMA = ["0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
          "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0"]
_32 = 0xFFFFFFFF
_64 = 0xFFFFFFFFFFFFFFFF


def blake256(message: bytes) -> bytes:
    """BLAKE-256 of 14 rounds, without salt."""
    bits = 8 * len(message)
    zeros = (55 - len(message)) % 64
    padding = b"\x81" if zeros == 0 else b"\x80" + bytes(zeros - 1) + b"\x01"
    padded = message + padding + struct.pack(">Q", bits)
    state = list(_SHA256_START)
    for block in range(0, len(padded), 64):
        counted = min(bits, 8 * (block + 64))
        if counted <= 8 * block:
            counted = 0  # no bit of the message is in this block
        state = _blake_compress(state, list(struct.unpack(">16I", padded[block : block + 64])), counted)
    return struct.pack(">8I", *state)


def _blake_compress(state: Sequence[int], m: Sequence[int], counted: int) -> list[int]:
    low, high = counted & _32, counted >> 32
    v = [*state, *_PI[:8]]
    for i, word in zip((12, 13, 14, 15), (low, low, high, high), strict=True):
        v[i] ^= word
    places = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
              (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
    for number in range(14):
        sigma = [int(digit, 16) for digit in _SIGMA[number % 10]]
        for i, (a, b, c, d) in enumerate(places):
            one, two = sigma[2 * i : 2 * i + 2]
            for word, by_d, by_b in ((m[one] ^ _PI[two], 16, 12), (m[two] ^ _PI[one], 8, 7)):
                v[a] = (v[a] + v[b] + word) & _32
                v[d] = _right(v[d] ^ v[a], by_d)
                v[c] = (v[c] + v[d]) & _32
                v[b] = _right(v[b] ^ v[c], by_b)
    return [h ^ v[i] ^ v[i + 8] for i, h in enumerate(state)]


def _right(x: int, by: int) -> int:
    return (x >> by | x << (32 - by)) & _32


def keccak(message: bytes, size: int) -> bytes:
    """Keccak of `size` bytes, padded as it was proposed (SHA-3 has other padding)."""
    rate = 200 - 2 * size
    padded = bytearray(message + b"\x01" + bytes(-(len(message) + 1) % rate))
    padded[-1] |= 0x80
    state = [0] * 25
    for block in range(0, len(padded), rate):
        for i, word in enumerate(struct.unpack(f"<{rate // 8}Q", padded[block : block + rate])):
            state[i] ^= word
        state = _keccak_f(state)
    return struct.pack("<25Q", *state)[:size]


def _keccak_f(a: list[int]) -> list[int]:
    shift = 1  # the register of which the round constants are bits
    for _ in range(24):
        c = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
        d = [c[x - 1] ^ _left(c[(x + 1) % 5], 1) for x in range(5)]
        a = [word ^ d[i % 5] for i, word in enumerate(a)]
        b = list(a)
        x, y = 1, 0
        for t in range(24):
            new = (2 * x + 3 * y) % 5
            b[y + 5 * new] = _left(a[x + 5 * y], (t + 1) * (t + 2) // 2 % 64)
            x, y = y, new
        a = [b[i] ^ (~b[i - i % 5 + (i + 1) % 5] & b[i - i % 5 + (i + 2) % 5]) for i in range(25)]
        for j in range(7):
            if shift & 1:
                a[0] ^= 1 << ((1 << j) - 1)
            shift = shift << 1 ^ (0x171 if shift & 0x80 else 0)
    return a


def _left(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _64


def _fnv(x: int, y: int) -> int:
    return (x * 0x01000193 ^ y) & _32


def ethash_cache(size: int, seed: bytes) -> list[bytes]:
    """Items of 64 bytes."""
    count = size // 64
    items = [keccak(seed, 64)]
    while len(items) < count:
        items.append(keccak(items[-1], 64))
    for _ in range(3):
        for i in range(count):
            other = int.from_bytes(items[i][:4], "little") % count
            mixed = bytes(p ^ q for p, q in zip(items[(i - 1) % count], items[other], strict=True))
            items[i] = keccak(mixed, 64)
    return items


def ethash_item(cache: Sequence[bytes], i: int) -> bytes:
    """64 bytes of the dataset."""
    first = bytearray(cache[i % len(cache)])
    first[:4] = (int.from_bytes(first[:4], "little") ^ i).to_bytes(4, "little")
    mix = list(struct.unpack("<16I", keccak(bytes(first), 64)))
    for parent in range(256):
        chosen = cache[_fnv(i ^ parent, mix[parent % 16]) % len(cache)]
        mix = [_fnv(own, other) for own, other in zip(mix, struct.unpack("<16I", chosen), strict=True)]
    return keccak(struct.pack("<16I", *mix), 64)


def hashimoto(dataset: Sequence[bytes], header: bytes, nonce: int) -> tuple[bytes, bytes]:
    """The mix digest and the result, of 32 bytes each.

    Args:
        dataset: items of 64 bytes.
    """
    seed = keccak(header + struct.pack("<Q", nonce), 64)
    words = struct.unpack("<16I", seed)
    mix = [*words, *words]
    for access in range(64):
        page = _fnv(access ^ words[0], mix[access % 32]) % (len(dataset) // 2) * 2
        read = struct.unpack("<32I", dataset[page] + dataset[page + 1])
        mix = [_fnv(own, other) for own, other in zip(mix, read, strict=True)]
    digest = struct.pack("<8I", *(_fnv(_fnv(_fnv(*mix[i : i + 2]), mix[i + 2]), mix[i + 3]) for i in range(0, 32, 4)))
    return digest, keccak(seed + digest, 32)
