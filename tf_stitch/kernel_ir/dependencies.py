"""Where a program awaits the launches that its own depends on, and what it reads before that."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.errors import VerifyError
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.walk import accesses, statements


def awaits_itself(program: k.Program) -> bool:
    """Whether a program says where it awaits dependencies; else it is before all that it does."""
    return any(isinstance(s, k.AwaitDependencies) for s in program.body)


def read_before(program: k.Program) -> frozenset[str]:
    """Buffers that a program reads before it awaits dependencies."""
    return frozenset(a.buffer for a in accesses(_before(program)))


def verify_dependencies(program: k.Program) -> None:
    """Dependencies are awaited once, by all threads, and before that nothing is touched that another launch may write.

    Raises:
        VerifyError: the first violation.
    """
    count = sum(isinstance(s, k.AwaitDependencies) for s in statements(program.body))
    if not count:
        return
    if count > 1 or not awaits_itself(program) or program.looped or program.partitioned:
        raise VerifyError("dependencies are not awaited once, by all threads")
    modes = {b.name: b for b in program.buffers}
    for access in accesses(_before(program)):
        buffer = modes[access.buffer]
        if access.write or buffer.mode is not k.Mode.READ or buffer.shared:
            raise VerifyError(f"{access.buffer} is touched before dependencies have ended")


def _before(program: k.Program) -> Sequence[k.Stmt]:
    at = [i for i, s in enumerate(program.body) if isinstance(s, k.AwaitDependencies)]
    return program.body[:at[0]] if at else ()
