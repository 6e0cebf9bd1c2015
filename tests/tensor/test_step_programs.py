"""Random step functions show the same captured, plain and step by step: ``step_programs``."""

from __future__ import annotations

import pytest

from lazyt.runtime.cpu import compile
from tests.tensor.step_programs import check

pytestmark = [
    pytest.mark.lazy,
    pytest.mark.skipif(not compile.available(), reason="needs a C compiler"),
]


@pytest.mark.turns
@pytest.mark.parametrize("first", range(0, 2100, 100))
def test_captured_as_step_by_step(first: int) -> None:
    fine, captured = check(range(first, first + 100), False)
    assert fine > 85 and captured > 80


def test_with_kernels() -> None:
    """A few with the text of kernels as well."""
    assert check(range(5000, 5006), True)[0] > 3
