"""The command line of every model of the zoo: runs it and prints losses, a digest of its outputs, and times."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from models.program import Model, Options

WARM_UP = 5
"""Steps that are left out of the steady time: tracing, compilation, memory."""


def main(model: Model) -> None:
    args = _arguments(model)
    program = model.build(Options(args.config, args.dtype, args.style, args.xla or None, args.seed))
    result: dict[str, np.ndarray] = {}
    for mode in args.mode.split(","):
        if mode == "train":
            losses, seconds = _timed(program.train, args.steps)
            print(f"train loss {losses[0]:.6g} ... {losses[-1]:.6g}")
            result["losses"] = np.array(losses)
        else:
            outputs, seconds = _timed(program.infer, args.steps)
            for name, value in outputs[-1].items():
                print(f"infer {name} {digest(value)}")
            result |= {f"output/{step}/{name}": value for step, answer in enumerate(outputs[: args.kept])
                       for name, value in answer.items()}  # fmt: skip
        print(f"{mode} {steady_ms(seconds):.3f} ms per step, first {seconds[0] * 1e3:.0f} ms", flush=True)
        result[f"{mode}_seconds"] = np.array(seconds)
    if args.out is not None:
        np.savez(args.out, **result)


def digest(value: np.ndarray) -> str:
    """Type, shape, mean and deviation of an array: equal outputs look equal."""
    wide = value.astype(np.float64)
    return f"{value.dtype}{list(value.shape)} mean {wide.mean():.6g} deviation {wide.std():.6g}"


def steady_ms(seconds: list[float]) -> float:
    """Median in milliseconds, without the warm-up where there are steps enough."""
    return statistics.median(seconds[WARM_UP:] or seconds[1:] or seconds) * 1e3


def _timed(step: Callable[[int], object], steps: int) -> tuple[list, list[float]]:
    results, seconds = [], []
    for i in range(steps):
        start = time.perf_counter()
        results.append(step(i))
        seconds.append(time.perf_counter() - start)
    return results, seconds


def _arguments(model: Model) -> argparse.Namespace:
    flags = argparse.ArgumentParser(description=f"Trains {model.name}, or runs it, on synthetic data.")
    flags.add_argument("--mode", default="train,infer", choices=("train", "infer", "train,infer"))
    flags.add_argument("--config", default="small", choices=tuple(model.configs))
    flags.add_argument("--dtype", default="float32", choices=model.dtypes)
    flags.add_argument("--style", default="tf2", choices=model.styles)
    flags.add_argument("--steps", type=int, default=20, help="of each mode")
    flags.add_argument("--kept", type=int, default=4, help="first inference steps whose outputs are written")
    flags.add_argument("--seed", type=int, default=1, help="of weights, dropout and data")
    flags.add_argument("--xla", action="store_true", help="compile with XLA (jit_compile=True)")
    flags.add_argument("--out", type=Path, help="write losses, outputs and seconds there, as .npz")
    return flags.parse_args()
