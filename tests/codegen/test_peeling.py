"""Borders in loops of their own: the inside has no conditions, and no bit changes."""

from __future__ import annotations

import numpy as np
import pytest

import lazyt as lt
from lazyt.codegen.lower import lower_group
from lazyt.codegen.peeling import peel
from lazyt.compiler import group_graph
from lazyt.ir.kernel import Phase
from lazyt.ir.point import Guarded, sub_expressions
from lazyt.nn import functional as F


def phase_of(result: lt.Tensor) -> Phase:
    _, groups = group_graph([result.node])
    (phase,) = lower_group(groups[-1], lt.config.inline_reduce).kernel.phases
    assert isinstance(phase, Phase)
    return phase


def conditions(phase: Phase) -> int:
    """Tests that the axes' ranges do not decide."""
    values = [s.value for stage in phase.stages for s in stage.body]
    guards = [
        guard
        for value in values
        for item in sub_expressions(value)
        if isinstance(item, Guarded)
        for guard in item.guards
    ]
    bounds = [(g.index.bounds, g) for g in guards]
    return sum(low < g.low or high >= g.high for (low, high), g in bounds)


def test_the_inside_has_no_conditions() -> None:
    phase = phase_of(F.max_pool2d(lt.rand(2, 3, 40, 40).realize(), 3, 2, 1))
    inside, *borders = peel(phase)
    assert conditions(phase) > 0 and conditions(inside) == 0
    points = [np.prod([a.extent for a in piece.grid]) for piece in (inside, *borders)]
    assert sum(points) == np.prod([a.extent for a in phase.grid])
    assert points[0] == 2 * 3 * 19 * 19


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"), [(40, 3, 2, 1), (41, 5, 3, 2), (33, 4, 2, 2)]
)
def test_pools_over_borders(size: int, kernel: int, stride: int, padding: int) -> None:
    x = lt.rand(2, 3, size, size + 5) - 0.5
    found = F.max_pool2d(x, kernel, stride, padding)
    wide = np.pad(x.numpy(), [(0, 0), (0, 0), *[(padding, padding)] * 2], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), axis=(2, 3))
    wanted = windows[:, :, ::stride, ::stride].max((-1, -2))
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_what_is_adjacent_or_all_border_stays_whole() -> None:
    adjacent = phase_of(F.max_pool2d(lt.rand(1, 2, 40, 40).realize(), 3, 1, 1))
    small = phase_of(F.max_pool2d(lt.rand(1, 2, 12, 12).realize(), 3, 2, 1))
    for phase in (adjacent, small):
        assert peel(phase) == [phase]


def test_single_values_have_no_borders() -> None:
    assert (lt.ones(()) + lt.rand(1)[0]).item() >= 1
