"""Compares the names that TensorFlow's inference gives to sizes with the sizes of calls that ran."""

from __future__ import annotations

import contextlib
import itertools
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.op_def_pb2 import OpDef

from tf_stitch.graph.shapes.branch_sizes import Types, inferred_types
from tools.identities.calls import Call, UndrawableError, draw

Sizes = list[tuple[int, ...]]
MOST_CONSTANT = 16
"""Elements of an integer input that inference may be told."""
NOT_RUN = "not run"
"""Status of an op of which no call ran, and to whose sizes inference may give one name."""
MOST_SAID = 400
"""Characters of an error that are kept."""
OF_KNOWN, OF_RANKS, OF_OPEN = " of known sizes", "", " where an integer is no constant"
"""What inference was told, behind what it got wrong."""


@dataclass(frozen=True)
class Case:
    """A call in the graph whose sizes are inferred.

    Attributes:
        given: names of the inputs' nodes.
        name: of the op's node.
        sizes: of the results at run time; None: the call did not run.
        note: what inference was told of it.
    """

    given: Sequence[str]
    name: str
    call: Call
    sizes: Sizes | None
    note: str


@dataclass
class Verdict:
    """What was found about an op.

    Attributes:
        ran: calls that ran.
        shared: names that more than one size of a call had.
        compared: how often such sizes were compared.
        unequal: sizes that have one name and differ, in words; none if none were found.
        miscounted: a number of a result's size that is wrong, in words.
    """

    op: str
    ran: int = 0
    shared: int = 0
    compared: int = 0
    unequal: str = ""
    miscounted: str = ""
    why_not: str = ""

    @property
    def status(self) -> str:
        if self.unequal or self.miscounted:
            return "unequal"
        if self.ran:
            return "equal" if self.shared else "no names shared"
        return f"{NOT_RUN}, no names shared" if not self.shared else NOT_RUN


def check(op: OpDef, tries: int, wanted: int, seconds: float, skip: Sequence[int] = (), at: Any = lambda trial: None
          ) -> Verdict:
    """Runs an op until `wanted` calls ran, and compares.

    Args:
        tries: the most calls that are drawn.
        seconds: of the processor, about.
        skip: calls that end the process.
        at: told the number of each call before it runs.
    """
    verdict, end = Verdict(op.name), time.process_time() + seconds
    calls: list[tuple[Call, Sizes | None]] = []
    refused = ""
    for trial in range(tries):
        if trial in skip or len(calls) >= wanted or time.process_time() > end:
            continue
        at(trial)
        try:
            call = draw(op, np.random.default_rng((zlib.crc32(op.name.encode()), trial)))
            sizes = _run(call)
        except UndrawableError as error:
            verdict.why_not = str(error)
            return verdict
        except Exception as error:  # whatever the op has against these inputs
            refused = f"{type(error).__name__}: {str(error)[:MOST_SAID]}"
            continue
        calls.append((call, sizes))
    verdict.ran = len(calls)
    if not calls:
        verdict.why_not = refused
        with contextlib.suppress(UndrawableError):
            calls = [(draw(op, np.random.default_rng((zlib.crc32(op.name.encode()), trial))), None)
                     for trial in range(12)]
    _compare(verdict, calls)
    return verdict


def _run(call: Call) -> Sizes:
    results = call.apply(tf.constant)
    flat = [r for r in tf.nest.flatten(results) if isinstance(r, tf.Tensor)]
    return [tuple(r.shape) for r in flat]


def _compare(verdict: Verdict, calls: Sequence[tuple[Call, Sizes | None]]) -> None:
    """All calls in one graph: with inputs of known rank alone, and some small integers as constants; and with all that
    inference can know. What is wrong although most is known counts first."""
    cases: list[Case] = []
    with tf.Graph().as_default() as graph:
        for number, (call, sizes) in enumerate(calls):
            constants = _constants(call)
            variants = [*((constant, False) for constant in constants), (constants[-1], True)]
            for variant, (constant, known) in enumerate(variants):
                note = OF_KNOWN if known else OF_OPEN if constant != constants[-1] else OF_RANKS
                with contextlib.suppress(Exception):  # inference refuses this call
                    given, name = _add(call, f"c{number}_{variant}", constant, known)
                    cases.append(Case(given, name, call, sizes, note))
    types = inferred_types(graph.as_graph_def())
    for case in sorted(cases, key=lambda case: (OF_KNOWN, OF_RANKS, OF_OPEN).index(case.note)):
        _judge(verdict, types, case)


def _constants(call: Call) -> list[frozenset[int]]:
    """Sets of inputs, by number, that are constants: an op may know some of its integers, and not others."""
    small = [i for i, value in enumerate(call.arrays())
             if value.size <= MOST_CONSTANT and value.dtype in (np.int32, np.int64)]
    counts = range(len(small) + 1) if len(small) <= 3 else (0, 1, len(small))
    return [frozenset(some) for count in counts for some in itertools.combinations(small, count)]


def _add(call: Call, scope: str, constant: frozenset[int], known: bool) -> tuple[list[str], str]:
    """Names of the inputs' nodes and of the op's node."""
    given: list[str] = []

    def make(value: np.ndarray[Any, Any]) -> tf.Tensor:
        name = f"{scope}_i{len(given)}"
        given.append(name)
        if len(given) - 1 in constant:
            return tf.constant(value, name=name)
        dtype = tf.as_dtype(value.dtype) if value.dtype != object else tf.string
        return tf.compat.v1.placeholder(dtype, value.shape if known else [None] * value.ndim, name)

    call.apply(make, scope)
    return given, scope


def _judge(verdict: Verdict, types: dict[str, Types], case: Case) -> None:
    places: dict[int, list[tuple[str, int | None]]] = {}
    for place, size, dim in _places(types, case):
        if dim < -1:
            places.setdefault(dim, []).append((place, size))
        elif dim >= 0 and size not in (None, dim) and place.startswith("result") and not verdict.miscounted:
            verdict.miscounted = f"{place} is {size}, inferred as {dim}{case.note}"
    for found in places.values():
        if len(found) < 2:
            continue
        verdict.shared += 1
        if case.sizes is not None:
            verdict.compared += 1
            if len({size for _, size in found}) > 1 and not verdict.unequal:
                verdict.unequal = "one name for " + ", ".join(f"{place} ({size})" for place, size in found) + case.note


def _places(types: dict[str, Types], case: Case) -> Iterator[tuple[str, int | None, int]]:
    """(where, size at run time, as inferred)."""
    for number, (node, array) in enumerate(zip(case.given, case.call.arrays(), strict=True)):
        for axis, dim in enumerate(types[node][0][1] or ()):
            yield f"input {number} axis {axis}", array.shape[axis], dim
    for number, (_, dims) in enumerate(types.get(case.name, [])):
        size = None if case.sizes is None or number >= len(case.sizes) else case.sizes[number]
        if dims is None or (size is not None and len(size) != len(dims)):
            continue
        for axis, dim in enumerate(dims):
            yield f"result {number} axis {axis}", None if size is None else size[axis], dim
