"""The user's layers, by the names of ops: TensorFlow and Keras put ops into a folder for each name scope and layer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_NOT_LAYERS = re.compile(r"(StatefulPartitionedCall|PartitionedCall|ArithmeticOptimizer|ConstantFolding)(_\d+)?")
"""Folders in front, by TensorFlow itself."""
_GRADIENTS = re.compile(r"gradient_tape|gradients(_\d+)?")
_OWN_SHARE = 0.05
"""Of the ops below a folder, the most that a model has beside its layers."""
_MOST = 3

Path = tuple[str, ...]


class Layers:
    """The layers of a graph's ops. A folder with several folders and hardly any op of its own is a model, and the first
    one below it that is none is a layer.

    Args:
        names: of the ops.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._below: Counter[Path] = Counter()
        self._own: Counter[Path] = Counter()
        self._folders: dict[Path, set[str]] = {}
        for name in names:
            _, path = _split(name)
            self._own[path] += 1
            for depth in range(len(path) + 1):
                self._below[path[:depth]] += 1
                if depth < len(path):
                    self._folders.setdefault(path[:depth], set()).add(path[depth])

    def of(self, name: str) -> str:
        """An op's layer, without the models around it; "" for an op in no folder."""
        is_gradient, path = _split(name)
        depth = 1
        while depth < len(path) and self._is_model(path[:depth]):
            depth += 1
        layer = path[depth - 1] if path else ""
        return f"gradient of {layer}" if layer and is_gradient else layer

    def of_all(self, names: Sequence[str]) -> str:
        """The layers that most of these ops are of, in words."""
        counts = Counter(filter(None, map(self.of, names)))
        found = [layer for layer, _ in counts.most_common()]
        more = [f"{len(found) - _MOST} more"] if len(found) > _MOST else []
        return ", ".join(found[:_MOST] + more)

    def _is_model(self, path: Path) -> bool:
        return len(self._folders.get(path, ())) > 1 and self._own[path] <= _OWN_SHARE * self._below[path]


def _split(name: str) -> tuple[bool, Path]:
    """Whether an op is of a gradient, and its folders."""
    parts = name.split("/")[:-1]
    is_gradient = False
    while parts and (_NOT_LAYERS.fullmatch(parts[0]) or _GRADIENTS.fullmatch(parts[0])):
        is_gradient |= _GRADIENTS.fullmatch(parts.pop(0)) is not None
    return is_gradient, tuple(parts)
