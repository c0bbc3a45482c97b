"""A model's regions with kernels, timed against what they replace; of two scopes that whose calls are faster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tf_stitch.config import StitchConfig
from tf_stitch.convert.certificate import run_original
from tf_stitch.convert.draft import loaded_draft, rewritten
from tf_stitch.convert.kernels import AheadBuilder, Kernels
from tf_stitch.convert.measuring import SLOWER, slower_regions, slower_signatures
from tf_stitch.convert.options import Options
from tf_stitch.convert.plan import Plan, Task, form_regions
from tf_stitch.convert.progress import Progress
from tf_stitch.convert.recording import Recorder
from tf_stitch.convert.rewriting import NEVER_RAN
from tf_stitch.convert.running import Loaded
from tf_stitch.convert.stored_runs import StoredScope, StoredShapes, StoredVerdicts, Verdicts, identity_of
from tf_stitch.frontend.tensorflow.matmul_scope import TOO_LARGE
from tf_stitch.jit.shape_family import Shapes
from tf_stitch.native.bindings import OpLibrary

AUTO, ALL_MATMULS = "auto", "region"
GAIN = 0.97
"""How much faster regions with all matmuls have to be: timing differs by some percent from run to run."""


@dataclass
class Attempt:
    """
    Attributes:
        given_up: numbers of regions that are slower than what they replace.
        times: signature -> time of a call relative to the original's, before regions of slower ones were given up;
            empty where nothing was timed.
    """

    plan: Plan
    kernels: list[Kernels]
    given_up: set[int] = field(default_factory=set)
    times: Mapping[str, float] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def time(self) -> float:
        """The time of calls, relative to the original's: geometric mean over signatures."""
        logs = [math.log(min(time, SLOWER)) for time in self.times.values()]
        return math.exp(sum(logs) / len(logs)) if logs else 1.0


@dataclass(frozen=True)
class Trials:
    """Makes attempts.

    Attributes:
        original: the loaded model; scratch: a folder for drafts.
    """

    options: Options
    config: StitchConfig
    task: Task
    original: Loaded
    library: OpLibrary
    scratch: Path
    progress: Progress

    def best(self) -> Attempt:
        """The attempt with the scope that is asked for; with "auto" on a CPU the faster of two scopes.

        Which is faster depends on what lies between matmuls, the library, and the processors."""
        options, task = self.options, self.task
        if options.scope != AUTO or not options.measure or any(target.on_gpu for target in task.targets):
            return self._attempt(self._plan(options.scope))
        plan = self._plan(AUTO)
        stored = StoredScope(self.config.cache_dir, plan.structure(), [repr(_shapes_of_cases(task))])
        known = stored.recall()
        if known is not None:
            return self._attempt(plan if known == AUTO else self._plan(known))
        found = self._attempt(plan)
        if any(TOO_LARGE in why for r in found.plan.rewritings for why in r.left_out.values()):
            other = self._attempt(self._plan(ALL_MATMULS))
            found = other if other.time < GAIN * found.time else found
        stored.keep(found.plan.scope)
        return found

    def _plan(self, scope: str) -> Plan:
        return form_regions(self.task, replace(self.config, scope=scope), self.progress)

    def _attempt(self, plan: Plan) -> Attempt:
        wanted = self._shapes_of_regions(plan)
        attempt = Attempt(plan, self._build(plan, wanted))
        self._give_up(attempt)
        return attempt

    def _shapes_of_regions(self, plan: Plan) -> dict[int, list[Shapes]]:
        """The shapes that each region runs with; where nothing ran, it is given up."""
        task = self.task
        stored = StoredShapes(self.config.cache_dir, identity_of(task.model), [*(case.digest() for case in task.cases),
                                                                  *plan.digests()])
        seen = stored.recall()
        if seen is None:
            self.progress.step("running the model, to see its regions' shapes")
            seen = self._run_draft(plan)
            stored.keep(seen)
        for number, (rewriting, place) in enumerate(plan.places):
            if number not in seen:
                rewriting.give_up(place, NEVER_RAN)
        return seen

    def _run_draft(self, plan: Plan) -> dict[int, list[Shapes]]:
        """The shapes that each region runs with. Its own nodes run."""
        task = self.task
        recorder = Recorder(plan.fallbacks)
        recorder.connect(self.library)
        by_name = {s.name: s for s in task.signatures}
        try:
            with loaded_draft(task.model, rewritten(task.model, plan.rewritings, recorder.first),
                              self.scratch) as draft:
                for i, case in enumerate(task.cases):
                    run_original(draft, by_name[case.signature], case)
                    self.progress.part((i + 1) / len(task.cases))
        finally:
            self.library.clear_callbacks()
        return recorder.seen

    def _build(self, plan: Plan, wanted: Mapping[int, Sequence[Shapes]]) -> list[Kernels]:
        regions = [region for rewriting in plan.rewritings for region in rewriting.regions]
        found = []
        for target in self.task.targets:
            self.progress.step(f"building kernels for {target.name}")
            found.append(AheadBuilder(self.config, target, self.progress.part).build(regions, wanted))
        return found

    def _give_up(self, attempt: Attempt) -> None:
        """Gives up regions that are slower than their own nodes, then those of signatures that are slower still; by
        this machine's CPU, where kernels for one were built."""
        on_cpu = next((built for built in attempt.kernels if not built.target.on_gpu), None)
        if not self.options.measure or on_cpu is None or not on_cpu.built:
            return
        plan, task, places = attempt.plan, self.task, attempt.plan.places
        stored = StoredVerdicts(self.config.cache_dir, plan.structure(), [
            repr(_shapes_of_cases(task)), *on_cpu.sources])
        known = stored.recall()
        if known is None:
            known = self._time(plan, on_cpu)
            stored.keep(known)
        for number in known.given_up:
            places[number][0].give_up(places[number][1])
        for signature, time in known.times.items():
            said = ": its regions are given up" if time > SLOWER else ""
            attempt.remarks.append(f"{signature} took {time:.2f} of the original's time a call when it was timed{said}")
        attempt.given_up, attempt.times = set(known.given_up), known.times

    def _time(self, plan: Plan, on_cpu: Kernels) -> Verdicts:
        self.progress.step("timing regions against the nodes that they replace")
        task, library = self.task, self.library
        lost = set[int]()
        if plan.scope != ALL_MATMULS:  # one region for most of the model: it is faster as a whole, or not
            lost = slower_regions(task.model, plan.rewritings, on_cpu, task.cases, task.signatures, library,
                                  self.scratch)
        for number in lost:
            plan.places[number][0].give_up(plan.places[number][1])
        times, ran = slower_signatures(self.original, task.model, plan.rewritings, on_cpu, task.cases,
                                       task.signatures, library, self.scratch)
        slower = sorted(signature for signature, time in times.items() if time > SLOWER)
        return Verdicts(sorted(lost.union(*(ran[signature] for signature in slower))), times)


def _shapes_of_cases(task: Task) -> list[object]:
    return [(case.signature, sorted(case.shapes.items())) for case in task.cases]
