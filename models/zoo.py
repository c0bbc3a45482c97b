"""The names of the models, in the order of the papers' tables, and of those that the papers do not have."""

from __future__ import annotations

from importlib import import_module

from models.program import Model

ASTITCH = ("crnn", "asr", "bert", "transformer", "dien")
FUSION_STITCHING = ("nmt", "multi-interests", "rokid", "aiwriter", "logistic", "word2vec", "bi-rnn", "dyn-rnn",
                    "perceptron", "var-encoder")  # fmt: skip
NAMES = ASTITCH + FUSION_STITCHING
RECOMMENDERS = ("dlrm", "dcn", "two-tower", "deepfm", "sasrec")
DECODERS = ("decoding", "llama-decoding", "beam-decoding", "lstm-language")


def load(name: str) -> Model:
    """The model of that name.

    Raises:
        ValueError: there is none.
    """
    model: Model = import_module(module_of(name)).MODEL
    return model


def module_of(name: str) -> str:
    """The module that defines a model, which is its script, too.

    Raises:
        ValueError: there is none.
    """
    names = NAMES + RECOMMENDERS + DECODERS
    if name not in names:
        raise ValueError(f"no model {name!r}; there are {', '.join(names)}")
    folder = "models.recommenders" if name in RECOMMENDERS else "models"
    return f"{folder}.{name.replace('-', '_')}"
