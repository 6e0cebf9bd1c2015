"""``gradcheck`` and ``gradgradcheck``: derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lazyt.autograd import grad
from lazyt.autograd.derivatives import linear
from lazyt.autograd.handles import zero_like
from lazyt.autograd.vectorizing import vmap
from lazyt.errors import warn
from lazyt.functional.creation.creation import tensor as tensor_of
from lazyt.functional.elementwise.choice import allclose
from lazyt.functional.elementwise.complex_numbers import (
    resolve_conj,
    view_as_complex,
    view_as_real,
)
from lazyt.functional.random.random import rand, randn
from lazyt.functional.shapes.joining import stack
from lazyt.handle.tensor import Tensor
from lazyt.handle.tensor_protocol import realize
from lazyt.ir.dtypes import DType, float64

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


# A function at one point: its Jacobians by finite differences, backwards and forwards.


Function = Callable[..., Any]


class GradcheckError(RuntimeError):
    """Derivatives of a function are not what finite differences say."""


def several(value: Any) -> tuple[Any, ...]:
    """A tuple of one or several values."""
    if isinstance(value, (tuple, list)):
        return tuple(value)
    return (value,)


def differentiable(value: Any) -> tuple[Tensor, ...]:
    """The tensors among outputs that require gradients."""
    return tuple(o for o in several(value) if isinstance(o, Tensor) and o.requires_grad)


def required(inputs: Sequence[Any]) -> list[int]:
    """Which inputs require gradients."""
    return [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]


def _on_parts(func: Function, inputs: tuple[Any, ...]) -> tuple[Function, tuple[Any, ...]]:
    """The function, and its inputs, of the real and imaginary parts of complex numbers."""
    pairs = [isinstance(item, Tensor) and item.dtype.kind == "c" for item in inputs]

    def of_parts(*args: Any) -> tuple[Any, ...]:
        own = [view_as_complex(item) if pair else item for item, pair in zip(args, pairs)]
        return tuple([_parts(item) for item in several(func(*own))])

    given = []
    for item, pair in zip(inputs, pairs):
        parts = _parts(item.detach()).clone() if pair else item
        given.append(parts.requires_grad_(item.requires_grad) if pair else item)
    return of_parts, tuple(given)


def _parts(item: Any) -> Any:
    """Complex numbers as their parts."""
    is_complex = isinstance(item, Tensor) and item.dtype.kind == "c"
    return view_as_real(resolve_conj(item)) if is_complex else item


class Point:
    """One function at one point.

    Attributes:
        outputs: those that require gradients.
        places: which inputs require gradients.
    """

    def __init__(
        self, func: Function, inputs: tuple[Any, ...], eps: float, atol: float, rtol: float
    ) -> None:
        self.func, self.inputs = func, inputs
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.places = required(inputs)
        self.all_outputs = several(func(*inputs))
        self.outputs = differentiable(self.all_outputs)

    def own(self) -> list[Tensor]:
        """The inputs that require gradients."""
        return [self.inputs[place] for place in self.places]

    def moved(self, place: int, values: Tensor) -> list[Tensor]:
        """The floating point outputs where one input has other values."""
        given = [
            values.requires_grad_() if i == place else _fresh(item)
            for i, item in enumerate(self.inputs)
        ]
        found = several(self.func(*given))
        return [item.detach().clone().realize() for item in found if isinstance(item, Tensor)]

    def slopes(self, place: int, direction: Tensor) -> list[Tensor]:
        """Finite differences of the outputs, flat, where one input moves along ``direction``."""
        base = self.inputs[place].detach()
        step = direction * self.eps
        above, below = (self.moved(place, (base + s).realize()) for s in (step, -step))
        for high, low in zip(above, below):
            _check_same(high, low, self.eps)
        return [((a - b) / (2 * self.eps)).reshape(-1) for a, b in zip(above, below)]

    def numerical(self, place: int) -> list[Tensor]:
        """By one input, the Jacobian of every output: a row for each element of the input."""
        item = self.inputs[place]
        rows = [_numbers(self.slopes(place, direction)) for direction in _units(item)]
        if not rows:
            return [zero_like(o).reshape(-1)[:0].reshape(0, o.numel()) for o in self.all_outputs]
        return _tables(rows)

    def backward(self, output: Tensor) -> list[Tensor]:
        """The Jacobian of one output by every input, as ``numerical`` gives it."""
        columns = []
        for unit in _units(output):
            grads = grad(output, self.own(), unit, retain_graph=True, allow_unused=True)
            columns.append(_numbers(self.checked(grads)))
        if not columns:
            return [zero_like(i).reshape(-1, 1)[:, :0] for i in self.own()]
        return [table.T for table in _tables(columns)]

    def checked(self, grads: Sequence[Tensor | None]) -> list[Tensor]:
        """Gradients by the inputs, flat. Raises GradcheckError for wrong shapes and dtypes."""
        found = []
        for item, given in zip(self.own(), grads):
            if given is not None and given.shape != item.shape:
                raise GradcheckError("Analytical gradient has incorrect size")
            if given is not None and given.dtype is not item.dtype:
                raise GradcheckError("Gradient has dtype mismatch")
            found.append((zero_like(item) if given is None else given.detach()).reshape(-1))
        return found

    def forward(self) -> list[list[Tensor]]:
        """The Jacobian of every output by every input, by forward derivatives."""
        inputs = tuple(self.inputs)
        _, push, _ = linear(lambda *a: several(self.func(*a)), inputs, tuple(self.places))
        table = []
        for number, item in enumerate(self.own()):
            rows = []
            for unit in _units(item):
                moves = [
                    unit if n == number else zero_like(other) for n, other in enumerate(self.own())
                ]
                rows.append(_numbers([t.detach().reshape(-1) for t in push(moves)]))
            table.append(_tables(rows))
        return [list(column) for column in zip(*table)]

    def close(self, one: Tensor, other: Tensor, atol: float) -> bool:
        """Whether two Jacobians agree."""
        return bool(allclose(one.to(float64), other.to(float64), self.rtol, atol))


def _units(item: Tensor) -> Iterator[Tensor]:
    """For each element of ``item`` a tensor of its shape that is 1 there and 0 elsewhere."""
    count = item.numel()
    for index in range(count):
        unit = [0.0] * count
        unit[index] = 1.0
        yield tensor_of(unit, dtype=item.dtype).reshape(item.shape)


_Row = list[tuple[list[float], DType]]


def _numbers(tensors: Sequence[Tensor]) -> _Row:
    """The numbers of flat tensors, computed at once, and their dtypes: one graph of all rows of a
    Jacobian would be compiled for their number, while graphs of one row are alike."""
    realize(*tensors)
    return [(tensor.tolist(), tensor.dtype) for tensor in tensors]


def _tables(rows: Sequence[_Row]) -> list[Tensor]:
    """Each tensor's numbers of all rows."""
    return [tensor_of([row for row, _ in c], dtype=c[0][1]) for c in zip(*rows)]


