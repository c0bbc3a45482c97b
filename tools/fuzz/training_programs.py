"""Random training steps, and how they are called while their kernels are built."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from tools.fuzz.calling import Action
from tools.fuzz.generator import Generator
from tools.fuzz.ops import OPS, Op
from tools.fuzz.programs import Program, Step

_UPDATES = [op for op in OPS if op.operands[0] == "v" and any(
    word in op.text for word in (".assign", ".scatter_nd", "ResourceApply"))]  # fmt: skip
_COUNTERS = {"tf.Variable(0, dtype=tf.int64)": "1", "tf.Variable(tf.zeros([3]))": "[1.0, 1.0, 1.0]"}
"""Variables that count calls -> what a call adds."""


class TrainingGenerator(Generator):
    """Draws one program that writes variables, also in branches and loops; it raises, before it counts the call, if its
    last argument is False."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        steps, variables = self._rng.randint(2, 12), self._rng.randint(1, 3)
        self._traits = replace(self._traits, steps=steps, variables=variables, raises=False)

    def program(self) -> Program:
        """The program, with a schedule."""
        program = super().program()
        right, constants, steps = self._name("x"), dict(program.constants), list(program.steps)
        guard = f"with tf.control_dependencies([tf.debugging.Assert({right}, ['no'])]): "
        counters = []
        for text, one in _COUNTERS.items():
            counters.append(self._name("v"))
            constants[counters[-1]] = text
            steps.insert(self._rng.randint(0, len(steps)), Step((), f"{guard}{counters[-1]}.assign_add({one})"))
        calls = [(*call, "tf.constant(True)") for call in program.calls]
        calls.append((*program.calls[0], "tf.constant(False)"))
        return replace(program, inputs={**program.inputs, right: "tf.TensorSpec([], tf.bool)"}, calls=tuple(calls),
                       constants=constants, steps=tuple(steps), descends=bool(program.sources),
                       counters=tuple(counters), schedule=tuple(_schedule(self._rng)))  # fmt: skip

    def _op(self) -> Op:
        return self._rng.choice(_UPDATES) if self._rng.random() < 0.15 else super()._op()


def _schedule(rng: random.Random) -> Iterator[Action]:
    """First calls, some of all that may happen while kernels are built, and calls behind it."""
    yield "wrap", rng.choice(("as it is", "as it is", "retraced", "reduced", "outer"))
    if rng.random() < 0.8:
        yield "calls", 0, rng.randint(1, 2), 0
    for _ in range(rng.randint(2, 5)):
        yield rng.choice((_calls, _threads, lambda rng: ("raise",), lambda rng: ("drop",)))(rng)
    yield ("wait",)
    yield from rng.sample((_calls(rng), _threads(rng), ("raise",)), 3)
    yield "calls", 0, 2, 0


def _calls(rng: random.Random) -> Action:
    return "calls", rng.randrange(3), rng.randint(1, 6), rng.choice((0, 20, 200))


def _threads(rng: random.Random) -> Action:
    return "threads", rng.randint(2, 4), rng.randint(1, 6), rng.choice((0, 20, 200))
