"""Which operators of ``torch.ops.aten`` PyTorch's functions are made of, where that is not the one
of their name.

Each function here takes ``emit(name, *args, **kwargs)``, which calls an operator, and the
arguments of a function or method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from lazyt.handle.layout import contiguous_format
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)

__all__ = ["COMPOSITES", "PASSIVE", "RENAMED"]

Emit = Callable[..., Any]
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}

#: What looks at a tensor, or at its history, and calls no operator.
PASSIVE = frozenset(
    """
    __array__ __deepcopy__ __dir__ __dlpack__ __dlpack_device__ __format__ __get__ __hash__ __len__
    __reduce_ex__ __repr__ __set__ __setstate__ as_subclass backward data_ptr dim dim_order
    element_size get_device grad has_names is_complex is_conj is_contiguous is_floating_point
    is_inference is_neg is_nonzero is_pinned is_same_size is_set_to is_shared is_signed is_storage
    is_tensor ndimension nelement numel numpy register_hook register_post_accumulate_grad_hook
    requires_grad_ result_type retain_grad share_memory_ size storage storage_offset storage_type
    stride tolist typename untyped_storage
    """.split()  # noqa: SIM905
)
#: Operators of other names, by methods behind Python's and by functions.
RENAMED = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_",
    "__mul__": "mul", "__rmul__": "mul", "__imul__": "mul_", "__truediv__": "div",
    "__itruediv__": "div_", "__neg__": "neg", "__abs__": "abs", "__pow__": "pow",
    "__ipow__": "pow_", "__floordiv__": "floor_divide", "__mod__": "remainder",
    "__imod__": "remainder_", "__and__": "bitwise_and", "__or__": "bitwise_or",
    "__xor__": "bitwise_xor", "__invert__": "bitwise_not", "__eq__": "eq", "__ne__": "ne",
    "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__matmul__": "matmul",
    "multiply": "mul", "divide": "div", "true_divide": "div",
    "subtract": "sub", "negative": "neg", "absolute": "abs", "greater": "gt", "less": "lt",
    "greater_equal": "ge", "less_equal": "le", "not_equal": "ne", "concat": "cat",
    "concatenate": "cat", "swapaxes": "transpose", "swapdims": "transpose", "clip": "clamp",
    "moveaxis": "movedim", "permute_dims": "permute", "arccos": "acos", "arcsin": "asin",
    "arctan": "atan", "logsigmoid": "log_sigmoid_forward", "adaptive_avg_pool2d":
    "_adaptive_avg_pool2d", "fix": "trunc", "inverse": "linalg_inv_ex",
}  # fmt: skip


# ---------------------------------------------------------------------------- products


def _linear(emit: Emit, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if weight.ndim != 2 or input.ndim < 2:
        return emit("linear", input, weight, bias)
    transposed = emit("t", weight)
    lead = tuple(input.shape[:-1])
    flat = input if input.ndim == 2 else _reshape(emit, input, (prod(lead), input.shape[-1]))
    found = emit("mm", flat, transposed) if bias is None else emit("addmm", bias, flat, transposed)
    if input.ndim == 2:
        return found
    return emit("view" if bias is not None else "_unsafe_view", found, [*lead, weight.shape[0]])


def _matmul(emit: Emit, input: Tensor, other: Tensor) -> Any:
    a, b = input.ndim, other.ndim
    if a == 1 and b == 1:
        return emit("dot", input, other)
    if a == 2 and b == 1:
        return emit("mv", input, other)
    if a == 1 and b == 2:
        return emit("squeeze_", emit("mm", emit("unsqueeze", input, 0), other), 0)
    if a == 2 and b == 2:
        return emit("mm", input, other)
    if a > 2 and b <= 2:
        lead = list(input.shape[:-1])
        flat = _reshape(emit, input, (prod(lead), input.shape[-1]))
        if b == 1:
            return emit("_unsafe_view", emit("mv", flat, other), lead)
        return emit("_unsafe_view", emit("mm", flat, other), [*lead, other.shape[-1]])
    one = input if a > 1 else emit("unsqueeze", input, 0)
    two = other if b > 1 else emit("unsqueeze", other, 1)
    lead = _broadcast(tuple(one.shape[:-2]), tuple(two.shape[:-2]))
    parts = []
    for item in (one, two):
        wide = emit("expand", item, [*lead, *item.shape[-2:]])
        parts.append(_reshape(emit, wide, (prod(lead), *item.shape[-2:])))
    shape = [*lead, *([one.shape[-2]] if a > 1 else []), *([two.shape[-1]] if b > 1 else [])]
    return emit("_unsafe_view", emit("bmm", *parts), shape)


def _broadcast(one: Sequence[int], other: Sequence[int]) -> list[int]:
    rank = max(len(one), len(other))
    a = (1,) * (rank - len(one)) + tuple(one)
    b = (1,) * (rank - len(other)) + tuple(other)
    return [n if m == 1 else m for m, n in zip(a, b)]


# ---------------------------------------------------------------------------- shapes


def _sizes(given: tuple[Any, ...]) -> list[int]:
    whole = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    return [int(size) for size in whole]


def _filled(shape: Sequence[int], count: int) -> tuple[int, ...]:
    known = prod(size for size in shape if size >= 0)
    return tuple(count // known if size < 0 and known else size for size in shape)


def _reshape(emit: Emit, input: Tensor, *shape: Any, **named: Any) -> Any:
    wanted = _filled(_sizes(shape or (named["shape"],)), input.numel())
    if _can_view(input, wanted):
        return emit("view", input, list(wanted))
    whole = emit("clone", input, memory_format=contiguous_format)
    return emit("_unsafe_view", whole, list(wanted))


def _can_view(input: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether a shape is another look at the memory, as rows of it that lie behind each other."""
    sizes = [(n, s) for n, s in zip(input.shape, input.stride()) if n != 1]
    runs: list[tuple[int, int]] = []
    for size, step in sizes:
        if runs and runs[-1][1] == size * step:
            runs[-1] = runs[-1][0] * size, step
        else:
            runs.append((size, step))
    left = [n for n in shape if n != 1]
    for size, _ in runs:
        done = 1
        while done < size and left:
            done *= left.pop(0)
        if done != size:
            return False
    return True


