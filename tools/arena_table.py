"""Bytes of the arenas of regions, beside the least that any order of their kernels could do with: as a GPU plans them,
with no GPU.

    python -m tools.arena_table                                  regions of the zoo's models and of the scripts' steps
    python -m tools.arena_table --graphs=DIR --least_mib=0       texts that TF_STITCH_DUMP_DIR wrote
    python -m tools.arena_table --given                          in the order of their plans
    python -m tools.arena_table --device=cpu                     as a CPU plans them
    python -m tools.arena_table --names=encoder_train --holders=10

Columns: MiB of the arena, of what is alive at one time, of the bound; kernels and levels; seconds to plan. `--holders`
lists the values that are there when most are.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from absl import app, flags

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import planned_kernels
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_attrs import InputAttrs, VariableAttrs
from tf_stitch.ir.text_parser import parse_graph, parse_graphs
from tf_stitch.placement import memory_order
from tf_stitch.placement.memory_profile import memory_profile

MIB = 1 << 20
FOLDER = Path(__file__).resolve().parents[1] / "tests" / "planning" / "graphs" / "zoo"
"""See tools/zoo_graphs.py."""

_NAMES = flags.DEFINE_list("names", None, "of the texts; all")
_GRAPHS = flags.DEFINE_string("graphs", None, "a folder of region_*.graph.0_bound.txt")
_LEAST = flags.DEFINE_float("least_mib", 0.125, "arenas below this are left out")
_DEVICE = flags.DEFINE_enum("device", "h200", ["h200", "cpu"], "what plans are for")
_GIVEN = flags.DEFINE_boolean("given", False, "in the order of the plan, whatever another would save")
_HOLDERS = flags.DEFINE_integer("holders", 0, "values at the peak that are listed")


def regions() -> Iterator[tuple[str, TensorGraph]]:
    """The regions with their names."""
    if _GRAPHS.value:
        for path in sorted(Path(_GRAPHS.value).glob("*.graph.0_bound.txt")):
            yield path.name.split(".")[0], parse_graph(path.read_text())
        return
    for path in sorted(FOLDER.glob(f"*.{'region' if _DEVICE.value == 'h200' else 'ops'}.txt.gz")):
        for graph in parse_graphs(gzip.decompress(path.read_bytes()).decode()):
            yield path.name.split(".")[0], graph


def keys_of(graph: TensorGraph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of inputs and variables in some order."""
    attrs = [node.attrs for node in graph.inputs()]
    handles = [a.handle for a in attrs if isinstance(a, VariableAttrs)]
    handles += [node.attrs.handle for _, node in graph.outputs if hasattr(node.attrs, "handle")]
    return tuple(a.key for a in attrs if isinstance(a, InputAttrs)), tuple(dict.fromkeys(handles))


def main(_: Sequence[str]) -> None:
    print("region                     arena    alive    least  kernels levels  seconds")
    if _GIVEN.value:
        memory_order.LEAST_SHARE = 2
    device = {"h200": H200, "cpu": CPU}[_DEVICE.value]
    for name, graph in regions():
        if _NAMES.value and name not in _NAMES.value:
            continue
        start = time.perf_counter()
        plan = planned_kernels(graph, *keys_of(graph), CompileOptions(device)).buffers
        seconds = time.perf_counter() - start
        if sum(plan.arena) < _LEAST.value * MIB:
            continue
        profile = memory_profile(plan)
        print(f"{name:24} {sum(plan.arena) / MIB:8.2f} {plan.live_bytes / MIB:8.2f} {profile.least_bytes / MIB:8.2f} "
              f"{len(plan.kernels):8} {len(set(plan.levels)):6} {seconds:8.1f}", flush=True)
        for node, nbytes in profile.holders[:_HOLDERS.value]:
            life = plan.lives[node]
            print(f"    {nbytes / MIB:8.2f} MiB, levels {life.first} to {life.last}: {node}")


if __name__ == "__main__":
    app.run(main)
