"""What library calls take over from kernels: a bias, a sum, an activation, a transpose of their matmul's result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tf_stitch.ir.graph import Node
from tf_stitch.libraries.call import FusedNodes
from tf_stitch.libraries.registry import library_of
from tf_stitch.planning.matmul_sizes import needs_library
from tf_stitch.planning.part import PatternTimes, RegionFacts
from tf_stitch.planning.pattern import make_pattern

Positions = frozenset[int]


class Epilogues:
    """Moves nodes from the kernels of a plan into library calls.

    A kernel gives nodes up if that saves more than they cost the calls, in predicted microseconds: all that calls can
    take from it at once, for only a kernel that gives up everything saves its launch; else call by call. What is left
    of it may be fused with the kernel that alone uses it.

    A call waits for nothing that its matmul does not wait for, but kernels that wait for nothing: matmuls run side by
    side as before, and no cycle can arise.

    Args:
        work: nodes that need a kernel or a library call, operands first; positions are places in it.
        needs: for each of them the positions it depends on.
        groups: positions of each pattern; they cover all.

    Attributes:
        calls: how many calls compute more than a matmul.
        kernels: how many kernels are gone.
    """

    def __init__(self, work: Sequence[Node], needs: Sequence[Sequence[int]], groups: Sequence[Sequence[int]],
                 facts: RegionFacts, times: PatternTimes) -> None:
        self._work, self._needs, self._facts, self._times = work, needs, facts, times
        self._groups = [frozenset(group) for group in groups]
        self._home = {p: g for g, group in enumerate(groups) for p in group}
        self._position = {n: p for p, n in enumerate(work)}
        self._matmuls = frozenset(p for p, node in enumerate(work) if needs_library(node, facts.libraries))
        self._users: list[list[int]] = [[] for _ in work]
        for user, before in enumerate(needs):
            for p in before:
                self._users[p].append(user)
        self.calls = self.kernels = 0

    def choose(self) -> list[tuple[int, ...]]:
        """The new groups."""
        for kernel, offers in self._offers().items():
            if not self._move(kernel, _disjoint({matmul: takes[-1] for matmul, takes in offers.items()})):
                for matmul, takes in offers.items():
                    any(self._move(kernel, {matmul: taken}) for taken in reversed(takes))
        return [tuple(sorted(group)) for group in self._groups if group]

    def _offers(self) -> dict[int, dict[int, list[Positions]]]:
        """For each kernel and each matmul whose call could take nodes from it: which, from few to many."""
        offers: dict[int, dict[int, list[Positions]]] = {}
        for matmul in sorted(self._matmuls):
            for taken in self._takes(matmul) if self._is_call(matmul) else ():
                homes = {self._home[p] for p in taken}
                if len(homes) == 1:
                    offers.setdefault(homes.pop(), {}).setdefault(matmul, []).append(taken)
        return offers

    def _takes(self, matmul: int) -> Iterator[Positions]:
        root = self._work[matmul]
        library = library_of(root, self._facts.libraries)
        assert library is not None
        for call in library.extensions(root, self._facts.users, self._facts.wanted):
            if not self._is_ready(call, matmul):
                return
            if call.result in self._position:
                yield frozenset(self._position[n] for n in call.nodes[1:] if n in self._position)

    def _is_ready(self, call: FusedNodes, matmul: int) -> bool:
        """Whether added operands are there when the matmul can run, or a kernel makes them of inputs."""
        return all(self._is_early_kernel(self._home[p]) or self._waits_for(matmul, p)
                   for operand in call.added for p in self._made_by(operand))

    def _made_by(self, node: Node) -> Iterator[int]:
        if node in self._position:
            yield self._position[node]
        else:
            for operand in node.operands:
                yield from self._made_by(operand)

    def _waits_for(self, later: int, earlier: int) -> bool:
        """Whether a node needs another, maybe through others: all of them have their places between the two."""
        seen, stack = {later}, [later]
        while stack:
            fresh = {p for p in self._needs[stack.pop()] if p >= earlier} - seen
            if earlier in fresh:
                return True
            seen |= fresh
            stack += fresh
        return False

    def _is_call(self, matmul: int) -> bool:
        """Whether a node is a matmul that is no part of an attention."""
        return self._groups[self._home[matmul]] & self._matmuls == {matmul}

    def _is_kernel(self, group: int) -> bool:
        return self._matmuls.isdisjoint(self._groups[group])

    def _is_early_kernel(self, group: int) -> bool:
        """Whether a group is a kernel that waits for no other."""
        return self._is_kernel(group) and \
            all(self._home[q] == group for p in self._groups[group] for q in self._needs[p])

    def _move(self, kernel: int, taken: Mapping[int, Positions]) -> bool:
        """Moves the nodes if they are still there and that gains something."""
        gone = Positions().union(*taken.values())
        rest = self._groups[kernel] - gone
        if not gone <= self._groups[kernel]:
            return False
        changed = {kernel: rest, **{self._home[matmul]: nodes | {matmul} for matmul, nodes in taken.items()}}
        choices = [changed]
        user = self._only_user(rest)
        if user is not None:
            choices.append({**changed, kernel: Positions(), user: self._groups[user] | rest})
        gain, best = max(((self._gain(choice), choice) for choice in choices), key=lambda pair: pair[0])
        if gain < self._times.profile.choices.epilogue_us:
            return False
        for group, members in best.items():
            self._groups[group] = members
            self._home.update(dict.fromkeys(members, group))
        self.calls += len(taken)
        self.kernels += not best[kernel]
        return True

    def _only_user(self, nodes: Positions) -> int | None:
        """The kernel that alone uses the values of `nodes`, and so may compute them itself; None if there is none."""
        homes = {self._home[q] for p in nodes for q in self._users[p] if q not in nodes}
        if len(homes) != 1 or any(self._work[p] in self._facts.wanted for p in nodes):
            return None
        home = homes.pop()
        return home if self._is_kernel(home) else None

    def _gain(self, changed: Mapping[int, Positions]) -> float:
        """Microseconds saved if groups became these; negative if one would be no kernel."""
        before, after = self._us(self._groups[g] for g in changed), self._us(filter(None, changed.values()))
        return -1.0 if before is None or after is None else before - after

    def _us(self, groups: Iterable[Positions]) -> float | None:
        """Microseconds of kernels and calls; None if one of them is neither."""
        total = 0.0
        for group in groups:
            time = self._times.exact(make_pattern((self._work[p] for p in sorted(group)), self._facts.users,
                                                  self._facts.wanted, self._facts.free))
            if time is None:
                return None
            total += time
        return total


def _disjoint(takes: Mapping[int, Positions]) -> dict[int, Positions]:
    """Those that share no node with one before."""
    chosen: dict[int, Positions] = {}
    for matmul, taken in takes.items():
        if not any(taken & other for other in chosen.values()):
            chosen[matmul] = taken
    return chosen
