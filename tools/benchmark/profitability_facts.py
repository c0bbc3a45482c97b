"""Whether regions are slower than what they replaced, from a report of tf_stitch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DECIDED_SECONDS = 4.0
"""Of calls, after which the profitability check has decided if these were enough."""


def profitability_facts(report: Mapping[str, Any]) -> dict[str, Any]:
    """What the profitability check found in a run.

    Returns:
        "regions": how many ran; "timed": how many of them were timed against TensorFlow's ops, "gave_way": for some
        sizes at least, they run TensorFlow's ops since; "largest_ratio": of the time of those that run their kernels to
        that of TensorFlow's ops, None if there are none.
    """
    ran = {region["id"] for region in report["regions"] if region["runs"] or region["preferred_fallback_runs"]}
    outcomes = report["profitability"]
    kept = [entry for entry in outcomes if entry["chosen"] == "stitched"]
    return {"regions": len(ran), "timed": len({entry["region"] for entry in outcomes}),
            "gave_way": len({entry["region"] for entry in outcomes if entry["chosen"] == "fallback"}),
            "largest_ratio": max((entry["stitched_us"] / entry["fallback_us"] for entry in kept), default=None)}


def profitability_cell(facts: Mapping[str, Any]) -> str:
    """The facts for a table."""
    ratio = "" if facts["largest_ratio"] is None else f", at most {facts['largest_ratio']:.2f}"
    return f"{facts['timed']} of {facts['regions']}, {facts['gave_way']} gave way{ratio}"
