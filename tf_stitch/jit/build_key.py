"""What an executable of a region is built for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.jit.prebuild import Traits


@dataclass(frozen=True)
class Key:
    """A signature as the native op gives it: whether every buffer is aligned, the shape of every input and variable,
    and whether matmuls of float32 may be taken in TF32."""

    aligned: bool
    shapes: tuple[tuple[int, ...], ...]
    tf32: bool = False

    @property
    def traits(self) -> Traits:
        return self.aligned, self.tf32

    @staticmethod
    def parse(words: Sequence[int]) -> Key:
        shapes: list[tuple[int, ...]] = []
        at = 1
        while at < len(words):
            rank = words[at]
            shapes.append(tuple(words[at + 1:at + 1 + rank]))
            at += 1 + rank
        return Key(bool(words[0] & 1), tuple(shapes), bool(words[0] & 2))
