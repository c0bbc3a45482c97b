"""The NodeDef of a native stitch op."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto

from tf_stitch.frontend.tensorflow.dtypes import to_enum
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.ir.op_attrs import InputAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Shape


def stitch_node(name: str, region: RegionGraph, number: int, device: str, controls: Sequence[str], token: int = 0
                ) -> NodeDef:
    """A StitchOp, or StitchStateOp where variables take part, that runs region `number` of the session with `token`."""
    node = NodeDef(name=name, op="StitchStateOp" if region.handles else "StitchOp", device=device,
                   input=[*region.inputs, *region.handles, *(f"^{c}" for c in controls)])
    node.attr["Tin"].list.type.extend(input_types(region))
    node.attr["N"].i = len(region.handles)
    outputs = [n.type for _, n in region.graph.outputs if n.kind is not OpKind.ASSIGN]
    node.attr["Tout"].list.type.extend(to_enum(t.dtype) for t in outputs)
    node.attr["region"].i = number
    node.attr["token"].i = token
    node.attr["output_shapes"].list.shape.extend(_shape(t.shape) for t in outputs)
    return node


def input_types(region: RegionGraph) -> list[int]:
    """TensorFlow types of the region's inputs, in order."""
    types = {n.attrs.key: to_enum(n.type.dtype) for n in region.graph.inputs() if isinstance(n.attrs, InputAttrs)}
    return [types[key] for key in region.input_keys]


def _shape(shape: Shape) -> TensorShapeProto:
    proto = TensorShapeProto()
    for dim in shape:
        proto.dim.add().size = dim if isinstance(dim, int) else -1
    return proto
