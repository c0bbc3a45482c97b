"""Random graphs on a GPU, one by one: what each is made of, and whether the results are right."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.differential.generator import FLOATS, Case, GraphMaker, make_case, values_for
from tests.differential.gpu_run import run_gpu
from tests.differential.redzones import RedzoneError
from tests.differential.runner import cache, compare, compiled, reference
from tests.differential.sizes import SIZES
from tests.differential.sizes import Case as SizedCase
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.device.spec import H200
from tf_stitch.errors import ScheduleError, TypeRuleError
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.planning.plan_memory import PlanMemory
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tf_stitch.schedule.kernel_schedule import KernelSchedule

Run = Callable[..., dict]  # type: ignore[type-arg]


class LongGraphMaker(GraphMaker):
    """Draws graphs of long axes, for kernels whose blocks work together; more reductions and transposes among them."""

    lengths = (1, 2, 3, 7, 32, 64, 100, 300, 1000, 4096, 5003, 20_000, 70_001)
    MATRICES = ((3, 70_001), (1, 200_000), (5, 16_389), (40, 20_000), (64, 4096), (300, 1000), (1000, 300), (5003, 40),
                (20_000, 7))

    def shape(self) -> tuple[int, ...]:
        return self.one(self.MATRICES) if self.number(0, 1) else super().shape()

    def transposed(self) -> None:
        """A transpose, and sums in both directions of what it is taken from."""
        v = self.pick(lambda v: len(v.dims) == 2, FLOATS)
        if len(v.dims) == 2:
            self.keep(self.b.transpose(v.node, [1, 0]), v.exact)
            for axis in (0, 1):
                self.keep(self.b.sum(v.node, [axis]), False)

    STEPS_BY_WEIGHT = (*GraphMaker.STEPS_BY_WEIGHT, *([GraphMaker.softmax, GraphMaker.normalise, transposed] * 3),
                       *([GraphMaker.reduction] * 4))


@dataclass
class Outcome:
    """What became of one graph.

    Attributes:
        failure: "" if every element was right; else mismatch, redzone or error.
        message: of the failure, with the graph.
        reached: what its kernels are made of -> how often.
        ops: kinds of op in it.
    """

    number: int
    kind: str
    failure: str = ""
    message: str = ""
    kernels: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    ops: set[str] = field(default_factory=set)


def try_graph(seed: int, number: int, run: Run | None = run_gpu) -> Outcome:
    """Draws graph `number` and its inputs, compiles it, runs it and compares it with float64.

    Args:
        run: None to compile down to source only.
    """
    rng = random.Random(f"{seed} {number}")
    if number % 8 == 7:
        outcome = _sized(rng, Outcome(number, "sizes that change"), run)
        if outcome is not None:
            return outcome
    if number % 4 == 2:
        graph = LongGraphMaker(rng, 300_000).graph(rng.randint(1, 7))
        return _plain(Case(graph, values_for(graph, rng.randint(0, 1 << 16))), Outcome(number, "long axes"), True, run)
    return _plain(make_case(rng, 14, 3000), Outcome(number, "plain"), rng.random() < 0.5, run)


def _plain(case: Case, outcome: Outcome, aligned: bool, run: Run | None) -> Outcome:
    def go() -> None:
        built = compiled(case.graph, H200, aligned, "greedy")
        _note(outcome, case.graph, built)
        if run is not None:
            got = run(case.graph, built, case.values, aligned=aligned)
            compare(case.graph, got, *reference(case.graph, case.values), "H200")

    return _tried(outcome, repr(case), go)


def _sized(rng: random.Random, outcome: Outcome, run: Run | None) -> Outcome | None:
    """None if a graph has no meaning for the sizes drawn, or is compiled for its numbers."""
    pairs = [(rng.choice(SIZES), rng.choice(SIZES)) for _ in range(2)]
    case, plans = SizedCase(rng.randrange(1 << 32), pairs, 8, 3000), PlanMemory()
    try:
        built = [case.compiled(n, m, H200, plans) for n, m in pairs]
    except (TypeRuleError, ScheduleError):
        return None
    except Exception as error:  # one graph must not end the campaign
        outcome.failure, outcome.message = "error", f"{type(error).__name__}: {error}\n{case!r}"
        return outcome

    def go() -> None:
        (_, first), (_, second) = built
        one_for_both = second.rendered.keys() <= first.rendered.keys()
        outcome.reached["kernels of other sizes"] += one_for_both and len(second.kernels)
        for (n, m), (graph, region) in zip(pairs, built, strict=True):
            _note(outcome, graph, region)
            if run is not None:
                source = first.source if one_for_both else region.source
                values = values_for(graph, n * 100 + m)
                got = run(graph, region, values, cubin=build_cuda(source, "90", cache()) if source else None)
                compare(graph, got, *reference(graph, values), f"H200, {n}, {m}")

    return _tried(outcome, repr(case), go)


def _tried(outcome: Outcome, graph: str, go: Callable[[], None]) -> Outcome:
    try:
        go()
    except AssertionError as error:
        outcome.failure = "redzone" if isinstance(error, RedzoneError) else "mismatch"
        outcome.message = f"{error}\n{graph}"
    except Exception as error:  # one graph must not end the campaign
        outcome.failure, outcome.message = "error", f"{type(error).__name__}: {error}\n{graph}"
    return outcome


def _note(outcome: Outcome, graph: TensorGraph, region: CompiledRegion) -> None:
    outcome.kernels += len(region.kernels)
    outcome.ops |= {node.kind.value for node in graph.nodes()}
    for kernel in region.kernels:
        _note_schedule(outcome, kernel.schedule)
    outcome.reached["launches of several kernels"] += sum(len(programs) > 1 for programs in region.programs.values())
    outcome.reached["values in the arena"] += bool(region.executable.arena_bytes)


def _note_schedule(outcome: Outcome, schedule: KernelSchedule) -> None:
    outcome.reached[f"rule {schedule.family}"] += 1
    outcome.reached["rows shared by blocks"] += schedule.mapping.row_blocks > 1
    for scheme in schedule.schemes.values():
        outcome.reached[f"{scheme.value} values"] += 1
    for together in schedule.groups:
        for group in together:
            _note_schedule(outcome, group)


def summary(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """The campaign in figures; failures with their graphs."""
    reached = sum((outcome.reached for outcome in outcomes), Counter[str]())
    ops = Counter(op for outcome in outcomes for op in outcome.ops)
    failures = [vars(outcome) | {"reached": None, "ops": None} for outcome in outcomes if outcome.failure]
    return {
        "graphs": len(outcomes), "kinds": dict(Counter(o.kind for o in outcomes)),
        "mismatches": sum(o.failure == "mismatch" for o in outcomes),
        "redzones": sum(o.failure == "redzone" for o in outcomes),
        "errors": sum(o.failure == "error" for o in outcomes),
        "kernels": sum(o.kernels for o in outcomes), "reached": dict(sorted(reached.items())),
        "ops": dict(sorted(ops.items())), "failures": failures,
    }  # fmt: skip
