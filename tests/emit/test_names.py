"""Nothing in a user's graph reaches generated source unescaped."""

from __future__ import annotations

import pytest

from tests.differential.runner import check_all, region
from tf_stitch.emit.comments import safe_comment
from tf_stitch.errors import SourceLoc
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType

HOSTILE = ['quote"quote', "single'", "new\nline;#error x", "*/ #error y /*", "back\\",
           "line\\\n#error z", "trigraph??/\n#error",
           "ünïcode-日本語-\u2028\u2029\x85", "tab\tnul\x00", "a" * 5000, "//", "%s%n", "\r#error r", "\U0001F600"]


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
