"""Names of steps for TensorFlow's profiler."""

from __future__ import annotations

import re
import struct

import pytest

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.types import TensorType
from tf_stitch.runtime.executable import BufferRef, Copy, Executable, HostLaunch, encode
from tf_stitch.runtime.executable_format import Space
from tf_stitch.runtime.step_labels import LONGEST, label, with_labels

X, Y = BufferRef(Space.INPUT, 0), BufferRef(Space.OUTPUT, 0)
STEPS = (HostLaunch("k", (X, Y)), HostLaunch("k", (X, Y)), Copy(Y, X, 8))
TENSORFLOWS = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_./>-]*:[A-Z][A-Za-z]*")  # what its profiler takes for an op


def executable(after: tuple[tuple[int, ...], ...] | None = None) -> Executable:
    return Executable(("x:0",), (), (TensorType(DType.F32, (2,)),), (), (), STEPS, None, after,
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


def texts(words: list[int]) -> dict[int, str]:
    """Step -> label, of what follows the edges."""
    count, *words = words
    found = {}
    for _ in range(count):
        step, size, *words = words
        packed, words = words[:-(-size // 8)], words[-(-size // 8):]
        found[step] = struct.pack(f"<{len(packed)}q", *packed)[:size].decode()
    assert not words
    return found


@pytest.mark.parametrize("after", [None, ((), (), (0, 1))])
def test_labels_follow_the_edges(after: tuple[tuple[int, ...], ...] | None) -> None:
    plain = encode(executable(after), {"k": 1})
    own = {name: name for name in ("a/Exp", "a/Sum", "b/Exp", "b/Sum")}
    words = with_labels(plain, executable(after), own)
    assert words[:len(plain)] == plain
    rest = words[len(plain):]
    if after is None:
        assert rest[:5] == [0, 1, 0, 1, 1], "each step waits for the one before it"
        rest = rest[5:]
    assert texts(rest) == {0: "a/Sum-and-1-more:StitchKernel", 1: "b/Sum-and-1-more:StitchKernel"}


def test_an_equal_region_has_its_own_names_and_none_that_are_unknown() -> None:
    plain = encode(executable(), {"k": 1})
    words = with_labels(plain, executable(), {"b/Exp": "c/Exp", "b/Sum": "c/Sum", "a/Exp": "c/Exp"})
    assert texts(words[len(plain) + 5:]) == {1: "c/Sum-and-1-more:StitchKernel"}
    assert with_labels(plain, executable(), {}) == plain
