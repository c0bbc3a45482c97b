"""Plans that an earlier process stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential.runner import keys_of
from tests.planning.dags import random_graph
from tf_stitch.atomic_file import read_verified
from tf_stitch.compiler import pipeline
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.compiler.stored_plans import SUFFIX, StoredPlans
from tf_stitch.device.spec import CPU
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.runtime.kernel_cache import KernelCache

SEED = 3


def compiled(folder: Path, seed: int = SEED, circumstances: str = "here",
             solver: str = "ilp") -> tuple[CompiledRegion, dict[str, int]]:
    """A region of a process of its own, and what its cache counted."""
    graph, cache = random_graph(seed), KernelCache(folder)
    options = CompileOptions(CPU, PlanOptions(solver), stored=StoredPlans(cache, (circumstances,)))
    return compile_region(graph, *keys_of(graph), options), cache.counts()


def only_plan(folder: Path) -> Path:
    [path] = folder.glob(f"*{SUFFIX}")
    return path


def test_the_next_process_does_not_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, counts = compiled(tmp_path)
    assert counts == {"hits": 0, "misses": 1, "corrupt": 0}
    monkeypatch.delattr(pipeline, "plan_region")
    second, counts = compiled(tmp_path)
    assert counts == {"hits": 1, "misses": 0, "corrupt": 0}
    assert second.source == first.source
    assert second.executable == first.executable
    assert second.plan.solver == first.plan.solver


@pytest.mark.parametrize("damage", ["", "{}", "no json", '{"solver": {"status": 1}, "groups": []}',
                                    '{"solver": null, "groups": [[0]]}', '{"solver": null, "groups": [[999]]}'])
def test_a_plan_that_makes_no_sense_is_counted_and_made_anew(tmp_path: Path, damage: str) -> None:
    first, _ = compiled(tmp_path)
    KernelCache(tmp_path).put(only_plan(tmp_path).stem, SUFFIX, damage.encode())
    second, counts = compiled(tmp_path)
    assert counts["corrupt"] == 1
    assert second.source == first.source
    assert json.loads(read_verified(only_plan(tmp_path)))["groups"], "the good one is back"


def test_a_damaged_file_is_counted_and_made_anew(tmp_path: Path) -> None:
    first, _ = compiled(tmp_path)
    path = only_plan(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    second, counts = compiled(tmp_path)
    assert counts["corrupt"] == 1
    assert second.source == first.source


def test_other_circumstances_and_other_graphs_have_plans_of_their_own(tmp_path: Path) -> None:
    compiled(tmp_path)
    assert compiled(tmp_path, circumstances="there")[1]["hits"] == 0
    assert compiled(tmp_path, seed=SEED + 1)[1]["hits"] == 0
    assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == 3


def test_another_version_plans_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(tmp_path)
    monkeypatch.setattr("tf_stitch.compiler.stored_plans.package_digest", lambda: "changed")
    assert compiled(tmp_path)[1]["hits"] == 0


def test_a_choice_made_for_want_of_a_solver_is_not_kept(tmp_path: Path) -> None:
    plan, cache = compiled(tmp_path / "elsewhere")[0].plan, KernelCache(tmp_path)
    assert plan.solver is not None
    for solver, kept in (("ilp", 0), ("greedy", 1)):
        report = replace(plan.solver, solver=solver, status="greedy")
        StoredPlans(cache, (solver,)).keep(replace(plan, solver=report))
        assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == kept, "asked for, it is kept"


def test_a_plan_that_cannot_be_stored_is_a_problem_of_the_cache(tmp_path: Path) -> None:
    graph, cache = random_graph(SEED), KernelCache(tmp_path / "cache")
    cache.folder = tmp_path / "gone"
    stored = StoredPlans(cache, ())
    compile_region(graph, *keys_of(graph), CompileOptions(CPU, stored=stored))
    assert cache.problem is not None
    assert "kept for this run only" in cache.problem