def _fresh(item: Any) -> Any:
    if isinstance(item, Tensor) and item.requires_grad:
        return item.detach().requires_grad_()
    return item


def _check_same(high: Tensor, low: Tensor, eps: float) -> None:
    if high.shape != low.shape:
        raise AssertionError(
            f"Expected `output` to have the same shape when input is perturbed with eps {eps}, but "
            f"got: {high.shape} vs {low.shape}"
        )


def _mismatch(analytical: Tensor, numerical: Tensor, output: int, input: int, mode: str) -> str:
    return (
        f"Jacobian {mode}mismatch for output {output:d} with respect to input {input:d},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


# ---------------------------------------------------------------------- the two ways of checking


def _check_all(check: Point, forward: bool, nondet_tol: float) -> None:
    """Compare all elements of the Jacobians."""
    by_input = [check.numerical(place) for place in check.places]
    if not check.outputs:
        if any(bool((j != 0).any()) for row in by_input for j in row):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    numerical = [
        list(column) for o, column in zip(check.all_outputs, zip(*by_input)) if o.requires_grad
    ]
    pushed = check.forward() if forward else []
    for number, output in enumerate(check.outputs):
        found = pushed[number] if forward else check.backward(output)
        if not forward:
            _check_repeats(found, check.backward(output), nondet_tol)
        for place, (a, n) in enumerate(zip(found, numerical[number])):
            if not check.close(a, n, check.atol):
                mode = "computed with forward mode " if forward else ""
                raise GradcheckError(_mismatch(a, n, number, place, mode))


def _check_repeats(first: Sequence[Tensor], second: Sequence[Tensor], tolerance: float) -> None:
    for one, other in zip(first, second):
        if one.numel() and float((one - other).abs().max()) > tolerance:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output "
                "multiple times gives different values, although analytical gradient matches "
                f"numerical gradient.The tolerance for nondeterminism was {tolerance}."
            )


