"""A loss of variables that a step makes less, for networks of more than one model or of none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def _nothing() -> None:
    pass


@dataclass(frozen=True, eq=False, repr=False)
class Objective:
    """What is minimized, and how. A whole batch is given to it: nothing of one is what an answer is held against.

    Attributes:
        variables: what a step moves.
        loss: a number, of a batch's arrays.
        draw: a batch of so many random examples.
        after: what a step does once it has moved the variables.
    """

    variables: list[Any]
    optimizer: keras.optimizers.Optimizer
    loss: Callable[..., Any]
    draw: Callable[[np.random.Generator, int], tuple[Any, ...]]
    after: Callable[[], None] = _nothing

    def train(self, *batch: Any) -> Any:
        """One step; the loss before it."""
        with tf.GradientTape() as tape:
            loss = self.loss(*batch)
            scaled = self.optimizer.scale_loss(loss)
        self.optimizer.apply(tape.gradient(scaled, self.variables), self.variables)
        self.after()
        return loss

    def infer(self, *batch: Any) -> Any:
        """The loss, while all variables stay as they are."""
        return self.loss(*batch)

    def batch(self, size: int, seed: int = 0) -> tuple[Any, ...]:
        """So many random examples."""
        return self.draw(np.random.default_rng(seed), size)


def following(followers: list[Any], leaders: list[Any], share: float) -> Callable[[], None]:
    """What moves variables towards others by a share of the way."""
    def move() -> None:
        for follower, leader in zip(followers, leaders, strict=True):
            follower.assign((1 - share) * follower + share * leader)

    return move


def given(network: Any, batch: tuple[Any, ...]) -> tuple[Any, ...]:
    """What of a batch `infer` takes: where there is something wanted, all but that."""
    return batch if isinstance(network, Objective) else batch[1:]
