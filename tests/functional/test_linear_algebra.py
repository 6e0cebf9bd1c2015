"""Linear algebra against what PyTorch made of the same calls: values, derivatives, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt
from tests.functional.einsum_cases import EQUATIONS
from tests.functional.linear_cases import CASES, Env, environment, outcome
from tests.functional.linear_refusals import REFUSED

RECORDED: dict[str, list[Any]] = json.loads(
    (Path(__file__).parents[1] / "recorded" / "linear.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def env() -> Iterator[Env]:
    # Interpreted: thousands of small graphs, each of which would have to be compiled.
    before = lazyt.config.interpret
    lazyt.config.interpret = True
    yield environment(lazyt)
    lazyt.config.interpret = before


@pytest.mark.parametrize("case", [*CASES, *EQUATIONS, *REFUSED])
def test_call_gives_what_pytorch_gave(env: Env, case: str) -> None:
    found, expected = outcome(env, case), RECORDED[case]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        if isinstance(theirs, str):
            assert ours == theirs
            continue
        assert ours[:2] == theirs[:2]
        known = [x for x in theirs[2] if np.isfinite(x)]
        scale = max(map(abs, known), default=1.0)
        np.testing.assert_allclose(ours[2], theirs[2], rtol=2e-5, atol=2e-6 * max(scale, 1e-3))
