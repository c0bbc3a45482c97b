"""Compiles and builds regions: for the numbers of one shape signature, or for sizes that change."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.stored_plans import StoredPlans
from tf_stitch.compiler.template_choice import TemplateChoice
from tf_stitch.config import MemoryBudget, StitchConfig
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.rendered import Rendered
from tf_stitch.errors import ProfileError, StitchError
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_format import anonymous_text, format_graph
from tf_stitch.jit.build_remarks import log_built, remark_on
from tf_stitch.jit.collector import collector_paused
from tf_stitch.jit.expected_kernels import Expecting, expected_kernels
from tf_stitch.jit.kernel_library import Images, KernelLibrary
from tf_stitch.jit.libraries import OptionalCalls
from tf_stitch.jit.placed_region import PlacedRegion
from tf_stitch.jit.prebuild import Prebuilder
from tf_stitch.jit.shape_family import Preparation, ShapeFamily, Shapes
from tf_stitch.placement.executable import Executable, encode
from tf_stitch.planning.attention_calls import may_call
from tf_stitch.planning.matmul_choice import stitching_of
from tf_stitch.planning.measured_cost import MeasuredTimes
from tf_stitch.planning.measured_fusions import MeasuredFusions
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.planning.tuned_templates import TunedTemplates
from tf_stitch.report.build_entries import names_of
from tf_stitch.report.dump import Dump, RegionDump
from tf_stitch.report.report import Report
from tf_stitch.runtime.device_profiles import (
    device_spec,
    measured_fusions_path,
    measured_times_path,
    tuned_templates_path,
)
from tf_stitch.runtime.host_run import HostExecutable
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.kernel_resources import KernelResources
from tf_stitch.schedule.reuse import Reuse
from tf_stitch.targets.registry import target_of

CPU_ORDINAL = -1
OPTIONAL = {"fused_attention": "attentions", "convolution_epilogues": "what follows convolutions"}
"""What a library need not compute, by the member of DeviceSpec that lets it."""
MOST_KERNELS = 48
"""That a compiler builds in one run, where nobody waits for all of them: NVRTC takes some 40 ms for each."""


class _BuildLock:
    """Of builds of one thing: lives as long as one of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


@dataclass
class Built:
    """An executable with its binary loaded or at hand.

    Attributes:
        compiled: None where nothing had to be built: the kernels of other sizes serve.
        host: None on a GPU.
        images: what addresses in the words point to.
        fusions: of kernels that share blocks; None where none may.
    """

    compiled: CompiledRegion | None
    executable: Executable
    words: list[int]
    host: HostExecutable | None
    device: DeviceSpec
    aligned: bool
    times: MeasuredTimes
    tuned: TunedTemplates
    names: tuple[str, ...]  # of the nodes it was compiled for, operands first, if it was
    stem: str  # of its dumps, "" if nothing was built
    seconds: dict[str, float]
    images: Images = ()
    fusions: MeasuredFusions | None = None


