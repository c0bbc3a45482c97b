"""How the recurrent models of the zoo are planned for an H200, at the papers' sizes: found without a GPU.

    python -m tools.recurrent_plans                            # minutes
    python -m tools.recurrent_plans --names=rokid,LSTM --modes=infer --kinds

Prints for each region of a step its steps (launches and library calls), library calls, launches in source, rounds of
work that wait for each other, predicted microseconds (of each round the work that takes longest, and of launches one
behind the other, without calls), and processor seconds of compiling; with --kinds work by kinds. Of a loop that runs as
one op its body, which is an iteration.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from absl import app, flags

if TYPE_CHECKING:
    from tf_stitch.compiler.pipeline import CompiledRegion
    from tf_stitch.graph.clustering.region_graph import RegionGraph

NAMES = ("rokid", "aiwriter", "asr", "crnn", "dien", "nmt", "bi-rnn", "dyn-rnn", "LSTM")

_NAMES = flags.DEFINE_list("names", list(NAMES), "of models/zoo.py, or LSTM: two layers of 256, batch 32, 100 steps")
_MODES = flags.DEFINE_list("modes", ["train", "infer"], "train, infer")
_CONFIG = flags.DEFINE_string("config", "paper", "of the models")
_LIBRARY = flags.DEFINE_bool("library", False, "leave recurrent layers' matmuls to the library, as before 2026-11-27")
_KINDS = flags.DEFINE_bool("kinds", False, "kinds of work, too")


def traced(name: str, mode: str, config: str) -> Any:
    """A step as a concrete function."""
    from tools.benchmark.network_cases import NetworkCase
    from tools.benchmark.traced_steps import network_case, zoo_model

    if name == "LSTM":
        return network_case(NetworkCase(name, mode, 32, "float32", 0))
    return zoo_model(name, mode, config)


@dataclass
class Kind:
    """Work of one kind: how often, and its predicted microseconds in all."""

    count: int = 0
    us: float = 0.0


def kinds_of(compiled: CompiledRegion) -> tuple[dict[str, Kind], int, float]:
    """Kinds of work; rounds of work that wait for each other; predicted microseconds, of each round its longest."""
    from tf_stitch.compiler.pattern_compiler import PatternCompiler
    from tf_stitch.device.spec import H200
    from tf_stitch.libraries.call import BoundCall
    from tf_stitch.planning.cost_model import predict_us
    from tf_stitch.planning.pattern import alone

    compiler = PatternCompiler(H200, True)
    kinds: dict[str, Kind] = defaultdict(Kind)
    known: dict[Any, float] = {}
    rounds: dict[int, float] = defaultdict(float)
    for work, its_round in zip(compiled.buffers.kernels, compiled.buffers.levels, strict=True):
        if isinstance(work, BoundCall):
            node = work.nodes[0]
            name = f"call {node.kind.value} " + " x ".join(str(list(o.type.dims)) for o in node.operands[:2])
            key: Any = name
            us = known[key] if key in known else compiler.exact(alone(node)) or 0.0
        else:
            key = work.program
            node = work.schedule.dominant
            name = f"{work.schedule.family} {node.kind.value} {list(node.type.dims)}"
            us = known[key] if key in known else predict_us(work.program, H200)
        known[key] = us
        kinds[name].count += 1
        kinds[name].us += us
        rounds[its_round] = max(rounds[its_round], us)
    return kinds, len(rounds), sum(rounds.values())


def launches_us(compiled: CompiledRegion) -> float:
    """Predicted microseconds of a region's launches, one behind the other."""
    from tf_stitch.device.spec import H200
    from tf_stitch.placement.executable import DeviceLaunch
    from tf_stitch.planning.cost_model import predict_together, predict_us

    us = {symbol: predict_us(programs[0], H200) if len(programs) == 1 else predict_together(programs, H200).us
          for symbol, programs in compiled.programs.items()}
    return sum(us[step.symbol] for step in compiled.executable.steps if isinstance(step, DeviceLaunch))


def main(_: Sequence[str]) -> None:
    from tf_stitch.passes import matmuls_to_kernels
    from tools.benchmark.gpu_regions import regions_of

    if _LIBRARY.value:
        matmuls_to_kernels.REPEATED_IN_KERNELS = False
    os.environ.setdefault("TF_STITCH_LOOP_OP", "1")  # as where a GPU and a compiler for it are
    for name in _NAMES.value:
        for mode in _MODES.value:
            found = regions_of(traced(name, mode, _CONFIG.value))
            print(f"{name} {mode}: {len(found.regions.regions)} regions, {len(found.state.native)} loops", flush=True)
            for number, region in enumerate(found.regions.regions):
                _plan(f"region {number}", region)
            for loop in found.state.native:
                _plan(f"body of {loop.name}", loop.parts["body"])


def _plan(what: str, region: RegionGraph) -> None:
    from tf_stitch.compiler.options import CompileOptions
    from tf_stitch.compiler.pipeline import compile_region
    from tf_stitch.device.spec import H200
    from tf_stitch.jit.collector import collector_paused

    if not all(n.type.is_static for n in region.graph.nodes()):
        print(f"    {what}: {len(region.members)} nodes, sizes unknown", flush=True)
        return
    start = time.process_time()
    with collector_paused():
        compiled = compile_region(region.graph, region.input_keys, region.variable_keys, CompileOptions(H200))
    seconds = time.process_time() - start
    kinds, rounds, us = kinds_of(compiled)
    steps, calls = len(compiled.executable.steps), len(compiled.calls)
    print(f"    {what}: {len(region.members)} nodes, {steps} steps, {calls} calls, {rounds} rounds, "
          f"{us:.0f} us ({launches_us(compiled):.0f} of launches), {len(set(compiled.launches))} launches in source, "
          f"{seconds:.1f} s", flush=True)
    for kind, work in sorted(kinds.items(), key=lambda item: -item[1].us)[:15 * _KINDS.value]:
        print(f"        {work.count} x {kind}: {work.us / work.count:.2f} us", flush=True)


if __name__ == "__main__":
    app.run(main)
