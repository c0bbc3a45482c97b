"""How often a region of changing sizes waits for a compiler, on a CPU and for an H200 (compiled by NVRTC, not run)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential import patterns as p
from tests.differential.attention_steps import Step, causal
from tests.support.numbers import set_numbers
from tf_stitch.compiler.shape_variants import OtherSizes
from tf_stitch.config import MemoryBudget, StitchConfig
from tf_stitch.device.spec import H200, DeviceSpec
from tf_stitch.errors import BindError, BuildError, BuildPending, ScheduleError, SourceLoc, StitchError
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import Combine, ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_format import format_graph
from tf_stitch.ir.text_parser import parse_graph
from tf_stitch.ir.types import Shape, Symbol
from tf_stitch.jit import expected_kernels, placed_region, region_builder
from tf_stitch.jit.build_budget import BuildBudget
from tf_stitch.jit.build_key import Key
from tf_stitch.jit.kernel_library import KernelLibrary, Rendering
from tf_stitch.jit.region_builder import CPU_ORDINAL, Built, RegionBuilder
from tf_stitch.jit.region_registry import RegionRegistry
from tf_stitch.jit.shape_family import CPU_LENGTHS, GPU_LENGTHS
from tf_stitch.jit.tuner import Job
from tf_stitch.libraries.attention import AttentionCall
from tf_stitch.libraries.call import LibraryCall
from tf_stitch.placement.executable import DeviceLaunch, HostLaunch
from tf_stitch.planning.measured_cost import MeasuredTimes
from tf_stitch.planning.tuned_templates import TunedTemplates
from tf_stitch.report.dump import Dump
from tf_stitch.report.report import Report
from tf_stitch.runtime.host_builder import compiler
from tf_stitch.runtime.nvrtc_builder import _nvrtc

B = p.B
N = Symbol("n")
LENGTHS = (17, 1, 2, 3, 4, 12, 15, 16, 31, 32, 33, 100, 128, 255, 511, 512)


def has_nvrtc() -> bool:
    try:
        return _nvrtc() is not None
    except BuildError:
        return False


DEVICES = pytest.mark.parametrize("device", [
    pytest.param(CPU_ORDINAL, marks=pytest.mark.skipif(compiler() is None, reason="no C compiler")),
    pytest.param(0, marks=pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC")),
], ids=["cpu", "h200"])  # fmt: skip


def attention(x: Node) -> Node:
    """Matmuls over a changing length: at 16 and less they could be inlined."""
    weights = p.softmax(B.dot(x, x, transpose_b=True))
    return B.add(B.dot(weights, x), x)


def normalised(x: Node) -> Node:
    gamma, beta = (B.input(f"i{i}", DType.F32, (64,)) for i in (1, 2))
    return p.gelu_erf(p.layernorm(x, gamma, beta))


def columns(x: Node) -> Node:
    return B.sum(B.exp(x), [0, 1])


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegionRegistry:
    """Device 0 is an H200, whatever this machine has."""
    spec, times = RegionBuilder._spec, MeasuredTimes(tmp_path / "none.json")
    monkeypatch.setattr(RegionBuilder, "_spec", lambda self, n: spec(self, n) if n == CPU_ORDINAL else H200)
    monkeypatch.setattr(RegionBuilder, "_times", lambda self, n: times)
    tuned = TunedTemplates(tmp_path / "no_templates.json")
    monkeypatch.setattr(RegionBuilder, "_templates", lambda self, n: tuned)
    return RegionRegistry(StitchConfig(cache_dir=tmp_path), Report(), Dump(None))


def register(registry: RegionRegistry, make: Callable[[Node], Node]) -> int:
    x = B.input("i0", DType.F32, (2, N, 64))
    graph = TensorGraph("region", [("o0", make(x))])
    inputs = tuple(f"x{i}:0" for i in range(len(graph.inputs())))
    return registry.register(RegionGraph(graph, ("a", "b"), inputs, (), {"b:0": 0}))


def shapes(registry: RegionRegistry, number: int, length: int) -> tuple[tuple[int, ...], ...]:
    def numbers(shape: Shape) -> tuple[int, ...]:
        return tuple(length if isinstance(d, Symbol) else d for d in shape)

    return tuple(numbers(s) for s in registry.region(number).argument_shapes)


@DEVICES
@pytest.mark.parametrize("make", [attention, normalised, columns], ids=lambda f: f.__name__)
def test_two_builds_serve_every_length(registry: RegionRegistry, make: Callable[[Node], Node], device: int) -> None:
    number = register(registry, make)
    for length in LENGTHS:
        registry.build(number, device, Key(True, shapes(registry, number, length)))
    assert registry.builds(number) == 2
    assert registry.executables(number) == len(LENGTHS)


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("budget", [MemoryBudget(0.5), None])
def test_of_sizes_that_change_it_is_said_that_they_have_no_budget(registry: RegionRegistry, tmp_path: Path,
                                                                  budget: MemoryBudget | None) -> None:
    limited = RegionRegistry(StitchConfig(cache_dir=tmp_path, memory=budget), Report(), Dump(None))
    number = register(limited, columns)
    for length in (17, 16, 31):
        limited.build(number, CPU_ORDINAL, Key(True, shapes(limited, number, length)))
    said = [r["reason"] for r in limited._report.document()["remarks"] if r["stage"] == "memory"]
    assert said == (["its sizes change: planned without a budget"] if budget else [])


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_what_takes_no_less_stays(registry: RegionRegistry) -> None:
    number = register(registry, columns)
    key = Key(True, shapes(registry, number, 16))
    with pytest.raises(StitchError, match="not kept"):
        registry.build_smaller(number, CPU_ORDINAL, key, None)
    built = registry.build(number, CPU_ORDINAL, key)
    with pytest.raises(StitchError, match="kernels need"):
        registry.build_smaller(number, CPU_ORDINAL, key, 0)
    assert registry.build(number, CPU_ORDINAL, key) is built


def test_a_key_says_what_kernels_may_rely_on() -> None:
    """The first word's bits, then each shape after its rank."""
    assert Key.parse([0, 2, 3, 4, 0]) == Key(False, ((3, 4), ()))
    assert Key.parse([1, 1, 7]) == Key(True, ((7,),))
    assert Key.parse([2]) == Key(False, (), True)
    assert Key.parse([3]) == Key(True, (), True)


@pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC")
def test_kernels_for_aligned_buffers_serve_no_others(registry: RegionRegistry) -> None:
    number = register(registry, columns)
    wanted = shapes(registry, number, 16)
    for aligned in (True, False):
        built = registry.build(number, 0, Key(aligned, wanted))
        assert built.compiled is not None
        assert ("const tfs_vector<float" in built.compiled.source.partition("stitch_0")[2]) == aligned


def test_names_are_those_of_the_region_that_runs(registry: RegionRegistry) -> None:
    """Also of one that runs an equal region's kernels; nothing is built for them."""
    def exps(name: str) -> int:
        own = Builder(SourceLoc(name, "Exp"))
        graph = TensorGraph("region", [("o0", own.exp(own.input("i0", DType.F32, (16, 8))))])
        return registry.register(RegionGraph(graph, (name,), ("x:0",), (), {f"{name}:0": 0}))

    first, second = exps("first/Exp"), exps("second/Exp")
    key = Key(True, ((16, 8),))
    assert registry.labels(first, CPU_ORDINAL, key) == {}
    assert registry.builds(first) == 0
    for number in (first, second):
        registry.build(number, CPU_ORDINAL, key)
    assert registry.labels(first, CPU_ORDINAL, key) == {0: "first/Exp:StitchKernel"}
    assert registry.labels(second, CPU_ORDINAL, key) == {0: "second/Exp:StitchKernel"}
    assert registry.builds(second) == 0


