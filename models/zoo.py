"""The names of the models, in the order of the papers' tables."""

from __future__ import annotations

from importlib import import_module

from models.program import Model

ASTITCH = ("crnn", "asr", "bert", "transformer", "dien")
FUSION_STITCHING = ("nmt", "multi-interests", "rokid", "aiwriter", "logistic", "word2vec", "bi-rnn", "dyn-rnn",
                    "perceptron", "var-encoder")  # fmt: skip
NAMES = ASTITCH + FUSION_STITCHING


def load(name: str) -> Model:
    """The model of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in NAMES:
        raise ValueError(f"no model {name!r}; there are {', '.join(NAMES)}")
    model: Model = import_module(f"models.{name.replace('-', '_')}").MODEL
    return model
