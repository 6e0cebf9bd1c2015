"""``ctc_loss`` of targets that are no class: refused, where PyTorch reads beyond the row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F
from lazyt.errors import BoundsError


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    with lazyt.config.override(interpret=True):
        yield


def loss(targets: lazyt.Tensor, sizes: Sequence[int]) -> lazyt.Tensor:
    scores = lazyt.zeros(5, 2, 4).log_softmax(2)
    return F.ctc_loss(scores, targets, lazyt.tensor([5, 5]), lazyt.tensor(sizes))


@pytest.mark.parametrize("bad", [4, -1, 2**40])
@pytest.mark.parametrize("computed", [False, True])
def test_target_that_is_no_class_is_refused(bad: int, computed: bool) -> None:
    """In rows, and one sample's after the other's; pending targets too."""
    for targets, sizes in (([[1, bad], [1, 1]], [2, 2]), ([[3, 3], [bad, 0]], [2, 1]),
                           ([1, 2, bad], [2, 1])):  # fmt: skip
        given = lazyt.tensor(targets)
        with pytest.raises(BoundsError, match=f"Target {bad} is out of bounds"):
            loss(given * 1 if computed else given, sizes)


def test_what_follows_a_target_in_its_row_is_anything() -> None:
    """The values are PyTorch's."""
    padded = loss(lazyt.tensor([[1, 2, -1], [3, -100, 9]]), [2, 1])
    assert padded.item() == pytest.approx(2.9557416439056396, rel=1e-6)
    assert padded.item() == loss(lazyt.tensor([1, 2, 3]), [2, 1]).item()
    none = loss(lazyt.tensor([[7, 7], [7, 7]]), [0, 0])
    assert none.item() == pytest.approx(6.931471824645996, rel=1e-6)


def test_replays_check_targets() -> None:
    """Every replay looks at its own targets, and recovers from refused ones."""
    compiled = lazyt.compile(lambda targets: loss(targets, [2, 1]))
    good, bad = lazyt.tensor([[1, 2], [3, -1]]), lazyt.tensor([[1, 2], [4, -1]])
    wanted = loss(good, [2, 1]).item()
    for _ in range(3):
        for _ in range(3):
            assert compiled(good.clone()).item() == wanted
        with pytest.raises(BoundsError, match="Target 4 is out of bounds"):
            compiled(bad.clone())
