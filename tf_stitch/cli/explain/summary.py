"""The first screen: where the time goes, which kernels take it, why ops were left to TensorFlow, what would help."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from tf_stitch.cli.explain.branch_text import branch_lines, place
from tf_stitch.cli.explain.load import Document
from tf_stitch.cli.explain.rows import LIBRARY, Graph, Kernel, Op, Region
from tf_stitch.cli.explain.text import micros
from tf_stitch.frontend.tensorflow.variable_ops import VARIABLES
from tf_stitch.messages import counted
from tf_stitch.report.entries import StepEntry
from tf_stitch.report.verdict import Step, main_step, milliseconds, said_of_steps

_REGIONS, _KERNELS, _REASONS, _TROUBLES, _BRANCHES = 5, 10, 8, 3, 6
_NO_WORK = ("Const", "_Arg", "Arg", "_Retval", "Identity", "NoOp", *VARIABLES, "ReadVariableOp", "Placeholder")
_HELP = {
    "Python functions": "tf.py_function and tf.numpy_function keep a whole graph from being stitched: move them out of "
                        "the step",
    "XLA compiles": "compile without jit_compile=True where tf_stitch shall do it",
    "TF_STITCH_": "a variable of yours leaves ops out",
    "compiler": "install gcc: `tf_stitch doctor` says what is missing",
    "elements": "empty tensors have nothing to compute; nothing to do",
}
"""Part of a reason -> what to do about it."""


def summary(document: Document, graphs: Sequence[Graph]) -> Iterator[str]:
    """Lines of the first screen."""
    regions = {region.number: region for graph in graphs for region in graph.regions if region.kernels}
    ops = {op.name: op for graph in graphs for op in graph.ops}
    of_region: dict[int, list[Op]] = {}
    for graph in graphs:
        for op in graph.ops:
            if op.region is not None:
                of_region.setdefault(op.region, []).append(op)
    steps = [StepEntry(**step) for step in document.get("steps", [])]
    if steps:
        yield said_of_steps(steps)
    yield from _where_time_goes(regions, of_region, main_step(steps))
    yield from _kernels(regions, ops)
    yield from _left_out(graphs, {reason for graph in document["graphs"] for reason in graph["left_out"]})
    yield from branch_lines(document, [graph.name for graph in graphs], _BRANCHES)
    yield from _troubles(document)
    yield "more: --op=GLOB or --source=FILE:LINE for some ops, --why=GLOB for all that is known of them, --full"


def _where_time_goes(regions: dict[int, Region], ops: dict[int, list[Op]], step: Step | None) -> Iterator[str]:
    known = [region.check for region in regions.values() if region.check]
    if known:
        now, plain = sum(check.now_us for check in known), sum(check.plain_us for check in known)
        gave_way = sum(check.gave_way for check in known)
        yield (f"{len(known)} of {len(regions)} regions were timed in the run: {milliseconds(now)} for a run of each, "
               f"{milliseconds(plain)} by TensorFlow's ops, each alone; {gave_way} gave way")
        if step is not None and plain > step.before_us:
            yield (f"  (alone, TensorFlow's ops took longer than a whole call of {step.function}: the machine was "
                   "busy, or each waits more there; the call is what counts)")
    elif regions:
        yield f"{len(regions)} regions, not timed against TensorFlow's ops (it takes ten calls): times are predicted"
    else:
        yield "no region has kernels"
    yield ""
    total = sum(region.total_us for region in regions.values()) or 1.0
    longest = sorted(regions.values(), key=lambda region: -region.total_us)[:_REGIONS]
    if longest:
        yield "regions that take most      share      a run  TensorFlow     runs  what"
    for region in longest:
        plain_us = micros(region.check.plain_us) if region.check else "?"
        yield (f"  region {region.number:<18} {region.total_us / total:6.0%} {micros(region.now_us):>10} "
               f"{plain_us:>11} {max(region.runs, 1):8}  {_what(ops.get(region.number, []))}")
    if longest:
        yield ""


def _what(ops: Sequence[Op]) -> str:
    """A few words on nodes: the last, which a region is for, how many, and where in the program."""
    if not ops:
        return ""
    sources = Counter(op.source for op in ops if op.source)
    where = f", {place(sources.most_common(1)[0][0])}" if sources else ""
    return f"{counted(len(ops), 'op')} to {_short(ops[-1].name)}{where}"


def _kernels(regions: dict[int, Region], ops: dict[str, Op]) -> Iterator[str]:
    found: list[tuple[float, Region, Kernel]] = []
    for region in regions.values():
        for kernel in region.kernels:
            found.append((kernel.now_us * max(region.runs, 1), region, kernel))
    found.sort(key=lambda one: -one[0])
    if found:
        yield f"kernels that take most, of {len(found)}   predicted   measured     runs  what"
    for _, region, kernel in found[:_KERNELS]:
        measured = "?" if kernel.measured_us is None else micros(kernel.measured_us)
        names = [name for name, op in ops.items() if kernel in op.kernels]
        kind = "library call" if kernel.rule == LIBRARY else kernel.rule
        source = place(next((ops[name].source for name in reversed(names) if ops[name].source), ""))
        what = f"{counted(kernel.ops, 'op')} to {_short(names[-1]) if names else kernel.symbol}"
        yield (f"  {kernel.name:7} {kind:22} {micros(kernel.predicted_us):>10} {measured:>10} {region.runs:8}  {what}"
               + (f", {source}" if source else ""))
    if found:
        if all(kernel.measured_us is None for _, _, kernel in found):
            yield "  (--measure times them on this machine)"
        yield ""


def _left_out(graphs: Sequence[Graph], of_work: Collection[str]) -> Iterator[str]:
    """
    Args:
        of_work: reasons for which ops were left out that cost something.
    """
    by_reason: dict[str, list[Op]] = {}
    for graph in graphs:
        for op in graph.ops:
            if op.region is None and op.why in of_work and op.op not in _NO_WORK:
                by_reason.setdefault(str(op.why), []).append(op)
    reasons = sorted(by_reason, key=lambda reason: -len(by_reason[reason]))
    if reasons:
        yield "ops left to TensorFlow"
    for reason in reasons[:_REASONS]:
        ops = by_reason[reason]
        sources = Counter(op.source for op in ops if op.source)
        where = f"as at {place(sources.most_common(1)[0][0])}" if sources else f"as {_short(ops[0].name)}"
        yield f"  {len(ops):5}  {reason}, {where}"
    if len(reasons) > _REASONS:
        yield f"  {sum(len(by_reason[r]) for r in reasons[_REASONS:]):5}  for {len(reasons) - _REASONS} other reasons"
    advice = dict.fromkeys(words for reason in reasons for part, words in _HELP.items() if part in reason)
    yield from (f"  what would help: {words}" for words in advice)
    if reasons:
        yield ""


def _troubles(document: Document) -> Iterator[str]:
    for title, entries in (("what went wrong", document["fallbacks"]),
                           ("what could be better", document.get("remarks", []))):
        counts: Counter[tuple[str, str]] = Counter()
        for entry in entries:
            counts[entry["stage"], entry["reason"]] += entry["count"]
        if counts:
            yield title
            yield from (f"  {count:5}  {stage}: {reason}"[:160] for (stage, reason), count in
                        itertools.islice(counts.most_common(), _TROUBLES))
            yield ""


def _short(name: str, most: int = 48) -> str:
    """The end of a node's name, which tells most."""
    return name if len(name) <= most else "..." + name[-most + 3:]
