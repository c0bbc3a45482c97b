"""What the emitter for CPUs refuses."""

from __future__ import annotations

import pytest

from tf_stitch.emit.cpu import emit_cpu
from tf_stitch.errors import VerifyError
from tf_stitch.kernel_ir import nodes as k


def test_a_cpu_block_has_one_thread() -> None:
    with pytest.raises(VerifyError, match="one thread"):
        emit_cpu([("k", k.Program((), 1, 2, ()))])
