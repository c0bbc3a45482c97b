"""Attentions and their gradients by cuDNN's fused kernels (native/cuda/cudnn_attention.cc)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tf_stitch.device.library_numbers import LibraryNumbers
from tf_stitch.device.profile import DeviceProfile
from tf_stitch.ir import attention_reference as reference
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import AttentionAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.strided_view import Strides, path_to, view_strides
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.libraries.call import BoundCall, FusedNodes, Library, LibraryCall
from tf_stitch.wire_format import MOST_BYTES, MOST_INT32, Choice, Flag, Number, Numbers, Record

TYPES = {DType.BF16: 14, DType.F16: 19}
"""Element types of attentions, as tensorflow.DataType numbers them."""
MOST_COLUMNS, COLUMNS = 128, 8
"""Of a head, and what their number is a multiple of: also elements of 16 bytes, at which rows have to begin."""


class AttentionPass(IntEnum):
    """An attention, or its gradients."""

    FORWARD = 0
    GRADIENT = 1


RESULTS = {AttentionPass.FORWARD: (OpKind.ATTENTION, OpKind.ATTENTION_LOG_SUM),
           AttentionPass.GRADIENT: (OpKind.ATTENTION_QUERY_GRAD, OpKind.ATTENTION_KEY_GRAD,
                                    OpKind.ATTENTION_VALUE_GRAD)}
"""What one call can give."""
_TILE = 128
"""Queries, and keys, of a tile, by whose number times are predicted."""
_PASSES = {kind: pass_ for pass_, kinds in RESULTS.items() for kind in kinds}
_REFERENCES: dict[OpKind, Callable[..., NDArray[Any]]] = {
    OpKind.ATTENTION: reference.attended, OpKind.ATTENTION_QUERY_GRAD: reference.query_grad,
    OpKind.ATTENTION_KEY_GRAD: reference.key_grad, OpKind.ATTENTION_VALUE_GRAD: reference.value_grad}

WORDS = Record("AttentionSpec", """\
softmax(scale q k^T) v of queries [batch, heads, queries, columns], keys and values [batch, heads / shared, keys,
columns]; or the gradients of these three. Arguments are queries, keys, values, and for gradients the result, its
gradient and the log sums; then those of the results that are wanted: the result and log sums (float32 [batch, heads,
queries]: of each query the logarithm of the sum of its scores' exponentials), or gradients of queries, keys, values.
All matrices have a layout, also results that are not wanted: elements before the first, and from one batch, head and
row to the next.""", (
    Choice("pass", "", AttentionPass), Number("type", "tensorflow::DataType", 1, 1000, "int"),
    Number("batch", "", 1, MOST_INT32), Number("heads", "", 1, MOST_INT32),
    Number("shared", "neighbouring heads that share keys and values; of gradients 1", 1, MOST_INT32),
    *(Number(name, "", 1, MOST_INT32) for name in ("queries", "keys", "columns")),
    Number("scale", "the bits of a float", 0, (1 << 32) - 1), Flag("causal", "query i sees keys 0 to i"),
    Number("results", "that are wanted, as bits", 1, 7, "unsigned"),
    Numbers("layouts", "", 0, MOST_BYTES)), ordered=True)


@dataclass(frozen=True)
class Layout:
    """How matrices [batch, heads, rows, columns] lie in memory, in elements; columns are neighbours."""

    offset: int
    batch: int
    head: int
    row: int

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        return self.offset, self.batch, self.head, self.row


def _packed(heads: int, rows: int, columns: int, rows_outside: bool) -> Layout:
    head, row = (columns, heads * columns) if rows_outside else (rows * columns, columns)
    return Layout(0, heads * rows * columns, head, row)


@dataclass(frozen=True)
class AttentionCall(LibraryCall):
    """As WORDS says.

    Attributes:
        shared: heads that share keys and values; of gradients 1.
        wanted: kinds of the results that are.
        layouts: of queries, keys, values, the result; of gradients of the result, of queries, keys and values.
    """

    record = WORDS

    kind: AttentionPass
    dtype: DType
    batch: int
    heads: int
    shared: int
    queries: int
    keys: int
    columns: int
    scale: float
    causal: bool
    wanted: tuple[OpKind, ...]
    layouts: tuple[Layout, ...]

    def _heads_and_rows(self) -> tuple[tuple[int, int], ...]:
        """Of each matrix."""
        q, k = (self.heads, self.queries), (self.heads // self.shared, self.keys)
        return (q, k, k, q) if self.kind is AttentionPass.FORWARD else (q, k, k, q, q, q, k, k)

    def _arguments(self) -> list[tuple[tuple[int, int], Layout | None]]:
        """Heads, rows and layout of each argument; None: of log sums."""
        matrices = list(zip(self._heads_and_rows(), self.layouts, strict=True))
        sums: tuple[tuple[int, int], Layout | None] = ((self.heads, self.queries), None)
        read, results = 3, [*matrices[3:], sums]
        given: list[tuple[tuple[int, int], Layout | None]] = [*matrices[:read]]
        if self.kind is AttentionPass.GRADIENT:
            given, results = [*matrices[:5], sums], [*matrices[5:]]
        return [*given, *(r for r, kind in zip(results, RESULTS[self.kind], strict=True) if kind in self.wanted)]

    @property
    def needs(self) -> str:
        return "fused_attention"

    def operand_bytes(self) -> list[int]:
        sums = 4 * self.batch * self.heads * self.queries
        return [sums if layout is None else self._elements(*matrices, layout) * self.dtype.size
                for matrices, layout in self._arguments()]

    def _elements(self, heads: int, rows: int, layout: Layout) -> int:
        """From the beginning of memory to the end of the last row."""
        steps = (self.batch - 1) * layout.batch + (heads - 1) * layout.head + (rows - 1) * layout.row
        return layout.offset + steps + self.columns

    def at_hand(self) -> AttentionCall:
        return self

    def too_large(self) -> str:
        largest = max(self.operand_bytes()) // self.dtype.size
        return "" if largest <= MOST_INT32 else f"{self} has a tensor of more elements than cuDNN's kernels count"

    def members(self) -> Mapping[str, Any]:
        names = "batch", "heads", "shared", "queries", "keys", "columns", "causal"
        sizes = {name: getattr(self, name) for name in names}
        results = sum(1 << i for i, kind in enumerate(RESULTS[self.kind]) if kind in self.wanted)
        return {"pass": self.kind, "type": TYPES[self.dtype], **sizes, "results": results,
                "scale": int(np.float32(self.scale).view(np.uint32)),
                "layouts": [n for layout in self.layouts for n in layout.numbers]}

    def reference(self, arguments: Sequence[NDArray[np.uint8]]) -> None:
        read = len(arguments) - len(self.wanted)
        found = [self._matrices(memory, *where) for memory, where in zip(arguments, self._arguments(), strict=True)]
        values = [x.astype(np.float32) for x in found[:read]]
        attrs = AttentionAttrs(self.scale, self.causal)
        wanted = [kind for kind in RESULTS[self.kind] if kind in self.wanted]
        for kind, out in zip(wanted, found[read:], strict=True):
            if kind is OpKind.ATTENTION_LOG_SUM:
                out[...] = reference.log_sum(attrs, *values[:2])
            else:
                out[...] = _REFERENCES[kind](attrs, *values)

    def _matrices(self, memory: NDArray[np.uint8], matrices: tuple[int, int], layout: Layout | None) -> NDArray[Any]:
        if layout is None:
            return memory.view(np.float32).reshape(self.batch, *matrices)
        steps = (layout.batch, layout.head, layout.row, 1)
        return as_strided(memory.view(self.dtype.numpy)[layout.offset:], (self.batch, *matrices, self.columns),
                          [n * self.dtype.size for n in steps])

    @property
    def domain(self) -> tuple[int, int]:
        return self.batch * self.heads * self.queries, self.columns

    def __str__(self) -> str:
        text = "an attention" if self.kind is AttentionPass.FORWARD else "gradients of an attention"
        by = f" by {self.shared}" if self.shared > 1 else ""
        text += f" {self.dtype.value} {self.batch}x{self.heads} heads{by} [{self.queries},{self.keys}]x{self.columns}"
        return text + (" causal" if self.causal else "")


@dataclass(frozen=True)
class OneAttention:
    """An attention and its log sums, or some of its gradients: nodes of the same operands."""

    nodes: tuple[Node, ...]

    @property
    def result(self) -> Node:
        return self.nodes[0]

    @property
    def added(self) -> tuple[Node, ...]:
        return ()


class AttentionLibrary(Library):
    """Attentions and their gradients."""

    name = "fused_attention"
    record = WORDS
    sources = ("cuda/cudnn_attention.cc", "cuda/attention_graph.cc", "cuda/cudnn_library.cc", "cuda/cudnn_handles.cc",
               "cuda/cudnn_plans.cc")

    def is_root(self, node: Node) -> bool:
        return node.category is Category.ATTENTION

    def extensions(self, root: Node, users: dict[Node, list[Node]], wanted: frozenset[Node]) -> Iterator[FusedNodes]:
        return iter(())  # what belongs together is taken out first (planning/attention_calls.py)

    def match(self, nodes: Sequence[Node]) -> OneAttention | None:
        return OneAttention(tuple(nodes)) if len({call_key(node) for node in nodes}) == 1 else None

    def reads(self, path: Sequence[Node]) -> bool:
        return _layout(path, path[0].operands[0]) is not None

    def bind(self, fused: OneAttention, stored: Collection[Node]) -> BoundCall:
        first = fused.nodes[0]
        kind, attrs = _PASSES[first.kind], first.attrs
        assert isinstance(attrs, AttentionAttrs)
        batch, heads, queries, columns = first.operands[0].type.dims
        _, key_heads, keys, _ = first.operands[1].type.dims
        q, k, v, *rest = first.operands if len(first.operands) > 2 else (*first.operands, first.operands[1])
        of_kind = {node.kind: node for node in fused.nodes}
        memory, layouts = list[Node](), list[Layout]()
        for operand in (q, k, v, *rest[:2]):
            at, layout = _operand(operand, stored)
            memory.append(at)
            layouts.append(layout)
        rows = {OpKind.ATTENTION: queries, OpKind.ATTENTION_QUERY_GRAD: queries}
        for result in RESULTS[kind]:
            if result is not OpKind.ATTENTION_LOG_SUM:
                node = of_kind.get(result)
                outside = node is not None and isinstance(node.attrs, AttentionAttrs) and node.attrs.rows_outside
                layouts.append(_packed(heads, rows.get(result, keys), columns, outside))
        wanted = tuple(result for result in RESULTS[kind] if result in of_kind)
        call = AttentionCall(kind, q.type.dtype, batch, heads, heads // key_heads, queries, keys, columns, attrs.scale,
                             attrs.causal, wanted, tuple(layouts))
        read = (*memory, *rest[2:])
        return BoundCall(call, fused.nodes, (*((x, Mode.READ) for x in read),
                                             *((of_kind[result], Mode.WRITE) for result in wanted)))

    def measured_us(self, root: Node, profile: DeviceProfile) -> float | None:
        attrs = root.attrs
        assert isinstance(attrs, AttentionAttrs)
        batch, heads, queries, columns = root.operands[0].type.dims
        return call_us(_PASSES[root.kind], batch * heads, queries, root.operands[1].type.dims[2], columns, attrs.causal,
                       profile.library_calls)


def call_key(node: Node) -> object:
    """Equal for nodes that one call computes."""
    attrs = node.attrs
    assert isinstance(attrs, AttentionAttrs)
    operands = node.operands[:2] if _PASSES[node.kind] is AttentionPass.FORWARD else node.operands
    return _PASSES[node.kind], operands, attrs.scale, attrs.causal


def call_us(kind: AttentionPass, matrices: int, queries: int, keys: int, columns: int, causal: bool,
            calls: LibraryNumbers) -> float:
    """Microseconds of a call.

    Args:
        matrices: of queries, as many as of keys.
    """
    rows, others = -(-queries // _TILE), -(-keys // _TILE)
    tiles = rows * (rows + 1) // 2 if causal else rows * others
    terms = matrices * tiles * _TILE * _TILE * columns
    if kind is AttentionPass.FORWARD:
        return calls.attention_us + calls.attention_term_us * terms
    elements = matrices * queries * columns
    return calls.attention_gradient_us + calls.attention_gradient_element_us * elements \
        + calls.attention_gradient_term_us * terms


def _layout(path: Sequence[Node], memory: Node) -> Layout | None:
    """How a view lies in memory, if a call can read it so: its rows of neighbours begin at multiples of 16 bytes."""
    found = view_strides(path, memory)
    if found is None or len(found.axes) != 4:
        return None
    return layout_of(found)


def layout_of(strides: Strides) -> Layout | None:
    """The layout of matrices with such strides, four axes; None if a call cannot read them so."""
    *others, column = strides.axes
    if column != 1 or any(n % COLUMNS or n < 0 for n in (strides.offset, *others)):
        return None
    return Layout(strides.offset, *others)


def _operand(node: Node, stored: Collection[Node]) -> tuple[Node, Layout]:
    """What lies in memory of an operand, and how."""
    path = path_to(node, stored.__contains__)
    memory = path[0].operands[0] if path else node
    layout = _layout(path, memory)
    assert layout is not None, "a view that no call can read has a kernel"
    return memory, layout


ATTENTION = AttentionLibrary()