class RegionBuilder:
    """Thread-safe.

    Args:
        behind: does what no run waits for.
        optional: libraries that may compute more on GPUs than they have to.
    """

    def __init__(self, config: StitchConfig, report: Report, dump: Dump, cache: KernelCache, plans: KernelCache,
                 behind: Prebuilder, optional: OptionalCalls) -> None:
        self._behind, self._optional = behind, optional
        self._config, self._report, self._dump, self._cache, self._plans = config, report, dump, cache, plans
        self._measured: dict[int, MeasuredTimes] = {}
        self._tuned: dict[int, TunedTemplates] = {}
        self._fused: dict[int, MeasuredFusions] = {}
        self._library = KernelLibrary(cache)
        self._built: WeakValueDictionary[tuple[object, ...], Built] = WeakValueDictionary()
        self._locks: WeakValueDictionary[tuple[object, ...], _BuildLock] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._compiled: Counter[int] = Counter()
        self._prepared: Counter[int] = Counter()

    def builds(self, number: int) -> int:
        """Times that a region has been built for sizes at hand so far; those for its equals are theirs. One is for its
        first sizes, one for the second: others' kernels are built behind that, as far as they are expected."""
        return self._compiled[number]

    def builds_behind(self, number: int) -> int:
        """Times that a compiler has been asked for kernels for other sizes of a region."""
        return self._prepared[number]

    def drop(self, number: int) -> None:
        """Forgets a region's counts."""
        with self._lock:
            self._compiled.pop(number, None)
            self._prepared.pop(number, None)

    def text(self, graph: TensorGraph) -> str:
        """Text equal for graphs that may share kernels: of equal structure, and of equal names where templates are
        forced by names."""
        return format_graph(replace(graph, name="")) if self._config.templates else anonymous_text(graph)

    def for_numbers(self, place: PlacedRegion, graph: TensorGraph,
                    planned: Callable[[CompiledRegion], None] = lambda compiled: None,
                    budget: MemoryBudget | None = None) -> tuple[Built, bool]:
        """An executable for a graph without symbols, and whether one of its equals had it (F13).

        Args:
            planned: is told of what has been compiled, before its kernels are built.
            budget: goes before the user's; None: that holds.
        """
        identity = (self.text(graph), place.device, place.aligned, place.tf32, place.patterns, budget)
        with self._lock:
            lock = self._locks.setdefault(identity, _BuildLock())
        with lock.lock:
            built = self._built.get(identity)
            known = built is not None
            if built is None:
                built = self._built[identity] = self._compile(place, graph, planned, budget)
            return built, known

    def as_before(self, place: PlacedRegion, shapes: Shapes, family: ShapeFamily[Built]) -> Built | None:
        """An executable for sizes that are like others before, of kernels that are built; None where there is none."""
        options = replace(self._options(place), plans=family.plans)
        try:
            compiled = place.compiled_as_before(shapes, family.change, options)
        except StitchError:  # for_sizes tells
            return None
        if compiled is not None and self._library.missing(compiled.rendered, options.device):
            family.finish_preparation()
        if compiled is None or self._library.missing(compiled.rendered, options.device):
            return None
        return self._shared(place, compiled, options)

    def for_sizes(self, place: PlacedRegion, graph: TensorGraph, shapes: Shapes,
                  family: ShapeFamily[Built]) -> Built | None:
        """An executable of kernels that serve other sizes too. Where one is not built, all that other sizes may need
        are built beside the program; a size that comes meanwhile waits for them. None where the region cannot be
        compiled so.

        Args:
            graph: the region for the numbers of `shapes`.
        """
        if any(node.kind is OpKind.LOOP for node in place.region.graph.nodes()):
            return None  # each length is another graph
        family.finish_preparation()
        options = replace(self._options(place), plans=family.plans)
        try:
            wanted = place.compiled_for_sizes(shapes, family.change, options)
        except StitchError as error:
            try:  # a size that has not changed so far may be a product of some that have
                family.changes(place.sizes(shapes))
                wanted = place.compiled_for_sizes(shapes, family.change, options)
            except StitchError:
                self._report.remark("sizes", f"region {place.number}", f"compiled for each of its sizes: {error}")
                return None
        remark_on(wanted, place.number, self._report)
        if options.memory is not None:
            self._report.remark("memory", f"region {place.number}", "its sizes change: planned without a budget")
        kernels = self._library.missing(wanted.rendered, options.device)
        if not kernels:
            return self._shared(place, wanted, options)
        stem = self._new_stem(place.number)
        RegionDump(self._dump, stem).compiled(wanted, options.device)
        start = time.perf_counter()
        self._library.build(kernels, options.device)
        wanted.seconds["build"] = time.perf_counter() - start
        log_built(place, wanted, shapes, "kernels for these and other sizes")
        self._took(place, wanted, self._library.resources(wanted.rendered, options.device))
        if not family.change.prepared:
            family.change.prepared = True
            work = partial(self._prepare,
                           Expecting(place, shapes, wanted.buffers, family.first, family.change, options))
            future = self._behind.submit(work)
            family.preparation = None if future is None else Preparation(work, future)
        return replace(self._shared(place, wanted, options), stem=stem, compiled=wanted, names=names_of(graph))

    def _prepare(self, known: Expecting) -> None:
        """Builds kernels for sizes that a region may meet later, as far as that can be done."""
        try:
            self._build_expected(known)
        except Exception as error:  # the program does without: sizes wait for a compiler when they come
            self._report.note("sizes", f"region {known.place.number}", f"{type(error).__name__}: {error}")

    def _build_expected(self, known: Expecting) -> None:
        kernels: dict[str, Rendered] = {}
        number, device = known.place.number, known.options.device

        def left_out(count: int) -> None:
            words = f"kernels for {count} expected sizes are built when these come"
            self._report.remark("sizes", f"region {number}", words)

        for expected in expected_kernels(known, left_out):
            if self._behind.stopping:
                return
            kernels |= self._library.missing(expected, device)
        symbols = list(kernels)
        for start in range(0, len(symbols), MOST_KERNELS):
            if self._behind.stopping:
                return
            with self._lock:
                self._prepared[number] += 1
            try:
                self._library.build({s: kernels[s] for s in symbols[start:start + MOST_KERNELS]}, device)
            except StitchError as error:
                self._report.remark("sizes", f"region {number}", f"kernels for other sizes: {error}")

    def _shared(self, place: PlacedRegion, compiled: CompiledRegion, options: CompileOptions) -> Built:
        """An executable of kernels that are built."""
        executable, device, host = compiled.executable, options.device, None
        images: Images = ()
        if device.queued:
            words, images = self._library.device_words(executable, device)
        else:
            host = self._library.host(executable, device)
            words = encode(executable, host.addresses())
        return Built(None, executable, words, host, device, place.aligned, self._times(place.device),
                     self._templates(place.device), (), "", compiled.seconds, images)

    def _options(self, place: PlacedRegion, graph: TensorGraph | None = None, without: Collection[str] = ()
                 ) -> CompileOptions:
        """Args:
            graph: what is compiled for sizes at hand; None: for sizes that change, whose calls are not tried before.
            without: which of OPTIONAL libraries are not to compute.
        """
        device, times = replace(self._spec(place.device), tf32=place.tf32), self._times(place.device)
        if graph is not None and device.queued:
            attention = place.aligned and "fused_attention" not in without and may_call(graph, device) \
                and self._optional.has_fused_attention
            device = replace(device, fused_attention=attention,
                             convolution_epilogues="convolution_epilogues" not in without)
        stitching = stitching_of(self._config.matmuls, device)
        plan = PlanOptions(self._config.planner, self._config.ilp_seconds, matmuls=stitching)
        reuse = Reuse(self._config.reuse)
        circumstances = map(repr, (device, plan, place.aligned, place.patterns, reuse, times.digest()))
        return CompileOptions(device, plan, place.aligned, times, place.patterns, reuse=reuse,
                              stored=StoredPlans(self._plans, tuple(circumstances)),
                              templates=TemplateChoice(device, place.aligned, self._config.templates,
                                                       self._templates(place.device), self._refused),
                              fusions=self._fusions(place.device), memory=self._config.memory)

    def _refused(self, kernel: str, reason: str) -> None:
        self._report.fallback("template", kernel[:120], reason, "the rules' schedule runs")

    def _spec(self, device: int) -> DeviceSpec:
        """The device, by the user's own profile if that can be read."""
        ordinal = None if device == CPU_ORDINAL else device
        try:
            return device_spec(self._config.cache_dir, ordinal)
        except ProfileError as error:
            self._report.note("profile", str(self._config.cache_dir), error.message)
            return device_spec(None, ordinal)

    def _times(self, device: int) -> MeasuredTimes:
        """What earlier processes measured on a device."""
        with self._lock:
            if device not in self._measured:
                self._measured[device] = MeasuredTimes(self._records(device, measured_times_path))
                self._note_problem(self._measured[device])
            return self._measured[device]

    def _templates(self, device: int) -> TunedTemplates:
        """What tuning found on a device, in this process too."""
        with self._lock:
            if device not in self._tuned:
                self._tuned[device] = TunedTemplates(self._records(device, tuned_templates_path))
                self._note_problem(self._tuned[device])
            return self._tuned[device]

    def _fusions(self, device: int) -> MeasuredFusions | None:
        """What was measured of kernels that share blocks, in this process too; None where none may."""
        if not self._config.hfuse:
            return None
        with self._lock:
            if device not in self._fused:
                self._fused[device] = MeasuredFusions(self._records(device, measured_fusions_path))
                self._note_problem(self._fused[device])
            return self._fused[device]

    def _records(self, device: int, path: Callable[[Path, str, int], Path]) -> Path:
        target, ordinal = ("cpu", 0) if device == CPU_ORDINAL else ("cuda", device)
        return path(self._config.cache_dir, target, ordinal)

    def _note_problem(self, records: MeasuredTimes | TunedTemplates | MeasuredFusions) -> None:
        if records.problem:
            self._report.note("tune", str(self._config.cache_dir), records.problem)

    def _took(self, place: PlacedRegion, compiled: CompiledRegion, resources: Mapping[str, KernelResources]) -> None:
        """Keeps for the report what kernels take, and says where registers do not suffice."""
        compiled.resources.update(resources)
        for symbol, taken in resources.items():
            if taken.spilled_bytes:
                self._report.remark("registers", f"region {place.number}",
                                    f"{symbol} keeps {taken.spilled_bytes} bytes of each thread's registers in memory")

    def _refused_kinds(self, place: PlacedRegion, compiled: CompiledRegion) -> set[str]:
        """Which of OPTIONAL hold a call that a library has no kernel for; says so."""
        refused: dict[str, str] = {}
        for call in dict.fromkeys(bound.call for bound in compiled.calls):
            if call.needs and call.needs not in refused and (why := self._optional.refusal(place.device, call)):
                refused[call.needs] = why
        for kind, why in refused.items():
            where = f"{OPTIONAL[kind]} of region {place.number}"
            self._report.fallback("library", where, why, "kernels of ours compute them")
        return set(refused)

    def _new_stem(self, number: int) -> str:
        with self._lock:
            self._compiled[number] += 1
            return f"region_{number}_{self._compiled[number] - 1}"

    def _compile(self, place: PlacedRegion, graph: TensorGraph, planned: Callable[[CompiledRegion], None],
                 budget: MemoryBudget | None) -> Built:
        without, stem = set[str](), self._new_stem(place.number)
        memory = budget or self._config.memory
        options = replace(self._options(place, graph), memory=memory)
        target = target_of(options.device)
        dump = RegionDump(self._dump, stem)
        dump.graph(graph)
        with collector_paused():
            compiled = compile_region(graph, *place.arguments(), options, dump.instrument(), dump.plan_instrument())
        while refused := self._refused_kinds(place, compiled):
            without |= refused
            options = replace(self._options(place, graph, without), memory=memory)
            with collector_paused():
                compiled = compile_region(graph, *place.arguments(), options, dump.instrument(), dump.plan_instrument())
        planned(compiled)
        remark_on(compiled, place.number, self._report, is_asked_for=budget is None)
        dump.compiled(compiled, options.device)
        start = time.perf_counter()
        host = None
        images: Images = ()
        if not compiled.source:
            words = encode(compiled.executable, {})
        else:
            binaries = self._library.build_own(compiled.own, options.device)
            if options.device.queued:
                words, images = self._library.words_of(compiled.executable, binaries)
                for cubin in sorted(set(binaries.values())):
                    self._took(place, compiled, target.resources(cubin))
            else:
                host = HostExecutable(compiled.executable, *sorted(set(binaries.values())))
                words = encode(compiled.executable, host.addresses())
        compiled.seconds["build"] = time.perf_counter() - start
        log_built(place, compiled, [node.type.shape for node in graph.inputs()], "kernels for these sizes")
        return Built(compiled, compiled.executable, words, host, options.device, place.aligned,
                     self._times(place.device), self._templates(place.device), names_of(graph), stem,
                     compiled.seconds, images, options.fusions)
