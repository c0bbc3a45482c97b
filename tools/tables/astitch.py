"""AStitch, Tables 2-6 and Figs. 11-16, with our figures beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from tf_stitch.device.profile import DeviceProfile, shipped_profile
from tools.tables import results as r
from tools.tables.results import NotMeasured, Results, Row
from tools.tables.sections import Cell, Chart, Section

Paper = Mapping[str, Mapping[str, Mapping[str, Any]]]
MODELS = ("crnn", "asr", "bert", "transformer", "dien")
TRAINED = ("bert", "transformer", "dien")
LEADING_SHARE = 0.8
"""Of the time of memory-intensive kernels, in Fig. 14."""


def sections(paper: Paper, ours: Sequence[Results]) -> list[Section]:
    made = [workloads(paper["table 2"], ours)]
    for results in ours:
        made += [kernels(paper["table 3"], results), ablation(paper["table 4"], results)]
    made += [counters(paper["table 5"]), barrier(paper["table 6"], shipped_profile("h200"))]
    for results in ours:
        made += [speed(paper["figure 11"], results), mixed_precision(results), breakdown(paper["figure 13"], results),
                 parallelism(paper["figure 14"], results), trend("15", "crnn", results), trend("16", "bert", results)]
    return made


def _not_measured(reason: str) -> Cell:
    raise NotMeasured(reason)


def workloads(paper: Mapping[str, Mapping[str, Any]], ours: Sequence[Results]) -> Section:
    section = Section("Table 2: workloads", "AStitch, section 6.1.",
                      ["model", "field", "train batch: paper", "infer batch: paper",
                       *(f"ours ({results.label})" for results in ours)])  # fmt: skip

    def sizes(results: Results, model: str) -> str:
        row = results.row(model)
        return f"{row['config']}: " + ", ".join(f"{key} {value}" for key, value in row["sizes"].items())

    for m, row in paper.items():
        section.add(m, row["field"], row["train"], row["infer"],
                    *(lambda m=m, results=results: sizes(results, m) for results in ours))  # fmt: skip
    return section


def kernels(paper: Mapping[str, Mapping[str, Any]], ours: Results) -> Section:
    title = f"Table 3: memory-intensive kernels and copies, inference ({ours.label})"
    section = Section(title, "AStitch, section 6.1.2.", [
        "model", "kernels, XLA: paper", "ours", "kernels, stitched: paper", "ours", "copies, XLA: paper", "ours",
        "copies, stitched: paper", "ours",
    ])  # fmt: skip
    for m, row in paper.items():
        cells: list[Any] = [m]
        for key, backend, kind in (("xla_memory", "xla", "memory"), ("memory", "stitch", "memory"),
                                   ("xla_copies", "xla", "copies"), ("copies", "stitch", "copies")):  # fmt: skip
            cells += [row[key], lambda m=m, b=backend, k=kind: round(r.count(ours.row(m, "infer"), b, k))]
        section.add(*cells)
    if not ours.is_gpu:
        section.notes += [r.CPU_KERNELS, "On a CPU ops do not copy by events of their own."]
    return section


def ablation(paper: Mapping[str, Mapping[str, Any]], ours: Results) -> Section:
    row = paper["crnn"]
    section = Section(f"Table 4: ablation for crnn, ms ({ours.label})", "AStitch, section 6.1.3.",
                      ["", "XLA", "adaptive thread mapping", "and hierarchical data management", "all"])  # fmt: skip
    section.add("paper", row["xla"], row["atm"], row["hdm"], row["full"])
    section.add("ours", lambda: r.field(ours.row("crnn", "infer"), "us", "xla") / 1e3,
                *(lambda b=b: r.field(ours.row("crnn", "infer"), "us", b) / 1e3
                  for b in ("mapping", "hierarchy", "stitch")))  # fmt: skip
    section.notes.append("Ours: TF_STITCH_REUSE=mapping, hierarchy and merged, the default; measured by "
                         "`python -m tools.benchmark --models=crnn/infer --backends=tf,xla,stitch,mapping,hierarchy`.")
    return section


def counters(paper: Mapping[str, Mapping[str, Any]]) -> Section:
    names = list(paper["xla"])
    section = Section("Table 5: counters of memory-intensive kernels, crnn", "AStitch, section 6.1.3.", ["", *names])
    for backend, row in paper.items():
        section.add(f"{backend}, paper", *(row[name] for name in names))
    for backend in ("XLA", "tf_stitch"):
        section.add(f"{backend}, ours", *[lambda: _not_measured("TensorFlow's profiler counts neither DRAM traffic nor "
                                                                "instructions")] * 3)  # fmt: skip
    section.notes.append("`python -m tools.dram_traffic` has the DRAM traffic of each of our kernels, run once under "
                         "ncu.")
    return section


def barrier(paper: Mapping[str, Any], profile: DeviceProfile) -> Section:
    """Ours are those that calibration measured: what the planner counts with."""
    section = Section("Table 6: a barrier of the whole grid, us", "AStitch, section 6.4.2.", ["blocks", *paper])
    measured = dict(profile.barrier)

    def ours(blocks: str) -> float:
        if float(blocks) not in measured:
            raise NotMeasured(f"a barrier over {blocks} blocks, by the calibration of {profile.name} that is here")
        return measured[float(blocks)]

    section.add("paper", *paper.values())
    section.add("ours", *(lambda blocks=blocks: ours(blocks) for blocks in paper))
    section.notes.append(f"Ours: {profile.name}, calibrated by `{profile.made.get('command')}` on "
                         f"{profile.made.get('date')}; the paper's: a V100.")  # fmt: skip
    return section


def _speed_section(title: str, source: str, ours: Results, mode: str, models: Sequence[str], dtype: str, name: str
                   ) -> Section:  # fmt: skip
    section = Section(title, source, ["model", "XLA / TensorFlow", "tf_stitch / TensorFlow", "tf_stitch / XLA"])
    pairs = (("tf", "xla"), ("tf", "stitch"), ("xla", "stitch"))
    found: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}

    def ratio(model: str, pair: tuple[str, str]) -> float:
        return r.speedup(ours.row(model, mode, dtype), *pair)

    for m in models:
        section.add(m, *(lambda m=m, p=p: ratio(m, p) for p in pairs))
        for p in pairs:
            value = section.value(lambda m=m, p=p: ratio(m, p))
            found[p] += [] if value is None else [value]
    section.add("geometric mean", *(lambda p=p: r.geometric_mean(found[p]) for p in pairs))
    section.chart = Chart(name, "times TensorFlow", models, {
        label: [section.value(lambda m=m, b=b: ratio(m, ("tf", b))) for m in models]
        for label, b in (("XLA", "xla"), ("tf_stitch", "stitch"))
    })  # fmt: skip
    return section


def speed(paper: Mapping[str, Mapping[str, Any]], ours: Results) -> Section:
    """Both halves of Fig. 11 in one table."""
    infer, train = (
        _speed_section("", "", ours, mode, models, "float32", f"as_figure_11_{mode}_{ours.name}")
        for mode, models in (("infer", MODELS), ("train", TRAINED))
    )
    assert infer.chart is not None
    assert train.chart is not None
    section = Section(f"Fig. 11: speed, inference and training ({ours.label})", "AStitch, section 6.1.1.",
                      ["", *infer.heads])  # fmt: skip
    for mode, half in (("infer", infer), ("train", train)):
        section.rows += [[mode, *cells] for cells in half.rows]
        section.add(mode, "paper, average", None, paper[mode]["tf"], paper[mode]["xla"])
        section.notes += half.notes
    places = [f"{m}, {mode}" for mode, models in (("infer", MODELS), ("train", TRAINED)) for m in models]
    section.chart = Chart(f"as_figure_11_{ours.name}", "times TensorFlow", places, {
        label: [*values, *train.chart.series[label]] for label, values in infer.chart.series.items()})  # fmt: skip
    return section


def mixed_precision(ours: Results) -> Section:
    title = f"Fig. 12: inference in mixed precision ({ours.label})"
    made = _speed_section(title, "AStitch, section 6.1.1; the paper's bars have no numbers.", ours, "infer", TRAINED,
                          "mixed_float16", f"as_figure_12_{ours.name}")  # fmt: skip
    half = _speed_section("", "", ours, "infer", TRAINED, "mixed_bfloat16", "")
    assert made.chart is not None
    assert half.chart is not None
    places = [f"{m}, {dtype}" for dtype in ("float16", "bfloat16") for m in TRAINED]
    made.chart = Chart(made.chart.name, made.chart.axis, places, {
        label: [*values, *half.chart.series[label]] for label, values in made.chart.series.items()})  # fmt: skip
    made.rows = [["float16", *row] for row in made.rows] + [["bfloat16", *row] for row in half.rows]
    made.heads = ["", *made.heads]
    made.notes += [note for note in half.notes if note not in made.notes]
    return made


def breakdown(paper: Mapping[str, Mapping[str, Any]], ours: Results) -> Section:
    """Without compute-intensive kernels, as in the paper."""
    section = Section(f"Fig. 13: memory-intensive kernels and overhead, XLA's sum being 1 ({ours.label})",
                      "AStitch, section 6.1.2.", [
                          "model", "kernels, XLA", "kernels, tf_stitch", "overhead, XLA", "overhead, tf_stitch",
                      ])  # fmt: skip

    def parts(model: str, backend: str) -> tuple[float, float]:
        if not ours.is_gpu:
            raise NotMeasured("a CPU's ops run side by side, so their times do not add up to the step's")
        row = ours.row(model, "infer")
        busy = r.time_us(row, backend, "memory", "library", "copies")
        return r.time_us(row, backend, "memory"), max(r.field(row, "us", backend) - busy, 0.0)

    def part(model: str, backend: str, which: int) -> float:
        return parts(model, backend)[which] / sum(parts(model, "xla"))

    for m in MODELS:
        section.add(m, *(lambda m=m, b=b, w=w: part(m, b, w) for w in (0, 1) for b in ("xla", "stitch")))
    saved = paper["transformer"]
    section.notes.append(f"The paper's text: for transformer {saved['memory']:.2f} of XLA's kernels' time and "
                         f"{saved['overhead']:.2f} of its overhead are left.")  # fmt: skip
    if ours.is_gpu:
        places = [f"{m}, {b}" for m in MODELS for b in ("XLA", "tf_stitch")]
        section.chart = Chart(f"as_figure_13_{ours.name}", "time, XLA = 1", places, {
            label: [section.value(lambda m=m, b=b, w=w: part(m, b, w)) for m in MODELS for b in ("xla", "stitch")]
            for w, label in enumerate(("memory-intensive kernels", "overhead"))}, stacked=True)  # fmt: skip
    return section


def _occupancies(row: Row, backend: str) -> list[tuple[float, float]]:
    """Of memory-intensive kernels, the longest first: microseconds, and the occupancy that its launch allows."""
    found = [(us, occupancy / 100) for _, _, us, occupancy in r.field(row, "top_kernels", backend)
             if occupancy is not None]  # fmt: skip
    if not found:
        raise NotMeasured(f"{row['model']} with {backend}: the profile has no occupancy")
    return found


def parallelism(paper: Mapping[str, Mapping[str, Any]], ours: Results) -> Section:
    section = Section(f"Fig. 14: parallelism of the kernels with 80% of the memory-intensive time ({ours.label})",
                      "AStitch, section 6.1.2.", ["model", "occupancy, XLA", "tf_stitch", "SM efficiency"])  # fmt: skip

    def occupancy(model: str, backend: str) -> float:
        """The mean over the leading kernels."""
        if not ours.is_gpu:
            raise NotMeasured("a CPU has no such counter")
        found = _occupancies(ours.row(model, "infer"), backend)
        left, leading = LEADING_SHARE * sum(us for us, _ in found), []
        for us, share in found:
            if left > 0:
                leading.append(share)
                left -= us
        return fmean(leading)

    for m in MODELS:
        section.add(m, *(lambda m=m, b=b: f"{occupancy(m, b):.0%}" for b in ("xla", "stitch")),
                    lambda: _not_measured("SM efficiency: TensorFlow's profiler has no such counter"))  # fmt: skip
    section.chart = Chart(f"as_figure_14_{ours.name}", "occupancy", MODELS, {
        label: [section.value(lambda m=m, b=b: occupancy(m, b)) for m in MODELS]
        for label, b in (("XLA", "xla"), ("tf_stitch", "stitch"))})  # fmt: skip
    section.notes += ["Ours is the occupancy that the launch configuration allows; the paper's is the achieved one.",
                      f"The paper's text: DIEN's changes by {paper['dien']['occupancy_change']:.0%}."]  # fmt: skip
    return section


def trend(number: str, model: str, ours: Results) -> Section:
    section = Section(f"Fig. {number}: occupancy of {model}'s memory-intensive kernels, the longest first "
                      f"({ours.label})", "AStitch, sections 6.1.3 and 6.2.", [])  # fmt: skip
    series: dict[str, list[float | None]] = {}
    for label, backend in (("XLA", "xla"), ("tf_stitch", "stitch")):
        try:
            series[label] = [share for _, share in _occupancies(ours.row(model, "infer"), backend)]
        except NotMeasured as error:
            section.notes.append(f"not measured: {error}")
    if series:
        section.chart = Chart(f"as_figure_{number}_{ours.name}", "occupancy", [], series, lines=True)
    section.notes.append("not measured: SM efficiency, and TVM's Ansor, which is not installed.")
    return section
