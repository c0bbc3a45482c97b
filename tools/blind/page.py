"""The page of networks that nobody has chosen: how tf_stitch did on each of them the first time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tools.benchmark.markdown import table
from tools.benchmark.network_rows import geometric_mean

STITCH = "tf_stitch"
OTHERS = {"tensorflow": "TensorFlow", "xla": "XLA", "jax": "Keras on JAX", "jax_max": "Keras on JAX, most flags"}
FLOORS = (1.0, 0.95)
ABOUT = """Networks that `python -m tools.blind` draws by seeds: Keras Applications in random sizes, and layers composed
at random. Each was measured once; these are its first figures, which stay, whatever later commits make of it. A ratio
above 1 says that tf_stitch is faster. The device's times are those in which it runs a kernel or a copy in a call."""

Rows = Mapping[str, Mapping[str, str]]
"""Backend -> row, of a network."""


def lines(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Of the rows on record, in Markdown."""
    by_seed: dict[str, dict[str, Mapping[str, str]]] = {}
    for row in rows:
        by_seed.setdefault(row["seed"], {})[row["backend"]] = row
    networks = [*by_seed.values()]
    yield from ("# Networks that nobody has chosen", "", ABOUT, "")
    machines = sorted({f"{row['gpu'] or 'no GPU'}, driver {row['driver'] or '-'}: {row['versions']}" for row in rows})
    yield from (f"{len(networks)} networks; {'; '.join(machines)}.", "")
    yield from _summary(networks)
    for backend, title in OTHERS.items():
        yield from _slower(networks, backend, title)
    yield ""
    yield from _differing(rows)
    yield from _all(networks)


def ratio_of(rows: Rows, backend: str, field: str) -> float | None:
    """The time of a backend divided by tf_stitch's; None where one has none."""
    theirs, ours = (_number(rows.get(name, {}).get(field, "")) for name in (backend, STITCH))
    return theirs / ours if theirs and ours else None


def _summary(networks: Sequence[Rows]) -> Iterator[str]:
    found = []
    for backend, title in OTHERS.items():
        for field, what in (("median_ms", "by the clock"), ("device_ms", "on the device"), ("peak_mib", "peak memory"),
                            ("first_call_s", "first call")):  # fmt: skip
            ratios = [ratio for rows in networks if (ratio := ratio_of(rows, backend, field))]
            if ratios:
                found.append([title, what, str(len(ratios)), f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}",
                              *(str(sum(ratio < floor for ratio in ratios)) for floor in FLOORS)])
    yield from table(("over", "", "networks", "geometric mean", "least", *(f"below {floor}" for floor in FLOORS)),
                     found)


def _slower(networks: Sequence[Rows], backend: str, title: str) -> Iterator[str]:
    """Networks that another backend runs faster, the worst first, with the ratio on the device and our busy share."""
    ratios = [(ratio, rows) for rows in networks if (ratio := ratio_of(rows, backend, "median_ms"))]
    named = [f"- {_name(rows)}: {ratio:.2f}; on the device "
             f"{_ratio(ratio_of(rows, backend, 'device_ms'))}, busy {rows[STITCH]['busy'] or '-'}"
             for ratio, rows in sorted(ratios, key=lambda pair: pair[0]) if ratio < 1]  # fmt: skip
    if named:
        yield from ("", f"Slower than {title}:", "", *named)


def _differing(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    judged = [row for row in rows if row["losses"] and not row["losses"].startswith("random")]
    apart = [row for row in judged if row["losses"].startswith("DIFFER")]
    named = "; ".join(f"{row['seed']} under {row['backend']} ({row['losses'].partition(': ')[2]})" for row in apart)
    yield (f"Losses of the first 20 steps, or the first result, agree with TensorFlow's in {len(judged) - len(apart)} "
           f"of {len(judged)} rows; else: {named or 'none'}.")
    yield ""


def _all(networks: Sequence[Rows]) -> Iterator[str]:
    """A row for each network, in the order of seeds."""
    backends = [backend for backend in OTHERS if any(backend in rows for rows in networks)]
    found = []
    for rows in networks:
        ours = rows.get(STITCH, {})
        ratios = (ratio_of(rows, backend, "median_ms") for backend in backends)
        found.append([_any(rows)["seed"], _any(rows)["network"], *(_time(rows, b) for b in backends),
                      _time(rows, STITCH), *map(_ratio, ratios),
                      ours.get("device_ms") or "-", ours.get("busy") or "-",
                      " / ".join(rows.get(b, {}).get("first_call_s") or "-" for b in (*backends, STITCH)),
                      " / ".join(rows.get(b, {}).get("peak_mib") or "-" for b in (*backends, STITCH)),
                      _any(rows)["commit"]])  # fmt: skip
    titles = [OTHERS[b] for b in backends]
    yield from ("## Each network", "")
    yield from table(("seed", "network", *(f"{title}, ms" for title in titles), "tf_stitch, ms",
                      *(f"{title} / tf_stitch" for title in titles), "device, ms", "busy", "first call, s",
                      "peak, MiB", "commit"), found)  # fmt: skip


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _time(rows: Rows, backend: str) -> str:
    row = rows.get(backend)
    if row is None:
        return "-"
    return row["median_ms"] if _number(row["median_ms"]) else "none"


def _any(rows: Rows) -> Mapping[str, str]:
    return next(iter(rows.values()))


def _name(rows: Rows) -> str:
    return f"{_any(rows)['seed']} ({_any(rows)['network']})"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
