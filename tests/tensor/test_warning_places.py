"""Warnings name the user's line, however deep in lazyt they are given."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import lazyt as lt
from lazyt.nn import functional as F


def _scheduled() -> None:
    weight = lt.nn.Parameter(lt.ones(2))
    schedule = lt.optim.lr_scheduler.StepLR(lt.optim.SGD([weight], 0.1), 1)
    schedule.step()


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.softmax(lt.ones(2, 2)),
        lambda: lt.nn.Softmax()(lt.ones(2, 2)),
        lambda: F.mse_loss(lt.ones(2, 1), lt.ones(2)),
        lambda: lt.nn.MSELoss(size_average=True),
        lambda: lt.nn.MSELoss()(lt.ones(2, 1), lt.ones(2)),
        lambda: lt.add(lt.ones(3), 1, out=lt.ones(2)),
        _scheduled,
    ],
)
def test_warnings_name_the_users_line(call: Callable[[], object]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    lines, first = inspect.getsourcelines(call)
    assert caught
    for warning in caught:
        assert warning.filename == __file__
        assert first <= warning.lineno < first + len(lines)


def test_nothing_warns_but_by_the_users_line() -> None:
    package = Path(lt.__file__).parent
    direct = {p.name for p in package.rglob("*.py") if "warnings.warn(" in p.read_text("utf-8")}
    assert direct == {"errors.py"}
