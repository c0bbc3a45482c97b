"""Rows as a text table."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from tf_stitch.cli.explain.rows import LIBRARY, Graph, Kernel, Op, Region
from tf_stitch.messages import counted

_KERNEL_COLUMNS = ("kernel", "rule", "scheme", "predicted us", "measured us", "bytes", "scratch")
_NUMBERS = frozenset({0, 3, 4, 5, 6})


def table(graph: Graph, glob: str | None = None, source: str | None = None) -> Iterator[str]:
    """Lines on a graph, its regions and its ops; with a glob, or a line of the program, on matching ops and their
    regions alone."""
    ops = [op for op in graph.ops if (glob is None or fnmatchcase(op.name, glob)) and is_of(op, source)]
    if not ops:
        return
    stitched = sum(op.region is not None for op in graph.ops)
    yield f"graph {graph.name} ({graph.device}): {stitched} of {len(graph.ops)} ops in {len(graph.regions)} regions"
    wanted = {op.region for op in ops}
    for region in graph.regions:
        if region.number in wanted:
            yield from _region(region)
    yield ""
    yield from _lines(ops)


def is_of(op: Op, source: str | None) -> bool:
    """Whether an op was made in a file, or at "FILE:LINE" of one; the file may lack its folder."""
    if source is None:
        return True
    file, _, line = source.rpartition(":")
    if not line.isdigit():
        file, line = source, ""
    own_file, _, own_line = op.source.rpartition(":")
    return (own_file == file or own_file.endswith(f"/{file}")) and line in ("", own_line)


def region_facts(region: Region) -> list[str]:
    """What is known of a region as a whole."""
    calls = sum(k.rule == LIBRARY for k in region.kernels)
    parts = [region.loop] if region.loop else []
    parts += [counted(region.ops, "op"), region.wrap]
    if not region.is_whole_loop:
        parts.append(counted(len(region.kernels) - calls, "kernel"))
    if calls:
        parts.append(counted(calls, "library call"))
    if region.convolutions:
        parts.append(region.convolutions)
    if region.kernels:
        parts.append(f"{micros(region.predicted_us)} predicted")
    if region.measured_us is not None:
        parts.append(f"{micros(region.measured_us)} measured")
    if region.check:
        parts.append(str(region.check))
    if region.solver:
        solver = region.solver
        found = f"plan solved by {solver['program']}" if solver.get("program") else "greedy plan"
        proven = ", proven optimal" if solver["status"] == "optimal" else ""
        parts.append(f"{found}{proven}, saves {solver['objective_us']:.1f} us of at most {solver['bound_us']:.1f}")
        if solver.get("estimated"):
            parts.append(f"{solver['estimated']} of {solver['parts']} parts planned by estimates")
    if region.arena:
        parts.append(f"{region.arena:,} bytes between kernels, {region.live:,} of them at one time")
    if region.cuda_graphs:
        graphs = region.cuda_graphs
        parts.append(f"{graphs['launches']} launches of {graphs['graphs']} CUDA graphs in {graphs['instances']} "
                     f"instances, {micros(graphs['host_us'])} of the host each, {graphs['updates']} steps updated, "
                     f"{micros(graphs['known_us'])} where none had to be ({graphs['known']} times), "
                     f"{micros(graphs['making_us'])} to make them")  # fmt: skip
        parts.append(f"{graphs['programmatic']} of their edges start a kernel before the one it waits for has ended")
        if graphs["refused"]:
            parts.append(f"{graphs['refused']} CUDA graphs could not be made with such edges: {graphs['error']}")
        if graphs["given_up"]:
            parts.append(f"{graphs['given_up']} CUDA graphs were given up for those of other shapes")
        if graphs["failures"]:
            parts.append(f"{graphs['failures']} CUDA graphs could not be made: {graphs['error']}")
    if region.executables > 1:
        parts.append(f"the last of {region.executables} executables")
    parts.append(f"ran {region.runs} times")
    if region.fallbacks:
        parts.append(f"{region.fallbacks} times by TensorFlow's ops")
    return parts


def _region(region: Region) -> Iterator[str]:
    facts = ", ".join(region_facts(region))
    yield f"  region {region.number}: {facts}" + (f"; {region.problem}" if region.problem else "")
    yield from (f"    kernel {kernel_line(kernel)}" for kernel in region.kernels)


def kernel_line(kernel: Kernel) -> str:
    """What is known of a kernel, on one line."""
    if kernel.rule == LIBRARY:
        return f"{kernel.name}: library call, {kernel.symbol}, {times(kernel)}, {kernel.nbytes:,} bytes moved"
    counts = kernel.schemes | ({"independent parts": len(kernel.independent)} if kernel.independent else {})
    schemes = ", ".join(f"{count} {scheme}" for scheme, count in counts.items())
    return (f"{kernel.name}: {kernel.rule} {kernel.rows} x {kernel.cols}, {counted(kernel.ops, 'op')}, "
            f"{times(kernel)}, {kernel.nbytes:,} bytes moved{_memory(kernel)}"
            + (f", schemes: {schemes}" if schemes else ""))


def _memory(kernel: Kernel) -> str:
    """What its blocks and threads work in."""
    text = f", {kernel.scratch:,} of scratch a block" if kernel.scratch else ""
    if kernel.requested > kernel.scratch:
        text += f" for arrays of {kernel.requested:,} (alloc/req {kernel.scratch / kernel.requested:.2f})"
    text += f", {kernel.registers} registers a thread" if kernel.registers else ""
    return text + (f", {kernel.spilled:,} bytes of them spilled" if kernel.spilled else "")


def times(kernel: Kernel) -> str:
    """Predicted and, where known, measured time."""
    predicted = f"{micros(kernel.predicted_us)} predicted"
    if kernel.measured_us is None:
        return predicted
    others = f" in one launch with {kernel.shared_launch - 1} others" if kernel.shared_launch > 1 else ""
    return f"{predicted}, {micros(kernel.measured_us)} measured{others}"


def micros(time: float) -> str:
    """Microseconds, with two digits at least."""
    return f"{time:.2g} us" if time < 1 else f"{time:.1f} us"


def _lines(ops: list[Op]) -> Iterator[str]:
    """A line an op. Where no kernel computes it, the reason takes the place of the kernel's columns."""
    about = [_about(op) for op in ops]
    used = [i for i, title in enumerate(_KERNEL_COLUMNS) if any(cells[i] for cells in about)]
    width = {i: max(len(cells[i]) for cells in (_KERNEL_COLUMNS, *about)) for i in used}

    def aligned(cells: tuple[str, ...]) -> str:
        return "  ".join(cells[i].rjust(width[i]) if i in _NUMBERS else cells[i].ljust(width[i]) for i in used)

    title = aligned(_KERNEL_COLUMNS)
    kinds = max(len(op.op) for op in ops)
    room = max(len(title), min(60, max(len(op.why or "") for op in ops)))
    yield f"{'op':{kinds}}  region  {title:{room}}  name"
    for op, cells in zip(ops, about, strict=True):
        region = "" if op.region is None else str(op.region)
        yield f"{op.op:{kinds}}  {region:>6}  {op.why or aligned(cells):{room}}  {op.name}"


def _about(op: Op) -> tuple[str, ...]:
    """Cells of _KERNEL_COLUMNS."""
    if not op.kernels:
        return ("",) * len(_KERNEL_COLUMNS)
    predicted = [k.predicted_us for k in op.kernels]
    measured = [k.measured_us for k in op.kernels if k.measured_us is not None]
    return ("+".join(k.name for k in op.kernels), "+".join(dict.fromkeys(k.rule for k in op.kernels)), op.scheme,
            f"{sum(predicted):.2f}" if predicted else "", f"{sum(measured):.2f}" if measured else "",
            str(sum(k.nbytes for k in op.kernels)), str(sum(k.scratch for k in op.kernels)))  # fmt: skip
