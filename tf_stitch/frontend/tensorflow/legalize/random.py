"""Random numbers of TensorFlow's counter-based generator, on GPUs: masks of dropouts, noise, classes and times.

On CPUs such ops stay: there TensorFlow's take no copies between devices, and a region gains little by them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.movement import along_axis
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K

_PHILOX = (1, 3)  # RNG_ALG_PHILOX and RNG_ALG_AUTO_SELECT of rng_alg.h: all of TensorFlow's kernels choose Philox
_SCRAMBLE = 0x02461E293EC8F720
"""The key that seeds are scrambled with (GenerateKey in stateless_random_ops.cc)."""
_MANTISSA = {DType.F32: 23, DType.F16: 10, DType.BF16: 7}
"""Bits of a random word that a number in [0, 1) is made of (random_distributions.h)."""


@legalize("StatelessRandomGetKeyCounter")
def key_and_counter(ctx: NodeContext) -> list[Node]:
    """The words of one block, whose counter is the seed: two are the key, two the upper half of the counter."""
    _on_gpu(ctx)
    b, seed = ctx.b, ctx.value(0)
    if seed.type.shape != (2,):
        raise UnsupportedError(f"a seed of shape {seed.type}")
    stream = scrambled(b, seed)
    key, upper = (b.reshape(b.cast(half, DType.U64), (1,)) for half in (stream.key, stream.high))
    return [key, b.concat([b.constant([0], DType.U64), upper], 0)]


@dataclass(frozen=True)
class Stream:
    """Random words by position: the generator's key and the halves of its counter, scalars of int64."""

    key: Node
    low: Node
    high: Node

    def words(self, b: Builder, positions: Node) -> Node:
        """Words of 32 bits at positions of int64."""
        return b.op(K.RANDOM_BITS, positions, self.key, self.low, self.high)


def scrambled(b: Builder, seed: Node) -> Stream:
    """What a seed [2] stands for."""
    low, high = (_element(b, b.cast(seed, DType.I64), i) for i in range(2))
    words = [b.op(K.RANDOM_BITS, b.constant(i, DType.I64), b.constant(_SCRAMBLE, DType.I64), low, high)
             for i in range(4)]
    return Stream(_int64_of(b, *words[:2]), b.constant(0, DType.I64), _int64_of(b, *words[2:]))


def _int64_of(b: Builder, low: Node, high: Node) -> Node:
    """Two int32 as the halves of an int64."""
    masked = b.op(K.AND, b.cast(low, DType.I64), b.constant(0xFFFFFFFF, DType.I64))
    return b.add(b.mul(b.cast(high, DType.I64), b.constant(1 << 32, DType.I64)), masked)


@legalize("StatelessRandomUniformV2")
def uniform(ctx: NodeContext) -> Node:
    """bitcast(exponent of 1 | the word's last bits) - 1, which is the number of these bits times a power of two."""
    dtype = _drawn_type(ctx)
    stream, positions = _drawn(ctx)
    return unit_interval(ctx.b, stream.words(ctx.b, positions), dtype)


@legalize("StatelessRandomNormalV2")
def normal(ctx: NodeContext) -> Node:
    """Two numbers of two words, by a sine and a cosine."""
    dtype = _drawn_type(ctx)
    stream, positions = _drawn(ctx)
    b, one = ctx.b, ctx.b.constant(1, DType.I64)
    first, second = (unit_interval(b, stream.words(b, at), DType.F32) for at in (
        b.op(K.AND, positions, b.constant(-2, DType.I64)), b.op(K.OR, positions, one)))
    by_sine, by_cosine = box_muller(b, first, second)
    is_second = b.op(K.EQUAL, b.op(K.AND, positions, one), one)
    return b.cast(b.select(is_second, by_cosine, by_sine), dtype)


def box_muller(b: Builder, first: Node, second: Node) -> tuple[Node, Node]:
    """Two normal numbers of two in [0, 1) (Box and Muller, 1958; BoxMullerFloat in random_distributions_utils.h)."""
    least = b.constant(1e-7, DType.F32)
    radius = b.op(K.SQRT, b.mul(b.constant(-2.0, DType.F32), b.op(K.LOG, b.maximum(first, least))))
    # In C++ 2.0f * M_PI * x is a double, which is rounded then.
    angle = b.cast(b.mul(b.constant(2 * math.pi, DType.F64), b.cast(second, DType.F64)), DType.F32)
    return b.mul(b.op(K.SIN, angle), radius), b.mul(b.op(K.COS, angle), radius)


@legalize("StatelessRandomUniformIntV2")
def uniform_integers(ctx: NodeContext) -> Node:
    """The least one, and a word modulo the size of the range."""
    _on_gpu(ctx)
    dtype = ctx.attrs.dtype("dtype")
    if dtype is not DType.I32:
        raise UnsupportedError(f"{ctx.op} of {dtype.value}")
    low, end = (int(ctx.scalar(i, "the range")) for i in (4, 5))
    if low >= end:
        raise UnsupportedError(f"{ctx.op} of no numbers")
    stream, positions = _drawn(ctx)
    b = ctx.b
    words = b.op(K.AND, b.cast(stream.words(b, positions), DType.I64), b.constant(0xFFFFFFFF, DType.I64))
    chosen = b.op(K.FLOOR_MOD, words, b.constant(end - low, DType.I64))
    return b.cast(b.add(chosen, b.constant(low, DType.I64)), DType.I32)


def _drawn_type(ctx: NodeContext) -> DType:
    _on_gpu(ctx)
    dtype = ctx.attrs.dtype("dtype")
    if dtype not in _MANTISSA:
        raise UnsupportedError(f"{ctx.op} of {dtype.value}")
    return dtype


def _drawn(ctx: NodeContext) -> tuple[Stream, Node]:
    """What a node draws from, and the places of its elements, of operands shape, key, counter, algorithm."""
    if ctx.scalar(3, "the algorithm") not in _PHILOX:
        raise UnsupportedError(f"{ctx.op} of another algorithm than Philox")
    b = ctx.b
    key, counter = (b.cast(ctx.value(i), DType.I64) for i in (1, 2))
    stream = Stream(_element(b, key, 0), _element(b, counter, 0), _element(b, counter, 1))
    return stream, b.positions(ctx.known_shape(0), DType.I64)


def unit_interval(b: Builder, words: Node, dtype: DType) -> Node:
    """Numbers in [0, 1) of words."""
    mantissa = _MANTISSA[dtype]
    masked = b.op(K.AND, words, b.constant((1 << mantissa) - 1, DType.I32))
    return b.mul(b.cast(masked, dtype), b.constant(2.0**-mantissa, dtype))


def _element(b: Builder, x: Node, index: int) -> Node:
    """An element of a vector, as a scalar."""
    return b.reshape(along_axis(b, x, 0, index, 1), ())


def _on_gpu(ctx: NodeContext) -> None:
    if not ctx.on_gpu:
        raise UnsupportedError(f"{ctx.op} draws random numbers")
