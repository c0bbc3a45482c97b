"""Convolutions of TensorFlow and both gradients against float64, from import to kernels and library calls, at random
sizes, strides, dilations, groups, paddings, layouts and types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests.differential.convolutions import PASSES, UNIT, Case, cases, same
from tests.differential.runner import LIGHT, Values, compiled, run_host, run_kernel_ir
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret

ON_CPUS = (DType.F32, DType.F64)
"""Of depthwise convolutions that regions on CPUs hold."""


def check(case: Case, got: Values, values: Values, passes: tuple[str, ...] = PASSES) -> None:
    want, allowed = case.want(values), case.allowed(values)
    for name in passes:
        assert got[name].shape == want[name].shape
        assert DType.of(got[name].dtype) is case.dtype
        off = np.abs(got[name].astype(np.float64) - want[name])
        assert (off <= allowed[name]).all(), f"{name} of {case}: {(off / allowed[name]).max():.2f} of what is allowed"


@given(cases())
def test_imported(case: Case) -> None:
    values = case.values()
    check(case, interpret(case.imported(), values), values)


@given(cases())
@settings(max_examples=40)
def test_kernels_and_library_calls_of_gpus(case: Case) -> None:
    on_gpu(case)


@pytest.mark.exhaustive
@given(cases())
@settings(max_examples=400)
def test_kernels_and_library_calls_of_gpus_at_more_sizes(case: Case) -> None:
    on_gpu(case)


def on_gpu(case: Case) -> None:
    """All passes and kernels of an H200, in Python; library calls by what they mean."""
    graph, values = case.imported(), case.values()
    check(case, run_kernel_ir(graph, compiled(graph, H200), values), values)


@given(cases(depthwise=True, dtypes=ON_CPUS))
@settings(max_examples=20)
def test_kernels_of_cpus(case: Case) -> None:
    on_cpu(replace(case, kept=1))


@pytest.mark.exhaustive
@given(cases(depthwise=True, dtypes=ON_CPUS))
@settings(max_examples=200)
def test_kernels_of_cpus_at_more_sizes(case: Case) -> None:
    on_cpu(replace(case, kept=1))


def on_cpu(case: Case) -> None:
    """Compiled C code of the convolution itself: gradients stay TensorFlow's."""
    graph, values = case.imported(), case.values()
    graph = TensorGraph("forward", graph.outputs[:1])
    check(case, run_host(graph, compiled(graph, CPU), values, LIGHT), values, PASSES[:1])


@pytest.mark.parametrize("dtype", UNIT, ids=lambda d: d.value)
def test_what_is_allowed_is_little(dtype: DType) -> None:
    """An element of an image that is left out is more, in each type; so is rounding to half the bits."""
    case = Case(dtype, 2, (same(7, 3, 2, 1), same(6, 3, 1, 2)), 2, 3, 2, "SAME", False, False)
    values = case.values()
    want, allowed = case.want(values), case.allowed(values)
    bits = 2.0 * UNIT[dtype]**0.5
    rounded = {key: np.round(value.astype(np.float64) / bits) * bits for key, value in values.items()}
    for name in PASSES:
        assert (np.abs(case.want(rounded)[name] - want[name]) > allowed[name]).any()
    missing = dict(values)
    missing["x:0"] = values["x:0"].copy()
    missing["x:0"][0, 3, 3, 0] = 0
    for name in ("forward", "filters"):
        assert (np.abs(case.want(missing)[name] - want[name]) > allowed[name]).any()
