"""Calls that Ctrl-C ended raise KeyboardInterrupt, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest
from tensorflow.python.client.session import BaseSession
from tensorflow.python.eager.context import Context

from tf_stitch.plugin import interrupted_calls


@pytest.mark.parametrize(("message", "wanted"), [
    ("pybind11::error_already_set: MISMATCH of original and normalized active exception types: ORIGINAL CancelledError "
     "REPLACED BY KeyboardInterrupt: <EMPTY MESSAGE>", KeyboardInterrupt),
    ("Session has been closed", RuntimeError)])
@pytest.mark.parametrize(("owner", "name"), [(Context, "call_function"), (BaseSession, "_call_tf_sessionrun")])
def test_what_a_call_raises(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, message: str,
                            wanted: type[BaseException]) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError(message)

    for each in ((Context, "call_function"), (BaseSession, "_call_tf_sessionrun")):
        monkeypatch.setattr(*each, fail)
    interrupted_calls.are_interrupts()
    with pytest.raises(wanted):
        getattr(owner, name)(None, b"f", [], 1)
