"""Registry of legalisations: TensorFlow op name -> function that builds its IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.ir.graph import Node

Outputs: TypeAlias = Node | Sequence[Node | None]
Legalizer: TypeAlias = Callable[[NodeContext], Outputs]


@dataclass(frozen=True)
class Legalization:
    """How an op becomes IR.

    Attributes:
        function: returns the value of each output (None: the op's output has none that may be used); raises
            UnsupportedError or TypeRuleError when this node has to stay a TensorFlow op.
        weight: 1 if the op touches memory, 0 if it costs nothing.
        library: a region runs it by a library call; it stays a TensorFlow op where regions hold none.
        convolution: of a library that has convolutions.
        kernels: kernels compute it, too, where regions have no such library (see matmul_scope.are_for_kernels).
    """

    function: Legalizer
    weight: int = 1
    library: bool = False
    convolution: bool = False
    kernels: bool = False


LEGALIZATIONS: dict[str, Legalization] = {}

# Ops that stay TensorFlow ops by design, with the reason given to the user. Others have "no legalisation".
BARRIERS: dict[str, str] = {}


def legalize(*ops: str, weight: int = 1, library: bool = False, convolution: bool = False,
             kernels: bool = False) -> Callable[[Legalizer], Legalizer]:
    """Registers a function as the legalisation of `ops`."""

    def register(function: Legalizer) -> Legalizer:
        for op in ops:
            assert op not in LEGALIZATIONS, f"{op} has two legalisations"
            LEGALIZATIONS[op] = Legalization(function, weight, library, convolution, kernels)
        return function

    return register


def is_convolution(op: str) -> bool:
    """Whether a region computes an op by a library that has convolutions."""
    return op in LEGALIZATIONS and LEGALIZATIONS[op].convolution


def barrier(reason: str, *ops: str) -> None:
    """Registers ops that are never legalised; `reason` may hold {op}."""
    for op in ops:
        BARRIERS[op] = reason.format(op=op)
