"""What a call of a function costs, by how many variables it has: TensorFlow's, ours with variables as arguments, and
ours with variables that the function holds. All processes of a row in turns; microseconds, as a table of Markdown.

    python -m tools.call_cost
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from absl import app, flags

from tools.benchmark.machine import describe_cpu
from tools.benchmark.workers import Worker

FORMS = {"TensorFlow": ("tensorflow", 1), "arguments": ("tf_stitch", 0), "held": ("tf_stitch", 1)}
"""Heading -> backend, whether functions hold their variables."""

_VARIABLES = flags.DEFINE_list("variables", ["10", "320", "900"], "how many")
_MODES = flags.DEFINE_list("modes", ["infer", "train"], "infer or train")
_CALL_TURNS = flags.DEFINE_integer("call_turns", 9, "of each process", lower_bound=1)
_TURN_CALLS = flags.DEFINE_integer("turn_calls", 300, "timed in a turn", lower_bound=1)


def row(variables: str, mode: str) -> dict[str, list[float]]:
    """Microseconds of each form's turns.

    Raises:
        RuntimeError: a process failed.
    """
    workers = {form: Worker("call_worker", variables, mode, holds, backend=backend)
               for form, (backend, holds) in FORMS.items()}  # fmt: skip
    for worker in workers.values():
        worker.ask(100, 1)
    times: dict[str, list[float]] = {form: [] for form in workers}
    for _ in range(_CALL_TURNS.value):
        for form, worker in workers.items():
            times[form].append(worker.ask(20, _TURN_CALLS.value)["us"])
    return times


def lines(rows: Sequence[tuple[str, str, dict[str, list[float]]]]) -> Iterator[str]:
    """The table."""
    yield f"| variables | mode | {' | '.join(FORMS)} | arguments / held |"
    yield f"| --- | --- |{' --- |' * (len(FORMS) + 1)}"
    for variables, mode, times in rows:
        shown = [f"{statistics.median(t):.0f} ({min(t):.0f} to {max(t):.0f})" for t in times.values()]
        ratio = statistics.median(a / b for a, b in zip(times["arguments"], times["held"], strict=True))
        yield f"| {variables} | {mode} | {' | '.join(shown)} | {ratio:.2f} |"


def main(_: Sequence[str]) -> None:
    machine = describe_cpu()
    print(", ".join(f"{key} {value}" for key, value in machine.items()), end="\n\n", flush=True)
    rows = [(variables, mode, row(variables, mode)) for variables in _VARIABLES.value for mode in _MODES.value]
    print("\n".join(lines(rows)))


if __name__ == "__main__":
    app.run(main)
