"""Networks by the names of their cases."""

from __future__ import annotations

from typing import Any, NamedTuple

from tools.benchmark.network_cases import CASES, NetworkCase

DRAWN = "drawn:"
"""Before the seed of a network of tools.blind; "drawn:tiny:" before that of one of a test."""


class Built(NamedTuple):
    """
    Attributes:
        network: a Network, or what trains like one.
        mode: train, infer, backward.
        batch: how many examples a step sees.
    """

    network: Any
    mode: str
    batch: int


def built(name: str) -> Built:
    """A network with new weights, under its policy of element types.

    Args:
        name: of network_cases.py; gpt2:LAYERSxWIDTHxHEADSxLENGTHxVOCABULARYxBATCH, in mixed bfloat16; drawn:SEED.
    """
    import keras

    if name.startswith(DRAWN):
        from tools.blind.drawn import drawn, network

        *tiny, seed = name.split(":")[1:]
        found = drawn(int(seed), bool(tiny))
        keras.mixed_precision.set_global_policy(found.policy)
        return Built(network(found.source), found.mode, found.batch)
    if name.startswith("gpt2:"):
        from models import language

        *sizes, batch = map(int, name.partition(":")[2].split("x"))
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
        return Built(language.build("GPT2", language.Config(*sizes)), "train", batch)
    case = CASES[name]
    keras.mixed_precision.set_global_policy(case.policy)
    return Built(_of_case(case), case.mode, case.batch)


def _of_case(case: NetworkCase) -> Any:
    from models import language, lstm, vision

    if case.size:
        return vision.build(case.network, case.size)
    for module in (language, lstm):
        if case.network in module.NAMES:
            return module.build(case.network)
    from models import kinds  # many of them are made of TensorFlow's ops

    return kinds.build(case.network)
