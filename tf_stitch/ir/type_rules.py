"""Result types of tensor IR ops: (operand types, attrs) -> TensorType, or TypeRuleError."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from tf_stitch.errors import TypeRuleError
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.symbolic_dims import divides
from tf_stitch.ir.types import Dim, Symbol, TensorType, broadcast_shapes

Types: TypeAlias = Sequence[TensorType]
TypeRule: TypeAlias = Callable[[Types, oa.Attrs], TensorType]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise TypeRuleError(message)


def from_attrs(types: Types, attrs: oa.Attrs) -> TensorType:
    """The type is written in the attributes (input, variable)."""
    return cast(oa.InputAttrs | oa.VariableAttrs, attrs).type


def constant(types: Types, attrs: oa.Attrs) -> TensorType:
    value = cast(oa.ConstantAttrs, attrs).value
    return TensorType(DType.of(value.dtype), tuple(value.shape))


def extent(types: Types, attrs: oa.Attrs) -> TensorType:
    return TensorType(cast(oa.ExtentAttrs, attrs).dtype, ())


def iota(types: Types, attrs: oa.Attrs) -> TensorType:
    a = cast(oa.IotaAttrs, attrs)
    return TensorType(a.dtype, a.shape)


def same(types: Types, attrs: oa.Attrs) -> TensorType:
    return types[0]


def floating(types: Types, attrs: oa.Attrs) -> TensorType:
    _require(types[0].dtype.is_float, f"a floating type is needed, not {types[0]}")
    return types[0]


def number(types: Types, attrs: oa.Attrs) -> TensorType:
    dtype = types[0].dtype
    _require(dtype is not DType.BOOL and dtype.is_computed_with, f"a number is needed, not {types[0]}")
    return types[0]


def integer(types: Types, attrs: oa.Attrs) -> TensorType:
    _require(types[0].dtype.is_integer, f"an integer type is needed, not {types[0]}")
    return types[0]


def boolean(types: Types, attrs: oa.Attrs) -> TensorType:
    _require(types[0].dtype is DType.BOOL, f"bool is needed, not {types[0]}")
    return types[0]


def predicate(types: Types, attrs: oa.Attrs) -> TensorType:
    """A test of a floating tensor."""
    floating(types, attrs)
    return TensorType(DType.BOOL, types[0].shape)


def cast_to(types: Types, attrs: oa.Attrs) -> TensorType:
    source, target = types[0].dtype, cast(oa.CastAttrs, attrs).dtype
    _require(DType.U64 not in (source, target) or all(d is DType.U64 or d.is_integer for d in (source, target)),
             f"{types[0]} does not become {target.value}")
    _require(not target.is_float8 or source.is_real, f"{types[0]} does not become {target.value}")
    return TensorType(target, types[0].shape)


def bits(types: Types, attrs: oa.Attrs) -> TensorType:
    """The 32 bits of a float32 as an int32."""
    _require(types[0].dtype is DType.F32, f"float32 is needed, not {types[0]}")
    return TensorType(DType.I32, types[0].shape)


def _pair(types: Types) -> TensorType:
    _require(types[0].dtype is types[1].dtype, f"operand types differ: {types[0]} and {types[1]}")
    _require(types[0].dtype.is_computed_with, f"{types[0]} is moved, not computed with")
    return TensorType(types[0].dtype, broadcast_shapes([types[0].shape, types[1].shape]))


def arithmetic(types: Types, attrs: oa.Attrs) -> TensorType:
    """Two numbers of one type, broadcast."""
    number(types, attrs)
    return _pair(types)


def floating_pair(types: Types, attrs: oa.Attrs) -> TensorType:
    floating(types, attrs)
    return _pair(types)


def logical(types: Types, attrs: oa.Attrs) -> TensorType:
    """Bits: bool or integers."""
    _require(not types[0].dtype.is_real, f"bool or integers are needed, not {types[0]}")
    return _pair(types)


def comparison(types: Types, attrs: oa.Attrs) -> TensorType:
    return TensorType(DType.BOOL, _pair(types).shape)


def select(types: Types, attrs: oa.Attrs) -> TensorType:
    _require(types[0].dtype is DType.BOOL, "the condition of select is not bool")
    _require(types[1].dtype is types[2].dtype, f"branches differ: {types[1]} and {types[2]}")
    return TensorType(types[1].dtype, broadcast_shapes([t.shape for t in types]))


def random_bits(types: Types, attrs: oa.Attrs) -> TensorType:
    """Four int64, broadcast -> int32."""
    _require(all(t.dtype is DType.I64 for t in types), f"int64 is needed, not {', '.join(map(str, types))}")
    return TensorType(DType.I32, broadcast_shapes([t.shape for t in types]))


def broadcast(types: Types, attrs: oa.Attrs) -> TensorType:
    shape = cast(oa.ShapeAttrs, attrs).shape
    _require(len(shape) >= types[0].rank, f"{types[0]} has more axes than its broadcast")
    for have, want in zip(types[0].shape, shape[len(shape) - types[0].rank:], strict=True):
        both = isinstance(have, int) and isinstance(want, int)
        _require(have == 1 or have == want or not both, f"{types[0]} does not broadcast to {shape}")
    return TensorType(types[0].dtype, shape)


def reshape(types: Types, attrs: oa.Attrs) -> TensorType:
    out = TensorType(types[0].dtype, cast(oa.ShapeAttrs, attrs).shape)
    if types[0].is_static and out.is_static:
        _require(types[0].numel == out.numel, f"{types[0]} cannot have the shape {out.shape}")
    return out


def transpose(types: Types, attrs: oa.Attrs) -> TensorType:
    perm = cast(oa.TransposeAttrs, attrs).perm
    _require(sorted(perm) == list(range(types[0].rank)), f"{perm} does not permute {types[0]}")
    return TensorType(types[0].dtype, tuple(types[0].shape[p] for p in perm))


def slice_(types: Types, attrs: oa.Attrs) -> TensorType:
    a = cast(oa.SliceAttrs, attrs)
    _require(len(a.begin) == len(a.strides) == len(a.sizes) == types[0].rank, "slice attributes miss an axis")
    for dim, begin, stride, size in zip(types[0].shape, a.begin, a.strides, a.sizes, strict=True):
        if isinstance(dim, int) and isinstance(size, int) and size > 0:
            last = begin + (size - 1) * stride
            _require(0 <= begin < dim and 0 <= last < dim, f"slice [{begin}:{last}] leaves an axis of {dim}")
    return TensorType(types[0].dtype, a.sizes)


def pad(types: Types, attrs: oa.Attrs) -> TensorType:
    a = cast(oa.PadAttrs, attrs)
    _require(types[1].rank == 0 and types[1].dtype is types[0].dtype, "the padding value is not a scalar of the type")
    _require(len(a.low) == len(a.high) == types[0].rank, "pad attributes miss an axis")
    dims: list[Dim] = []
    for dim, low, high in zip(types[0].shape, a.low, a.high, strict=True):
        _require(isinstance(dim, int) or low == high == 0, "padding of an axis of unknown size")
        dims.append(dim + low + high if isinstance(dim, int) else dim)
    return TensorType(types[0].dtype, tuple(dims))


def seen(types: Types, attrs: oa.Attrs) -> TensorType:
    a = cast(oa.WindowsAttrs, attrs)
    _require(types[0].rank == 4 and types[0].is_static, "windows are of static images [n, h, w, c]")
    n, *size, c = types[0].dims
    axes = (a.counts, a.extents, a.strides, a.dilations)
    _require(all(len(x) == 2 and min(x) > 0 for x in axes), "windows attributes miss an axis")
    for dim, count, extent, stride, dilation in zip(size, *axes, strict=True):
        last = (count - 1) * stride + (extent - 1) * dilation
        _require(last < dim, f"a window reaches element {last} of an axis of {dim}")
    return TensorType(types[0].dtype, (n, *a.counts, *a.extents, c))


def concat(types: Types, attrs: oa.Attrs) -> TensorType:
    axis = cast(oa.AxisAttrs, attrs).axis
    shape = list(types[0].shape)
    total = 0
    for t in types:
        _require(t.dtype is types[0].dtype and t.rank == types[0].rank, "operands of concat differ")
        dim = t.shape[axis]
        if isinstance(dim, Symbol):
            raise TypeRuleError("concat along an axis of unknown size")
        total += dim
        for a, (have, want) in enumerate(zip(t.shape, types[0].shape, strict=True)):
            both = isinstance(have, int) and isinstance(want, int)
            _require(a == axis or have == want or not both, f"{types[0]} and {t} do not concatenate along axis {axis}")
    shape[axis] = total
    return TensorType(types[0].dtype, tuple(shape))


def gather(types: Types, attrs: oa.Attrs) -> TensorType:
    """params [n, ...], indices [...] -> indices.shape + params.shape[1:]."""
    _require(types[0].rank >= 1 and types[1].dtype.is_integer, "gather needs params with an axis and integer indices")
    empty = types[0].shape[0] == 0 and types[1].is_static and types[1].numel > 0
    _require(not empty, f"gather: no index is inside of {types[0]}")
    return TensorType(types[0].dtype, types[1].shape + types[0].shape[1:])


def _reduced(t: TensorType, axes: tuple[int, ...]) -> tuple[Dim, ...]:
    _require(tuple(sorted(set(axes))) == axes and all(0 <= a < t.rank for a in axes), f"axes {axes} of {t}")
    return tuple(d for i, d in enumerate(t.shape) if i not in axes)


def reduction(types: Types, attrs: oa.Attrs) -> TensorType:
    number(types, attrs)
    return TensorType(types[0].dtype, _reduced(types[0], cast(oa.ReduceAttrs, attrs).axes))


def logical_reduction(types: Types, attrs: oa.Attrs) -> TensorType:
    boolean(types, attrs)
    return TensorType(DType.BOOL, _reduced(types[0], cast(oa.ReduceAttrs, attrs).axes))


def arg_reduction(types: Types, attrs: oa.Attrs) -> TensorType:
    a = cast(oa.ArgReduceAttrs, attrs)
    number(types, attrs)
    shape = _reduced(types[0], (a.axis,))
    _require(types[0].shape[a.axis] != 0, "the best of nothing has no place")
    return TensorType(a.dtype, shape)


def scan(types: Types, attrs: oa.Attrs) -> TensorType:
    _require(types[0].rank >= 1, "a scan of a scalar")
    return number(types, attrs)


def scatter(types: Types, attrs: oa.Attrs) -> TensorType:
    """What elements are before (broadcast), rows [n], updates [n, ...] -> [*rows, ...]."""
    a = cast(oa.ScatterAttrs, attrs)
    before, rows, updates = types
    _require(before.dtype is updates.dtype, f"{updates} scattered to {before}")
    if a.combine is not oa.Combine.SET:
        number(types, attrs)
    _require(rows.rank == 1 and rows.dtype in (DType.I32, DType.I64), f"{rows} are no rows to scatter to")
    _require(1 <= a.row_axes <= len(a.shape) and len(a.rows) == updates.rank,
             f"{updates} scattered to the shape {a.shape}")
    for have, want in zip(updates.shape, (rows.shape[0], *a.rows[1:]), strict=True):
        both = isinstance(have, int) and isinstance(want, int)
        _require(have == want or not both, f"{updates} scattered by {rows} to the shape {a.shape}")
    _require(a.rows[0] != 0 or not rows.is_static or rows.numel == 0, "scatter: there is no row")
    return broadcast([before], oa.ShapeAttrs(a.shape))


def dot(types: Types, attrs: oa.Attrs) -> TensorType:
    """a [..., m, k] times b [..., k, n] -> [..., m, n], with equal leading axes."""
    a = cast(oa.DotAttrs, attrs)
    left, right = types
    _require(left.dtype is right.dtype and left.dtype.is_float, f"operand types of dot: {left} and {right}")
    _require(left.rank == right.rank >= 2, f"ranks of dot: {left} and {right}")
    m, k = left.shape[-2:][::-1] if a.transpose_a else left.shape[-2:]
    other_k, n = right.shape[-2:][::-1] if a.transpose_b else right.shape[-2:]
    for x, y in zip((*left.shape[:-2], k), (*right.shape[:-2], other_k), strict=True):
        both = isinstance(x, int) and isinstance(y, int)
        _require(x == y or not both, f"{left} and {right} do not fit dot")
    batch = tuple(x if isinstance(x, int) else y for x, y in zip(left.shape[:-2], right.shape[:-2], strict=True))
    return TensorType(left.dtype, (*batch, m, n))


def float8_dot(types: Types, attrs: oa.Attrs) -> TensorType:
    """a [m, k] times b [n, k], one of them in e4m3fn, and two scales, float32 [] -> [m, n] of halves."""
    dtype = cast(oa.Float8DotAttrs, attrs).dtype
    left, right, *scales = types
    _require(left.dtype.is_float8 and right.dtype.is_float8 and DType.F8_E4M3FN in (left.dtype, right.dtype),
             f"operand types of float8_dot: {left} and {right}")
    _require(dtype in (DType.F16, DType.BF16), f"float8_dot has no results in {dtype.value}")
    _require(all(scale == TensorType(DType.F32, ()) for scale in scales), "scales of float8_dot are float32")
    _require(left.rank == right.rank == 2 and left.shape[1] == right.shape[1], f"{left} and {right} do not fit "
             "float8_dot")
    return TensorType(dtype, (left.shape[0], right.shape[0]))


def convolution(types: Types, attrs: oa.Attrs) -> TensorType:
    """Images [n, *image, c] by filters [k, *window, c / groups] -> [n, *windows, k]."""
    a = cast(oa.ConvolutionAttrs, attrs)
    image, filters = types
    _require_convolution(image, filters, a)
    _require(not a.size, "a convolution has no size of its own")
    _require(filters.shape[-1] == _group(image.shape[-1], a.groups), f"{filters} do not fit the channels of {image}")
    _group(filters.shape[0], a.groups)
    return TensorType(image.dtype, (image.shape[0], *windows(a, image.shape[1:-1], filters.shape[1:-1]),
                                    filters.shape[0]))


def convolution_input_grad(types: Types, attrs: oa.Attrs) -> TensorType:
    """Gradient of a convolution's result [n, *windows, k], filters [k, *window, c / groups] -> that of its images."""
    a = cast(oa.ConvolutionAttrs, attrs)
    grad, filters = types
    _require_convolution(grad, filters, a)
    _require_result(grad, windows(a, a.size, filters.shape[1:-1]))
    _require(filters.shape[0] == grad.shape[-1], f"{filters} do not give {grad}")
    _group(filters.shape[0], a.groups)
    channels = filters.shape[-1]
    _require(isinstance(channels, int), f"{filters} have an unknown number of channels")
    return TensorType(grad.dtype, (grad.shape[0], *a.size, cast(int, channels) * a.groups))


