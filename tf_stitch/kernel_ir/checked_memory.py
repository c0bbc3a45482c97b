"""Memory of a block as the interpreter's threads see it: bounds, modes, races and what was never written are errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.cluster_memory import ClusterMemory

WORD = 4
"""Bytes of shared memory that races are looked for in."""
Writers: TypeAlias = dict[tuple[str, int], tuple[int, Any]]
"""Elements written since the last grid barrier, by whom and with what."""
Elements: TypeAlias = dict[tuple[str, int], Any]


class CheckedMemory:
    """Buffers and arrays of one block in one phase. `scratch` holds the elements behind a barrier, None for a grid
    barrier, else the first block of the group that passed one."""

    def __init__(self, program: k.Program, buffers: dict[str, NDArray[Any]], block: int, writers: Writers,
                 scratch: dict[tuple[str, int], int | None], group: int) -> None:
        self.buffers, self.block, self.writers = buffers, block, writers
        self.scratch, self.group = scratch, group
        self.modes = {b.name: b.mode for b in program.buffers}
        self.computed = {name: DType.of(held.dtype).compute.numpy for name, held in buffers.items()}
        self.threads = program.threads
        self.arrays: list[dict[str, dict[int, Any]]] = [{} for _ in range(self.threads)]
        self.sizes: dict[str, int] = {}
        self.epoch = 0  # barriers passed
        self.shared_writes: dict[tuple[str, int], tuple[int, int]] = {}  # word -> (thread, epoch)
        self.shared_reads: dict[tuple[str, int], tuple[set[int], int]] = {}  # word -> (threads, epoch)
        self.watched: dict[str, k.Array] = {}  # shared by threads, or in memory shared with other arrays
        self.holder: dict[tuple[str, int], tuple[str, int]] = {}  # word -> element that was written there last
        self.received = ClusterMemory(block)

    def _load(self, name: str, index: int) -> Any:
        self._check_load(name, index, index)
        self._check_written(name, (index,))
        return self.buffers[name][index].astype(self.computed[name])

    def load_all(self, name: str, indices: Sequence[int]) -> NDArray[Any]:
        self._check_load(name, min(indices), max(indices))
        self._check_written(name, indices)
        loaded: NDArray[Any] = self.buffers[name][np.asarray(indices)].astype(self.computed[name])
        return loaded

    def _check_load(self, name: str, first: int, last: int) -> None:
        elements = len(self.buffers[name])
        if first < 0 or last >= elements:
            raise VerifyError(f"{name}[{first if first < 0 else last}] is read; it has {elements} elements")
        if self.modes[name] is k.Mode.WRITE:
            raise VerifyError(f"{name} is read but declared as written only")

    def _check_written(self, name: str, indices: Sequence[int]) -> None:
        if self.modes[name] is k.Mode.SCRATCH:
            for index in indices:
                if self.scratch.get((name, index), -1) not in (None, self.group):
                    raise VerifyError(f"{name}[{index}] is read with no grid barrier after its writing")

    def _store(self, name: str, index: int, value: Any) -> None:
        self.store_all(name, (index,), (value,))

    def store_all(self, name: str, indices: Sequence[int], values: Sequence[Any] | NDArray[Any]) -> None:
        buffer, first, last = self.buffers[name], min(indices), max(indices)
        if first < 0 or last >= len(buffer):
            raise VerifyError(f"{name}[{first if first < 0 else last}] is written; it has {len(buffer)} elements")
        if self.modes[name] is k.Mode.READ:
            raise VerifyError(f"{name} is written but declared as read only")
        stored = np.asarray(values).astype(buffer.dtype)
        for index, value in zip(indices, stored, strict=True):
            block, before = self.writers.setdefault((name, index), (self.block, value))
            if block != self.block and before.tobytes() != value.tobytes():
                raise VerifyError(f"blocks {block} and {self.block} both write {name}[{index}]")
        buffer[np.asarray(indices)] = stored

    def elements(self, array: str, indices: Sequence[int]) -> NDArray[Any]:
        return np.asarray([self._element(array, at, 0) for at in indices])

    def set_elements(self, array: str, indices: Sequence[int], values: NDArray[Any]) -> None:
        for at, value in zip(indices, values, strict=True):
            self._set(array, at, value, 0)

    def _element(self, array: str, at: int, t: int) -> Any:
        self.received.read((array, at))
        if at not in self.arrays[t][array]:
            raise VerifyError(f"{array}[{at}] is read before it is written")
        self._check_race(array, at, t, "reads")
        return self.arrays[t][array][at]

    def _set(self, array: str, at: int, value: Any, t: int) -> None:
        if not 0 <= at < self.sizes[array]:
            raise VerifyError(f"{array}[{at}] is written; it has {self.sizes[array]} elements")
        self._check_race(array, at, t, "writes")
        for word in self._words(array, at):
            self.shared_writes[word] = t, self.epoch
            other, place = self.holder.get(word, (array, at))
            if other != array:  # its memory has a new owner
                self.arrays[t][other].pop(place, None)
            self.holder[word] = array, at
        self.arrays[t][array][at] = value

    def _words(self, array: str, at: int) -> list[tuple[str, int]]:
        """The words of shared memory that an element takes; none of an array that nobody else has."""
        declared = self.watched.get(array)
        if declared is None:
            return []
        if declared.offset is None:
            return [(array, at)]
        size = declared.nbytes // declared.size
        first = (declared.offset + at * size) // WORD
        return [("", first + i) for i in range(size // WORD)]

    def _check_race(self, array: str, at: int, t: int, what: str) -> None:
        for word in self._words(array, at):
            writer, epoch = self.shared_writes.get(word, (t, self.epoch))
            if writer != t and epoch == self.epoch:
                raise VerifyError(f"thread {t} {what} {array}[{at}], which thread {writer} wrote with no barrier "
                                  "between")
            readers, epoch = self.shared_reads.get(word, (set(), self.epoch))
            readers = readers if epoch == self.epoch else set()
            if what == "writes" and readers - {t}:
                raise VerifyError(f"thread {t} writes {array}[{at}], which another reads with no barrier between")
            if what == "reads":
                self.shared_reads[word] = readers | {t}, self.epoch
