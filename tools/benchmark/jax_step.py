"""A train step of a network under Keras on JAX, as Keras' own trainer has it: one compiled function, to which the
variables are given and from which they come back, so that their memory is used again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from models.network import Network


def train_step(network: Network) -> Callable[..., Any]:
    """As Network.train. The network's own variables are gone after the first call.

    Raises:
        ValueError: its losses are scaled, by a number that Keras keeps in a variable.
    """
    import jax

    model, optimizer = network.model, network.optimizer
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError("losses that are scaled are not measured under JAX")

    def loss_of(trained: Any, others: Any, wanted: Any, given: tuple[Any, ...]) -> tuple[Any, Any]:
        answer, others = model.stateless_call(trained, others, list(given) if len(given) > 1 else given[0],
                                              training=True)
        return keras.ops.mean(network.loss(wanted, keras.ops.cast(answer, "float32"))), others

    def step(state: tuple[Any, Any, Any], wanted: Any, *given: Any) -> tuple[Any, tuple[Any, Any, Any]]:
        trained, others, kept = state
        (loss, others), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained, others, wanted, given)
        trained, kept = optimizer.stateless_apply(kept, gradients, trained)
        return loss, (trained, others, kept)

    compiled = jax.jit(step, donate_argnums=0)
    state = tuple([variable.value for variable in variables] for variables in (
        model.trainable_variables, model.non_trainable_variables, optimizer.variables))

    def train(*batch: Any) -> Any:
        nonlocal state
        loss, state = compiled(state, *batch)
        return loss

    return train
