"""How much processor time kernels may cost: as much as the calls that they are for have taken, and a small start.

Rewriting a function's graph and building its kernels costs an estimated time. That may begin when calls of this
function have taken as long, and calls of all functions as long as all that was begun (docs/decisions/first_calls.md).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from tf_stitch.config import load_config

START_SECONDS = 0.25
"""Processor time that may be spent before any call has been timed, and by which estimates may be too low."""
SHARE = 1.0
"""The share of the time of calls that may be spent."""
_TRUSTED_NODES = 500
"""Nodes whose measured costs weigh as much as the profile's estimates."""


@cache
def host_seconds(on_gpus: bool) -> tuple[float, float]:
    """Estimates by the profile of this machine's CPU: for loading what rewrites graphs, and for each node."""
    from tf_stitch.runtime.device_profiles import host_profile  # not before a function asks

    host = host_profile(load_config().cache_dir).host
    return host.load_seconds, host.gpu_node_seconds if on_gpus else host.node_seconds


@dataclass(eq=False)
class Account:
    """A function's calls.

    Attributes:
        nodes: of the function and all that it calls.
        on_gpus: kernels are for GPUs, too, and calls return before these have done what they are for.
        calls: that were timed.
        earned: seconds that these took.
    """

    nodes: int
    on_gpus: bool = False
    calls: int = 0
    earned: float = 0.0

    def calls_for(self, seconds: float) -> int:
        """How many calls like those so far earn that many seconds of processor time."""
        each = self.earned / max(self.calls, 1)
        return math.ceil(min(seconds / (SHARE * max(each, 1e-6)), 1e9))


class Allowance:
    """Not thread-safe.

    However calls come, what was spent is at most START_SECONDS, SHARE times what calls took, and the amount by which
    the worst estimate was too low.
    """

    def __init__(self) -> None:
        self.earned = self.spent = 0.0
        self._under_way = 0.0
        self._built_nodes = 0

    def earn(self, account: Account, seconds: float) -> None:
        """A call that TensorFlow's graph computed took this long."""
        account.calls += 1
        account.earned += seconds
        self.earned += seconds

    def cost(self, account: Account) -> float:
        """Estimated seconds of processor time for a function's kernels."""
        load, node = host_seconds(account.on_gpus)
        if not self._built_nodes:
            return load + account.nodes * node
        building = max(self.spent - load, 0.0)
        return account.nodes * (node * _TRUSTED_NODES + building) / (_TRUSTED_NODES + self._built_nodes)

    def covers(self, account: Account) -> bool:
        """Whether the kernels of a function may be begun."""
        cost = self.cost(account)
        return cost <= SHARE * account.earned and \
            self.spent + self._under_way + cost <= START_SECONDS + SHARE * self.earned

    def most_valuable(self, accounts: Collection[Account]) -> Account | None:
        """The function whose calls took longest of those whose kernels may be begun; None if there is none."""
        return max(filter(self.covers, accounts), key=lambda account: account.earned, default=None)

    def begin(self, account: Account) -> float:
        """Reserves what a function's kernels are estimated to cost, and returns it."""
        cost = self.cost(account)
        self._under_way += cost
        return cost

    def end(self, account: Account, reserved: float, seconds: float) -> None:
        """Kernels of a function were built, or could not be, in this much processor time."""
        self._under_way -= reserved
        self.spent += seconds
        self._built_nodes += account.nodes
