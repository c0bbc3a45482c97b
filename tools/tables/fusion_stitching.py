"""FusionStitching, Tables 1-4 and Figs. 6-8, with our figures beside the paper's."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tools.tables import results as r
from tools.tables.results import KERNELS, NotMeasured, Results, Row
from tools.tables.sections import Chart, Section

Paper = Mapping[str, Mapping[str, Mapping[str, Any]]]
MODELS = Path(__file__).resolve().parents[2] / "models"
INDUSTRIAL = ("nmt", "multi-interests", "rokid", "aiwriter")
"""The four models of Fig. 7, Fig. 8 and Table 4."""


def sections(paper: Paper, ours: Sequence[Results]) -> list[Section]:
    made = [workloads(paper["table 1"])]
    for results in ours:
        made += [characteristics(paper["table 2"], results), summary(paper["table 3"], results),
                 composition(paper["figure 6"], results), kernel_time(paper["figure 7"], results),
                 breakdown(paper["figure 8"], results), shared_memory(paper["table 4"], results)]  # fmt: skip
    return made


def workloads(paper: Mapping[str, Mapping[str, Any]]) -> Section:
    section = Section("Table 1: workloads", "FusionStitching, section 2.",
                      ["model", "category", "the paper says", "models/"])  # fmt: skip
    for model, row in paper.items():
        section.add(model, row["category"], row["description"], _what(model))
    return section


def _what(model: str) -> str:
    text = ast.get_docstring(ast.parse((MODELS / f"{model.replace('-', '_')}.py").read_text())) or ""
    return " ".join(text.split("\n\n")[0].split())


def characteristics(paper: Mapping[str, Mapping[str, Any]], ours: Results) -> Section:
    """Of TensorFlow without compilation, per step."""
    section = Section(f"Table 2: characteristics of the workloads ({ours.label})", "FusionStitching, section 2.", [
        "model", "graph size: paper", "ours", "kernels: paper", "ours", "average kernel, us: paper", "ours",
        "memory ratio: paper", "ours",
    ])  # fmt: skip

    def kernel_us(model: str) -> float:
        row = ours.row(model)
        return r.time_us(row, "tf", *KERNELS) / r.count(row, "tf", *KERNELS)

    def memory(model: str) -> str:
        row = ours.row(model)
        return f"{r.time_us(row, 'tf', 'memory') / r.time_us(row, 'tf', *KERNELS):.0%}"

    for m, row in paper.items():
        section.add(m, row["graph"], lambda m=m: _graph(ours.row(m)), row["kernels"],
                    lambda m=m: round(r.count(ours.row(m), "tf", *KERNELS)), row["kernel_us"], lambda m=m: kernel_us(m),
                    f"{row['memory']:.0%}", lambda m=m: memory(m), form=".1f")  # fmt: skip
    if not ours.is_gpu:
        section.notes.append("On a CPU a kernel is an op. TensorFlow's profiler leaves out the quick ones.")
    return section


def _graph(row: Row) -> int:
    if "graph_nodes" not in row:
        raise NotMeasured(f"{row['model']}: tf_stitch left no report")
    return int(row["graph_nodes"])


def summary(paper: Mapping[str, Mapping[str, Any]], ours: Results) -> Section:
    section = Section(f"Table 3: kernels and speed ({ours.label})", "FusionStitching, sections 6.2 and 6.3.", [
        "model", "XLA, fewer kernels: paper", "ours", "stitched, fewer kernels: paper", "ours",
        "XLA, faster: paper", "ours", "stitched, faster: paper", "ours",
    ])  # fmt: skip

    def fewer(model: str, backend: str) -> float:
        row = ours.row(model)
        return r.count(row, "tf", *KERNELS) / r.count(row, backend, *KERNELS)

    for m, row in paper.items():
        section.add(m, row["xla_kernels"], lambda m=m: fewer(m, "xla"), row["kernels"], lambda m=m: fewer(m, "stitch"),
                    row["xla_speed"], lambda m=m: r.speedup(ours.row(m), "tf", "xla"),
                    row["speed"], lambda m=m: r.speedup(ours.row(m), "tf"))  # fmt: skip
    section.chart = Chart(f"fs_table_3_{ours.name}", "times TensorFlow", list(paper), {
        "FusionStitching (paper)": [row["speed"] for row in paper.values()],
        "XLA": [section.value(lambda m=m: r.speedup(ours.row(m), "tf", "xla")) for m in paper],
        "tf_stitch": [section.value(lambda m=m: r.speedup(ours.row(m), "tf")) for m in paper],
    })  # fmt: skip
    if not ours.is_gpu:
        section.notes.append(r.CPU_KERNELS)
    return section


def _facts(ours: Results, model: str) -> Mapping[str, Any]:
    row = ours.row(model)
    if "patterns" not in row or not sum(row["patterns"]["number"].values()):
        raise NotMeasured(f"{model}: no fused kernel in tf_stitch's report")
    facts: Mapping[str, Any] = row["patterns"]
    return facts


def _share(ours: Results, model: str, of: str, kind: str) -> float:
    found = _facts(ours, model)[of]
    return float(found[kind] / sum(found.values()))


def _shares(section: Section, ours: Results, models: Sequence[str], of: str, chart: str, axis: str) -> None:
    """Rows and a chart of the categories' shares."""
    kinds = ("elementwise", "reduction", "gemm")
    shares = {k: [section.value(lambda m=m, k=k: _share(ours, m, of, k)) for m in models] for k in kinds}
    section.chart = Chart(chart, axis, models, shares, stacked=True)


