"""Loops as one op: the regions and roles that are found compute what the loop computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.frontend.check import types_of_graph
from tests.graph.loops.loop_functions import I32, LoopCase, cases, floats, sliced_by_data
from tests.graph.loops.lowered_loops import Lowered, lowered
from tests.native.loops import Beside, Loop, expected
from tests.support.numbers import set_numbers
from tf_stitch.config import Fuel, StitchConfig
from tf_stitch.device.spec import CPU, H200
from tf_stitch.frontend.tensorflow.importer import import_graph
from tf_stitch.frontend.tensorflow.loop_shapes import STITCH_WHILE
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.clustering.region_graph import CHECKED, RegionGraph
from tf_stitch.graph.finish.validation import validate_graph
from tf_stitch.graph.loops import native_loops
from tf_stitch.graph.loops.functional_loops import lower_loops
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.loops.loop_hoisting import hoist
from tf_stitch.graph.loops.loop_roles import LoopRoles
from tf_stitch.graph.loops.loop_rows import list_rows
from tf_stitch.graph.loops.while_node import NativeLoop
from tf_stitch.graph.pipeline import GraphOptions
from tf_stitch.graph.state import GraphState
from tf_stitch.ir.bind import bind
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import DotAttrs, ScatterAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.runtime import host_builder
from tf_stitch.runtime.recorded_compiler import record_compiler

ALL = {"CPU": Matmuls.ALL, "GPU": Matmuls.ALL}
CASES = cases()
TRACED: dict[tuple[Callable[..., Any], bool], Lowered] = {}


@dataclass
class Found:
    """A traced function, and what has become of its loops."""

    before: Lowered
    loops: LoopChange


@pytest.fixture(params=[False, True], ids=["whole", "split"])
def split(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Loops are split as on a GPU, or not."""
    monkeypatch.setattr(native_loops, "is_split", lambda device: request.param)
    return bool(request.param)


def find(case: LoopCase, config: StitchConfig | None = None) -> Found:
    key = case.function, case.sizes
    if key not in TRACED:  # once: TensorFlow gives functions of ctc_loss the same names again, and refuses them
        TRACED[key] = lowered(case.function, *case.specs())
    return Found(TRACED[key], of_graph(TRACED[key], config))


def of_graph(before: Lowered, config: StitchConfig | None = None) -> LoopChange:
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(before.graph_def, name="")
        functions = {function.signature.name: function for function in before.graph_def.library.function}
        state = GraphState(before.graph_def, types_of_graph(graph), before.preserved, ALL)
        hoisted = hoist(list_rows(lower_loops(state, functions.get).state).state)
        profiles = {"CPU": CPU.profile, "GPU": H200.profile}
        loops = native_loops.native_loops(hoisted, Controls(config or StitchConfig()), profiles)
        validate_graph(before.graph_def, loops.state.graph_def, before.preserved)
        import_graph(loops.state.graph_def, loops.state.types_of, ALL)  # every node has its types
    return loops


@pytest.mark.parametrize("name", CASES)
def test_what_it_computes(name: str, split: bool) -> None:
    """Regions in NumPy, put together as the roles say; the loop's own nodes in TensorFlow; and all of the graph."""
    case = CASES[name]
    found = find(case)
    assert len(found.loops.state.native) == case.ops, found.loops.stay
    for words in case.stay:
        assert any(words in reason for reason in found.loops.stay.values()), found.loops.stay
    for loop in found.loops.state.native:
        assert [n.op for n in found.loops.state.graph_def.node if n.name == loop.name] == [STITCH_WHILE]
    if "nested" in name or not case.ops:
        return  # TensorFlow cannot stop within a loop; for the native op see tests/end_to_end
    for got, wanted in zip(run(found, case.arrays), found.before.run(*case.arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "scatters"), [("cached", 2), ("overwritten", 1)])
