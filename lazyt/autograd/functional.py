"""Jacobians, Hessians and products with them, by PyTorch's names (``torch.autograd.functional``).

Functions take and return one tensor or a tuple of them. Every function here has:

    create_graph: whether the result can be differentiated by the inputs.
    strict: whether to raise where an output does not depend on an input, instead of giving zeros.

and raises TypeError for what is no tensor, GradientError (a RuntimeError) for a vector ``v`` that
does not fit, and under ``strict``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt.autograd import grad as _grad
from lazyt.autograd.handles import zero_like
from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import GradientError
from lazyt.handle.dispatch import wrap
from lazyt.handle.grad_mode import enable_grad
from lazyt.handle.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


# What ``autograd.functional`` demands of arguments, and of results when it is strict.


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


Function = Callable[..., Any]


def _own(inputs: Sequence[Tensor], create_graph: bool, required: bool = True) -> Any:
    """Tensors of the inputs' values to differentiate by."""
    return tuple(
        i.view_as(i) if create_graph and i.requires_grad else i.detach().requires_grad_(required)
        for i in inputs
    )


def _finished(values: Any, create_graph: bool) -> Any:
    if isinstance(values, Tensor):
        return values if create_graph else values.detach()
    return tuple(_finished(value, create_graph) for value in values)


def _unpacked(values: Sequence[Any], given: bool) -> Any:
    return tuple(values) if given else values[0]


def _check_vector(v: Sequence[Tensor], other: Sequence[Tensor], given: bool) -> None:
    if len(v) != len(other):
        raise GradientError(
            f"v is a tuple of invalid length: should be {len(other)} but got {len(v)}."
            if given
            else "The given v should contain a single Tensor."
        )
    for index, (item, wanted) in enumerate(zip(v, other)):
        if item.shape != wanted.shape:
            entry = f"Entry {index} in " if given else ""
            raise GradientError(
                f"{entry}v has invalid size: should be {wanted.shape} but got {item.shape}."
            )


def _vector(
    v: Any, others: Sequence[Tensor], given: bool, function: str, of: str
) -> tuple[Tensor, ...]:
    if v is not None:
        _, items = several(v, "v", function)
        items = tuple(item if item.requires_grad else item.detach() for item in items)
        _check_vector(items, others, given)
        return items
    if len(others) != 1 or others[0].numel() != 1:
        raise GradientError(of)
    return (zero_like(others[0]) + 1,)


