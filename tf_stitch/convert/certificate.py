"""The equivalence certificate: the original and the converted model run on the same inputs, and what came of it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from tf_stitch.convert.comparison import BOUNDS, Difference, compare
from tf_stitch.convert.inputs import Case
from tf_stitch.convert.running import Loaded
from tf_stitch.convert.saved_model import Signature
from tf_stitch.errors import ConvertError

_NO_PYTHON = "Could not find callback with key="
"""What TensorFlow says of PyFunc in another process."""
_NO_VARIABLE = re.compile("Could not find variable ([^ ]+?)\\.")
"""What TensorFlow says of a variable that nothing has initialized."""


@dataclass(frozen=True)
class Checked:
    """One case.

    Attributes:
        random: outputs of which two runs of the original differ, too: only their types and shapes are compared.
    """

    case: Case
    digest: str
    differences: tuple[Difference, ...]
    random: tuple[str, ...]

    @property
    def passes(self) -> bool:
        return all(d.passes or d.output in self.random for d in self.differences)

    def as_json(self) -> dict[str, Any]:
        return {"signature": self.case.signature, "origin": self.case.origin,
                "shapes": {name: list(shape) for name, shape in self.case.shapes.items()}, "inputs_sha256": self.digest,
                "random": list(self.random), "passes": self.passes, "outputs": [d.as_json() for d in self.differences]}


def check(original: Loaded, converted: Loaded, signatures: Sequence[Signature], cases: Sequence[Case],
          tolerance: float, said: Callable[[float], None] = lambda part: None) -> list[Checked]:
    """Runs every case by both.

    Raises:
        ConvertError: the original cannot run an input; or the converted model cannot run what the original can.
    """
    by_name = {s.name: s for s in signatures}
    found = []
    for i, case in enumerate(cases):
        signature = by_name[case.signature]
        expected = run_original(original, signature, case)
        try:
            results = converted.run(signature, case.values)
        except tf.errors.OpError as error:
            raise ConvertError(f"the converted model cannot run {_where(case)}, which the original can: "
                               f"{error.message}") from None
        differences = tuple(compare(name, expected[name], results[name], tolerance, original.tf32)
                            for name in expected)
        random = () if all(d.passes for d in differences) else tuple(
            name for name in _random_outputs(original, signature, case, expected)
            if expected[name].shape == results[name].shape and expected[name].dtype == results[name].dtype)
        found.append(Checked(case, case.digest(), differences, random))
        said((i + 1) / len(cases))
    return found


def run_original(original: Loaded, signature: Signature, case: Case) -> dict[str, NDArray[Any]]:
    """
    Raises:
        ConvertError: the model raises.
    """
    try:
        return original.run(signature, case.values)
    except (tf.errors.OpError, ValueError, TypeError) as error:
        said = _said(error)
        if _NO_PYTHON in said:
            raise ConvertError(f"the original model cannot run {_where(case)}: it calls Python code (tf.py_function or "
                               "tf.numpy_function), which a SavedModel does not hold. Save it without") from None
        if missing := _NO_VARIABLE.match(said):
            raise ConvertError(f"the original model cannot run {_where(case)}: no session restores its variable "
                               f"{missing[1]}. TensorFlow saves Keras 3's layers so where a tf.Module has them: only "
                               "tf.saved_model.load runs the model, and neither the C API nor a server does. Save it "
                               "by keras.export.ExportArchive, which tracks the layers, or by model.export") from None
        raise ConvertError(f"the original model cannot run {_where(case)}: {said}. Give shapes by --input_shapes, or "
                           "real inputs by --samples") from None


def _said(error: Exception) -> str:
    """The first line that says something: TensorFlow begins with a heading, and where the node was defined."""
    lines = [line.strip() for line in str(getattr(error, "message", error)).splitlines()]
    told = [line for line in lines if line and not line.endswith(":") and not line.startswith(("File ", "Detected at"))]
    return (told[0] if told else " ".join(lines)).rstrip(".")


def _random_outputs(original: Loaded, signature: Signature, case: Case, first: Mapping[str, NDArray[Any]]
                    ) -> list[str]:
    """Outputs that another run of the original gives otherwise."""
    second = original.run(signature, case.values)
    return [n for n in first if first[n].shape == second[n].shape
            and not compare(n, first[n], second[n], 1.0, original.tf32).passes]


def _where(case: Case) -> str:
    shapes = ", ".join(f"{name} {list(shape)}" for name, shape in case.shapes.items())
    return f"signature {case.signature} on {case.origin} inputs ({shapes})"


def document(checked: Sequence[Checked], tolerance: float) -> dict[str, Any]:
    """What is stored. On a GPU that computes in TF32, outputs have a wider bound of their own."""
    return {"tensorflow": tf.__version__, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "bounds": {kind: bound * tolerance for kind, bound in BOUNDS.items()}, "tolerance": tolerance,
            "passes": all(one.passes for one in checked), "cases": [one.as_json() for one in checked]}


def failure(bad: Checked) -> str:
    """What differs in a case that does not pass."""
    worst = next(d for d in bad.differences if not d.passes and d.output not in bad.random)
    return (f"{_where(bad.case)}: output {worst.output} differs from the original's by {worst.worst:.3g}, where "
            f"{worst.bound:.3g} is allowed (--tolerance)")
