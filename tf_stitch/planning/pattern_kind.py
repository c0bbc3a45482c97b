"""What a pattern becomes: recognized here alone, once for each pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.ir.graph import users_of
from tf_stitch.ir.matrices import is_in_kernel
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import library_of
from tf_stitch.planning.attention import Attention, attention_to
from tf_stitch.planning.attention_gradient import AttentionGradient
from tf_stitch.planning.find_attention_gradients import gradient_to
from tf_stitch.planning.matmul_sizes import is_large_matmul, is_small_matmul
from tf_stitch.planning.pattern import Pattern, between
from tf_stitch.planning.stitched_matmul import StitchedMatmul, as_stitched_matmul

AttentionKernel: TypeAlias = Attention | AttentionGradient


@dataclass(frozen=True)
class Loops:
    """A kernel of loops over elements, rows or columns. Matmuls in it are small and inlined, or it is no kernel."""


PatternKind: TypeAlias = AttentionKernel | StitchedMatmul | Library | Loops
"""A `StitchedMatmul` is a kernel of a large matmul and what is around it; a `Library` stands for one of its calls, with
what the call does to its result."""
LOOPS = Loops()


def kind_of(pattern: Pattern, libraries: Sequence[Library]) -> PatternKind:
    """What a pattern becomes on a device with these libraries."""
    key = tuple(libraries)
    if key not in pattern.recognized:
        pattern.recognized[key] = _kind_of(pattern, libraries)
    return pattern.recognized[key]  # type: ignore[return-value]


def _kind_of(pattern: Pattern, libraries: Sequence[Library]) -> PatternKind:
    special = attention_of(pattern) or _stitched_matmul(pattern, libraries)
    if special is not None:
        return special
    first, library = pattern.nodes[0], library_of(pattern.nodes[0], libraries)
    in_kernel = is_in_kernel(first) if len(pattern.nodes) == 1 else is_small_matmul(first)
    return LOOPS if library is None or in_kernel else library


def _stitched_matmul(pattern: Pattern, libraries: Sequence[Library]) -> StitchedMatmul | None:
    """A large matmul that a kernel has, or one with more around it than a library call computes."""
    if sum(map(is_large_matmul, pattern.nodes)) != 1:
        return None
    stitched = as_stitched_matmul(between(pattern))
    if stitched is None:
        return None
    first, matmul = pattern.nodes[0], stitched.matmul
    if len(pattern.nodes) == 1 or is_in_kernel(matmul):
        return stitched if is_in_kernel(matmul) else None
    library = library_of(matmul, libraries)
    called = first is matmul and library is not None and library.match(between(pattern)) is not None
    return None if called else stitched


def attention_of(pattern: Pattern) -> AttentionKernel | None:
    """The attention, or the gradient of one, that a pattern is, if it is one; whatever libraries there are."""
    if attention_of not in pattern.recognized:
        pattern.recognized[attention_of] = _attention_of(pattern)
    return pattern.recognized[attention_of]  # type: ignore[return-value]


def _attention_of(pattern: Pattern) -> AttentionKernel | None:
    matmuls = [n for n in pattern.nodes if is_large_matmul(n)]
    if not 2 <= len(matmuls) <= 4:
        return None
    users = users_of(pattern.nodes)
    found: AttentionKernel | None = attention_to(matmuls[-1], users, ()) if len(matmuls) == 2 else None
    if len(matmuls) > 2:
        found = next(filter(None, (gradient_to(matmul, users, ()) for matmul in reversed(matmuls))), None)
    return found if found is not None and set(found.nodes) == set(pattern.nodes) else None