def _pull(
    outputs: Sequence[Tensor | None],
    inputs: Sequence[Tensor],
    vectors: Sequence[Tensor | None],
    create_graph: bool,
) -> tuple[Tensor | None, ...]:
    pairs = [(o, v) for o, v in zip(outputs, vectors) if o is not None and o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    kept, weights = zip(*pairs)
    return _grad(kept, inputs, weights, True, create_graph, allow_unused=True)


_ONE_ELEMENT = (
    "The vector v can only be None if the user-provided function returns a single Tensor with a "
    "single element."
)
_ONE_INPUT = (
    "The vector v can only be None if the input to the user-provided function is a single Tensor "
    "with a single element."
)


def _called(
    func: Function, own: tuple[Tensor, ...], name: str, strict: bool
) -> tuple[bool, tuple[Tensor, ...]]:
    """Whether the function gives a tuple, and its outputs as one."""
    is_tuple, outputs = several(func(*own), "outputs of the user-provided function", name)
    require(outputs, "outputs", strict)
    return is_tuple, outputs


def _both(
    outputs: Any, outs_tuple: bool, product: Any, is_tuple: bool, create_graph: bool
) -> tuple[Any, Any]:
    """Outputs and a product as they are handed out."""
    return (
        _unpacked(_finished(outputs, create_graph), outs_tuple),
        _unpacked(_finished(product, create_graph), is_tuple),
    )


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``func(*inputs)``, and the product of the vector ``v`` with its Jacobian.

    ``v`` is like the output; it may be left out for an output of one element.
    """
    with enable_grad():
        is_tuple, given = several(inputs, "inputs", "vjp")
        own = _own(given, create_graph)
        outs_tuple, outputs = _called(func, own, "vjp", strict)
        vectors = _vector(v, outputs, outs_tuple, "vjp", _ONE_ELEMENT)
        grads = _pull(outputs, own, vectors, create_graph)
        product = filled(grads, given, strict, create_graph, "back")
    return _both(outputs, outs_tuple, product, is_tuple, create_graph)


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``func(*inputs)``, and the product of its Jacobian with the vector ``v``.

    ``v`` is like the inputs; it may be left out for an input of one element.
    """
    with enable_grad():
        is_tuple, given = several(inputs, "inputs", "jvp")
        own = _own(given, create_graph)
        vectors = _vector(v, given, is_tuple, "jvp", _ONE_INPUT)
        outs_tuple, outputs = _called(func, own, "jvp", strict)
        weights = tuple(zero_like(o).requires_grad_() for o in outputs)
        grads = _pull(outputs, own, weights, True)
        require(grads, "grad_inputs", strict)
        moved = _pull(grads, weights, vectors, create_graph)
        product = filled(moved, outputs, strict, create_graph, "back_trick")
    return _both(outputs, outs_tuple, product, outs_tuple, create_graph)


def _gradient(
    func: Function, inputs: Any, strict: bool, name: str, create_graph: bool
) -> tuple[bool, Any, Any, Any, Any]:
    """Of a function with one number as its value: inputs, value and gradient."""
    is_tuple, given = several(inputs, "inputs", name)
    own = _own(given, create_graph)
    outs_tuple, outputs = _called(func, own, name, strict)
    if outs_tuple or outputs[0].numel() != 1:
        raise GradientError(_one_number(name, outs_tuple))
    grads = _pull(outputs, own, (None,), True)
    require(grads, "jacobian", strict)
    return is_tuple, given, own, outputs, grads


def _one_number(name: str, is_tuple: bool) -> str:
    if is_tuple:
        return f"The function given to {name} should return a single Tensor"
    return f"The Tensor returned by the function given to {name} should contain a single element"


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``func(*inputs)``, one number, and the product of the vector ``v`` with its Hessian.

    ``v`` is like the inputs; it may be left out for an input of one element.
    """
    with enable_grad():
        is_tuple, given = several(inputs, "inputs", "vhp")
        vectors = _vector(v, given, is_tuple, "vhp", _ONE_INPUT)
        _, _, own, outputs, grads = _gradient(func, inputs, strict, "vhp", create_graph)
        second = _pull(grads, own, vectors, create_graph)
        product = filled(second, given, strict, create_graph, "double_back")
    return _both(outputs, False, product, is_tuple, create_graph)


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``func(*inputs)``, one number, and the product of its Hessian with the vector ``v``.

    ``v`` is like the inputs; it may be left out for an input of one element.
    """
    with enable_grad():
        is_tuple, given = several(inputs, "inputs", "hvp")
        vectors = _vector(v, given, is_tuple, "hvp", _ONE_INPUT)
        _, _, own, outputs, grads = _gradient(func, inputs, strict, "hvp", create_graph)
        weights = tuple(zero_like(i).requires_grad_() for i in own)
        second = _pull(grads, own, weights, True)
        require(second, "hessian", strict)
        moved = _pull(second, weights, vectors, create_graph)
        product = filled(moved, given, strict, create_graph, "double_back_trick")
    return _both(outputs, False, product, is_tuple, create_graph)


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of ``func``: for every output a tuple over the inputs of tensors.

    Args:
        vectorize: compute all rows at once, by ``vmap``; needed for ``strategy="forward-mode"``.
        strategy: "reverse-mode", or "forward-mode" for functions of few inputs.

    Returns: tensors of the output's shape followed by the input's, nested in tuples where there are
    several outputs or inputs.
    """
    _check_strategy(strategy, vectorize, create_graph)
    with enable_grad():
        is_tuple, given = several(inputs, "inputs", "jacobian")
        if strategy == "forward-mode":
            return _forward_jacobian(func, given, is_tuple)
        own = _own(given, create_graph)
        outs_tuple, outputs = _called(func, own, "jacobian", strict)
        if strict and vectorize:
            raise GradientError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
                "supported together. Please either set `strict=False` or `vectorize=False`."
            )
        found = tuple(
            _rows(index, output, own, strict, create_graph, vectorize)
            for index, output in enumerate(outputs)
        )
    result = _finished(found, create_graph)
    unpacked = tuple(_unpacked(row, is_tuple) for row in result)
    return _unpacked(unpacked, outs_tuple)


def _check_strategy(strategy: str, vectorize: bool, create_graph: bool) -> None:
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError(
            "torch.autograd.functional.jacobian: `create_graph=True` and "
            '`strategy="forward-mode"` are not supported together (yet). Please either set '
            '`create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian requires "
            "`vectorize=True`."
        )


def _rows(
    index: int, output: Tensor, own: Any, strict: bool, create_graph: bool, vectorize: bool
) -> tuple[Tensor, ...]:
    """One output's rows, by every input."""
    from lazyt.autograd.derivatives import unit_vectors

    if not output.requires_grad or (strict and not vectorize):
        _check_rows(index, output, own, strict, create_graph)
    if not output.requires_grad:
        return tuple(wrap(_zeros((*output.shape, *i.shape), i)) for i in own)
    (basis,) = unit_vectors([output])
    grads = _grad(
        (output,), own, (basis,), True, create_graph, allow_unused=True, is_grads_batched=True
    )
    found = []
    for grad, item in zip(grads, own):
        shape = (*output.shape, *item.shape)
        found.append(wrap(_zeros(shape, item)) if grad is None else grad.reshape(shape))
    return tuple(found)


def _zeros(shape: tuple[int, ...], like: Tensor) -> Any:
    from lazyt import ops

    return ops.broadcast_to(ops.constant(0, like.dtype), shape)


def _check_rows(index: int, output: Tensor, own: Any, strict: bool, create_graph: bool) -> None:
    if not strict:
        return
    grads = _pull((output,), own, (zero_like(output) + 1,), True)
    for number, grad in enumerate(grads):
        if grad is None:
            raise GradientError(
                f"Output {index} of the user-provided function is independent of input {number}. "
                "This is not allowed in strict mode."
            )
        if create_graph and not grad.requires_grad:
            raise GradientError(
                "The jacobian of the user-provided function is independent of input "
                f"{number}. This is not allowed in strict mode when create_graph=True."
            )


def _forward_jacobian(func: Function, given: Sequence[Tensor], is_tuple: bool) -> Any:
    from lazyt.autograd.derivatives import jacfwd

    numbers = tuple(range(len(given)))
    return jacfwd(func, numbers if is_tuple else 0)(*[item.detach() for item in given])


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of ``func``, one number: for every input a tuple over the inputs of tensors.

    Args as for ``jacobian``; the strategy is that of the outer of two Jacobians.
    """
    is_tuple, _ = several(inputs, "inputs", "hessian")
    _check_strategy(outer_jacobian_strategy, vectorize, False)

    def number(*own: Tensor) -> Tensor:
        outs_tuple, outputs = several(
            func(*own), "outputs of the user-provided function", "hessian"
        )
        require(outputs, "outputs", strict)
        if outs_tuple or outputs[0].numel() != 1:
            raise GradientError(_one_number("hessian", outs_tuple))
        found: Tensor = outputs[0].squeeze()
        return found

    def gradient(*own: Tensor) -> Any:
        forward = outer_jacobian_strategy == "forward-mode"
        if forward:
            from lazyt.autograd.derivatives import grad

            numbers = tuple(range(len(own)))
            gradients: Any = grad(number, numbers if is_tuple else 0)(*own)
            return gradients
        found = jacobian(number, own if is_tuple else own[0], create_graph=True)
        require(found if is_tuple else (found,), "jacobian", strict)
        return found

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


_explain_absence(__name__)