def composition(paper: Mapping[str, Mapping[str, Any]], ours: Results) -> Section:
    models = [row["model"] for row in ours.rows if row["dtype"] == "float32"]
    models = [m for m in dict.fromkeys(models) if m in _names()]
    section = Section(f"Fig. 6: fused patterns by what they hold ({ours.label})", "FusionStitching, section 6.4.",
                      ["model", "gemm: paper", "elementwise", "reduction", "gemm"])  # fmt: skip
    for m in models:
        written = paper.get(m, {}).get("gemm")
        section.add(m, None if written is None else f"{written:.0%}",
                    *(lambda m=m, k=k: f"{_share(ours, m, 'number', k):.0%}"
                      for k in ("elementwise", "reduction", "gemm")))  # fmt: skip
    section.notes.append("The paper's text gives two numbers of its figure.")
    _shares(section, ours, models, "number", f"fs_figure_6_{ours.name}", "share of patterns")
    return section


def _names() -> set[str]:
    return {path.stem.replace("_", "-") for path in MODELS.glob("*.py")}


def kernel_time(paper: Mapping[str, Mapping[str, Any]], ours: Results) -> Section:
    section = Section(f"Fig. 7: time in kernels, XLA's being 1 ({ours.label})", "FusionStitching, section 6.5.",
                      ["model", "paper", "tf_stitch"])  # fmt: skip

    def share(model: str) -> float:
        row = ours.row(model)
        return r.time_us(row, "stitch", *KERNELS) / r.time_us(row, "xla", *KERNELS)

    for m in INDUSTRIAL:
        section.add(m, None, lambda m=m: share(m))
    found = [value for m in INDUSTRIAL if (value := section.value(lambda m=m: share(m))) is not None]
    section.add("average", paper["average"]["time"], lambda: r.geometric_mean(found))
    section.notes.append("The paper's text gives the average; its bars have no numbers.")
    section.chart = Chart(f"fs_figure_7_{ours.name}", "time, XLA = 1", INDUSTRIAL, {
        "tf_stitch": [section.value(lambda m=m: share(m)) for m in INDUSTRIAL],
    })  # fmt: skip
    return section


def breakdown(paper: Mapping[str, Mapping[str, Any]], ours: Results) -> Section:
    section = Section(f"Fig. 8: time of fused patterns by what they hold ({ours.label})",
                      "FusionStitching, section 6.5. The paper: elementwise patterns take about "
                      f"{paper['all']['elementwise']:.0%}.", ["model", "elementwise", "reduction", "gemm"])  # fmt: skip
    for m in INDUSTRIAL:
        section.add(m, *(lambda m=m, k=k: f"{_share(ours, m, 'predicted_us', k):.0%}"
                         for k in ("elementwise", "reduction", "gemm")))  # fmt: skip
    section.notes.append("Ours: shares of the predicted time of every kernel that was built, each once.")
    _shares(section, ours, INDUSTRIAL, "predicted_us", f"fs_figure_8_{ours.name}", "share of predicted time")
    return section


def shared_memory(paper: Mapping[str, Mapping[str, Any]], ours: Results) -> Section:
    section = Section(f"Table 4: shared memory ({ours.label})", "FusionStitching, section 6.6.", [
        "model", "patterns with it: paper", "ours", "their time: paper", "ours", "average KB: paper", "ours",
        "largest KB: paper", "ours", "alloc/req: paper", "ours",
    ])  # fmt: skip

    def fact(model: str, key: str) -> float:
        if not ours.is_gpu:
            raise NotMeasured("a CPU has no shared memory")
        return float(_facts(ours, model)["shared"][key])

    def share(model: str, key: str, of: str) -> str:
        return f"{fact(model, key) / sum(_facts(ours, model)[of].values()):.0%}"

    def reuse(model: str) -> float:
        requested = fact(model, "requested_bytes")
        if not requested:
            raise NotMeasured(f"{model}: no kernel asks for shared memory")
        return fact(model, "scratch_bytes") / requested

    for m, row in paper.items():
        section.add(m, f"{row['patterns']:.0%}", lambda m=m: share(m, "kernels", "number"),
                    f"{row['time']:.0%}", lambda m=m: share(m, "predicted_us", "predicted_us"),
                    row["average_kb"], lambda m=m: fact(m, "bytes") / max(fact(m, "kernels"), 1) / 1024,
                    row["largest_kb"], lambda m=m: fact(m, "largest_bytes") / 1024,
                    row["reuse"], lambda m=m: reuse(m))  # fmt: skip
    found = [value for m in paper if (value := section.value(lambda m=m: reuse(m))) is not None]
    section.add("average", *[None] * 8, fmean(row["reuse"] for row in paper.values()),
                fmean(found) if found else None)  # fmt: skip
    return section
