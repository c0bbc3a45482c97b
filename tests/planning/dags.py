"""Random graphs for planner tests."""

from __future__ import annotations

import random

from tests.differential.generator import make_case
from tf_stitch.ir.graph import TensorGraph


def random_graph(seed: int, steps: int = 14) -> TensorGraph:
    """A random region graph that depends on the seed alone."""
    return make_case(random.Random(seed), steps, 300).graph
