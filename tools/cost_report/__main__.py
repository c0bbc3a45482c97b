"""Compares predicted times of kernels with measured ones: of the subgraphs that tf_stitch is measured by, and of the
scripts and the zoo's models (small configurations), from texts that tools/zoo_graphs.py made.

    python -m tools.cost_report                                    this machine's CPU
    python -m tools.cost_report --target=cuda                      this machine's GPU
A GPU machine without TensorFlow measures what another made:
    python -m tools.cost_report --target=cuda --export=DIR         here: the kernels, built, and what is predicted
    python -m tools.cost_report --measure=DIR --times=times.json   there; needs CuPy
    python -m tools.cost_report --target=cuda --times=times.json   here: the report

Writes benchmarks/cost_model_h200.md or _cpu.md. CPU kernels are measured in one thread, and predicted for one,
by the profile that `python -m tools.calibrate` made of this machine where there is one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.runtime.device_run import time_on_device
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_timer import time_on_host, with_timer
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tf_stitch.runtime.timed_kernel import TimedKernel
from tools.benchmark.machine import describe_cpu, describe_cuda
from tools.benchmark.raw_rows import page_of, raw_rows, write_rows
from tools.cost_report.exported import export, load, target_of
from tools.cost_report.table import markdown, summary

ROOT = Path(__file__).resolve().parents[2]


if TYPE_CHECKING:
    from tools.cost_report.cases import Case, Cases

_TARGET = flags.DEFINE_enum("target", "cpu", ["cpu", "cuda"], "what to predict for")
_EXPORT = flags.DEFINE_string("export", None, "write the built kernels into this folder and stop")
_MEASURE = flags.DEFINE_string("measure", None, "measure the kernels of such a folder and stop")
_TIMES = flags.DEFINE_string("times", None, "measured times by kernel: written with --measure, else read")
_PROGRAMS = flags.DEFINE_list("programs", None, "models and scripts' steps to take kernels from; none given: all")
_GRAPHS = flags.DEFINE_list("graphs", [], "more folders of texts that zoo_graphs.py made")
_OUT = flags.DEFINE_string("out", None, "the .json to write, with a .md beside it")


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError("no arguments, please, but flags")
    if _MEASURE.value:
        measured = measure_folder(Path(_MEASURE.value))
        Path(_TIMES.value or "times.json").write_text(json.dumps(measured))
        return
    from tools.cost_report.cases import (  # they need what a machine that measures may lack
        ZOO,
        device_of,
        program_cases,
        programs,
        subgraph_cases,
    )

    cache = KernelCache(load_config().cache_dir / "kernels")
    device = device_of(_TARGET.value)
    cases = subgraph_cases(device)
    for folder in map(Path, [ZOO, *_GRAPHS.value]):
        names = programs(folder) if _PROGRAMS.value is None else _PROGRAMS.value
        for more in program_cases(device, names, folder):
            cases.extend(more)
    if _EXPORT.value:
        export(cases.cases, build(cases, device, cache), device.target, Path(_EXPORT.value))
        print(f"{len(cases.cases)} kernels in {len(cases.sources)} binaries, {_EXPORT.value}")
        return
    if _TIMES.value:
        measured = json.loads(Path(_TIMES.value).read_text())
    else:
        measured = {"machine": describe(device), "us": measure(cases, build(cases, device, cache), device)}
    out = Path(_OUT.value) if _OUT.value else raw_rows(f"cost_model_{device.name.lower()}")
    rows = [row(case, measured["us"][case.key]) for case in cases.cases if case.key in measured["us"]]
    document = {"machine": measured["machine"], "profile": dict(device.profile.made), "summary": summary(rows),
                "not_measured": len(cases.cases) - len(rows), "kernels": rows}  # fmt: skip
    write_rows(out, document)
    page_of(out).write_text(markdown(document))
    print(markdown(document))


def build(cases: Cases, device: DeviceSpec, cache: KernelCache) -> list[Path]:
    """The binary of each source."""
    def one(source: str) -> Path:
        if device.simt:
            return build_cuda(source, device.architecture, cache)
        return build_host(with_timer(source), device.architecture, cache)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, cases.sources))


def measure_folder(folder: Path) -> dict[str, Any]:
    """Times of an exported folder's kernels on this machine's GPU."""
    device = H200 if target_of(folder) == "cuda" else CPU
    return {"machine": describe(device), "us": {e.key: _time(e.binary, [e.kernel], device)[0] for e in load(folder)}}


def measure(cases: Cases, binaries: Sequence[Path], device: DeviceSpec) -> dict[str, float]:
    """Microseconds by key."""
    return {c.key: _time(binaries[c.source], [c.kernel], device)[0] for c in cases.cases}


def _time(binary: Path, kernels: Sequence[TimedKernel], device: DeviceSpec) -> list[float]:
    return time_on_device(binary, kernels) if device.simt else time_on_host(binary, kernels)


def describe(device: DeviceSpec) -> dict[str, Any]:
    """Where the times were measured."""
    return describe_cuda() if device.simt else describe_cpu()


def row(case: Case, measured: float) -> dict[str, Any]:
    """A kernel of the report. `error` is relative to the measured time."""
    return {"group": case.group, "subgraph": case.subgraph, "rule": case.rule, "domain": list(case.domain),
            "ops": case.ops, "key": case.key, "measured_us": round(measured, 3),
            "predicted_us": round(case.predicted_us, 3), "error": round(case.predicted_us / measured - 1, 4),
            "parts": case.prediction}  # fmt: skip


if __name__ == "__main__":
    app.run(main)
