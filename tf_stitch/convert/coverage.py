"""How much of a model is converted, in a line and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tf_stitch.convert.kernels import Kernels
from tf_stitch.convert.rewriting import Place, Rewriting

MOST_REASONS = 4
_NO_WORK = frozenset({"Const", "Identity", "IdentityN", "NoOp", "Placeholder", "_Arg", "_Retval", "VarHandleOp",
                      "ReadVariableOp", "PlaceholderWithDefault"})


@dataclass(frozen=True)
class Coverage:
    """
    Attributes:
        ops: that compute something.
        in_kernels: of these, those whose regions are run by kernels.
        kernels: launches, for the first shapes of each region; None where nothing was built.
        regions: that are kept.
        calls: of libraries, beside them.
        gone: ops that nothing needs any more, such as arithmetic of shapes that regions know.
        left: ops that stay TensorFlow's, by reason.
    """

    ops: int
    in_kernels: int
    kernels: int | None
    regions: int
    calls: int
    gone: int
    left: Mapping[str, int]

    def __str__(self) -> str:
        left = sum(self.left.values())
        most = sorted(self.left.items(), key=lambda item: -item[1])
        reasons = "; ".join(f"{count} {reason}" for reason, count in most[:MOST_REASONS])
        more = "; ..." if len(most) > MOST_REASONS else ""
        gone = f"{self.gone} not needed any more, " if self.gone else ""
        built = f"{self.regions} regions" if self.kernels is None else \
            f"{self.kernels} kernels, {self.calls} library calls"
        said = f"{self.ops} ops: {self.in_kernels} in {built}, {gone}{left} left"
        return f"{said} ({reasons}{more})" if left else said

    def as_json(self) -> dict[str, Any]:
        return {"ops": self.ops, "in_kernels": self.in_kernels, "kernels": self.kernels, "regions": self.regions,
                "library_calls": self.calls, "gone": self.gone, "left": dict(self.left)}


def coverage(rewritings: Sequence[Rewriting], kernels: Sequence[Kernels]) -> Coverage:
    """The coverage of all functions that are rewritten."""
    first: dict[int, tuple[int, int]] = {}
    for target in kernels[:1]:
        for (region, _), built in target.built.items():
            first.setdefault(region, (built.kernels, built.calls))
    ops = inside = gone = number = 0
    left: Counter[str] = Counter()
    for rewriting in rewritings:
        region_of = {}
        for place, taken in enumerate(rewriting.regions):
            if place in rewriting.given_up:
                first.pop(number, None)
            else:
                region_of.update(dict.fromkeys(taken.members, number))
            number += 1
        stays = {node.name for node in rewriting.graph(Place).node}
        for node in rewriting.body.graph_def.node:
            if node.op in _NO_WORK:
                continue
            ops += 1
            if node.name in region_of and (region_of[node.name] in first or not kernels):
                inside += 1
            elif node.name in region_of:
                left["no kernels could be built"] += 1
            elif node.name in stays:
                left[rewriting.left_out.get(node.name, "in no region")] += 1
            else:
                gone += 1
    return Coverage(ops, inside, sum(k for k, _ in first.values()) if kernels else None,
                    sum(len(r.taken) for r in rewritings), sum(c for _, c in first.values()), gone, dict(left))
