"""A TensorFlow program as data: what the generators draw, the workers run as Python, and the reducer cuts down."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

_NAME = re.compile(r"\b[a-z]\d+\b")


@dataclass(frozen=True)
class Block:
    """The body of a branch, a loop or a called function.

    Attributes:
        params: names of what it is given.
        steps: what it does.
        results: texts of what it returns.
    """

    params: tuple[str, ...]
    steps: tuple[Step, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """`names = text`. Values have names of a letter and a number; `block0`, `block1` in the text are `blocks`.

    Attributes:
        names: of its results; none where it is run for its effect.
        rounds: its value depends on how it is computed, so that two right implementations differ in the last bits.
    """

    names: tuple[str, ...]
    text: str
    rounds: bool = False
    blocks: tuple[Block, ...] = ()

    def uses(self) -> set[str]:
        """Names that it reads, in its blocks too."""
        used = set(_NAME.findall(self.text))
        for block in self.blocks:
            made = {*block.params, *(name for step in block.steps for name in step.names)}
            inside = {name for step in block.steps for name in step.uses()}
            inside |= {name for text in block.results for name in _NAME.findall(text)}
            used |= inside - made
        return used


@dataclass(frozen=True)
class Program:
    """One traced function and what it is called with.

    Attributes:
        inputs: parameter -> text of its tensor spec.
        calls: for each call the text of each argument.
        constants: name -> text of a value made outside of the function: variables, tables.
        steps: the function's body.
        outputs: names that it returns.
        sources: names to which gradients are taken, of all outputs; none for no gradient.
        descends: variables among the sources go down their gradients.
        counters: variables that count calls.
        schedule: how it is called (`calling.Action`); none for each of the calls once.
    """

    inputs: Mapping[str, str]
    calls: tuple[tuple[str, ...], ...]
    constants: Mapping[str, str]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    sources: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    descends: bool = False
    counters: tuple[str, ...] = ()
    schedule: tuple[tuple[Any, ...], ...] = ()

    def wide(self) -> str | None:
        """As `source`, with float32 for half types; None if it has none."""
        source = self.source()
        wide = re.sub(r"\btf\.b?float16\b", "tf.float32", source)
        return None if wide == source else wide

    def source(self, noisy: bool = False) -> str:
        """Python that defines `program`, `CALLS` and `STATE`; needs `np` and `tf`.

        Args:
            noisy: what rounds goes through `noise`, which has to be defined; for finding out whether it matters.
        """
        lines = [f"{name} = {text}" for name, text in self.constants.items()]
        lines += ["", f"@tf.function(autograph=False, input_signature=[{', '.join(self.inputs.values())}])",
                  f"def program({', '.join(self.inputs)}):"]  # fmt: skip
        body, indent = list[str](), "    "
        if self.sources:
            body += ["with tf.GradientTape() as tape:", f"    tape.watch([{', '.join(self.sources)}])"]
        body += [(indent if self.sources else "") + line for step in self.steps for line in _lines(step, noisy)]
        results = list(self.outputs)
        if self.sources:
            body += [f"    loss = total([{', '.join(self.outputs)}])",
                     f"gradients = tape.gradient(loss, [{', '.join(self.sources)}])"]  # fmt: skip
            results.append("gradients")
            if self.descends:
                body.append(f"descend([{', '.join(self.sources)}], gradients)")
        body.append(f"return [{', '.join(results)}]")
        lines += [indent + line for line in body]
        lines += ["", "CALLS = [", *(f"    [{', '.join(call)}]," for call in self.calls), "]"]
        lines += [f"STATE = [{', '.join(n for n, text in self.constants.items() if text.startswith('tf.Variable'))}]"]
        if self.schedule:
            lines += [f"COUNTERS = [{', '.join(n for n in self.counters if n in self.constants)}]",
                      f"SCHEDULE = {list(self.schedule)}"]  # fmt: skip
        total = (_NOISY_TOTAL if noisy else _TOTAL) + (_DESCEND if self.descends else "")
        return "\n".join([*(total.splitlines() if self.sources else []), *lines, ""])

    def script(self, why: str) -> str:
        """A program that runs by itself (with a schedule, in the project's folder) and prints its results."""
        begin = (f'"""{why}\n"""\n\nimport numpy as np\nimport tensorflow as tf\nfrom numpy import array, inf, nan\n\n'
                 f"{self.source()}\n")  # fmt: skip
        if self.schedule:
            return begin + _FOLLOW
        return (begin +
                'for arguments in CALLS:\n'
                '    try:\n'
                '        print(*tf.nest.flatten(program(*arguments)), sep="\\n")\n'
                '    except tf.errors.OpError as error:\n'
                '        print(type(error).__name__, str(error)[:300])\n'
                'for variable in STATE:\n'
                '    print(variable.numpy())\n')


_TOTAL = """\
def total(values):
    floats = [tf.reduce_mean(tf.tanh(tf.cast(x, tf.float32))) for x in values if x.dtype.is_floating]
    return tf.add_n(floats) if floats else tf.constant(0.0)

"""
_NOISY_TOTAL = """\
def total(values):
    floats = [noise(tf.cast(x, tf.float32), True) for x in values if x.dtype.is_floating]
    return tf.add_n([tf.reduce_mean(noise(tf.tanh(x), True)) for x in floats]) if floats else tf.constant(0.0)

"""
_DESCEND = """\
def descend(sources, gradients):
    for x, gradient in zip(sources, gradients):
        if isinstance(x, tf.Variable) and gradient is not None:
            x.assign_sub(0.1 * tf.convert_to_tensor(gradient))

"""
_FOLLOW = """\
from tools.fuzz.calling import Calling
from tools.fuzz.verdicts import array as read
from tools.fuzz.worker import kernels

found, _ = Calling(program, CALLS, STATE, COUNTERS, kernels()).follow(SCHEDULE)
for values in found:
    print(values if isinstance(values, dict) else [read(value) for value in values])
"""


def _lines(step: Step, noisy: bool) -> Iterator[str]:
    text = step.text
    for i, block in enumerate(step.blocks):
        name = f"f_{step.names[0] if step.names else 'effect'}_{i}"
        text = re.sub(rf"\bblock{i}\b", name, text)
        yield f"def {name}({', '.join(block.params)}):"
        for inner in block.steps:
            yield from ("    " + line for line in _lines(inner, noisy))
        yield f"    return [{', '.join(block.results)}]"
    if noisy and step.names and not step.blocks:
        text = f"noise({text}, {step.rounds})"
    yield f"{', '.join(step.names)} = {text}" if step.names else text
    if noisy and not step.names:
        yield from (f"{name}.assign(noise({name}, True))" for name in sorted(step.uses()) if name.startswith("v"))


def encode(value: Any) -> Any:
    """A program as JSON."""
    if is_dataclass(value):
        return {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {k: encode(v) for k, v in value.items()}
    return [encode(v) for v in value] if isinstance(value, tuple) else value


def decode(value: Mapping[str, Any]) -> Program:
    """The program of which `encode` made JSON."""
    return Program(value["inputs"], tuple(map(tuple, value["calls"])), value["constants"], _steps(value["steps"]),
                   tuple(value["outputs"]), tuple(value["sources"]), value["facts"], value["descends"],
                   tuple(value["counters"]), tuple(map(tuple, value["schedule"])))


def _steps(values: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    return tuple(Step(tuple(v["names"]), v["text"], v["rounds"], tuple(
        Block(tuple(b["params"]), _steps(b["steps"]), tuple(b["results"])) for b in v["blocks"])) for v in values)
