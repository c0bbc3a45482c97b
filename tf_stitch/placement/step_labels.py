"""What TensorFlow's profiler calls the steps of an executable: the user's nodes. Kernels with equal code are one binary
(emit/comments.py), so their symbols cannot say it.

Labels look like TensorFlow's own "name:Type", by which TensorBoard tells ops from other events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tf_stitch.placement.executable import Executable, LibraryStep

LONGEST = 120
"""Characters of a label's name: the end of a longer one."""
_NO_PART_OF_A_NAME = re.compile(r"[^A-Za-z0-9_./>-]")


def label(nodes: Sequence[str], type_: str) -> str:
    """
    Args:
        nodes: names of what a step computes, what it is named after last; at least one.
        type_: that the profiler is to show.
    """
    name = nodes[-1] + (f"-and-{len(nodes) - 1}-more" if len(nodes) > 1 else "")
    name = _NO_PART_OF_A_NAME.sub("_", name)
    if len(name) > LONGEST:
        name = "..." + name[3 - LONGEST:]
    return f"{name}:{type_}"


def step_labels(executable: Executable, own_names: Mapping[str, str]) -> dict[int, str]:
    """A label for each step whose nodes are known, by the step's number.

    Args:
        own_names: names of nodes in the executable -> in the region that runs it, which may be an equal one.
    """
    return {number: label([own_names[node] for node in nodes],
                          "StitchCall" if isinstance(executable.steps[number], LibraryStep) else "StitchKernel")
            for number, nodes in enumerate(executable.nodes) if nodes and all(node in own_names for node in nodes)}
