"""Models of the zoo as cases of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Step = Callable[[], float]


@dataclass(frozen=True)
class ModelCase:
    """A model, what it does, and how it is built. Written as "model/mode/config/dtype/style"."""

    model: str
    mode: str
    config: str = "small"
    dtype: str = "float32"
    style: str = "tf2"

    def __str__(self) -> str:
        return "/".join([self.model, self.mode, self.config, self.dtype, self.style])


def sizes_of(case: ModelCase) -> dict[str, Any]:
    """What the model's config holds."""
    from models.zoo import load

    return asdict(load(case.model).configs[case.config])


def shapes_of(case: ModelCase) -> int:
    """How many shapes its batches have: each is compiled, and timed by the profitability check, for itself."""
    from models.zoo import load

    model = load(case.model)
    data = model.data(model.configs[case.config], np.random.default_rng(0))
    batches = data.train if case.mode == "train" else data.infer
    return len({tuple((name, value.shape) for name, value in sorted(batch.items())) for batch in batches})


def step_of(case: ModelCase, jit_compile: bool | None) -> Step:
    """One step; it gives the loss, or the size of what was inferred. Steps go through the batches."""
    from models.program import Options
    from models.zoo import load

    program = load(case.model).build(Options(case.config, case.dtype, case.style, jit_compile))
    steps = iter(range(1 << 30))

    def train() -> float:
        return program.train(next(steps))

    def infer() -> float:
        return root_mean_square(program.infer(next(steps)))

    return train if case.mode == "train" else infer


def root_mean_square(outputs: Mapping[str, np.ndarray]) -> float:
    """Of the first output that is not of integers, if there is one: where two words are equally good, rounding decides
    which of their numbers is given."""
    first = next((value for value in outputs.values() if value.dtype.kind not in "biu"), next(iter(outputs.values())))
    return float(np.sqrt(np.mean(np.square(first, dtype=np.float64))))
