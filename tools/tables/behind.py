"""What holds back the models that XLA runs faster: where a step's time goes with either, from the profiles."""

from __future__ import annotations

from tools.tables import results as r
from tools.tables.results import Results, Row
from tools.tables.sections import Section

PARTS = {"memory": "memory-intensive kernels", "library": "library calls", "copies": "copies"}
BETWEEN = "time between them"
"""A step's time beyond what its kernels take: the host, launches, and kernels' profiles being off."""


def behind_xla(ours: Results) -> Section:
    """A line for each row of a GPU that XLA runs faster."""
    section = Section(f"What holds back models below XLA ({ours.label})", "Microseconds a step, XLA and tf_stitch.",
                      ["model", "mode", "dtype", "XLA / tf_stitch", *PARTS.values(), BETWEEN, "mostly",
                       "longest memory-intensive kernel", "longest library kernel"])  # fmt: skip
    for row in ours.rows:
        if {"xla_us", "stitch_us"} <= row.keys() and r.speedup(row, "xla") < 1:
            section.add(row["model"], row["mode"], row["dtype"], r.speedup(row, "xla"),
                        *(lambda row=row, part=part: _both(row, part) for part in (*PARTS.values(), BETWEEN)),
                        lambda row=row: _mostly(row), lambda row=row: _longest(row, "top_kernels"),
                        lambda row=row: _longest(row, "library_kernels"))  # fmt: skip
    return section


def _parts(row: Row, backend: str) -> dict[str, float]:
    """Microseconds of each part of a step."""
    found = {words: r.time_us(row, backend, part) for part, words in PARTS.items()}
    return {**found, BETWEEN: max(float(r.field(row, "us", backend)) - sum(found.values()), 0.0)}


def _both(row: Row, part: str) -> str:
    return f"{_parts(row, 'xla')[part]:.0f}, {_parts(row, 'stitch')[part]:.0f}"


def _mostly(row: Row) -> str:
    """The part in which tf_stitch loses most, and how much."""
    theirs, mine = _parts(row, "xla"), _parts(row, "stitch")
    part = max(mine, key=lambda part: mine[part] - theirs[part])
    return f"{part}: {mine[part] - theirs[part]:+.0f} us"


def _longest(row: Row, listed: str) -> str:
    """The first of the kernels that the profile lists under this name."""
    kernels = r.field(row, listed, "stitch")
    if not kernels:
        return "-"
    name, count, us, _ = kernels[0]
    return f"{name[:60]}: {count:.0f} in {us:.0f} us"
