"""Sums of many tensors side by side are cut into buckets, each summed as soon as its tensors are there: gradients of
the last layers while those of the first are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tensorflow import make_tensor_proto
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.dtypes import as_dtype

from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.graph.graph_edit import GraphEdit
from tf_stitch.graph.origin import set_origin
from tf_stitch.graph.passes.all_reduces import ALL_REDUCE
from tf_stitch.graph.state import GraphState

BUCKET_BYTES = 25 << 20
"""Of a bucket, at least, but for the last one. Larger ones begin later; smaller ones cost more calls. PyTorch's
DistributedDataParallel has the same; other sizes were not measured."""


@dataclass(frozen=True)
class _Pack:
    """A sum of tensors that are concatenated before it, and split as they were behind it."""

    concat: NodeDef
    total: NodeDef
    split: NodeDef
    sizes: tuple[int, ...]

    @property
    def buckets(self) -> list[range]:
        """Which tensors are in each, in the order in which they are packed: TensorFlow has the last layers first."""
        item = as_dtype(self.total.attr["T"].type).size
        found, begin, size = [], 0, 0
        for i, elements in enumerate(self.sizes):
            size += elements * item
            if size >= BUCKET_BYTES:
                found.append(range(begin, i + 1))
                begin, size = i + 1, 0
        return [*found, range(begin, len(self.sizes))] if begin < len(self.sizes) else found


def cut_into_buckets(state: GraphState) -> GraphState:
    """The graph with a concatenation, a StitchAllReduce and a split for each bucket in the place of a large sum's, the
    sums of a device one behind the other. All members of a sum are cut alike, or none is."""
    edit = GraphEdit(state)
    for pack in _alike(edit):
        if len(pack.buckets) > 1:
            _cut(edit, pack)
    return edit.applied() if edit.gone else state


def _alike(edit: GraphEdit) -> Iterator[_Pack]:
    """Packs, if all sums of the group that may meet them are the same. Those that meet are of one shape."""
    sums = [node for node in edit.order if node.op == ALL_REDUCE]
    unsure = {node.attr["group"].s for node in sums if _shape(edit, f"{node.name}:0") is None}
    found: dict[tuple[bytes, tuple[int, ...] | None], list[_Pack | None]] = {}
    for node in sums:
        found.setdefault((node.attr["group"].s, _shape(edit, f"{node.name}:0")), []).append(_pack(edit, node))
    for (group, _), packs in found.items():
        whole = [pack for pack in packs if pack is not None]
        if group not in unsure and len(whole) == len(packs) and len({pack.sizes for pack in whole}) == 1:
            yield from whole


def _shape(edit: GraphEdit, tensor: str) -> tuple[int, ...] | None:
    """Of a tensor; None if it is not known."""
    name, _, output = tensor.rpartition(":")
    _, shape = edit.types(name)[int(output)]
    return None if shape is None or -1 in shape else tuple(shape)


def _pack(edit: GraphEdit, total: NodeDef) -> _Pack | None:
    concat = edit.defs[producer_of(total.input[0])]
    readers = [node for node in edit.users.get(total.name, []) if canonical_tensor(f"{total.name}:0") in _data(node)]
    if concat.op != "ConcatV2" or edit.users[concat.name] != [total] or [n.op for n in readers] != ["SplitV"]:
        return None
    [split], statics = readers, edit.state.imported.statics
    *parts, axis = _data(concat)
    _, sizes, split_axis = _data(split)
    same = [(int(size),) for size in statics.get(sizes, ())]
    if edit.defs[producer_of(sizes)].op != "Const" or any(statics.get(a) != 0 for a in (axis, split_axis)) \
            or [_shape(edit, part) for part in parts] != same \
            or not edit.state.preserved.isdisjoint((concat.name, total.name, split.name)):
        return None
    return _Pack(concat, total, split, tuple(size for size, in same))


def _data(node: NodeDef) -> list[str]:
    return [canonical_tensor(name) for name in node.input if not name.startswith("^")]


def _waits(node: NodeDef) -> list[str]:
    return [name for name in node.input if name.startswith("^")]


def _cut(edit: GraphEdit, pack: _Pack) -> None:
    before = _waits(pack.total)
    for number, bucket in enumerate(pack.buckets):
        total = _sum(edit, pack, number, bucket, before)
        _split(edit, pack, number, bucket, total)
        before = [f"^{total}"]
    last = f"/tfs_bucket_{len(pack.buckets) - 1}"
    edit.gone |= {pack.concat.name, pack.total.name, pack.split.name}
    edit.renamed |= {f"^{node.name}": f"^{pack.total.name}{last}" for node in (pack.total, pack.split)}


def _sum(edit: GraphEdit, pack: _Pack, number: int, bucket: range, before: Sequence[str]) -> str:
    """The name of the sum of a bucket."""
    parts, axis = _data(pack.concat)[bucket.start:bucket.stop], _data(pack.concat)[-1]
    shape = (sum(pack.sizes[i] for i in bucket),)
    [tensor] = parts if len(parts) == 1 else [""]
    if not tensor:
        concat = _copy(edit, pack.concat, number, [*parts, axis, *_waits(pack.concat)], [shape])
        concat.attr["N"].i = len(parts)
        tensor = concat.name
    total = _copy(edit, pack.total, number, [tensor, _data(pack.total)[1], *before], [shape])
    total.attr["bucket"].i = number
    return str(total.name)


def _split(edit: GraphEdit, pack: _Pack, number: int, bucket: range, total: str) -> None:
    if len(bucket) == 1:
        edit.renamed[f"{pack.split.name}:{bucket.start}"] = f"{total}:0"
        return
    sizes = [pack.sizes[i] for i in bucket]
    known = edit.defs[producer_of(pack.split.input[1])]
    counts = _copy(edit, known, number, list(known.input), [(len(sizes),)], f"{pack.split.name}/tfs_sizes_{number}")
    dtype = as_dtype(known.attr["dtype"].type).as_numpy_dtype
    counts.attr["value"].tensor.CopyFrom(make_tensor_proto(np.array(sizes, dtype)))
    inputs = [total, counts.name, _data(pack.split)[2], *_waits(pack.split)]
    split = _copy(edit, pack.split, number, inputs, [(size,) for size in sizes])
    split.attr["num_split"].i = len(sizes)
    edit.renamed |= {f"{pack.split.name}:{i}": f"{split.name}:{i - bucket.start}" for i in bucket}


def _copy(edit: GraphEdit, node: NodeDef, number: int, inputs: Sequence[str], shapes: Sequence[tuple[int, ...]],
          name: str = "") -> NodeDef:
    """A node like another with other inputs, and results of other shapes."""
    made = NodeDef()
    made.CopyFrom(node)
    made.name = edit.free_name(name or f"{node.name}/tfs_bucket_{number}")
    made.input[:] = inputs
    made.attr.pop("_output_shapes", None)
    set_origin(made, [node])
    edit.new.append(made)
    edit.new_types[made.name] = [(edit.types(node.name)[0][0], shape) for shape in shapes]
    return made
