"""Callbacks that only show or count hear of a step when the next one was asked for; others at once."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

from tf_stitch.plugin import keras_logs
from tf_stitch.plugin.keras_logs import _patch, hear_later

STEPS, EPOCHS = 4, 2


class Later(keras.callbacks.CallbackList):  # type: ignore[misc]
    """Keras' list, changed."""


hear_later(Later)


@pytest.fixture(autouse=True)
def _on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras_logs, "_has_gpu", lambda: True)


class Told(keras.callbacks.Callback):  # type: ignore[misc]
    """What it hears, beside the steps that were asked for."""

    async_safe = True

    def __init__(self, said: list[Any]) -> None:
        super().__init__()
        self._said = said

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._said.append(("end", batch, logs["loss"]))

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._said.append(("tested", batch))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._said.append(("epoch", epoch))


class AtOnce(Told):
    """As any callback that looks at batches."""

    async_safe = False


def fitted(kind: type[Any], *others: Any, callback: type[Told] = Told, validate: bool = False) -> list[Any]:
    """What a callback and the steps say in turn, without losses; last the history."""
    keras.utils.set_random_seed(0)
    said: list[Any] = []
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    model.make_train_function()
    step = model.train_function

    def asked(iterator: Any) -> Any:
        said.append("asked")
        return step(iterator)

    model.train_function = asked
    model.make_train_function = lambda force=False: asked
    x = np.random.default_rng(0).normal(size=(STEPS * 8, 3)).astype(np.float32)
    list_of = kind([callback(said), *others], add_history=True, add_progbar=False, model=model, epochs=EPOCHS,
                   steps=STEPS, verbose=0)
    history = model.fit(x, x.sum(1), batch_size=8, epochs=EPOCHS, verbose=0, callbacks=list_of, shuffle=False,
                        validation_data=(x, x.sum(1)) if validate else None)
    return [*said, history.history]


def order(said: list[Any]) -> list[Any]:
    return [what if isinstance(what, str) else what[:2] for what in said[:-1]]


def test_a_step_later_and_all_before_the_epoch_ends() -> None:
    said = fitted(Later)
    epoch = ["asked"]
    for batch in range(STEPS - 1):
        epoch += ["asked", ("end", batch)]
    assert order(said) == [*epoch, ("end", STEPS - 1), ("epoch", 0), *epoch, ("end", STEPS - 1), ("epoch", 1)]


@pytest.mark.parametrize("validate", [False, True])
def test_the_same_is_heard(validate: bool) -> None:
    later, plain = (fitted(kind, validate=validate) for kind in (Later, keras.callbacks.CallbackList))
    assert [w for w in later if w != "asked"] == [w for w in plain if w != "asked"]


def test_who_looks_at_batches_hears_at_once(tmp_path: Path) -> None:
    plain = order(fitted(keras.callbacks.CallbackList))
    assert order(fitted(Later, callback=AtOnce)) == plain
    assert order(fitted(Later, keras.callbacks.TerminateOnNaN())) == plain
    often = keras.callbacks.ModelCheckpoint(tmp_path / "m.keras", save_freq=3)
    assert order(fitted(Later, often)) == plain


def test_who_does_nothing_at_a_batchs_end_is_no_reason(tmp_path: Path) -> None:
    others = (keras.callbacks.ModelCheckpoint(tmp_path / "m.keras"), keras.callbacks.EarlyStopping("loss"),
              keras.callbacks.ProgbarLogger(), keras.callbacks.ReduceLROnPlateau("loss"))
    assert order(fitted(Later, *others)) == order(fitted(Later))


def test_a_step_that_fails_loses_no_other() -> None:
    said: list[Any] = []
    callbacks = Later([Told(said)], model=keras.Sequential())
    callbacks.on_train_batch_end(0, {"loss": 1.0})
    assert said == []
    callbacks.on_train_batch_end(1, {"loss": 2.0})
    callbacks.on_epoch_end(0)
    callbacks.on_epoch_end(1)
    assert said == [("end", 0, 1.0), ("end", 1, 2.0), ("epoch", 0), ("epoch", 1)]


class Loss:
    """Says when and where it is read."""

    def __init__(self, wrong: bool = False) -> None:
        self.read, self.thread, self._wrong = threading.Event(), "", wrong

    def __float__(self) -> float:
        self.thread = threading.current_thread().name
        self.read.set()
        if self._wrong:
            raise OSError("the device is lost")
        return 1.0


def test_reading_begins_at_once_beside_the_steps() -> None:
    callbacks, loss = Later([Told([])], model=keras.Sequential()), Loss()
    callbacks.on_train_batch_end(0, {"loss": loss})
    assert loss.read.wait(30)
    assert loss.thread.startswith("tf_stitch_losses")
    callbacks.on_epoch_end(0)
    assert not any(thread.name.startswith("tf_stitch_losses") for thread in threading.enumerate())


def test_what_is_no_number_is_handed_on() -> None:
    """As Keras does."""
    said: list[Any] = []
    callbacks, loss = Later([Told(said)], model=keras.Sequential()), Loss(wrong=True)
    callbacks.on_train_batch_end(0, {"loss": loss})
    callbacks.on_epoch_end(0)
    assert said == [("end", 0, loss), ("epoch", 0)]


def test_without_a_gpu_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras_logs, "_has_gpu", lambda: False)
    said: list[Any] = []
    callbacks, loss = Later([Told(said)], model=keras.Sequential()), Loss()
    callbacks.on_train_batch_end(0, {"loss": loss})
    assert said == [("end", 0, 1.0)]


def test_devices_are_not_asked_for_before_a_step_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """To answer, TensorFlow initializes CUDA, which no process survives that is forked from here."""
    class Own(keras.callbacks.CallbackList):  # type: ignore[misc]
        pass

    asked: list[Any] = []
    monkeypatch.setattr("tensorflow.config.list_physical_devices", asked.append)
    before = Own.on_train_batch_end
    _patch(SimpleNamespace(CallbackList=Own))  # type: ignore[arg-type]
    assert Own.on_train_batch_end is not before
    assert not asked


def test_lists_of_an_unknown_kind_are_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    _patch(SimpleNamespace())  # type: ignore[arg-type]
    assert "of an unknown kind" in capfd.readouterr().err
