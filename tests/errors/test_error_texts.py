"""The commonest mistakes raise PyTorch's exceptions with PyTorch's words."""

from __future__ import annotations

import functools
import json
import re
import warnings
from pathlib import Path

import pytest

import lazyt
from tests.errors.differences import DIFFERENT
from tests.errors.mistakes import AREAS, first_sentence, outcome

RECORDED: dict[str, tuple[str, str]] = json.loads(
    (Path(__file__).parents[1] / "recorded" / "errors.json").read_text(encoding="utf-8")
)

PROGRAMS = [program for area in AREAS.values() for program in area if program in RECORDED]


def different(program: str) -> str:
    """What a program raises, when it is not what PyTorch raised."""
    kind, text = RECORDED[program]
    kinds, words = outcome(lazyt, program)
    if kind not in kinds:
        return f"{program}: {kinds or 'nothing'} {words!r} instead of {kind} {text!r}"
    said = first_sentence(words)
    return "" if said.startswith(text) else f"{program}: {said!r} instead of {text!r}"


@functools.cache
def differences() -> dict[str, str]:
    """What differs, by program; looked at once for all tests."""
    with warnings.catch_warnings(), lazyt.config.override(interpret=True):
        warnings.simplefilter("ignore")
        return {program: text for program in PROGRAMS if (text := different(program))}


@pytest.mark.parametrize("area", AREAS)
def test_mistakes_raise_what_pytorch_raises(area: str) -> None:
    wrong = [
        text
        for program, text in differences().items()
        if program in AREAS[area]
        and not any(re.fullmatch(pattern, program, re.DOTALL) for pattern, _ in DIFFERENT)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.lazy
def test_explained_differences_exist() -> None:
    stale = [
        pattern
        for pattern, reason in DIFFERENT
        if not reason.endswith("yet")
        and not any(re.fullmatch(pattern, program, re.DOTALL) for program in differences())
    ]
    assert not stale, f"known differences that are none: {stale}"


def test_nearly_all_mistakes_raise_the_same() -> None:
    assert len(PROGRAMS) > 1000
    assert len(differences()) < len(PROGRAMS) / 8
