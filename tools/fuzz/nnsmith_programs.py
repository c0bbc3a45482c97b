"""Models of NNSmith (Liu et al., ASPLOS 2023) as programs. Needs the extra `fuzz`."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import tensorflow as tf
from nnsmith.abstract.extension import activate_ext
from nnsmith.error import ConstraintError
from nnsmith.graph_gen import model_gen
from nnsmith.materialize import Model

from tools.fuzz.programs import Program
from tools.fuzz.traced_programs import UntranslatableError, traced_program

_ATTEMPTS = 20
_SECONDS = 10
_MOST_ELEMENTS = 4096


def nnsmith_program(seed: int) -> Program:
    """The model that NNSmith draws for a seed.

    Raises:
        UntranslatableError: none of twenty could be said as a program.
    """
    kind = Model.init("tensorflow", backend_target="cpu")
    operators = sorted(kind.operators(), key=lambda op: op.__name__)
    activate_ext(opset=operators)
    for attempt in range(_ATTEMPTS):
        number = seed * _ATTEMPTS + attempt
        random.seed(number)
        np.random.seed(number)
        tf.random.set_seed(number)
        try:
            drawn = model_gen(operators, "symbolic-cinit", random.Random(number).randint(3, 12), number,
                              _SECONDS * 1000, max_elem_per_tensor=_MOST_ELEMENTS)  # fmt: skip
            net = kind.from_gir(drawn.make_concrete()).net
            return traced_program(_forward(net), _specs(net))
        except (UntranslatableError, ConstraintError, AssertionError, ValueError, TypeError, tf.errors.OpError):
            continue  # what NNSmith draws is not always legal
    raise UntranslatableError(f"no model for seed {seed}")


def _specs(net: Any) -> list[tf.TensorSpec]:
    variables = [net.ir.vars[name] for name in net.ir.input_var()]
    return [tf.TensorSpec(v.shape, v.dtype.tensorflow()) for v in variables]


def _forward(net: Any) -> Any:
    def forward(*values: Any) -> list[Any]:
        known = dict(zip(net.ir.input_var(), values, strict=True))
        for step in net.instructions:
            made = step.fwd_fn(*(known[key] for key in step.inp_keys))
            known.update(zip(step.out_keys, made if isinstance(made, list) else [made], strict=True))
        return [known[key] for key in net.ir.leaf_var()]

    return forward
