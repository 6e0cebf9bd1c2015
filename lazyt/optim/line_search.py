"""A step length along a direction that fulfils the strong Wolfe conditions.

Nocedal & Wright, Numerical Optimization (2006), algorithms 3.5 and 3.6, with cubic interpolation
and the safeguards that PyTorch's L-BFGS has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from lazyt.tensor import Tensor

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
