"""How many patterns a region may have, by TF_STITCH_FUEL."""

from __future__ import annotations

import threading

from tf_stitch.config import Fuel
from tf_stitch.planning.limited_patterns import fused
from tf_stitch.planning.stitch_plan import StitchPlan


class PatternFuel:
    """Counts the patterns of a process in the order in which its regions are built first. Regions of equal text share a
    build, and count once; for other sizes a region gets what it got for the first.

    While `in_order`, whoever asks for a limit holds `lock` until the region is built.
    """

    def __init__(self, fuel: Fuel | None) -> None:
        self.lock = threading.RLock()
        self._fuel = fuel
        self._left = 0 if fuel is None or fuel.patterns is None else fuel.patterns
        self._limits: dict[str, int] = {}

    @property
    def in_order(self) -> bool:
        """Whether patterns are counted across regions."""
        return self._fuel is not None and self._fuel.regions is None

    def limit(self, region: int, text: str) -> int | None:
        """How many patterns a region may have, None for all.

        Args:
            region: its number.
            text: of its graph.
        """
        if self._fuel is None:
            return None
        return self._limits.get(text, self._left) if self.in_order else self._fuel.patterns_of(region)

    def spend(self, text: str, plan: StitchPlan) -> None:
        """Takes note of what a region has got."""
        if self.in_order and text not in self._limits:
            self._limits[text] = self._left
            self._left -= sum(map(fused, plan.patterns))
