"""Finds the first thing in which two runs of one program differ."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from lazyt.testing.programs.program import Facts

#: Largest relative error of values that implementations may round differently, by the coarsest
#: dtype of the program so far.
TOLERANCE = {"bfloat16": 6e-2, "float16": 8e-3, "float32": 4e-5, "float64": 1e-9}


class Difference(NamedTuple):
    """What differs.

    Attributes:
        step: number of the statement; the last look has the number after the last.
        kind: which fact.
        name: of the value concerned, empty for errors.
        wanted, found: the fact in the reference and here.
    """

    step: int
    kind: str
    name: str
    wanted: str
    found: str

    def __str__(self) -> str:
        return (
            f"step {self.step}: {self.kind} {self.name}\n  want {self.wanted}\n  have {self.found}"
        )


def first_difference(
    wanted: Sequence[Facts], found: Sequence[Facts], messages: bool = True
) -> Difference | None:
    """The first difference between a reference's facts and another module's, None without one.

    Args:
        messages: whether errors of one type differ when they speak of different things. A call with
            two mistakes may be refused for either.
    """
    kinds: set[str] = set()
    for number, (want, have) in enumerate(zip(wanted, found, strict=True)):
        for text in want.get("is", {}).values():
            kinds.update(text.split()[:2])
        for kind, name, expected, got in (
            *_errors(want, have), *_descriptions(want, have), *_values(want, have, kinds)
        ):  # fmt: skip
            if messages or kind != "message":
                return Difference(number, kind, name, expected, got)
    return None


Found = list[tuple[str, str, str, str]]


def _errors(want: Facts, have: Facts) -> Found:
    expected, got = want.get("error"), have.get("error")
    if expected is None and got is None:
        return []
    texts = [" ".join(e) if e else "no error" for e in (expected, got)]
    if expected is None or got is None:
        return [("error", "", texts[0], texts[1])]
    if expected[0].split()[0] not in got[0].split():
        return [("error type", "", texts[0], texts[1])]
    if not _alike(expected[1], got[1]):
        return [("message", "", texts[0], texts[1])]
    return []


#: Messages of one kind: which is raised depends on the routine that a library chooses.
SAME = (
    r"shapes cannot be multiplied|Expected size for first two dimensions|size mismatch, got input",
    r"have the same dtype, but|expected scalar type",
    r"is out of bounds for|requiring a storage size of|index out of range in self",
)


def _alike(wanted: str, found: str) -> bool:
    """Whether two messages say the same, numbers and names aside."""
    if any(re.search(kind, wanted) and re.search(kind, found) for kind in SAME):
        return True
    plain = [re.sub(r"torch|lazyt|[-\d]+", "", text).lower() for text in (wanted, found)]
    words = [re.findall(r"[a-z_]+", text) for text in plain]
    return difflib.SequenceMatcher(None, words[0], words[1]).ratio() > 0.4 or not words[0]


def _lenient(description: str | None) -> str | None:
    description = description and " ".join(description.split())
    return description and re.sub(r"(\w*Backward\w*|NotImplemented|CopySlices)", "fn", description)


def _descriptions(want: Facts, have: Facts) -> Found:
    found: Found = []
    expected, got = want.get("is", {}), have.get("is", {})
    for name in sorted({*expected, *got}):
        if _lenient(expected.get(name)) != _lenient(got.get(name)):
            found.append(("description", name, expected.get(name, "as before"),
                          got.get(name, "as before")))  # fmt: skip
    if sorted(want.get("gone", [])) != sorted(have.get("gone", [])):
        found.append(("names", "", str(want.get("gone")), str(have.get("gone"))))
    return found


def _values(want: Facts, have: Facts, kinds: set[str]) -> Found:
    expected, got = want.get("values", {}), have.get("values", {})
    found: Found = []
    limit = next((TOLERANCE[kind] for kind in TOLERANCE if kind in kinds), 1e-9)
    for name, text in expected.items():
        if name not in got:
            found.append(("value", name, text, "as before"))
        elif _lenient(text) != _lenient(got[name]) and not _near(text, got[name], limit):
            found.append(("value", name, text, got[name]))
    for name in got:
        if name not in expected:
            found.append(("value", name, "as before", got[name]))
    return found


def _near(wanted: str, found: str, limit: float) -> bool:
    # Which sign a sum of zeros has depends on the order.
    wanted, found = (re.sub(r"-0(?![.\d])", "0", text) for text in (wanted, found))
    if not wanted.startswith("~"):
        return wanted == found
    first, second = ([float(v) for v in t[1:].split(",") if v] for t in (wanted, found))
    if len(first) != len(second):
        return False
    scale = max([abs(v) for v in first if math.isfinite(v)], default=0.0)
    limit *= max(scale, 1e-3)
    return all(
        a == b or abs(a - b) <= limit or (math.isnan(a) and math.isnan(b))
        for a, b in zip(first, second)
    )
