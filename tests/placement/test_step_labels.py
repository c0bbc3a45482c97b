"""Names of steps for TensorFlow's profiler."""

from __future__ import annotations

import re

import pytest

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.types import TensorType
from tf_stitch.placement.executable import BufferRef, Copy, Executable, HostLaunch
from tf_stitch.placement.executable_format import Space
from tf_stitch.placement.step_labels import LONGEST, label, step_labels

X, Y = BufferRef(Space.INPUT, 0), BufferRef(Space.OUTPUT, 0)
STEPS = (HostLaunch("k", (X, Y)), HostLaunch("k", (X, Y)), Copy(Y, X, 8))
TENSORFLOWS = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_./>-]*:[A-Z][A-Za-z]*")  # what its profiler takes for an op


def executable() -> Executable:
    return Executable(("x:0",), (), (TensorType(DType.F32, (2,)),), (), (), STEPS, None, None,
                      nodes=(("a/Exp", "a/Sum"), ("b/Exp", "b/Sum")))


@pytest.mark.parametrize(("nodes", "text"), [
    (("a/Tanh",), "a/Tanh:StitchKernel"), (("a/x", "a/y", "a/Softmax"), "a/Softmax-and-2-more:StitchKernel"),
    (("a\n*/ 'x' {é}:0",), "a__/__x______0:StitchKernel")])
def test_a_label_is_an_op_to_the_profiler(nodes: tuple[str, ...], text: str) -> None:
    assert label(nodes, "StitchKernel") == text
    assert TENSORFLOWS.fullmatch(text)


def test_the_end_of_a_long_name_is_kept() -> None:
    text = label(["scope/" * 100 + "Softmax"], "StitchCall")
    assert len(text) == LONGEST + len(":StitchCall")
    assert text.startswith("...")
    assert text.endswith("scope/Softmax:StitchCall")
    assert TENSORFLOWS.fullmatch(text)


def test_steps_whose_nodes_are_known_have_labels() -> None:
    own = {name: name for name in ("a/Exp", "a/Sum", "b/Exp", "b/Sum")}
    assert step_labels(executable(), own) == {0: "a/Sum-and-1-more:StitchKernel", 1: "b/Sum-and-1-more:StitchKernel"}


def test_an_equal_region_has_its_own_names_and_none_that_are_unknown() -> None:
    own = {"b/Exp": "c/Exp", "b/Sum": "c/Sum", "a/Exp": "c/Exp"}
    assert step_labels(executable(), own) == {1: "c/Sum-and-1-more:StitchKernel"}
    assert step_labels(executable(), {}) == {}
