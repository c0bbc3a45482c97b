"""Proves that a rewritten graph reads and updates each variable in the order that TensorFlow's graph gave.

Two accesses of one resource, of which one at least updates it, are in order if a path of edges leads from one to the
other: in one iteration of a loop, or over its back edges. Both must lead the same way in the rewritten graph. What
stands there for an access is the node of its name, the region that it is a member of if that has the resource, or nodes
that a pass named after it. An update always has to be there; a read may be gone, with all that was computed of it.

Each graph is walked once for each depth of its loops; a set of accesses is a number, a bit for each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.errors import SourceLoc, VerifyError
from tf_stitch.frontend.tensorflow.control_flow import WHILES
from tf_stitch.graph.finish.accesses import Access, Resources
from tf_stitch.graph.finish.reach import Reach
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult
from tf_stitch.planning.part import bits


@dataclass(frozen=True)
class CheckAccessOrder:
    """Changes nothing.

    Attributes:
        given: the graph as TensorFlow gave it.
        members: node that reads or updates a variable -> the node of the region that it is a member of.
    """

    given: GraphDef
    members: Mapping[str, str]
    name: str = "check_access_order"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        """
        Raises:
            VerifyError: a variable's reads and updates are not in the order that TensorFlow gave: a bug.
        """
        check_access_order(self.given, state.graph_def, self.members)
        return PassResult(state, False)


def check_access_order(before: GraphDef, after: GraphDef, members: Mapping[str, str]) -> None:
    """Checks that accesses come in the same order.

    Args:
        members: node that reads or updates a variable -> the node of the region that it is a member of.

    Raises:
        VerifyError: naming the access: its order is lost, or an update is.
    """
    old, new = Resources().accesses(before, after)
    contested = _contested(old)
    old = [access for access in old if access.resource in contested]
    if old:
        new = [access for access in new if access.resource in contested]
        _Check(before, after, _Images(old, new, members), old).run()


def _contested(accesses: Sequence[Access]) -> set[str]:
    """Resources whose accesses have an order: there are several, and an update."""
    count: dict[str, int] = defaultdict(int)
    for access in accesses:
        count[access.resource] += 1
    return {access.resource for access in accesses if access.writes and count[access.resource] > 1}


class _Images:
    """What stands for an access in the rewritten graph."""

    def __init__(self, old: Sequence[Access], new: Sequence[Access], members: Mapping[str, str]) -> None:
        names = {(access.node.name, access.resource): access for access in old}
        accessed: dict[str, list[str]] = defaultdict(list)  # node -> resources, in the graph as TensorFlow gave it
        for name, resource in names:
            accessed[name].append(resource)
        there = {(access.node.name, access.resource): access for access in new}
        self._members, self._there = members, there
        self._named_after: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.writes: set[tuple[str, str]] = set()
        """Of what is in the rewritten graph, what may do more than read."""
        regions = set(members.values())
        for name, resource in there:
            if (name, resource) not in names and name not in regions:
                origin = _origins(name, accessed).get(resource)
                if origin is not None:
                    self._named_after[origin, resource].append(name)
            if name not in regions and there[name, resource].writes:
                self.writes.add((name, resource))
        for member, region in members.items():
            for resource, origin in _origins(member, accessed).items():
                if (region, resource) in there:
                    self._named_after[origin, resource].append(region)
                    if names[origin, resource].writes:
                        self.writes.add((region, resource))

    def of(self, access: Access) -> list[str]:
        """Names of the nodes.

        Raises:
            VerifyError: there are none, and it is an update.
        """
        name, resource = access.node.name, access.resource
        found = [] if name in self._members or (name, resource) not in self._there else [name]
        found = list(dict.fromkeys([*found, *self._named_after.get((name, resource), ())]))
        if access.writes and access.node.op not in WHILES and not any((image, resource) in self.writes
                                                                      for image in found):
            raise VerifyError("the rewrite lost an update of a variable", SourceLoc(name, access.node.op))
        return found


def _origins(name: str, accessed: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """For each resource the nearest access: by the node of this name, or else by one whose name it begins with."""
    found: dict[str, str] = {}
    while name:
        for resource in accessed.get(name, ()):
            found.setdefault(resource, name)
        name = name.rpartition("/")[0]
    return found


class _Check:
    """Each access has a bit; in the rewritten graph, one for each node that stands for it."""

    def __init__(self, before: GraphDef, after: GraphDef, images: _Images, accesses: Sequence[Access]) -> None:
        self._accesses, self._images = accesses, images
        self._others = defaultdict[int, int](int)  # bits of all but the first of the nodes that stand for an access
        self._of_resource = defaultdict[str, int](int)
        self._writes, self._gone, self._image_writes = 0, 0, 0
        self._before = Reach.of(before, self._old_bits())
        self._after = Reach.of(after, self._new_bits())

    def _old_bits(self) -> dict[str, int]:
        own = defaultdict[str, int](int)
        for i, access in enumerate(self._accesses):
            own[access.node.name] |= 1 << i
            self._of_resource[access.resource] |= 1 << i
            self._writes |= access.writes << i
        return own

    def _new_bits(self) -> dict[str, int]:
        own = defaultdict[str, int](int)
        free = len(self._accesses)
        for i, access in enumerate(self._accesses):
            names = self._images.of(access)
            if not names:
                self._gone |= 1 << i
            for number, name in enumerate(names):
                place, free = (i, free) if number == 0 else (free, free + 1)
                own[name] |= 1 << place
                if number:
                    self._others[i] |= 1 << place
                self._image_writes |= ((name, access.resource) in self._images.writes) << place
        return own

    def run(self) -> None:
        """
        Raises:
            VerifyError: the order of two accesses is lost.
        """
        for i, access in enumerate(self._accesses):
            name = access.node.name
            related = self._of_resource[access.resource] & ~self._gone & ~(1 << i)
            if not access.writes:
                related &= self._writes
            once, ever = self._before.once[name] & related, self._before.ever[name] & related
            for image in self._images.of(access):
                own = self._after.own[image]
                self._compare(access, image, once, self._after.once[image] | own)
                self._compare(access, image, ever & ~once, self._after.ever[image] | own)

    def _compare(self, access: Access, image: str, wanted: int, found: int) -> None:
        """Checks that what led to an access leads to what stands for it. (Of a loop that is none any more the order of
        iterations is that of the steps: what stands for its accesses runs once.)"""
        name = access.node.name
        if wanted and self._before.runs_again(name) and not self._after.runs_again(image):
            wanted &= ~self._loop_mates(name, wanted)
        images = wanted
        for i in self._others:
            images |= self._others[i] if wanted >> i & 1 else 0
        if (image, access.resource) not in self._images.writes:
            images &= self._image_writes
        missing = images & ~found
        if missing:
            other = self._accesses[self._owner(next(bits(missing)))].node
            raise VerifyError(f"need not come after {other.name} ({other.op}) in the rewritten graph, which uses the "
                              "same variable", SourceLoc(name, access.node.op))

    def _loop_mates(self, name: str, wanted: int) -> int:
        """Those of these accesses that also follow the one of a name: they are in one loop."""
        own = self._before.own[name]
        return sum(1 << i for i in bits(wanted) if self._before.ever[self._accesses[i].node.name] & own)

    def _owner(self, bit: int) -> int:
        """The access that a bit of the rewritten graph is of."""
        return bit if bit < len(self._accesses) else next(i for i in self._others if self._others[i] >> bit & 1)
