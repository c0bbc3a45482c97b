"""Reads back the text of tensor graphs (text_format.format_graph): dumps and test graphs become graphs again."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from tf_stitch.errors import SourceLoc, TypeRuleError
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.op_table import OP_TABLE
from tf_stitch.ir.types import Dim, Shape, Symbol, TensorType

_NODE = re.compile(r"  %(\d+) = (\w+)\((.*?)\)(?: \{(.*)\})? : (\w+\[[^\]]*\])(?:  // (.*))?")
_OUTPUT = re.compile(r"  out (.*) = %(\d+)")
_WHERE = re.compile(r"(.*) \((\w+)\)")


def parse_graph(text: str) -> TensorGraph:
    """The graph that `text` describes. Constants of more than eight elements, which the text holds as a hash only,
    come back as ones: right for planning, not for running.

    Raises:
        TypeRuleError: a line that is no node of a known op; the message quotes it.
    """
    lines = text.splitlines()
    if not lines or not lines[0].startswith("graph "):
        raise TypeRuleError("the text of a graph begins with 'graph NAME'")
    graph = TensorGraph(lines[0].removeprefix("graph "))
    nodes: dict[str, Node] = {}
    for line in lines[1:]:
        output, node = _OUTPUT.fullmatch(line), _NODE.fullmatch(line)
        try:
            if output:
                graph.outputs.append((output[1], nodes[output[2]]))
            elif node:
                nodes[node[1]] = _node(node, nodes)
            elif line:
                raise ValueError("neither a node nor an output")
        except (ValueError, KeyError) as error:
            raise TypeRuleError(f"{line!r}: {error}") from None
    return graph


def parse_graphs(text: str) -> list[TensorGraph]:
    """The graphs of a text that holds several, one after the other."""
    return [parse_graph(f"graph {part}") for part in re.split(r"^graph ", text, flags=re.MULTILINE)[1:]]


def _node(found: re.Match[str], nodes: dict[str, Node]) -> Node:
    kind, result = OpKind(found[2]), _type(found[5])
    operands = [nodes[o.removeprefix("%")] for o in found[3].split(", ") if o]
    attrs = OP_TABLE[kind].attrs(**_attributes(OP_TABLE[kind].attrs, found[4] or "", result))
    node = make_node(kind, operands, attrs, _loc(found[6] or ""))
    if node.type != result:
        raise ValueError(f"its type is {node.type}")
    return node


def _attributes(cls: type[oa.Attrs], text: str, result: TensorType) -> dict[str, Any]:
    """Those with a default may be missing: a text may be older than they are."""
    cuts = {f: cut for f in fields(cls) if (cut := re.search(rf"(?:^|, ){f.name}=", text)) is not None}
    for field in fields(cls):
        if field not in cuts and field.default is MISSING:
            raise ValueError(f"no attribute {field.name}")
    ends = [*(cut.start() for cut in cuts.values()), len(text)][1:]
    return {field.name: _value(str(field.type), text[cut.end():end], result)
            for (field, cut), end in zip(cuts.items(), ends, strict=True)}


def _value(annotation: str, text: str, result: TensorType) -> object:
    if annotation.startswith("NDArray"):
        return _array(text, result)
    if annotation == "TensorType":
        return _type(text)
    if annotation == "DType":
        return DType(text)
    if annotation == "Combine":
        return oa.Combine(text)
    if annotation == "bool":
        return {"True": True, "False": False}[text]
    if annotation == "float":
        return float(text)
    if annotation == "int":
        return int(text)
    if annotation in ("Shape", "tuple[int, ...]"):
        return _shape(text)
    return text


def _array(text: str, result: TensorType) -> np.ndarray[Any, Any]:
    if text.startswith("array"):
        return np.ones(result.dims, result.dtype.numpy)
    words = [w for w in re.split(r"[\[\], ]+", text) if w]
    values = [w == "True" for w in words] if result.dtype is DType.BOOL else [
        float(w) if result.dtype.is_real else int(w) for w in words]
    return np.asarray(values).astype(result.dtype.numpy).reshape(result.dims)


def _type(text: str) -> TensorType:
    dtype, _, shape = text.partition("[")
    return TensorType(DType(dtype), _shape(f"[{shape}"))


def _shape(text: str) -> Shape:
    dims = [d for d in text[1:-1].split(",") if d]
    parsed: list[Dim] = [int(d) if d.lstrip("-").isdigit() else Symbol(d) for d in dims]
    return tuple(parsed)


def _loc(text: str) -> SourceLoc:
    found = _WHERE.fullmatch(text)
    return SourceLoc(found[1], found[2]) if found else SourceLoc(text, "")