def _check_fast(check: Point, forward: bool) -> None:
    """Compare one random combination of each Jacobian's elements.

    With u and v of positive random numbers: v'Ju by finite differences along u, and by the
    derivative that v pulls back. Raises GradcheckError.
    """
    directions = [_unit_length(item) for item in check.own()]
    weights = [_unit_length(output) for output in check.outputs]
    for place, (number, u) in enumerate(zip(check.places, directions)):
        slopes = check.slopes(number, u.reshape(check.inputs[number].shape))
        kept = [s for o, s in zip(check.all_outputs, slopes) if o.requires_grad]
        if not check.outputs and any(float(s.abs().max()) for s in slopes if s.numel()):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        for index, (output, v) in enumerate(zip(check.outputs, weights)):
            numerical = (kept[index] * v).sum()
            if forward:
                found = (_pushed(check, place, u)[index].reshape(-1) * v).sum()
            else:
                vector = v.reshape(output.shape)
                grads = grad(output, check.own(), vector, retain_graph=True, allow_unused=True)
                found = (check.checked(grads)[place] * u).sum()
            atol = check.atol * float(u.sum()) * float(v.sum())
            if not check.close(found, numerical, atol):
                mode = "computed with forward mode " if forward else ""
                text = _mismatch(found, numerical, index, place, mode)
                raise GradcheckError(text + _slowly(check, forward, place, index))


def _pushed(check: Point, place: int, u: Tensor) -> list[Tensor]:
    inputs = tuple(check.inputs)
    _, push, _ = linear(lambda *a: several(check.func(*a)), inputs, tuple(check.places))
    moves = [
        u.reshape(item.shape) if n == place else zero_like(item)
        for n, item in enumerate(check.own())
    ]
    found: list[Tensor] = [t for t, o in zip(push(moves), check.all_outputs) if o.requires_grad]
    return [item.detach() for item in found]


def _unit_length(item: Tensor) -> Tensor:
    drawn = rand(item.numel(), dtype=float64)
    drawn = drawn / drawn.square().sum().sqrt()
    found: Tensor = drawn.to(item.dtype).realize()
    return found


def _slowly(check: Point, forward: bool, place: int, index: int) -> str:
    """What a full comparison says of a Jacobian that the fast one found wrong."""
    columns = check.numerical(check.places[place])
    numerical = [c for o, c in zip(check.all_outputs, columns) if o.requires_grad][index]
    analytical = (
        check.forward()[index][place] if forward else check.backward(check.outputs[index])[place]
    )
    largest = (numerical - analytical).abs().max()
    text = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \nin "
        "fast mode. See: https://github.com/pytorch/pytorch/issues/53876 for more background \n"
        "about fast mode. Below, we recompute numerical and analytical jacobians in slow mode:\n\n"
        f"Numerical:\n {numerical}\nAnalytical:\n{analytical}\n\n"
        f"The max per-element difference (slow mode) is: {largest}.\n"
    )
    if check.close(analytical, numerical, check.atol):
        text += "Fast gradcheck failed but element-wise differences are small."
    return text


# ---------------------------------------------------------------------- further checks


