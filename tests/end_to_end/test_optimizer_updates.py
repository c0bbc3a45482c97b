"""All optimizer updates of a Keras model: one region, a handful of launches (AStitch section 4.1, remote stitching)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from tf_stitch.cli import analysis
from tf_stitch.cli.explain.graphs import analyse
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.placement.executable import DeviceLaunch

LAYERS = 12


class AdamStep(tf.Module):
    """Adam on the variables of a small network, gradients given."""

    def __init__(self) -> None:
        super().__init__()
        model = keras.Sequential([keras.Input((64,)), *(keras.layers.Dense(32 + 16 * i) for i in range(LAYERS))])
        self.weights = [v.value for v in model.trainable_variables]
        self.optimizer = keras.optimizers.Adam(1e-3)
        self.optimizer.build(model.trainable_variables)
        self.state = [v.value for v in self.optimizer.variables]
        self._model = model
        shapes = [tf.TensorSpec(w.shape, tf.float32, name=f"g{i}") for i, w in enumerate(self.weights)]
        self.step = tf.function(self._step, input_signature=shapes)

    def _step(self, *gradients: Any) -> dict[str, Any]:
        self.optimizer.apply_gradients(zip(gradients, self._model.trainable_variables, strict=True))
        return {"iterations": tf.identity(self.optimizer.iterations.value)}


def test_adam_updates_are_a_handful_of_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[CompiledRegion] = []

    def compile_region(*args: Any) -> CompiledRegion:
        compiled.append(real(*args))
        return compiled[-1]

    real = analysis.compile_region
    monkeypatch.setattr(analysis, "compile_region", compile_region)
    module = AdamStep()
    tf.saved_model.save(module, str(tmp_path), signatures={"step": module.step})
    document = analyse(tmp_path, None, "h200")
    updating = [r for r in document["regions"] if any("Assign" in op for op in r["nodes"].values())]
    assert len(updating) == 1
    assert updating[0]["variables"] >= 3 * 2 * LAYERS
    kernels = [k for c in compiled for k in c.kernels]
    launches = [s for c in compiled for s in c.executable.steps if isinstance(s, DeviceLaunch)]
    assert len(kernels) >= 2 * LAYERS
    assert len(launches) <= 5, [s.symbol for s in launches]
