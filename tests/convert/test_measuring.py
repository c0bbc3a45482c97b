from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import tensorflow as tf

from tf_stitch.config import load_config
from tf_stitch.convert import attempt, conversion, measuring
from tf_stitch.convert.command import OK, main
from tf_stitch.convert.inputs import generated
from tf_stitch.convert.kernels import Kernels
from tf_stitch.convert.measuring import host_executables, slower_regions
from tf_stitch.convert.saved_model import Signature, Value
from tf_stitch.native.bindings import Verdict

A = Signature("a", (Value("x", "x:0", tf.float32, (None,)),), ())
B = Signature("b", A.inputs, ())


def test_the_ratio_is_the_second_s_time_to_the_first_s(monkeypatch: pytest.MonkeyPatch) -> None:
    def sleeping(seconds: float) -> Callable[[Any], None]:
        return lambda inputs: time.sleep(seconds)

    ratio = measuring._relative(sleeping(0.004), sleeping(0.012), None, 5.0)
    assert 2.0 < ratio < 4.0


def test_equal_signatures_have_one_time() -> None:
    renamed = Signature("same", (Value("other", "other:0", tf.float32, (None,)),), ())
    wider = Signature("wider", (Value("x", "x:0", tf.float32, (None, 2)),), ())
    others = {"b": ["tanh"], "wider": ["softmax"], "a": ["softmax"], "same": ["softmax"]}
    logs = {"a": [math.log(0.5), math.log(2.0)], "same": [math.log(0.25)], "b": [math.log(0.9)], "wider": [0.0]}
    times = measuring._of_equals([A, B, renamed, wider], logs, others)
    assert times == pytest.approx({"a": 0.25 ** (1 / 3), "same": 0.25 ** (1 / 3), "b": 0.9, "wider": 1.0})


def test_times_that_hardly_differ_are_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(measuring, "time", SimpleNamespace(monotonic=lambda: 0.0, perf_counter=lambda: now[0]))

    def taking(seconds: float) -> Callable[[Any], None]:
        calls.append(0)

        def call(_: Any) -> None:
            calls[-1] += 1
            now[0] += seconds

        return call

    calls: list[int] = []
    assert measuring._relative(taking(1.0), taking(1.01), None, 9.0) == pytest.approx(1.01)
    assert measuring._relative(taking(1.0), taking(1.5), None, 9.0) == pytest.approx(1.5)
    assert calls == [0, measuring.MORE_PAIRS * 2 + 4, 0, measuring.PAIRS * 2 + 4]


def test_it_ends_when_its_time_is_over() -> None:
    calls: list[int] = []
    measuring._relative(lambda inputs: calls.append(1), lambda inputs: calls.append(2), None, 0.0)
    assert len(calls) == 2 * 5  # two pairs that do not count, three that do


def test_of_each_signature_the_first_and_the_last_shape_are_timed() -> None:
    cases = [generated(A, {"x": (n,)}) for n in (1, 2, 3)] + [generated(B, {"x": (4,)})]
    chosen = [(signature.name, case.shapes["x"]) for signature, case in measuring._first_and_last(cases, [A, B])]
    assert chosen == [("a", (1,)), ("a", (3,)), ("b", (4,))]


@pytest.mark.parametrize(("verdicts", "lost"), [
    ({}, set()),
    ({(0, 1): Verdict(False, 10, 20), (1, 1): Verdict(True, 20, 10)}, {1}),
    ({(0, 1): Verdict(True, 20, 18), (0, 2): Verdict(False, 50, 90)}, set()),  # over both shapes it gains
    ({(0, 1): Verdict(True, 90, 50), (0, 2): Verdict(False, 18, 20)}, {0}),
    ({(2, 1): Verdict(True, 20, 18), (3, 1): Verdict(False, 10, 19)}, set()),  # 2 and 3 are equal
    ({(2, 1): Verdict(True, 20, 10), (3, 1): Verdict(False, 10, 11)}, {2, 3})])
def test_regions_that_lose_over_their_shapes_are_given_up(verdicts: dict[Any, Verdict], lost: set[int],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        def __init__(self, *_: Any) -> None:
            self.verdicts, self.first = verdicts, 0

        def connect(self, library: Any) -> None:
            library.calls.append("connect")

        def __enter__(self) -> Fake:
            return self

        def __exit__(self, *_: Any) -> None:
            return

    calls: list[str] = []
    library = SimpleNamespace(
        calls=calls, clear_callbacks=lambda: calls.append("clear"),
        enable_profitability_check=lambda on, apart=None, share=None: calls.append(f"check {on}"))
    monkeypatch.setattr(measuring, "Recorder", Fake)
    monkeypatch.setattr(measuring, "_words", lambda kernels: ([], {}))
    monkeypatch.setattr(measuring, "rewritten", lambda *_: None)
    monkeypatch.setattr(measuring, "loaded_draft", lambda *_: Fake())
    monkeypatch.setattr(measuring, "_run", lambda *_: None)
    monkeypatch.setattr(measuring, "anonymous_text", str)
    rewritings = [SimpleNamespace(regions=[SimpleNamespace(graph=graph) for graph in "abcc"], fallbacks=[])]
    none = cast(Any, None)
    assert slower_regions(none, cast(Any, rewritings), none, [], [], cast(Any, library), none) == lost
    assert calls == ["connect", "check True", "check False", "clear"]


def test_this_machine_s_best_level_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[Any, ...]] = []
    monkeypatch.setattr(measuring, "HostExecutable", lambda executable, *files: opened.append(files))
    monkeypatch.setattr(measuring, "own_level", lambda: 1)
    built = SimpleNamespace(executable=None, library={"k": 0, "l": 0})
    kernels = SimpleNamespace(target=SimpleNamespace(levels={0: "", 1: "", 2: ""}), built={(0, ()): built},
                              files=[{0: "baseline", 1: "avx2", 2: "avx512"}])
    host_executables(cast(Kernels, kernels))
    assert opened == [("avx2",)]


def test_a_signature_that_is_slower_gives_its_regions_up_and_the_next_conversion_knows(
        models: Callable[[str], Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    timed: list[int] = []

    def slow(*_: Any) -> Any:
        timed.append(1)
        return {"serve": 1.5, "serving_default": 0.5}, {"serve": {0}, "serving_default": set()}

    monkeypatch.setattr(conversion, "load_op", _load_with(conversion.load_op))
    monkeypatch.setenv("TF_STITCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(attempt, "slower_regions", lambda *_: set())
    monkeypatch.setattr(attempt, "slower_signatures", slow)
    for _ in range(2):
        assert main([f"--input_dir={models('keras')}", f"--output_dir={tmp_path / 'out'}", "--overwrite",
                     "--input_ranges=batch=3:3"]) == OK
        said = capsys.readouterr().out
        assert "serve took 1.50 of the original's time a call when it was timed: its regions are given up" in said
        assert "its region is slower than the TensorFlow nodes" in said
    assert timed == [1, 1], "of the first conversion, with both scopes"


def _load_with(load: Callable[..., Any]) -> Callable[..., Any]:
    """The op library of the usual cache, so that it is not built anew."""
    usual = load_config().cache_dir
    return lambda _, portable: load(usual, portable)
