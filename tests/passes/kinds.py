"""What a tensor pass leaves."""

from __future__ import annotations

import numpy as np

from tests.differential.runner import random_values, region
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_format import format_graph
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.pass_manager import Pass


def kinds(p: Pass[TensorGraph], *outputs: Node) -> list[str]:
    """Kinds of what the pass leaves, inputs aside; checks that `modified` tells the truth."""
    before = region("g", list(outputs))
    result = p.run(before)
    verify_graph(result.graph)
    assert result.modified == (format_graph(result.graph) != format_graph(before))
    return [n.kind.value for n in result.graph.nodes() if n.kind is not OpKind.INPUT]


def same_values(before: TensorGraph, after: TensorGraph, rtol: float = 1e-4, atol: float = 1e-5) -> TensorGraph:
    """What a pass left; checks that it gives what there was before, and is a graph."""
    verify_graph(after, static=True)
    values = random_values(before)
    want, got = interpret(before, values), interpret(after, values)
    for key, value in want.items():
        np.testing.assert_allclose(got[key].astype(np.float64), value.astype(np.float64), rtol=rtol, atol=atol)
    return after
