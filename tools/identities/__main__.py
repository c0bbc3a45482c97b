"""Which sizes does TensorFlow's inference call equal that are not? Runs every op; writes the table that import reads.

    python -m tools.identities                      all ops; writes tf_stitch/graph/shapes/doubted_sizes.json
    python -m tools.identities --ops=Conv2D,Pad     shows what is found about these
    python -m tools.identities --ops=Conv2D --details=/tmp/new.jsonl &&
    python -m tools.identities --from=benchmarks/raw/identities.jsonl.gz,/tmp/new.jsonl   an op anew, others as before
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import app, flags

from tools.benchmark.raw_rows import command_line
from tools.identities.calls import why_not
from tools.identities.campaign import verdicts
from tools.identities.registered import registered, version
from tools.identities.table import write

_OPS = flags.DEFINE_list("ops", [], "these alone; nothing is written")
_TRIES = flags.DEFINE_integer("tries", 200, "calls that are drawn for an op, at most")
_WANTED = flags.DEFINE_integer("wanted", 16, "calls of an op that run")
_SECONDS = flags.DEFINE_float("seconds", 0.4, "of the processor for an op, about")
_PART = flags.DEFINE_string("part", "0/1", "which of how many parts of the ops")
_DETAILS = flags.DEFINE_string("details", "", "file for a JSON line an op")
_FROM = flags.DEFINE_list("from", [], "write the table and its rows from these files of details, and run nothing")
RAW = Path("benchmarks/raw/identities.jsonl.gz")


def main(arguments: Sequence[str]) -> None:
    ops = registered()
    left_out = {name: reason for name, op in ops.items() if (reason := why_not(op))}
    names = _OPS.value or [name for name in ops if name not in left_out]
    if _FROM.value:
        _write(_read(_FROM.value), list(ops), left_out)
        return
    part, _, parts = _PART.value.partition("/")
    names = names[int(part)::int(parts)]
    found = []
    for verdict in verdicts(names, _TRIES.value, _WANTED.value, _SECONDS.value):
        found.append(verdict)
        if _OPS.value:
            print(verdict)
        if _DETAILS.value:
            with Path(_DETAILS.value).open("a") as file:
                file.write(json.dumps(verdict) + "\n")
    print(Counter(v["status"] for v in found), Counter(left_out.values()))
    if not _OPS.value and parts == "1":
        _write(found, ops, left_out)


def _read(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Verdicts of these files, compressed or not; of an op's the last."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
            found |= {verdict["op"]: verdict for verdict in map(json.loads, file)}
    return list(found.values())


def _write(found: Sequence[dict[str, Any]], ops: Sequence[str], left_out: dict[str, str]) -> None:
    reached = {v["op"] for v in found}
    not_reached = [name for name in ops if name not in left_out and name not in reached]
    RAW.write_bytes(gzip.compress("".join(json.dumps(v) + "\n" for v in found).encode(), mtime=0))
    write(found, left_out, not_reached, command_line(sys.argv), version())


if __name__ == "__main__":
    app.run(main)
