"""What the user lets tf_stitch take, what the report says of every node, and what is dumped."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import types_of_graph
from tf_stitch.cli.analysis import Analysis
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.config import Fuel, MemoryBudget, StitchConfig, load_config
from tf_stitch.device.spec import CPU
from tf_stitch.errors import ConfigError
from tf_stitch.graph.clustering import clusters as rewriter
from tf_stitch.graph.clustering.clusters import SMALL_ELEMENTS
from tf_stitch.graph.clustering.controls import NOT_NAMED, SKIPPED
from tf_stitch.graph.graph_item import GraphItem, OutputType
from tf_stitch.jit.build_key import Key
from tf_stitch.jit.region_builder import CPU_ORDINAL
from tf_stitch.plugin.session import Session
from tf_stitch.report.entries import GraphEntry
from tf_stitch.report.report import write_report

WIDTH = 16


def layers(x: Any, w: Any) -> Any:
    """Three regions, with matmuls between them."""
    for i in range(3):
        with tf.name_scope(f"layer{i}"):
            x = tf.nn.softmax(tf.tanh(tf.matmul(x, w, name="matmul"), name="squash") * 2.0, name="normalise")
    return x


@functools.cache
def concrete(function: Any = layers, rows: int | None = 8) -> Any:
    return tf.function(function).get_concrete_function(
        tf.TensorSpec((rows, WIDTH), tf.float32), tf.TensorSpec((WIDTH, WIDTH), tf.float32))


def graph_def(function: Any = layers) -> Any:
    graph = concrete(function).graph.as_graph_def()
    for node in graph.node:
        node.device = "/device:CPU:0"
    return graph


class Types:
    def __init__(self, function: Any) -> None:
        self._types = types_of_graph(concrete(function).graph)

    def output_types(self, node_name: str) -> list[OutputType]:
        return self._types(node_name)


def rewrite(config: StitchConfig, function: Any = layers) -> tuple[Session, GraphEntry]:
    session = Session(config, None)
    session.rewrite(GraphItem(graph_def(function), frozenset({"Identity"}), "test", "CPU", False, Types(function)))
    return session, session.report.graphs[0]


def reasons(entry: GraphEntry) -> dict[str, str | None]:
    return {node.name: node.reason for node in entry.nodes}


def regions(entry: GraphEntry) -> dict[str, int | None]:
    return {node.name: node.region for node in entry.nodes}


@pytest.fixture
def config(tmp_path: Path) -> StitchConfig:
    return StitchConfig(enabled=True, cache_dir=tmp_path / "cache")


def test_variables() -> None:
    config = load_config({"TF_STITCH_ONLY": "a/*, b", "TF_STITCH_SKIP": "*grad*", "TF_STITCH_FUEL": "0"})
    assert (config.only, config.skip, config.fuel) == (("a/*", "b"), ("*grad*",), Fuel(None, 0))
    for text, fuel in (("12.3", Fuel(12, 3)), ("12r", Fuel(12)), ("12", Fuel(None, 12))):
        assert load_config({"TF_STITCH_FUEL": text}).fuel == fuel
        assert str(fuel) == text
    assert (load_config({}).only, load_config({}).skip, load_config({}).fuel) == ((), (), None)
    for text, budget in (("auto", None), ("", None), ("0.5", MemoryBudget(0.5)), ("0", MemoryBudget(0.0)),
                         ("12GiB", MemoryBudget(nbytes=12 << 30)), ("1.5MiB", MemoryBudget(nbytes=3 << 19)),
                         ("64KiB", MemoryBudget(nbytes=1 << 16))):
        assert load_config({"TF_STITCH_MEMORY": text}).memory == budget


@pytest.mark.parametrize("variable", [{"TF_STITCH_FUEL": "-1"}, {"TF_STITCH_FUEL": "1.x"},
                                      {"TF_STITCH_FUEL": "1."}, {"TF_STITCH_FUEL": "r"}, {"TF_STITCH_SKIP": "a,,b"},
                                      {"TF_STITCH_MEMORY": "1.2"}, {"TF_STITCH_MEMORY": "-0.5"},
                                      {"TF_STITCH_MEMORY": "12GB"}, {"TF_STITCH_MEMORY": "nan"},
                                      {"TF_STITCH_MEMORY": "-1GiB"}, {"TF_STITCH_MEMORY": "infGiB"},
                                      {"TF_STITCH_MEMORY": "GiB"}, {"TF_STITCH_MEMORY": "half"}])
def test_variables_refused(variable: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError, match="is not allowed"):
        load_config(variable)


def test_every_node_has_a_region_or_a_reason(config: StitchConfig) -> None:
    _, entry = rewrite(config)
    assert entry.regions == [0, 1, 2]
    for node in entry.nodes:
        assert (node.region is None) == bool(node.reason), node
    place = {node.name: i for i, node in enumerate(entry.nodes)}
    assert entry.nodes[place["layer1/squash"]].inputs == [place["layer1/matmul"]]
    assert reasons(entry)["layer1/matmul"] == "MatMul is a library call"
    assert reasons(entry)["Identity"] == "costs nothing by itself, at the rim of a region"
    assert sum(entry.left_out.values()) == 3  # the matmuls: the rest costs nothing


def test_skip(config: StitchConfig) -> None:
    _, entry = rewrite(replace(config, skip=("layer0/normalise", "layer1/*")))
    found = reasons(entry)
    assert found["layer0/normalise"] == found["layer1/squash"] == found["layer1/normalise"] == SKIPPED
    assert found["layer1/matmul"] == "MatMul is a library call"  # it stays anyway
    assert regions(entry)["layer0/squash"] == 0
    assert regions(entry)["layer2/squash"] == 1


def test_only(config: StitchConfig) -> None:
    _, entry = rewrite(replace(config, only=("layer1/*",), skip=("*/normalise",)))
    found = reasons(entry)
    assert found["layer0/squash"] == NOT_NAMED
    assert found["layer1/normalise"] == SKIPPED
    assert {name for name, region in regions(entry).items() if region is not None} == {"layer1/squash", "layer1/mul"}


def test_too_small_a_region_says_so(config: StitchConfig) -> None:
    _, entry = rewrite(replace(config, min_region=9))
    assert entry.regions == []
    assert reasons(entry)["layer0/squash"] == \
        "3 working nodes together with what it could be stitched to; TF_STITCH_MIN_REGION is 9"


def lone_small(x: Any, w: Any) -> Any:
    return tf.matmul(tf.nn.softmax(tf.matmul(x, w), name="lone"), w)


def lone_large(x: Any, w: Any) -> Any:
    many = tf.matmul(tf.tile(x, [SMALL_ELEMENTS // WIDTH, 1]), w)
    return tf.matmul(tf.nn.softmax(many, name="lone"), w)


def test_a_large_op_alone_is_worth_a_region_on_cpus(config: StitchConfig) -> None:
    assert regions(rewrite(config, lone_large)[1])["lone"] is not None
    assert "one working node" in str(reasons(rewrite(config, lone_small)[1])["lone"])
    assert "2 working nodes" in str(reasons(rewrite(replace(config, min_region=3), lone_large)[1])["lone"])


def from_nothing(x: Any, w: Any) -> Any:
    """Five values that no input has to do with, each between ops that no region holds."""
    for i in range(5):
        grown = tf.exp(tf.fill([16, 16], float(i), name=f"fill{i}"), name=f"exp{i}")
        x = x + tf.linalg.det(grown)
    return x


def test_regions_that_read_nothing_are_refused_at_once(config: StitchConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []
    find = rewriter.find_regions
    monkeypatch.setattr(rewriter, "find_regions", lambda *args: rounds.append(1) or find(*args))
    _, entry = rewrite(replace(config, min_region=1), from_nothing)
    why = reasons(entry)
    assert {why[f"{op}{i}"] for op in ("fill", "exp") for i in range(5)} == {"reads nothing from outside"}
    assert len(rounds) == 2


def test_fuel_takes_the_first_regions_of_the_process(config: StitchConfig) -> None:
    everything = rewrite(config)[1]
    for fuel in range(5):
        session, entry = rewrite(replace(config, fuel=Fuel(fuel)))
        assert len(entry.regions) == min(fuel, 3)
        for node, whole in zip(entry.nodes, everything.nodes, strict=True):
            if whole.region is None or whole.region < fuel:
                assert node == whole
            else:
                assert node.reason == f"beyond the first {fuel} regions (TF_STITCH_FUEL={fuel}r)"
        again = GraphItem(graph_def(), frozenset({"Identity"}), "next", "CPU", False, Types(layers))
        session.rewrite(again)
        assert len(session.report.graphs[1].regions) == max(0, min(fuel - 3, 3))


def two_patterns(x: Any, w: Any) -> Any:
    """A region with a pattern at either end of a sum over everything."""
    return tf.exp(tf.tanh(x) * 2.0) / tf.reduce_sum(tf.exp(tf.tanh(tf.transpose(x)) * 2.0), 0, keepdims=True)[:, :1]


@pytest.mark.parametrize("kept", [0, 1, 2, None])
def test_fuel_after_the_point_counts_patterns(config: StitchConfig, kept: int | None) -> None:
    fuel = None if kept is None else Fuel(0, kept)
    session, entry = rewrite(replace(config, fuel=fuel), two_patterns)
    assert entry.regions == [0]
    built = session.registry.build(0, CPU_ORDINAL, Key(True, ((8, WIDTH),)))
    patterns = [k for k in session.report.kernels if k.pattern is not None]
    everything = compile_region(session.registry.bound(0, ((8, WIDTH),)), ("i0",), (), CompileOptions(built.device))
    whole = [p.nodes for p in everything.plan.patterns if len(p.nodes) > 1]
    assert len(patterns) == (len(whole) if kept is None else min(kept, len(whole)))
    assert [k.pattern for k in patterns] == list(range(len(patterns)))
    x = np.linspace(-1, 1, 8 * WIDTH, dtype=np.float32).reshape(8, WIDTH)
    assert built.host is not None
    np.testing.assert_allclose(built.host.run({"i0": x}, {})[0][0], two_patterns(x, None).numpy(), rtol=1e-5)


def test_equal_regions_are_reported_by_their_own_names(config: StitchConfig) -> None:
    session, entry = rewrite(config)
    for number in entry.regions:
        session.registry.build(number, CPU_ORDINAL, Key(True, ((8, WIDTH),)))
    names = {name: {node for k in session.report.kernels if k.region == region for node in k.nodes}
             for name, region in regions(entry).items() if region is not None}
    assert all(name in nodes for name, nodes in names.items() if not name.endswith("/mul/y"))
    assert [k.build for k in session.report.kernels] == [0, 0, 0]


def test_dump_has_every_stage(config: StitchConfig, tmp_path: Path) -> None:
    def mean_of_nothing_new(x: Any, w: Any) -> Any:
        y = tf.reshape(tf.reshape(tf.tanh(x), (4, 2, WIDTH)), (8, WIDTH)) + 1.0  # the passes remove a reshape
        return tf.identity(tf.exp(y) + tf.exp(y))

    session, _ = rewrite(replace(config, dump_dir=tmp_path / "dump"), mean_of_nothing_new)
    session.registry.build(0, CPU_ORDINAL, Key(True, ((8, WIDTH),)))
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert {"graph_0_test.imported.txt", "region_0_0.graph.0_bound.txt", "region_0_0.plan.txt",
            "region_0_0.schedules.txt", "region_0_0.kernel_ir.txt", "region_0_0.memory.txt",
            "region_0_0.source.c"} <= set(names)
    assert any(".graph.1_" in name for name in names), names
    texts = {name: (tmp_path / "dump" / name).read_text() for name in names}
    assert "Tanh" in texts["graph_0_test.imported.txt"]
    assert "region 0" in texts["graph_0_test.imported.txt"]
    assert "tanh" in texts["region_0_0.plan.txt"]
    assert "tanh(" in texts["region_0_0.kernel_ir.txt"]
    assert re.match(r"arena \d+ bytes, alive at most \d+, in any order of the kernels at least \d+\n",
                    texts["region_0_0.memory.txt"])
    assert re.match(r"kernel 0 in stitch_0, .* us predicted\n  computes .*Tanh", texts["region_0_0.schedules.txt"])
    assert "int stitch_0(" in texts["region_0_0.source.c"]
    assert re.search(r"= tfs_tanhf\(.*\);  // .*Tanh$", texts["region_0_0.source.c"], re.MULTILINE)


def test_a_dump_folder_that_cannot_be_written_is_said_once(config: StitchConfig, tmp_path: Path,
                                                          capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    session, entry = rewrite(replace(config, dump_dir=tmp_path / "file"))
    session.registry.build(0, CPU_ORDINAL, Key(True, ((8, WIDTH),)))
    assert entry.regions == [0, 1, 2]
    assert capsys.readouterr().err.count("no more dumps") == 1


def test_analysis_plans_what_has_known_sizes(config: StitchConfig) -> None:
    """Matmuls known to be small are in regions of CPUs, too: all three are one then."""
    for rows, size, planned in ((8, None, True), (None, None, False), (None, 32, True)):
        analysis = Analysis(config, CPU, size)
        function = concrete(rows=rows)
        analysis.add("g", function.graph.as_graph_def(), types_of_graph(function.graph), frozenset())
        document = analysis.document()
        assert document["graphs"][0]["regions"] == ([0] if rows else [0, 1, 2])
        assert bool(document["kernels"]) == planned
        assert all(f["reason"] == "its sizes are known at run time only, or by --size" for f in document["fallbacks"])
        assert len(document["fallbacks"]) == (0 if planned else 3)


def test_the_report_of_a_large_graph_stays_small(config: StitchConfig, tmp_path: Path) -> None:
    def large(x: Any, w: Any) -> Any:
        for i in range(1250):
            with tf.name_scope(f"a_scope_of_some_length/another_one/layer_{i}"):
                x = tf.exp(tf.tanh(x)) * 0.5
        return x

    session, entry = rewrite(config, large)
    assert len(entry.nodes) > 5000
    path = write_report(session.report.document(), tmp_path, {})
    assert path.stat().st_size < 3 << 20
    assert json.loads(path.read_text())["graphs"][0]["nodes"][5]["name"]


def test_fuel_counts_patterns_across_regions(config: StitchConfig) -> None:
    """Three regions in a row, of a pattern each."""
    def different(x: Any, w: Any) -> Any:
        for i, squash in enumerate((tf.tanh, tf.sigmoid, tf.nn.softplus)):
            x = tf.matmul(tf.nn.softmax(squash(x) * 2.0), w, name=f"matmul{i}")
        return x

    for patterns in (0, 2, 3, 9):
        session, entry = rewrite(replace(config, fuel=Fuel(None, patterns)), different)
        assert entry.regions == [0, 1, 2]
        for region in (2, 0, 1):  # in the order in which they run first
            session.registry.build(region, CPU_ORDINAL, Key(True, ((8, WIDTH),)))
        kept = [sum(k.pattern is not None and (k.region, k.build) == (region, 0) for k in session.report.kernels)
                for region in (2, 0, 1)]
        assert kept == [int(patterns > i) for i in range(3)]
