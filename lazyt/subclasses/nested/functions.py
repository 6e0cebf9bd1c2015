"""What functions do with nested tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import lazyt.nn.functional as F
from lazyt.errors import BoundsError, LazytError, ShapeError
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.subclasses.nested.tensors import NestedTensor, Raggedness, plain, rule

__all__ = ["raggedness"]

#: Functions of elements, which run on the values.
_ELEMENTWISE = """
    abs add sub subtract mul multiply div divide true_divide pow neg negative exp exp2 expm1
    log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh cosh
    tanh sigmoid erf floor ceil round trunc frac sign clamp clip clamp_min clamp_max relu
    relu6 gelu silu mish elu masked_fill selu celu leaky_relu softplus hardtanh hardsigmoid
    hardswish logsigmoid softsign tanhshrink threshold remainder fmod floor_divide maximum
    minimum atan2 where eq ne lt le gt ge isnan isinf isfinite logical_and logical_or
    logical_not logical_xor bitwise_and bitwise_or bitwise_not nan_to_num dropout
    alpha_dropout feature_dropout to type float double half bfloat16 int long bool cpu cuda
    clone detach detach_ contiguous requires_grad_ zero_ fill_ zeros_like ones_like empty_like
    full_like rand_like randn_like copy_ lerp addcmul addcdiv positive __eq__ __ne__ __rsub__
    __rpow__ __rtruediv__ __rdiv__ __floordiv__ __rfloordiv__ __pow__ __invert__ invert add_
    sub_ mul_ div_ relu_ exp_ neg_ sigmoid_ tanh_ clamp_ masked_fill_ pow_ resolve_conj
    resolve_neg float_power xlogy hypot rsub register_hook retain_grad
"""
#: What gives values of another kind than elements.
_PLAIN = """
    is_floating_point is_complex element_size is_pinned data_ptr storage_offset is_contiguous
    get_device __hash__ is_leaf __len__
