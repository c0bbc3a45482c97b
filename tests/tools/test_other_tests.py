"""Other people's tests: what becomes of each is kept, and ops that they call eagerly can be made graphs."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tools.other_tests.graph_ops import as_graph, wrap_functions
from tools.other_tests.runs import run_files

SUITE = """
import os
import time
import pytest

def test_passes(): pass
def test_fails(): assert False, "said"
def test_skipped(): pytest.skip()
def test_ends_the_process(): os._exit(7)
def test_after_it(): assert os.environ["TF_STITCH"] == "0"
"""


@pytest.mark.parametrize(("end", "seconds"), [("os._exit(7)", 60), ("time.sleep(60)", 2)], ids=["ends", "hangs"])
def test_outcomes_of_a_file_whose_process_ends(tmp_path: Path, end: str, seconds: float) -> None:
    (tmp_path / "some_test.py").write_text(SUITE.replace("os._exit(7)", end))
    for _ in range(2):  # the second time, what is there is read
        outcomes = run_files(tmp_path, ["some_test.py"], "plain", tmp_path / "state", seconds)["some_test.py"]
        assert {test.partition("::")[2]: found.outcome for test, found in outcomes.items()} == {
            "test_passes": "passed", "test_fails": "failed", "test_skipped": "skipped",
            "test_ends_the_process": "ended the process", "test_after_it": "passed"}  # fmt: skip
        assert "said" in outcomes["some_test.py::test_fails"].said


def test_options_of_pytest_are_given(tmp_path: Path) -> None:
    (tmp_path / "some_test.py").write_text("import sys\ndef test_a(): assert 'tools.versions' in sys.modules\n"
                                           "def test_b(): pass\n")  # fmt: skip
    for options, outcomes in (([], ["failed", "passed"]), (["-p", "tools.versions", "-k", "test_a"], ["passed"])):
        found = run_files(tmp_path, ["some_test.py"], "plain", tmp_path / str(len(options)), 60, options)
        assert [o.outcome for o in found["some_test.py"].values()] == outcomes


def test_an_op_is_a_graph_whose_inputs_are_tensors_and_arrays() -> None:
    graphs: list[tf.Graph] = []

    def op(x: Any, y: Any, scale: float, axis: int | None = None) -> Any:
        graphs.append(tf.compat.v1.get_default_graph())
        return tf.reduce_sum((x + y) * scale, axis), "no tensor", [y.shape[0], None]

    total, text, rest = as_graph(op)(np.ones((2, 3), "f4"), tf.ones([2, 3]), 2.0, axis=1)
    assert isinstance(total, tf.Tensor)
    assert total.numpy().tolist() == [12.0, 12.0]
    assert (text, rest) == ("no tensor", [2, None])
    kinds = [node.type for node in graphs[0].get_operations()]
    assert kinds.count("Placeholder") == 2
    assert "Sum" in kinds


def test_sparse_tensors_go_into_the_graph_and_come_out_of_it() -> None:
    """Their shapes are known there: ops decide by them what to do."""
    shapes: list[list[int]] = []

    def op(x: Any, y: Any) -> Any:
        shapes.append([*x.shape, *tf.get_static_value(y.dense_shape)])
        negative = tf.sparse.map_values(tf.negative, x)
        return tf.sparse.reshape(negative, [-1]), tf.IndexedSlices(-y.values, y.indices, y.dense_shape)

    x = tf.sparse.from_dense([[0.0, 1.0], [2.0, 0.0]])
    given = tf.IndexedSlices(tf.ones([2, 3]), np.array([0, 2]), (4, 3))
    sparse, slices = as_graph(op)(x, given)
    assert shapes == [[2, 2, 4, 3]]
    assert tf.sparse.to_dense(sparse).numpy().tolist() == [0.0, -1.0, -2.0, 0.0]
    assert tf.convert_to_tensor(slices).numpy().tolist() == [[-1.0] * 3, [0.0] * 3, [-1.0] * 3, [0.0] * 3]


def test_an_op_of_a_graph_stays_in_it_and_errors_stay_themselves() -> None:
    outer = tf.function(as_graph(tf.tanh), autograph=False).get_concrete_function(tf.ones([3]))
    assert "Tanh" in [node.type for node in outer.graph.get_operations()]

    def op() -> None:
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        as_graph(op)()


def test_the_functions_of_a_module_are_wrapped() -> None:
    module = ModuleType("made_up")
    exec("def op(x): return x\ndef _own(x): return x", vars(module))
    module.of_another = as_graph  # type: ignore[attr-defined]
    before = dict(vars(module))
    wrap_functions(module)
    assert {name for name, value in vars(module).items() if value is not before[name]} == {"op"}
