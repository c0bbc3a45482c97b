"""Random programs. Each step is run eagerly as it is drawn, so that shapes fit and values are known; the traced program
then has to find the same."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tools.fuzz.arguments import Arguments
from tools.fuzz.ops import OPS, Op
from tools.fuzz.programs import Block, Program, Step

LENGTHS = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64)
MOST_ELEMENTS = 6000
_MOST_RESULTS = 6
_INPUT_DTYPES = ("float32",) * 6 + ("float16", "bfloat16", "float64", "int32", "int32", "int64", "bool")
_ODD = "[0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 1e30, 1e-30, inf, nan]"
_DIFFER_FOR_NAN = ("softmax", "top_k", "sort", "math.erf(", "nn.gelu")
"""What docs/limits.md says gives other results than TensorFlow where there is a NaN or an infinity."""
_WEIGHTS = [op.weight for op in OPS]
_BRACES = re.compile(r"\{([a-z]\w*)\}")
_FLOATS = {tf.float32, tf.float16, tf.bfloat16, tf.float64}
_INTEGERS = {tf.int32, tf.int64, tf.int8, tf.uint8}
_LETTERS: dict[str, Callable[[Any], bool]] = {
    "f": lambda x: x.dtype in _FLOATS, "i": lambda x: x.dtype in _INTEGERS, "b": lambda x: x.dtype == tf.bool,
    "n": lambda x: x.dtype in _FLOATS | _INTEGERS, "a": lambda x: x.dtype in _FLOATS | _INTEGERS | {tf.bool},
    "s": lambda x: x.dtype == tf.string, "v": lambda x: isinstance(x, tf.Variable),
}  # fmt: skip


@dataclass(frozen=True)
class Traits:
    """What sort of program is drawn; every program has its own."""

    steps: int
    calls: int
    depth: int
    unknown_sizes: bool
    unknown_ranks: bool
    gradient: bool
    variables: int
    raises: bool
    odd_values: bool


class Generator:
    """Draws one program."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)
        chance = self._rng.random
        self._traits = Traits(self._rng.randint(3, 24), 3, 2 if chance() < 0.5 else 0, chance() < 0.4, chance() < 0.1,
                              chance() < 0.4, self._rng.choice((0, 0, 1, 2, 3)), chance() < 0.08, chance() < 0.1)
        self._values: dict[str, Any] = {}
        self._count = 0
        self._raised = False

    def program(self) -> Program:
        """The program; its first call has been run eagerly, step by step."""
        inputs, calls = self._inputs()
        constants = self._variables(list(inputs))
        steps = self._steps(self._traits.steps, self._traits.depth)
        made = [name for step in steps for name in step.names]
        used = {name for step in steps for name in step.uses()}
        outputs = [name for name in made if name not in used or self._rng.random() < 0.1]
        floats = [name for name in (*inputs, *constants) if self._values[name].dtype in _FLOATS]
        sources = floats if self._traits.gradient else []
        return Program(inputs, tuple(zip(*calls, strict=True)), constants, tuple(steps), tuple(outputs), tuple(sources),
                       {"raises": str(self._raised)})

    # What it begins with.
    def _inputs(self) -> tuple[dict[str, str], list[list[str]]]:
        """Specs, and for each parameter what it is in each call. Sizes that are unknown change together."""
        base = [self._rng.choice(LENGTHS) for _ in range(3)]
        other = {size: self._rng.choice(LENGTHS) for size in base}
        specs, texts = {}, []
        for _ in range(self._rng.randint(1, 4)):
            shape = self._shape(base)
            dtype = self._rng.choice(_INPUT_DTYPES)
            name = self._name("x")
            known = [None if self._traits.unknown_sizes and self._rng.random() < 0.6 else size for size in shape]
            spec = None if self._traits.unknown_ranks and self._rng.random() < 0.5 else known
            specs[name] = f"tf.TensorSpec({spec}, tf.{dtype})"
            later = shape if spec else [other.get(size, size) for size in shape]
            if spec:
                later = [size if k is not None else other.get(size, size) for size, k in zip(shape, known, strict=True)]
            texts.append([self._data(shape, dtype), self._data(shape, dtype), self._data(later, dtype)])
            self._values[name] = _evaluate(texts[-1][0], {})
        return specs, texts

    def _shape(self, base: Sequence[int]) -> list[int]:
        """Mostly of the same few sizes, so that values fit each other."""
        shape: list[int] = []
        for _ in range(self._rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))):
            size = self._rng.choice(base) if self._rng.random() < 0.85 else self._rng.choice(LENGTHS)
            shape.append(size if np.prod(shape) * size <= MOST_ELEMENTS else 1)
        if self._rng.random() < 0.02 and shape:
            shape[self._rng.randrange(len(shape))] = 0
        return shape

    def _data(self, shape: Sequence[int], dtype: str) -> str:
        seed, size = self._rng.randrange(1000), tuple(shape)
        if dtype in ("int32", "int64", "bool"):
            low, high = (0, 2) if dtype == "bool" else (-4, 9)
            text = f"np.random.RandomState({seed}).randint({low}, {high}, {size})"
        elif self._traits.odd_values:
            text = f"np.random.RandomState({seed}).choice({_ODD}, {size})"
        else:
            text = f"np.random.RandomState({seed}).standard_normal({size})"
        return f"tf.cast({text}, tf.{dtype})"

    def _variables(self, inputs: Sequence[str]) -> dict[str, str]:
        constants = {}
        shape = self._shape([4, 8])
        for _ in range(self._traits.variables):
            if self._rng.random() < 0.3:
                shape = self._shape([4, 8])
            name = self._name("v")
            text = f"tf.Variable(tf.abs({self._data(shape, 'float32')}))"
            constants[name] = text
            self._values[name] = _evaluate(text, {})
        return constants

    # Steps.
    def _steps(self, count: int, depth: int) -> list[Step]:
        steps: list[Step] = []
        for _ in range(count * 12):
            if len(steps) >= count:
                break
            step = self._nested(depth) if depth and self._rng.random() < 0.12 else self._call()
            if step is not None:
                steps.append(step)
        return steps

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def _operand(self, letter: str, chosen: Sequence[str]) -> str:
        """A name that fits; raises IndexError if there is none."""
        if letter.isdigit():
            first = self._values[chosen[int(letter)]]
            if isinstance(first, tf.Variable) and self._rng.random() < 0.5:
                fitting = [n for n, x in self._values.items() if isinstance(x, tf.Variable) and x.shape == first.shape]
                return self._rng.choice(fitting)
            fitting = [n for n, x in self._values.items() if x.dtype == first.dtype]
            alike = [n for n in fitting if self._values[n].shape == first.shape]
            if self._rng.random() < 0.7:
                fitting = alike
        else:
            fitting = [n for n, x in self._values.items() if _LETTERS[letter](x)]
        return self._rng.choice(fitting[-3:] if self._rng.random() < 0.7 else fitting)

    def _op(self) -> Op:
        return self._rng.choices(OPS, _WEIGHTS)[0]

    def _call(self) -> Step | None:
        op = self._op()
        if self._traits.odd_values and any(word in op.text for word in _DIFFER_FOR_NAN):
            return None
        names: list[str] = []
        try:
            for letter in op.operands:
                names.append(self._operand(letter, names))
            arguments = Arguments(self._rng, names, [self._values[n] for n in names])
            text = _BRACES.sub(lambda match: arguments[match[1]], op.text)
        except (IndexError, ValueError):
            return None
        for i, name in enumerate(names):
            text = text.replace(f"{{{i}}}", name)
        return self._try(text, op.rounds, ())

    def _try(self, text: str, rounds: bool, blocks: tuple[Block, ...]) -> Step | None:
        """The step if TensorFlow takes it and its values are worth having."""
        try:
            value = run_step(Step(("r",), text, rounds, blocks), self._values)["r"]
        except tf.errors.OpError:
            if self._traits.raises and not self._raised and self._rng.random() < 0.3:
                self._raised = True
                return Step((), text, rounds, blocks)
            return None
        except (ValueError, TypeError, IndexError, AttributeError, KeyError, ZeroDivisionError, SyntaxError):
            return None
        if value is None or isinstance(value, tf.Operation):
            return Step((), text, rounds, blocks)
        if isinstance(value, tf.Variable) or "raw_ops" in text:
            return Step((), text, rounds, blocks)
        parts = list(value) if isinstance(value, list | tuple) else [value]
        if not 0 < len(parts) <= _MOST_RESULTS or not all(isinstance(p, tf.Tensor) and self._worth(p) for p in parts):
            return None
        if isinstance(value, list | tuple) and len(parts) == 1:
            text = f"({text})[0]"
        names = [self._name("a") for _ in parts]
        self._values.update(zip(names, parts, strict=True))
        return Step(tuple(names), text, rounds, blocks)

    def _worth(self, value: Any) -> bool:
        if value.dtype == tf.string:
            return True
        if value.dtype not in _FLOATS | _INTEGERS | {tf.bool} or value.shape.num_elements() > MOST_ELEMENTS:
            return False
        if value.shape.num_elements() == 0:
            return self._rng.random() < 0.3
        if self._traits.odd_values or value.dtype == tf.bool:
            return True
        return bool(np.all(np.abs(value.numpy().astype(np.float64)) < 1e6)) or self._rng.random() < 0.02

    # Control flow.
    def _nested(self, depth: int) -> Step | None:
        kind = self._rng.choice((self._cond, self._while, self._while, self._scan, self._map, self._function,
                                 self._lists))  # fmt: skip
        values, count = dict(self._values), self._count
        try:
            made = kind(depth - 1)
        except IndexError:
            made = None
        self._values = values
        if made is None:
            self._count = count
            return None
        return self._try(made[0], True, made[1])

    def _body(self, params: Sequence[str], values: Sequence[Any], depth: int) -> list[Step]:
        self._values.update(zip(params, values, strict=True))
        return self._steps(self._rng.randint(1, 5), depth)

    def _like(self, name: str, steps: list[Step]) -> str:
        """Of what the steps made the last that could stand for `name`; else a new one, which depends on the last."""
        wanted = self._values[name]
        made = [n for step in steps for n in step.names if self._values[n].dtype == wanted.dtype
                and self._values[n].shape == wanted.shape]  # fmt: skip
        other = [n for step in steps for n in step.names if self._values[n].dtype != tf.string]
        if not made and other:
            mean, result = self._name("a"), self._name("a")  # two steps: a float32 rounds in a float64, too
            steps.append(Step((mean,), f"tf.tanh(tf.reduce_mean(tf.cast({other[-1]}, tf.float32)))", True))
            steps.append(Step((result,), f"{name} + tf.cast({mean}, {name}.dtype)", True))
            self._values |= {mean: tf.constant(0.0), result: wanted}
            made = [result]
        return made[-1] if made else name

    def _carried(self) -> list[str]:
        kinds = _FLOATS | {tf.int32}
        names = [n for n, x in self._values.items() if x.dtype in kinds and not isinstance(x, tf.Variable)]
        return self._rng.sample(names[-6:], min(len(names[-6:]), self._rng.randint(1, 3)))

    def _rows(self) -> str:
        """A float tensor of at least one row; raises IndexError if there is none."""
        shapes = {n: x.shape for n, x in self._values.items() if x.dtype in _FLOATS}
        return self._rng.choice([n for n, shape in shapes.items() if shape.rank and shape[0]])

    def _cond(self, depth: int) -> tuple[str, tuple[Block, ...]] | None:
        outside = dict(self._values)
        predicate = self._rng.choice([n for n, x in outside.items() if x.dtype in _FLOATS])
        results = self._carried()
        blocks = []
        for _ in range(2):
            self._values = dict(outside)
            steps = self._body([], [], depth)
            kept = tuple(self._like(name, steps) for name in results)
            blocks.append(Block((), tuple(steps), kept))
        return f"tf.cond(tf.reduce_sum({predicate}) > {self._rng.choice((0, 1, -1))}.0, block0, block1)", tuple(blocks)

    def _while(self, depth: int) -> tuple[str, tuple[Block, ...]] | None:
        carried = self._carried()
        params = [self._name("p") for _ in carried]
        counter = self._name("p")
        steps = self._body([counter, *params], [tf.constant(0), *(self._values[n] for n in carried)], depth)
        results = [self._like(p, steps) for p in params]
        trips = self._rng.choice(("0", "1", "2", "3", "5", f"tf.size({carried[0]}) % 4", f"tf.rank({carried[0]})"))
        text = (f"tf.while_loop(lambda i, *_: i < {trips}, block0, [tf.constant(0), {', '.join(carried)}], "
                f"parallel_iterations={self._rng.choice((1, 10))})[1:]")
        return text, (Block((counter, *params), tuple(steps), (f"{counter} + 1", *results)),)

    def _scan(self, depth: int) -> tuple[str, tuple[Block, ...]] | None:
        rows = self._rows()
        state, row = self._name("p"), self._name("p")
        start = self._rng.choice(self._carried())
        steps = self._body([state, row], [self._values[start], self._values[rows][0]], depth)
        result = self._like(state, steps)
        block = Block((state, row), tuple(steps), (result,))
        return f"tf.scan(lambda s, r: block0(s, r)[0], {rows}, {start}, reverse={self._rng.random() < 0.3})", (block,)

    def _map(self, depth: int) -> tuple[str, tuple[Block, ...]] | None:
        rows = self._rows()
        row = self._name("p")
        steps = self._body([row], [self._values[rows][0]], depth)
        call = self._rng.choice(("tf.map_fn", "tf.map_fn", "tf.vectorized_map"))
        result = self._like(row, steps)
        block = Block((row,), tuple(steps), (result,))
        return f"{call}(lambda r: block0(r)[0], {rows})", (block,)

    def _function(self, depth: int) -> tuple[str, tuple[Block, ...]] | None:
        given = self._carried()
        params = [self._name("p") for _ in given]
        steps = self._body(params, [self._values[n] for n in given], depth)
        made = [n for step in steps for n in step.names]
        block = Block(tuple(params), tuple(steps), tuple(self._rng.sample(made, min(1, len(made))) or params))
        wrap = self._rng.choice(("tf.function(block0, autograph=False)", "tf.recompute_grad(block0)"))
        return f"{wrap}({', '.join(given)})", (block,)

    def _lists(self, depth: int) -> tuple[str, tuple[Block, ...]] | None:
        """Fills a TensorArray in a loop and stacks it."""
        given = self._carried()[0]
        counter, param = self._name("p"), self._name("p")
        steps = self._body([counter, param], [tf.constant(0), self._values[given]], depth)
        result = self._like(param, steps)
        block = Block((counter, param), tuple(steps), (result,))
        trips = self._rng.choice((1, 2, 4))
        text = (f"tf.while_loop(lambda i, *_: i < {trips}, lambda i, t: [i + 1, t.write(i, block0(i, {given})[0])], "
                f"[tf.constant(0), tf.TensorArray({given}.dtype, {trips})])[1].stack()")
        return text, (block,)


def run_step(step: Step, values: dict[str, Any]) -> dict[str, Any]:
    """Runs it eagerly; gives its results."""
    lines = Program({}, (), {}, (step,), ()).source().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("def program")) + 1
    end = next(i for i, line in enumerate(lines) if line.startswith("    return []"))
    source = "\n".join(line[4:] for line in lines[begin:end])
    scope = {"tf": tf, "np": np, "inf": np.inf, "nan": np.nan, **values}
    exec(source, scope)
    return {name: scope[name] for name in step.names}


def _evaluate(text: str, values: dict[str, Any]) -> Any:
    return eval(text, {"tf": tf, "np": np, "inf": np.inf, "nan": np.nan, **values})
