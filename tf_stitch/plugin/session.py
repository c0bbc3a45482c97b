"""One process with tf_stitch on: rewrites graphs, builds regions when they first run, falls back, reports."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager import context
from tensorflow.python.framework.config import is_op_determinism_enabled

from tf_stitch.config import StitchConfig
from tf_stitch.errors import (
    BuildError,
    BuildInterruptedError,
    BuildPending,
    EmptyTensorError,
    GraphLeftAloneError,
    StitchError,
    VerifyError,
)
from tf_stitch.frontend.tensorflow.held_handles import original_name
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph
from tf_stitch.frontend.tensorflow.own_ops import TOKEN
from tf_stitch.frontend.tensorflow.registry import is_convolution
from tf_stitch.graph.branches.branch_entries import nodes_of
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.clustering.node_entries import node_entries
from tf_stitch.graph.clustering.py_function import py_function_node
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.graph.clustering.stitch_node import stitch_node
from tf_stitch.graph.fallback.fallback_subgraph import FallbackSubgraph
from tf_stitch.graph.graph_item import GraphItem
from tf_stitch.graph.loops.while_node import NativeLoop, number_regions
from tf_stitch.graph.pipeline import FoundRegions, GraphOptions, find_regions
from tf_stitch.graph.shapes.branch_sizes import types_between_branches
from tf_stitch.graph.state import GraphState, ImportCount
from tf_stitch.jit.build_budget import BuildBudget
from tf_stitch.jit.build_key import Key
from tf_stitch.jit.collector import collector_paused
from tf_stitch.jit.libraries import Libraries
from tf_stitch.jit.lifetimes import Lifetimes
from tf_stitch.jit.profitability import ProfitabilityCheck
from tf_stitch.jit.region_builder import CPU_ORDINAL, Built
from tf_stitch.jit.region_registry import RegionRegistry
from tf_stitch.messages import PATIENCE, say
from tf_stitch.native.bindings import DeviceMemory, OpLibrary
from tf_stitch.pass_manager import Instrument
from tf_stitch.plugin.changing_calls import calls_may_change, may_run_both
from tf_stitch.plugin.failing_graph import failing_graph
from tf_stitch.plugin.fallbacks import Fallbacks, reason_of
from tf_stitch.plugin.first_calls import FirstCalls
from tf_stitch.plugin.gpu_calls import gpu_memory
from tf_stitch.plugin.known_functions import KnownFunctions
from tf_stitch.plugin.rewrite_timing import RewriteTiming
from tf_stitch.plugin.run_counts import count, record_native
from tf_stitch.plugin.source_lines import source_lines
from tf_stitch.plugin.stitched_steps import step_turns, surroundings
from tf_stitch.report.dump import Dump
from tf_stitch.report.entries import BranchEntry, GraphEntry, LoopEntry, RegionEntry
from tf_stitch.report.report import MOST_GONE, REPORT, Report, set_aside, write_report
from tf_stitch.report.verdict import is_second_pass
from tf_stitch.runtime.device_profiles import profiles
from tf_stitch.runtime.device_query import reach_each_other
from tf_stitch.runtime.host_builder import has_host_kernels

_PYTHON_STATE = ("PyFunc", "EagerPyFunc", "PyFuncStateless", "NumpyFunction")


class Session:
    """Called by the graph hook and the native op, on any thread.

    Args:
        native: the op library; None wraps regions in py_function.
        process: whose report is report.json, by its number; those of others have their number in their names. None:
            this one.
        first_calls: which functions run TensorFlow's graph still; None: none does.
    """

    def __init__(self, config: StitchConfig, native: OpLibrary | None, process: int | None = None,
                 first_calls: FirstCalls | None = None) -> None:
        self._config, self._native = config, native
        self.report = Report(most_gone=MOST_GONE if config.report_dir is not None else 0)
        self._dump = Dump(config.dump_dir)
        self._libraries = Libraries(config.scope, native, self.report)
        self.registry = RegionRegistry(config, self.report, self._dump, self._libraries,
                                       *() if native is None else (native.load_ahead,))
        self.profitability = ProfitabilityCheck(config, self.registry, self.report, self._where, surroundings,
                                                self._gave_way)
        self._controls = Controls(config)
        if native is not None:
            native.set_graphs(config.cuda_graphs, config.programmatic)
        self._names = itertools.count()
        self.fallbacks = Fallbacks(config, self.registry, self.report, self._where)
        self._budgets: dict[int, BuildBudget] = {}  # of regions that need not wait for their kernels
        self.lifetimes = Lifetimes(native.region_kernels if native is not None else lambda region: 1,
                                   context.context().has_function, self._end)
        self._graphs = itertools.count()
        self.first_calls = first_calls
        self.turns = step_turns(config.cache_dir / "steps", KnownFunctions(config, self.registry.functions),
                                first_calls, self.report) if calls_may_change(config, native) else None
        self._numbers_of: dict[str, tuple[int, ...]] = {}  # of graphs whose kernels are not built yet, nor asked for
        self._process = os.getpid() if process is None else process

    def rewrite(self, item: GraphItem) -> GraphDef | None:
        """The graph with regions replaced, or None to leave it. In strict mode a graph that cannot be rewritten is
        replaced by one that fails with the reason."""
        try:
            return self._rewrite(item)
        except Exception as error:
            if not self._config.strict:
                raise  # the hook reports it, and TensorFlow runs the graph as it is
            self.hook_error(error)
            return failing_graph(item.graph_def, item.preserved, f"TF_STITCH=strict: {reason_of(error)}")

    @collector_paused()
    def _rewrite(self, item: GraphItem) -> GraphDef | None:
        start = time.perf_counter()
        instrument = Instrument[GraphState]()
        try:
            self._may_rewrite(item)
            convolutions = any(is_convolution(node.op) for node in item.graph_def.node)
            types_of = types_between_branches(item.graph_def, item.output_types)
            state = GraphState(item.graph_def, types_of, item.preserved,
                               self._libraries.devices(item.device_type, convolutions), item.feeds, item.device_type,
                               item.is_own)
            options = GraphOptions.by(self._config, item.device_type, self._native is not None,
                                      profiles(self._config.cache_dir), self._controls,
                                      lambda: self._libraries.has_nccl, reach_each_other)
            found = find_regions(state, options, instrument)
        except GraphLeftAloneError as error:
            reasons = {n.name: error.message for n in item.graph_def.node}
            self._seen(item, item.graph_def, {}, reasons, RewriteTiming(start, instrument.seconds, ImportCount()))
            return None
        found.regions.keep(self._controls.take(len(found.regions.regions)), self._controls.out_of_fuel)
        return self._replaced(item, found, instrument, RewriteTiming(start, instrument.seconds, state.count))

    def _replaced(self, item: GraphItem, found: FoundRegions, instrument: Instrument[GraphState], timing: RewriteTiming
                  ) -> GraphDef | None:
        """The graph with nodes that run its regions; None if it has none."""
        state, group = found.state, next(self._graphs)
        region_of: dict[str, int] = {}
        budget = self._new_budget(item.graph_id)

        def make_node(region: RegionGraph, device: str, controls: Sequence[str]) -> NodeDef:
            number = self._register(region, group, found.fallback(region), budget)
            region_of.update(dict.fromkeys(region.members, number))
            wrap = "native" if self._native is not None else "py_function"
            self.report.add(RegionEntry(number, item.function, device, wrap,
                                        {m: state.imported.nodes[m].op for m in region.members}, len(region.inputs),
                                        len(region.handles), len(set(region.outputs.values()))))
            name = f"tf_stitch_{next(self._names)}/{region.members[-1]}"
            if self._native is not None:
                return stitch_node(name, region, number, device, controls, TOKEN)
            return py_function_node(name, region, lambda *arrays: self.fallbacks.run_in_python(number, arrays), device,
                                    controls)

        numbers = {loop.name: self._register_loop(loop, item.function, group, region_of, budget)
                   for loop in state.native}
        try:
            rewritten = found.replaced(make_node, instrument) if found.regions.regions or numbers else None
        except VerifyError:  # nobody will run what was registered
            self._end([*region_of.values(), *(n for own in numbers.values() for n in own.values())])
            raise
        if rewritten is not None:
            number_regions(rewritten, numbers, TOKEN)
        entries = [*state.loops, *(LoopEntry(loop.frame, None, None, tuple(numbers[loop.name].values()))
                                   for loop in state.native)]
        if self.first_calls is not None and self.first_calls.began(item.graph_id):
            self._numbers_of.setdefault(item.graph_id, tuple(dict.fromkeys(region_of.values())))
        if not item.is_called:
            self.lifetimes.begin(item.graph_id, sorted(
                {*region_of.values(), *(n for own in numbers.values() for n in own.values())}))
        self._seen(item, state.shown(), region_of, found.regions.left_out, timing, state.imported, entries,
                   state.branches)
        return rewritten

    def _gave_way(self, from_call: int, known: bool) -> None:
        if self.turns is not None:
            self.turns.region_gives_way(from_call, known)

    def stays(self, graph: str, error: Exception) -> None:
        """A function that cannot be rewritten runs TensorFlow's graph."""
        self.report.fallback("rewrite", original_name(graph), reason_of(error))

    def build_ahead(self, graph: str) -> bool:
        """Builds the regions of a graph whose sizes are known. Whether that is all."""
        entries = self.report.regions_of(self._numbers_of.get(graph, ()))
        places = {entry.id: _ordinal(entry.device) for entry in entries}
        for ordinal, memory in enumerate(gpu_memory(context.context())):
            self.registry.memory.saw(ordinal, memory)
        tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
        complete = self.registry.build_ahead(places, tf32)
        self._numbers_of.pop(graph, None)
        return complete

    def finish_builds(self, seconds: float) -> bool:
        """Waits for all that is done beside the program, this many seconds at most; what its next calls lack they wait
        for. Whether nothing is left."""
        end = time.monotonic() + seconds
        over = self.first_calls is None or self.first_calls.finish(seconds)
        for budget in list(self._budgets.values()):
            budget.allow(self._config.first_step_seconds or math.inf)
        return self.registry.finish_builds(max(0.0, end - time.monotonic())) and over

    def _new_budget(self, graph: str) -> BuildBudget | None:
        """How long a graph's steps wait for kernels; None for as long as that takes, so that each run of a program
        computes by the same kernels, or shows what is wrong with them."""
        config = self._config
        if self.first_calls is not None and self.first_calls.changes_any_time(graph):
            return BuildBudget(0.0, lambda: None)  # its steps are TensorFlow's in any case
        seconds = config.first_step_seconds
        if not seconds or not may_run_both(config) or config.async_builds == "1":
            return None
        return BuildBudget(seconds, lambda: self.report.remark(
            "build", original_name(graph), f"its kernels were not built within {seconds:g} s "
            "(TF_STITCH_FIRST_STEP_SECONDS): TensorFlow's own ops run until the background has built them"))

    def _register(self, region: RegionGraph, group: int, fallback: FallbackSubgraph | None, budget: BuildBudget | None
                  ) -> int:
        """The number of a region, which is built when it first runs."""
        number = self.registry.register(region, group)
        if fallback is not None:
            self.fallbacks.subgraphs[number] = fallback
            if budget is not None:
                self._budgets[number] = budget
        elif self._config.profitability_check:
            self.report.remark("profitability", self._where(number), "not timed against TensorFlow's ops: they read "
                               "what the region does not, and cannot be computed anew")
        return number

    def _register_loop(self, loop: NativeLoop, graph_id: str, group: int, region_of: dict[str, int],
                       budget: BuildBudget | None) -> dict[str, int]:
        """Numbers of the regions of a loop that runs as one op, by the node's attributes: itself, its body, others."""
        def register(region: RegionGraph, group: int) -> int:
            number = self.registry.register(region, group)
            region_of.update(dict.fromkeys(region.members, number))
            self.report.add(RegionEntry(number, graph_id, loop.device, "native",
                                        {m: loop.nodes[m] for m in region.members}, len(region.inputs), 0,
                                        len(set(region.outputs.values()))))
            return number

        whole = register(loop.region(), -1)
        self.registry.describe(whole, loop.parts.values(), str(loop))
        # The body is the last: with fuel for this one the loop begins to be stitched. What is for the host is not built
        # beside the body, which is for another device.
        parts = {name: register(part, group if name in loop.on_device else -1) for name, part in loop.parts.items()}
        self.fallbacks.subgraphs[whole] = loop.fallback_subgraph()
        if budget is not None:  # the fallback subgraph of the loop stands for its parts as well
            self._budgets.update(dict.fromkeys([whole, *parts.values()], budget))
        self._dump.write(f"region_{whole}.loop.txt", f"{loop}\n")
        return {"region": whole, "body": parts.pop("body")} | parts

    def _may_rewrite(self, item: GraphItem) -> None:
        """
        Raises:
            GraphLeftAloneError: the graph is not one to be rewritten.
        """
        if item.is_tf_data:
            raise GraphLeftAloneError("a function of an input pipeline")
        if any(n.op in _PYTHON_STATE for n in item.graph_def.node):
            raise GraphLeftAloneError("the graph holds Python functions")
        if item.device_type == "CPU" and not has_host_kernels(self.registry.cache.folder):
            reason = "no C compiler (gcc, cc or clang) on this machine, and no kernels in the cache"
            if self._config.strict:
                raise BuildError(reason)
            self.report.fallback("rewrite", item.function, reason)
            raise GraphLeftAloneError(reason)

    def _seen(self, item: GraphItem, graph_def: GraphDef, region_of: Mapping[str, int], reasons: Mapping[str, str],
              timing: RewriteTiming, imported: ImportedGraph | None = None, loops: Sequence[LoopEntry] = (),
              branches: Sequence[BranchEntry] = ()) -> None:
        """Records what became of every node of a graph."""
        nodes = node_entries(graph_def, region_of, reasons)
        numbers = sorted(set(region_of.values()))
        idle = set() if imported is None else {n.name for n in imported.nodes.values() if not n.weight}
        left_out = dict(Counter(n.reason for n in nodes if n.reason is not None and n.name not in idle))
        milliseconds = timing.milliseconds
        again = is_second_pass(node.op for node in graph_def.node)
        sources = {} if again or self._config.report_dir is None else source_lines(
            (*graph_def.node, *nodes_of(branches, item.graph_def)), item.function)
        self.report.add(GraphEntry(item.function, item.device_type, nodes, len(region_of), numbers, left_out,
                                   milliseconds, list(loops), timing.passes, timing.count.imports,
                                   sum(name not in idle for name in region_of), again, sources, list(branches)))
        if imported is not None:
            self._dump.imported(item.function, imported, nodes)
        if self._config.verbose:
            say(f"{item.function}: {len(region_of)} of {len(nodes)} nodes in {len(numbers)} regions, "
                  f"{milliseconds:.0f} ms")

    def fallback_bytes(self, region: int, device: int, key: tuple[int, ...]) -> int:
        """Bytes that a region's own nodes take, where the device's memory is limited; 0 where that is not known."""
        return self.registry.memory.own((region, device, Key.parse(key)))

    def build(self, region: int, device: int, key: tuple[int, ...], memory: DeviceMemory) -> Sequence[int] | None:
        """Words of the executable for one signature, None to fall back for good.

        Raises:
            BuildInterruptedError: to fall back until the op asks again.
        """
        self.registry.memory.saw(device, memory)
        try:
            return self._built(region, device, Key.parse(key)).words
        except BuildPending:
            raise
        except (BuildInterruptedError, MemoryError) as error:
            self.report.fallback("build", self._where(region), reason_of(error),
                                 "TensorFlow's own ops run instead; it is tried again a few times")
            raise BuildInterruptedError(reason_of(error)) from error
        except Exception as error:
            self.report.fallback("build", self._where(region), reason_of(error))
            if self._config.strict or isinstance(error, EmptyTensorError):  # the op keeps the reason
                raise
            return None

    def smaller(self, region: int, device: int, key: tuple[int, ...], free: int | None) -> Sequence[int]:
        """Words of an executable that takes less memory than the one for a signature, which had none.

        Args:
            free: bytes that are free; None: unknown.

        Raises:
            StitchError: there is none; the message says what the region would need.
        """
        try:
            return self.registry.build_smaller(region, device, Key.parse(key), free).words
        except Exception as error:
            self.report.remark("memory", self._where(region), f"no plan that takes less: {reason_of(error)}")
            raise StitchError(f"{self._where(region)}: {reason_of(error)}") from error

    def labels(self, region: int, device: int, key: tuple[int, ...]) -> dict[int, str]:
        """What a profiler is to call the steps of an executable, by their numbers."""
        try:
            return self.registry.labels(region, device, Key.parse(key))
        except Exception as error:  # such as a region that was dropped: the kernels are right all the same
            self.report.remark("profiler", f"region {region}", f"its kernels have no names: {error}")
            return {}

    def _built(self, region: int, device: int, key: Key) -> Built:
        """
        Raises:
            BuildPending: it is being built, and nobody should wait.
            StitchError: it cannot be built.
        """
        budget = self._budgets.get(region)
        if self._config.async_builds == "1" or (budget is not None and not is_op_determinism_enabled()):
            return self.registry.build_later(region, device, key, budget)
        return self.registry.build(region, device, key)

    def _end(self, regions: Sequence[int]) -> None:
        """Frees what was kept for a graph that is gone."""
        for entry in self.report.regions_of(regions):
            count(entry, self.registry, self._native)
        self.report.end(regions)
        for region in regions:
            self.fallbacks.subgraphs.pop(region, None)
            self._budgets.pop(region, None)
        self.registry.drop(regions)

    def _where(self, region: int) -> str:
        if region not in self.registry:
            return f"region {region}"
        members = self.registry.region(region).members
        return f"region {region} ({members[0]} ... {members[-1]})" if len(members) > 1 else f"region {region}"

    def not_held(self, function: str, error: Exception) -> None:
        """A function of which no copy that holds its variables could be made."""
        self.report.remark("function", function, f"takes its variables as arguments: {reason_of(error)}")

    def hook_error(self, exc: Exception) -> None:
        """A graph that could not be rewritten: TensorFlow runs it as it is."""
        if self.registry.ends:  # it was being rewritten beside the program
            return
        self.report.fallback("rewrite", "a graph", reason_of(exc))

    def document(self) -> dict[str, Any]:
        """report.json as a dict."""
        self._count_all()
        return self.report.document()

    def summary(self) -> str:
        """What was done and gained so far, in a line."""
        self._count_all()
        config = self._config
        off = "TF_STITCH_GUARD=0" if not config.profitability_check else "TF_STITCH=strict" if config.strict else ""
        return self.report.status_line(f"not timed ({off})" if off else "", str(self.first_calls or ""))

    def close(self) -> None:
        """Says what was done, and writes the report."""
        if self.first_calls is not None:
            self.first_calls.end(self.registry.finish_builds(0))
        if self.turns is not None:
            self.turns.end()
        self.registry.close()
        if self._native is not None:
            record_native(self._native, self.report, self._where)
        line = self.summary()
        waited = self.registry.activity.seconds
        line += f"; {waited:.0f} s to build" if waited >= PATIENCE else ""
        if self._config.report_dir is not None:
            try:
                if self._report_name() == REPORT:
                    set_aside(self._config.report_dir)
                document, sources = self.document(), self.report.sources()
                line += f"; {write_report(document, self._config.report_dir, sources, self._report_name())}"
            except OSError as error:
                line += f"; no report: {error}"
        say(line)

    def _count_all(self) -> None:
        for entry in self.report.regions:
            count(entry, self.registry, self._native)
        if self.turns is not None:
            self.report.steps = self.turns.entries()

    def _report_name(self) -> str:
        """A forked child's report is written beside its parent's."""
        return REPORT if os.getpid() == self._process else f"report_{os.getpid()}.json"


def _ordinal(device: str) -> int:
    """Of a region's device. Where a program hides GPUs from TensorFlow the driver may number them otherwise: then what
    is built ahead is not what runs."""
    spec = tf.DeviceSpec.from_string(device)
    return int(spec.device_index or 0) if spec.device_type == "GPU" else CPU_ORDINAL
