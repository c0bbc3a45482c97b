"""Networks whose losses in half types `tools.half_losses` compares: what they are, and how they are trained."""

from __future__ import annotations

from typing import NamedTuple

from models.language import Config


class LossCase(NamedTuple):
    """A network of models/language.py or models/vision.py, small enough for a CPU.

    Attributes:
        policy: of element types, as Keras names it.
        config: of a language model, or of ViT.
        size: height and width of the images of a network of models/vision.py, else 0.
    """

    network: str
    policy: str
    config: Config | None = None
    size: int = 0
    batch: int = 8


CASES = {
    "gpt2_bf16": LossCase("GPT2", "mixed_bfloat16", Config(4, 64, 4, 32, 256)),
    "bert_f16": LossCase("BERT", "mixed_float16", Config(4, 64, 4, 32, 256)),
    "vit_bf16": LossCase("ViT", "mixed_bfloat16", Config(4, 64, 4, 64, 10)),
    "unet_bf16": LossCase("UNet", "mixed_bfloat16", size=16),
}
