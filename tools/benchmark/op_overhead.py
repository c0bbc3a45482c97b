"""What a StitchOp costs over an ordinary op on the CPU: chains of AddV2 and of StitchOps that add one scalar.

Prints JSON: microseconds per op of each round, for both.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from tf_stitch.config import load_config
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.types import TensorType
from tf_stitch.native.bindings import DeviceMemory, load_op
from tf_stitch.native.build import SOURCE_DIR
from tf_stitch.placement.executable import BufferRef, Executable, HostLaunch, encode
from tf_stitch.placement.executable_format import Space

ROOT = Path(__file__).resolve().parents[2]



LENGTH, CALLS = 200, 30
KERNEL = """
#include "cpu/stitch_abi.h"
int add(const tfs_env* env, void* const* a) { *(float*)a[2] = *(float*)a[0] + *(float*)a[1]; return 0; }
"""


def compile_kernel(folder: Path) -> int:
    """Address of a kernel that adds two scalars; its library stays loaded."""
    source, library = folder / "add.c", folder / "add.so"
    source.write_text(KERNEL)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", f"-I{SOURCE_DIR}", str(source), "-o", str(library)], check=True)
    return int(ctypes.cast(ctypes.CDLL(str(library)).add, ctypes.c_void_p).value or 0)


def executable_words(address: int) -> list[int]:
    """An executable of one launch over scalars."""
    args = (BufferRef(Space.INPUT, 0), BufferRef(Space.INPUT, 1), BufferRef(Space.OUTPUT, 0))
    scalar = (TensorType(DType.F32, ()),)
    executable = Executable(("x", "y"), (), scalar, (), (), (HostLaunch("add", args),), None)
    return encode(executable, {"add": address}, None)


def chain(add: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Any:
    @tf.function
    def run(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        for _ in range(LENGTH):
            x = add(x, y)
        return x

    return run


def microseconds_per_op(run: Any, x: tf.Tensor, y: tf.Tensor) -> float:
    """Fastest of CALLS calls, divided by the length of the chain."""
    best = float("inf")
    for _ in range(CALLS):
        start = time.perf_counter()
        run(x, y)
        best = min(best, time.perf_counter() - start)
    return best / LENGTH * 1e6


def main(rounds: int) -> None:
    # TensorFlow would make one AddN of a chain of AddV2.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    library = load_op(load_config().cache_dir)
    with tempfile.TemporaryDirectory() as folder:
        words = executable_words(compile_kernel(Path(folder)))

    def build(region: int, device: int, key: tuple[int, ...], memory: DeviceMemory) -> Sequence[int]:
        return words

    def fallback(region: int, call: object) -> None:
        raise RuntimeError("the kernel did not run")

    library.set_callbacks(build, lambda region, reason: None, fallback)

    def stitch(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return library.raw_ops.stitch_op(inputs=[x, y], variables=[], Tout=[tf.float32], region=1, output_shapes=[])[0]

    chains = {"AddV2": chain(lambda x, y: tf.raw_ops.AddV2(x=x, y=y)), "StitchOp": chain(stitch)}
    x, y = tf.random.uniform([]), tf.random.uniform([])
    results = {name: run(x, y).numpy() for name, run in chains.items()}
    if results["AddV2"] != results["StitchOp"]:
        raise RuntimeError(f"the chains disagree: {results}")
    times: dict[str, list[float]] = {name: [] for name in chains}
    for _ in range(rounds):
        for name, run in chains.items():
            times[name].append(microseconds_per_op(run, x, y))
    library.clear_callbacks()
    print(json.dumps(times))


if __name__ == "__main__":
    main(int(sys.argv[1]))
