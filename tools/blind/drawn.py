"""A network by its seed: the text of a plain Keras 3 file, and the network that such a file holds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.blind import hub, images, series, tables, texts
from tools.blind.draft import Draft

if TYPE_CHECKING:
    from models.network import Network

FAMILIES: Mapping[Callable[[Draft], None], float] = {
    images.application: 4, images.classifier: 4, images.dense_prediction: 2, images.volumes: 1,
    texts.language_model: 3, texts.text_classifier: 2, texts.translator: 1.5, texts.patches: 2,
    hub.backbone: 4,
    series.recurrent: 2, series.convolutional: 1.5, series.speech: 1.5,
    tables.table: 2.5, tables.towers: 1, tables.beside_images: 1}
"""How often each is drawn."""

POLICIES = {"float32": 5, "mixed_bfloat16": 4, "mixed_float16": 1}
OPTIMIZERS = ("SGD(0.01, momentum=0.9)", "SGD(0.01, momentum=0.9, nesterov=True)", "Adam(1e-4)", "Adam(1e-4)",
              "AdamW(1e-4)", "AdamW(1e-4, clipnorm=1.0)", "AdamW(1e-4, global_clipnorm=1.0)", "RMSprop(1e-4)",
              "Lion(1e-5)", "Adafactor(1e-4)", "Nadam(1e-4)")  # fmt: skip
TRAINED = 0.7
"""Share of networks that are trained; the others infer."""
BATCHES = {images.application: (1, 8, 16, 32), images.classifier: (1, 8, 32, 128),
           images.dense_prediction: (1, 4, 16), images.volumes: (1, 4, 16), texts.language_model: (1, 4, 8),
           texts.text_classifier: (1, 16, 64), texts.translator: (8, 32), texts.patches: (1, 16, 64),
           hub.backbone: (1, 4, 8),
           series.recurrent: (1, 16, 64), series.convolutional: (1, 16, 64), series.speech: (4, 16),
           tables.table: (64, 1024, 8192), tables.towers: (256, 4096), tables.beside_images: (16, 64)}
TINY = 2
"""The batch of tiny networks."""


@dataclass(frozen=True)
class Drawn:
    """
    Attributes:
        mode: train, infer.
        policy: of element types, as Keras names it.
        random_steps: steps draw random numbers, which each backend has its own of.
        source: the file; its `network()` is a Network, whose weights are what the backend's initializers make them.
    """

    title: str
    mode: str
    batch: int
    policy: str
    random_steps: bool
    source: str

    def __str__(self) -> str:
        types = {"float32": "f32", "mixed_bfloat16": "bf16", "mixed_float16": "f16"}[self.policy]
        return f"{self.title}, {self.mode} {types}, {self.batch}"


def drawn(seed: int, tiny: bool = False) -> Drawn:
    """Always the same network of a seed, as long as this folder stays as it is.

    Args:
        tiny: as small as it gets, for a test.
    """
    source = random.Random(seed)
    draft = Draft(source, tiny)
    family = source.choices([*FAMILIES], [*FAMILIES.values()])[0]
    mode = "train" if source.random() < TRAINED else "infer"
    policy = source.choices([*POLICIES], [*POLICIES.values()])[0]
    optimizer, batch = source.choice(OPTIMIZERS), source.choice(BATCHES[family])
    family(draft)
    batch = TINY if tiny else batch
    found = Drawn(draft.title, mode, batch, policy, draft.random_steps and mode == "train", "")
    return Drawn(found.title, mode, batch, policy, found.random_steps, _file(seed, str(found), optimizer, draft))


def network(source: str) -> Network:
    """What a drawn file holds, with weights that are the same on every backend."""
    names: dict[str, Any] = {}
    exec(compile(source, "drawn_network.py", "exec"), names)
    made: Network = names["network"]()
    _give_weights(made.model)
    return made


def _give_weights(model: Any) -> None:
    """Backends draw other numbers of the same seed: matrices are drawn here, by Glorot's rule; vectors stay."""
    import numpy as np

    random = np.random.default_rng(0)
    for weight in model.trainable_variables:
        shape = tuple(weight.shape)
        if len(shape) < 2:
            continue
        cells = int(np.prod(shape[:-2]))
        deviation = (2 / (cells * (shape[-2] + shape[-1]))) ** 0.5
        weight.assign(random.standard_normal(shape, np.float32) * np.float32(deviation))


def _file(seed: int, title: str, optimizer: str, draft: Draft) -> str:
    body = "\n    ".join(draft.lines)
    inputs = draft.inputs[0] if len(draft.inputs) == 1 else f"[{', '.join(draft.inputs)}]"
    given = ", ".join(draft.given)
    return f'''"""Drawn network {seed}: {title}."""

import keras
from keras import layers

from models.network import Network, prepared
from tools.blind import blocks, sequence_blocks


def model():
    {body}
    return keras.Model({inputs}, x)


def loss(wanted, answer):
    return {draft.loss}


def draw(random, size):
    return ({draft.wanted}, {given})


def network():
    made = model()
    optimizer = prepared(keras.optimizers.{optimizer}, made.trainable_variables)
    return Network(made, optimizer, loss, draw)
'''
