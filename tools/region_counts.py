"""How many regions networks of Keras have on an H200, and what splits them: found without a GPU.

TensorFlow's optimizer is told of a GPU, which it then lays images out for; regions are found in what it makes, and not
compiled unless --plan asks for it.

    python -m tools.region_counts                                          # about 5 minutes
    python -m tools.region_counts --networks=ResNet50 --modes=train --policies=float32 --plan
    python -m tools.region_counts --out=DIR     writes the regions as texts, for `emitted_sources --graphs=DIR`
    python -m tools.region_counts --cases=gpt2_train,swin_train --models=bert --modes=train --out=DIR
                                                in the sizes that are measured, for `planning_benchmark --graphs=DIR`

Prints a line for each network: regions, nodes in them, by reason how many nodes with work no region holds, and the
processor seconds in which regions were found in what TensorFlow's optimizer made; with --plan those of compiling, too.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import app, flags

if TYPE_CHECKING:
    from tf_stitch.graph.pipeline import FoundRegions

MODES = ("train", "infer")
BATCH = 2

_NETWORKS = flags.DEFINE_list("networks", None, "of models/vision.py, language.py and kinds, small; all by default")
_CASES = flags.DEFINE_list("cases", [], "of tools/benchmark/network_cases.py, in place of networks")
_MODELS = flags.DEFINE_list("models", [], "of models/zoo.py, in place of networks")
_CONFIG = flags.DEFINE_string("config", "paper", "of the zoo's models")
_MODES = flags.DEFINE_list("modes", list(MODES), "train, infer")
_POLICIES = flags.DEFINE_list("policies", ["float32", "mixed_bfloat16"], "of element types")
_SIZE = flags.DEFINE_integer("size", 64, "height and width of the images of models/vision.py")
_PLAN = flags.DEFINE_bool("plan", False, "compile the regions too, as far as sources")
_NODES = flags.DEFINE_bool("nodes", False, "name the nodes that no region holds")
_OUT = flags.DEFINE_string("out", None, "folder to write texts of regions into, NAME_POLICY_MODE.region.txt.gz")


def steps() -> Iterator[tuple[str, Any]]:
    """Names of steps, and the steps as concrete functions."""
    from models import kinds, language, vision
    from tools.benchmark.network_cases import CASES
    from tools.benchmark.traced_steps import network_case, small_network, zoo_model

    for name in _CASES.value:
        yield name, network_case(CASES[name])
    for name in _MODELS.value:
        for mode in _MODES.value:
            yield f"{name}_{_CONFIG.value}_{mode}", zoo_model(name, mode, _CONFIG.value)
    if _NETWORKS.value or not (_CASES.value or _MODELS.value):
        for name in _NETWORKS.value or (*vision.NAMES, *language.NAMES, *kinds.NAMES):
            for policy in _POLICIES.value:
                for mode in _MODES.value:
                    yield f"{name}_{policy}_{mode}", small_network(name, mode, policy, _SIZE.value, BATCH)


def main(_: Sequence[str]) -> None:
    from tf_stitch.graph.pipeline import find_regions
    from tf_stitch.jit.collector import collector_paused
    from tools.benchmark.gpu_regions import counted, state_of

    for name, step in steps():
        state, options = state_of(step)
        start = time.process_time()
        with collector_paused():
            found = find_regions(state, options)
        seconds = time.process_time() - start
        count = counted(found)
        left_out = "; ".join(f"{n} {reason}" for reason, n in count.left_out.most_common(20))
        print(f"{name}: {count.regions} regions, {count.members} nodes, found in {seconds:.1f} s; left out: {left_out}",
              flush=True)
        if _NODES.value:
            _print_nodes(found)
        if _PLAN.value:
            _plan(found)
        if _OUT.value:
            _write(found, Path(_OUT.value) / f"{name}.region.txt.gz")


def _print_nodes(found: FoundRegions) -> None:
    nodes = found.state.imported.nodes
    for name, reason in found.regions.left_out.items():
        if nodes[name].weight:
            print(f"    {name} ({nodes[name].op}): {reason}")


def _write(found: FoundRegions, path: Path) -> None:
    from tf_stitch.ir.text_format import anonymous_text

    texts = dict.fromkeys(anonymous_text(region.graph) for region in found.regions.regions)
    path.parent.mkdir(parents=True, exist_ok=True)
    named = [text.replace("graph ", f"graph region_{i}", 1) + "\n" for i, text in enumerate(texts)]
    path.write_bytes(gzip.compress("".join(named).encode(), mtime=0))  # no name and time: equal graphs are equal files


def _plan(found: FoundRegions) -> None:
    from tf_stitch.compiler.options import CompileOptions
    from tf_stitch.compiler.pipeline import compile_region
    from tf_stitch.device.spec import H200
    from tf_stitch.jit.collector import collector_paused

    for number, region in enumerate(found.regions.regions):
        start = time.process_time()
        with collector_paused():
            compiled = compile_region(region.graph, region.input_keys, region.variable_keys, CompileOptions(H200))
        print(f"    region {number}: {len(region.members)} nodes, {len(compiled.kernels)} kernels, "
              f"{len(compiled.calls)} library calls, {time.process_time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    app.run(main)
