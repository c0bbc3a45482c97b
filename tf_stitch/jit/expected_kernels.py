"""Kernels for sizes that a region may meet later, worked out beside the program."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.shape_variants import OtherSizes
from tf_stitch.errors import StitchError
from tf_stitch.ir.dynamic_dims import atom_values, related_symbols
from tf_stitch.jit.collector import collector_paused
from tf_stitch.jit.kernel_library import Rendering
from tf_stitch.jit.placed_region import PlacedRegion, multiple
from tf_stitch.jit.shape_family import CPU_LENGTHS, GPU_LENGTHS, Change, Shapes, expected_sizes, with_parts
from tf_stitch.placement.buffer_plan import BufferPlan

MOST_SECONDS = 4.5
"""Of processor time for a region, after which nothing is begun. Python's lock is held most of it, for which the program
waits; and a size that is not prepared costs a run of a compiler, a fraction of a second."""


@dataclass(frozen=True)
class Expecting:
    """What is known of a region when its second signature has been built.

    Attributes:
        shapes: of that.
        wanted: the kernels for them.
        first: sizes of the first signature.
        change: symbols that changed between the two.
    """

    place: PlacedRegion
    shapes: Shapes
    wanted: BufferPlan
    first: Mapping[str, int]
    change: Change
    options: CompileOptions


def expected_kernels(known: Expecting, left_out: Callable[[int], None]) -> Iterator[Rendering]:
    """Kernels for one size after the other: for sizes like those at hand first, then for others alike.

    Args:
        left_out: is told how many sizes there was no time for, if any.
    """
    start = time.thread_time()
    place, options = known.place, known.options
    groups = _alike(known)
    left = sum(map(len, groups))
    for i, alike in enumerate(groups):
        if time.thread_time() - start > MOST_SECONDS:
            return left_out(left)
        try:
            buffers = known.wanted if i == 0 else place.placed_for_sizes(place.shapes(alike[0]), known.change, options)
        except StitchError:
            left -= len(alike)
            continue  # sizes that no program can have, or that are compiled for themselves
        others = OtherSizes(buffers, options)
        for sizes in alike:
            if time.thread_time() - start > MOST_SECONDS:
                return left_out(left)
            left -= 1
            try:
                with collector_paused():
                    rendering = others.rendered(atom_values(sizes, multiple(options.device)))
            except StitchError:
                continue  # it is met, and counted, when such sizes come
            yield rendering


@collector_paused()
def _alike(known: Expecting) -> list[list[dict[str, int]]]:
    """Sizes to expect; those that are alike are together: those like the ones at hand first, then what most are like,
    for the time that the first of them takes."""
    place, options, change = known.place, known.options, known.change
    decisions = place.decisions(known.shapes, change, options)
    related = related_symbols(place.region.graph, place.by_name(known.shapes), change.symbols, change.relations)
    at_hand = with_parts(place.sizes(known.shapes), related)
    lengths = GPU_LENGTHS if options.device.simt else CPU_LENGTHS
    found: dict[Hashable, list[dict[str, int]]] = {decisions.at(at_hand): [at_hand]}
    for sizes in expected_sizes(at_hand, change.symbols, related, lengths, known.first):
        found.setdefault(decisions.at(sizes), []).append(sizes)
    first, *others = found.values()
    return [first, *sorted(others, key=len, reverse=True)]
