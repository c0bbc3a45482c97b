"""Keras on JAX takes the same steps as Keras on TensorFlow, in a process without TensorFlow."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from models import language, lstm, vision
from tools.benchmark import jax_worker
from tools.benchmark.network_cases import CASES
from tools.benchmark.peers import PEERS
from tools.benchmark.workers import Worker

SMALL = "gpt2:1x16x2x8x32x2"


def _losses(program: str, *arguments: str, backend: str, **variables: str) -> Any:
    worker = Worker(program, SMALL, *arguments, backend=backend, variables=variables)
    try:
        return worker.ask(4, 0, "losses", limit=60)["losses"]
    finally:
        worker.close()


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="there is no JAX")
def test_losses_under_jax_fall_as_under_tensorflow() -> None:
    """The initial weights differ: each backend draws its own."""
    wanted = _losses("network_worker", "tensorflow", backend="tensorflow")
    found = _losses("jax_worker", backend="jax", **PEERS["jax"].variables)
    np.testing.assert_allclose(found, wanted, rtol=0.05)


def test_networks_that_jax_has() -> None:
    with_keras_alone = {*language.NAMES, *lstm.NAMES}
    for name, case in CASES.items():
        wanted = case.mode != "backward" and (case.size > 0 or case.network in with_keras_alone)
        assert jax_worker.has(name) is wanted, name
    assert all(case.network in vision.NAMES for case in CASES.values() if case.size)
