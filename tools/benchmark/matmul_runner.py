"""Times matmuls as tf_stitch runs them: library calls of a StitchOp, on a GPU in a CUDA graph."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_stitch.config import load_config
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.matrices import contiguous
from tf_stitch.ir.types import TensorType
from tf_stitch.libraries.gemm import Gemm
from tf_stitch.native.bindings import load_op
from tf_stitch.placement.executable import BufferRef, Executable, LibraryStep, encode
from tf_stitch.placement.executable_format import Space

WARM_UP = 8
"""Calls until the op runs a CUDA graph, and some more."""


def plain_matmul(dtype: DType, batch: int, m: int, k: int, n: int) -> Gemm:
    """`batch` matmuls [m, k] x [k, n] of matrices without gaps."""
    return Gemm(dtype, batch, m, n, k, *(contiguous(dims) for dims in ((m, k), (k, n), (m, n))))


def in_a_row(gemm: Gemm, repeats: int) -> Executable:
    """The matmul several times over the same memory."""
    counts = [size // gemm.dtype.size for size in gemm.operand_bytes()]
    args = (*(BufferRef(Space.INPUT, i) for i in range(len(counts) - 1)), BufferRef(Space.OUTPUT, 0))
    return Executable(tuple(f"x{i}" for i in range(len(counts) - 1)), (), (TensorType(gemm.dtype, (counts[-1],)),), (),
                      (), (LibraryStep(gemm, args),) * repeats, None)


class MatmulRunner:
    """Runs matmuls on a device, as regions of their own. The process can have no other regions."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._words: list[list[int]] = []
        self._library = load_op(load_config().cache_dir)
        self._library.set_callbacks(lambda region, device, key, memory: self._words[region],
                                    lambda region, reason: None, _fail)

    def seconds(self, gemm: Gemm, repeats: int, calls: int) -> list[float]:
        """Of calls of an op that runs the matmul so many times, after the first ones.

        Raises:
            RuntimeError: the library has no such matmul.
            tf.errors.ResourceExhaustedError: memory is short.
        """
        region = self._add(gemm, repeats)
        with tf.device(self._device):
            operands = _operands(gemm)

        def call() -> float:
            start = time.perf_counter()
            out = self._op(region, operands, gemm.dtype)
            np.asarray(out[:1])  # waits
            return time.perf_counter() - start

        return [call() for _ in range(WARM_UP + calls)][WARM_UP:]

    def chain_seconds(self, length: int, calls: int) -> list[float]:
        """Of calls of a function of so many ops in a chain, each a tiny matmul with the result of the one before."""
        gemm = plain_matmul(DType.F32, 1, 1, 1, 1)
        region = self._add(gemm, 1)

        @tf.function(autograph=False)
        def run(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            for _ in range(length):
                x = self._op(region, [x, y], DType.F32)
            return x

        with tf.device(self._device):
            x, y = _operands(gemm)

        def call() -> float:
            start = time.perf_counter()
            run(x, y).numpy()
            return time.perf_counter() - start

        return [call() for _ in range(WARM_UP + calls)][WARM_UP:]

    def _add(self, gemm: Gemm, repeats: int) -> int:
        self._words.append(encode(in_a_row(gemm, repeats), {}))
        return len(self._words) - 1

    def _op(self, region: int, operands: Sequence[tf.Tensor], dtype: DType) -> tf.Tensor:
        with tf.device(self._device):
            return self._library.raw_ops.stitch_op(inputs=operands, variables=[], Tout=[dtype.value], region=region,
                                                   output_shapes=[])[0]


def _operands(gemm: Gemm) -> list[tf.Tensor]:
    return [tf.cast(tf.random.normal([size // gemm.dtype.size]), gemm.dtype.value)
            for size in gemm.operand_bytes()[:-1]]


def _fail(region: int, call: object) -> None:
    raise RuntimeError(f"region {region} did not run: the library has no such matmul")
