"""Plans of a program's regions, and what planning took; and how those of two trees compare."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import footprint_of, passes
from tf_stitch.device.spec import H200
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.jit.collector import collector_paused
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.pass_manager import run_passes
from tf_stitch.planning.free_nodes import plannable
from tf_stitch.planning.part import PatternTimes
from tf_stitch.planning.planner import PlanOptions, merge_reports, plan_region
from tf_stitch.planning.solver_report import SolverReport
from tools.benchmark.made_up_times import MadeUpTimes

Result = dict[str, Any]


def measure(name: str, regions: Sequence[TensorGraph], which: str) -> Result:
    """Seconds of plan_region for the regions of one program, and what came out."""
    nodes = patterns = 0
    seconds = cpu = predicted = 0.0
    reports: list[SolverReport] = []
    for region in regions:
        graph = run_passes(region, passes(H200), None)
        times: PatternTimes = MadeUpTimes() if which == "made-up" else PatternCompiler(H200, True, footprint_of(graph))
        start, cpu_start = time.perf_counter(), time.process_time()
        with collector_paused():
            plan = plan_region(graph, times, LIBRARIES, PlanOptions())
        seconds, cpu = seconds + time.perf_counter() - start, cpu + time.process_time() - cpu_start
        nodes += len(plannable(graph, plan.free))
        patterns += len(plan.patterns)
        predicted += sum(times.exact(pattern) or 0.0 for pattern in plan.patterns)
        reports += [plan.solver] if plan.solver else []
    report = merge_reports(reports)
    assert report is not None, f"{name}: matmuls alone"
    return {"graph": name, "times": which, "nodes": nodes, "seconds": seconds, "processor_seconds": cpu,
            "patterns": patterns, "predicted_us": predicted, "greedy_kernels": report.greedy_kernels,
            "kernels": report.kernels, "parts": report.parts, "candidates": report.candidates,
            "status": report.status, "gap": report.gap}  # fmt: skip


def comparison(now: Sequence[Result], before: Sequence[Result]) -> str:
    """What is predicted and what planning takes, over what another tree's rows say of the same graphs."""
    was = {(r["graph"], r["times"]): r for r in before}
    both = [(r, was[r["graph"], r["times"]]) for r in now if (r["graph"], r["times"]) in was]
    lines = [f"{r['graph']}, {r['times']}: predicted {old['predicted_us']:.0f} -> {r['predicted_us']:.0f} us "
             f"({r['predicted_us'] / old['predicted_us']:.3f}), kernels {old['kernels']} -> {r['kernels']}, planned in "
             f"{old['processor_seconds']:.1f} -> {r['processor_seconds']:.1f} processor s" for r, old in both]
    if both:
        mean = statistics.geometric_mean(r["predicted_us"] / old["predicted_us"] for r, old in both)
        spent = sum(r["processor_seconds"] for r, _ in both) / sum(old["processor_seconds"] for _, old in both)
        lines.append(f"predicted time: geometric mean {mean:.4f}; planning time in all: {spent:.2f}")
    return "\n".join(lines)
