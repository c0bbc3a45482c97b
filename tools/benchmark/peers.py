"""Backends beside TensorFlow's own, as `tools.network_benchmark` names them: what users would change to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tools.benchmark import jax_worker, torch_worker
from tools.benchmark.network_cases import CASES

_JAX = {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


@dataclass(frozen=True)
class Peer:
    """
    Attributes:
        program: of this folder; it is given the network, then `arguments`.
        variables: of its environment.
        runs: it has the network.
    """

    program: str
    runs: Callable[[str], bool]
    arguments: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def _in_torch(name: str) -> bool:
    return name in CASES and CASES[name].network in torch_worker.HAVE and CASES[name].mode != "backward"


PEERS: Mapping[str, Peer] = {
    "jax": Peer("jax_worker", jax_worker.has, variables=_JAX),
    "jax_max": Peer("jax_worker", jax_worker.has, variables=_JAX | {"XLA_FLAGS": " ".join(jax_worker.FLAGS)}),
    "inductor": Peer("torch_worker", _in_torch),
    "inductor_max": Peer("torch_worker", _in_torch, ("max",)),
}
