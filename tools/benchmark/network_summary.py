"""The sections of pages about networks: all on record, each once, on each GPU."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from statistics import median

from tools.benchmark.markdown import table
from tools.benchmark.network_rows import STITCH, Comparison, geometric_mean, newest, read_csv, titles

GPUS = ("h200", "h100")
FEW = 5
"""A group of fewer networks has no row."""
BACKENDS = {"tensorflow": "TensorFlow", "xla": "XLA", STITCH: "tf_stitch", "inductor": "Inductor + graphs"}


def networks(gpu: str, beside: str = "xla") -> list[Comparison]:
    return newest(read_csv(f"networks_{gpu}.csv"), beside)


def speedups(found: Sequence[Comparison], over: str) -> dict[str, float]:
    """Title -> time of `over` divided by tf_stitch's, the least first."""
    known = titles()
    pairs = [(known[each.network], ratio) for each in found if (ratio := each.speedup(over))]
    return dict(sorted(pairs, key=lambda pair: pair[1]))


def first_calls(found: Sequence[Comparison]) -> dict[str, float]:
    """Title -> tf_stitch's first call divided by XLA's, the largest first."""
    known = titles()
    pairs = [(known[each.network], ratio) for each in found if (ratio := each.first_call_ratio("xla"))]
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def listed(ratios: dict[str, float]) -> str:
    return "; ".join(f"{title} ({ratio:.2f})" for title, ratio in ratios.items())


def short(title: str) -> str:
    """The network without its batch, mode and types."""
    return title.split(",")[0]


def readme() -> Iterator[str]:
    """The front page's paragraph: one H200."""
    found = networks("h200")
    xla, peer, first = (speedups(found, "xla"), speedups(networks("h200", "inductor"), "inductor"), first_calls(found))
    slower = {title: ratio for title, ratio in xla.items() if ratio < 1}
    behind = {title: ratio for title, ratio in peer.items() if ratio < 1}
    longer = {title: ratio for title, ratio in first.items() if ratio > 1}
    means = [geometric_mean([*ratios.values()]) for ratios in (xla, peer, first)]
    yield (f"- **{means[0]:.2f} times as fast as XLA** in geometric mean over all {len(xla)} train steps and "
           f"inferences that XLA ran (median {median(xla.values()):.2f}); slower in {len(slower)}: {listed(slower)}.")
    yield (f"- {means[1]:.2f} times as fast as PyTorch Inductor with CUDA graphs over the {len(peer)} that it ran; "
           f"slower in {len(behind)}: {listed(behind)}.")
    yield (f"- First calls take {means[2]:.2f} of XLA's time in geometric mean; they are longer in {len(longer)}: "
           f"{listed(longer)}.")
    yield f"- {_memory(found)}"
    plain = speedups(networks("h100", "tensorflow"), "tensorflow")
    least = next(iter(plain))
    yield (f"- On an H100, {geometric_mean([*plain.values()]):.1f} times as fast as TensorFlow without XLA over "
           f"{len(plain)} networks; least {listed({least: plain[least]})}.")


def summary() -> Iterator[str]:
    """The same as a table, for each GPU, over each backend, by mode."""
    rows = []
    for gpu, over in itertools.product(GPUS, ("tensorflow", "xla", "inductor")):
        found = networks(gpu, over)
        for mode in ("all", "train", "infer"):
            ratios = speedups([each for each in found if mode == "all" or f"_{mode}" in each.network], over)
            if len(ratios) >= FEW:
                rows.append([gpu.upper(), BACKENDS[over], mode, *_spread(ratios)])
    yield from table(("GPU", "over", "mode", "networks", "geometric mean", "median", "slower", "least", "most"), rows)
    for gpu in GPUS:
        first = first_calls(networks(gpu))
        longer = {title: ratio for title, ratio in first.items() if ratio > 1}
        late = [short(titles()[each.network]) for each in networks(gpu) if not each.milliseconds("xla")]
        yield ""
        yield (f"{gpu.upper()}: {_memory(networks(gpu))} First calls take {geometric_mean([*first.values()]):.2f} of "
               f"XLA's time over {len(first)} networks (median {median(first.values()):.2f}); longer than XLA's: "
               f"{listed(longer) or 'none'}. Without a time by XLA: {', '.join(late)}.")


def _memory(found: Sequence[Comparison]) -> str:
    peaks = [pair for each in found if (pair := each.peaks("xla"))]
    above = sum(ours > 1.02 * theirs for ours, theirs in peaks)
    return f"Peak memory is more than 2% above XLA's in {above} of {len(peaks)} networks."


def _spread(ratios: dict[str, float]) -> list[str]:
    """How many, the means, how many below 1, and the extremes of ratios in rising order."""
    values = [*ratios.values()]
    least, most = ({title: ratios[title]} for title in (next(iter(ratios)), next(reversed(ratios))))
    return [str(len(values)), f"{geometric_mean(values):.2f}", f"{median(values):.2f}",
            str(sum(ratio < 1 for ratio in values)), listed(least), listed(most)]  # fmt: skip


def all_networks(gpu: str) -> Iterator[str]:
    """A row for each network, the least over XLA first."""
    known = titles()
    found = sorted(networks(gpu), key=lambda each: each.speedup("xla") or float("inf"))
    rows = []
    for each in found:
        ratios = [each.speedup(over) for over in ("xla", "inductor")]
        rows.append([known[each.network], f"`{each.network}`", *(_milliseconds(each, b) for b in BACKENDS),
                     *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
                     " / ".join(each.rows.get(b, {}).get("first_call_s") or "-" for b in BACKENDS),
                     " / ".join(_peak(each, b) for b in BACKENDS), each.commit])  # fmt: skip
    yield from table(("network", "case", *BACKENDS.values(), "XLA / tf_stitch", "Inductor / tf_stitch",
                      "first call, s", "peak, MiB", "commit"), rows)  # fmt: skip


def _milliseconds(each: Comparison, backend: str) -> str:
    if each.milliseconds(backend) is None:
        return "none in time" if backend in each.rows else "-"
    row = each.rows[backend]
    return "{:.3g} ({:.3g} to {:.3g})".format(*(float(row[f"{name}_ms"]) for name in ("median", "least", "most")))


def _peak(each: Comparison, backend: str) -> str:
    row = each.rows.get(backend, {})
    return row.get("steady_peak_mib") or row.get("peak_mib") or "-"


def replicas() -> Iterator[str]:
    """Steps on one and two GPUs: each network's newest commit."""
    known: dict[str, dict[str, dict[str, str]]] = {}
    commits: dict[str, str] = {}
    for row in read_csv("replicas_h200.csv"):
        network = row["network"]
        if commits.get(network) != row["commit"]:
            commits[network], known[network] = row["commit"], {}
        if row["backend"] == STITCH:
            known[network][row["replicas"]] = row
    rows = [[network, commits[network], *("{median_ms} ({least_ms} to {most_ms})".format(**by[n]) for n in "12"),
             f"{float(by['2']['median_ms']) / float(by['1']['median_ms']):.2f}"] for network, by in known.items()]
    yield from table(("network", "commit", "one GPU, ms", "two GPUs, ms", "two / one"), rows)
