"""What explain says of reports, graphs and SavedModels."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tf_stitch.cli.explain.load import Document, load_document
from tf_stitch.cli.explain.measure import measure
from tf_stitch.cli.explain.rows import KNOWN, SHARED, Graph, graphs
from tf_stitch.cli.explain.text import table
from tf_stitch.cli.explain.why import answers
from tf_stitch.errors import StitchError
from tf_stitch.runtime.device_run import gpu_is_here

ROOT = Path(__file__).parents[2]


def node(name: str, op: str, inputs: list[int], region: int | None = None, reason: str | None = None) -> dict[str, Any]:
    return {"name": name, "op": op, "region": region, "reason": reason, "inputs": inputs}


def kernel(region: int, build: int, nodes: list[str], **more: Any) -> dict[str, Any]:
    return {"region": region, "build": build, "device": "cpu", "symbol": "s", "launch": "stitch_0",
            "rule": "row_reduction", "domain": [8, 16], "nodes": nodes, "node_schemes": {nodes[0]: "local"},
            "schemes": {"local": 1}, "predicted_us": 1.5, "bytes": 1024, "scratch_bytes": 64,
            "shared_bytes": 0} | more  # fmt: skip


def region(number: int, nodes: dict[str, str]) -> dict[str, Any]:
    return {"id": number, "graph": "g", "device": "CPU", "wrap": "native", "nodes": nodes, "inputs": 1, "variables": 0,
            "outputs": 1, "executables": 2, "runs": 7, "fallbacks": 0, "cuda_graphs": None}  # fmt: skip


SOLVER = {"solver": "ilp", "status": "optimal", "objective_us": 2.0, "bound_us": 2.0}


def build(region: int, without_kernel: dict[str, list[str]]) -> dict[str, Any]:
    return {"region": region, "shapes": [[8, 16]], "cached": False, "solver": SOLVER, "seconds": {}, "source": None,
            "launches": [], "arena_bytes": 0, "live_bytes": 0, "without_kernel": without_kernel}


@pytest.fixture
def document() -> Document:
    nodes = [node("x", "_Arg", [], reason="an argument"), node("a<&\"\\", "Tanh", [0], 0), node("v", "Reshape", [1], 0),
             node("m", "MatMul", [2], reason="MatMul is a library call"), node("b", "Exp", [3], 1)]
    again = [node("x", "_Arg", [], reason="an argument"), node("tf_stitch_0/v", "StitchOp", [0], 0)]
    graph = {"graph": "g", "device": "CPU", "stitched_nodes": 3, "regions": [0, 1], "left_out": {}, "milliseconds": 1.0}
    return {
        "graphs": [graph | {"nodes": nodes}, graph | {"nodes": again, "stitched_nodes": 0, "regions": []}],
        "regions": [region(0, {"a<&\"\\": "Tanh", "v": "Reshape"}), region(1, {"b": "Exp"})],
        "kernels": [kernel(0, 0, ["a<&\"\\"], predicted_us=9.0), kernel(0, 1, ["a<&\"\\"], measured_us=2.5)],
        "builds": [build(0, {}), build(0, {"a view": ["v"]})],
        "fallbacks": [{"stage": "build", "where": "region 1", "reason": "gcc is gone", "count": 3}],
    }


def test_every_op_has_a_kernel_or_a_reason(document: Document) -> None:
    [graph] = graphs(document)
    ops = {op.name: op for op in graph.ops}
    assert [k.predicted_us for k in ops["a<&\"\\"].kernels] == [1.5]  # of the last executable
    assert ops["a<&\"\\"].scheme == "local"
    assert ops["v"].why == "a view"
    assert ops["b"].why == "build: gcc is gone"
    assert ops["m"].why == "MatMul is a library call"


def test_the_handle_of_a_variable_is_called_what_the_user_knows() -> None:
    nodes = [node("w", "StitchHandle", [], reason="StitchHandle has no legalisation")]
    graph = {"graph": "g", "device": "CPU", "stitched_nodes": 0, "regions": [], "left_out": {}, "milliseconds": 1.0}
    empty: Document = {"regions": [], "kernels": [], "builds": [], "fallbacks": []}
    [found] = graphs(empty | {"graphs": [graph | {"nodes": nodes}]})
    assert [(op.op, op.why) for op in found.ops] == [("VarHandleOp", "VarHandleOp has no legalisation")]


def test_a_region_says_what_is_transposed_beside_its_convolutions(document: Document) -> None:
    document["builds"][1]["convolutions"] = "3 convolutions, no transpose beside them"
    [graph] = graphs(document)
    assert any("region 0" in line and "3 convolutions, no transpose beside them" in line for line in table(graph))


def test_an_op_without_a_kernel_says_whose_value_it_has() -> None:
    nodes = [node("x", "_Arg", [], reason="an argument"), node("c", "Const", [], reason="a constant"),
             node("e", "Exp", [0], 0), node("e2", "Exp", [0], 0), node("i", "Identity", [3], 0),
             node("s", "Sqrt", [4], 0), node("s2", "Sqrt", [2], 0), node("k", "Neg", [1], 0),
             node("d", "Sub", [0, 2], 0)]  # fmt: skip
    graph = {"graph": "g", "device": "CPU", "stitched_nodes": 7, "regions": [0], "left_out": {}, "milliseconds": 1.0}
    document = {"graphs": [graph | {"nodes": nodes}], "regions": [region(0, {n["name"]: n["op"] for n in nodes[2:]})],
                "kernels": [kernel(0, 0, ["e", "s2"])], "builds": [build(0, {})], "fallbacks": []}
    [found] = graphs(document)
    assert {op.name: op.why for op in found.ops if op.region is not None} == {
        "e": None, "e2": "repeats e, which is computed once", "i": "hands on the value of e",
        "s": "repeats s2, which is computed once", "s2": None, "k": KNOWN, "d": SHARED}  # fmt: skip


def test_table(document: Document) -> None:
    [graph] = graphs(document)
    text = "\n".join(table(graph))
    assert "3 of 5 ops in 2 regions" in text
    assert "greedy plan, proven optimal, saves 2.0 us of at most 2.0" in text, "no program ran"
    for made in document["builds"]:
        made["solver"] = SOLVER | {"program": "HiGHS"}
    assert "plan solved by HiGHS, proven optimal, saves" in "\n".join(table(next(iter(graphs(document)))))
    assert re.search(r"Tanh +0 +0\.0 +row_reduction +local +1\.50 +2\.50 +1024 +64 +a", text)
    assert re.search(r"MatMul +MatMul is a library call +m$", text, re.MULTILINE)
    assert list(table(graph, "nothing*")) == []
    assert sum("MatMul" in line for line in table(graph, "m")) == 1
    assert not any("region 0" in line for line in table(graph, "b"))


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text('{"graphs": 3}')
    (tmp_path / "noise.pb").write_bytes(b"\xff\xfe nothing")
    (tmp_path / "empty").mkdir()
    for name in ("broken.json", "other.json", "noise.pb", "empty", "missing"):
        with pytest.raises(StitchError):
            load_document(tmp_path / name)


def test_why(document: Document) -> None:
    [graph] = graphs(document)
    text = "\n".join(answers(graph, "*"))
    assert "m (MatMul) in graph g\n  TensorFlow runs it: MatMul is a library call\n" in text
    assert "v (Reshape) in graph g\n  region 0, in no kernel: a view\n" in text
    assert "kernel 0.0: row_reduction 8 x 16, 1 op, 1.5 us predicted, 2.5 us measured, 1,024 bytes moved, " \
        "64 of scratch a block" in text
    assert "its value goes to v (memory)" in text
    assert list(answers(graph, "nothing*")) == []


def test_why_gives_the_scheme_of_each_edge() -> None:
    nodes = [node("e", "Exp", [], 0), node("m", "Mul", [0], 0), node("s", "Sum", [0], 0), node("t", "Tanh", [2], 0)]
    edges = [{"producer": "e", "user": user, "scheme": scheme, "why": why}
             for user, scheme, why in (("m", "local", "here"), ("s", "global", "elsewhere"))]  # fmt: skip
    graph = {"graph": "g", "device": "CPU", "stitched_nodes": 4, "regions": [0], "left_out": {}, "milliseconds": 1.0}
    one = kernel(0, 0, ["e", "m", "s", "t"], node_schemes={"e": "global", "s": "local"}, edges=edges,
                 independent=[["e", "m", "s"], ["t"]])  # fmt: skip
    document = {"graphs": [graph | {"nodes": nodes}], "regions": [region(0, {n["name"]: n["op"] for n in nodes})],
                "kernels": [one], "builds": [build(0, {})], "fallbacks": []}
    [found] = graphs(document)
    text = "\n".join(answers(found, "*"))
    assert "its value goes to m (local: here), s (global: elsewhere)" in text
    assert "its value goes to t (local)" in text  # of an op that was simplified away
    assert "independent: it hands nothing to 1 other parts, among them t" in text
    assert "schemes: 1 local, 2 independent parts" in text


class Model(tf.Module):
    """A dense layer and a softmax."""

    def __init__(self) -> None:
        self.w = tf.Variable(tf.ones((64, 64)))  # larger than matmuls that kernels inline

    @tf.function(input_signature=[tf.TensorSpec((None, 64), tf.float32)])
    def serve(self, x: Any) -> Any:
        return tf.nn.softmax(tf.tanh(tf.matmul(x, self.w)) * 2.0)


def only_graph(path: Path, size: int | None = None) -> Graph:
    [graph] = graphs(load_document(path, size))
    return graph


def test_saved_model(tmp_path: Path) -> None:
    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), {"serving_default": model.serve})
    graph = only_graph(tmp_path / "model")
    whys = {op.op: op.why for op in graph.ops}
    assert whys["MatMul"] == "MatMul is a library call too large for a region"
    assert whys["Softmax"] == "plan: its sizes are known at run time only, or by --size"
    planned = {op.op: op for op in only_graph(tmp_path / "model" / "saved_model.pb", 32).ops}
    assert [k.rule for k in planned["Softmax"].kernels] == ["row_reduction"]
    assert planned["Tanh"].kernels == planned["Softmax"].kernels
    assert planned["VarHandleOp"].why


def test_a_plan_for_a_gpu_holds_library_calls(tmp_path: Path) -> None:
    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), {"serving_default": model.serve})
    [graph] = graphs(load_document(tmp_path / "model", 32, "h200"))
    rules = {op.op: [k.rule for k in op.kernels] for op in graph.ops}
    assert rules["MatMul"] == ["library"]
    assert rules["Softmax"] == ["row_reduction"]


@pytest.mark.parametrize("suffix", ["pb", "pbtxt"])
def test_graph_def(tmp_path: Path, suffix: str) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (8, 16), "x")
        tf.nn.softmax(tf.tanh(x) * 2.0, name="y")
    tf.io.write_graph(graph.as_graph_def(), str(tmp_path), f"graph.{suffix}", as_text=suffix == "pbtxt")
    ops = {op.name: op for op in only_graph(tmp_path / f"graph.{suffix}").ops}
    assert ops["y"].kernels
    assert "Placeholder" in str(ops["x"].why)


def test_the_choice_of_the_profitability_check(document: Document) -> None:
    document["profitability"] = [{"region": 0, "device": "CPU", "shapes": [[8, 16]], "stitched_us": 9.0,
                                  "fallback_us": 3.5, "chosen": "fallback"}]
    [graph] = graphs(document)
    told = "9.0 us in the run, 3.5 us by TensorFlow's ops, so it gave way to them"
    assert told in "\n".join(table(graph))
    assert f"v (Reshape) in graph g\n  region 0 ({told}), in no kernel: a view\n" in "\n".join(answers(graph, "v"))


def test_a_loop_as_one_op(document: Document) -> None:
    document["regions"] += [dict(document["regions"][0], id=n, nodes={}, runs=5) for n in (2, 3, 4)]
    document["graphs"][0]["nodes"][3] = node("m", "Enter", [2], 2)
    document["graphs"][0]["nodes"][4]["region"] = 4
    document["graphs"][0]["regions"] = [0, 1, 2, 3, 4]
    document["graphs"][0]["loops"] = [{"name": "w", "steps": None, "reason": None, "regions": [2, 0, 3, 4]}]
    [graph] = graphs(document)
    text = "\n".join(table(graph))
    assert "region 2: the loop w as one op: region 0 again and again, as long as region 3 says so, 0 ops" in text
    assert "region 0: the body of the loop w, region 2, " in text
    assert "region 4: the host's part of the loop w, region 2, " in text
    assert re.search(r"^Enter +2  the op that runs the loop does this itself +m$", text, re.MULTILINE)


def test_library_calls(document: Document) -> None:
    document["graphs"][0]["nodes"][3] = node("m", "MatMul", [2], 0)
    document["kernels"].append(kernel(0, 1, ["m"], rule="library", symbol="gemm float32 1x[8,4]x[4,16] nn", launch="",
                                      predicted_us=4.0, node_schemes={}, schemes={}, scratch_bytes=0, shared_bytes=0))
    [graph] = graphs(document)
    text = "\n".join(table(graph))
    assert re.search(r"MatMul +0 +0\.1 +library +4\.00 +1024 +0 +m$", text, re.MULTILINE)
    assert "kernel 0.1: library call, gemm float32 1x[8,4]x[4,16] nn, 4.0 us predicted, 1,024 bytes moved" in text
    assert "1 kernel, 1 library call, 5.5 us predicted, 2.5 us measured" in text
    assert "kernel 0.1: library call" in "\n".join(answers(graph, "m"))


def test_what_blocks_and_threads_work_in(document: Document) -> None:
    document["kernels"].append(kernel(0, 1, ["m"], requested_bytes=256, registers=40, spilled_bytes=12))
    [graph] = graphs(document)
    assert ("64 of scratch a block for arrays of 256 (alloc/req 0.25), 40 registers a thread, "
            "12 bytes of them spilled") in "\n".join(table(graph))


def test_measured_times(tmp_path: Path) -> None:
    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), {"serving_default": model.serve})
    document = load_document(tmp_path / "model", 32)
    assert list(measure(document)) == []
    [kernel] = next(graphs(document)).regions[0].kernels
    assert kernel.measured_us is not None
    assert 0 < kernel.measured_us < 1e5
    sources = document["sources"]
    document["sources"] = {}
    assert list(measure(document)) == \
        ["region_0_0.c is not timed: it is not in the folder sources/ beside the report"]
    document["sources"] = sources | {"region_0_0.c": "nonsense"}
    [message] = measure(document)
    assert "region_0_0.c is not timed: " in message


@pytest.mark.skipif(gpu_is_here(), reason="there is a GPU")
def test_cuda_kernels_need_a_gpu_to_be_measured(tmp_path: Path) -> None:
    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), {"serving_default": model.serve})
    document = load_document(tmp_path / "model", 32, "h200")
    assert list(measure(document)) == \
        ["region_0_0.cu is not timed: its kernels need a GPU, and CuPy finds none here"]


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_is_here(), reason="no GPU")
def test_measured_times_on_a_gpu(tmp_path: Path) -> None:
    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), {"serving_default": model.serve})
    document = load_document(tmp_path / "model", 4096, "h200")
    assert list(measure(document)) == []
    kernels = next(graphs(document)).regions[0].kernels
    times = [kernel.measured_us for kernel in kernels if kernel.rule != "library"]
    assert times
    assert all(time is not None and 0 < time < 1e5 for time in times)


def explain(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tf_stitch", "explain", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_program(document: Document, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps(document))
    done = explain(str(tmp_path), "--op=m", f"--html={tmp_path}/p.html")
    assert done.returncode == 0, done.stderr
    assert "MatMul is a library call" in done.stdout
    assert (tmp_path / "p.html").exists()
    done = explain(str(tmp_path), "--why=m")
    assert done.stdout == "m (MatMul) in graph g\n  TensorFlow runs it: MatMul is a library call\n"


@pytest.mark.parametrize(("flag", "code", "said"), [
    ("--why=nothing*", 2, "no op has a name like 'nothing*'"), ("--op=nothing", 2, "no op has a name like 'nothing'"),
    ("--graph=nothing", 1, "no graph has 'nothing' in its name"),
    ("--source=nofile.py:3", 2, "no op was made at nofile.py:3; ops here come from model.py")])
def test_flags_that_fit_nothing(document: Document, tmp_path: Path, flag: str, code: int, said: str) -> None:
    document["graphs"][0]["sources"] = {"m": "model.py:7"}
    (tmp_path / "report.json").write_text(json.dumps(document))
    done = explain(str(tmp_path), flag)
    assert done.returncode == code
    assert said in done.stderr
    assert not done.stdout


class Decoder(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([1, 64]), tf.TensorSpec([1], tf.bool), tf.TensorSpec([1], tf.int32)])
    def step(self, logits: tf.Tensor, done: tf.Tensor, end: tf.Tensor) -> dict[str, tf.Tensor]:
        best = tf.argmax(tf.nn.softmax(logits), -1, tf.int32)
        return {"best": tf.where(done, end, best), "next": end + 1}


def test_small_integers_that_a_gpu_computes_are_held(tmp_path: Path) -> None:
    model = Decoder()
    tf.saved_model.save(model, str(tmp_path), {"serving_default": model.step})
    nodes = load_document(tmp_path, device="h200")["graphs"][0]["nodes"]
    held = {node["op"]: node["region"] is not None for node in nodes}
    assert held["ArgMax"]
    assert held["SelectV2"]
    assert not held["AddV2"]
