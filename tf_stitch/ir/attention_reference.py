"""NumPy meaning of attentions and their gradients; matrices are [batch, heads, rows, columns]. Heads of queries may
share keys and values in `attended`: neighbours do."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.op_attrs import AttentionAttrs

Array: TypeAlias = NDArray[Any]


def attended(attrs: AttentionAttrs, q: Array, k: Array, v: Array) -> Array:
    """What queries get of values, each weighed by the probability of its key."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = _scores(attrs, q, k)
    return _laid(attrs, np.exp(scores - _log_sum(scores)) @ v)


def log_sum(attrs: AttentionAttrs, q: Array, k: Array) -> Array:
    """For each query, the logarithm of the sum of the exponentials of its scores."""
    return _log_sum(_scores(attrs, q, k))[..., 0]


def query_grad(attrs: AttentionAttrs, q: Array, k: Array, v: Array, o: Array, grad: Array, log_sum: Array) -> Array:
    """The gradient of queries.

    Args:
        o, grad: the result and its gradient.
    """
    return _laid(attrs, _score_grad(attrs, q, k, v, o, grad, log_sum) @ k)


def key_grad(attrs: AttentionAttrs, q: Array, k: Array, v: Array, o: Array, grad: Array, log_sum: Array) -> Array:
    """As query_grad, of keys."""
    return _laid(attrs, np.swapaxes(_score_grad(attrs, q, k, v, o, grad, log_sum), -1, -2) @ q)


def value_grad(attrs: AttentionAttrs, q: Array, k: Array, v: Array, o: Array, grad: Array, log_sum: Array) -> Array:
    """As query_grad, of values."""
    probabilities = np.exp(_scores(attrs, q, k) - log_sum[..., None])
    return _laid(attrs, np.swapaxes(probabilities, -1, -2) @ grad)


def _scores(attrs: AttentionAttrs, q: Array, k: Array) -> Array:
    scores: Array = q.dtype.type(attrs.scale) * (q @ np.swapaxes(k, -1, -2))
    if not attrs.causal:
        return scores
    seen = np.tri(*scores.shape[-2:]) > 0
    return np.where(seen, scores, q.dtype.type(-np.inf))


def _log_sum(scores: Array) -> Array:
    most: Array = scores.max(-1, keepdims=True)
    total: Array = np.exp(scores - most).sum(-1, keepdims=True)
    return most + np.log(total)


def _score_grad(attrs: AttentionAttrs, q: Array, k: Array, v: Array, o: Array, grad: Array, log_sum: Array) -> Array:
    probabilities = np.exp(_scores(attrs, q, k) - log_sum[..., None])
    of_probabilities: Array = grad @ np.swapaxes(v, -1, -2)
    of_probabilities -= (o * grad).sum(-1, keepdims=True)
    found: Array = q.dtype.type(attrs.scale) * probabilities * of_probabilities
    return found


def _laid(attrs: AttentionAttrs, matrices: Array) -> Array:
    return np.swapaxes(matrices, 1, 2) if attrs.rows_outside else matrices
