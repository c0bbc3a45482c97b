"""Choices of what is computed again, on disk: what an earlier process chose is read, and no solver is asked."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.memory_problem import Barred
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.planning.memory import Choice, How
from tf_stitch.planning.plan_groups import groups_of
from tf_stitch.planning.stitch_plan import StitchPlan
from tf_stitch.runtime.cache_key import cache_key, package_digest
from tf_stitch.runtime.kernel_cache import KernelCache

SUFFIX = ".recomputed"


@dataclass(frozen=True)
class StoredChoice:
    """
    Attributes:
        barred: what it had to do without (see memory_problem).
        live_bytes: what its plan takes at one time.
        pieces: a matmul's rows run in pieces: its number of `wide_matmuls`, and how many. What is computed again is a
            choice of that plan, stored as such. None if none does.
    """

    choice: Choice
    barred: Barred
    live_bytes: int
    pieces: tuple[int, int] | None = None


@dataclass(frozen=True)
class StoredChoices:
    """Choices made under one set of circumstances (see StoredPlans). Thread-safe."""

    cache: KernelCache
    circumstances: tuple[str, ...]

    def recall(self, kernels: KernelPlan, budget: int) -> StoredChoice | None:
        """The choice of an equal plan under an equal budget. One that makes no sense is removed, and counted as
        damaged."""
        return self.cache.parsed(self._key(kernels, budget), SUFFIX, lambda text: _parse(text, kernels.plan))

    def keep(self, kernels: KernelPlan, budget: int, chosen: StoredChoice) -> None:
        """Stores a choice. One that can be stored nowhere is made again by who needs it; the cache's `problem` then
        says why."""
        self.cache.keep(self._key(kernels, budget), SUFFIX, _text(chosen, kernels.plan).encode())

    def discard(self, kernels: KernelPlan, budget: int) -> None:
        """Removes a choice that turned out to be none of this plan; it counts as damaged."""
        self.cache.discard(self._key(kernels, budget), SUFFIX)

    def _key(self, kernels: KernelPlan, budget: int) -> str:
        """Of the patterns and of the lifetimes that the choice is about."""
        lives = [(life.first, life.last, life.nbytes) for life in kernels.buffers.lives.values()]
        text = f"{anonymous_text(kernels.plan.graph)}\n{groups_of(kernels.plan)}\n{lives}\n{budget}"
        return cache_key(text, "recomputed", "", self.circumstances, "", package_digest())


def _text(chosen: StoredChoice, plan: StitchPlan) -> str:
    place = {node: i for i, node in enumerate(plan.graph.nodes())}
    number = {pattern: i for i, pattern in enumerate(plan.patterns)}
    barred = sorted([place[node], -1 if pattern is None else number[pattern]] for node, pattern in chosen.barred)
    return json.dumps({"choice": [" ".join(how.value for how in hows) for hows in chosen.choice], "barred": barred,
                       "live_bytes": chosen.live_bytes, "pieces": chosen.pieces})


def _parse(text: bytes, plan: StitchPlan) -> StoredChoice:
    """Raises ValueError, LookupError or TypeError if the text is no choice of the plan."""
    document, nodes = json.loads(text), plan.graph.nodes()
    choice = tuple(tuple(map(How, hows.split())) for hows in document["choice"])
    barred = frozenset((nodes[node], None if pattern == -1 else plan.patterns[pattern])
                       for node, pattern in document["barred"])
    pieces = document["pieces"]
    return StoredChoice(choice, barred, document["live_bytes"], pieces and (int(pieces[0]), int(pieces[1])))
