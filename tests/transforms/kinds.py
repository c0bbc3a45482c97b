"""What a tensor pass leaves."""

from __future__ import annotations

from tests.differential.runner import region
from tf_stitch.ir.graph import Node, TensorGraph
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
