"""The kinds of statement that kernel programs have. Tests define more of them."""

from __future__ import annotations

from tf_stitch.kernel_ir.statement import Statement, kinds_of

KINDS = tuple(kind for kind in kinds_of(Statement) if kind.__module__.startswith("tf_stitch."))
