"""Every stage as text, in the folder that TF_STITCH_DUMP_DIR names."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Sequence
from pathlib import Path

from tf_stitch.atomic_file import write_atomically
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.compiler.tilings import template_of
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.text_format import format_graph
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.kernel_ir.text_format import format_program
from tf_stitch.libraries.call import Library
from tf_stitch.messages import say
from tf_stitch.pass_manager import Instrument
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.planning.pattern_kind import kind_of
from tf_stitch.planning.stitch_plan import StitchPlan
from tf_stitch.report.entries import NodeEntry
from tf_stitch.schedule.composition import compositions
from tf_stitch.shared_folder import opened
from tf_stitch.targets.registry import target_of


class Dump:
    """Writes files into a folder; with None it does nothing. Thread-safe."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._graphs = itertools.count()
        self._lock = threading.Lock()

    @property
    def wanted(self) -> bool:
        return self._folder is not None

    def write(self, name: str, text: str) -> None:
        """Writes a file. The first failure is said, and ends dumping: the program goes on."""
        with self._lock:
            if self._folder is None:
                return
            try:
                with opened(self._folder, links=True) as place:
                    write_atomically(place / name, text.encode(), 0o644, durable=False)
            except OSError as error:
                say(f"no more dumps: {error}")
                self._folder = None

    def imported(self, graph_id: str, imported: ImportedGraph, nodes: Sequence[NodeEntry]) -> None:
        """Every node of a graph, with the types of its IR values and its region or why it has none."""
        if not self.wanted:
            return
        where = {n.name: f"region {n.region}" if n.region is not None else f"left out: {n.reason}" for n in nodes}
        lines = [f"graph {graph_id}"]
        for node in imported.nodes.values():
            values = ", ".join("?" if v is None else str(v.type) for v in node.outputs)
            lines.append(f"  {node.name} = {node.op}({', '.join(node.inputs)}) : ({values})"
                         f"{'' if node.weight else ' costs nothing'}  // {where.get(node.name, '')}")
        number = next(self._graphs)
        self.write(f"graph_{number}_{re.sub('[^A-Za-z0-9_.-]+', '_', graph_id)[:80]}.imported.txt",
                   "\n".join(lines) + "\n")


class RegionDump:
    """The stages of one build; `stem` begins the names of its files."""

    def __init__(self, dump: Dump, stem: str) -> None:
        self._dump, self._stem = dump, stem
        self._passes, self._plan_passes = itertools.count(1), itertools.count(1)

    def graph(self, graph: TensorGraph) -> None:
        """The graph before the first pass."""
        if self._dump.wanted:
            self._dump.write(f"{self._stem}.graph.0_bound.txt", format_graph(graph))

    def instrument(self) -> Instrument[TensorGraph] | None:
        """Writes the graph after every pass that changed it."""
        return Instrument(after=(self._after,)) if self._dump.wanted else None

    def plan_instrument(self) -> Instrument[KernelPlan] | None:
        """Writes the patterns after every plan pass that changed the plan."""
        return Instrument(after=(self._after_plan_pass,)) if self._dump.wanted else None

    def _after_plan_pass(self, name: str, kernels: KernelPlan) -> None:
        work = "".join(f"work {i}: {', '.join(_argument(node, mode) for node, mode in one.arguments)}\n"
                       for i, one in enumerate(kernels.work))
        self._dump.write(f"{self._stem}.plan.{next(self._plan_passes)}_{name}.txt",
                         _plan_text(kernels.plan, kernels.plan.libraries) + work)

    def _after(self, name: str, graph: TensorGraph) -> None:
        self._dump.write(f"{self._stem}.graph.{next(self._passes)}_{name}.txt", format_graph(graph))

    def compiled(self, compiled: CompiledRegion, device: DeviceSpec) -> None:
        """Plan, schedules, kernel programs and source."""
        if not self._dump.wanted:
            return
        self._dump.write(f"{self._stem}.plan.txt", _plan_text(compiled.plan, target_of(device).libraries))
        self._dump.write(f"{self._stem}.schedules.txt", "".join(
            f"kernel {i} in {launch or 'no launch'}, {predict_us(kernel.program, device):.3f} us predicted\n"
            f"  computes {kernel.program.title}\n{kernel.schedule.text()}\n"
            f"  template {template_of(kernel.schedule)}\n"
            f"  composed by {', '.join(one.value for one in compositions(kernel.schedule)) or 'nothing'}\n"
            for i, (kernel, launch) in enumerate(zip(compiled.kernels, compiled.launches, strict=True))))
        self._dump.write(f"{self._stem}.kernel_ir.txt", "\n".join(
            f"// kernel {i} in {launch or 'no launch'}\n{format_program(kernel.program)}"
            for i, (kernel, launch) in enumerate(zip(compiled.kernels, compiled.launches, strict=True))))
        self._dump.write(f"{self._stem}.memory.txt", _memory_text(compiled))
        self._dump.write(f"{self._stem}.source.{target_of(device).suffix}", compiled.source)


def _argument(node: Node, mode: Mode) -> str:
    """What a kernel or a call reads or writes."""
    return f"{mode.value} {node.kind.value} {node.type} ({node.loc})"


def _memory_text(compiled: CompiledRegion) -> str:
    """The arena over time, and each of its values with its life."""
    buffers, profile = compiled.buffers, compiled.memory
    lines = [f"arena {sum(buffers.arena)} bytes, alive at most {buffers.live_bytes}, in any order of the kernels at "
             f"least {profile.least_bytes}",
             f"alive at each time: {' '.join(map(str, profile.alive))}"]
    lines += [f"{life.first} to {life.last}: {life.nbytes} bytes {node.kind.value} {node.type}  // {node.loc}"
              for node, life in buffers.lives.items()]
    return "\n".join(lines) + "\n"


def _plan_text(plan: StitchPlan, libraries: Sequence[Library]) -> str:
    """The solver's result, and every pattern by the nodes it computes."""
    lines = [str(plan.solver)]
    for i, pattern in enumerate(plan.patterns):
        what = "a library call of " if isinstance(kind_of(pattern, libraries), Library) else ""
        lines.append(f"pattern {i}: {what}{len(pattern.nodes)} nodes, {len(pattern.outputs)} outputs")
        outputs = set(pattern.outputs)
        lines += [f"  {'out ' if node in outputs else ''}{node.kind.value} {node.type}  // {node.loc}"
                  for node in pattern.nodes]
    return "\n".join(lines) + "\n"
