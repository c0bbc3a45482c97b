"""What the user lets tf_stitch take: TF_STITCH_ONLY, TF_STITCH_SKIP and TF_STITCH_FUEL, tf_stitch.exclude."""

from __future__ import annotations

import threading
from fnmatch import fnmatchcase

from tf_stitch.config import StitchConfig
from tf_stitch.graph.clustering.exclusion import EXCLUDED, is_excluded

SKIPPED = "skipped by TF_STITCH_SKIP"
NOT_NAMED = "not in TF_STITCH_ONLY"


class Controls:
    """Thread-safe: one of a process counts its regions."""

    def __init__(self, config: StitchConfig) -> None:
        self._only, self._skip = config.only, config.skip
        self._taken = 0
        self._lock = threading.Lock()
        self._regions = None if config.fuel is None else config.fuel.begun
        self.out_of_fuel = f"beyond the first {self._regions} regions (TF_STITCH_FUEL={config.fuel})"

    def why_not(self, node: str) -> str | None:
        """Why a node stays a TensorFlow op whatever it is, or None."""
        if is_excluded(node):
            return EXCLUDED
        if any(fnmatchcase(node, glob) for glob in self._skip):
            return SKIPPED
        if self._only and not any(fnmatchcase(node, glob) for glob in self._only):
            return NOT_NAMED
        return None

    def take(self, regions: int) -> int:
        """How many of this many regions may be stitched: the first ones. They use up fuel."""
        with self._lock:
            if self._regions is not None:
                regions = min(regions, self._regions - self._taken)
            self._taken += regions
            return regions
