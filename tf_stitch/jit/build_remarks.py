"""What is said of a build, in the report and for TF_STITCH_LOG."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.jit.placed_region import PlacedRegion
from tf_stitch.messages import log
from tf_stitch.report.report import Report


def remark_on(compiled: CompiledRegion, region: int, report: Report, is_asked_for: bool = False) -> None:
    """What a user should know of the kernels of a region, by its number.

    Args:
        is_asked_for: the budget of memory is the user's, if there is one.
    """
    where = f"region {region}"
    for node in compiled.buffers.copying:
        report.remark("in_place", where, f"{node.loc}: all of it is copied for its rows")
    if is_asked_for and (over := compiled.over_budget):
        words = "bytes more than TF_STITCH_MEMORY allows: no smaller plan was found"
        report.remark("memory", where, f"takes {over:,} {words}")
    if compiled.planned.pieces is not None:
        matmul, pieces = compiled.planned.pieces
        words = f"its rows run in {pieces} pieces, with what is made of them, to take less memory"
        report.remark("memory", where, f"{matmul.loc}: {words}; last bits may differ")


def log_built(place: PlacedRegion, compiled: CompiledRegion, shapes: Sequence[Sequence[object]], what: str) -> None:
    """For TF_STITCH_LOG: which shapes led to a build, how long it took, and what was fused."""
    members = place.region.members
    names = f"region {place.number} ({members[0]} ... {members[-1]})" if members else f"region {place.number}"
    sizes = " ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)
    seconds = sum(compiled.seconds.values())
    log("builds", f"{names}: {what}, {sizes}: {seconds:.2f} s, {compiled.seconds.get('build', 0.0):.2f} s of them by "
                  f"the compiler or the cache, {len(compiled.kernels)} kernels, {len(compiled.calls)} library calls")
    for kernel in compiled.kernels:
        fused = dict.fromkeys(node.loc.node for node in kernel.schedule.pattern.nodes if node.loc.node)
        log("fusion", f"region {place.number}: {kernel.schedule.family} kernel of {', '.join(fused)}")
