"""Elements put together in turn: each has one source, no remainder is left, and no bit changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lazyt as lt
from lazyt.codegen.loops.weaving import weave
from lazyt.codegen.lower.groups import lower_group
from lazyt.compiler import group_graph
from lazyt.ir.kernel import Phase, Store
from lazyt.nn import functional as F


def leaf(*shape: int) -> lt.Tensor:
    count = int(np.prod(shape))
    return (lt.arange(count, dtype=lt.float32) * 0.5 - 3).reshape(*shape).realize()


def in_turn(x: lt.Tensor) -> lt.Tensor:
    return lt.stack((x * 2, x * 3, x - 1), -1).flatten(-2)


def cut(x: lt.Tensor) -> lt.Tensor:
    return lt.stack((x, -x), -1).flatten(-2)[..., :-1]


def rotated(x: lt.Tensor) -> lt.Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    return lt.stack((even * 2 - odd * 3, even * 3 + odd * 2), -1).flatten(-2)


def rows_in_turn(x: lt.Tensor) -> lt.Tensor:
    return lt.stack((x, x + 1), -2).flatten(-3, -2)


def pairs(x: lt.Tensor) -> lt.Tensor:
    return lt.stack((x * 2, -x), -1)


CASES: dict[str, tuple[Callable[[lt.Tensor], lt.Tensor], tuple[int, ...]]] = {
    "stack": (in_turn, (3, 40)),
    "pairs": (pairs, (3, 40)),
    "cut": (cut, (3, 29)),
    "rotary": (rotated, (2, 5, 48)),
    "rows": (rows_in_turn, (2, 20, 30)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (1, 2, 11, 13)),
    "shuffle": (lambda x: F.pixel_shuffle(x, 2), (1, 8, 9, 10)),
    "repeat": (lambda x: x.repeat_interleave(3, -1), (3, 20)),
    "transposed": (lambda x: F.conv_transpose2d(x, leaf(3, 2, 3, 3), None, 2), (1, 3, 9, 14)),
}


def phase_of(result: lt.Tensor) -> Phase:
    _, groups = group_graph([result.node])
    phase = lower_group(groups[-1], lt.config.inline_reduce).kernel.phases[-1]
    assert isinstance(phase, Phase)
    return phase


def sources(phase: Phase) -> str:
    """All values of a phase, as text."""
    return " ".join(repr(s.value) for stage in phase.stages for s in stage.body)


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_as_without_a_compiler(name: str) -> None:
    function, shape = CASES[name]
    found = function(leaf(*shape)).numpy()
    with lt.config.override(interpret=True):
        wanted = function(leaf(*shape)).numpy()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", [name for name in CASES if name != "repeat"])
def test_no_remainder_is_left_and_no_point_is_lost(name: str) -> None:
    function, shape = CASES[name]
    phase = phase_of(function(leaf(*shape)))
    pieces = weave(phase)
    assert "%" in sources(phase) or "//" in sources(phase) or name == "pairs"
    for piece in pieces:
        axis = str(piece.grid[-1]) if name != "pairs" else "i1"
        assert f"({axis}) %" not in sources(piece) and f"({axis}) //" not in sources(piece)
    stores = [
        np.prod([a.extent for a in piece.grid])
        * sum(isinstance(s, Store) for stage in piece.stages for s in stage.body)
        for piece in pieces
    ]
    assert sum(stores) == np.prod([a.extent for a in phase.grid])


def test_what_is_read_by_value_stays_whole() -> None:
    table, picks = leaf(40), (lt.arange(30) * 7 % 40).realize()
    result = (table[picks * 1] * 2).repeat_interleave(2, -1)
    phase = phase_of(result)
    assert "@" in sources(phase) and weave(phase) == [phase]
    wanted = [(n * 7 % 40 * 0.5 - 3) * 2 for n in range(30) for _ in range(2)]
    assert result.tolist() == wanted


def test_long_bodies_large_divisors_and_short_axes_stay_whole() -> None:
    x = leaf(4, 40)
    many = lt.stack([x + i for i in range(7)], -1).flatten(-2)
    short = lt.stack((leaf(4, 5), leaf(4, 5)), -1).flatten(-2)
    for result in (many, short, x * 2):
        phase = phase_of(result)
        assert weave(phase) == [phase]


def test_sums_of_columns_from_a_few_parts_are_a_phase_for_each() -> None:
    parts = [leaf(6, 70, 64) + i for i in range(3)]
    joined = lt.stack(parts, 1).permute(2, 0, 1, 3).reshape(70, 6 * 3 * 64)
    result = joined.sum(0)
    with lt.config.override(interpret=True):
        wanted = (joined * 1).sum(0).numpy()
    phase = phase_of(result)
    pieces = weave(phase)
    assert len(pieces) == 3 and " if " in sources(phase)
    assert not any(" if " in sources(piece) for piece in pieces)
    np.testing.assert_array_equal(result.numpy(), wanted)
