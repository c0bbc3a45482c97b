"""What campaigns found, as it is committed: JSON, and a table beside it. A campaign replaces what the file has of its
generator and device."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.fuzz.reasons import REASONS

KINDS = ("same", "rounding", "value", "raises", "silent", "type", "crash", "hang", "known", "no program")


def write_summary(path: Path, outcomes: Sequence[Mapping[str, Any]], device: str, command: str) -> None:
    """Counts by mode, with the seeds; and every outcome that is no pass."""
    document = json.loads(path.read_text()) if path.exists() else {"what": WHAT, "rows": [], "failures": []}
    for generator in sorted({o["generator"] for o in outcomes}):
        own = [o for o in outcomes if o["generator"] == generator]
        rows = [_row(generator, device, mode, [o for o in own if o["mode"] == mode], command)
                for mode in sorted({o["mode"] for o in own})]  # fmt: skip
        for part, new in (("rows", rows), ("failures", _failures(own, device))):
            document[part] = [r for r in document[part] if (r["generator"], r["device"]) != (generator, device)] + new
    path.write_text(json.dumps(document, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(document))


WHAT = "Random programs, plain and stitched"


def _row(generator: str, device: str, mode: str, outcomes: Sequence[Mapping[str, Any]], command: str) -> dict[str, Any]:
    counts = Counter(o["outcome"] for o in outcomes)
    return {"generator": generator, "device": device, "mode": mode, "programs": len(outcomes),
            "seeds": seed_ranges([o["seed"] for o in outcomes]), "regions": sum(o.get("regions", 0) for o in outcomes),
            "with_fallback": sum(bool(o.get("fallbacks")) for o in outcomes),
            **{kind: counts[kind] for kind in KINDS}, "command": command}  # fmt: skip


def _failures(outcomes: Sequence[Mapping[str, Any]], device: str) -> list[dict[str, Any]]:
    return [{"generator": o["generator"], "device": device, "seed": o["seed"], "mode": o["mode"],
             "outcome": o["outcome"], "message": o.get("message", "")}
            for o in outcomes if o["outcome"] not in ("same", "rounding", "no program")]  # fmt: skip


def reason_of(failure: Mapping[str, Any]) -> str:
    """Why a program differs, "" if that is not known: a result that may be wrong."""
    return REASONS.get((failure["generator"], failure["device"], failure["seed"]), "")


def seed_ranges(seeds: Sequence[int]) -> str:
    """As 0:100, 600:700, without the ends."""
    ranges: list[list[int]] = []
    for seed in sorted(seeds):
        if ranges and ranges[-1][1] == seed:
            ranges[-1][1] += 1
        else:
            ranges.append([seed, seed + 1])
    return ", ".join(f"{first}:{end}" for first, end in ranges)


def markdown(document: Mapping[str, Any]) -> str:
    """The table, the commands, the seeds of each row, and failures."""
    rows, heads = document["rows"], ("generator", "device", "mode", "programs", "regions", "with_fallback", *KINDS)
    lines = [f"# {document['what']}", "", "| " + " | ".join(head.replace("_", " ") for head in heads) + " |",
             "| --- | --- | --- |" + " ---: |" * (len(heads) - 3)]  # fmt: skip
    lines += ["| " + " | ".join(str(row[head]) for head in heads) + " |" for row in rows]
    lines += ["", *(f"- `{command}`" for command in dict.fromkeys(row["command"] for row in rows)), "",
              "Seeds by mode are in the JSON file."]  # fmt: skip
    if document["failures"]:
        lines += ["", "| generator | device | seed | mode | outcome | what it said | why |", "| --- " * 7 + "|"]
        lines += [f"| {f['generator']} | {f['device']} | {f['seed']} | {f['mode']} | {f['outcome']} | "
                  f"{' '.join(f['message'].replace('|', '/').split())[:160]} | {reason_of(f)} |"
                  for f in document["failures"]]
    return "\n".join(lines) + "\n"
