"""Programs after bug reports of many projects show on lazyt what they showed on PyTorch.

``cases`` holds the programs: each names in its docstring the reports that it follows, and a
function ``case`` runs it on a module with PyTorch's API and writes its values down under labels.
``recorded`` holds what PyTorch 2.13 showed, ``excused.py`` where lazyt's value is another one, and
why. After a change of a case, with PyTorch: ``python -m tests.reported.record_reported CASE``.

Most run in the interpreter, which needs no compiler; those in ``COMPILED`` are about what is
compiled. ``LAZYT_REPORTED_COMPILED=all`` compiles every case.
"""

from __future__ import annotations

import os
import re

import pytest

import lazyt
from tests.reported.excused import EXCUSED
from tests.reported.record_reported import case_names, recorded, show
from tests.reported.same_values import difference
from tests.reported.shown import Item, Log

COMPILED = {"b10_bit_views"}
ALL = os.environ.get("LAZYT_REPORTED_COMPILED") == "all"


def differences(wanted: list[Item], found: list[Item]) -> dict[str, str]:
    """By label, how values differ from PyTorch's."""
    by_label = {label: value for label, value, *_ in found}
    assert [label for label, *_ in wanted] == [label for label, *_ in found]
    told = {
        label: difference(value, by_label[label], rtol, atol) for label, value, rtol, atol in wanted
    }
    return {label: text for label, text in told.items() if text is not None}


@pytest.mark.parametrize("name", case_names())
def test_case_shows_what_pytorch_showed(name: str) -> None:
    """Every value, besides those that are excused; and each excuse excuses something."""
    with lazyt.config.override(interpret=not ALL and name not in COMPILED):
        found = differences(recorded(name), show(name, lazyt))
    patterns = [pattern for case, pattern, _ in EXCUSED if case == name]
    wrong = {
        label: text
        for label, text in found.items()
        if not any(re.fullmatch(pattern, label) for pattern in patterns)
    }
    lines = [f"{label}: {text}" for label, text in wrong.items()]
    assert not lines, f"{len(lines)} differ:\n" + "\n".join(lines[:12])
    idle = [p for p in patterns if not any(re.fullmatch(p, label) for label in found)]
    assert not idle, f"excuses that are not needed: {idle}"


def test_excuses_name_cases() -> None:
    assert {case for case, *_ in EXCUSED} <= {*case_names()}
    assert all(reason for *_, reason in EXCUSED)


def test_differences_are_noticed() -> None:
    """Another bit, dtype, shape, length, number or class of error is a difference."""

    def shown(value: object) -> list[Item]:
        log = Log(lazyt)
        log.add("value", value)
        return log.items

    values: list[object] = [
        lazyt.tensor([1, 2]), lazyt.tensor([1, 3]), lazyt.tensor([1.0, 2.0]),
        lazyt.tensor([[1, 2]]), [1], [1, 1], 1, 1.0, True, None, "1", {"a": 1}, {"b": 1},
        ValueError("no"), IndexError("no"), lazyt.tensor([1.0, float("nan")]),
    ]  # fmt: skip
    for i, left in enumerate(values):
        for j, right in enumerate(values):
            assert bool(differences(shown(left), shown(right))) == (i != j), (left, right)
