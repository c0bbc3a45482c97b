"""Measuring in the background."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.differential import patterns as p
from tests.differential.runner import keys_of, region
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.compiler.template_tuner import Tuning
from tf_stitch.device.spec import CPU
from tf_stitch.errors import BuildError
from tf_stitch.ir.dtypes import DType
from tf_stitch.jit.tuner import Job, Tuner, kernels_to_tune
from tf_stitch.planning.measured_cost import MeasuredTimes, measurement_key
from tf_stitch.planning.tuned_templates import TunedTemplates
from tf_stitch.runtime.host_builder import compiler
from tf_stitch.runtime.kernel_cache import KernelCache

B = p.B
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler")


def job(folder: Path) -> Job:
    graph = region("softmax", [p.softmax(B.input("x:0", DType.F32, (64, 96)))])
    compiled = compile_region(graph, *keys_of(graph), CompileOptions(CPU))
    return Job(compiled.plan, CPU, -1, True, MeasuredTimes(folder / "times.json"),
               TunedTemplates(folder / "templates.json"), compiled.kernels)


def ignore(tuning: Tuning, seconds: float) -> None:
    """Nobody asks."""


@needs_compiler
def test_patterns_and_parts_are_measured_and_kept(tmp_path: Path) -> None:
    notes: list[str] = []
    tuner, one = Tuner(60, KernelCache(tmp_path / "kernels"), notes.append, ignore), job(tmp_path)
    tuner.add(one)
    key = measurement_key(one.plan.patterns[0], True)
    for _ in range(600):
        if len(one.times) > 1:  # tuning keeps the pattern's time; it is measured with its ops behind that
            break
        time.sleep(0.05)
    tuner.close()
    assert notes == []
    found = MeasuredTimes(tmp_path / "times.json")
    assert 0.1 < (found.get(key) or 0) < 10_000
    assert len(found) > len(one.plan.patterns[0].nodes) / 2, "its ops, too"


@needs_compiler
def test_templates_are_tuned_once_and_kept(tmp_path: Path) -> None:
    tunings: list[Tuning] = []
    one = job(tmp_path)
    (default,) = kernels_to_tune(one)
    tuner = Tuner(60, KernelCache(tmp_path / "kernels"), pytest.fail, lambda tuning, seconds: tunings.append(tuning))
    tuner.add(one)
    for _ in range(600):
        if tunings:
            break
        time.sleep(0.05)
    tuner.close()
    (tuning,) = tunings
    assert len(tuning.times) == tuning.possible == 2, "what a task keeps of its row"
    key = measurement_key(default.schedule.pattern, True)
    assert TunedTemplates(tmp_path / "templates.json").get(key) == tuning.record()
    assert MeasuredTimes(tmp_path / "times.json").get(key) == tuning.best_us, "plans count on it"
    assert kernels_to_tune(job(tmp_path)) == []


def test_without_seconds_nothing_happens(tmp_path: Path) -> None:
    tuner = Tuner(0, KernelCache(tmp_path / "kernels"), pytest.fail, ignore)
    tuner.add(job(tmp_path))
    tuner.close()
    assert not (tmp_path / "times.json").exists()


def test_what_cannot_be_built_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Path:
        raise BuildError("no compiler today")

    monkeypatch.setattr("tf_stitch.targets.cpu.build_host", broken)
    notes: list[str] = []
    tuner = Tuner(60, KernelCache(tmp_path / "kernels"), notes.append, ignore)
    tuner.add(job(tmp_path))
    for _ in range(200):
        if len(notes) == 2:
            break
        time.sleep(0.02)
    tuner.close()
    assert notes[0].endswith("no compiler today")
    assert notes[1:] == ["no compiler today"], "of its template, and of its time"
