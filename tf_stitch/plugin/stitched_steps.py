"""Measures the stitched functions of a process (plugin/step_turns.py), and keeps their times for later ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from tf_stitch.frontend.tensorflow.held_handles import original_name
from tf_stitch.jit.step_store import StepStore
from tf_stitch.plugin.first_calls import FirstCalls
from tf_stitch.plugin.known_functions import KnownFunctions
from tf_stitch.plugin.step_turns import StepTurns
from tf_stitch.report.report import Report


def step_turns(folder: Path, functions: KnownFunctions, first_calls: FirstCalls | None, report: Report) -> StepTurns:
    """Turns of the functions that a report has regions of.

    Args:
        folder: for times.
        functions: name what is kept of a function.
        first_calls: which functions still run TensorFlow's graph; None: none does.
    """

    def key(function: str, inputs: Sequence[Any]) -> str:
        shapes = [str(tensor.shape) for tensor in inputs if tensor.dtype != tf.resource]
        return functions.name(function, "call", *surroundings(), *shapes)

    def is_stitched(function: str) -> bool:
        """Under its own name, or as one that holds its variables."""
        return any(graph.regions and original_name(graph.graph) == function for graph in list(report.graphs))

    return StepTurns(StepStore(folder), key, is_stitched, first_calls,
                     lambda text: report.note("step", str(folder), text))


def surroundings() -> tuple[str, ...]:
    """What of TensorFlow the time of its own ops depends on."""
    return tf.__version__, str(tf.config.threading.get_intra_op_parallelism_threads())
