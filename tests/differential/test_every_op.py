"""Every op that has a legalization, in every element type, on the values that kernels get wrong: what its kernel
computes for a CPU, and what the IR means in NumPy, are what TensorFlow's own kernel computes; so are its gradient and
its errors. `every_op/` has the cases, one at least for every op, and where TensorFlow is not followed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pytest
from tensorflow.python.framework import op_def_registry

from tests.differential.every_op import (
    composed,
    convolutions,
    elementwise,
    images,
    pooling,
    reductions,
    scatters,
    shaped,
)
from tests.differential.every_op.case import Array, Case, Fixed, Variable, kernel_types
from tests.differential.every_op.compare import agree, first_bad, tiny
from tests.differential.every_op.differences import NAN, REFUSED, SUBNORMAL
from tests.differential.every_op.errors import errors
from tests.differential.every_op.run import Result, outcome, run_cases
from tests.differential.every_op.trace import starts
from tf_stitch.frontend.tensorflow import legalize
from tf_stitch.frontend.tensorflow.registry import LEGALIZATIONS
from tf_stitch.ir.dtypes import DType

pytestmark = pytest.mark.timeout(900)  # the first test waits for the kernels of all cases

assert legalize.FAMILIES
FAMILIES = (elementwise.elementwise, shaped.movement, shaped.made, images.moved,
            images.resized, reductions.reductions, composed.losses,
            composed.batch_norms, composed.matmuls, convolutions.convolutions, pooling.poolings, composed.optimizers,
            composed.variables, composed.random_numbers, scatters.scatters)


@cache
def cases() -> list[Case]:
    """Of all families; TensorFlow computes some of their inputs."""
    return [case for family in FAMILIES for case in family()]


GRADIENT = {"ulp": 16, "scale": 1}
"""Of gradients, which are several ops, and sums over what was broadcast."""
NUMPY = {"Lgamma": {"ulp": 8, "scale": 1}}
"""Of functions that Python's library computes less exactly."""
OTHER_TYPES = {
    ("_MklSwish", DType.F16), ("_MklSwish", DType.BF16), ("_MklFusedBatchMatMulV2", DType.F16),
    ("_MklFusedBatchMatMulV2", DType.BF16),  # oneDNN has them on some processors
    ("Range", DType.F16),  # TensorFlow infers no shape
    ("FusedBatchNormV3", DType.BF16),
    ("MaxPoolGrad", DType.U64), ("MaxPoolGradV2", DType.U64),  # of a MaxPool that TensorFlow does not have
    *(("_FusedConv2D", dtype) for dtype in DType if dtype not in (DType.F32, DType.F64))}


OF_ONEDNN = {"_FusedDepthwiseConv2dNative", "_FusedBatchNormEx"}
"""That have a kernel once TensorFlow has rewritten them for oneDNN: tests/differential/test_fused_ops.py."""


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> list[Result]:
    """Of the ops whose tests are selected; of all ops if a test about all is."""
    ops: set[str] = set()
    for item in request.session.items:
        if item.path == request.path and "results" in getattr(item, "fixturenames", ()):
            if (case := getattr(item, "callspec", None)) is None:
                return run_cases(cases())
            ops.add(case.params["op"])
    return run_cases([case for case in cases() if case.op in ops])


def test_every_op_has_a_case() -> None:
    have = {case.op for case in cases()}
    assert not LEGALIZATIONS.keys() - have - OF_ONEDNN, "ops without a case in tests/differential/every_op"
    assert not have - LEGALIZATIONS.keys(), "cases of ops without a legalization"


@pytest.mark.parametrize("op", sorted(LEGALIZATIONS.keys() - OF_ONEDNN))
def test_every_element_type_has_a_case(op: str) -> None:
    """Of the op's first input that has a type of its own, as far as TensorFlow has kernels for CPUs."""
    argument = next((a for a in op_def_registry.get(op).input_arg if a.type_attr), None)
    if argument is None:
        return
    have = {DType.of(x.dtype) for case in cases() if case.op == op for x in _arrays(case.inputs[argument.name])}
    missing = [d.value for d in kernel_types(op, argument.type_attr) if d not in have and (op, d) not in OTHER_TYPES]
    assert not missing, f"{op} has no case of {argument.name} in {', '.join(missing)}"


@pytest.mark.parametrize("op", sorted(LEGALIZATIONS.keys() - OF_ONEDNN))
def test_kernel_computes_what_tensorflow_does(op: str, results: list[Result]) -> None:
    found = [r for r in results if r.case.op == op]
    assert any(r.got is not None for r in found), f"{op} is never computed: {found[0].refused}"
    _compare((r, r.got, _allowed(r)) for r in found)


@pytest.mark.parametrize("op", sorted(LEGALIZATIONS.keys() - OF_ONEDNN))
def test_numpy_means_what_tensorflow_does(op: str, results: list[Result]) -> None:
    _compare((r, r.meaning, NUMPY.get(op, _allowed(r))) for r in results if r.case.op == op)


def test_only_what_the_ir_lacks_stays_tensorflows(results: list[Result]) -> None:
    pattern = re.compile("|".join(REFUSED))
    surprising = {f"{r}: {r.refused}" for r in results if r.refused and not pattern.search(r.refused)}
    assert not surprising
    for reason in REFUSED:
        assert any(re.search(reason, r.refused) for r in results), f"nothing is refused for {reason!r} any more"


def test_differences_are_still_there(results: list[Result]) -> None:
    for entry in (*SUBNORMAL, *NAN):  # of IN_FLOAT64, which kernel TensorFlow takes depends on the processor
        ours = [(r, x, _allowed(r)) for r in results for x in (r.got, r.meaning)
                if x is not None and starts(r.case.name, {entry: ""})]
        assert any(not agree(x, r.want, **allowed, zeros=False).all() for r, x, allowed in ours), \
            f"{entry} is TensorFlow's by now"


ERRORS = list(errors())


@pytest.mark.parametrize("case", ERRORS, ids=[f"{i} {c.name}" for i, c in enumerate(ERRORS)])
def test_what_tensorflow_refuses_no_kernel_computes(case: Case) -> None:
    said, why = outcome(case)
    assert said
    assert why, f"{case.name}: kernels compute what TensorFlow refuses ({said})"


def _compare(found: Iterator[tuple[Result, Array | None, dict[str, float]]]) -> None:
    failures = []
    for result, got, allowed in found:
        if got is None:
            continue
        inputs = [x for value in result.case.inputs.values() for x in _arrays(value)]
        zeros = allowed["ulp"] < elementwise.ULP
        good = agree(got, result.want, **allowed, zeros=zeros)
        for other in result.others:
            good |= agree(got, other, max(allowed["ulp"], 1), allowed["scale"], zeros)
        if starts(result.case.name, SUBNORMAL):
            good |= tiny([x for x in inputs if x.shape == got.shape], got.shape)
        if starts(result.case.name, NAN):
            good |= np.isnan(result.want)
        if not good.all():
            failures.append(f"{result}: {first_bad(good, got, result.want, inputs)}")
    assert not failures, "\n".join(failures)


def _allowed(result: Result) -> dict[str, float]:
    return dict(GRADIENT) if result.is_gradient else {"ulp": result.case.ulp, "scale": result.case.scale}


def _arrays(value: object) -> Sequence[Array]:
    if isinstance(value, list):
        return [x for v in value for x in _arrays(v)]
    return [np.asarray(value.value if isinstance(value, Fixed | Variable) else value)]
