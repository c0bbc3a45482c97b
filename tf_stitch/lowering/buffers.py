"""Names the parameters of a kernel while it is lowered."""

from __future__ import annotations

from typing import cast

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConstantAttrs
from tf_stitch.kernel_ir.nodes import Buffer, Mode
from tf_stitch.planning.pattern import Pattern


class BufferTable:
    """Buffers in order of first use. `arguments` tells which value each parameter is."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._read: dict[Node, str] = {}
        self._buffers: dict[str, Buffer] = {}
        self.arguments: list[tuple[Node, Mode]] = []

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(self._buffers.values())

    def size(self, name: str) -> int:
        """Elements of a buffer."""
        return self._buffers[name].size

    def dtype(self, name: str) -> DType:
        """The type in which a buffer's elements are stored."""
        return self._buffers[name].dtype

    def reading(self, node: Node) -> str:
        """The buffer a value from outside is read from."""
        if node not in self._read:
            self._read[node] = self._add("in", node, Mode.READ)
        return self._read[node]

    def writing(self, node: Node) -> str:
        """A new buffer that `node` is written to."""
        return self._add("out", node, Mode.WRITE)

    def scratch(self, dtype: DType, size: int) -> str:
        """A new buffer that blocks of this kernel hand values on by; its node stands for memory alone."""
        b = Builder()
        node = b.broadcast(b.constant(0, dtype), (size,))
        name = f"scratch{len(self._buffers)}"
        self._buffers[name] = Buffer(name, dtype, size, Mode.SCRATCH)
        self.arguments.append((node, Mode.WRITE))
        return name

    def constant(self, node: Node) -> str:
        """A table in the kernel itself."""
        if node not in self._read:
            name = f"table{len(self._buffers)}"
            values = tuple(cast(ConstantAttrs, node.attrs).value.reshape(-1).tolist())
            self._buffers[name] = Buffer(name, node.type.dtype, len(values), Mode.READ, values,
                                         note=self._pattern.name(node))
            self._read[node] = name
        return self._read[node]

    def _add(self, stem: str, node: Node, mode: Mode) -> str:
        name = f"{stem}{len(self._buffers)}"
        self._buffers[name] = Buffer(name, node.type.dtype, node.type.numel, mode, note=self._pattern.name(node))
        self.arguments.append((node, mode))
        return name
