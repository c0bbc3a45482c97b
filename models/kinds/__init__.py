"""Networks of kinds that are no plain transformers, convolutional networks or recommenders, as users of Keras write
them: each has something between its matmuls or convolutions that the others have not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from models.kinds import adversarial, images, sequences, tables
from models.network import Network

_MAKE: Mapping[str, Callable[[bool], Network | adversarial.Adversarial]] = {
    "Swin": images.swin, "DeepLab": images.deeplab, "DiT": images.dit, "SpectralGAN": adversarial.spectral_gan,
    "Conformer": sequences.conformer, "WaveNet": sequences.wavenet, "LoRA": sequences.lora,
    "TabNet": tables.tabnet, "GraphNet": tables.graph_net}
NAMES = tuple(_MAKE)


def build(name: str, small: bool = False) -> Network | adversarial.Adversarial:
    """A network with new weights, in sizes for a GPU or for a test.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in _MAKE:
        raise ValueError(f"no network {name!r}; there are {', '.join(NAMES)}")
    return _MAKE[name](small)
