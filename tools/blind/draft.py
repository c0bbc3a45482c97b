"""A network that is being drawn: lines of its file, and the numbers that are drawn for them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Draft:
    """
    Attributes:
        tiny: sizes are the least that are allowed.
        lines: of the function that builds the model, whose inputs are in `inputs`, its answer in `x`.
        inputs: variables that hold inputs.
        given: for each of them how a batch of it is drawn, as source, with `random` and `size`.
        wanted: the same for what is wanted, whose loss is in `loss`.
        title: what it is, in few words.
        random_steps: steps draw random numbers (dropout).
    """

    random: random.Random
    tiny: bool = False
    lines: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    wanted: str = ""
    loss: str = ""
    title: str = ""
    random_steps: bool = False

    def pick(self, options: Sequence[str]) -> str:
        return self.random.choice(options)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def size(self, low: int, high: int, multiple: int = 1, tiny: int | None = None) -> int:
        """A multiple of a number between two sizes, small ones as likely as large ones (`low * 2**u`)."""
        drawn = low * (high / low) ** self.random.random()
        if self.tiny:
            return low if tiny is None else tiny
        return max(round(drawn / multiple) * multiple, multiple)

    def one_of(self, options: Sequence[int]) -> int:
        """One of some sizes in rising order."""
        drawn = self.random.choice(options)
        return options[0] if self.tiny else drawn

    def dropout(self) -> float:
        """A rate; 0 of most networks."""
        rate = self.random.choice((0.0, 0.0, 0.0, 0.1, 0.2))
        self.random_steps |= rate > 0
        return rate

    def line(self, text: str) -> None:
        self.lines.append(text)

    def add(self, call: str) -> None:
        """`x` becomes what a function of blocks makes of it."""
        self.lines.append(f"x = {call}")

    def input(self, name: str, shape: Sequence[int], words: int = 0) -> None:
        """An input of numbers, or of words below a count."""
        shape = tuple(shape)
        kind = ', dtype="int32"' if words else ""
        self.lines.append(f"{name} = keras.Input({shape}{kind})")
        self.inputs.append(name)
        self.given.append(drawn_integers(words, shape) if words else drawn_normal(shape))

    def classes(self, count: int, shape: Sequence[int] = ()) -> None:
        """What is wanted is a class, or one for each place; `x` holds logits."""
        self.wanted = drawn_integers(count, shape)
        self.loss = "keras.losses.sparse_categorical_crossentropy(wanted, answer, from_logits=True)"

    def numbers(self, shape: Sequence[int], loss: str) -> None:
        """What is wanted are numbers."""
        self.wanted = drawn_normal(shape)
        self.loss = f"keras.losses.{loss}(wanted, answer)"


def drawn_normal(shape: Sequence[int]) -> str:
    return f'random.standard_normal((size, *{tuple(shape)})).astype("float32")'


def drawn_integers(below: int, shape: Sequence[int]) -> str:
    return f'random.integers(0, {below}, (size, *{tuple(shape)})).astype("int32")'
