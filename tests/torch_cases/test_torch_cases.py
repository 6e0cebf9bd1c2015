"""Thousands of one-line programs give what PyTorch gave: values, strides, sharing, errors.

They run in the interpreter, which needs no compiler; that kernels agree with it is tested
elsewhere. Where lazyt differs on purpose (negative steps of slices, gradients of values changed
behind autograd's back) there is no program here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import lazyt
from tests.torch_cases.cases import agree, answer, load

_FILES = sorted(Path(__file__).parent.glob("*.json.gz"))


@pytest.mark.parametrize("path", _FILES, ids=lambda p: p.name.partition(".")[0])
def test_answers_are_those_of_pytorch(path: Path) -> None:
    """Every program of the file; the first few that differ are shown."""
    pairs = load(path)
    assert pairs
    wrong = []
    with lazyt.config.override(interpret=True):
        for program, wanted in pairs:
            found = answer(program, lazyt)
            if not agree(wanted, found):
                wrong.append(f"{program}\n  PyTorch: {wanted}\n  lazyt:   {found}")
    assert not wrong, f"{len(wrong)} of {len(pairs)} differ:\n" + "\n".join(wrong[:5])


def test_differences_are_noticed() -> None:
    """What is compared would show another stride, value, class or message."""
    wanted = answer("A(2, 3).t()", lazyt)
    assert agree(wanted, answer("A(2, 3).t()", lazyt))
    assert not agree(wanted, answer("A(2, 3).t().contiguous()", lazyt))
    assert not agree(wanted, answer("A(2, 3).t() + 1", lazyt))
    assert not agree(wanted, answer("A(2, 3).view(7)", lazyt))
    assert not agree(answer("A(2).view(7)", lazyt), answer("A(2)[9]", lazyt))
