"""The report as a program gets it: a dict as report.json has it, that prints as one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tf_stitch.report.entries import StepEntry
from tf_stitch.report.verdict import Step, main_step


class LastReport(dict[str, Any]):
    """
    Args:
        document: report.json.
        line: what the program would say if it ended now.
    """

    def __init__(self, document: Mapping[str, Any], line: str) -> None:
        super().__init__(document)
        self._line = line

    def summary(self) -> str:
        """What was done and gained, in a line."""
        return self._line

    def __repr__(self) -> str:
        return self._line

    @property
    def step(self) -> Step | None:
        """The function of which calls took most: what one took before and takes now; None if too little was measured.
        """
        return main_step(self.steps)

    @property
    def steps(self) -> list[StepEntry]:
        """All stitched functions that the program called, with each measured turn, or why there are too few."""
        return [StepEntry(**step) for step in self["steps"]]

    @property
    def regions(self) -> list[dict[str, Any]]:
        """Each region: nodes, runs, fallbacks."""
        return list(self["regions"])

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """Each kernel and library call."""
        return list(self["kernels"])

    @property
    def fallbacks(self) -> list[dict[str, Any]]:
        """What went wrong: stage, where, reason, count."""
        return list(self["fallbacks"])

    @property
    def remarks(self) -> list[dict[str, Any]]:
        """What works, but not as well as it could: as `fallbacks`."""
        return list(self["remarks"])