def test_kernels_run_whose_names_cannot_be_told(registry: RegionRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an equal region's: only a profiler would show them."""
    first, second = register(registry, columns), register(registry, columns)
    key = Key(True, shapes(registry, first, 16))
    registry.build(first, CPU_ORDINAL, key)
    built = registry.build(second, CPU_ORDINAL, key)
    named = replace(built, names=("other",), executable=replace(built.executable, nodes=(("other",),)))
    assert registry._labels(second, key, named) == {}
    remarks = registry._report.document()["remarks"]
    assert [(r["stage"], r["count"]) for r in remarks] == [("profiler", 1)]


def test_what_was_to_be_updated_in_place_and_is_copied_is_a_remark(registry: RegionRegistry) -> None:
    x, rows, row = B.input("i0", DType.F32, (64, 8)), B.input("i1", DType.I32, (1,)), B.input("i2", DType.F32, (1, 8))
    new = B.scatter(x, rows, row, (64, 8), Combine.SET, in_place=True)
    for outputs, remarks in (([new], 0), ([new, B.sub(new, x)], 1)):
        graph = TensorGraph("region", [(f"o{i}", node) for i, node in enumerate(outputs)])
        number = registry.register(RegionGraph(graph, ("a",), ("x:0", "rows:0", "row:0"), (), {"a:0": 0}))
        registry.build(number, CPU_ORDINAL, Key(True, registry.region(number).argument_shapes))  # type: ignore[arg-type]
        found = [r for r in registry._report.document()["remarks"] if r["stage"] == "in_place"]
        assert len(found) == remarks


def test_every_build_is_tuned_once(registry: RegionRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was made ahead, in the background, and one that several regions share."""
    jobs: list[Job] = []
    monkeypatch.setattr(registry._tuner, "add", jobs.append)
    first, second = register(registry, columns), register(registry, columns)
    key = Key(True, shapes(registry, first, 16))
    registry._prepare(first, CPU_ORDINAL, key.shapes, (True, False))
    assert jobs == [], "it may never run"
    for number in (first, second, first):
        registry.build(number, CPU_ORDINAL, key)
    assert len(jobs) == 1
    assert jobs[0].buffers is not None


@DEVICES
def test_what_has_no_elements_is_not_built(registry: RegionRegistry, device: int) -> None:
    number = register(registry, columns)
    with pytest.raises(BindError, match="no elements"):
        registry.build(number, device, Key(True, shapes(registry, number, 0)))


@DEVICES
def test_the_second_length_waits_for_its_own_kernels(registry: RegionRegistry, monkeypatch: pytest.MonkeyPatch,
                                                     device: int) -> None:
    built: list[int] = []
    build = KernelLibrary.build

    def count(library: KernelLibrary, kernels: Rendering, device: DeviceSpec) -> None:
        built.append(len(kernels))
        build(library, kernels, device)

    monkeypatch.setattr(KernelLibrary, "build", count)
    monkeypatch.setattr(registry._prebuilder, "submit", lambda work, **_: Future())  # nobody comes to it
    number = register(registry, columns)
    for length, runs in ((17, 0), (12, 1)):
        wanted = registry.build(number, device, Key(True, shapes(registry, number, length)))
        assert len(built) == runs
    assert built == [len({s.symbol for s in wanted.executable.steps if isinstance(s, HostLaunch | DeviceLaunch)})]
    for length in LENGTHS:
        registry.build(number, device, Key(True, shapes(registry, number, length)))
    assert len(built) == 2, "the third length did what nobody had come to"
    assert (registry.builds(number), registry.builds_behind(number)) == (2, 1)


@DEVICES
def test_sizes_that_are_alike_are_compiled_once(registry: RegionRegistry, monkeypatch: pytest.MonkeyPatch, device: int
                                                ) -> None:
    placed: list[object] = []
    rendered: list[object] = []
    planned_kernels, render = placed_region.planned_kernels, OtherSizes.rendered
    monkeypatch.setattr(placed_region, "planned_kernels", lambda *a: placed.append(a) or planned_kernels(*a))
    monkeypatch.setattr(OtherSizes, "rendered", lambda *a: rendered.append(a) or render(*a))
    number = register(registry, normalised)
    for length in (17, 17, 12):
        assert not placed
        assert not rendered, "as long as no length changes nobody works for other lengths"
        registry.build(number, device, Key(True, shapes(registry, number, length)))
    assert registry.finish_builds(60)
    lengths = CPU_LENGTHS if device == CPU_ORDINAL else GPU_LENGTHS
    assert len(rendered) == 1 + len(lengths)
    assert len(placed) == (1 if device == CPU_ORDINAL else 2), "for one word, and for what is no multiple"
    for length in LENGTHS:
        registry.build(number, device, Key(True, shapes(registry, number, length)))
    assert registry.builds(number) == 2


@DEVICES
@pytest.mark.parametrize("error", [ScheduleError("no kernel"), KeyError("a defect")], ids=lambda e: type(e).__name__)
def test_other_sizes_that_fail_are_built_when_they_come(registry: RegionRegistry, monkeypatch: pytest.MonkeyPatch,
                                                        device: int, error: Exception) -> None:
    def fail(*_: object) -> Rendering:
        raise error

    monkeypatch.setattr(OtherSizes, "rendered", fail)
    number = register(registry, columns)
    for length in LENGTHS:
        registry.build(number, device, Key(True, shapes(registry, number, length)))
    assert registry.finish_builds(60)
    assert registry.executables(number) == len(LENGTHS)
    said = [entry["reason"] for entry in registry._report.document()["fallbacks"]]
    assert said == (["KeyError: 'a defect'"] if isinstance(error, KeyError) else [])


@DEVICES
def test_a_length_like_two_others_needs_no_passes(registry: RegionRegistry, monkeypatch: pytest.MonkeyPatch, device: int
                                                  ) -> None:
    compiled: list[object] = []
    compile_region = placed_region.compile_region
    monkeypatch.setattr(placed_region, "compile_region", lambda *a: compiled.append(a) or compile_region(*a))
    number = register(registry, normalised)
    for length in (17, 12):
        registry.build(number, device, Key(True, shapes(registry, number, length)))
    assert registry.finish_builds(60)
    for length in (20, 40, 7, 11, 301, 16):
        built = registry.build(number, device, Key(True, shapes(registry, number, length)))
        assert {type_.shape[1] for type_ in built.executable.outputs} == {length}
    assert len(compiled) == (2 if device == CPU_ORDINAL else 3), "12, the next one, and one that is no multiple"


@DEVICES
def test_other_sizes_take_some_time_at_most(registry: RegionRegistry, monkeypatch: pytest.MonkeyPatch, device: int
                                            ) -> None:
    monkeypatch.setattr(expected_kernels, "MOST_SECONDS", -1.0)
    number = register(registry, columns)
    for length in (17, 12):
        registry.build(number, device, Key(True, shapes(registry, number, length)))
    assert registry.finish_builds(60)
    assert registry.builds_behind(number) == 0
    [entry] = registry._report.document()["remarks"]
    assert "expected sizes are built when these come" in entry["reason"]
    registry.build(number, device, Key(True, shapes(registry, number, 512)))
    assert registry.builds(number) == 3, "what nobody prepared is built when it is needed"


def rows(x: Node) -> Node:
    """The changing length is that of the rows: whether vectors can be loaded depends on it."""
    return B.mul(B.exp(x), x)


@DEVICES
def test_each_length_takes_its_variant_at_run_time(registry: RegionRegistry, device: int) -> None:
    x = B.input("i0", DType.F32, (64, N))
    graph = TensorGraph("region", [("o0", rows(x))])
    number = registry.register(RegionGraph(graph, ("a", "b"), ("x0:0",), (), {"b:0": 0}))
    launches: dict[int, HostLaunch | DeviceLaunch] = {}
    for length in (17, 12, 13, 16, 15, *range(18, 63)):
        [launch] = registry.build(number, device, Key(True, ((64, length),))).executable.steps
        assert isinstance(launch, HostLaunch | DeviceLaunch)
        launches[length] = launch
    assert registry.executables(number) == 50
    assert registry.builds(number) == 2
    del launches[17]  # came first, and is compiled for its number
    vectors, elements = ({v.symbol for n, v in launches.items() if (n % 4 == 0) is whole} for whole in (True, False))
    assert len(vectors) == len(elements) == 1
    if device == CPU_ORDINAL:
        assert vectors == elements, "a CPU's vectors need no multiples"
    else:
        assert vectors != elements
        assert {n: launches[n].sizes[0] for n in (12, 13, 16, 15)} == {12: 12 // 4, 13: 13, 16: 16 // 4, 15: 15}
        assert "tfs_vector<float, 4> t" in registry._report.sources()[f"region_{number}_1.cu"], "that of 12"


@DEVICES
def test_a_product_of_sizes_may_stay_the_same(registry: RegionRegistry, device: int) -> None:
    """Sentences are batched by length: batch and length change, and the number of words does not."""
    x, flat = B.input("i0", DType.F32, (Symbol("b"), N, 64)), B.input("i1", DType.F32, (Symbol("rows"), 64))
    graph = TensorGraph("region", [("o0", B.add(p.softmax(x), B.reshape(flat, (Symbol("b"), N, 64))))])
    number = registry.register(RegionGraph(graph, ("a", "b"), ("x0:0", "x1:0"), (), {"b:0": 0}))
    for batch, length in ((8, 8), (4, 16), (16, 4), (2, 32), (3, 7), (5, 11)):
        registry.build(number, device, Key(True, ((batch, length, 64), (batch * length, 64))))
    assert registry._report.document()["remarks"] == []
    assert registry.builds(number) == 2


@DEVICES
def test_a_second_length_of_one_word_is_a_length_like_others(registry: RegionRegistry, device: int) -> None:
    """A dense layer flattens its input: with one word there are as many rows as sentences."""
    x, flat = B.input("i0", DType.F32, (8, N, 64)), B.input("i1", DType.F32, (Symbol("rows"), 64))
    dense = B.reshape(B.exp(B.add(B.reshape(x, (Symbol("rows"), 64)), flat)), (8, N, 64))
    graph = TensorGraph("region", [("o0", B.sum(B.add(dense, x), [1]))])
    number = registry.register(RegionGraph(graph, ("a", "b"), ("x0:0", "x1:0"), (), {"b:0": 0}))
    for length in LENGTHS:
        registry.build(number, device, Key(True, ((8, length, 64), (8 * length, 64))))
    assert registry._report.document()["remarks"] == []
    assert registry.builds(number) == 2


def test_a_region_compiled_for_each_of_its_sizes_is_reported(registry: RegionRegistry, monkeypatch: pytest.MonkeyPatch
                                                             ) -> None:
    number = register(registry, columns)
    compile_region = region_builder.compile_region

    def refuse(graph: TensorGraph, *args: object) -> object:
        options = args[2]
        if options.plans is not None:  # type: ignore[attr-defined]
            raise ScheduleError("not with sizes that change")
        return compile_region(graph, *args)  # type: ignore[arg-type]

    for module in (region_builder, placed_region):
        monkeypatch.setattr(module, "compile_region", refuse)
    for length in (17, 5, 9):
        registry.build(number, CPU_ORDINAL, Key(True, shapes(registry, number, length)))
    assert registry.builds(number) == 3
    [entry] = registry._report.document()["remarks"]
    assert entry["stage"] == "sizes"
    assert entry["count"] == 2
    assert "for each of its sizes: not with sizes that change" in entry["reason"]


@pytest.mark.parametrize("device", [0], ids=["h200"])
def test_more_rows_than_a_library_counts(registry: RegionRegistry, device: int) -> None:
    """TensorFlow runs the region for these sizes; others are as before."""
    def matmul(x: Node) -> Node:
        return B.dot(x, B.input("i1", DType.F32, (2, 64, 256)))

    number = register(registry, matmul)
    for length in (1000, 2000):
        registry.build(number, device, Key(True, shapes(registry, number, length)))
    with pytest.raises(ScheduleError, match="extent above"):
        registry.build(number, device, Key(True, shapes(registry, number, 1 << 31)))
    registry.build(number, device, Key(True, shapes(registry, number, 3000)))


def test_what_is_not_built_in_time_is_pending(registry: RegionRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    builds: list[tuple[Future[object], Callable[[], object], bool]] = []

    def submit(work: Callable[[], object], awaited: bool = False) -> Future[object]:
        builds.append((Future(), work, awaited))
        return builds[-1][0]

    monkeypatch.setattr(registry._prebuilder, "submit", submit)
    number, said, seconds = register(registry, columns), [0], [0.0]
    key = Key(True, shapes(registry, number, 16))

    def wait(_: object, most: float) -> None:
        seconds[0] += most

    def spent() -> None:
        said[0] += 1

    budget = BuildBudget(5, spent, lambda: seconds[0], wait)
    for _ in range(2):
        with pytest.raises(BuildPending):
            registry.build_later(number, CPU_ORDINAL, key, budget)
    assert (seconds, said) == ([5], [1])
    [(future, work, awaited)] = builds
    assert awaited
    assert registry.executables(number) == 0
    future.set_result(work())
    assert registry.build_later(number, CPU_ORDINAL, key, budget) is registry.build(number, CPU_ORDINAL, key)
    assert registry.executables(number) == 1
    with pytest.raises(BuildPending):
        registry.build_later(number, CPU_ORDINAL, Key(True, shapes(registry, number, 7)), budget)
    assert not builds[1][2], "nobody waits for it"
    builds[1][0].cancel()
    with pytest.raises(BuildPending):
        registry.build_later(number, CPU_ORDINAL, Key(True, shapes(registry, number, 7)), budget)
    assert said == [1]


class FakeCalls:
    """A library of attentions that has kernels for calls whose names begin so."""

    def __init__(self, has: bool, why: str = "", takes: str = "") -> None:
        self.has, self.why, self.takes = has, why, takes
        self.asked, self.tried = 0, list[tuple[int, LibraryCall]]()

    @property
    def has_fused_attention(self) -> bool:
        self.asked += 1
        return self.has

    def refusal(self, device: int, call: LibraryCall) -> str:
        self.tried.append((device, call))
        return self.why + str(call) if self.why and not (self.takes and str(call).startswith(self.takes)) else ""


@pytest.fixture
def by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call costs no more among kernels than by itself."""
    set_numbers(monkeypatch, H200, "choices", attention_call_us=0.0)


def trained(registry: RegionRegistry, results: str, aligned: bool = True) -> Built:
    """An attention of GPT-2, or with its gradients, on device 0."""
    text = format_graph(Step(DType.BF16, 16, 256, 256, 12, 64, score=causal()).graph(results))
    for number, name in enumerate(("q", "k", "v", "do")):
        text = text.replace(f"key={name},", f"key=i{number},")
    graph = parse_graph(text)
    inputs = tuple(f"x{i}:0" for i in range(len(graph.inputs())))
    number = registry.register(RegionGraph(graph, ("a", "b"), inputs, (), {"b:0": 0}))
    return registry.build(number, 0, Key(aligned, shapes(registry, number, 0)))


@pytest.mark.usefixtures("by_itself")
@pytest.mark.parametrize(("has", "aligned", "calls"), [(True, True, 2), (False, True, 0), (True, False, 0)])
def test_a_train_step_calls_fused_attention_where_a_library_has_it(registry: RegionRegistry, has: bool, aligned: bool,
                                                                    calls: int) -> None:
    """Memory that may begin anywhere is not what the library reads."""
    fake = registry._builder._optional = FakeCalls(has)
    for results, all_calls in (("oqkv", calls), ("o", calls // 2)):
        built = trained(registry, results, aligned)
        assert built.compiled is not None
        assert sum(isinstance(call.call, AttentionCall) for call in built.compiled.calls) == all_calls
        assert built.device.fused_attention is (calls > 0)
    assert fake.asked == 2 * aligned
    assert len(fake.tried) == (3 if calls else 0)
    assert not registry._report.document()["fallbacks"]


@pytest.mark.usefixtures("by_itself")
@pytest.mark.parametrize("takes", ["", "an attention"])
@pytest.mark.parametrize("results", ["oqkv", "o"])
def test_an_attention_that_a_library_refuses_is_kernels_of_ours(registry: RegionRegistry, results: str, takes: str,
                                                                capsys: pytest.CaptureFixture[str]) -> None:
    """One call that is refused is enough; what is refused is said once, and counted for each region."""
    fake = registry._builder._optional = FakeCalls(True, "no kernel for ", takes)
    refused = takes == "" or results == "oqkv"
    for _ in range(2):
        built = trained(registry, results)
        assert built.compiled is not None
        assert any(isinstance(call.call, AttentionCall) for call in built.compiled.calls) is not refused
        assert built.device.fused_attention is not refused
        families = {kernel.schedule.family for kernel in built.compiled.kernels}
        assert families == ({"attention", "attention_gradient"} if results == "oqkv" else {"attention"} if refused
                            else set())
        registry._builder._built.clear()
        registry._families.clear()
    counts = [entry["count"] for entry in registry._report.document()["fallbacks"]]
    assert counts == ([1, 1] if refused else [])
    assert capsys.readouterr().err.count("kernels of ours compute them") == refused
    assert all(device == 0 for device, _ in fake.tried)


def test_a_region_without_attention_asks_for_no_library(registry: RegionRegistry) -> None:
    fake = registry._builder._optional = FakeCalls(True)
    number = register(registry, normalised)
    registry.build(number, 0, Key(True, shapes(registry, number, 16)))
    assert not fake.asked
    assert not fake.tried


def convolved(registry: RegionRegistry, aligned: bool = True) -> Built:
    """Two convolutions with a bias and a rectifier behind each, and an addend behind one, on device 0."""
    b, half = Builder(), DType.BF16
    x = b.input("i0", half, (2, 9, 8, 4))
    at = ConvolutionAttrs((1, 1), (1, 1), (1, 1), 1)
    for layer in range(2):
        y = b.convolution(OpKind.CONVOLUTION, x, b.input(f"i{2 * layer + 1}", half, (4, 3, 3, 4)), at)
        y = b.add(y, b.input(f"i{2 * layer + 2}", half, (4,)))
        y = b.add(y, x) if layer else y
        x = b.maximum(y, b.scalar_like(0.0, y))
    graph = TensorGraph("g", [("b:0", x)])
    inputs = tuple(f"x{i}:0" for i in range(len(graph.inputs())))
    number = registry.register(RegionGraph(graph, ("a", "b"), inputs, (), {"b:0": 0}))
    return registry.build(number, 0, Key(aligned, shapes(registry, number, 0)))


@pytest.mark.parametrize("refused", ["", "addend"])
@pytest.mark.parametrize("aligned", [True, False])
def test_what_follows_a_convolution_is_kernels_where_a_library_refuses_it(registry: RegionRegistry, aligned: bool,
                                                                         refused: str) -> None:
    """One call that is refused is enough for a region. Each is tried once, those that there is no other way for not."""
    fake = registry._builder._optional = FakeCalls(False)
    fake.refusal = lambda device, call: (  # type: ignore[method-assign]
        fake.tried.append((device, call)) or ("no kernel" if refused and refused in str(call) else ""))
    built = convolved(registry, aligned)
    assert built.compiled is not None
    assert len(built.compiled.calls) == 2
    assert sum("bias" in str(call.call) for call in built.compiled.calls) == (0 if refused else 2)
    assert len(built.compiled.kernels) == (2 if refused else 0)
    assert built.device.convolution_epilogues is not bool(refused)
    assert [device for device, _ in fake.tried] == [0, 0]
    fallbacks = registry._report.document()["fallbacks"]
    assert [entry["count"] for entry in fallbacks] == ([1] if refused else [])
    assert "what follows convolutions of region" in str(fallbacks) or not refused
