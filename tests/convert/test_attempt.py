from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tf_stitch.config import load_config
from tf_stitch.convert import attempt, conversion
from tf_stitch.convert.attempt import Attempt
from tf_stitch.convert.command import OK, main
from tf_stitch.convert.plan import Plan


@pytest.mark.parametrize(("times", "time"), [({}, 1.0), ({"a": 0.5}, 0.5), ({"a": 0.25, "b": 4.0}, 0.5)])
def test_signatures_that_are_slower_count_as_the_original(times: dict[str, float], time: float) -> None:
    assert Attempt(Plan(None, "auto", []), [], times=times).time == pytest.approx(time)  # type: ignore[arg-type]


@pytest.fixture
def converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Converts an encoder whose matmuls are too large for regions of small ones; what is timed is given."""
    import tensorflow as tf

    class Wide(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = tf.Variable(tf.random.stateless_normal((512, 512), (1, 2)) / 30)

        @tf.function(input_signature=[tf.TensorSpec((128, 512), name="x")])
        def serve(self, x: Any) -> Any:
            return {"y": tf.tanh(x @ self.kernel) + x}

    module = Wide()
    usual, load = load_config().cache_dir, conversion.load_op
    monkeypatch.setattr(conversion, "load_op", lambda _, portable: load(usual, portable))
    monkeypatch.setenv("TF_STITCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(attempt, "slower_regions", lambda *_: set())

    def convert(*flags: str, auto: float, region: float, scale: float = 1.0) -> dict[str, Any]:
        module.kernel.assign(module.kernel * scale)
        tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
        timed = {"auto": auto, "region": region, "ops": 1.0}
        scopes: list[str] = []
        form = attempt.form_regions

        def forming(task: Any, config: Any, progress: Any) -> Plan:
            scopes.append(config.scope)
            return form(task, config, progress)

        monkeypatch.setattr(attempt, "form_regions", forming)
        monkeypatch.setattr(attempt, "slower_signatures",
                            lambda *_: ({"serving_default": timed[scopes[-1]]}, {"serving_default": {0}}))
        report = tmp_path / "report.json"
        assert main([f"--input_dir={tmp_path / 'model'}", f"--output_dir={tmp_path / 'out'}", "--overwrite",
                     f"--report={report}", *flags]) == OK
        monkeypatch.setattr(attempt, "form_regions", form)
        return {"tried": scopes, **json.loads(report.read_text())}

    return convert


def test_the_faster_scope_is_written_and_the_next_conversion_knows(converted: Callable[..., Any]) -> None:
    first = converted(auto=0.9, region=0.7)
    assert (first["tried"], first["scope"]) == (["auto", "region"], "region")
    assert first["counts"]["library_calls"] == 1
    assert "serving_default took 0.70 of the original's time a call when it was timed" in first["remarks"]
    again = converted(auto=0.1, region=0.7)
    assert (again["tried"], again["scope"]) == (["auto", "region"], "region")
    assert again["remarks"] == first["remarks"]


def test_models_that_differ_in_weights_have_one_verdict(converted: Callable[..., Any]) -> None:
    assert converted(auto=0.9, region=0.7)["scope"] == "region"
    assert converted(auto=0.1, region=0.7, scale=1.5)["scope"] == "region"


def test_all_matmuls_have_to_gain_something(converted: Callable[..., Any]) -> None:
    found = converted(auto=0.70, region=0.69)
    assert (found["tried"], found["scope"]) == (["auto", "region"], "auto")
    assert found["counts"]["library_calls"] == 0


@pytest.mark.parametrize("flag", ["--scope=ops", "--scope=region", "--nomeasure"])
def test_what_is_asked_for_is_all_that_is_tried(converted: Callable[..., Any], flag: str) -> None:
    assert len(converted(flag, auto=0.9, region=0.7)["tried"]) == 1
