"""Runs a draft of the converted model in this process: learns with which shapes regions run, and which are slower than
the nodes that they replace."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tf_stitch.errors import ConvertError
from tf_stitch.jit.build_key import Key
from tf_stitch.jit.region_builder import CPU_ORDINAL
from tf_stitch.jit.shape_family import Shapes
from tf_stitch.native.bindings import DeviceMemory, OpLibrary, Verdict
from tf_stitch.native.fallback_call import FallbackCall

_FIRST = 1 << 40
"""Numbers of regions of drafts: of no other region in the process."""
_numbers = itertools.count(_FIRST, 1 << 20)


@dataclass
class Recorder:
    """Answers the native op for the regions of one draft, whose numbers begin with `first`.

    Args:
        fallbacks: each region's fallback subgraph, a serialized FunctionDef.
        words: (region, shapes) -> an executable for the native op; others run their own nodes.

    Attributes:
        seen: the shapes that each region ran with.
        verdicts: (region, shapes) -> what timing both forms has led to.
    """

    fallbacks: Sequence[bytes]
    words: Mapping[tuple[int, Shapes], Sequence[int]] = field(default_factory=dict)
    first: int = field(default_factory=lambda: next(_numbers))
    seen: dict[int, list[Shapes]] = field(default_factory=dict)
    verdicts: dict[tuple[int, Shapes], Verdict] = field(default_factory=dict)

    def connect(self, library: OpLibrary) -> None:
        """From now on the op asks this one."""
        library.set_callbacks(self._build, self._fallback_subgraph, self._fallback, self)

    def _build(self, number: int, device: int, key: tuple[int, ...], memory: DeviceMemory) -> Sequence[int] | None:
        region, shapes = number - self.first, Key.parse(key).shapes
        self.seen.setdefault(region, [])
        if shapes not in self.seen[region]:
            self.seen[region].append(shapes)
        return self.words.get((region, shapes)) if device == CPU_ORDINAL else None

    def _fallback_subgraph(self, number: int, reason: str) -> bytes | None:
        return self.fallbacks[number - self.first]

    def _fallback(self, number: int, call: FallbackCall) -> None:
        raise ConvertError(f"a region's own nodes cannot run in its place: {call.reason}")

    def recall(self, number: int, device: int, key: tuple[int, ...]) -> Verdict | None:
        """See native.bindings.Verdicts."""
        return self.verdicts.get((number - self.first, Key.parse(key).shapes))

    def settle(self, number: int, device: int, key: tuple[int, ...], measured: Verdict, call: int) -> Verdict:
        """See native.bindings.Verdicts. Regions go on as they are: others are measured beside them."""
        self.verdicts[number - self.first, Key.parse(key).shapes] = measured
        return measured

    def not_timed(self, number: int, reason: str) -> None:
        """See native.bindings.Verdicts."""
