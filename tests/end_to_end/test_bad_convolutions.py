"""Convolutions of what there is nothing to convolve give what TensorFlow's give, or its error, word for word."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tests.end_to_end.conftest import PROGRAMS, Run, Runner

PROGRAM = PROGRAMS / "bad_convolutions.py"


def said(done: Run) -> dict[str, list[Any]]:
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def without_names(message: str) -> str:
    """Functions have numbers; an executor of TensorFlow's names the op that its node ran in as well."""
    return re.sub(r"__inference_<lambda>_\d+|\[\[[^\]{}]*tf_stitch_\d+/[^\]{}]*\]\]", "", message)


LEFT_AS_IT_WAS = "depthwise: no images, gradients"
"""TensorFlow's kernel for CPUs does not set the gradient of filters there: only its shape is known."""
EIGEN = {"TF_ENABLE_ONEDNN_OPTS": "0"}
"""oneDNN's convolutions without a result have the shape of their images."""


def test_results_and_errors_are_tensorflows(run: Runner) -> None:
    with ThreadPoolExecutor() as both:
        plain, done = both.map(lambda stitch: run(PROGRAM, stitch=stitch, TF_STITCH_GUARD="0",
                                                  TF_STITCH_SCOPE="region", **EIGEN), ("", "1"))
    wanted, found = said(plain), said(done)
    assert found.keys() == wanted.keys()
    for case, calls in wanted.items():
        for want, got in zip(calls, found[case], strict=True):
            if isinstance(want[0], str):
                assert [without_names(line) for line in got] == [without_names(line) for line in want], case
                continue
            assert [shape for shape, _ in got] == [shape for shape, _ in want], case
            for (_, a), (_, b) in zip(got, want, strict=True):
                if case != LEFT_AS_IT_WAS:
                    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=case)
    errors = [calls[-1][0] for calls in wanted.values() if isinstance(calls[-1][0], str)]
    assert {"ValueError", "InvalidArgumentError"} <= set(errors)
    assert done.report is not None
    other = "dimension 8 is 7 at run time where 8 was expected"  # channels, for filters of a known size
    assert {f["stage"] for f in done.report["fallbacks"]} == {"build", "run"}
    rest = {f["reason"] for f in done.report["fallbacks"] if other not in f["reason"]}
    assert rest <= {"nothing was built for these shapes"}
    empty = {remark["reason"] for remark in done.report["remarks"] if remark["stage"] == "run"}
    for op in ("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "AvgPool"):
        assert any(f"({op}): a tensor has no elements" in reason for reason in empty), empty
