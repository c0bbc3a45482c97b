"""A person can read a kernel: every value says which of the user's nodes it is, every phase what it is for; none of
that is part of what is built, and nothing in a user's graph reaches generated source unescaped."""

from __future__ import annotations

import re

import pytest

from tests.differential.runner import check_all, compiled, region
from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.emit.comments import after, code_of, safe_comment
from tf_stitch.errors import SourceLoc
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.text_format import format_program
from tf_stitch.lowering.rebind import rebind, structure

TARGETS = pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.target)
HOSTILE = ['quote"quote', "single'", "new\nline;#error x", "*/ #error y /*", "back\\",
           "line\\\n#error z", "trigraph??/\n#error",
           "ünïcode-日本語-\u2028\u2029\x85", "tab\tnul\x00", "a" * 5000, "//", "%s%n", "\r#error r", "\U0001F600"]


def named(name: str) -> Builder:
    return Builder(SourceLoc(name, name))


def layer(name: str, rows: int = 512, columns: int = 1000) -> Node:
    """A softmax in user's terms."""
    x = named(f"{name}/logits").input(f"{name}/logits:0", DType.F32, (rows, columns))
    scaled = named(f"{name}/scale").mul(x, Builder().constant(0.125, DType.F32))
    highest = named(f"{name}/highest").reduce(OpKind.MAX, scaled, [1], True)
    e = named(f"{name}/exponentials").exp(named(f"{name}/shifted").sub(scaled, highest))
    return named(f"{name}/probabilities").div(e, named(f"{name}/total").sum(e, [1], True))


def layers(*names: str) -> TensorGraph:
    return region("layers", [layer(name) for name in names])


@TARGETS
def test_values_parameters_and_phases_are_told(device: DeviceSpec) -> None:
    source = compiled(layers("head"), device).source
    lines = source.splitlines()
    assert any(re.search(r" in0: float32\[512000\] head/logits$", line) for line in lines)
    assert any(re.search(r" out\d+: float32\[512000\] head/probabilities$", line) for line in lines)
    for op, note in ((r"\* 0.125f", "scale"), ("tfs_expf", "exponentials"), (" - acc", "shifted")):
        assert any(re.search(rf"= .*{op}.*  // head/{note}$", line) for line in lines), note
    phases = [line.strip() for line in lines if "// phase " in line]
    assert phases == ["// phase 1 of 3, max of the row: head/highest", "// phase 2 of 3, sum of the row: head/total",
                      "// phase 3 of 3, output: head/probabilities"]


@TARGETS
def test_names_are_no_part_of_what_is_built(device: DeviceSpec) -> None:
    """Layers of equal structure are one kernel (F13), whatever they are called."""
    one, other = (compiled(layers(name), device) for name in ("encoder", "decoder/with/a/long/name"))
    assert one.source != other.source
    assert code_of(one.source) == code_of(other.source)
    assert "encoder" not in code_of(one.source)
    both = compiled(layers("encoder", "decoder"), device)
    assert len({program for members in both.programs.values() for program in members}) == 1


def test_steps_are_not_called_by_the_name_of_their_result() -> None:
    b = named("probabilities")
    x = named("logits").input("logits:0", DType.F32, (512, 1000))
    e = b.exp(b.sub(x, b.reduce(OpKind.MAX, x, [1], True)))
    source = compiled(region("g", [b.div(e, b.sum(e, [1], True))]), CPU).source
    notes = [line.partition("  // ")[2] for line in source.splitlines() if "  const float v" in line]
    assert notes.count("probabilities") == 1, "the quotient alone"
    assert set(notes) == {"logits", "for probabilities", "probabilities"}


def test_a_kernel_found_again_says_whose_it_is_now() -> None:
    first, second = (compiled(layers(name), H200).plan.patterns[0] for name in ("encoder", "decoder"))
    (key, old), (again, new) = structure(first), structure(second)
    assert key == again
    moved = rebind(compile_pattern(first, H200), old, new, second)
    text = format_program(moved.program)
    assert "decoder/shifted" in text
    assert "encoder" not in text


def test_code_is_what_is_left_without_comments() -> None:
    line = after("x = 1;", "a//b\n")
    assert line == "x = 1;  // a//b_"
    assert code_of(f"// head\n{line}\n    // phase 1\ny = 2;") == "x = 1;\ny = 2;"
    assert after("x = 1;", "") == "x = 1;"


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_compile_for_both_targets(name: str) -> None:
    b = Builder(SourceLoc(name, name))
    x = b.input(name, DType.F32, (4, 8))
    check_all(region(name, [b.exp(x), b.sum(x, [0])], {name: b.mul(b.variable(name + "v", DType.F32, (4, 8)), x)}))


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_comment_is_one_plain_line(name: str) -> None:
    text = safe_comment(name)
    assert len(text.splitlines()) <= 1
    assert text.isascii()
    assert "*/" not in text
    assert not text.endswith(("\\", "??/"))
    assert len(text) <= 200
