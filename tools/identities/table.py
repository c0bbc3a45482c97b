"""The table of ops whose sizes import does not believe."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.identities.check import NOT_RUN, OF_KNOWN, OF_OPEN
from tools.identities.page import PAGE, UNSEEN, page

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
OF_PAIRS: Mapping[str, str] = dict.fromkeys(
    ("ResizeBicubicGrad", "ResizeBilinearGrad"),
    "names are believed where the gradient has the image's batch and channels, numbers always; no kernel checks that")
"""Ops of which inference takes the first and last sizes of two operands for equal."""
KINDS = {"doubted": "unequal", "miscounted": "miscounted"}
"""What import reads -> the field of a verdict."""
_NOT_RUN = {"Could not find device for node": "no kernel on a CPU for types that numpy has",
            "is not available in GraphDef version": "withdrawn from TensorFlow",
            "ends the process": "ends the process with what is drawn",
            "an attribute of type": "attributes that are not drawn",
            "types that numpy lacks": "attributes that are not drawn"}
"""Part of what an op said -> why it has not run; others refuse all inputs that are drawn."""
REFUSES = "refuses what is drawn: its inputs depend on each other, or are strings of a format"


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
    believed = {"doubted": BELIEVED, "miscounted": {**BELIEVED, **OF_PAIRS}}
    doubts = {kind: {op: why for op, why in earlier[kind].items() if op in not_reached}
                    | {v["op"]: v[field] for v in found if v[field] and v["op"] not in believed[kind]}
              for kind, field in KINDS.items()}  # fmt: skip
    doubts["doubted"] |= {v["op"]: UNSEEN for v in found if v["status"] == NOT_RUN}
    whys = [(op, why) for of_kind in doubts.values() for op, why in of_kind.items()]
    always = {op for op, why in whys if not why.endswith(OF_OPEN)}
    table = {
        "command": command, "date": f"{dt.date.today()}", "tensorflow": version,
        "counts": dict(sorted(Counter(v["status"] for v in found).items())),
        "left out": dict(sorted(Counter(left_out.values()).items())),
        **{kind: dict(sorted(doubts[kind].items())) for kind in KINDS},
        "of open integers": sorted({op for op, _ in whys} - always),
        "of known sizes": sorted(op for op, why in doubts["miscounted"].items() if why.endswith(OF_KNOWN)),
        "believed": dict(BELIEVED),
        "of pairs": dict(OF_PAIRS),
        "not run": _by_reason({v["op"]: why_not_run(v["why_not"]) for v in found if not v["ran"]}),
        "not reached": sorted(not_reached),
    }  # fmt: skip
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
    PAGE.write_text(page(table))


def why_not_run(said: str) -> str:
    """Why no call of an op ran, from what it said last."""
    return next((why for part, why in _NOT_RUN.items() if part in said), REFUSES)


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for op, why in sorted(reasons.items(), key=lambda item: (item[1], item[0])):
        found.setdefault(why, []).append(op)
    return found
