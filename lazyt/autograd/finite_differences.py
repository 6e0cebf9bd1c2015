"""A function at one point: its Jacobians by finite differences, backwards and forwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lazyt.autograd import grad
from lazyt.autograd.derivatives import linear
from lazyt.autograd.handles import zero_like
from lazyt.functional.choice import allclose
from lazyt.functional.creation import tensor as tensor_of
from lazyt.ir.dtypes import DType, float64
from lazyt.tensor import Tensor
from lazyt.tensor_protocol import realize

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
