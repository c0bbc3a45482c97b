"""What models are made of, over a batch and a length that may change, by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.differential import patterns as p
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.ir.op_kinds import OpKind

B, HEADS, WIDTH, WORDS = p.B, 4, 16, 50


def _x(b: int, n: int, key: str = "x") -> Node:
    return B.input(key, DType.F32, (b, n, WIDTH))


def _vector(key: str) -> Node:
    return B.input(key, DType.F32, (WIDTH,))


def _scores(b: int, n: int, key: str = "s") -> Node:
    return B.input(key, DType.F32, (b, HEADS, n, n))


def _tokens(b: int, n: int) -> Node:
    return B.input("tokens", DType.I32, (b, n))


def row_softmax(b: int, n: int) -> list[Node]:
    """Over as many rows as threads of a block take."""
    return [p.softmax(B.input("s", DType.F32, (b, HEADS, n)))]


def masked_softmax(b: int, n: int) -> list[Node]:
    pad = B.cast(B.op(OpKind.EQUAL, _tokens(b, n), B.constant(0, DType.I32)), DType.F32)
    return [p.softmax(B.add(_scores(b, n), B.mul(B.reshape(pad, (b, 1, 1, n)), B.constant(-1e9, DType.F32))))]


def causal_softmax(b: int, n: int) -> list[Node]:
    later = B.op(OpKind.LESS, B.iota((n, n), 0, DType.I32), B.iota((n, n), 1, DType.I32))
    return [p.softmax(B.select(later, B.constant(-1e9, DType.F32), _scores(b, n)))]


def softmax_backward(b: int, n: int) -> list[Node]:
    y, dy = _scores(b, n), _scores(b, n, "dy")
    return [B.mul(y, B.sub(dy, B.sum(B.mul(y, dy), [-1], True)))]


def layernorm(b: int, n: int) -> list[Node]:
    return [p.layernorm(B.add(_x(b, n), _x(b, n, "y")), _vector("gamma"), _vector("beta"))]


def layernorm_backward(b: int, n: int) -> list[Node]:
    x, dy = (B.reshape(_x(b, n, key), (b * n, WIDTH)) for key in ("x", "dy"))
    mean, rstd = (B.input(key, DType.F32, (b * n, 1)) for key in ("mean", "rstd"))
    return p.layernorm_backward(x, dy, _vector("gamma"), mean, rstd)


def bias_gradient(b: int, n: int) -> list[Node]:
    dy = _x(b, n, "dy")
    grown = B.mul(dy, B.cast(B.op(OpKind.GREATER, _x(b, n), B.constant(0, DType.F32)), DType.F32))
    return [grown, B.sum(grown, [0, 1]), B.sum(dy, [0]), B.sum(dy, [1])]


def split_heads(b: int, n: int) -> list[Node]:
    flat = B.input("x", DType.F32, (b * n, WIDTH))
    heads = B.transpose(B.reshape(flat, (b, n, HEADS, WIDTH // HEADS)), (0, 2, 1, 3))
    joined = B.reshape(B.transpose(B.input("y", DType.F32, (b, HEADS, n, WIDTH // HEADS)), (0, 2, 1, 3)),
                       (b * n, WIDTH))
    return [B.mul(heads, B.constant(0.5, DType.F32)), B.add(joined, flat), B.transpose(_scores(b, n), (0, 1, 3, 2))]


def attention(b: int, n: int) -> list[Node]:
    q, k, v = (B.input(key, DType.F32, (b, HEADS, n, 8)) for key in "qkv")
    return [B.dot(p.softmax(B.mul(B.dot(q, k, False, True), B.constant(0.3, DType.F32))), v)]


def embedding(b: int, n: int) -> list[Node]:
    table, places = B.input("table", DType.F32, (WORDS, WIDTH)), B.input("places", DType.F32, (n, WIDTH))
    return [B.add(B.mul(B.op(OpKind.GATHER, table, _tokens(b, n)), B.constant(4, DType.F32)), places)]


def embedding_gradient(b: int, n: int) -> list[Node]:
    """Rows of a gradient behind those of another, and which rows of a table they are."""
    dy = B.reshape(_x(b, n), (b * n, WIDTH))
    return [B.concat([B.mul(dy, B.constant(4, DType.F32)), B.input("z", DType.F32, (b * n, WIDTH))], 0),
            B.reshape(_tokens(b, n), (b * n,))]


def cross_entropy(b: int, n: int) -> list[Node]:
    """As patterns.cross_entropy; the gradient is divided by a number that changes."""
    logits = B.reshape(B.input("logits", DType.F32, (b, n, WORDS)), (b * n, WORDS))
    hot = p.one_hot(B.reshape(_tokens(b, n), (b * n,)), WORDS, DType.F32)
    loss = B.mean(B.neg(B.sum(B.mul(hot, p.log_softmax(logits)), [1])), [0])
    return [loss, B.div(B.sub(p.softmax(logits), hot), B.extent((b * n,), DType.F32))]


def accuracy(b: int, n: int) -> list[Node]:
    best = B.arg_reduce(OpKind.ARGMAX, B.input("logits", DType.F32, (b, n, WORDS)), -1, DType.I32)
    alive = B.op(OpKind.NOT_EQUAL, _tokens(b, n), B.constant(0, DType.I32))
    right = B.op(OpKind.AND, alive, B.op(OpKind.EQUAL, best, _tokens(b, n)))
    right, alive = B.cast(right, DType.F32), B.cast(alive, DType.F32)
    return [B.div(B.sum(right, [0, 1]), B.maximum(B.sum(alive, [0, 1]), B.constant(1, DType.F32)))]


def dropout(b: int, n: int) -> list[Node]:
    seed = [B.input(key, DType.I64, ()) for key in ("key", "low", "high")]
    word = B.op(OpKind.RANDOM_BITS, B.positions((b, n, WIDTH), DType.I64), *seed)
    kept = B.op(OpKind.GREATER, B.op(OpKind.AND, word, B.constant(255, DType.I32)), B.constant(25, DType.I32))
    return [B.add(B.select(kept, B.div(_x(b, n), B.constant(0.9, DType.F32)), B.constant(0, DType.F32)),
                  _x(b, n, "y")), kept]


def pooled(b: int, n: int) -> list[Node]:
    x = _x(b, n)
    return [B.mean(x, [1]), B.reduce(OpKind.MAX, x, [1]), B.mean(B.square(x), [0, 1, 2]), B.sum(B.exp(x), [0, 2])]


def shifted(b: int, n: int) -> list[Node]:
    """A text with a word before it, and without its last."""
    x = _x(b, n + 1)
    body = B.slice(x, [0, 1, 0], [1, 1, 1], (b, n, WIDTH))
    return [B.pad(B.mul(body, B.constant(2, DType.F32)), B.constant(0, DType.F32), (0, 1, 0), (0, 0, 0)),
            B.concat([B.slice(x, [0, 0, 0], [1, 1, 1], (b, 1, WIDTH)), body], 1)]


def running(b: int, n: int) -> list[Node]:
    return [B.cumsum(B.input("x", DType.F32, (b, n)), False, False), B.cumsum(B.cast(_tokens(b, n), DType.F32), True,
                                                                              True)]


def batchnorm(b: int, n: int) -> list[Node]:
    vectors = [_vector(key) for key in ("gamma", "beta", "m", "v")]
    outputs, mean, variance = p.batchnorm_training(_x(b, n), vectors[0], vectors[1], vectors[2], vectors[3])
    return [*outputs, mean, variance]


def encoder_layer(b: int, n: int) -> list[Node]:
    """Attention, a residual, normalisation, and what training keeps."""
    heads = B.reshape(B.transpose(attention(b, n)[0], (0, 2, 1, 3)), (b * n, HEADS * 8))
    inner = B.reshape(B.dot(heads, B.input("w", DType.F32, (HEADS * 8, WIDTH))), (b, n, WIDTH))
    normal = p.layernorm(B.add(B.add(inner, _vector("bias")), _x(b, n)), _vector("gamma"), _vector("beta"))
    return [normal, B.dot(B.reshape(p.gelu_tanh(normal), (b * n, WIDTH)), B.input("u", DType.F32, (WIDTH, WIDTH)))]


def scattered_gradient(b: int, n: int) -> list[Node]:
    """Of the words of a table."""
    dy = B.mul(B.reshape(_x(b, n), (b * n, WIDTH)), B.constant(4, DType.F32))
    return [B.scatter(B.constant(0, DType.F32), B.reshape(_tokens(b, n), (b * n,)), dy, (WORDS, WIDTH), Combine.SUM)]


SIZED_PATTERNS: dict[str, Callable[[int, int], list[Node]]] = {f.__name__: f for f in (
    row_softmax, masked_softmax, causal_softmax, softmax_backward, layernorm, layernorm_backward, bias_gradient,
    split_heads, attention, embedding, embedding_gradient, scattered_gradient, cross_entropy, accuracy, dropout,
    pooled, shifted, running, batchnorm, encoder_layer)}