def test_what_a_body_writes_rows_of_is_updated(name: str, scatters: int, split: bool, monkeypatch: pytest.MonkeyPatch
                                               ) -> None:
    set_numbers(monkeypatch, CPU, "sizes", in_place_bytes=0)
    case = CASES[name]
    found = find(case)
    [loop] = found.loops.state.native
    in_place = [n for n in loop.body.graph.nodes() if isinstance(n.attrs, ScatterAttrs) and n.attrs.in_place]
    assert len(in_place) == scatters
    for got, wanted in zip(run(found, case.arrays), found.before.run(*case.arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_a_gpu_s_kernels_know_which_matmuls_are_repeated(split: bool) -> None:
    """They may be of more rows than others that a kernel of ours multiplies."""
    loops = find(CASES["gru_gradients"]).loops.state.native
    marked = [node.attrs.repeated for loop in loops for node in loop.body.graph.nodes()
              if isinstance(node.attrs, DotAttrs)]
    assert marked
    assert set(marked) == {split}


def run(found: Found, arrays: Sequence[Any]) -> list[Any]:
    """The function's results, the loops by their definition."""
    graph_def = _with_placeholders(found.loops)
    values: dict[str, Any] = dict(zip(found.before.feeds, arrays, strict=True))
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.graph_util.import_graph_def(graph_def, name="")
        for loop in found.loops.state.native:
            given = session.run([_result(t) for t in _node(found.loops, loop).input if t[0] != "^"], values)
            inputs, for_host = given[:len(loop.inputs)], given[len(loop.inputs):]
            results = by_definition(loop, inputs, for_host)
            for result, own in zip(results, loop.fallback_subgraph().run(inputs, [], [])[0], strict=True):
                assert result.shape == own.shape
                assert result.dtype == own.dtype
                np.testing.assert_allclose(result, own, rtol=1e-5, atol=1e-5)
            values |= {f"{loop.name}/result_{k}:0": value for k, value in enumerate(results)}
        fetched: list[Any] = session.run(found.before.fetches, values)
        return fetched


def by_definition(loop: NativeLoop, inputs: Sequence[Any], for_host: Sequence[Any]) -> list[Any]:
    beside = None
    if loop.host is not None:
        body = loop.host.body
        beside = Beside(_encoded(loop.host.roles), [np.asarray(x) for x in for_host],
                        lambda *x: () if body is None else _interpret(body, x), loop.host.decides)
    return expected(_encoded(loop.roles), [np.asarray(x) for x in inputs], lambda *x: _interpret(loop.body, x),
                    lambda *x: bool(_interpret(loop.condition, x)[0]), beside)


def _encoded(roles: LoopRoles) -> Loop:
    encoded = Loop(*(tuple(tuple(role.encode()) for role in part)  # type: ignore[arg-type]
                     for part in (roles.body, roles.condition, roles.outputs)))
    assert encoded.encode() == roles.encode()
    return encoded


def _interpret(region: RegionGraph, inputs: Sequence[Any]) -> list[Any]:
    values = dict(zip(region.input_keys, (np.asarray(x) for x in inputs), strict=True))
    results = interpret(bind(region.graph, {key: value.shape for key, value in values.items()}), values)
    return [results[f"o{i}"] for i in range(len(results))]


def _node(loops: LoopChange, loop: NativeLoop) -> Any:
    return next(node for node in loops.state.graph_def.node if node.name == loop.name)


def _with_placeholders(loops: LoopChange) -> GraphDef:
    """The graph with a placeholder for each result of a loop that runs as one op."""
    found = GraphDef()
    names = {loop.name for loop in loops.state.native}
    for source in loops.state.graph_def.node:
        if source.name in names:
            for k, dtype in enumerate(source.attr["Tout"].list.type):
                node = found.node.add(name=f"{source.name}/result_{k}", op="Placeholder", device=source.device)
                node.attr["dtype"].type = dtype
                node.attr["shape"].shape.CopyFrom(source.attr["output_shapes"].list.shape[k])
        else:
            node = found.node.add()
            node.CopyFrom(source)
            node.input[:] = [_result(t) if t.partition(":")[0] in names else t for t in source.input
                             if t.removeprefix("^") not in names or not t.startswith("^")]
    return found


def _result(tensor: str) -> str:
    name, _, number = tensor.partition(":")
    return f"{name}/result_{number or 0}:0" if name.endswith("/stitched") else f"{name}:{number or 0}"


@pytest.mark.parametrize("name", ["scan_gradient", "gru_gradients", "greedy"])
def test_roles(name: str, golden: Any, split: bool) -> None:
    texts = [f"{loop.frame}\n{loop}\n" for loop in find(CASES[name]).loops.state.native]
    golden(f"loop_roles_{name}{'_split' if split else ''}", "\n".join(texts))


def place(case: LoopCase, device_of: Callable[[Any], str]) -> LoopChange:
    """A function's loops with its nodes on devices."""
    before = lowered(case.function, *case.specs())
    for node in before.graph_def.node:
        node.device = device_of(node)
    return of_graph(before)


@pytest.mark.parametrize("counters", ["/device:GPU:0", "/device:CPU:0"])
def test_loops_of_a_gpu_are_split(counters: str) -> None:
    """Whether the placer left counters on a CPU or not."""
    found = place(CASES["dynamic_rnn_gradient"], lambda node: counters if is_counter(node) else "/device:GPU:0")
    assert len(found.state.native) == 2, found.stay
    for loop in found.state.native:
        assert loop.device == "/device:GPU:0"
        assert loop.host is not None
        assert loop.host.decides
        assert loop.host.body is not None
        node = next(n for n in found.state.graph_def.node if n.name == loop.name)
        assert node.attr["split"].b
        assert node.attr["condition_on_host"].b
        assert len(node.attr["Thost"].list.type) == len(loop.host.inputs)


def is_counter(node: Any) -> bool:
    return node.op in ("AddV2", "Less", "LogicalAnd") and any(
        node.attr[name].type in (tf.int32.as_datatype_enum, tf.bool.as_datatype_enum) for name in node.attr)


def test_a_beam_search_on_a_gpu() -> None:
    """Which beam a word came from is data; the loop's end is not."""
    [loop] = place(CASES["beam_search"], lambda node: "/device:GPU:0").state.native
    assert loop.host is not None
    assert loop.host.decides


def test_data_decides_on_the_gpu() -> None:
    found = place(CASES["until"], lambda node: "/device:GPU:0")
    [loop] = found.state.native
    assert loop.host is not None
    assert not loop.host.decides
    assert loop.host.body is None
    assert loop.on_device == {"body", "condition"}


def test_the_host_checks_indices_on_a_gpu() -> None:
    """Where no kernel raises: in each iteration, by the counter's value."""
    [loop] = place(CASES["sliced"], lambda node: "/device:GPU:0").state.native
    assert loop.host is not None
    assert loop.host.body is not None
    host = loop.host.body
    for at, wanted in ((0, True), (4, True), (5, False), (-1, False)):
        assert bool(_interpret(host, [np.array(at, I32)])[host.outputs[CHECKED]]) == wanted


def test_who_checks_indices_that_are_data() -> None:
    """Nobody on a GPU; the kernels on a CPU."""
    case = LoopCase(sliced_by_data, [floats(3, 3)], 1)
    assert place(case, lambda node: "").state.native
    found = place(case, lambda node: "/device:GPU:0")
    assert not found.state.native
    assert list(found.stay.values()) == ["the host cannot compute whether the indices of an iteration are inside"]


def test_whole_numbers_may_be_on_the_host() -> None:
    """Of any rank, as the texts of a decoder."""
    found = place(CASES["sliced_words"], lambda node: "/device:CPU:0" if is_whole(node) else "/device:GPU:0")
    [loop] = found.state.native
    assert loop.device == "/device:GPU:0"
    found = place(CASES["sliced_words"], lambda node: "" if is_whole(node) else "/device:GPU:0")
    assert len(found.state.native) == 1


def is_whole(node: Any) -> bool:
    return any(node.attr[name].type == tf.int32.as_datatype_enum for name in ("T", "dtype", "Tparams")
               if name in node.attr)


def test_several_devices() -> None:
    found = place(CASES["scan"], lambda node: f"/device:{'CPU' if node.op == 'Tanh' else 'GPU'}:0")
    assert not found.state.native
    assert all("several devices: " in reason for reason in found.stay.values())
    found = place(CASES["scan"], lambda node: f"/device:GPU:{int(node.op == 'Tanh')}")
    assert list(found.stay.values()) == ["its nodes are on several devices"]


def test_weights_do_not_go_through_lists() -> None:
    """What a forward loop pushes and no iteration changes is read from outside by the gradient's loop."""
    found = find(CASES["dynamic_rnn_gradient"])
    forwards, backwards = found.loops.state.native
    stacked = [dims for _, dims in forwards.result_types]
    assert (-1, 3, 3) not in stacked
    assert (6, 3, 3) not in stacked
    ops = [n.op for n in found.loops.state.graph_def.node]
    assert not [op for op in ops if op.startswith(("TensorListPush", "EmptyTensorList"))]
    assert any(t.startswith(f"{forwards.name}:") for t in backwards.inputs)


def test_what_is_multiplied_is_cast_before_the_loop() -> None:
    """Not in each iteration, as a table is of which one row is read; nor does it go through a list."""
    forwards, backwards = find(CASES["cast_weights_gradient"]).loops.state.native
    casts = [n.type.dims for n in forwards.body.graph.nodes() if n.kind is OpKind.CAST]
    assert (3, 3) not in casts
    assert casts
    for loop in (forwards, backwards):
        assert (tf.float64.as_datatype_enum, (3, 3)) in loop.input_types
    assert (4, 3, 3) not in [dims for _, dims in forwards.result_types]


def test_only_one_of_two_runs_as_an_op() -> None:
    """A gradient's loop that stays is given lists of what the forward loop stacks."""
    found = find(CASES["scan_gradient"], StitchConfig(skip=("*while_grad/*",)))
    assert [loop.frame for loop in found.loops.state.native] == ["scan/while"]
    assert list(found.loops.stay.values()) == ["skipped by TF_STITCH_SKIP"]
    for got, wanted in zip(run(found, CASES["scan_gradient"].arrays),
                           found.before.run(*CASES["scan_gradient"].arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_a_gradients_loop_alone_stays() -> None:
    found = find(CASES["scan_gradient"], StitchConfig(skip=("scan/while/body*",)))
    assert not found.loops.state.native
    assert any("goes on with a list of" in reason for reason in found.loops.stay.values())


def test_fuel() -> None:
    """A loop takes three regions, or stays."""
    for regions, count in ((2, 0), (3, 1), (5, 1), (6, 2)):
        found = find(CASES["scan_gradient"], StitchConfig(fuel=Fuel(regions)))
        assert len(found.loops.state.native) == count
        assert any("TF_STITCH_FUEL" in reason for reason in found.loops.stay.values()) == (count < 2)


def loops_as_ops(config: StitchConfig, device: str, native: bool) -> bool:
    return GraphOptions.by(config, device, native, {}, Controls(config)).loops_as_ops


def test_a_gpus_loops_need_kernels_for_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loops_as_ops(StitchConfig(), "GPU", native=True)
    assert not loops_as_ops(StitchConfig(), "GPU", native=False)
    monkeypatch.setattr(host_builder, "compiler", lambda: None)
    config = StitchConfig(cache_dir=tmp_path)
    assert not loops_as_ops(config, "GPU", native=True)
    assert loops_as_ops(replace(config, loop_op="1"), "GPU", native=True)
    assert loops_as_ops(config, "CPU", native=True)
    config.kernels_dir.mkdir()
    record_compiler(config.kernels_dir, "gcc 12")
    assert loops_as_ops(config, "GPU", native=True), "the cache may have its kernels"
