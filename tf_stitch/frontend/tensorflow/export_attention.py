"""Attentions and their gradients as TensorFlow's ops, computed in float32 as a library's kernels do."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import AttentionAttrs


def attention(node: Node, q: Any, k: Any, v: Any) -> Any:
    k, v = (tf.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))  # heads that queries' neighbours share
    return _stored(node, tf.matmul(tf.nn.softmax(_scores(node, q, k)), _wide(v)))


def log_sum(node: Node, q: Any, k: Any) -> Any:
    return tf.reduce_logsumexp(_scores(node, q, k), -1)


def query_grad(node: Node, q: Any, k: Any, v: Any, o: Any, grad: Any, log_sum: Any) -> Any:
    return _stored(node, tf.matmul(_score_grad(node, q, k, v, o, grad, log_sum), _wide(k)))


def key_grad(node: Node, q: Any, k: Any, v: Any, o: Any, grad: Any, log_sum: Any) -> Any:
    return _stored(node, tf.matmul(_score_grad(node, q, k, v, o, grad, log_sum), _wide(q), transpose_a=True))


def value_grad(node: Node, q: Any, k: Any, v: Any, o: Any, grad: Any, log_sum: Any) -> Any:
    return _stored(node, tf.matmul(_probabilities(node, q, k, log_sum), _wide(grad), transpose_a=True))


def _wide(x: Any) -> Any:
    return x if x.dtype == tf.float64 else tf.cast(x, tf.float32)


def _scores(node: Node, q: Any, k: Any) -> Any:
    attrs = node.attrs
    assert isinstance(attrs, AttentionAttrs)
    scores = tf.matmul(_wide(q), _wide(k), transpose_b=True) * attrs.scale
    if not attrs.causal:
        return scores
    seen = tf.linalg.band_part(tf.ones(scores.shape[-2:], tf.bool), -1, 0)
    return tf.where(seen, scores, scores.dtype.min)


def _probabilities(node: Node, q: Any, k: Any, log_sum: Any) -> Any:
    scores = _scores(node, q, k)
    return tf.exp(scores - tf.cast(log_sum, scores.dtype)[..., None])


def _score_grad(node: Node, q: Any, k: Any, v: Any, o: Any, grad: Any, log_sum: Any) -> Any:
    attrs = node.attrs
    assert isinstance(attrs, AttentionAttrs)
    of_probabilities = tf.matmul(_wide(grad), _wide(v), transpose_b=True)
    total = tf.reduce_sum(_wide(o) * _wide(grad), -1, keepdims=True)
    return attrs.scale * _probabilities(node, q, k, log_sum) * (of_probabilities - total)


def _stored(node: Node, matrices: Any) -> Any:
    attrs = node.attrs
    assert isinstance(attrs, AttentionAttrs)
    laid = tf.transpose(matrices, [0, 2, 1, 3]) if attrs.rows_outside else matrices
    return tf.cast(laid, node.type.dtype.value)
