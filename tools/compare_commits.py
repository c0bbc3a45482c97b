"""Whether one commit is slower than another: both in turns, on this machine's CPU, each from a checkout of its own.

    git worktree add /tmp/before 98580f6 && git worktree add /tmp/after HEAD
    python -m tools.compare_commits --before=/tmp/before --after=/tmp/after

Measured are processor seconds of planning generated graphs; seconds of the first call of a train step, with nothing in
the cache but the native libraries, and processor seconds of that process and the compilers it starts; and milliseconds
of a step of models of the zoo. Both run in the Python that runs this, which needs TensorFlow; both checkouts' native
libraries are built before, into --cache, unless they are there.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import app, flags

from tools.benchmark.commits import Checkout, Times, compare, table

_BEFORE = flags.DEFINE_string("before", None, "a checkout", required=True)
_AFTER = flags.DEFINE_string("after", None, "another", required=True)
_CACHE = flags.DEFINE_string("cache", str(Path(tempfile.gettempdir(), "compare_commits")), "native libraries of both")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "turns of each", lower_bound=1)
_NODES = flags.DEFINE_list("nodes", ["10000", "100000"], "of the graphs that are planned; none: they are not")
_KINDS = flags.DEFINE_list("kinds", ["transformer", "updates", "mesh"], "of these graphs")
_WORKLOAD = flags.DEFINE_string("workload", "encoder_6x512_batch8_length64", "of the first call; empty: none")
_MODELS = flags.DEFINE_list("models", ["bert", "transformer", "dien", "crnn", "nmt"], "whose steps are timed")
_STEPS = flags.DEFINE_integer("steps", 200, "of a model, in each turn and mode")
_OUT = flags.DEFINE_string("out", None, "JSON of all times")


def main(_: Sequence[str]) -> None:
    cache = Path(_CACHE.value)
    folders = {"before": Path(_BEFORE.value), "after": Path(_AFTER.value)}
    checkouts = {name: Checkout(folder, cache / name) for name, folder in folders.items()}
    measures: list[Callable[[Checkout], Times]] = []
    if _NODES.value:
        measures.append(lambda checkout: checkout.planning(_NODES.value, _KINDS.value))
    if _WORKLOAD.value:
        measures.append(lambda checkout: checkout.first_call(_WORKLOAD.value))
    for model in _MODELS.value:
        measures.append(lambda checkout, model=model: checkout.steps(model, _STEPS.value))
    found = compare(checkouts, _ROUNDS.value, measures)
    if _OUT.value:
        Path(_OUT.value).write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    app.run(main)
