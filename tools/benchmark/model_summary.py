"""The sections of pages about models whose rows are in benchmarks/raw, about decoding, and about other frameworks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.benchmark.markdown import table
from tools.benchmark.network_rows import geometric_mean, read_csv
from tools.benchmark.raw_rows import RAW, read_rows

MODEL_FILES = ("h200_recommenders", "h100_recommenders", "h100_recurrent", "h200_recurrent", "h200_halves",
               "cpu_recommenders")  # fmt: skip
"""Of `tools.benchmark`, beside the papers' rows, which tools.tables prints."""
CPU_FILES = ("cpu_models", "cpu_recommenders")
"""Of `tools.benchmark` on two cores: the papers' models, and recommenders."""
FRAMEWORKS = {"tensorflow_ms": "TensorFlow", "xla_ms": "XLA", "tf_stitch_ms": "tf_stitch",
              "keras_jax_ms": "Keras on JAX", "openvino_f32_ms": "Keras on OpenVINO in float32",
              "openvino_ms": "Keras on OpenVINO by default, in bfloat16"}  # fmt: skip


Key = tuple[str, str, str, str]
"""Device, model, mode, element types."""
Entry = tuple[list[float | None], str, str]
"""Milliseconds of TensorFlow, XLA and tf_stitch; the date; where the rows are."""


def _newest() -> dict[Key, Entry]:
    """Later files and rows are newer; models_h200.csv has runs whose raw rows were not kept."""
    found: dict[Key, Entry] = {}
    for name in MODEL_FILES:
        for row in read_rows(RAW / f"{name}.json.gz"):
            device = row["machine"].get("gpu", f"{row['machine']['cores']} CPU cores").split(" 80GB")[0]
            micros = [row.get(f"{backend}_us") for backend in ("tf", "xla", "stitch")]
            found[device, row["model"], row["mode"], row["dtype"]] = (
                [each / 1e3 if each else None for each in micros], row["machine"]["date"], f"`raw/{name}.json.gz`")
    for row in read_csv("models_h200.csv"):
        found["NVIDIA H200", row["model"], row["mode"], row["dtype"]] = (
            [None, float(row["xla_ms"]), float(row["tf_stitch_ms"])], row["date"], "[models_h200](models_h200.csv)")
    return dict(sorted(found.items()))


def models() -> Iterator[str]:
    """The newest row of each model, mode and types on each device."""
    rows = [[*key, *map(_shown, times), _over(times[0], times[2]), _over(times[1], times[2]), date, source]
            for key, (times, date, source) in _newest().items()]  # fmt: skip
    yield from table(("device", "model", "mode", "types", "TensorFlow, ms", "XLA, ms", "tf_stitch, ms",
                      "TensorFlow / tf_stitch", "XLA / tf_stitch", "date", "rows"), rows)  # fmt: skip


def models_summary() -> Iterator[str]:
    """Over each backend on each device: how many rows, geometric mean, the least and the most."""
    groups: dict[tuple[str, str, str], dict[str, float]] = {}
    for (device, model, mode, dtype), (times, _, _) in _newest().items():
        for over, theirs in zip(("TensorFlow", "XLA"), times, strict=False):
            if theirs and times[2]:
                groups.setdefault((device, over, mode), {})[f"{model}, {dtype}"] = theirs / times[2]
    rows = []
    for group, ratios in sorted(groups.items()):
        least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        rows.append([*group, str(len(ratios)), f"{geometric_mean([*ratios.values()]):.2f}",
                     f"{ratios[least]:.2f} ({least})", f"{ratios[most]:.2f} ({most})"])  # fmt: skip
    yield from table(("device", "over", "mode", "models", "geometric mean", "least", "most"), rows)


def _shown(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.3g}"


def _over(theirs: float | None, ours: float | None) -> str:
    return f"{theirs / ours:.2f}" if theirs and ours else "-"


def decoding() -> Iterator[str]:
    """The newest row of each batch and policy on each GPU."""
    newest: dict[tuple[str, ...], Mapping[str, str]] = {}
    for row in read_csv("decoding_gpu.csv"):
        newest[row["gpu"], row["batch"], row["policy"]] = row
    rows = [[*key, row["xla_ms"] or "-", row["tf_stitch_ms"],
             _over(float(row["xla_ms"] or 0), float(row["tf_stitch_ms"])), row["date"], row["commit"]]
            for key, row in sorted(newest.items())]  # fmt: skip
    yield from table(("GPU", "batch", "policy", "XLA, ms", "tf_stitch, ms", "XLA / tf_stitch", "date", "commit"), rows)


def subgraphs() -> Iterator[str]:
    """Kernels beside those of JAX and PyTorch; of small and odd shapes apart, where how a call is timed decides."""
    found: list[dict[str, Any]] = read_rows(RAW / "h200_subgraphs.json.gz")
    rows = []
    for kind, name in (("peers", "large"), ("irregular", "small or of odd shapes")):
        group = [row for row in found if row["set"] == kind]
        for over, label in (("xla_us", "XLA (JAX)"), ("inductor_us", "Inductor, without CUDA graphs")):
            ratios = [row[over] / row["stitch_us"] for row in group]
            rows.append([name, label, str(len(ratios)), f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}",
                         f"{max(ratios):.2f}"])  # fmt: skip
    yield from table(("subgraphs", "over", "number", "geometric mean", "least", "most"), rows)


def frameworks() -> Iterator[str]:
    """Other frameworks on two CPU cores and an H200, with how much faster or slower tf_stitch is."""
    rows = []
    for row in read_csv("frameworks.csv"):
        ours = float(row["tf_stitch_ms"])
        cells = [f"{row[column]} ({float(row[column]) / ours:.2f})" if row[column] and column != "tf_stitch_ms"
                 else row[column] or "-" for column in FRAMEWORKS]  # fmt: skip
        rows.append([row["device"], f"{row['network']}, {row['mode']}", *cells])
    yield from table(("device", "what", *FRAMEWORKS.values()), rows)


def on_cpus() -> Iterator[str]:
    """The front page's lines about CPUs, of rows that a command measured."""
    rows = [row for name in CPU_FILES for row in read_rows(RAW / f"{name}.json.gz")]
    for backend, name in (("tf", "TensorFlow"), ("xla", "XLA")):
        ratios = {f"{row['model']}, {row['mode']}": row[f"{backend}_us"] / row["stitch_us"]
                  for row in rows if row.get(f"{backend}_us") and row.get("stitch_us")}  # fmt: skip
        least = min(ratios, key=ratios.__getitem__)
        yield (f"- {geometric_mean([*ratios.values()]):.2f} times as fast as {name} over {len(ratios)} train steps and "
               f"inferences; least {least} ({ratios[least]:.2f}), most {max(ratios.values()):.2f}.")
