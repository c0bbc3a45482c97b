"""Errors that the user's values make name the user's node, file and line, as without tf_stitch."""

from __future__ import annotations

import json
import re

import pytest

from tests.end_to_end.conftest import PROGRAMS, Runner

PROGRAM = PROGRAMS / "error_messages.py"
KINDS = ("alone", "nested", "beside_others", "updated", "gathered", "scattered")


@pytest.fixture(scope="module")
def messages(forked: Runner) -> dict[str, dict[str, str]]:
    """By TF_STITCH, then by kind."""
    found = {}
    for stitch in ("", "1"):
        done = forked(PROGRAM, stitch=stitch)
        assert done.returncode == 0, done.stderr[-3000:]
        found[stitch] = json.loads(done.stdout.splitlines()[-1])
        if stitch:
            assert done.report is not None
            assert all(done.stitched(kind) for kind in KINDS), done.stderr[-3000:]
            assert "nothing was built for these shapes" in done.reasons()
            assert "nothing was built" not in done.said(), "the build has said it, and why"
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_tensorflows(messages: dict[str, dict[str, str]], kind: str) -> None:
    plain, ours = messages[""][kind], messages["1"][kind]
    assert "Detected at node" in plain
    assert f'File "{PROGRAM}"' in plain
    assert without_our_op(ours) == plain


def without_our_op(message: str) -> str:
    """An executor of TensorFlow's names the op that its node ran in as well."""
    return re.sub(r"\n\t \[\[[^\]{}]*tf_stitch_\d+/[^\]{}]*\]\]", "", message)
