"""Steps of data-parallel training on more GPUs than were measured, from those of one and of two.

    python -m tools.replica_table                  # benchmarks/replicas.csv as the table of benchmarks/replicas.md
    python -m tools.replica_table --rows=other.csv --host=8 --slower=4

A ring all-reduce moves 2 (n - 1) / n times the gradients over each link: once for n = 2, nearly twice for many. So the
all-reduce of two says how long that of n takes. Latencies are left out.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROWS = Path(__file__).resolve().parents[1] / "benchmarks" / "replicas.csv"
REPLICAS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Step:
    """A training step, in milliseconds.

    Attributes:
        alone: on one GPU.
        exchange: the all-reduce between two.
        backward: the share of `alone` that is the backward pass, beside which an all-reduce can run.
    """

    model: str
    alone: float
    exchange: float
    backward: float

    @staticmethod
    def of(row: Mapping[str, str]) -> Step:
        return Step(row["model"], float(row["one_ms"]), float(row["all_reduce_ms"]), float(row["backward"]))


@dataclass(frozen=True)
class Machines:
    """`host` GPUs each; a link between machines moves `slower` times fewer bytes a second than one within."""

    host: int
    slower: float


def all_reduce_ms(step: Step, replicas: int, machines: Machines) -> float:
    """Within machines, and of what each GPU then has the sum of, between them."""
    within = min(replicas, machines.host)
    between = -(-replicas // machines.host)
    return step.exchange * (_ring(within) + machines.slower * _ring(between) / within)


def _ring(members: int) -> float:
    return 2 * (members - 1) / members


def step_ms(step: Step, replicas: int, machines: Machines, overlapped: bool) -> float:
    """The step, its all-reduce behind the backward pass, or beside it."""
    hidden = step.backward * step.alone if overlapped else 0.0
    return step.alone + max(0.0, all_reduce_ms(step, replicas, machines) - hidden)


def table(steps: Sequence[Step], machines: Machines) -> Iterator[str]:
    """Lines of Markdown."""
    yield "| model | all-reduce | " + " | ".join(f"{n} GPU{'s' * (n > 1)}" for n in REPLICAS) + " |"
    yield "| --- " * (len(REPLICAS) + 2) + "|"
    for step in steps:
        for overlapped in (False, True):
            found = [step_ms(step, n, machines, overlapped) for n in REPLICAS]
            cells = [f"{ms:.1f} ({step.alone / ms:.0%})" for ms in found]
            yield f"| {step.model} | {'beside' if overlapped else 'behind'} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--host", type=int, default=max(REPLICAS), help="GPUs that links join directly")
    parser.add_argument("--slower", type=float, default=1.0, help="how much slower links between hosts are")
    arguments = parser.parse_args()
    with arguments.rows.open(newline="") as file:
        steps = [Step.of(row) for row in csv.DictReader(file)]
    print("\n".join(table(steps, Machines(arguments.host, arguments.slower))))


if __name__ == "__main__":
    main()
