"""L-BFGS: steps by an estimate of the inverse second derivative from the last few gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.hooks import looks
from lazyt.handle.tensor import Tensor
from lazyt.optim.optimizer import Group, Optimizer, SettingError, check_rate

# A step length along a direction that fulfils the strong Wolfe conditions.
#
# Nocedal & Wright, Numerical Optimization (2006), algorithms 3.5 and 3.6, with cubic interpolation
# and the safeguards that PyTorch's L-BFGS has.


#: How much less than the slope promises the value may fall, and how much of the slope may be left.
_ARMIJO, _CURVATURE = 1e-4, 0.9


@dataclass(frozen=True)
class Point:
    """One place along the direction.

    Attributes:
        at: its distance from the start, in directions.
        value: of the function.
        slope: its derivative along the direction.
        grad: its gradient, flat.
    """

    at: float
    value: float
    slope: float
    grad: Tensor


def interpolate(a: Point, b: Point, lowest: float, highest: float) -> float:
    """Where the cubic through two points has its minimum, within the two limits; the middle of
    those where it has none."""
    if a.at > b.at:
        a, b = b, a
    bend = a.slope + b.slope - 3 * (a.value - b.value) / (a.at - b.at)
    square = bend * bend - a.slope * b.slope
    if square >= 0:
        root = math.sqrt(square)
        below = b.slope - a.slope + 2 * root
        if below:
            found = b.at - (b.at - a.at) * ((b.slope + root - bend) / below)
            return min(max(found, lowest), highest)
    return (lowest + highest) / 2


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    first: float,
    span: float,
    tolerance: float,
    most: int,
) -> tuple[Point, int]:
    """A point that fulfils the conditions, or the best one found.

    Args:
        evaluate: the point at a distance.
        start: the point at distance 0.
        first: the distance to try first.
        span: the largest element of the direction.
        tolerance: intervals whose ends are closer than this are not divided further.
        most: how many more points may be tried.

    Returns: the point, and how often ``evaluate`` was called.
    """
    before, trial = start, evaluate(first)
    count = 0
    while count < most:
        if _too_high(trial, start) or (count > 1 and trial.value >= before.value):
            break
        if _flat(trial, start):
            return trial, count + 1
        if trial.slope >= 0:
            break
        lowest = trial.at + 0.01 * (trial.at - before.at)
        at = interpolate(before, trial, lowest, trial.at * 10)
        before, trial = trial, evaluate(at)
        count += 1
    else:
        before = start
    return _zoom(evaluate, start, [before, trial], span, tolerance, count, most)


def _too_high(point: Point, start: Point) -> bool:
    return point.value > start.value + _ARMIJO * point.at * start.slope


def _flat(point: Point, start: Point) -> bool:
    return abs(point.slope) <= -_CURVATURE * start.slope


def _zoom(
    evaluate: Callable[[float], Point],
    start: Point,
    ends: list[Point],
    span: float,
    tolerance: float,
    count: int,
    most: int,
) -> tuple[Point, int]:
    """The best point between two ends, found by dividing the interval."""
    low = _lowest(ends)
    stuck = False
    while count < most and abs(ends[1].at - ends[0].at) * span >= tolerance:
        left, right = sorted((ends[0].at, ends[1].at))
        at = interpolate(ends[0], ends[1], left, right)
        margin = 0.1 * (right - left)
        near = min(right - at, at - left) < margin
        if near and (stuck or at >= right or at <= left):
            at = right - margin if abs(at - right) < abs(at - left) else left + margin
            stuck = False
        else:
            stuck = near
        trial = evaluate(at)
        count += 1
        if _too_high(trial, start) or trial.value >= ends[low].value:
            ends[1 - low] = trial
            low = _lowest(ends)
            continue
        found = _flat(trial, start)
        if not found and trial.slope * (ends[1 - low].at - ends[low].at) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = trial
        if found:
            break
    return ends[low], count + 1


def _lowest(ends: list[Point]) -> int:
    return 0 if ends[0].value <= ends[1].value else 1


class LBFGS(Optimizer):
    """Limited-memory BFGS (Liu & Nocedal 1989). ``step`` needs a closure, which it calls often.

    Args:
        params: the parameters; one group.
        lr: the step length, or the first one that the line search tries.
        max_iter: iterations per step.
        max_eval: calls of the closure per step, by default 1.25 times the iterations.
        tolerance_grad: stop when no element of the gradient is greater.
        tolerance_change: stop when neither parameters nor the loss change by more.
        history_size: gradients remembered.
        line_search_fn: ``"strong_wolfe"``, or None for steps of fixed length.

    Every iteration looks at values: a captured function with such a step runs as always.
    Raises SettingError (a ValueError) for settings out of range and for several groups, and
    LazytError (a RuntimeError) from ``step`` for another line search.
    """

    _scalars = frozenset()

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise SettingError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _parameters(self) -> list[Tensor]:
        parameters: list[Tensor] = self.param_groups[0]["params"]
        return parameters

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Iterate until a limit or a tolerance is reached.

        Args:
            closure: computes the loss anew and its gradients.

        Returns: the first loss. Raises TypeError without a closure.
        """
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        with lazyt.no_grad():
            return self._minimize(self.param_groups[0], closure)

    def _minimize(self, group: Group, closure: Callable[[], Any]) -> Any:
        state = self.state[self._parameters[0]]
        state.setdefault("func_evals", 0)
        looks(
            "LBFGS.step, whose number of evaluations follows the loss; capture the closure, and "
            "call step() outside"
        )
        state.setdefault("n_iter", 0)
        first, point = self._evaluate(closure)
        calls = 1
        state["func_evals"] += 1
        if _greatest(point.grad) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = _next_direction(state, point.grad, group["history_size"])
            before = point
            lr = float(group["lr"])
            length = lr
            if state["n_iter"] == 1:
                length = min(1.0, 1.0 / _numbers(point.grad.abs().sum())[0]) * lr
            slope, span = _numbers(point.grad.dot(direction), direction.abs().max())
            state.update(
                d=direction, t=length, prev_flat_grad=point.grad, prev_loss=point.value
            )  # fmt: skip
            if slope > -group["tolerance_change"]:
                break
            start = Point(0.0, point.value, slope, point.grad)
            last = iteration == group["max_iter"]
            left = group["max_eval"] - calls
            point, more = self._advance(group, closure, direction, start, length, span, left, last)
            state["t"] = point.at
            calls += more
            state["func_evals"] += more
            if last or calls >= group["max_eval"]:
                break
            if _greatest(point.grad) <= group["tolerance_grad"]:
                break
            small = group["tolerance_change"]
            if abs(point.at) * span <= small or abs(point.value - before.value) < small:
                break
        return first

    def _advance(
        self,
        group: Group,
        closure: Callable[[], Any],
        direction: Tensor,
        start: Point,
        length: float,
        span: float,
        left: int,
        last: bool,
    ) -> tuple[Point, int]:
        """Move the parameters; where they are then, and how often the closure was called."""
        kind = group["line_search_fn"]
        if kind is None:
            self._add_grad(length, direction)
            if last:  # nobody asks for the loss any more
                return Point(length, start.value, start.slope, start.grad), 0
            _, point = self._evaluate(closure)
            return Point(length, point.value, 0.0, point.grad), 1
        if kind != "strong_wolfe":
            raise LazytError("only 'strong_wolfe' is supported")
        origin = [parameter.clone() for parameter in self._parameters]

        def evaluate(at: float) -> Point:
            self._add_grad(at, direction)
            _, point = self._evaluate(closure)
            (slope,) = _numbers(point.grad.dot(direction))
            for parameter, old in zip(self._parameters, origin, strict=True):
                parameter.copy_(old)
            return Point(at, point.value, slope, point.grad)

        point, calls = strong_wolfe(evaluate, start, length, span, group["tolerance_change"], left)
        self._add_grad(point.at, direction)
        return point, calls

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[Any, Point]:
        """The loss, and the point with its value and gradient."""
        with lazyt.enable_grad():
            loss = closure()
        grad = self._gather_flat_grad()
        if isinstance(loss, Tensor):
            lazyt.realize(loss, grad)
        return loss, Point(0.0, float(loss), 0.0, grad)

    def _gather_flat_grad(self) -> Tensor:
        """The gradients of all parameters one behind the other, zeros where there is none."""
        parts = [
            lazyt.zeros_like(p) if p.grad is None else p.grad.to_dense().resolve_conj()
            for p in self._parameters
        ]
        return lazyt.cat([_as_real(part).reshape(-1) for part in parts])

    def _numel(self) -> int:
        """The number of elements of all parameters; complex ones count twice."""
        return sum(_as_real(parameter).numel() for parameter in self._parameters)

    def _add_grad(self, step_size: float, update: Tensor) -> None:
        """Move all parameters by their parts of ``update``."""
        offset = 0
        for parameter in map(_as_real, self._parameters):
            count = parameter.numel()
            part = update[offset : offset + count].reshape(parameter.shape)
            parameter.add_(part, alpha=step_size)
            offset += count
        if offset != self._numel():
            raise AssertionError(f"Expected offset {offset} to equal {self._numel()}")


