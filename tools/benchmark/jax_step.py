"""Steps of a network under Keras on JAX, as Keras' own trainer has them: one compiled function, to which the variables
are given; when it trains, they come back from it, so that their memory is used again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from models.network import Network


def train_step(network: Network) -> Callable[..., Any]:
    """As Network.train. The network's own variables are gone after the first call."""
    import jax

    model, optimizer = network.model, network.optimizer

    def loss_of(trained: Any, others: Any, kept: Any, wanted: Any, given: tuple[Any, ...]) -> tuple[Any, Any]:
        answer, others = model.stateless_call(trained, others, _given(given), training=True)
        loss = keras.ops.mean(network.loss(wanted, keras.ops.cast(answer, "float32")))
        with keras.StatelessScope(state_mapping=[*zip(optimizer.variables, kept, strict=True)]):
            return optimizer.scale_loss(loss), (loss, others)  # by a number that it keeps

    def step(state: tuple[Any, Any, Any], wanted: Any, *given: Any) -> tuple[Any, tuple[Any, Any, Any]]:
        trained, others, kept = state
        (_, (loss, others)), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained, others, kept, wanted, given)
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


def infer_step(network: Network) -> Callable[..., Any]:
    """As Network.infer."""
    import jax

    model = network.model

    def step(trained: Any, others: Any, given: tuple[Any, ...]) -> Any:
        return model.stateless_call(trained, others, _given(given), training=False)[0]

    compiled = jax.jit(step)
    state = tuple([variable.value for variable in variables] for variables in (
        model.trainable_variables, model.non_trainable_variables))
    return lambda *given: compiled(*state, given)


def _given(given: tuple[Any, ...]) -> Any:
    return list(given) if len(given) > 1 else given[0]