def convolution_filter_grad(types: Types, attrs: oa.Attrs) -> TensorType:
    """Images [n, *image, c], gradient of a convolution's result [n, *windows, k] -> that of its filters."""
    a = cast(oa.ConvolutionAttrs, attrs)
    image, grad = types
    _require_convolution(image, grad, a)
    _require_result(grad, windows(a, image.shape[1:-1], a.size))
    known = isinstance(image.shape[0], int) and isinstance(grad.shape[0], int)
    _require(not known or image.shape[0] == grad.shape[0], f"{image} and {grad} are of different batches")
    _group(grad.shape[-1], a.groups)
    return TensorType(image.dtype, (grad.shape[-1], *a.size, _group(image.shape[-1], a.groups)))


def windows(attrs: oa.ConvolutionAttrs, image: Sequence[Dim], window: Sequence[Dim]) -> tuple[int, ...]:
    """How many windows lie in an image, along each axis.

    Raises:
        TypeRuleError: none do, or a size is unknown.
    """
    _require(len(image) == len(window) == len(attrs.strides), "sizes of a convolution are of different axes")
    found = []
    for size, extent_, stride, dilation, padding in zip(image, window, attrs.strides, attrs.dilations, attrs.padding,
                                                        strict=True):
        if isinstance(size, Symbol) or isinstance(extent_, Symbol):
            raise TypeRuleError("a convolution of images of unknown size")
        found.append((size + 2 * padding - dilation * (extent_ - 1) - 1) // stride + 1)
        _require(found[-1] > 0 and extent_ > 0, f"no window of {extent_} lies in an image of {size}")
    return tuple(found)


def _require_convolution(one: TensorType, other: TensorType, attrs: oa.ConvolutionAttrs) -> None:
    _require(one.dtype is other.dtype and one.dtype.is_float, f"operand types of a convolution: {one} and {other}")
    _require(one.rank == other.rank in (4, 5), f"ranks of a convolution: {one} and {other}")
    along = (attrs.strides, attrs.dilations, attrs.padding)
    _require(all(len(values) == one.rank - 2 for values in along)
             and min(*attrs.strides, *attrs.dilations, attrs.groups) > 0
             and min(attrs.padding) >= 0, f"a convolution with {attrs.text}")


def _require_result(grad: TensorType, wanted: tuple[int, ...]) -> None:
    _require(grad.shape[1:-1] == wanted, f"{grad} is no result of {' x '.join(map(str, wanted))} windows")


def _group(channels: Dim, groups: int) -> int:
    if isinstance(channels, Symbol) or channels % groups:
        raise TypeRuleError(f"{channels} channels do not fall into {groups} groups")
    return channels // groups


def attention(types: Types, attrs: oa.Attrs) -> TensorType:
    """Queries [batch, heads, queries, columns], keys and values [batch, heads that share them, keys, columns] -> as
    queries."""
    queries, keys, values = types
    _require_attention(queries, keys, values, shared=True)
    return _attended(queries, attrs)


def attention_log_sum(types: Types, attrs: oa.Attrs) -> TensorType:
    """Queries, keys -> float32 [batch, heads, queries]."""
    queries, keys = types
    _require_attention(queries, keys, keys)
    return TensorType(DType.F32, queries.shape[:-1])


def attention_query_grad(types: Types, attrs: oa.Attrs) -> TensorType:
    """Queries, keys, values, the result and its gradient as queries, the log sum -> gradient of queries."""
    _require_attention_grad(types)
    return _attended(types[0], attrs)


def attention_key_grad(types: Types, attrs: oa.Attrs) -> TensorType:
    """As attention_query_grad -> gradient of keys, or of values."""
    _require_attention_grad(types)
    return _attended(types[1], attrs)


def _attended(rows: TensorType, attrs: oa.Attrs) -> TensorType:
    batch, heads, length, columns = rows.shape
    outside = cast(oa.AttentionAttrs, attrs).rows_outside
    return TensorType(rows.dtype, (batch, length, heads, columns) if outside else rows.shape)


def _require_attention(queries: TensorType, keys: TensorType, values: TensorType, shared: bool = False) -> None:
    _require(queries.dtype is keys.dtype is values.dtype and queries.dtype.is_float, f"types of {queries} and {keys}")
    _require(queries.rank == keys.rank == 4, f"ranks of an attention: {queries} and {keys}")
    batch, heads, _, columns = queries.shape
    own = keys.shape[1]
    shares = shared and isinstance(heads, int) and isinstance(own, int) and own > 0 and divides(own, heads)
    fits = (batch, columns) == (keys.shape[0], keys.shape[3]) and keys.shape == values.shape \
        and (heads == own or shares)
    _require(fits, f"{queries}, {keys} and {values} do not fit attention")


def _require_attention_grad(types: Types) -> None:
    queries, keys, values, result, grad, log_sum = types
    _require_attention(queries, keys, values)
    _require(result == grad == queries, f"{result} and {grad} are no results of {queries}")
    _require(log_sum == TensorType(DType.F32, queries.shape[:-1]), f"{log_sum} is of no rows of {queries}")
