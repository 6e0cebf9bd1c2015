"""Where two recordings first differ, and by how much."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lazyt.tools.records.files import Array, Value

__all__ = ["Difference", "compare", "ulps"]


@dataclass(frozen=True)
class Difference:
    """Two values that should be equal.

    Attributes:
        number: which look, or which node, of its recording it is, from 1.
        before, here: the values.
        element: flat position of the first element that differs; None where no kept one does.
        distance: units in the last place between these; None for other types.
        others: how many of the kept elements differ.
    """

    number: int
    before: Value
    here: Value
    element: int | None
    distance: int | None
    others: int

    def __str__(self) -> str:
        value = self.here
        where = f" at {value.line}" if value.line else ""
        name = "value" if value.kind == "look" else "node"
        shape = "x".join(map(str, value.shape)) or "a number"
        lines = [f"{name} {self.number}: {value.what}{where} ({value.dtype}, {shape})"]
        if value.text:
            lines.append(f"    {value.text}")
        if self.element is None:
            lines.append("  of the elements that were kept none differs")
            return "\n".join(lines)
        kept, old = self.here.elements(), self.before.elements()[self.element]
        apart = "" if self.distance is None else f", {self.distance} ulp apart"
        values = f"{old!s} recorded, {kept[self.element]!s} here{apart}"
        if value.shape:
            at = np.unravel_index(self.element * value.step, value.shape)
            values = f"element [{', '.join(str(int(i)) for i in at)}]: {values}"
            values += f"; {self.others} of {len(kept)} elements that were kept differ"
        return "\n".join([*lines, f"  {values}"])


def ulps(a: Array, b: Array) -> Array:
    """Units in the last place between floats of one type, as Python integers would count them; 0
    for equal ones and where both are NaN."""
    kind = np.dtype(f"i{a.dtype.itemsize}")
    low = np.iinfo(kind).min

    def ordered(x: Array) -> Array:
        bits: Array = x.view(kind)
        return np.where(bits < 0, low - bits, bits).astype(object)

    distance: Array = np.abs(ordered(a) - ordered(b))
    distance[(a == b) | (np.isnan(a) & np.isnan(b))] = 0
    return distance


def _difference(number: int, before: Value, here: Value) -> Difference:
    old, new = before.elements(), here.elements()
    if old.dtype != new.dtype or old.shape != new.shape:
        return Difference(number, before, here, None, None, 0)
    differ = old.view(f"V{old.itemsize}") != new.view(f"V{new.itemsize}")
    if not differ.any():
        return Difference(number, before, here, None, None, 0)
    first = int(differ.argmax())
    distance = None
    if old.dtype.kind == "f":
        distance = int(ulps(old[first : first + 1], new[first : first + 1])[0])
    return Difference(number, before, here, first, distance, int(differ.sum()))


def _close(before: Value, here: Value, tolerance: float | None) -> bool:
    """Whether two values are equal to the bit, or within a tolerance if there is one."""
    if before.dtype == here.dtype and before.digest == here.digest:
        return True
    old, new = before.elements(), here.elements()
    if tolerance is None or before.shape != here.shape or old.shape != new.shape:
        return False
    if old.dtype.kind not in "fc" or new.dtype.kind not in "fc":
        return False
    return bool(np.allclose(old, new, rtol=tolerance, atol=tolerance, equal_nan=True))


def _aligned(
    old: Sequence[Value], new: Sequence[Value], keys: Sequence[Sequence[object]]
) -> list[tuple[int, tuple[Value, Value]]]:
    """The values that two recordings both have, in order, with their numbers in the second. What
    stands between two that are the same, of the same operations and shapes, is the same, too: there
    a line was edited."""
    if keys[0] == keys[1]:
        return list(enumerate(zip(old, new)))
    matcher = difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    found = []
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        one, other = old[a:a_end], new[b:b_end]
        alike = [(v.what, v.shape) for v in one] == [(v.what, v.shape) for v in other]
        if tag == "equal" or (tag == "replace" and alike):
            found += [(b + i, pair) for i, pair in enumerate(zip(one, other))]
    return found


def compare(
    before: Sequence[Value], here: Sequence[Value], kind: str, tolerance: float | None = None
) -> Difference | str | None:
    """The first value of a kind that differs; a sentence where the programs did not do the same;
    None where all are equal. With ``tolerance``, relative and absolute, that much is allowed."""
    old = [value for value in before if value.kind == kind]
    new = [value for value in here if value.kind == kind]
    loose = tolerance is not None  # another framework has other names for types
    by_line, keys = (
        [[v.key(by_text)[:4] if loose else v.key(by_text) for v in values] for values in (old, new)]
        for by_text in (False, True)
    )
    if by_line[0] == by_line[1]:  # a line that was edited in its place, too
        keys = by_line
    pairs = _aligned(old, new, keys)
    for number, (one, other) in pairs:
        if not _close(one, other, tolerance):
            return _difference(number + 1, one, other)
    if keys[0] == keys[1]:
        return None
    at = next((i for i, pair in enumerate(zip(*keys)) if pair[0] != pair[1]), len(pairs))
    there = [f"{v[at].what} at {v[at].line}" if at < len(v) else "the end" for v in (old, new)]
    name = "value" if kind == "look" else "node"
    return f"{name} {at + 1}: {there[0]} recorded, {there[1]} here; values before it are equal"
