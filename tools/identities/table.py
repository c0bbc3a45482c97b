"""The table of ops whose names of sizes import does not believe."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TABLE = Path("tf_stitch/graph/shapes/doubted_sizes.json")


def write(found: Sequence[Mapping[str, Any]], left_out: Mapping[str, str], not_reached: Sequence[str], command: str,
          version: str) -> None:
    """
    Args:
        found: verdicts.
        left_out: ops that are not called, and why.
        not_reached: ops for which there was no time.
    """
    table = {
        "command": command, "date": f"{dt.date.today()}", "tensorflow": version,
        "counts": dict(sorted(Counter(v["status"] for v in found).items())),
        "left out": dict(sorted(Counter(left_out.values()).items())),
        "doubted": {v["op"]: v["unequal"] for v in sorted(found, key=lambda v: str(v["op"])) if v["unequal"]},
        "not run": {v["op"]: v["why_not"] for v in sorted(found, key=lambda v: str(v["op"])) if not v["ran"]},
        "not reached": sorted(not_reached),
    }  # fmt: skip
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
