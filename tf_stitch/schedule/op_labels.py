"""Names of a pattern's ops in templates."""

from __future__ import annotations

from collections import Counter

from tf_stitch.ir.graph import Node
from tf_stitch.planning.pattern import Pattern


def op_labels(pattern: Pattern) -> dict[Node, str]:
    """A name for every op of a pattern and every value that it reads: sum_1, sum_2. Equal for equal structure."""
    counts: Counter[str] = Counter()
    labels: dict[Node, str] = {}
    for node in (*pattern.reads(), *pattern.nodes):
        kind = node.kind.value
        counts[kind] += 1
        labels[node] = f"{kind}_{counts[kind]}"
    return labels
