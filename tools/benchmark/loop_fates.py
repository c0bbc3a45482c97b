"""What becomes of the loops of TensorFlow's graphs, on a CPU or as if they were on a GPU; needs none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tf_stitch.config import load_config
from tf_stitch.device.spec import CPU, H200
from tf_stitch.frontend.tensorflow.control_flow import ENTERS, WHILES
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.frontend.tensorflow.memory_types import has_gpu_kernel
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.graph_item import GraphItem
from tf_stitch.graph.pipeline import GraphOptions, graph_passes
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import run_passes

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
EVERYWHERE = ("_Arg", "_Retval")


@dataclass(frozen=True)
class Loop:
    """What became of one, in words."""

    name: str
    fate: str


class Watcher:
    """Looks at graphs as TensorFlow offers them, and leaves them as they are.

    Args:
        device: "CPU", or "GPU": nodes are put where TensorFlow would have them, on the GPU where it has a kernel.
    """

    def __init__(self, device: str = "GPU") -> None:
        self.loops: list[Loop] = []
        self._device = device

    def see(self, item: GraphItem) -> None:
        nodes = item.graph_def.node
        if item.is_tf_data or not any(node.op in ENTERS | WHILES for node in nodes):
            return
        types = {node.name: item.output_types(node.name) for node in nodes}
        if self._device == "GPU":
            for node in nodes:
                if node.op in EVERYWHERE or has_gpu_kernel(node):
                    node.device = GPU
        everything = dict.fromkeys(("CPU", "GPU"), Matmuls.ALL)
        config = load_config()
        state = GraphState(item.graph_def, lambda name: types.get(name, []), item.preserved, everything,
                           device_type=self._device)
        profiles = {"CPU": CPU.profile, "GPU": H200.profile}
        options = GraphOptions.by(config, self._device, native=True, profiles=profiles, controls=Controls(config))
        self.loops += fates(run_passes(state, graph_passes(options)))


def fates(done: GraphState) -> Iterator[Loop]:
    for entry in done.loops:
        ways = f"unrolled, {entry.steps} steps" if entry.steps is not None else "unrolled for each length"
        yield Loop(entry.name, ways if entry.reason is None else f"stays: {entry.reason}")
    for loop in done.native:
        decided = "" if loop.host is None else \
            ", the host decides" if loop.host.decides else ", the host waits for its condition"
        yield Loop(loop.frame, f"one op{decided}; {len(loop.body.members)} nodes in its body")


def rows(loops: Sequence[Loop]) -> list[str]:
    """Each once: TensorFlow offers a graph again."""
    return [f"{loop.name}: {loop.fate}" for loop in Counter(loops)] or ["no loops"]


def failed(error: Exception) -> None:
    raise error
