"""Candidate patterns of a part: the union of substitution, exploratory and merging growth."""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.exploratory_fusion import ExploreOptions, explore
from tf_stitch.planning.merging import MergeOptions, merged_patterns
from tf_stitch.planning.part import Part
from tf_stitch.planning.substitution_fusion import substitution_patterns


@dataclass(frozen=True)
class GrowthOptions:
    """Where candidates come from."""

    substitution: bool = True
    exploratory: bool = True
    merging: bool = True
    merge: MergeOptions = field(default_factory=MergeOptions)
    limits: ExploreOptions = field(default_factory=ExploreOptions)


def candidates(part: Part, options: GrowthOptions) -> list[int]:
    """Sets of two nodes or more that some kernel family takes and that gain something, without repetition, in a fixed
    order. If the whole part is one kernel that alone is returned: unless it transposes or
    holds matmuls, nothing can beat it."""
    whole = part.everything
    if len(part.nodes) > 1 and part.estimate(whole) is not None:
        part.exact(whole)
        gain = part.gain(whole)
        if gain is not None and gain > 0 and all(n.kind not in (OpKind.TRANSPOSE, OpKind.DOT) for n in part.nodes):
            return [whole]
    found: dict[int, None] = {whole: None} if len(part.nodes) > 1 else {}
    if options.merging:
        found.update(dict.fromkeys(merged_patterns(part, options.merge)))
    if options.substitution:
        found.update(dict.fromkeys(substitution_patterns(part)))
    if options.exploratory:
        found.update(dict.fromkeys(explore(part, options.limits)))
    return [mask for mask in found if (gain := part.gain(mask)) is not None and gain > 0]
