"""A loop that runs as one op: what is known of it, and its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import BindError
from tf_stitch.frontend.tensorflow.dtypes import of_enum, to_enum
from tf_stitch.frontend.tensorflow.loop_shapes import ROWS, STITCH_WHILE
from tf_stitch.graph.clustering.region_graph import CHECKED, RegionGraph, input_key, output_key
from tf_stitch.graph.fallback.fallback_subgraph import FallbackSubgraph, has_matmuls
from tf_stitch.graph.graph_item import OutputType, as_shape
from tf_stitch.graph.loops.loop_roles import LoopRoles, Stack
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph, make_node
from tf_stitch.ir.loops import Unrollable
from tf_stitch.ir.op_attrs import LoopAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Shape, TensorType


@dataclass(frozen=True)
class HostPart:
    """What runs on the host of a loop whose body does not.

    Attributes:
        body: gives what numbers rows and what the condition reads, if that is decided here; None: there is no such
            thing.
        roles: of the body, and of the condition if that is decided here.
        inputs: tensors outside that are read in host memory; `input_types` are theirs.
        decides: the condition runs here.

    Where the body has it, its output CHECKED says whether the iteration's indices are inside.
    """

    body: RegionGraph | None
    roles: LoopRoles
    inputs: tuple[str, ...]
    input_types: tuple[OutputType, ...]
    decides: bool


@dataclass(frozen=True)
class NativeLoop:
    """A loop and the regions that it consists of.

    Attributes:
        name: of the node.
        frame: TensorFlow's name of the loop.
        inputs: tensors outside that the node reads; `input_types` are theirs.
        host: what the host has of a loop that is split.
        results: names of the Exits, as the node's results come; `result_types` are theirs, of a list as one tensor.
        controls: control inputs.
        nodes: all nodes of the loop -> op.
        subgraph: the loop's own nodes, from tensors "tfs_i<k>:0" to `subgraph_results`, serialized.
    """

    name: str
    frame: str
    device: str
    body: RegionGraph
    condition: RegionGraph
    roles: LoopRoles
    inputs: tuple[str, ...]
    input_types: tuple[OutputType, ...]
    results: tuple[str, ...]
    result_types: tuple[OutputType, ...]
    controls: tuple[str, ...]
    nodes: Mapping[str, str]
    subgraph: bytes
    subgraph_results: tuple[str, ...]
    host: HostPart | None = None

    @property
    def parts(self) -> dict[str, RegionGraph]:
        """The regions that are built, by the node's attribute with their number."""
        beside = {} if self.host is None or self.host.body is None else {"host": self.host.body}
        return {"condition": self.condition} | beside | {"body": self.body}

    @property
    def on_device(self) -> frozenset[str]:
        """The `parts` that run where the node is."""
        return frozenset({"body"} if self.host is not None and self.host.decides else {"body", "condition"})

    def __str__(self) -> str:
        """The roles; "host i0" is the first of the inputs for the host."""
        if self.host is None:
            return str(self.roles)
        lines = [f"host {line}" for line in str(self.host.roles).replace(" i", " host i").splitlines()]
        if self.host.body is not None and CHECKED in self.host.body.outputs:
            lines.append(f"host checks body.o{self.host.body.outputs[CHECKED]}")
        numbered = str(self.roles).replace("[body.i", "[host body.i").replace("rows of i", "rows of host i")
        return "\n".join([*lines, *numbered.splitlines()])

    @property
    def around(self) -> tuple[str, ...]:
        """Nodes of none of these."""
        regions = {member for part in self.parts.values() for member in part.members}
        return tuple(name for name in self.nodes if name not in regions)

    def region(self) -> RegionGraph:
        """The loop as a whole. Its graph has one LOOP for each result, and cannot be unrolled."""
        b = Builder()
        inputs = [b.input(input_key(i), *_typed(t, f"i{i}")) for i, t in enumerate(self.input_types)]
        outputs = [(output_key(i), make_node(OpKind.LOOP, inputs, LoopAttrs(
            _EndedByData(self.name), i, TensorType(*_typed(t, f"o{i}"))))) for i, t in enumerate(self.result_types)]
        return RegionGraph(TensorGraph(self.name, outputs), self.around, self.inputs, (),
                           {name: i for i, name in enumerate(self.results)})

    def fallback_subgraph(self) -> FallbackSubgraph:
        """The loop as TensorFlow runs it."""
        region = self.region()
        loop = RegionGraph(region.graph, (), region.inputs, (), region.outputs)
        return FallbackSubgraph(GraphDef.FromString(self.subgraph), loop, self.subgraph_results, frozenset(),
                                has_matmuls(self.body))


@dataclass(frozen=True)
class _EndedByData(Unrollable):
    """Cannot be unrolled."""

    name: str

    def unrolled(self, types: Sequence[TensorType]) -> TensorGraph:
        raise BindError(f"{self.name} runs as one op")


def while_node(loop: NativeLoop) -> NodeDef:
    """The node of a loop; the numbers of its regions are given by `number_regions`."""
    host = loop.host or HostPart(None, LoopRoles(), (), (), decides=False)
    node = NodeDef(name=loop.name, op=STITCH_WHILE, device=loop.device,
                   input=[*loop.inputs, *host.inputs, *loop.controls])
    node.attr["Tin"].list.type.extend(dtype for dtype, _ in loop.input_types)
    node.attr["Thost"].list.type.extend(dtype for dtype, _ in host.input_types)
    node.attr["Tout"].list.type.extend(dtype for dtype, _ in loop.result_types)
    node.attr["results"].list.type.extend(to_enum(n.type.dtype) for _, n in loop.body.graph.outputs)
    node.attr["roles"].list.i.extend(loop.roles.encode())
    node.attr["split"].b = loop.host is not None
    node.attr["condition_on_host"].b = host.decides
    node.attr["host_roles"].list.i.extend(host.roles.encode())
    results = () if host.body is None else host.body.graph.outputs
    node.attr["host_results"].list.type.extend(to_enum(n.type.dtype) for _, n in results)
    node.attr["host_check"].i = -1 if host.body is None else host.body.outputs.get(CHECKED, -1)
    first_count = 0 if loop.host is None else len(loop.inputs)
    rows = (role.rows if isinstance(role, Stack) else None for role in loop.roles.outputs)
    node.attr[ROWS].list.i.extend(-1 if count is None else first_count + count for count in rows)
    for _, dims in loop.result_types:
        shape = node.attr["output_shapes"].list.shape.add()
        for dim in dims or ():
            shape.dim.add().size = max(dim, -1)
    return node


def number_regions(graph_def: GraphDef, numbers: Mapping[str, Mapping[str, int]], token: int = 0) -> None:
    """Tells each StitchWhile, in place, by its name, the numbers of its regions, by the attributes that have them, and
    the token of the session whose they are."""
    for node in graph_def.node:
        if node.name in numbers:
            node.attr["token"].i = token
        for name, number in numbers.get(node.name, {}).items():
            node.attr[name].i = number


def _typed(output: OutputType, name: str) -> tuple[DType, Shape]:
    enum, dims = output
    dtype = of_enum(enum)
    assert dtype is not None
    return dtype, as_shape(dims or (), name)
