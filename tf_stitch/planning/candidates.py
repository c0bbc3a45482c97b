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

    @property
    def most_grown(self) -> int:
        """Most nodes of a pattern that is grown node by node."""
        return max(self.merge.size if self.merging else 1, self.limits.size if self.exploratory else 1)


def candidates(part: Part, options: GrowthOptions) -> list[int]:
    """Sets of two nodes or more that some kernel family takes and that gain something, without repetition, in a fixed
    order. If the whole part is one kernel and nothing can beat that, it alone is returned: unless it transposes or
    holds matmuls, or where it takes no longer than the launches of kernels that are smaller."""
    whole = part.everything
    gain = None
    if len(part.nodes) > 1 and part.estimate(whole) is not None:
        part.exact(whole)
        gain = part.gain(whole)
    gains = gain is not None and gain > 0
    if gains and all(n.kind not in (OpKind.TRANSPOSE, OpKind.DOT) for n in part.nodes):
        return [whole]
    segments = substitution_patterns(part) if options.substitution else []
    most = max([options.most_grown, *(mask.bit_count() for mask in segments if mask != whole)])
    if gains and _is_unbeaten(part, most):
        return [whole]
    found: dict[int, None] = {whole: None} if len(part.nodes) > 1 else {}
    if options.merging:
        found.update(dict.fromkeys(merged_patterns(part, options.merge)))
    found.update(dict.fromkeys(segments))
    if options.exploratory:
        found.update(dict.fromkeys(explore(part, options.limits)))
    return [mask for mask in found if (gain := part.gain(mask)) is not None and gain > 0]


def _is_unbeaten(part: Part, most: int) -> bool:
    """Whether the whole part, which is one kernel, gains as much as any patterns of `most` nodes each could."""
    nodes = len(part.nodes)
    kernels = max(2, -(-nodes // most))
    least = min(part.least_us, *(part.time(1 << i) or 0.0 for i in range(nodes)))  # one node may be a library call
    time = part.time(part.everything)
    return time is not None and time <= kernels * least + (kernels - 1) * part.tie_us
