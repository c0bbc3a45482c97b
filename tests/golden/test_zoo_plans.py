"""Plans of the zoo's models and of the scripts, in short: every region is planned for a CPU and for an H200.

The graphs are made by tools/zoo_graphs.py."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from tests.differential.runner import keys_of
from tests.planning.unstitched import unstitched_bytes
from tests.support.tiers import each_commit
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.text_parser import parse_graphs
from tf_stitch.kernel_ir.sum_chains import unbounded_sums
from tf_stitch.lowering.kernel import LoweredKernel

ZOO = Path(__file__).parents[1] / "planning" / "graphs" / "zoo"
NAMES = sorted({path.name.split(".")[0] for path in ZOO.glob("*.gz")})
LARGE = ("asr", "crnn")
"""That take tens of seconds."""
MIB = 1 << 20
NOTABLE = (Category.REDUCTION, Category.SCAN, Category.CONTRACTION)


def compiled_regions(name: str, device: DeviceSpec) -> list[CompiledRegion]:
    """The regions as they are on that device: with matmuls in them on a GPU."""
    text = gzip.decompress((ZOO / f"{name}.{'region' if device.simt else 'ops'}.txt.gz").read_bytes()).decode()
    return [compile_region(graph, *keys_of(graph), CompileOptions(device)) for graph in parse_graphs(text)]


def describe(region: CompiledRegion) -> str:
    """A line for the plan, and one for each kernel or several alike in a row."""
    report = region.plan.solver
    if report is None:
        return f"{region.plan.graph.name}: {len(region.calls)} library calls\n"
    lines = [f"{region.plan.graph.name}: {report.status}, {report.kernels} patterns (greedy {report.greedy_kernels}), "
             f"{len(region.kernels)} kernels, {len(region.calls)} library calls, {len(region.executable.steps)} steps"]
    for line, alike in groupby(map(_kernel_line, region.kernels)):
        count = len(list(alike))
        lines.append(f"  {line}" if count == 1 else f"  {count} times {line}")
    return "\n".join(lines) + "\n"


def _kernel_line(kernel: LoweredKernel) -> str:
    nodes, domain = kernel.schedule.pattern.nodes, kernel.schedule.domain
    notable = Counter(n.kind.value for n in nodes if n.category in NOTABLE or n.kind.value == "transpose")
    words = ", ".join(f"{count} {name}" if count > 1 else name for name, count in notable.items())
    return (f"{kernel.schedule.family} {domain.rows}x{domain.cols}: {len(nodes)} ops"
            f"{f' with {words}' if words else ''} -> {len(kernel.schedule.pattern.outputs)}")


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
@pytest.mark.parametrize("name", each_commit([name for name in NAMES if name not in LARGE], NAMES))
def test_plans(name: str, device: DeviceSpec, golden: Callable[[str, str], None]) -> None:
    regions = compiled_regions(name, device)
    for region in regions:
        report = region.plan.solver
        if report is not None:
            assert report.status == "optimal" or report.gap < 0.05, region.plan.graph.name
            assert report.kernels <= report.greedy_kernels, region.plan.graph.name
        arena, live = region.executable.arena_bytes, region.executable.live_bytes
        assert arena <= 1.03 * live + MIB / 64, region.plan.graph.name
        one_by_one = unstitched_bytes(region.plan.graph)
        assert live <= 1.12 * one_by_one + MIB / 2, "kernels side by side need little more than ops one by one"
        assert not any(unbounded_sums(kernel.program) for kernel in region.kernels), region.plan.graph.name
    golden(f"zoo_{name.replace('-', '_')}_{device.target}", "".join(map(describe, regions)))


def test_every_model_is_here() -> None:
    from models.zoo import NAMES as ALL  # imports TensorFlow

    assert set(ALL) <= set(NAMES)
