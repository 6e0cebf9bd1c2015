"""PyTorch's own operator samples give here what they gave there: values, strides, gradients."""

from __future__ import annotations

import re
import warnings

import pytest

import lazyt
from tests.peer_samples.replay import Row, difference, function_of, load, perform, tensors_in

#: Where lazyt answers otherwise, on purpose: operators and the reason.
DIFFERENT: list[tuple[str, str]] = [
    (r"cholesky_(inverse|solve)", "only the triangle that is read gets a gradient"),
    (r"matrix_exp", "PyTorch overflows in 16 bits where lazyt has numbers"),
    (r"as_strided(_copy)?(:partial_views)?", "leaves that are parts of other tensors"),
    (r"as_strided_scatter", "PyTorch gives overwritten elements a gradient"),
    (r"(linalg\.)?svd|linalg\.eigh", "singular and eigenvectors have no sign of their own"),
    (r"linalg\.lstsq(:grad_oriented)?", "PyTorch's solution is a part of a larger buffer"),
    (r"special\.bessel_[jy][01]", "PyTorch's have eight digits"),
]

# Of the operators every so many is compiled, so many samples at once.
_EVERY, _TOGETHER = 6, 50
_ROWS = load()
_EXPLAINED = [re.compile(pattern) for pattern, _ in DIFFERENT]


def found_in(label: str, row: Row) -> str:
    """How a row differs, or nothing."""
    function = function_of(label)
    assert function is not None
    try:
        return difference(*perform(function, row), row)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def labels() -> list[str]:
    """The operators that lazyt has."""
    return [label for label in _ROWS if function_of(label) is not None]


def test_samples_give_what_pytorch_gave() -> None:
    assert len(labels()) > 550
    wrong = {}
    with warnings.catch_warnings(), lazyt.config.override(interpret=True):
        warnings.simplefilter("ignore")
        for label in labels():
            texts = [found_in(label, row) for row in _ROWS[label]]
            if any(texts):
                wrong[label] = next(filter(None, texts))
    explained = {label for label in wrong if any(p.fullmatch(label) for p in _EXPLAINED)}
    texts = [f"{label}: {wrong[label]}" for label in wrong if label not in explained]
    assert not texts, "\n".join(texts)
    unused = [p.pattern for p in _EXPLAINED if not any(map(p.fullmatch, explained))]
    assert not unused, f"differences that are none: {unused}"


def compared(label: str) -> bool:
    """Whether the kernels of an operator are worth a look: results that no choice changes."""
    return not any(p.fullmatch(label) for p in _EXPLAINED) and label != "nn.functional.ctc_loss"


@pytest.mark.fused_values
def test_kernels_give_it_too() -> None:
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, label in enumerate([*filter(compared, labels())][::_EVERY]):
            rows = [row for row in _ROWS[label] if len(str(row)) < 2500]
            function = function_of(label)
            if rows and function is not None:
                row = rows[number % len(rows)]
                result, slopes = perform(function, row)
                made.append((label, row, result, slopes))
    wrong = []
    for at in range(0, len(made), _TOGETHER):
        part = made[at : at + _TOGETHER]
        lazyt.realize(*[t for _, _, *values in part for t in tensors_in(values)])
        for label, row, result, slopes in part:
            if text := difference(result, slopes, row):
                wrong.append(f"{label}: {text}")
    assert not wrong, "\n".join(wrong)
