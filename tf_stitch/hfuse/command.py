"""`tf_stitch hfuse`: fuses two kernels of CUDA sources, and finds the fastest partition of their threads."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from absl import flags

from tf_stitch.errors import BuildError, ConfigError, SourceError
from tf_stitch.hfuse.arguments import parse_arguments
from tf_stitch.hfuse.device import DeviceProfiler, on_device, processor, require_device, warm_up
from tf_stitch.hfuse.fuse import Fused, fuse
from tf_stitch.hfuse.launch import Launch, parse_launch
from tf_stitch.hfuse.search import Candidate, best, partitions, search
from tf_stitch.hfuse.source import Kernel, find_kernel, parse

USAGE = """usage: tf_stitch hfuse FILE:KERNEL FILE:KERNEL --grid1=N --grid2=N [flags]
       python -m tf_stitch.hfuse ... (the same)

Writes one CUDA source in which each block runs both kernels, side by side in its threads."""
WRONG, FAILED = 2, 1
"""Exit codes: what was given is wrong; nothing could be compiled or run."""


def main(argv: Sequence[str]) -> int:
    """Runs the command.

    Args:
        argv: the program's name, then its arguments.

    Returns:
        The exit code: 0, 2 if the sources or the flags are wrong, 1 if there is nothing to compile or run them with.
    """
    values = _flags()
    try:
        rest = values(list(argv))[1:]
    except flags.Error as error:
        return _say(f"hfuse: {error}", WRONG)
    if values.help or not rest:
        print(f"{USAGE}\n\n{values.get_help()}")
        return 0 if values.help else WRONG
    try:
        return _run(rest, values)
    except (SourceError, ConfigError) as error:
        return _say(str(error), WRONG)
    except BuildError as error:
        return _say(f"hfuse: {error}", FAILED)


def _flags() -> flags.FlagValues:
    values = flags.FlagValues()
    text = partial(flags.DEFINE_string, flag_values=values)
    number = partial(flags.DEFINE_integer, flag_values=values)
    for i in (1, 2):
        text(
            f"block{i}",
            "?",
            f"threads of a block of kernel {i}, as 256 or 32,8; with ? in the first place the kernel "
            "works with any number",
        )
        text(f"grid{i}", None, f"blocks of kernel {i}, as 512 or 64,4; or N/block: as many as N threads take")
        number(f"dynamic_shared{i}", 0, f"bytes of shared memory that a launch of kernel {i} asks for")
        text(
            f"args{i}",
            None,
            f"what kernel {i} is profiled with: numbers, and arrays as float32[1000] or "
            "int32[1000]=0:50, parted by spaces",
        )
    number("block", 1024, "threads of a block of the fused kernel")
    number("partition", None, "threads of these that the first kernel has; no search")
    flags.DEFINE_bool("vertical", False, "the same threads run both kernels, one behind the other", flag_values=values)
    text("architecture", "90", "compute capability")
    flags.DEFINE_multi_string("define", [], "a macro: NAME or NAME=value", flag_values=values)
    text("name", "", "of the fused kernel")
    text("out", "", "where the source goes; standard output if empty")
    text("json", "", "where the results of a search go")
    flags.DEFINE_bool("help", False, "show this", flag_values=values, short_name="h")
    return values


def _run(rest: Sequence[str], values: flags.FlagValues) -> int:
    if len(rest) != 2:
        raise ConfigError(f"two kernels are fused, as FILE:KERNEL; {len(rest)} are given: {' '.join(rest)}")
    if not values.architecture.isdecimal():
        raise ConfigError(f"--architecture={values.architecture}: a compute capability is a number, as 90")
    kernels = [_kernel(text, values) for text in rest]
    launches = [_launch(i, values) for i in (1, 2)]
    profiled = values.args1 is not None or values.args2 is not None
    if values.partition is not None or values.vertical or not profiled:
        return _write(_one(kernels, launches, values), values.out)
    return _search(kernels, launches, values)


def _kernel(text: str, values: flags.FlagValues) -> Kernel:
    file, colon, name = text.partition(":")
    if not colon or not name:
        raise ConfigError(f"{text!r} names no kernel: say FILE:KERNEL")
    return find_kernel(parse(Path(file), values.architecture, tuple(values.define)), name)


def _launch(i: int, values: flags.FlagValues) -> Launch:
    grid = values[f"grid{i}"].value
    if grid is None:
        raise ConfigError(f"--grid{i} is missing: how many blocks kernel {i} has")
    return parse_launch(values[f"block{i}"].value, grid, values[f"dynamic_shared{i}"].value)


def _one(kernels: Sequence[Kernel], launches: Sequence[Launch], values: flags.FlagValues) -> Fused:
    """Without a search: the partition that is given, or halves."""
    if values.vertical:
        own = [values.block if launch.tunable else launch.with_threads(0).threads for launch in launches]
    elif values.partition is not None:
        own = [values.partition, values.block - values.partition]
    else:
        found = sorted(partitions(launches, values.block), key=lambda pair: abs(pair[0] - pair[1]))
        if not found:
            raise ConfigError(f"no blocks of {values.block} threads can be parted between the kernels: see --block")
        own = list(found[0])
    for i, (launch, threads) in enumerate(zip(launches, own, strict=True), 1):
        if not launch.takes(threads):
            raise ConfigError(f"kernel {i} takes no blocks of {threads} threads")
    shapes = [launch.with_threads(threads) for launch, threads in zip(launches, own, strict=True)]
    return fuse(kernels, shapes, values.architecture, values.vertical, symbol=values.name)


def _search(kernels: Sequence[Kernel], launches: Sequence[Launch], values: flags.FlagValues) -> int:
    given = [
        parse_arguments(text or "", kernel) for text, kernel in zip((values.args1, values.args2), kernels, strict=True)
    ]
    require_device()
    profiler = DeviceProfiler(kernels, [on_device(own) for own in given])
    warm_up()
    found = search(kernels, launches, values.block, values.architecture, processor(), profiler)
    chosen = best(found)
    shapes = [launch.with_threads(own) for launch, own in zip(launches, chosen.threads, strict=True)]
    separate = profiler.streams_ms(shapes)
    _report(found, chosen, separate)
    if values.json:
        Path(values.json).write_text(
            json.dumps({"separate_ms": separate, "tried": [_row(c) for c in found], "best": _row(chosen)}, indent=1)
            + "\n"
        )
    named = fuse(kernels, shapes, values.architecture, resident=chosen.fused.resident, symbol=values.name)
    return _write(named, values.out)


def _report(found: Sequence[Candidate], chosen: Candidate, separate: float) -> None:
    for candidate in found:
        row = _row(candidate)
        bound = "no bound" if candidate.bound is None else f"{candidate.bound} registers at most"
        facts = (
            row["problem"] or f"{row['ms']:.4f} ms, {row['registers']} registers, {row['local_bytes']} bytes spilled"
        )
        mark = "  <- best" if candidate is chosen else ""
        print(f"{candidate.threads[0]} + {candidate.threads[1]} threads, {bound}: {facts}{mark}", file=sys.stderr)
    assert chosen.profile is not None
    print(
        f"separate kernels in two streams: {separate:.4f} ms, {separate / chosen.profile.ms:.2f} times the best's",
        file=sys.stderr,
    )


def _row(candidate: Candidate) -> dict[str, object]:
    profile = candidate.profile
    return {
        "threads": list(candidate.threads),
        "bound": candidate.bound,
        "problem": candidate.problem,
        "ms": profile and profile.ms,
        "registers": profile and profile.registers,
        "local_bytes": profile and profile.local_bytes,
    }


def _write(fused: Fused, out: str) -> int:
    if not out:
        print(fused.source, end="")
        return 0
    try:
        Path(out).write_text(fused.source)
    except OSError as error:
        return _say(f"hfuse: {out} cannot be written: {error}", FAILED)
    print(
        f"{out}: {fused.symbol}, {fused.blocks} blocks of {fused.threads} threads, {fused.dynamic_bytes} bytes of "
        "dynamic shared memory"
    )
    return 0


def _say(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code
