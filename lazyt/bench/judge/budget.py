"""How far results may be from the float64 ones: an error budget that follows from the reference.

The yardstick is what the reference's own algorithm loses in the declared dtype, and what inputs
that are off by a unit of rounding change in its results. A kernel may lose several times as much,
and what sums in any order lose on top of it; a kernel that computes in a narrower dtype loses
thousands of times as much.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lazyt.bench.judge.tasks import Case
from lazyt.bench.judge.verdicts import Refusal
from lazyt.bench.problems import Array

#: How many times as large errors may be as the reference's own.
FACTOR = 8.0
#: Shares of elements whose relative errors are compared, where so many elements are beyond.
_SHARES, _BEYOND = (0.5, 0.9, 0.99, 0.999), 16
#: Errors below this share of the values are those of a narrower dtype rather than wrong values.
_NARROW = 0.02


def judge_result(
    got: Array, case: Case, number: int, poison: int, allowance: float, name: str
) -> float:
    """The share of the error budget that a result uses, at most 1.

    Args:
        got: what the kernel wrote, with the shape and dtype of ``case.rounded[number]``.
        case: what it was given and should have written.
        number: of the result.
        poison: the byte that its memory was filled with.
        allowance: a factor of the budget.
        name: of the result, for messages.

    Raises Refusal with the place and the values of what is wrong.
    """
    exact, rounded = case.exact[number], case.rounded[number]
    if not got.size:
        return 0.0
    _require_written(got, rounded, poison, name)
    if got.dtype.kind != "f":
        return _whole_numbers(got, exact, rounded, name)
    with np.errstate(all="ignore"):
        wide = got.astype(np.float64)
        _require_same_kinds(wide, exact, rounded.astype(np.float64), got.dtype, name)
        both = (np.abs(rounded.astype(np.float64) - exact), case.noise[number])
        own = np.fmax(*(np.where(np.isfinite(error), error, 0.0) for error in both))
        return _floats(wide, exact, own, case, got.dtype, allowance, name)


def _where(index: int, like: Array) -> str:
    return "[" + ", ".join(str(int(i)) for i in np.unravel_index(index, like.shape)) + "]"


def _require_written(got: Array, rounded: Array, poison: int, name: str) -> None:
    size = got.dtype.itemsize
    raw = np.ascontiguousarray(got).view(np.uint8).reshape(got.size, size)
    want = np.ascontiguousarray(rounded).view(np.uint8).reshape(got.size, size)
    # A single byte may well be what the poison is, and be right.
    unwritten = (raw == poison).all(1) & ~(want == poison).all(1)
    if unwritten.any() and (size > 1 or unwritten.mean() > 0.5):
        first, count = int(unwritten.argmax()), int(unwritten.sum())
        evidence = f"{name}{_where(first, got)} and {count - 1} other elements were not written"
        raise Refusal("unwritten", evidence)


def _whole_numbers(got: Array, exact: Array, rounded: Array, name: str) -> float:
    wrong = (got != exact) & (got != rounded)
    if wrong.any():
        first = int(wrong.argmax())
        raise Refusal(
            "wrong",
            f"{name}{_where(first, got)} is {got.flat[first]}, not {exact.flat[first]}; "
            f"{int(wrong.sum())} of {got.size} are wrong",
        )
    return 0.0


def _classes(x: Array) -> Array:
    return np.asarray(np.isnan(x) * 3 + np.isposinf(x) * 1 + np.isneginf(x) * 2)


def _require_same_kinds(
    got: Array, exact: Array, rounded: Array, dtype: np.dtype[Any], name: str
) -> None:
    """NaN and infinities are where one of the two references has them."""
    found = _classes(got)
    narrowed = exact.astype(dtype).astype(np.float64)
    wrong = (found != _classes(narrowed)) & (found != _classes(rounded))
    if wrong.any():
        first = int(wrong.argmax())
        raise Refusal(
            "nan",
            f"{name}{_where(first, got)} is {got.flat[first]:g}, not {exact.flat[first]:g}; "
            f"{int(wrong.sum())} of {got.size} elements",
        )


def _terms(case: Case) -> float:
    """About how many numbers are added up for one result, at most."""
    outputs = max(1, sum(part.size for part in case.exact))
    longest = max((extent for a in case.inputs for extent in a.shape), default=1)
    spread_over = sum(a.size for a in case.inputs) / outputs
    return max(1.0, case.flops / 2 / outputs, longest, spread_over)


def _floats(
    got: Array, exact: Array, own: Array, case: Case,
    dtype: np.dtype[Any], allowance: float, name: str,
) -> float:  # fmt: skip
    numbers = np.isfinite(got) & np.isfinite(exact)
    if not numbers.any():
        return 0.0
    places, whole = np.flatnonzero(numbers), exact
    got, exact, own = (a.reshape(-1)[places] for a in (got, exact, own))
    unit = float(np.finfo(dtype).eps) / 2
    terms = _terms(case) if dtype.itemsize > 2 else 1.0
    # Sums of equal numbers are rounded to the same side at every step.
    # So are those of one large number and many small ones.
    usual = case.spread in ("usual", "small")
    of_sums = 2 * math.sqrt(terms) if usual else terms
    slack = (8 + of_sums) * unit * allowance
    factor = (FACTOR + of_sums) * allowance
    error = np.abs(got - exact)
    tiny = float(np.finfo(dtype).smallest_normal)

    used = 0.0
    scale, own_scale = (float(np.sqrt(np.mean(np.square(a)))) for a in (exact, own))
    largest = float(np.abs(exact).max())
    budgets = {
        "root mean square": (
            float(np.sqrt(np.mean(np.square(error)))), max(factor * own_scale, slack * scale, tiny)
        ),
        "largest": (
            float(error.max()),
            max(4 * factor * float(own.max()), 16 * slack * scale, slack * largest) + tiny,
        ),
    }  # fmt: skip
    magnitude = np.maximum(np.abs(exact), tiny)
    relative, own_relative = error / magnitude, own / magnitude
    for share in _SHARES:
        if (1 - share) * exact.size >= _BEYOND or share == 0.5:
            budget = max(factor * float(np.quantile(own_relative, share)), slack)
            budgets[f"{100 * share:g} % quantile of the relative"] = (
                float(np.quantile(relative, share)), budget
            )  # fmt: skip
    for what, (found, budget) in budgets.items():
        if found > budget:
            worst = int(error.argmax() if what[0] in "rl" else relative.argmax())
            narrow = (
                float(np.quantile(relative, 0.5)) < _NARROW
                and scale > 0
                and (float(np.sqrt(np.mean(np.square(error)))) < _NARROW * scale)
            )
            place = _where(int(places[worst]), whole)
            evidence = (
                f"the {what} error of {name} is {found:.3g}, {found / budget:.3g} times "
                f"the budget; "
                f"{name}{place} is {got[worst]:.9g}, not {exact[worst]:.9g}"
            )
            raise Refusal("precision" if narrow else "wrong", evidence)
        used = max(used, found / budget)
    return used