def _as_real(value: Tensor) -> Tensor:
    return lazyt.view_as_real(value) if value.dtype.kind == "c" else value


def _numbers(*values: Tensor) -> list[float]:
    """Tensors of one element as numbers, computed together."""
    lazyt.realize(*values)
    return [float(value) for value in values]


def _greatest(grad: Tensor) -> float:
    return _numbers(grad.abs().max())[0]


def _next_direction(state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
    """Minus the estimated inverse second derivative times ``grad``.

    Remembers in ``state`` how gradient and parameters changed since the last call.
    """
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
        return -grad
    change = grad - state["prev_flat_grad"]
    moved = state["d"] * float(state["t"])
    product, square = _numbers(change.dot(moved), change.dot(change))
    changes, moves, inverses = state["old_dirs"], state["old_stps"], state["ro"]
    if product > 1e-10:
        if len(changes) == history_size:
            for items in (changes, moves, inverses):
                items.pop(0)
        lazyt.realize(change, moved)
        changes.append(change)
        moves.append(moved)
        inverses.append(1.0 / product)
        state["H_diag"] = product / square
    # One plan per remembered gradient, the same for all: a graph of the whole recursion would be a
    # new one at every iteration.
    rest, shares = -grad, []
    for change, moved, inverse in zip(reversed(changes), reversed(moves), reversed(inverses)):
        (projected,) = _numbers(moved.dot(rest))
        shares.append(projected * float(inverse))
        rest = rest - change * shares[-1]
        lazyt.realize(rest)
    rest = rest * float(state["H_diag"])
    for change, moved, inverse in zip(changes, moves, inverses):
        (projected,) = _numbers(change.dot(rest))
        rest = rest + moved * (shares.pop() - projected * float(inverse))
        lazyt.realize(rest)
    return rest
