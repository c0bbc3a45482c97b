from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pytest
import tensorflow as tf

from tf_stitch.convert.certificate import check, document, failure
from tf_stitch.convert.inputs import generated
from tf_stitch.convert.running import Loaded
from tf_stitch.convert.saved_model import Signature, Value
from tf_stitch.errors import ConvertError

SERVE = Signature("serve", (Value("x", "x:0", tf.float32, (None,)),), (Value("y", "y:0", tf.float32, (None,)),))
CASES = [generated(SERVE, {"x": (4,)}), generated(SERVE, {"x": (5,)})]


class Fake:
    """A loaded model that computes y."""

    tf32 = False

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute = compute

    def run(self, signature: Signature, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {"y": self._compute(inputs["x"])}


def loaded(compute: Callable[[Any], Any]) -> Loaded:
    return cast(Loaded, Fake(compute))


def test_where_a_gpu_computes_in_tf32_the_bound_is_wider() -> None:
    original = Fake(double)
    original.tf32 = True
    checked = check(cast(Loaded, original), loaded(lambda x: double(x) * np.float32(1 + 1e-3)), [SERVE], CASES, 1.0)
    assert [one.passes for one in checked] == [True, True]


def double(x: Any) -> Any:
    return x * np.float32(2)


def test_models_that_agree_pass() -> None:
    parts: list[float] = []
    checked = check(loaded(double), loaded(lambda x: double(x) * np.float32(1 + 1e-6)), [SERVE], CASES, 1.0,
                    parts.append)
    assert [one.passes for one in checked] == [True, True]
    assert [one.random for one in checked] == [(), ()]
    assert [one.digest for one in checked] == [case.digest() for case in CASES]
    assert parts == [0.5, 1.0]


def test_a_difference_fails_and_is_told() -> None:
    checked = check(loaded(double), loaded(lambda x: double(x) + np.float32(x.size == 5)), [SERVE], CASES, 1.0)
    assert [one.passes for one in checked] == [True, False]
    assert "signature serve on generated inputs (x [5]): output y differs" in failure(checked[1])
    stored = document(checked, 1.0)
    assert not stored["passes"]
    assert stored["bounds"]["float32"] == 1e-4
    assert stored["cases"][1]["shapes"] == {"x": [5]}
    assert stored["cases"][1]["outputs"][0]["worst"] > 1e-2
    assert all(one.passes for one in check(loaded(double), loaded(lambda x: double(x) + np.float32(1)), [SERVE], CASES,
                                           1e9))


def test_of_random_models_shapes_and_types_are_compared() -> None:
    random = np.random.default_rng(0)

    def noise(x: Any) -> Any:
        return random.standard_normal(x.shape).astype(np.float32)

    checked = check(loaded(noise), loaded(noise), [SERVE], CASES, 1.0)
    assert all(one.random and one.passes for one in checked)
    wrong = check(loaded(noise), loaded(lambda x: noise(x)[:2]), [SERVE], CASES, 1.0)
    assert not any(one.passes for one in wrong)
    types = check(loaded(noise), loaded(lambda x: noise(x).astype(np.float64)), [SERVE], CASES, 1.0)
    assert not any(one.passes for one in types)


def test_an_output_beside_a_random_one_is_compared_all_the_same() -> None:
    random = np.random.default_rng(0)
    signature = Signature("serve", SERVE.inputs, (*SERVE.outputs, Value("z", "z:0", tf.float32, (None,))))

    class Half(Fake):
        def run(self, signature: Signature, inputs: Mapping[str, Any]) -> dict[str, Any]:
            return super().run(signature, inputs) | {"z": random.standard_normal(2)}

    checked = check(cast(Loaded, Half(double)), cast(Loaded, Half(lambda x: -x)), [signature], CASES, 1.0)
    assert [one.random for one in checked] == [("z",), ("z",)]
    assert not any(one.passes for one in checked)
    assert "output y differs" in failure(checked[0])


def test_what_is_not_finite_is_valid_json() -> None:
    checked = check(loaded(double), loaded(lambda x: double(x)[:1]), [SERVE], CASES, 1.0)
    assert document(checked, 1.0)["cases"][0]["outputs"][0]["worst"] is None


def test_a_model_that_raises_is_refused() -> None:
    def failing(x: Any) -> Any:
        said = "Graph execution error:\n\nDetected at node a\nno such shape\nmore"
        raise tf.errors.InvalidArgumentError(None, None, said)

    with pytest.raises(ConvertError, match=r"the original model cannot run signature serve .*: no such shape\. Give"):
        check(loaded(failing), loaded(double), [SERVE], CASES, 1.0)
    with pytest.raises(ConvertError, match=r"the converted model cannot run .*which the original can"):
        check(loaded(double), loaded(failing), [SERVE], CASES, 1.0)
