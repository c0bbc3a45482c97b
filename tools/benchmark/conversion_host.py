"""What a call costs the host: a network of 150 variables that is one region, run by TensorFlow's C API without Python.

    python -m tools.benchmark.conversion_host FOLDER cuda:sm_90 [PROGRAM]    # on a machine with such a GPU; the program
                                                  # is built if there is none (`build_loader`)
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tf_stitch.convert.command import OK, main
from tf_stitch.convert.saved_model import read_model
from tools.benchmark.conversion_check import FORMS
from tools.benchmark.machine import describe_cpu

PROGRAM = Path(__file__).resolve().parents[2] / "tests" / "convert" / "load_model.cc"
FLOOR = "one multiplication"
LAYERS = 50
"""Of three variables each."""
WIDTH = 8
TURNS, CALLS = 5, 3000


def build_loader(folder: Path) -> Path:
    """PROGRAM, built against the installed TensorFlow."""
    import tensorflow as tf

    made, libraries = folder / "load_model", tf.sysconfig.get_lib()
    subprocess.run(["g++", "-std=c++17", "-O2", f"-I{tf.sysconfig.get_include()}", str(PROGRAM), "-o", str(made),
                    f"{libraries}/libtensorflow_cc.so.2", f"{libraries}/libtensorflow_framework.so.2",
                    f"-Wl,-rpath,{libraries}", "-ldl"], check=True)
    return made


def one_region(folder: Path, target: str = "cpu", layers: int = LAYERS) -> None:
    """Writes the network to `original` and, converted to one region, to `converted`; and one multiplication.

    Args:
        target: as `tf_stitch convert --target` has it.
        layers: of three variables each.

    Raises:
        RuntimeError: it does not convert.
    """
    import keras

    keras.utils.set_random_seed(0)
    i = h = keras.Input((WIDTH,), name="x")
    for _ in range(layers):
        h = keras.layers.LayerNormalization(center=False)(h + keras.layers.Dense(WIDTH, activation="tanh")(h))
    keras.Model(i, h).export(str(folder / FORMS[0]), verbose=False)
    keras.Model(i, 2.0 * i).export(str(folder / FLOOR), verbose=False)
    if main([f"--input_dir={folder / FORMS[0]}", f"--output_dir={folder / FORMS[1]}", "--scope=region",
             "--signatures=serving_default", "--input_ranges=batch=1:1", "--nomeasure", f"--target={target}"]) != OK:
        raise RuntimeError("the network does not convert")


def host_times(program: Path, library: Path, folder: Path) -> dict[str, Any]:
    """Of both forms and the floor: microseconds of a call, medians of turns; how many regions ran in one; the day.

    Args:
        folder: as one_region has written it.
    """
    import numpy as np

    np.random.default_rng(0).standard_normal((1, WIDTH)).astype(np.float32).tofile(folder / "input")
    signatures = {form: next(s for s in read_model(folder / form).chosen(["serving_default"]))
                  for form in (FLOOR, FORMS[0])}
    found: dict[str, list[float]] = {form: [] for form in (FLOOR, *FORMS)}
    runs = 0.0
    for _ in range(TURNS):
        for form in found:
            signature = signatures.get(form, signatures[FORMS[0]])
            said = run_loader(program, library, folder / form, CALLS, signature.inputs[0].tensor, (1, WIDTH),
                              folder / "input", signature.outputs[0].tensor, folder / "output")
            found[form].append(said["us"])
            runs = said["runs"]
    return {"microseconds": found, "regions": runs / CALLS, "date": describe_cpu()["date"]}


def run_loader(program: Path, library: Path, model: Path, calls: int, input_tensor: str, shape: Sequence[int],
               input_file: Path, output_tensor: str, output_file: Path, preloaded: Path | None = None
               ) -> dict[str, float]:
    """What PROGRAM counts.

    Args:
        preloaded: a library that is there before the program starts (LD_PRELOAD).

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run([program, library, model, str(calls), input_tensor, ",".join(map(str, shape)), input_file,
                           output_tensor, output_file], capture_output=True, text=True,
                          env=os.environ | ({} if preloaded is None else _with_preloaded(preloaded)))
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    words = done.stdout.split()
    return dict(zip(words[::2], map(float, words[1::2]), strict=True))


def _with_preloaded(library: Path) -> dict[str, str]:
    import tensorflow as tf

    return {"LD_PRELOAD": str(library), "LD_LIBRARY_PATH": tf.sysconfig.get_lib()}


def host_lines(found: dict[str, Any]) -> list[str]:
    """Of the page."""
    floor, before, after = (found["microseconds"][form] for form in (FLOOR, *FORMS))
    return ["## What a call costs the host", "",
            f"A network of {3 * LAYERS} variables and {WIDTH} features, converted to {found['regions']:.0f} region "
            "(`--scope=region`), run by a program of TensorFlow's C API (`tests/convert/load_model.cc`): microseconds "
            f"of `TF_SessionRun`, kernels included. Medians of {CALLS} calls in each of {TURNS} processes, the lowest, "
            "the median and the highest of them, in turns. A graph of one multiplication says what the call itself "
            f"costs. {found['date']}.", "", "| one multiplication | original | converted |", "| --- | --- | --- |",
            f"| {_three(floor)} | {_three(before)} | {_three(after)} |", ""]


def _three(values: Sequence[float]) -> str:
    return ", ".join(f"{f(values):.3g}" for f in (min, statistics.median, max))


def main_on(folder: Path, target: str, program: Path | None = None) -> None:
    """Prints the page's lines for a target."""
    from tf_stitch.config import load_config
    from tf_stitch.native.build import STITCH_OP, build_library

    folder.mkdir(parents=True, exist_ok=True)
    one_region(folder, target)
    library = build_library(STITCH_OP, load_config().cache_dir, portable=True)
    print("\n".join(host_lines(host_times(program or build_loader(folder), library, folder))))


if __name__ == "__main__":
    main_on(Path(sys.argv[1]), sys.argv[2], *map(Path, sys.argv[3:]))
