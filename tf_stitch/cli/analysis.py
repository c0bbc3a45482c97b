"""What tf_stitch would make of a graph, found without running it: the report's document, by the planner alone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.config import StitchConfig
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import StitchError
from tf_stitch.frontend.tensorflow.importer import TypesOf
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.clustering.node_entries import node_entries
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.graph.pipeline import GraphOptions, find_regions
from tf_stitch.graph.state import GraphState
from tf_stitch.ir.bind import bind
from tf_stitch.ir.graph import key_of
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.ir.types import Symbol
from tf_stitch.jit.libraries import scope_of
from tf_stitch.jit.pattern_fuel import PatternFuel
from tf_stitch.pass_manager import Instrument
from tf_stitch.planning.matmul_choice import stitching_of
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.report.build_entries import Place, build_entries
from tf_stitch.report.entries import GraphEntry, LoopEntry, RegionEntry
from tf_stitch.report.report import Report
from tf_stitch.schedule.reuse import Reuse
from tf_stitch.targets.registry import target_of


class Analysis:
    """Collects graphs into one report.

    Args:
        size: stands for every size that is known at run time only; None leaves regions with such sizes unplanned.
    """

    def __init__(self, config: StitchConfig, device: DeviceSpec, size: int | None = None) -> None:
        self._config, self._device, self._size = config, device, size
        self._plan_options = PlanOptions(config.planner, config.ilp_seconds,
                                         matmuls=stitching_of(config.matmuls, device))
        self._controls = Controls(config)
        self._fuel = PatternFuel(config.fuel)
        self._regions = 0
        self.report = Report()

    def document(self) -> dict[str, Any]:
        """As report.json holds it, with the kernels' sources by name."""
        return self.report.document() | {"sources": self.report.sources()}

    def add(self, graph_id: str, graph_def: GraphDef, types_of: TypesOf, preserved: frozenset[str]) -> None:
        """Finds the regions of a graph and plans those whose shapes are known.

        Raises:
            StitchError: the graph cannot be read.
        """
        start = time.perf_counter()
        device = target_of(self._device).device_type
        profiles = {"CPU": CPU.profile, "GPU": H200.profile, device: self._device.profile}
        options = GraphOptions.by(self._config, device, True, profiles, self._controls)
        instrument = Instrument[GraphState]()
        scope = scope_of(self._config.scope, convolutions=True)
        found = find_regions(GraphState(_placed(graph_def, device), types_of, preserved, scope, device_type=device),
                             replace(options, need_fallback=False), instrument)
        state, imported, regions = found.state, found.state.imported, found.regions
        regions.keep(self._controls.take(len(regions.regions)), self._controls.out_of_fuel)
        region_of: dict[str, int] = {}
        ops = {name: node.op for name, node in imported.nodes.items()}

        def add(region: RegionGraph) -> int:
            number, self._regions = self._regions, self._regions + 1
            region_of.update(dict.fromkeys(region.members, number))
            self.report.add(RegionEntry(number, graph_id, device, "analysed", {m: ops[m] for m in region.members},
                                        len(region.inputs), len(region.handles), len(set(region.outputs.values()))))
            return number

        entries = list(state.loops)
        for loop in state.native:
            ops |= loop.nodes
            whole, condition, body = add(loop.region()), add(loop.condition), add(loop.body)
            self._plan(condition, loop.condition)
            self._plan(body, loop.body)
            entries.append(LoopEntry(loop.frame, None, None, (whole, body, condition)))
        for region in regions.regions:
            self._plan(add(region), region)
        nodes = node_entries(state.shown(), region_of, regions.left_out)
        left_out = Counter(n.reason for n in nodes if n.reason is not None and imported.nodes[n.name].weight)
        self.report.add(GraphEntry(graph_id, device, nodes, len(region_of), sorted(set(region_of.values())),
                                   dict(left_out), round((time.perf_counter() - start) * 1e3, 3), entries,
                                   {name: round(s * 1e3, 3) for name, s in instrument.seconds.items()},
                                   state.count.imports, branches=list(state.branches)))

    def _plan(self, number: int, region: RegionGraph) -> None:
        where = f"region {number}"
        shapes = self._shapes(region)
        if shapes is None:
            self.report.note("plan", where, "its sizes are known at run time only, or by --size")
            return
        text = anonymous_text(region.graph)
        patterns = self._fuel.limit(number, text)
        try:
            graph = bind(region.graph, shapes)
            compiled = compile_region(graph, region.input_keys, region.variable_keys,
                                      CompileOptions(self._device, self._plan_options, patterns=patterns,
                                                     reuse=Reuse(self._config.reuse), memory=self._config.memory))
        except StitchError as error:
            self.report.note("plan", where, str(error))
            return
        self._fuel.spend(text, compiled.plan)
        source = f"region_{number}_0.{target_of(self._device).suffix}" if compiled.source else None
        if source is not None:
            self.report.add_source(source, compiled.source)
        for entry in build_entries(Place(number, 0), graph, list(shapes.values()), compiled, self._device, False,
                                   source, {}, lambda _: None):
            self.report.add(entry)

    def _shapes(self, region: RegionGraph) -> dict[str, Sequence[int]] | None:
        """Shapes of the region's inputs and variables, None where one is not known."""
        shapes: dict[str, Sequence[int]] = {}
        for node in region.graph.inputs():
            dims = [self._size if isinstance(d, Symbol) else d for d in node.type.shape]
            known = [d for d in dims if d is not None]
            if len(known) < len(dims):
                return None
            shapes[key_of(node)] = known
        return shapes


def _placed(graph_def: GraphDef, device: str) -> GraphDef:
    """The graph with nodes that are nowhere on the device, as TensorFlow would place most of them."""
    placed = GraphDef()
    placed.CopyFrom(graph_def)
    for node in placed.node:
        node.device = node.device or f"/device:{device}:0"
    return placed
