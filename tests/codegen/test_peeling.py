"""Borders in loops of their own: the inside has no conditions, and no bit changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.codegen.c import target
from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.loops.peeling import peel
from lazyt.codegen.lower.groups import lower_group
from lazyt.compiler import compile_graph, group_graph
from lazyt.handle.dispatch import wrap
from lazyt.ir.dtypes import float32
from lazyt.ir.index import Guarded, sub_expressions
from lazyt.ir.kernel import Phase
from lazyt.nn import functional as F
from lazyt.plan import planning


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


def pieces(result: lt.Tensor) -> list[tuple[int, ...]]:
    """Extents of the pieces that a phase is cut into."""
    return [tuple(a.extent for a in piece.grid) for piece in peel(phase_of(result))]


def test_choices_between_places_are_cut_where_they_turn() -> None:
    x, y = lt.rand(40, 50).realize(), lt.rand(40, 60).realize()
    assert pieces(lt.cat([x, y, x], 1)) == [(40, 60), (40, 50), (40, 50)]
    for piece in peel(phase_of(lt.cat([x, y, x], 1))):
        assert conditions(piece) == 0
    assert pieces(lt.roll(x, (10, 20), (0, 1))) == [(30, 30), (30, 20), (10, 30), (10, 20)]
    assert pieces(F.pad(x[None], (3, 3), mode="reflect")) == [
        (1, 40, 50), (1, 40, 3), (1, 40, 3)
    ]  # fmt: skip
    many = lt.cat([y[:, :9]] * 20, 1)
    assert pieces(many) == [(40, 180)], "more pieces than are worth it"


def test_loops_over_parts_read_one_of_them() -> None:
    x, y = lt.rand(40, 5000).realize(), lt.rand(24, 5000).realize()
    rows = lt.cat([x, y], 0)
    for result in (rows.sum(1), rows.amax(1), lt.softmax(rows, 1)):
        assert [p.grid[0].extent for p in peel(phase_of(result))] == [40, 24]
        assert not any(conditions(p) for p in peel(phase_of(result)))
    assert len(peel(phase_of(lt.cat([x, x], 1).sum(1)))) == 1, "the choice is inside of the loop"
    assert len(peel(phase_of(rows.cumsum(0)))) == 1, "elements in an order"
    edges = F.avg_pool2d(lt.cat([lt.rand(1, 9, 40, 64).realize()] * 2, 1), 3, 1, 1)
    assert conditions(peel(phase_of(edges))[0]) == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: lt.cat([x, x * 2, x[:1]], 0).sum(2),
        lambda x: lt.cat([x, x.flip(1)], 1).softmax(2),
        lambda x: lt.cat([x, x.flip(1)], 1).softmax(0),
        lambda x: lt.cat([x, x.flip(2)], 2).var((0, 1)),
        lambda x: lt.cat([x, x.flip(2), x], 1).argmax(2),
        lambda x: lt.cat([x.repeat(1, 1, 90), x.repeat(1, 1, 90)], 1).sum(2),
        lambda x: lt.cat([x.repeat(1, 1, 90), x.repeat(1, 1, 90)], 0).sum(),
        lambda x: F.layer_norm(lt.cat([x, x + 1], 0), (35,)),
        lambda x: F.avg_pool2d(lt.cat([x, x + 1, x * 3], 0), 3, 1, 1),
        lambda x: F.max_pool2d(lt.cat([x.flip(0), x], 1), 3, 2, 1),
        lambda x: lt.cat([x, x + 1], 1).cumsum(2),
        lambda x: lt.roll(x, (5, 9), (1, 2)).sum(2),
        lambda x: lt.roll(x, (3, 5, -7), (0, 1, 2)),
        lambda x: F.pad(x, (4, 9, 3, 1), mode="reflect"),
        lambda x: F.pad(x, (11, 2, 0, 17), mode="replicate"),
        lambda x: F.pad(x, (2, 12, 9, 3), mode="circular"),
        lambda x: lt.cat([x.flip(2), x * 2, x[..., :9].exp()], 2),
        lambda x: lt.cat([x, lt.stack([x, -x], 1).flatten(0, 1)], 0),
        lambda x: F.pad(lt.cat([x, x.roll(4, -1)], 1), (1, -3), value=2.0),
    ],
)
def test_cut_loops_keep_their_bits(
    function: Callable[[lt.Tensor], lt.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = (lt.rand(6, 21, 35) - 0.5).realize()
    monkeypatch.setattr(lt.config, "disk_cache", False)
    monkeypatch.setattr(lt.config, "verify", True)
    planning.clear()
    found = function(x).numpy()
    monkeypatch.setattr(target, "peel", lambda phase: [phase])
    planning.clear()
    np.testing.assert_array_equal(function(x).numpy(), found)


def test_pieces_of_the_same_rows_share_a_loop() -> None:
    x, y = ops.input_((40, 50), float32), ops.input_((40, 60), float32)

    def text(result: lt.Tensor) -> str:
        kernels = compile_graph([result.node], [x, y])[1]
        return "".join(
            print_kernel_c(k, 32, (32 << 10, 1 << 20, 8 << 20)).source.text for k in kernels
        )

    found = text(lt.cat([wrap(x), wrap(y)], 1))
    assert found.count("t0 < 40") == 1 and found.count("u < ") == 2
    rolled = text(lt.roll(wrap(y), (9, 20), (0, 1)))
    assert rolled.count("t0 < ") == 2 and rolled.count("u < ") == 4


def test_stacked_pieces_are_copied_one_by_one() -> None:
    pieces = [lt.rand(30, 40).realize() for _ in range(3)]
    phase = phase_of(lt.stack(pieces) * 2)
    cut = peel(phase)
    assert len(cut) == 3 and conditions(phase) > 0 and not any(map(conditions, cut))
    found = (lt.stack(pieces) * 2).numpy()
    np.testing.assert_array_equal(found, np.stack([p.numpy() for p in pieces]) * 2)
