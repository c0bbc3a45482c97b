"""Networks of kinds that are no plain transformers, convolutional networks or recommenders, as users of Keras write
them: each has something between its matmuls or convolutions that the others have not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from models.kinds import (
    adversarial,
    control,
    diffusion,
    fields,
    generative,
    images,
    mixing,
    recurrences,
    representations,
    sequences,
    tables,
    translation,
    volumes,
)
from models.kinds.adversarial import Adversarial
from models.kinds.objective import Objective
from models.network import Network

Trained: TypeAlias = Network | Adversarial | Objective
_MAKE: Mapping[str, Callable[[bool], Trained]] = {
    "Swin": images.swin, "DeepLab": images.deeplab, "DiT": images.dit, "SpectralGAN": adversarial.spectral_gan,
    "Conformer": sequences.conformer, "WaveNet": sequences.wavenet, "LoRA": sequences.lora,
    "TabNet": tables.tabnet, "GraphNet": tables.graph_net,
    "StateSpace": recurrences.state_space, "Diffusion": diffusion.ddpm, "VAE": generative.vae,
    "VQVAE": generative.vqvae, "CycleGAN": translation.cyclegan, "WGANGP": generative.wgangp,
    "RealNVP": generative.realnvp, "PixelCNN": generative.pixelcnn, "UNet3D": volumes.unet3d,
    "ConvLSTM": volumes.convlstm, "PointNet": volumes.pointnet, "EDSR": translation.edsr,
    "Capsules": representations.capsules, "NeRF": fields.nerf, "PINN": fields.pinn, "SIREN": fields.siren,
    "PPO": control.ppo, "DQN": control.dqn, "MAML": control.maml, "BYOL": representations.byol, "GCN": tables.gcn,
    "Performer": mixing.performer, "RWKV": recurrences.rwkv, "Perceiver": mixing.perceiver, "TCN": sequences.tcn,
    "TextCNN": sequences.textcnn, "Mixer": mixing.mixer, "FNet": mixing.fnet,
    "MaskedLanguage": representations.masked_language, "Style": translation.style}
NAMES = tuple(_MAKE)


def build(name: str, small: bool = False) -> Trained:
    """A network with new weights, in sizes for a GPU or for a test.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in _MAKE:
        raise ValueError(f"no network {name!r}; there are {', '.join(NAMES)}")
    return _MAKE[name](small)
