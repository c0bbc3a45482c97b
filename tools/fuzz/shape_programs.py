"""Programs of ops that change shapes, with no size known, which return shapes and what is broadcast to them. Each is
called with several sizes, a small one first."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tools.fuzz.programs import Program, Step

_RANK = 4
_OPS: Sequence[Callable[[random.Random, str], str]] = (
    lambda r, x: f"tf.space_to_batch({x}, [2, 2], p0)",
    lambda r, x: f"tf.space_to_batch({x}, [2, 1], [[1, 1 - tf.shape({x})[1] % 2 + tf.shape({x})[1] % 2 * 2], [0, 2]])",
    lambda r, x: f"tf.batch_to_space(tf.concat([{x}] * 4, 0), [2, 2], p0)",
    lambda r, x: f"tf.nn.avg_pool2d({x}, {r.choice((1, 2, 3))}, {r.choice((1, 2))}, 'SAME')",
    lambda r, x: f"tf.nn.atrous_conv2d({x}, tf.ones([{r.choice((1, 3))}, 3, tf.shape({x})[3], 2]) * 0.1, 2, 'SAME')",
    lambda r, x: f"tf.nn.depthwise_conv2d({x}, tf.ones([3, 3, tf.shape({x})[3], 1]) * 0.1, [1] * 4, 'SAME', "
                 f"dilations=[2, {r.choice((1, 2))}])",
    lambda r, x: f"tf.pad({x}, tf.concat([p0, p0], 0))",
    lambda r, x: f"tf.transpose({x}, {r.sample(range(_RANK), _RANK)})",
    lambda r, x: f"tf.concat([{x}, {x}], {r.randrange(_RANK)})",
    lambda r, x: f"{x}[:, {r.choice(('1:', ':-1', '::2'))}]",
    lambda r, x: f"tf.tile({x}, [1, {r.choice((1, 2))}, 2, 1])",
    lambda r, x: f"tf.reverse({x}, [{r.randrange(_RANK)}])",
    lambda r, x: f"tf.reduce_sum({x}, {r.randrange(_RANK)}, keepdims=True)",
    lambda r, x: f"tf.boolean_mask({x}, tf.range(tf.shape({x})[0]) % 2 < 1)",
    lambda r, x: f"tf.reshape({x}, tf.gather(tf.shape({x}), {r.sample(range(_RANK), _RANK)}))",
    lambda r, x: f"tf.image.resize({x}, tf.shape({x})[1:3] + {r.choice((0, 1))}, 'nearest')",
    lambda r, x: f"tf.sort({x}, {r.choice((1, 2, 3))})",
    lambda r, x: f"tf.roll({x}, 1, {r.randrange(_RANK)})",
)


def shape_program(seed: int) -> Program:
    """The program of a seed. Every second op is elementwise, so that there are regions."""
    rng = random.Random(f"shapes {seed}")
    steps, values = list[Step](), ["x0", "x1"]

    def step(text: str, rounds: bool = True) -> str:
        name = f"a{len(steps)}"
        steps.append(Step((name,), text, rounds))
        return name

    for _ in range(rng.randint(2, 5)):
        x = step(rng.choice(_OPS)(rng, rng.choice(values[-3:])))
        values.append(step(rng.choice((f"tf.tanh({x} * 0.5)", f"{x} * 2.0 + 0.25", f"tf.nn.relu({x})"))))
    outputs = []
    for x in rng.sample(values[2:], min(len(values) - 2, 3)):
        outputs += [step(f"tf.shape({x}) + 0", False),
                    step(f"tf.broadcast_to(tf.reduce_mean({x}), tf.shape({x})) + 1.0"),
                    step(f"tf.reduce_sum({x}, [1, 2]) / tf.cast(tf.shape({x})[1] * tf.shape({x})[2] + 1, tf.float32)")]
    sources = ("x0",) if rng.random() < 0.4 else ()
    inputs = {"x0": "tf.TensorSpec([None] * 4)", "x1": "tf.TensorSpec([None] * 4)",
              "p0": "tf.TensorSpec([2, 2], tf.int32)"}
    sizes = [1, rng.choice((0, 1, 2)), *rng.choices((2, 3, 4, 6, 8), k=2)]
    calls = tuple((_floats(rng, n), _floats(rng, rng.choice((1, n))), _paddings(rng)) for n in sizes)
    return Program(inputs, calls, {}, tuple(steps), tuple(outputs), sources)


def _floats(rng: random.Random, most: int) -> str:
    shape = [rng.choice((1, 2)), *(rng.randint(min(most, 1), most) for _ in range(2)), rng.choice((1, 2))]
    return f"tf.constant(np.random.default_rng({rng.randrange(999)}).random({shape}), tf.float32)"


def _paddings(rng: random.Random) -> str:
    return f"tf.constant({[[rng.randrange(2) for _ in range(2)] for _ in range(2)]})"
