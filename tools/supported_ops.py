"""Writes docs/supported_ops.md from the tables of the importer: TensorFlow ops that regions hold, and the others.

    python -m tools.supported_ops
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

import tf_stitch.frontend.tensorflow.importer  # noqa: F401  # registers all ops
from tf_stitch.frontend.tensorflow.registry import BARRIERS, LEGALIZATIONS, Legalizer
from tools.benchmark.markdown import table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "supported_ops.md"
LIBRARY = "\\*"
"""Marks ops that a library computes."""
HEAD = f"""# Supported ops

This page is written by `python -m tools.supported_ops` from the tables that the importer uses.

## What regions hold

The names are TensorFlow's, as graphs and `tf_stitch explain` have them. {LIBRARY} marks ops that a library computes
inside a region: on GPUs all of them, on CPUs small matmuls only (small ones, and depthwise convolutions forward, may
also be kernels). Not every node of an op fits: types, attributes and sizes decide, and `tf_stitch explain --why=NODE`
gives the reason. Element types are float32, float64, float16, bfloat16, integers and booleans, where the op has them,
and [float8](decisions/float8.md) in casts and matmuls. Complex numbers and strings stay TensorFlow's.

"""
LEFT = """
## What stays TensorFlow's

These ops are never in regions; a report gives the reason. Ops of [loops](decisions/loops.md) and
[branches](decisions/branches.md) are among them, but graph passes unroll, fold or replace many loops and branches
before regions are formed. An op in neither table has "no legalisation" and stays TensorFlow's, too. See also
[limits](limits.md).

"""


def module_of(function: Legalizer) -> str:
    """The group of an op: the module that legalises it, in words. Of a function that wraps another, the inner one's."""
    inner = getattr(function, "func", function)
    while callable(wrapped := inspect.getclosurevars(inner).nonlocals.get("function")):
        inner = wrapped
    return str(inner.__module__).rpartition(".")[2].replace("_", " ")


def groups() -> Mapping[str, list[str]]:
    """Group -> its ops, marked, in alphabetical order."""
    found: dict[str, list[str]] = {}
    for op, legalization in sorted(LEGALIZATIONS.items()):
        found.setdefault(module_of(legalization.function), []).append(f"{op}{LIBRARY * legalization.library}")
    return dict(sorted(found.items()))


def reasons() -> Mapping[str, list[str]]:
    """Reason, without the op's name -> the ops that it holds for."""
    found: dict[str, list[str]] = {}
    for op, reason in sorted(BARRIERS.items()):
        found.setdefault(reason.removeprefix(op).strip(), []).append(op)
    return found


def page() -> str:
    return HEAD + "\n".join(_counted("group", groups())) + "\n" + LEFT + "\n".join(_counted("the op", reasons())) + "\n"


def _counted(first: str, rows: Mapping[str, list[str]]) -> Iterator[str]:
    yield f"{sum(map(len, rows.values()))} ops.\n"
    yield from table((first, "ops"), [[name, ", ".join(ops)] for name, ops in rows.items()])


def main() -> None:
    PAGE.write_text(page())
    print(PAGE)


if __name__ == "__main__":
    main()
