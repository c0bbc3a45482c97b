"""Ops of the generator: what they take and the text of a call.

An operand is a letter: f a float, n a number, i an integer, b a boolean, a anything, s a string, c complex, v a float
variable; a digit has the type of that operand before it. What a call needs beyond that (an axis, a shape) is drawn by
the method of `arguments.Arguments` that stands in braces. A call that TensorFlow refuses is drawn anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Op:
    """A kind of call.

    Attributes:
        operands: a letter each.
        text: of the call.
        rounds: see `programs.Step`.
        weight: how often it is drawn, beside 1.
    """

    operands: str
    text: str
    rounds: bool = False
    weight: float = 1


def _table() -> Iterator[Op]:
    for name in ("exp", "math.expm1", "tanh", "sigmoid", "math.erf", "math.erfc", "sin", "cos", "tan", "atan", "sinh",
                 "cosh", "asinh", "nn.softplus", "nn.softsign", "nn.elu", "nn.selu", "nn.gelu", "nn.silu",
                 "math.digamma"):  # fmt: skip
        yield Op("f", f"tf.{name}({{0}})", True)
    for name in ("log", "log1p", "sqrt", "rsqrt", "lgamma", "reciprocal", "reciprocal_no_nan"):
        yield Op("f", f"tf.math.{name}({{0}})", True, 0.3)
        yield Op("f", f"tf.math.{name}(tf.abs({{0}}) + 0.5)", True)
    for name in ("acos", "asin", "atanh"):
        yield Op("f", f"tf.math.{name}(tf.clip_by_value({{0}}, -0.9, 0.9))", True)
    yield Op("f", "tf.math.acosh(tf.abs({0}) + 1.5)", True)
    for name in ("floor", "math.ceil", "round", "math.rint", "sign", "nn.relu", "nn.relu6", "abs", "negative",
                 "square", "math.is_nan", "math.is_inf", "math.is_finite"):  # fmt: skip
        yield Op("f", f"tf.{name}({{0}})")
    yield Op("f", "tf.nn.leaky_relu({0}, {number})")
    for name in ("abs", "negative", "sign", "square", "bitwise.invert"):
        yield Op("i", f"tf.{name}({{0}})")
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "math.squared_difference"):
        yield Op("n0", f"tf.{name}({{0}}, {{1}})", weight=2)
    for name in ("divide", "math.divide_no_nan", "atan2", "math.xlogy", "math.xlog1py", "math.xdivy",
                 "math.floormod", "math.floordiv", "truncatediv", "truncatemod", "math.multiply_no_nan",
                 "math.pow"):  # fmt: skip
        yield Op("f0", f"tf.{name}({{0}}, {{1}})", True, 0.3)
        yield Op("f0", f"tf.{name}(tf.abs({{0}}) + 0.25, tf.abs({{1}}) + 0.5)", True, 0.5)
    for name in ("math.floormod", "math.floordiv", "truncatediv", "truncatemod"):
        yield Op("i0", f"tf.{name}({{0}}, {{1}} | 1)")
    for name in ("bitwise.bitwise_and", "bitwise.bitwise_or", "bitwise.bitwise_xor"):
        yield Op("i0", f"tf.{name}({{0}}, {{1}})", weight=0.5)
    yield Op("i0", "tf.bitwise.left_shift({0}, {1} & 3)", weight=0.3)
    for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        yield Op("n0", f"tf.{name}({{0}}, {{1}})", weight=0.6)
    for name in ("logical_and", "logical_or", "math.logical_xor"):
        yield Op("bb", f"tf.{name}({{0}}, {{1}})")
    yield Op("b", "tf.logical_not({0})")
    yield Op("ba1", "tf.where({0}, {1}, {2})", weight=3)
    yield Op("n00", "tf.clip_by_value({0}, tf.minimum({1}, {2}), tf.maximum({1}, {2}))")
    yield Op("n00", "tf.add_n([{0}, {1}, {2}])")
    yield Op("n", "tf.cast({0}, {dtype})", weight=3)
    yield Op("b", "tf.cast({0}, {dtype})", weight=2)
    yield Op("f", "tf.bitcast({0}, tf.uint8)", weight=0.3)
    for number in ("{number}", "{small}"):
        yield Op("f", f"{{0}} * {number} + {number}", weight=2)
        yield Op("f", f"{{0}} / {number}", True)
    yield from _reductions()
    yield from _movement()
    yield from _indexing()
    yield from _matmuls()
    yield from _others()
    yield from _updates()


def _reductions() -> Iterator[Op]:
    for name in ("sum", "mean", "max", "min", "prod"):
        yield Op("n", f"tf.reduce_{name}({{0}}, {{axes}}, keepdims={{flag}})", True, 2)
    for name in ("std", "variance", "euclidean_norm", "logsumexp"):
        yield Op("f", f"tf.math.reduce_{name}({{0}}, {{axes}}, keepdims={{flag}})", True)
    for name in ("all", "any"):
        yield Op("b", f"tf.reduce_{name}({{0}}, {{axes}}, keepdims={{flag}})")
    for name in ("argmax", "argmin"):
        yield Op("n", f"tf.{name}({{0}}, {{axis}}, output_type={{index}})")
    for name in ("cumsum", "cumprod"):
        yield Op("n", f"tf.math.{name}({{0}}, {{axis}}, exclusive={{flag}}, reverse={{flag}})", True)
    yield Op("f", "tf.math.cumulative_logsumexp({0}, {axis})", True, 0.3)
    for name in ("softmax", "log_softmax"):
        yield Op("f", f"tf.nn.{name}({{0}}, {{axis}})", True, 2)
    yield Op("f", "tf.nn.l2_loss({0})", True)
    yield Op("f", "tf.math.l2_normalize({0}, {axis})", True)
    yield Op("f", "tf.nn.moments({0}, {axes}, keepdims={flag})", True)
    yield Op("f", "tf.math.zero_fraction({0})", True, 0.3)
    yield Op("f0", "tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax({0}), {1})", True)
    yield Op("f0", "tf.nn.sigmoid_cross_entropy_with_logits({0}, {1})", True)
    yield Op("fi", "tf.nn.sparse_softmax_cross_entropy_with_logits({1} % tf.cast(tf.shape({0})[-1], {1}.dtype), {0})",
             True)  # fmt: skip
    yield Op("f", "tf.math.top_k({0}, {k})")
    yield Op("n", "tf.sort({0}, {axis}, direction={order})", weight=0.6)
    yield Op("n", "tf.argsort({0}, {axis}, stable=True)", weight=0.6)
    yield Op("ni", "tf.searchsorted(tf.sort({0}), tf.cast({1}, {0}.dtype))", weight=0.4)
    for name in ("sum", "mean", "max", "min", "prod"):
        yield Op("n", f"tf.math.unsorted_segment_{name}({{0}}, {{segments}}, 3)", True, 0.4)
        yield Op("n", f"tf.math.segment_{name}({{0}}, tf.sort({{segments}}))", True, 0.4)
    yield Op("n", "tf.sparse.segment_sum({0}, [0, 0, 0], [0, 0, 2])", True, 0.3)
    yield Op("i", "tf.math.bincount({0} & 7, minlength=3, maxlength=9)", weight=0.3)


def _movement() -> Iterator[Op]:
    yield Op("a", "tf.reshape({0}, {shape})", weight=3)
    yield Op("a", "tf.reshape({0}, tf.concat([tf.shape({0}), [1]], 0))")
    yield Op("aa", "tf.reshape({0}, tf.shape({1}))", weight=0.5)
    yield Op("a", "tf.transpose({0}, {perm})", weight=2)
    yield Op("a", "tf.expand_dims({0}, {place})")
    yield Op("a", "tf.squeeze({0})")
    yield Op("a", "{0}[{slices}]", weight=3)
    yield Op("a", "tf.slice({0}, {begin}, {sizes})")
    yield Op("n", "tf.pad({0}, {pads})", weight=1.5)
    yield Op("n", "tf.pad({0}, {pads}, constant_values={small})", weight=0.5)
    yield Op("a", "tf.pad({0}, {pads}, mode={mirror})", weight=0.4)
    yield Op("a0", "tf.concat([{0}, {1}], {axis})", weight=2)
    yield Op("a00", "tf.concat([{0}, {1}, {2}], {axis})")
    yield Op("a", "tf.concat([{0}, {0}[{slices}]], {axis})")
    yield Op("a0", "tf.stack([{0}, {1}], {axis})", weight=1.5)
    yield Op("a", "tf.unstack({0}, axis={axis})", weight=0.7)
    yield Op("a", "tf.split({0}, {parts}, {axis})", weight=0.7)
    yield Op("a", "tf.tile({0}, {repeats})")
    yield Op("a", "tf.repeat({0}, {count}, {axis})", weight=0.5)
    yield Op("a", "tf.broadcast_to({0}, tf.concat([[2], tf.shape({0})], 0))")
    yield Op("aa", "tf.broadcast_to({0}, tf.shape({1}))")
    yield Op("a", "tf.reverse({0}, [{axis}])")
    yield Op("a", "tf.roll({0}, {count}, {axis})", weight=0.5)
    yield Op("ai", "tf.reverse_sequence({0}, {lengths}, seq_axis=1, batch_axis=0)", weight=0.5)
    yield Op("n", "tf.linalg.band_part({0}, {count}, {count})")
    yield Op("n", "tf.linalg.diag({0})", weight=0.5)
    yield Op("n", "tf.linalg.diag_part({0})", weight=0.5)
    yield Op("n", "tf.linalg.set_diag({0}, {0}[..., 0, :])", weight=0.2)
    yield Op("f", "tf.linalg.trace({0})", True, 0.3)
    yield Op("n", "tf.zeros_like({0})", weight=0.3)
    yield Op("n", "tf.ones_like({0})", weight=0.3)
    yield Op("n", "tf.fill(tf.shape({0}), {0}[{first}])", weight=0.3)
    yield Op("n", "tf.meshgrid(tf.reshape({0}, [-1])[:4], tf.range(3))", weight=0.2)
    for name in ("space_to_depth", "depth_to_space"):
        yield Op("f", f"tf.nn.{name}({{image}}, 2)", weight=0.2)
    yield Op("a", "tf.identity({0})", weight=0.5)
    yield Op("f", "tf.stop_gradient({0})", weight=0.5)
    yield Op("a", "tf.shape({0})")
    yield Op("a", "tf.size({0})")
    yield Op("a", "tf.rank({0})", weight=0.2)
    yield Op("a", "tf.range(tf.size({0}))", weight=0.5)
    yield Op("a", "tf.ensure_shape({0}, {0}.shape)", weight=0.2)


def _indexing() -> Iterator[Op]:
    yield Op("ai", "tf.gather({0}, {1} % tf.maximum(tf.cast(tf.shape({0})[0], {1}.dtype), 1))", weight=2)
    yield Op("ai", "tf.gather({0}, {rows}, axis={axis})")
    yield Op("ai", "tf.gather({0}, {1}, axis={axis})", weight=0.3)
    yield Op("a", "tf.gather({0}, {rows}, batch_dims=0)")
    yield Op("a", "tf.gather_nd({0}, [{indices}, {indices}])")
    yield Op("i", "tf.one_hot({0}, {count})")
    yield Op("i", "tf.one_hot({0} & 3, 4, on_value={number}, off_value={small}, axis={axis}, dtype=tf.float32)")
    yield Op("n", "tf.scatter_nd([{indices}, {indices}], tf.stack([{0}[{first}], {0}[{first}]]), tf.shape({0}))")
    for name in ("update", "add", "sub", "max", "min"):
        yield Op("n", f"tf.tensor_scatter_nd_{name}({{0}}, [{{indices}}], [{{0}}[{{first}}]])", weight=0.5)
    yield Op("nb", "tf.boolean_mask({0}, {1})", weight=0.8)
    yield Op("n", "tf.boolean_mask({0}, {0} > tf.cast({small}, {0}.dtype))", weight=0.8)
    yield Op("b", "tf.where({0})", weight=0.6)
    yield Op("i", "tf.unique(tf.reshape({0}, [-1]))", weight=0.5)
    yield Op("n", "tf.dynamic_partition({0}, {segments}, 3)", weight=0.5)
    yield Op("n0", "tf.dynamic_stitch([tf.range(tf.shape({0})[0]), tf.range(tf.shape({1})[0])], [{0}, {1}])",
             weight=0.4)  # fmt: skip
    yield Op("i", "tf.sequence_mask({0} & 7, 5)", weight=0.5)


def _matmuls() -> Iterator[Op]:
    yield Op("f0", "tf.matmul({0}, {1})", True)
    yield Op("f0", "tf.matmul({0}, {1}, transpose_b=True)", True, 2)
    yield Op("f0", "tf.matmul({0}, {1}, transpose_a=True)", True)
    yield Op("f", "tf.matmul({0}, tf.ones([{last}, 3], {0}.dtype) * {number})", True)
    yield Op("f0", "tf.linalg.matvec({0}, {1})", True)
    yield Op("f0", "tf.tensordot({0}, {1}, [[-1], [-1]])", True)
    yield Op("f0", "tf.einsum('...i,...i->...', {0}, {1})", True)
    yield Op("f0", "tf.einsum('ij,kj->ik', {0}, {1})", True)
    yield Op("f0", "tf.einsum('bij,bkj->bik', {0}, {1})", True)
    yield Op("f0", "tf.nn.bias_add({0}, tf.reshape({1}, [-1])[:{last}])")
    yield Op("f", "tf.nn.max_pool2d({image}, 2, 1, 'SAME')", weight=0.3)
    yield Op("f", "tf.nn.avg_pool2d({image}, 2, 2, 'SAME')", True, 0.3)
    yield Op("f", "tf.nn.conv2d({image}, tf.ones([2, 2, 1, 3], {0}.dtype) * {number}, 1, 'SAME')", True, 0.3)
    yield Op("f", "tf.nn.batch_normalization({0}, *tf.nn.moments({0}, [0]), None, None, 0.01)", True)
    yield Op("f", "tf.compat.v1.nn.fused_batch_norm({image}, [{number}], [{number}])",
             True, 0.5)  # fmt: skip
    yield Op("f", "tf.linalg.inv(tf.matmul({0}, {0}, transpose_a=True) + tf.eye({last}, dtype={0}.dtype))", True, 0.2)
    yield Op("f", "tf.cast(tf.abs(tf.signal.rfft(tf.cast({0}, tf.float32))), {0}.dtype)", True, 0.2)
    yield Op("f0", "tf.abs(tf.complex(tf.cast({0}, tf.float32), tf.cast({1}, tf.float32)))", True, 0.3)


def _others() -> Iterator[Op]:
    yield Op("a", "tf.random.stateless_uniform(tf.shape({0}), [{count}, 7], dtype={float})", weight=0.5)
    yield Op("a", "tf.random.stateless_normal(tf.shape({0}), [{count}, 7])", weight=0.3)
    yield Op("f", "tf.nn.experimental.stateless_dropout({0}, 0.3, seed=[{count}, 1])", weight=0.5)
    yield Op("i", "tf.strings.as_string({0})", weight=0.6)
    yield Op("ss", "tf.strings.join([{0}, {1}], '-')", weight=0.6)
    yield Op("s", "tf.strings.length({0})", weight=0.8)
    yield Op("s", "tf.strings.to_hash_bucket_fast({0}, 11)", weight=0.6)
    yield Op("i", "tf.strings.to_number(tf.strings.as_string({0}))", weight=0.6)
    yield Op("f", "tf.debugging.check_numerics({0}, 'x')", weight=0.3)
    yield Op("f", "tf.debugging.assert_all_finite({0}, 'x')", weight=0.2)
    yield Op("nn", "tf.group(tf.debugging.assert_equal(tf.shape({0}), tf.shape({1})))", weight=0.3)
    yield Op("n", "tf.debugging.assert_greater({0}, tf.cast({small}, {0}.dtype))", weight=0.2)
    yield Op("f", "tf.numpy_function(np.tanh, [{0}], {0}.dtype)", True, 0.15)
    yield Op("f", "tf.grad_pass_through(tf.round)({0})", weight=0.2)
    yield Op("ff", "tf.linspace(tf.reduce_min({0}), tf.reduce_max({0}), 5)", True, 0.2)


def _updates() -> Iterator[Op]:
    for name in ("assign", "assign_add", "assign_sub"):
        yield Op("v0", f"{{0}}.{name}(tf.broadcast_to({{1}}, tf.shape({{0}})))")
        yield Op("v", f"{{0}}.{name}({{0}} * {{number}})", weight=0.7)
    yield Op("v", "{0}.assign(tf.tanh({0}))", True)
    yield Op("v", "{0}.scatter_nd_add([{indices}], [{0}[{first}]])", weight=0.5)
    yield Op("v", "{0}.scatter_nd_update([{indices}], [{0}[{first}] * {number}])", weight=0.5)
    yield Op("v", "tf.gather({0}, {rows})", weight=0.7)
    yield Op("v0", "tf.raw_ops.ResourceApplyGradientDescent(var={0}.handle, alpha={rate0}, "
                   "delta=tf.broadcast_to({1}, tf.shape({0})))", weight=0.5)  # fmt: skip
    grad = "grad=tf.broadcast_to({2}, tf.shape({0})))"
    yield Op("v00", "tf.raw_ops.ResourceApplyKerasMomentum(var={0}.handle, accum={1}.handle, lr={rate0}, "
                    f"momentum={{rate0}}, use_nesterov={{flag}}, {grad}", weight=0.5)  # fmt: skip
    yield Op("v00", "tf.raw_ops.ResourceApplyAdagradV2(var={0}.handle, accum={1}.handle, lr={rate0}, "
                    f"epsilon={{rate0}}, {grad}", True, 0.5)  # fmt: skip
    yield Op("v000", "tf.raw_ops.ResourceApplyAdam(var={0}.handle, m={1}.handle, v={2}.handle, beta1_power={rate0}, "
                     "beta2_power={rate0}, lr={rate0}, beta1={rate0}, beta2={rate0}, epsilon={rate0}, "
                     "grad=tf.broadcast_to({3}, tf.shape({0})))", True, 0.5)  # fmt: skip


OPS = tuple(_table())