def _flatten(emit: Emit, input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    rank = max(input.ndim, 1)
    first, last = start_dim % rank, end_dim % rank
    if input.ndim and first == last:
        return input
    shape = tuple(input.shape)
    joined = prod(shape[first : last + 1])
    return _reshape(emit, input, (*shape[:first], joined, *shape[last + 1 :]))


def _contiguous(emit: Emit, input: Tensor, **named: Any) -> Any:
    if not named and input.is_contiguous():
        return input
    return emit("clone", input, **named)


def _chunk(emit: Emit, input: Tensor, chunks: int, dim: int = 0) -> Any:
    return emit("split", input, max(-(-input.shape[dim] // chunks), 1), dim)


def _transposed(emit: Emit, input: Tensor) -> Any:
    return (
        emit("t", input) if input.ndim <= 2 else emit("permute", input, [*range(input.ndim)][::-1])
    )


def _getitem(emit: Emit, input: Tensor, index: Any) -> Any:
    parts = list(index) if isinstance(index, tuple) else [index]
    known = (int, slice, type(None), type(Ellipsis), Tensor)
    if any(isinstance(part, bool) or not isinstance(part, known) for part in parts):
        return NotImplemented
    taken = sum(isinstance(part, (int, slice, Tensor)) for part in parts)
    if any(isinstance(p, Tensor) and p.dtype in (bool_, uint8) for p in parts):
        taken += sum(
            p.ndim - 1 for p in parts if isinstance(p, Tensor) and p.dtype in (bool_, uint8)
        )
    dim, found, tensors = 0, input, dict[int, Tensor]()
    for part in parts:
        if part is Ellipsis:
            dim += input.ndim - taken
        elif part is None:
            found = emit("unsqueeze", found, dim)
            dim += 1
        elif isinstance(part, slice):
            if part != slice(None):
                start, stop = part.start, part.stop
                step = 1 if part.step is None else part.step
                found = emit("slice", found, dim, start, stop, step)
            dim += 1
        elif isinstance(part, Tensor):
            tensors[dim] = part
            dim += part.ndim if part.dtype in (bool_, uint8) else 1
        else:
            found = emit("select", found, dim, part)
    if tensors:
        last = max(tensors)
        found = emit("index", found, [tensors.get(place) for place in range(last + 1)])
    return found if found is not input else emit("alias", input)


def _setitem(emit: Emit, input: Tensor, index: Any, value: Any) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, (Tensor, list)) for part in parts):
        return NotImplemented
    target = _getitem(emit, input, index)
    if target is NotImplemented:
        return target
    if isinstance(value, Tensor):
        emit("copy_", target, value)
    else:
        emit("fill_", target, value)
    return None


# ---------------------------------------------------------------------------- dtypes, numbers


def _to(emit: Emit, input: Tensor, *args: Any, **named: Any) -> Any:
    plain = {name: named.pop(name) for name in ("dtype", "device") if named.get(name) is not None}
    for value in args:
        if isinstance(value, Tensor):
            plain |= {"dtype": value.dtype, "device": value.device}
        elif isinstance(value, DType):
            plain["dtype"] = value
        elif not isinstance(value, bool):
            plain["device"] = value
    place = plain.get("device")
    same = plain.get("dtype", input.dtype) is input.dtype and not named.get("copy")
    if same and (place is None or str(place) == str(input.device)):
        return input if named.get("memory_format") is None else NotImplemented
    return emit("_to_copy", input, **plain)


def _cast(dtype: DType) -> Callable[..., Any]:
    return lambda emit, input: _to(emit, input, dtype)


def _number(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda emit, input: kind(emit("_local_scalar_dense", input))


def _item(emit: Emit, input: Tensor) -> Any:
    return emit("_local_scalar_dense", input)


def _spread(name: str) -> Callable[..., Any]:
    """``std`` and ``var``, with what is subtracted from the count."""

    def function(
        emit: Emit, input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
        *, correction: Any = None,
    ) -> Any:  # fmt: skip
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None and unbiased is not None:
            correction = int(unbiased)
        dims = [dim] if isinstance(dim, int) else dim
        more = {} if correction is None else {"correction": correction}
        more |= {"keepdim": True} if keepdim else {}
        return emit(f"{name}.correction", input, dims, **more)

    return function


def _norm(
    emit: Emit, input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False,
    out: Any = None, dtype: Any = None,
) -> Any:  # fmt: skip
    if p == "nuc" or out is not None:
        return NotImplemented
    dims = [dim] if isinstance(dim, int) else dim
    more = {} if dtype is None else {"dtype": dtype}
    order = 2 if p == "fro" or p is None else p
    return emit("linalg_vector_norm", input, order, dims, keepdim, **more)


def _rpow(emit: Emit, input: Tensor, other: Any) -> Any:
    return emit("pow", other, input)


def _rdiv(emit: Emit, input: Tensor, other: Any) -> Any:
    return emit("mul", emit("reciprocal", input), other)


def _rsub(emit: Emit, input: Tensor, other: Any) -> Any:
    return emit("rsub.Tensor" if isinstance(other, Tensor) else "rsub.Scalar", input, other)


def _where(emit: Emit, condition: Tensor, *given: Any, **named: Any) -> Any:
    values = [*given, *(named[n] for n in ("input", "other") if n in named)]
    if len(values) != 2:
        return NotImplemented
    like = next((v.dtype for v in values if isinstance(v, Tensor)), None)
    if like is None:
        return emit("where", condition, *values)
    values = [v if isinstance(v, Tensor) else emit("scalar_tensor", v, dtype=like) for v in values]
    return emit("where", condition, *values)


def _outer(emit: Emit, input: Tensor, vec2: Tensor) -> Any:
    return emit("mul", emit("view", input, [-1, 1]), vec2)


# ---------------------------------------------------------------------------- layers


def _softmax(name: str) -> Callable[..., Any]:
    def function(
        emit: Emit, input: Tensor, dim: Any = None, _stacklevel: int = 3, dtype: Any = None
    ) -> Any:
        if dim is None:
            return NotImplemented
        if dtype is not None and dtype is not input.dtype:
            input = emit("_to_copy", input, dtype=dtype)
        return emit(name, input, dim, False)

    return function


def _activation(name: str) -> Callable[..., Any]:
    """One with ``inplace=``."""

    def function(emit: Emit, input: Tensor, *args: Any, inplace: bool = False, **named: Any) -> Any:
        if args and isinstance(args[-1], bool):
            *rest, inplace = args
            args = tuple(rest)
        return emit(f"{name}_" if inplace else name, input, *args, **named)

    return function


def _convolution(rank: int, transposed: bool = False) -> Callable[..., Any]:
    def spread(value: Any) -> list[int]:
        return [int(value)] * rank if isinstance(value, int) else [int(v) for v in value]

    def plain(
        emit: Emit, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        if isinstance(padding, str) or input.ndim != rank + 2:
            return NotImplemented
        steps = spread(stride), spread(padding), spread(dilation)
        return emit("convolution", input, weight, bias, *steps, False, [0] * rank, groups)

    def back(
        emit: Emit, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Any:  # fmt: skip
        if input.ndim != rank + 2:
            return NotImplemented
        steps, more = (spread(stride), spread(padding), spread(dilation)), spread(output_padding)
        return emit("convolution", input, weight, bias, *steps, True, more, groups)

    return back if transposed else plain


def _max_pool2d(
    emit: Emit, input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    def pair(value: Any) -> list[int]:
        return [value, value] if isinstance(value, int) else list(value)

    steps = pair(kernel_size if stride is None else stride)
    size = pair(kernel_size), steps, pair(padding), pair(dilation)
    found = emit("max_pool2d_with_indices", input, *size, ceil_mode)
    return found if return_indices else found[0]


def _batch_norm(
    emit: Emit, input: Tensor, running_mean: Any, running_var: Any, weight: Any = None,
    bias: Any = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    statistics = running_mean, running_var
    return emit(
        "native_batch_norm", input, weight, bias, *statistics, training, momentum, eps
    )[0]  # fmt: skip


def _layer_norm(
    emit: Emit, input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    return emit("native_layer_norm", input, shape, weight, bias, eps)[0]


def _group_norm(
    emit: Emit, input: Tensor, num_groups: int, weight: Any = None, bias: Any = None,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    count, channels, rest = input.shape[0], input.shape[1], prod(input.shape[2:])
    sizes = count, channels, rest, num_groups
    return emit("native_group_norm", input, weight, bias, *sizes, eps)[0]


def _dropout(
    emit: Emit, input: Tensor, p: float = 0.5, training: bool = True, inplace: Any = False
) -> Any:
    if inplace or not training or not p:
        return NotImplemented
    return emit("native_dropout", input, p, True)[0]


def _embedding(
    emit: Emit, input: Tensor, weight: Tensor, padding_idx: Any = None, max_norm: Any = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    if max_norm is not None:
        return NotImplemented
    place = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return emit("embedding", weight, input, place, scale_grad_by_freq, sparse)


def _loss(name: str) -> Callable[..., Any]:
    def function(
        emit: Emit, input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
        reduction: str = "mean", *args: Any, **named: Any,
    ) -> Any:  # fmt: skip
        more = size_average, reduce, *args, *named.values()
        if any(value is not None for value in more):
            return NotImplemented
        return emit(name, input, target, _REDUCTIONS[reduction])

    return function


def _nll_loss(
    emit: Emit, input: Tensor, target: Tensor, weight: Any = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    if size_average is not None or reduce is not None or input.ndim > 2:
        return NotImplemented
    more = weight, _REDUCTIONS[reduction], ignore_index
    return emit("nll_loss_forward", input, target, *more)[0]


def _cross_entropy(
    emit: Emit, input: Tensor, target: Tensor, weight: Any = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    if size_average is not None or reduce is not None:
        return NotImplemented
    if label_smoothing or input.ndim != 2 or target.dtype.kind == "f":
        return NotImplemented
    logs = emit("_log_softmax", input, 1, False)
    more = weight, _REDUCTIONS[reduction], ignore_index
    return emit("nll_loss_forward", logs, target, *more)[0]


#: By the names of functions and methods; NotImplemented for calls that are taken as a whole.
COMPOSITES: dict[str, Callable[..., Any]] = {
    "linear": _linear, "matmul": _matmul, "reshape": _reshape, "flatten": _flatten,
    "ravel": _flatten, "contiguous": _contiguous, "chunk": _chunk, "adjoint": _transposed,
    "__getitem__": _getitem, "__setitem__": _setitem, "getitem": _getitem, "setitem": _setitem,
    "outer": _outer, "ger": _outer, "where": _where,
    "__rsub__": _rsub, "rsub": _rsub, "to": _to, "type_as": _to,
    "item": _item, "__bool__": _number(bool), "__float__": _number(float),
    "__int__": _number(int), "__index__": _number(int), "std": _spread("std"),
    "var": _spread("var"), "norm": _norm, "__rpow__": _rpow, "__rtruediv__": _rdiv,
    "softmax": _softmax("_softmax"), "log_softmax": _softmax("_log_softmax"),
    "conv1d": _convolution(1), "conv2d": _convolution(2), "conv3d": _convolution(3),
    "conv_transpose1d": _convolution(1, True), "conv_transpose2d": _convolution(2, True),
    "conv_transpose3d": _convolution(3, True), "max_pool2d": _max_pool2d,
    "batch_norm": _batch_norm, "layer_norm": _layer_norm, "group_norm": _group_norm,
    "dropout": _dropout, "embedding": _embedding, "nll_loss": _nll_loss,
    "cross_entropy": _cross_entropy,
    **{n: _loss(n) for n in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")},
    **{n: _activation(n) for n in ("relu", "silu", "mish", "hardswish", "hardsigmoid", "elu",
                                   "leaky_relu", "selu", "celu", "relu6", "hardtanh")},
    "float": _cast(float32), "double": _cast(float64), "half": _cast(float16),
    "bfloat16": _cast(bfloat16), "long": _cast(int64), "int": _cast(int32),
    "short": _cast(int16), "char": _cast(int8), "byte": _cast(uint8), "bool": _cast(bool_),
}  # fmt: skip
