"""What ``autograd.functional`` demands of arguments, and of results when it is strict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt.autograd.handles import zero_like
from lazyt.errors import GradientError
from lazyt.tensor import Tensor

_NOT_STRICT = " This is not allowed in strict mode."
_STAGES = {
    "back": "The output of the user-provided function is independent of input {0}." + _NOT_STRICT,
    "back_trick": (
        "The gradient with respect to the input is independent of entry {0} in the grad_outputs "
        "when using the double backward trick to compute forward mode gradients." + _NOT_STRICT
    ),
    "double_back": (
        "The jacobian of the user-provided function is independent of input {0}." + _NOT_STRICT
    ),
    "double_back_trick": (
        "The hessian of the user-provided function is independent of entry {0} in the "
        "grad_jacobian. This is not allowed in strict mode as it prevents from using the double "
        "backward trick to replace forward mode AD."
    ),
}
_REQUIRED = {
    "outputs": (
        "Output {0} of the user-provided function does not require gradients. The outputs must be "
        "computed in a differentiable manner from the input when running in strict mode."
    ),
    "grad_inputs": (
        "The gradient with respect to input {0} is independent of the inputs of the user-provided "
        "function." + _NOT_STRICT
    ),
    "jacobian": (
        "While computing the hessian, found that the jacobian of the user-provided function with "
        "respect to input {0} is independent of the input." + _NOT_STRICT + " You should ensure "
        "that your function is twice differentiable and that the jacobian depends on the inputs "
        "(this would be violated by a linear function for example)."
    ),
    "hessian": (
        "The hessian of the user-provided function with respect to input {0} is independent of the "
        "input." + _NOT_STRICT + " You should ensure that your function is thrice differentiable "
        "and that the hessian depends on the inputs."
    ),
}


def several(value: Any, what: str, function: str) -> tuple[bool, tuple[Tensor, ...]]:
    """Whether ``value`` is a tuple, and its tensors."""
    given = isinstance(value, tuple)
    items = value if given else (value,)
    for index, item in enumerate(items):
        if not isinstance(item, Tensor):
            where = f"value at index {index}" if given else f"given {what}"
            raise TypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors "
                f"but the {where} has type {type(item)}."
            )
    return given, items


def require(tensors: Sequence[Tensor | None], what: str, strict: bool) -> None:
    """Raise GradientError, under ``strict``, for what requires no gradient."""
    if not strict:
        return
    for index, tensor in enumerate(tensors):
        if tensor is None:
            raise GradientError(_STAGES["back"].format(index))
        if not tensor.requires_grad:
            raise GradientError(_REQUIRED[what].format(index))


def filled(
    grads: Sequence[Tensor | None], like: Sequence[Tensor], strict: bool, create_graph: bool,
    stage: str,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Zeros for what is missing; raises GradientError under ``strict``."""
    found = []
    for index, (item, other) in enumerate(zip(grads, like)):
        if item is None:
            if strict:
                raise GradientError(_STAGES[stage].format(index))
            item = zero_like(other)
        elif strict and create_graph and not item.requires_grad:
            order = "hessian" if "double" in stage else "jacobian"
            raise GradientError(
                f"The {order} of the user-provided function is independent of input {index}. This "
                "is not allowed in strict mode when create_graph=True."
            )
        found.append(item)
    return tuple(found)
