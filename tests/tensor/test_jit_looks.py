"""Captured functions that look at values: a replay finds out first whether they are the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyt as lt

pytestmark = [pytest.mark.lazy, pytest.mark.filterwarnings("ignore:lazyt.jit leaves")]
TRUE, MIXED = [True, True], [True, False]


def test_a_branch_on_a_mask_has_a_capture_for_each_outcome() -> None:
    captured = lt.jit(lambda x, mask: x * 2 if mask.all() else x * 3)
    for values in (TRUE, TRUE, TRUE, MIXED, MIXED, TRUE, MIXED, MIXED, TRUE):
        found = captured(lt.ones(2), lt.tensor(values))
        assert found.tolist() == [2.0 if values is TRUE else 3.0] * 2
    assert captured.why().count("captured") == 2


def test_a_branch_on_what_was_written_before() -> None:
    steps = lt.zeros((), dtype=lt.int64)

    def function(x: Any) -> Any:
        steps.add_(1)
        return x + 1 if steps < 5 else x - 1

    captured = lt.jit(function)
    found = [captured(lt.zeros(1)).item() for _ in range(9)]
    assert found == [1, 1, 1, 1, -1, -1, -1, -1, -1] and steps.item() == 9
    assert captured.why().count("captured") == 2


def test_a_size_that_is_a_tensor() -> None:
    captured = lt.jit(lambda x, count: x[: int(count)] * 2)
    for count in (1, 2, 1, 2, 2, 1, 1, 2):
        assert captured(lt.ones(3), lt.tensor(count)).shape == (count,)
    assert captured.why().count("captured") == 2


@pytest.mark.parametrize("read", [
    lambda x, mask: x[mask],
    lambda x, mask: lt.masked_select(x, mask),
    lambda x, mask: x[mask.nonzero()[:, 0]],
])  # fmt: skip
def test_masks_that_pick_another_number_of_elements(read: Any) -> None:
    """Also where the first calls all get one mask, whose count is known by then."""
    captured, x = lt.jit(read), lt.arange(4.0)
    mask = lt.tensor([True, False, True, False])
    for _ in range(4):
        assert captured(x, mask).tolist() == [0, 2]
    assert captured(x, lt.tensor([False, True, True, False])).tolist() == [1, 2]
    for _ in range(3):
        assert captured(x, lt.tensor([True, True, True, False])).tolist() == [0, 1, 2]
    assert captured.why().count("captured") == 2


def test_floats_of_state_are_compared_by_their_bits() -> None:
    scale = lt.tensor(2.5)
    captured = lt.jit(lambda x: x * scale.item())
    for value in (2.5, 2.5, 2.5, -0.0, -0.0, 0.0, 0.0, float("inf"), 2.5):
        scale.fill_(value)
        found = captured(lt.ones(2))
        assert (1 / found).tolist() == (1 / (lt.ones(2) * value)).tolist()
    assert captured.why().count("captured") == 4


def test_floats_of_arguments_are_not_captured() -> None:
    captured = lt.jit(lambda x: x * x.sum().item())
    for n in range(6):
        assert captured(lt.full((2,), float(n))).tolist() == [2.0 * n * n] * 2
    assert all("looks at a value" in reason for reason in captured.why())


def test_looks_that_are_most_of_the_work_are_not_repeated() -> None:
    captured = lt.jit(lambda x: x * 2 if (x @ x).sum() > 0 else x * 3)
    for _ in range(5):
        assert captured(lt.ones(300, 300))[0, 0].item() == 2
    assert all("much of its work" in reason for reason in captured.why())


def test_numbers_that_were_drawn() -> None:
    """The look and the replay see the same random numbers."""

    def function(x: Any) -> Any:
        coin = lt.randint(0, 2, ())
        return x + 10 if coin > 0 else x + coin

    def run(call: Any) -> list[float]:
        lt.manual_seed(3)
        return [call(lt.zeros(1)).item() for _ in range(12)]

    captured = lt.jit(function)
    assert run(captured) == run(function) == run(captured)
    assert "captured" in captured.why()


def test_iterators_that_the_function_makes() -> None:
    def function(x: Any) -> Any:
        items = iter([x, x + 1])
        doubled = (item * 2 for item in items)
        return next(doubled) + next(doubled) + next(doubled, 0)

    captured = lt.jit(function)
    for n in range(5):
        assert captured(lt.full((2,), float(n))).tolist() == [4.0 * n + 2] * 2
    assert captured.why() == ["captured"]


def test_iterators_that_others_made(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_text("".join(f"{n}\n" for n in range(9)))

    class Numbers:
        def __init__(self) -> None:
            self.n = 0

        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            self.n += 1
            return self.n - 1

    with path.open() as file:
        streams: list[Any] = [file, Numbers(), iter(range(9)), (n for n in range(9))]
        for stream in streams:
            captured = lt.jit(lambda x: x + float(next(stream)))  # noqa: B023
            assert [captured(lt.zeros(1)).item() for _ in range(9)] == list(range(9))
            del captured


@pytest.mark.lazy
def test_looks_at_no_elements() -> None:
    def function(x: lt.Tensor) -> lt.Tensor:
        marks = lt.cat([x[:0], x[3:3]])
        return x * 2 + len(marks.tolist()) + len(marks.numpy())

    captured = lt.jit(function)
    for n in range(5):
        assert captured(lt.full((3,), float(n))).tolist() == [2.0 * n] * 3
    assert captured.why() == ["captured"]


@pytest.mark.lazy
def test_looks_at_numbers_that_python_gave() -> None:
    def function(x: lt.Tensor, scale: int) -> lt.Tensor:
        axes = lt.arange(1, x.ndim)
        dims = [int(axis) for axis in axes.tolist()]
        return (x * scale).sum(dims) + axes.sum()

    captured = lt.jit(function)
    for n in range(9):
        x, scale = lt.full((2, 3, 1 + n // 6), float(n)), 1 + n // 3
        assert captured(x, scale).tolist() == function(x, scale).tolist()
    assert {*captured.why()} >= {"captured"} and not any("looks" in w for w in captured.why())

    looked = lt.jit(lambda x: x + sum((lt.arange(2) + x.round()).tolist()))
    for n in range(6):
        assert looked(lt.full((2,), float(n))).tolist() == [3.0 * n + 1] * 2
    assert "looks at a value" in looked.why()[-1]
