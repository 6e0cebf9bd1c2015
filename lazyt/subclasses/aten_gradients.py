"""Gradients of products as operators of ``torch.ops.aten``, for modes that are asked about them.

A backward of lazyt's is a graph. While a mode is entered, products are differentiated by the
operators that PyTorch has for it instead, so that a mode which counts operations sees those of the
backward, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt.autograd.function import Function
from lazyt.autograd.levels import stack
from lazyt.handle.autocast import is_autocast_enabled
from lazyt.handle.grad_mode import mode
from lazyt.handle.tensor import Tensor

__all__ = ["differentiated"]

Emit = Callable[..., Any]
#: ``(emit, cotangent, which gradients are needed, *arguments) -> gradients``.
Rule = Callable[..., Sequence[Any]]


def _mm(emit: Emit, given: Tensor, needs: Sequence[bool], a: Tensor, b: Tensor) -> Sequence[Any]:
    return (
        emit("mm", given, emit("t", b)) if needs[0] else None,
        emit("mm", emit("t", a), given) if needs[1] else None,
    )


def _addmm(
    emit: Emit, given: Tensor, needs: Sequence[bool], bias: Tensor, a: Tensor, b: Tensor,
    beta: Any = 1, alpha: Any = 1,
) -> Sequence[Any]:  # fmt: skip
    moved = given if alpha == 1 else emit("mul", given, alpha)
    products = _mm(emit, moved, needs[1:], a, b)
    if not needs[0]:
        return (None, *products)
    own = given if beta == 1 else emit("mul", given, beta)
    return (_summed(emit, own, tuple(bias.shape)), *products)


def _summed(emit: Emit, value: Tensor, shape: tuple[int, ...]) -> Any:
    """The sum of a value over the axes along which a shape was repeated."""
    extra = value.ndim - len(shape)
    axes = [n for n in range(value.ndim) if n < extra or shape[n - extra] != value.shape[n]]
    if not axes:
        return value
    return emit("view", emit("sum", value, axes, True), list(shape))


def _bmm(emit: Emit, given: Tensor, needs: Sequence[bool], a: Tensor, b: Tensor) -> Sequence[Any]:
    return (
        emit("bmm", given, emit("transpose", b, 1, 2)) if needs[0] else None,
        emit("bmm", emit("transpose", a, 1, 2), given) if needs[1] else None,
    )


def _convolution(
    emit: Emit, given: Tensor, needs: Sequence[bool], input: Tensor, weight: Tensor,
    bias: Tensor | None, *settings: Any,
) -> Sequence[Any]:  # fmt: skip
    sizes = None if bias is None else list(bias.shape)
    mask = [bool(flag) for flag in needs[:3]]
    found = emit("convolution_backward", given, input, weight, sizes, *settings, mask)
    return (*found, *[None] * len(settings))


_RULES: dict[str, Rule] = {"mm": _mm, "addmm": _addmm, "bmm": _bmm, "convolution": _convolution}


def differentiated(
    emit: Emit, name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """The result of an operator whose gradient asks modes, too; NotImplemented for others, and
    where no gradient is wanted, or more than a gradient."""
    rule = _RULES.get(name)
    if rule is None or not mode.enabled or stack.levels:
        return NotImplemented
    tensors = [value for value in args if isinstance(value, Tensor)]
    if not any(tensor.node.needs_grad for tensor in tensors):
        return NotImplemented
    if is_autocast_enabled(tensors[0].device.type):
        return NotImplemented
    given = rule

    def forward(*values: Any) -> Any:
        return function(*values, **kwargs)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*[v if isinstance(v, Tensor) else None for v in inputs])
        ctx.others = [None if isinstance(v, Tensor) else v for v in inputs]

    def backward(ctx: Any, cotangent: Tensor) -> Any:
        pairs = zip(ctx.saved_tensors, ctx.others)
        values = [other if tensor is None else tensor for tensor, other in pairs]
        found = given(emit, cotangent, ctx.needs_input_grad, *values, **kwargs)
        return tuple([*found, *[None] * len(values)][: len(values)])

    members = {"forward": forward, "setup_context": setup_context, "backward": backward}
    made: Any = type(
        name.capitalize(), (Function,), {key: staticmethod(f) for key, f in members.items()}
    )
    return made.apply(*args)
