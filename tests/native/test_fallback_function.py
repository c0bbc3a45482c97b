"""A region's own nodes in place of its kernels (op/fallback_function.h, op/work_queue.h): as TensorFlow runs the
original's, in the threads that a session has."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tensorflow.core.protobuf.config_pb2 import ConfigProto
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from tests.convert.models import keras_export
from tests.support.fork_server import ForkServer
from tf_stitch.config import load_config, plain_environment
from tf_stitch.convert.command import main
from tf_stitch.native.build import SOURCE_DIR, STITCH_OP, build_library

PROGRAM = """
import json, os, sys, threading
import numpy as np
import tensorflow as tf
v1 = tf.compat.v1
library, *models = sys.argv[1:]
tf.load_op_library(library)
X = np.random.default_rng(0).standard_normal((5, 16)).astype(np.float32)
CONFIG = v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)

def loaded(path):
    graph = tf.Graph()
    with graph.as_default():
        session = v1.Session(graph=graph, config=CONFIG)
        signature = v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
    return session, next(iter(signature.outputs.values())).name, signature.inputs["x"].name

def threads():
    return len(os.listdir("/proc/self/task"))

def run(model, **options):
    session, output, given = model
    return session.run(output, {given: X}, **options)

def ops(model):
    said = v1.RunMetadata()
    run(model, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), run_metadata=said)
    return sorted({node.timeline_label.partition(" = ")[2].partition("(")[0] for device in said.step_stats.dev_stats
                   for node in device.node_stats})

one, other = map(loaded, models)
expected = run(one)
before = threads()
np.testing.assert_allclose(run(other), expected, atol=1e-5)
after = threads()
results = []
clients = [threading.Thread(target=lambda: results.extend(run(other) for _ in range(20))) for _ in range(6)]
for client in clients:
    client.start()
for client in clients:
    client.join(100)
for result in results:
    np.testing.assert_allclose(result, expected, atol=1e-5)
print(json.dumps({"ops": [ops(one), ops(other)], "threads": after - before, "results": len(results)}))
"""


@pytest.fixture(scope="module")
def said(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What PROGRAM says of a model that is one region, for a shape without kernels."""
    folder = tmp_path_factory.mktemp("model")
    keras_export(folder / "original")
    assert main([f"--input_dir={folder / 'original'}", f"--output_dir={folder / 'converted'}", "--nomeasure",
                 "--scope=region", "--input_ranges=batch=3:4"]) == 0
    library = build_library(STITCH_OP, load_config().cache_dir)
    done = fork_server.completed(PROGRAM, [library, folder / "original", folder / "converted"], plain_environment(),
                                folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "runs TensorFlow's own ops for [5,16]" in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_nodes_are_fused_as_the_original_s(said: dict[str, Any]) -> None:
    original, converted = ({op for op in ops if "MatMul" in op or "BiasAdd" in op} for ops in said["ops"])
    assert any("Fused" in op for op in original)
    assert converted == original


def test_a_session_of_one_thread_gets_no_other(said: dict[str, Any]) -> None:
    assert said["threads"] == 0


def test_clients_do_not_wait_for_each_other_s_threads(said: dict[str, Any]) -> None:
    """All threads of the pool may run regions at once, each of which waits for its nodes."""
    assert said["results"] == 6 * 20


def test_what_grappler_is_told_is_a_config_of_tensorflow_s() -> None:
    text = (SOURCE_DIR / "op" / "partition_passes.h").read_text()
    found = re.search(r'kRewrites\[\] = "((?:\\x[0-9a-f]{2})+)"', text)
    assert found
    rewrites = ConfigProto.FromString(bytes.fromhex(found[1].replace("\\x", ""))).graph_options.rewrite_options
    assert rewrites.use_plugin_optimizers == RewriterConfig.OFF
    assert rewrites.memory_optimization == RewriterConfig.NO_MEM_OPT
    assert len(rewrites.ListFields()) == 2