def _check_scaling(check: Point) -> None:
    """Gradients of zero weights are zeros of the inputs' dtype and shape."""
    zeros = [zero_like(o) for o in check.outputs]
    if not zeros:
        return
    grads = grad(check.outputs, check.own(), zeros, retain_graph=True, allow_unused=True)
    for found, item in zip(grads, check.own()):
        if found is None:
            continue
        if not bool((found == 0).all()):
            raise GradcheckError("backward not multiplied by grad_output")
        if found.dtype is not item.dtype:
            raise GradcheckError("grad is incorrect type")
        if found.shape != item.shape:
            raise GradcheckError("grad is incorrect size")


def _check_batched(check: Point, output: Tensor, index: int) -> None:
    """Gradients for several weights at once are those for each."""

    def pull(weight: Tensor) -> Any:
        found = grad(output, check.own(), weight, retain_graph=True, allow_unused=True)
        return tuple(zero_like(i) if g is None else g for g, i in zip(found, check.own()))

    weights = [randn(output.shape, dtype=output.dtype).realize() for _ in range(2)]
    expected = [stack(list(parts)) for parts in zip(*(pull(w) for w in weights))]
    try:
        found = vmap(pull)(stack(weights))
    except RuntimeError as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}") from error
    for place, (result, wanted) in enumerate(zip(found, expected)):
        if not bool(allclose(result, wanted)):
            raise GradcheckError(
                f"\nFor output {index} and input {place}:\n\ngradcheck or gradgradcheck failed "
                "while testing batched gradient computation.\n"
                f"Got:\n{result}\n\nExpected:\n{wanted}\n"
            )


def _check_inputs(inputs: Sequence[Any]) -> None:
    for index, item in enumerate(inputs):
        if not isinstance(item, Tensor) or not item.requires_grad:
            continue
        if item.dtype.part is not float64:
            warn(
                f"Input #{index} requires gradient and is not a double precision floating point or "
                "complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex. "
            )
        if any(s <= 0 and n > 1 for s, n in zip(item.strides, item.shape)):
            raise RuntimeError(
                f"The {index}th input has a dimension with stride 0. gradcheck only supports "
                "inputs that are non-overlapping to be able to compute the numerical gradients "
                "correctly. You should call .contiguous on the input before passing it to "
                "gradcheck."
            )
    if not required(inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )


def gradcheck(
    func: Function,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the derivatives of ``func`` by ``inputs`` are what finite differences say.

    Args:
        inputs: a tensor or a tuple, float64 or complex128 where gradients are required.
        eps: how far the inputs are moved; atol, rtol: how close the results must be.
        raise_exception: raise GradcheckError instead of returning False.
        nondet_tol: by how much two backward passes may differ.
        check_batched_grad, check_forward_ad, check_backward_ad: what to check besides, or not.
        fast_mode: check one random combination of all elements instead of each.

    Raises GradcheckError for what differs, ValueError for inputs that require no gradients.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    given = several(inputs)
    _check_inputs(given)
    check = Point(*_on_parts(func, given), eps, atol, rtol)
    try:
        for forward in [False] * check_backward_ad + [True] * check_forward_ad:
            if fast_mode:
                _check_fast(check, forward)
            else:
                _check_all(check, forward, nondet_tol)
        if check_backward_ad:
            for index, output in enumerate(check.outputs if check_batched_grad else ()):
                _check_batched(check, output, index)
            _check_scaling(check)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Function,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """``gradcheck`` of the gradients of ``func`` as functions of inputs and weights.

    Args as for ``gradcheck``; ``grad_outputs`` are the weights, random by default. Raises alike.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    given = several(inputs)
    if grad_outputs is None:
        outputs = differentiable(func(*given))
        drawn = [rand(o.shape, dtype=o.dtype) * 2 - 1 for o in outputs]
        weights: tuple[Any, ...] = tuple(d.realize().detach().requires_grad_() for d in drawn)
    else:
        weights = several(grad_outputs)
    places, count = required(given), len(given)

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        own, vectors = args[:count], args[count:]
        outputs = differentiable(func(*own))
        chosen = [own[place] for place in places]
        found = grad(outputs, chosen, vectors, create_graph=True, allow_unused=True)
        return tuple(item for item in found if item is not None)

    return gradcheck(
        gradients, given + weights, eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip
