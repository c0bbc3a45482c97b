"""Invariants of a tensor graph; a violation is a bug in a pass."""

from __future__ import annotations

from tf_stitch.errors import TypeRuleError, VerifyError
from tf_stitch.ir.graph import TensorGraph, key_of, make_node
from tf_stitch.ir.op_attrs import InputAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import OpKind


def verify_graph(graph: TensorGraph, static: bool = False) -> None:
    """Checks types against the type rules, and that keys are unique and assigns are outputs only.

    Args:
        static: no symbol may be left.

    Raises:
        VerifyError: the first violation.
    """
    keys: dict[str, object] = {}
    for node in graph.nodes():
        try:
            expected = make_node(node.kind, node.operands, node.attrs, node.loc).type
        except TypeRuleError as error:
            raise VerifyError(error.message, node.loc) from None
        if expected != node.type:
            raise VerifyError(f"has type {node.type}, its rule gives {expected}", node.loc)
        if static and not node.type.is_static:
            raise VerifyError(f"{node.type} is not static", node.loc)
        if any(o.kind is OpKind.ASSIGN for o in node.operands):
            raise VerifyError("uses an assign as a value", node.loc)
        if isinstance(node.attrs, InputAttrs | VariableAttrs) and keys.setdefault(key_of(node), node) is not node:
            raise VerifyError(f"two nodes stand for {key_of(node)}", node.loc)
    names = [key for key, _ in graph.outputs]
    if len(set(names)) != len(names):
        raise VerifyError("two outputs have one key")