"""


def raggedness(offsets: Tensor, lengths: Tensor | None = None) -> Raggedness:
    """The raggedness of these offsets; the same one for the same tensor."""
    key = (id(offsets), id(lengths))
    found = _known.get(key)
    if found is None or found.offsets is not offsets or found.given_lengths is not lengths:
        found = _known[key] = Raggedness(offsets, lengths)
        while len(_known) > 64:
            _known.popitem(last=False)
    return found


#: The latest ones, by the identity of their tensors, which they hold.
_known: OrderedDict[tuple[int, int], Raggedness] = OrderedDict()


def _first(args: Sequence[Any]) -> NestedTensor:
    for arg in args:
        if isinstance(arg, NestedTensor):
            return arg
        if isinstance(arg, (tuple, list)):
            for part in arg:
                if isinstance(part, NestedTensor):
                    return part
    raise LazytError("a nested tensor is needed")


def _operand(nested: NestedTensor, value: Any) -> Any:
    """An operand beside a nested tensor, by the rows of its values."""
    if isinstance(value, NestedTensor):
        if not _agree(nested, value):
            raise LazytError(
                "cannot call binary pointwise function with inputs of shapes "
                f"{_shape_text(nested)} and {_shape_text(value)}"
            )
        return plain(value)
    if not isinstance(value, Tensor) or value.ndim == 0 or value.numel() == 1:
        return value
    return _rows(nested, value)


def _agree(a: NestedTensor, b: NestedTensor) -> bool:
    if (a.shapes is None) != (b.shapes is None):
        return False
    if a.shapes is not None:
        return a.shapes == b.shapes
    same = a.ragged is b.ragged or a.ragged.offsets is b.ragged.offsets
    return same and a.ragged_at == b.ragged_at


def _shape_text(nested: NestedTensor) -> str:
    return repr(nested.shape if nested.shapes is None else nested.shapes)


def _rows(nested: NestedTensor, value: Tensor) -> Tensor:
    """A plain tensor that broadcasts with a nested one, for its values."""
    if nested.shapes is not None:
        parts = value.unbind() if value.ndim == nested.ndim else [value] * nested.count
        flat = [part.expand(shape).reshape(-1) for part, shape in zip(parts, nested.shapes)]
        return lazyt.cat(flat)
    rank, at = nested.ndim, nested.ragged_at
    if value.ndim < rank - at or value.ndim + at - rank == 0:
        return value  # broadcasts along the dimensions behind
    missing = rank - value.ndim
    full = value.reshape((1,) * missing + tuple(value.shape))
    if full.shape[at] != 1:
        raise ShapeError(
            f"a tensor of sizes {tuple(value.shape)} does not broadcast with a nested tensor of "
            f"{_shape_text(nested)}"
        )
    batch = nested.count
    if full.shape[0] not in (1, batch):
        raise ShapeError(f"the batch has {batch} tensors, not {full.shape[0]}")
    if full.shape[0] == 1:
        return full[0]
    owners = nested.ragged.owners().to(value.device)
    return full.squeeze(at)[owners].movedim(0, at - 1) if at > 1 else full[:, 0][owners]


def _elementwise(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    nested = _first((*args, *kwargs.values()))
    given = [_operand(nested, arg) for arg in args]
    named = {name: _operand(nested, value) for name, value in kwargs.items()}
    found = func(*given, **named)
    if args and found is given[0] and isinstance(args[0], NestedTensor):
        return args[0]  # written over
    return nested.like(found) if isinstance(found, Tensor) else found


for _name in _ELEMENTWISE.split():
    rule(_name)(_elementwise)


def _on_values(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return func(*[plain(a) if isinstance(a, NestedTensor) else a for a in args], **kwargs)


for _name in _PLAIN.split():
    rule(_name)(_on_values)


@rule("requires_grad_", "detach_", "retain_grad", "register_hook")
def _in_place(func: Callable[..., Any], self: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    found = func(self, *args, **kwargs)  # the object itself is the leaf
    return self if isinstance(found, Tensor) else found


@rule("backward", "_tensor_backward")
def _backward(
    func: Callable[..., Any], self: Any, gradient: Any = None, *args: Any, **kw: Any
) -> Any:
    weights = plain(gradient) if isinstance(gradient, NestedTensor) else gradient
    return func(plain(self) if isinstance(self, NestedTensor) else self, weights, *args, **kw)


# ------------------------------------------------------------------ layers and products


def _by_parts(nested: NestedTensor, of_part: Callable[[Tensor], Tensor]) -> NestedTensor:
    """A function of each tensor, for the strided layout."""
    found = [of_part(part) for part in nested.parts()]
    values = lazyt.cat([part.reshape(-1) for part in found])
    ends = [0]
    for part in found:
        ends.append(ends[-1] + part.numel())
    offsets = Raggedness(lazyt.tensor(ends, dtype=lazyt.int64))
    return NestedTensor.over(values, offsets, 1, [tuple(part.shape) for part in found])


@rule("linear")
def _linear(func: Any, input: NestedTensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if input.shapes is not None:
        return _by_parts(input, lambda part: F.linear(part, weight, bias))
    _check_behind(input, "linear")
    return input.like(F.linear(plain(input), weight, bias))


@rule("matmul", "__matmul__", "mm", "bmm")
def _matmul(func: Any, a: Any, b: Any) -> Any:
    if isinstance(a, NestedTensor) and not isinstance(b, NestedTensor):
        if a.shapes is not None:
            each = b.unbind() if b.ndim > 2 else [b] * a.count
            rows = iter(each)
            return _by_parts(a, lambda part: part @ next(rows))
        _check_behind(a, "matmul")
        if b.ndim <= 2:
            return a.like(plain(a) @ b)
        joined = [part @ other for part, other in zip(a.parts(), b.unbind())]
        return a.like(lazyt.cat(joined, a.ragged_at - 1))
    nested = _first((a, b))
    pairs = zip(*(v.parts() if isinstance(v, NestedTensor) else v.unbind() for v in (a, b)))
    found = [left @ right for left, right in pairs]
    if len({part.shape for part in found}) == 1 and nested.shapes is None:
        return lazyt.stack(found)
    if nested.shapes is None and found[0].shape[-1] != nested.parts()[0].shape[-1]:
        return nested.like(lazyt.cat(found, nested.ragged_at - 1))
    return _by_parts(nested, _next_of(found))


def _next_of(found: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    rows = iter(found)
    return lambda _: next(rows)


def _check_behind(nested: NestedTensor, name: str) -> None:
    if nested.ragged_at >= nested.ndim - 1:
        raise LazytError(f"{name}(): the last dimension has several lengths")


@rule("layer_norm", "rms_norm")
def _normalized(
    func: Any, input: NestedTensor, normalized_shape: Any, *args: Any, **kw: Any
) -> Any:
    if input.shapes is not None:
        return _by_parts(input, lambda part: func(part, normalized_shape, *args, **kw))
    shape = normalized_shape if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,)
    if len(shape) > input.ndim - 1 - input.ragged_at:
        raise LazytError("layer_norm(): normalizing over ragged dim not supported for NestedTensor")
    return input.like(func(plain(input), normalized_shape, *args, **kw))


@rule("embedding")
def _embedding(func: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    return input.like(func(plain(input), *args, **kwargs))


@rule("scaled_dot_product_attention")
def _attention(
    func: Any, query: NestedTensor, key: NestedTensor, value: NestedTensor, attn_mask: Any = None,
    dropout_p: float = 0.0, is_causal: bool = False, **more: Any,
) -> Any:  # fmt: skip
    if attn_mask is not None:
        raise LazytError("scaled_dot_product_attention(): nested tensors take no attn_mask")
    triples = zip(query.parts(), key.parts(), value.parts())
    if query.shapes is not None:
        found = [func(*three, None, dropout_p, is_causal, **more) for three in triples]
        return _by_parts(query, _next_of(found))
    joined = [func(*three, None, dropout_p, is_causal, **more) for three in triples]
    return query.like(lazyt.cat(joined, query.ragged_at - 1))


# ----------------------------------------------------------------------------- reductions


def _axes(nested: NestedTensor, dim: Any) -> list[int]:
    given = dim if isinstance(dim, (tuple, list)) else (dim,)
    for axis in given:
        if not -nested.ndim <= axis < nested.ndim:
            raise BoundsError(f"Dimension out of range for a nested tensor: {axis}")
    return [axis % nested.ndim for axis in given]


@rule("sum", "mean", "amax", "amin", "max", "min", "prod", "any", "all", "norm", "std", "var")
def _reduced(
    func: Any, input: NestedTensor, dim: Any = None, keepdim: bool = False, **kw: Any
) -> Any:
    name = func.__name__
    if dim is None:
        return func(plain(input), **kw)
    axes = _axes(input, dim)
    if input.shapes is not None or 0 in axes:
        if 0 in axes and input.shapes is None and input.ragged_at in axes:
            inner = [axis - 1 for axis in axes if axis]
            return func(plain(input), inner, keepdim=keepdim, **kw)
        raise LazytError(f"{name}(): not supported along dimension 0 of this nested tensor")
    if input.ragged_at not in axes:
        inner = [axis - 1 for axis in axes]
        found = func(plain(input), inner if len(inner) > 1 else inner[0], keepdim=keepdim, **kw)
        shift = 0 if keepdim else sum(axis < input.ragged_at for axis in axes)

        def nested(values: Tensor) -> NestedTensor:
            return NestedTensor.over(values, input.ragged, input.ragged_at - shift)

        if isinstance(found, Tensor):
            return nested(found)
        return type(found)([nested(part) for part in found])
    inner = [axis - 1 for axis in axes]
    rows = [
        func(part, inner if len(inner) > 1 else inner[0], keepdim=keepdim, **kw)
        for part in input.parts()
    ]
    if isinstance(rows[0], Tensor):
        return lazyt.stack(rows)
    return type(rows[0])([lazyt.stack(list(parts)) for parts in zip(*rows)])


@rule("softmax", "log_softmax")
def _softmax(func: Any, input: NestedTensor, dim: Any = None, *args: Any, **kw: Any) -> Any:
    axis = _axes(input, -1 if dim is None else dim)[0]
    if axis == 0:
        raise LazytError(f"{func.__name__}(): not supported along dimension 0")
    if input.shapes is not None:
        return _by_parts(input, lambda part: func(part, axis - 1, *args, **kw))
    if axis != input.ragged_at:
        return input.like(func(plain(input), axis - 1, *args, **kw))
    rows = [func(part, axis - 1, *args, **kw) for part in input.parts()]
    return input.like(lazyt.cat(rows, input.ragged_at - 1))


# ------------------------------------------------------------------------------- shapes


@rule("transpose", "swapaxes", "swapdims")
def _transpose(func: Any, input: NestedTensor, dim0: int, dim1: int) -> Any:
    a, b = _axes(input, (dim0, dim1))
    if 0 in (a, b):
        raise LazytError("transpose(): the batch dimension of a nested tensor stays the first")
    if input.shapes is not None:
        return _by_parts(input, lambda part: part.transpose(a - 1, b - 1))
    at = {a: b, b: a}.get(input.ragged_at, input.ragged_at)
    return NestedTensor.over(plain(input).transpose(a - 1, b - 1), input.ragged, at)


@rule("unflatten")
def _unflatten(func: Any, input: NestedTensor, dim: int, sizes: Sequence[int]) -> Any:
    axis = _axes(input, dim)[0]
    if axis in (0, input.ragged_at) or input.shapes is not None:
        raise LazytError("unflatten(): only regular dimensions of jagged tensors can be split")
    at = input.ragged_at + (len(sizes) - 1 if axis < input.ragged_at else 0)
    return NestedTensor.over(plain(input).unflatten(axis - 1, sizes), input.ragged, at)


@rule("flatten")
def _flatten(func: Any, input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    first, last = _axes(input, (start_dim, end_dim))
    if (
        (first <= input.ragged_at <= last and first != last)
        or first == 0
        or input.shapes is not None
    ):
        raise LazytError("flatten(): only regular dimensions of jagged tensors can be joined")
    at = input.ragged_at - (last - first if last < input.ragged_at else 0)
    return NestedTensor.over(plain(input).flatten(first - 1, last - 1), input.ragged, at)


@rule("view", "reshape", "expand")
def _view(func: Any, input: NestedTensor, *shape: Any) -> Any:
    from lazyt.subclasses.nested.tensors import NestedInt

    sizes = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
    if input.shapes is not None:
        raise LazytError(f"{func.__name__}(): only for nested tensors of the layout torch.jagged")
    symbols = [n for n, size in enumerate(sizes) if isinstance(size, NestedInt)]
    at = symbols[0] if symbols else next((n for n, s in enumerate(sizes) if s == -1 and n), 1)
    total = plain(input).shape[input.ragged_at - 1]
    inner = [total if n == at else size for n, size in enumerate(sizes)][1:]
    return NestedTensor.over(getattr(plain(input), func.__name__)(inner), input.ragged, at)


@rule("unsqueeze")
def _unsqueeze(func: Any, input: NestedTensor, dim: int) -> Any:
    axis = dim % (input.ndim + 1)
    if axis == 0 or input.shapes is not None:
        raise LazytError("unsqueeze(): not along the batch dimension of a nested tensor")
    at = input.ragged_at + (axis <= input.ragged_at)
    return NestedTensor.over(plain(input).unsqueeze(axis - 1), input.ragged, at)


@rule("squeeze")
def _squeeze(func: Any, input: NestedTensor, dim: int) -> Any:
    axis = _axes(input, dim)[0]
    if axis in (0, input.ragged_at) or input.shapes is not None:
        raise LazytError("squeeze(): not along the batch or ragged dimension of a nested tensor")
    at = input.ragged_at - (axis < input.ragged_at)
    return NestedTensor.over(plain(input).squeeze(axis - 1), input.ragged, at)


@rule("chunk", "split", "narrow", "select", "index_select")
def _cut(func: Any, input: NestedTensor, amount: Any, *rest: Any, **kwargs: Any) -> Any:
    by_amount = func.__name__ in ("chunk", "split")
    if by_amount:
        dim = kwargs.pop("dim", rest[0] if rest else 0)
    else:
        dim = amount
    axis = _axes(input, dim)[0]
    if func.__name__ == "select" and axis == 0:
        return input.parts()[rest[0]]
    if axis in (0, input.ragged_at) or input.shapes is not None:
        raise LazytError(f"{func.__name__}(): only along regular dimensions of jagged tensors")
    if by_amount:
        found = getattr(plain(input), func.__name__)(amount, axis - 1)
        return tuple(input.like(part) for part in found)
    cut = getattr(plain(input), func.__name__)(axis - 1, *rest, **kwargs)
    at = input.ragged_at - (func.__name__ == "select" and axis < input.ragged_at)
    return NestedTensor.over(cut, input.ragged, at)


@rule("cat", "concat")
def _cat(func: Any, tensors: Sequence[Any], dim: int = 0, **_: Any) -> Any:
    nested = _first(tensors)
    axis = _axes(nested, dim)[0]
    if axis in (0, nested.ragged_at) or nested.shapes is not None:
        raise LazytError("cat(): only along regular dimensions of jagged tensors")
    return nested.like(lazyt.cat([_operand(nested, tensor) for tensor in tensors], axis - 1))


@rule("__getitem__", "getitem")
def _item(func: Any, input: NestedTensor, index: Any) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    first, rest = parts[0], parts[1:]
    if isinstance(first, int):
        found = input.parts()[first]
        return found[rest] if rest else found
    if first in (slice(None), Ellipsis) and input.shapes is None:
        if first is Ellipsis:
            return input.like(plain(input)[index])
        if len(rest) < input.ragged_at or rest[input.ragged_at - 1] == slice(None):
            return input.like(plain(input)[rest]) if rest else input
    raise LazytError("this index is not supported for nested tensors: take nested.unbind()")


@rule("equal", "allclose")
def _equal(func: Any, a: Any, b: Any, **kwargs: Any) -> bool:
    if not (isinstance(a, NestedTensor) and isinstance(b, NestedTensor)):
        return False
    pairs = list(zip(a.parts(), b.parts()))
    if a.count != b.count or any(x.shape != y.shape for x, y in pairs):
        return False
    return all(bool(func(x, y, **kwargs)) for x, y in pairs)


@rule("item", "tolist", "numpy", "__bool__", "__float__")
def _number(func: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    if func.__name__ == "tolist":
        return [part.tolist() for part in input.parts()]
    if input.numel() == 1:
        return func(plain(input).reshape(()), *args, **kwargs)
    raise LazytError(f"{func.__name__} does not take nested tensors: take nested.unbind()")


@rule("is_same_size", "is_nested", "size", "dim", "numel")
def _facts(func: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    return getattr(input, func.__name__)(*args, **kwargs)
