"""The table of ops whose sizes import does not believe."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.identities.check import OF_OPEN

TABLE = Path("tf_stitch/graph/shapes/doubted_sizes.json")
BELIEVED: Mapping[str, str] = {
    "Conv3D": "inference is right: where a filter is larger than the image and nothing is padded, oneDNN's kernel "
              "returns the image rather than a tensor without elements",
    "DynamicPartition": "its parts get names of their own in graph/shapes/branch_sizes.py",
    "SoftmaxCrossEntropyWithLogits": "logits and labels of one name may be broadcast to each other; whether they are "
                                     "equal, a region with them checks when it runs",
    "Switch": "the result of a side that is not taken is never read",
}  # fmt: skip
"""Ops of which sizes that differ were found, and why the table does not doubt them."""
KINDS = {"doubted": "unequal", "miscounted": "miscounted"}
"""What import reads -> the field of a verdict."""


def write(found: Sequence[Mapping[str, Any]], left_out: Mapping[str, str], not_reached: Sequence[str], command: str,
          version: str) -> None:
    """
    Args:
        found: verdicts.
        left_out: ops that are not called, and why.
        not_reached: ops for which there was no time. What the table says of them stays.
    """
    earlier = json.loads(TABLE.read_text())
    found = sorted(found, key=lambda verdict: str(verdict["op"]))
    doubts = {kind: {op: why for op, why in earlier[kind].items() if op in not_reached}
                    | {v["op"]: v[field] for v in found if v[field] and v["op"] not in BELIEVED}
              for kind, field in KINDS.items()}  # fmt: skip
    whys = [(op, why) for of_kind in doubts.values() for op, why in of_kind.items()]
    always = {op for op, why in whys if not why.endswith(OF_OPEN)}
    table = {
        "command": command, "date": f"{dt.date.today()}", "tensorflow": version,
        "counts": dict(sorted(Counter(v["status"] for v in found).items())),
        "left out": dict(sorted(Counter(left_out.values()).items())),
        **{kind: dict(sorted(doubts[kind].items())) for kind in KINDS},
        "of open integers": sorted({op for op, _ in whys} - always),
        "believed": dict(BELIEVED),
        "not run": {v["op"]: v["why_not"] for v in found if not v["ran"]},
        "not reached": sorted(not_reached),
    }  # fmt: skip
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
