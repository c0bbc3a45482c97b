"""Fixtures for functions as TensorFlow's eager context keeps them."""

from __future__ import annotations

from itertools import count

import pytest
from tensorflow.python.util import function_utils

_TRACED = count()


@pytest.fixture
def ctc_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """ctc_loss may be traced again: TensorFlow gives its functions the same names each time, and refuses other ones."""
    name = function_utils.get_func_name
    test = next(_TRACED)
    monkeypatch.setattr(function_utils, "get_func_name", lambda function: f"{name(function)}{test}")
