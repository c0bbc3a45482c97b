"""Choices of what is computed again that an earlier process stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.compiler.losses import loss
from tests.compiler.test_recomputed_values import kernels_apart, there_and_back
from tests.differential.runner import keys_of
from tf_stitch.atomic_file import read_verified
from tf_stitch.compiler import memory_problem, recomputed_values
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import planned_kernels
from tf_stitch.compiler.stored_choices import SUFFIX
from tf_stitch.compiler.stored_plans import StoredPlans
from tf_stitch.config import MemoryBudget
from tf_stitch.device.spec import CPU
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.planning import memory_program
from tf_stitch.planning.plan_groups import groups_of
from tf_stitch.runtime.kernel_cache import KernelCache


def compiled(folder: Path, fraction: float = 0.5, circumstances: str = "here", solver: str = "ilp"
             ) -> tuple[KernelPlan, dict[str, int]]:
    """A region of a process of its own, and what its cache counted."""
    cache = KernelCache(folder)
    stored = StoredPlans(cache, (circumstances,))
    kernels = kernels_apart(there_and_back(summed=True), CPU, MemoryBudget(fraction), stored, solver)
    return kernels, cache.counts()


def text(kernels: KernelPlan) -> str:
    return f"{anonymous_text(kernels.plan.graph)}{groups_of(kernels.plan)}{kernels.buffers.arena}"


def only_choice(folder: Path) -> Path:
    [path] = folder.glob(f"*{SUFFIX}")
    return path


def changed(folder: Path, **values: object) -> None:
    """Writes another choice in the place of the only one."""
    path = only_choice(folder)
    document = json.loads(read_verified(path)) | values
    KernelCache(folder).put(path.stem, SUFFIX, json.dumps(document).encode())


@pytest.mark.parametrize("solver", ["ilp", "greedy"])
def test_the_next_process_asks_no_solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solver: str) -> None:
    first, _ = compiled(tmp_path, solver=solver)
    assert first.unlimited is not None
    monkeypatch.delattr(recomputed_values, "MemorySolver")
    second, counts = compiled(tmp_path, solver=solver)
    assert counts == {"hits": 1, "misses": 0, "corrupt": 0}
    assert text(second) == text(first)


def test_a_plan_that_fits_has_no_choice(tmp_path: Path) -> None:
    compiled(tmp_path, 1.0)
    assert not list(tmp_path.glob(f"*{SUFFIX}"))


def test_other_budgets_and_circumstances_have_choices_of_their_own(tmp_path: Path) -> None:
    live = [compiled(tmp_path, fraction)[0].buffers.live_bytes for fraction in (0.8, 0.4)]
    assert live[1] < live[0]
    compiled(tmp_path, circumstances="there")
    assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == 3


@pytest.mark.parametrize("values", [{"choice": []}, {"choice": ["kept"]}, {"choice": ["no such way"]},
                                    {"barred": [[0]]}, {"barred": [[9999, -1]]}, {"live_bytes": 1}, {"choice": None}],
                         ids=str)
def test_a_choice_that_makes_no_sense_is_counted_and_made_anew(tmp_path: Path, values: dict[str, object]) -> None:
    first, _ = compiled(tmp_path)
    good = read_verified(only_choice(tmp_path))
    changed(tmp_path, **values)
    second, counts = compiled(tmp_path)
    assert counts["corrupt"] == 1
    assert text(second) == text(first)
    assert read_verified(only_choice(tmp_path)) == good, "the good one is back"


def test_a_choice_that_cannot_be_made_is_made_anew(tmp_path: Path) -> None:
    """Of the right length, of values that are not there when they are read."""
    first, _ = compiled(tmp_path)
    choice = json.loads(read_verified(only_choice(tmp_path)))["choice"]
    changed(tmp_path, choice=[" ".join(["absent"] * len(hows.split())) for hows in choice])
    second, counts = compiled(tmp_path)
    assert counts["corrupt"] == 1
    assert text(second) == text(first)


def test_what_was_barred_is_barred_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(tmp_path)
    asked: list[memory_problem.Barred] = []
    original = recomputed_values.planned_values

    def noted(kernels, compiler, queued, barred=frozenset()):  # type: ignore[no-untyped-def]
        asked.append(barred)
        return original(kernels, compiler, queued, barred)

    monkeypatch.setattr(recomputed_values, "planned_values", noted)
    changed(tmp_path, barred=[[0, -1], [1, 0]])
    compiled(tmp_path)
    [[value, nobody], [other, pattern]] = sorted(asked[0], key=lambda pair: pair[1] is not None)
    assert nobody is None
    assert pattern is not None
    assert value is not other


def test_what_the_solver_had_no_time_for_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later process may have it."""
    original = memory_program.MemorySolver.solve
    monkeypatch.setattr(memory_program.MemorySolver, "solve", lambda self, budget, seconds: replace(
        original(self, budget, seconds), status="greedy"))
    compiled(tmp_path)
    assert not list(tmp_path.glob(f"*{SUFFIX}"))
    monkeypatch.undo()
    compiled(tmp_path)
    assert only_choice(tmp_path)


@pytest.mark.parametrize("kib", [200, 95], ids=["alone", "and values again"])
def test_pieces_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kib: int) -> None:
    graph = loss("dense", of_bias=False)

    def in_pieces() -> tuple[KernelPlan, dict[str, int]]:
        cache = KernelCache(tmp_path)
        options = CompileOptions(CPU, memory=MemoryBudget(arena=kib << 10), stored=StoredPlans(cache, ("here",)))
        return planned_kernels(graph, *keys_of(graph), options), cache.counts()

    first, _ = in_pieces()
    monkeypatch.delattr(recomputed_values, "MemorySolver")
    second, counts = in_pieces()
    assert (counts["misses"], counts["corrupt"]) == (0, 0)
    assert text(second) == text(first)
    assert second.plan.graph.after
    for path in tmp_path.glob(f"*{SUFFIX}"):
        document = json.loads(read_verified(path))
        if document["pieces"]:
            KernelCache(tmp_path).put(path.stem, SUFFIX, json.dumps(document | {"pieces": [9, 2]}).encode())
    monkeypatch.undo()
    third, counts = in_pieces()
    assert counts["corrupt"] == 1
    assert text(third) == text(first)
