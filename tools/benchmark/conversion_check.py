"""Whether a converted model gives the original's outputs in a process that has the op library and nothing else of
tf_stitch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tf_stitch.convert.command import OK, main
from tf_stitch.convert.comparison import compare
from tf_stitch.convert.inputs import generated
from tf_stitch.convert.saved_model import Signature, read_model
from tf_stitch.convert.sizes import Asked, parse_shapes, shapes_of
from tools.benchmark.conversion_cases import SAMPLES, Case
from tools.benchmark.workers import Worker

FORMS = ("original", "converted")

Result = dict[str, Any]


def save(case: Case, folder: Path) -> Signature:
    """Writes the model to `original` and inputs beside it, SAMPLES; the signature that is converted."""
    case.save(folder / FORMS[0])
    [signature] = read_model(folder / FORMS[0]).chosen([case.signature])
    if not (folder / SAMPLES).exists():
        asked = Asked(parse_shapes(shape_flags(case, signature)), {})
        np.savez(folder / SAMPLES, **dict(generated(signature, shapes_of(signature, asked)[0][0]).values))
    return signature


def shape_flags(case: Case, signature: Signature) -> list[str]:
    """Values of --input_shapes."""
    return [f"{value.name}={case.shape}" for value in signature.inputs] if case.shape else []


def flags_of(case: Case, signature: Signature, folder: Path) -> list[str]:
    """Of the conversion from `original` to `converted`."""
    return [f"--input_dir={folder / FORMS[0]}", f"--output_dir={folder / FORMS[1]}", "--overwrite",
            f"--signatures={signature.name}", f"--report={folder / 'report.json'}",
            *(f"--input_shapes={text}" for text in shape_flags(case, signature)),
            *([] if case.shape else [f"--samples={folder / SAMPLES}"])]


def check(case: Case, folder: Path, worker: Worker) -> Result:
    """Saves and converts a model, with all of its regions, and compares the two forms in the worker's process.

    Args:
        worker: of reload_worker.py.

    Raises:
        RuntimeError: it does not convert, or cannot run, or an output differs by more than the certificate allows.
    """
    signature = save(case, folder)
    if main([*flags_of(case, signature, folder), "--nomeasure"]) != OK:
        report = folder / "report.json"
        raise RuntimeError(json.loads(report.read_text()).get("problem") if report.exists() else "it is refused")
    report = json.loads((folder / "report.json").read_text())
    if main([f"--verify_only={folder / FORMS[1]}", f"--samples={folder / SAMPLES}"]) != OK:
        raise RuntimeError("--verify_only finds a difference")
    cases = report["certificate"]["cases"]
    random = sorted({name for one in cases for name in one["random"]})
    counts = worker.ask(folder, signature.name)
    return {"coverage": report["counts"], "cases": len(cases), "random": random, **counts,
            "worst": max((output["worst"] for one in cases for output in one["outputs"] if output["output"] not in
                          one["random"]), default=0.0), "elsewhere": _elsewhere(folder, random)}


def _elsewhere(folder: Path, random: Sequence[str]) -> float:
    """The largest difference of outputs that are not random; relative, as the certificate has it.

    Raises:
        RuntimeError: it is larger than the certificate allows.
    """
    one, other = (_outputs(folder / f"{form}.npz") for form in FORMS)
    found = [compare(key, one[key], other[key], 1.0) for key in one if key not in random]
    bad = next((d for d in found if not d.passes), None)
    if bad is not None:
        raise RuntimeError(f"output {bad.output} differs by {bad.worst:.3g} in a process of its own")
    return max((d.worst for d in found), default=0.0)


def _outputs(file: Path) -> Mapping[str, Any]:
    with np.load(file) as arrays:
        return dict(arrays)
