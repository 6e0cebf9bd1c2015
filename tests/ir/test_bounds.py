"""The bounds proof: what it can prove, and that it refuses what leaves a buffer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lazyt.ops  # noqa: F401 - registers the scalar functions
from lazyt.errors import VerifyError
from lazyt.ir.index import Axis, Guard, Linear, constant, variable
from lazyt.ir.parser import parse_kernel
from lazyt.ir.verifier import Facts, check_bounds


def kernel(statement: str, stage: str = "once", grid: str = "i: 4, j: 5") -> str:
    """A kernel with one statement."""
    return f"""kernel k(in a: float32[4, 5], in v: float32[20], out c: float32[4, 5]) {{
  phase ({grid}) lanes grid work 1.0 {{
    {stage} {{
      {statement}
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("statement", "stage"),
    [
        ("store c[i, j] = a[i, j]", "once"),
        ("store c[i, j] = v[5*i + j]", "once"),
        ("store c[-1*i + 3, j] = v[((5*i + j) // 2)]", "once"),
        ("store c[i, j] = guarded(1 <= j < 5, a[i, j + -1], 0.0:float32)", "once"),
        ("store c[i, j] = guarded(3 <= i + j < 7, v[i + j + -3], 0.0:float32)", "once"),
        ("store c[i, j] = guarded(3 <= 5*i + j < 7, v[5*(5*i + j + -3)], 0.0:float32)", "once"),
        ("store c[i, j] = guarded(-9 <= -1*j < -2, a[i, j + -3], 0.0:float32)", "once"),
        ("store c[i, j + 2] = a[i, j] where 0 <= j < 3", "once"),
        ("store c[i, j] = a[i, j + 2] where 0 <= j < 3", "once"),
        ("reduce m: float32 = sum v[8*i + k]", "for k: 8 if 0 <= 8*i + k < 20"),
        ("reduce m: float32 = sum a[((8*i + k) // 5), ((8*i + k) % 5)]",
         "for k: 8 if 0 <= 8*i + k < 20"),
        ("reduce m: float32 = sum v[((8*i + k) // 2)]", "for k: 8 if 0 <= 8*i + k < 32"),
        ("store c[i, j] = guarded(2 <= i < 2, v[99], 0.0:float32)", "once"),
        ("let x = add(guarded(1 <= i < 4, a[i + -1, j], 1.0:float32), a[i, j])", "once"),
    ],
)  # fmt: skip
def test_what_is_inside_is_proved(statement: str, stage: str) -> None:
    text = kernel(statement, stage).replace("5*(5*i + j + -3)", "5*j + 25*i + -15")
    check_bounds(parse_kernel(text))


@pytest.mark.parametrize(
    ("statement", "stage", "message"),
    [
        ("store c[i, j] = a[i + 1, j]", "once", "load a: index i + 1 of axis 0 lies in 1..4"),
        ("store c[i, j + 1] = a[i, j]", "once", "store c: index j + 1 of axis 1 lies in 1..5"),
        ("store c[i, j] = a[i, -1*j]", "once", "lies in -4..0"),
        ("store c[i, j] = guarded(1 <= i < 4, a[i, j + -1], 0.0:float32)", "once", "in -1..3"),
        ("store c[i, j] = guarded(1 <= j < 5, 0.0:float32, a[i, j + -1])", "once", "in -1..3"),
        ("store c[i, j] = guarded(0 <= j < 5, a[i, j + -1], 0.0:float32)", "once", "in -1..3"),
        ("let x = add(guarded(1 <= i < 4, a[i + -1, j], 1.0:float32), a[i + -1, j])", "once",
         "lies in -1..2"),
        ("store c[i, j + 2] = a[i, j] where 0 <= j < 4", "once", "lies in 2..5"),
        ("reduce m: float32 = sum v[8*i + k]", "for k: 8", "lies in 0..31"),
        ("reduce m: float32 = sum v[8*i + k]", "for k: 8 if 0 <= 8*i + k < 21", "in 0..20"),
        ("reduce m: float32 = sum v[((8*i + k) // 2)]", "for k: 8 if 0 <= i < 9", ""),
        ("store c[i, j] = v[@p[21]]", "once", "lies in 0..20"),
        ("store c[i, j] = guarded(3 <= i + j < 7, v[i + j + -4], 0.0:float32)", "once",
         "lies in -1..2"),
    ],
)  # fmt: skip
def test_what_may_leave_is_refused(statement: str, stage: str, message: str) -> None:
    text = kernel(statement, stage)
    if not message:  # 32 // 2 == 16 elements: inside even without a helpful condition
        check_bounds(parse_kernel(text))
        return
    with pytest.raises(VerifyError) as caught:
        check_bounds(parse_kernel(text))
    (line,) = [x for x in str(caught.value).splitlines() if "# <-- " in x]
    assert message in line
    assert statement.replace("let x =", "let x: float32 =") in line


def test_loops_without_steps_access_nothing() -> None:
    check_bounds(parse_kernel(kernel("store c[i, j] = a[i, j + 9]", grid="i: 4, j: 0")))
    check_bounds(parse_kernel(kernel("reduce m: float32 = sum v[k + 90]", "for k: 0")))


CONTRACT = """kernel k(in a: float32[4, 6], in b: float32[6, 5], out c: float32[4, 5]) {
  contract acc: float32 batch () rows (i: 4) columns (j: 5) inner (k: 6) {
    left a[i, k]
    right b[k, j]
    store c[i, j] = %acc
  }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("left a[i, k]", "left a[i, k + 1]", "left a[i, k + 1]  # <-- load a: index k + 1"),
        ("right b[k, j]", "right b[j, k]", "right b[j, k]  # <-- load b: index k of axis 1"),
        ("c[i, j] =", "c[j, i] =", "# <-- store c: index j of axis 0 lies in 0..4"),
    ],
)
def test_contractions_are_checked(old: str, new: str, message: str) -> None:
    check_bounds(parse_kernel(CONTRACT))
    with pytest.raises(VerifyError) as caught:
        check_bounds(parse_kernel(CONTRACT.replace(old, new)))
    assert message in str(caught.value)


def value_of(index: Linear, point: dict[Axis, int]) -> int:
    """An index at a point, computed the plain way."""
    total = index.const
    for atom, factor in index.terms:
        if isinstance(atom, Axis):
            total += factor * point[atom]
        else:
            inner = value_of(atom.value, point)  # type: ignore[union-attr]
            quotient = type(atom).__name__ == "Quotient"
            divisor = atom.divisor  # type: ignore[union-attr]
            total += factor * (inner // divisor if quotient else inner % divisor)
    return total


@pytest.mark.parametrize("seed", range(150))
def test_ranges_hold_at_every_point(seed: int) -> None:
    """Random indices under random conditions: no point may fall outside of the range."""
    random = np.random.default_rng(seed)
    axes = [Axis(n, int(random.integers(2, 7))) for n in "ijk"]

    def index(depth: int) -> Linear:
        total = constant(int(random.integers(-4, 5)))
        for axis in axes:
            total = total + variable(axis) * int(random.integers(-3, 4))
        if depth and random.integers(0, 2):
            divisor = int(random.integers(2, 6))
            inner = index(depth - 1)
            total = total + (inner // divisor if random.integers(0, 2) else inner % divisor) * 2
        return total

    guards = []
    for _ in range(int(random.integers(1, 4))):
        form = index(1)
        low, high = sorted(int(x) for x in random.integers(form.bounds[0], form.bounds[1] + 2, 2))
        guards.append(Guard(form, low, high))
    facts = Facts(guards)
    tested = [index(2) for _ in range(4)] + [guards[0].index // 3, guards[0].index + 5]
    for values in itertools.product(*(range(a.extent) for a in axes)):
        point = dict(zip(axes, values))
        if all(g.low <= value_of(g.index, point) < g.high for g in guards):
            assert not facts.impossible
            for form in tested:
                low, high = facts.range_of(form)
                assert low <= value_of(form, point) <= high
