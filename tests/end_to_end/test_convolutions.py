"""Convolutions and their gradients against sums in float64, and the same bits in every form."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor
from lazyt.codegen.conv import blocks, panels
from lazyt.codegen.conv.blocks import SlideForm
from lazyt.codegen.conv.lanes import LanesForm
from lazyt.codegen.conv.sums import SumsForm
from lazyt.codegen.matmul import phase as c_contract
from lazyt.nn import functional as F
from lazyt.plan import planning
from lazyt.runtime.cpu import execute

pytestmark = [pytest.mark.usefixtures("module_cache"), pytest.mark.lazy]


@dataclass(frozen=True)
class Case:
    """A layer: spatial extents, channels in and out, and its settings."""

    size: int
    space: tuple[int, ...]
    channels: int
    outputs: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    extra: tuple[int, ...] = ()


def plain(space: tuple[int, ...], channels: int, outputs: int, kernel: int, **more: Any) -> Case:
    """A layer with the usual padding."""
    rank = len(space)
    settings = {"stride": (1,) * rank, "dilation": (1,) * rank, "padding": (kernel // 2,) * rank}
    return Case(2, space, channels, outputs, (kernel,) * rank, **{**settings, **more})


CASES = [
    plain((33, 35), 17, 31, 3),
    plain((33, 35), 17, 31, 3, stride=(2, 2)),
    plain((30, 34), 3, 16, 7, stride=(2, 2)),
    plain((16, 18), 12, 12, 3, groups=12),
    plain((7, 7), 48, 96, 3),
    plain((14, 14), 40, 24, 1),
    plain((19, 23), 5, 9, 3, stride=(3, 2), dilation=(2, 3), padding=(2, 1)),
    plain((30, 30), 12, 24, 3, stride=(2, 1), dilation=(1, 2), padding=(1, 0), groups=4),
    plain((100,), 8, 16, 4, stride=(3,), dilation=(2,)),
    plain((7, 8, 9), 4, 6, 3, stride=(2, 1, 2)),
    plain((32, 32), 3, 24, 8, stride=(8, 8), padding=(0, 0)),
    plain((10, 11), 8, 6, 3, stride=(2, 2), transposed=True, extra=(1, 0)),
    plain((12, 13), 8, 6, 3, transposed=True),
    plain((7, 5), 8, 6, 2, stride=(3, 2), padding=(0, 2), dilation=(1, 2), groups=2,
          transposed=True, extra=(1, 0)),
]  # fmt: skip


def some_cases() -> Iterator[Case]:
    """Ragged layers that nobody thought of."""
    draw = random.Random(7)
    for _ in range(4):
        rank, groups = draw.choice((1, 2, 2)), draw.choice((1, 1, 2, 3))

        def each(least: int, most: int, count: int = rank) -> tuple[int, ...]:
            return tuple(draw.randint(least, most) for _ in range(count))

        yield Case(
            draw.randint(1, 3), each(9, 21), groups * draw.randint(1, 7),
            groups * draw.randint(1, 9), each(1, 4), each(1, 3), each(0, 2), each(1, 2), groups,
        )  # fmt: skip


def places(case: Case, tap: tuple[int, ...], count: tuple[int, ...]) -> tuple[slice, ...]:
    """The padded elements that a tap meets."""
    return tuple(
        slice(t * d, t * d + s * (n - 1) + 1, s)
        for t, d, s, n in zip(tap, case.dilation, case.stride, count)
    )


def reference(case: Case, x: Any, w: Any, g: Any) -> tuple[Any, Any, Any]:
    """A convolution and its gradients, tap by tap, in float64."""
    x, w, g = (np.asarray(v, np.float64) for v in (x, w, g))
    ends = [(0, 0), (0, 0), *((p, p) for p in case.padding)]
    seen, count = np.pad(x, ends), g.shape[2:]
    y, dx, dw = np.zeros(g.shape), np.zeros(seen.shape), np.zeros(w.shape)
    o, c = case.outputs // case.groups, case.channels // case.groups
    for tap in product(*map(range, case.kernel)):
        at = places(case, tap, count)
        for n in range(case.groups):
            rows, cols = slice(n * o, n * o + o), slice(n * c, n * c + c)
            part: Any = (slice(None), cols, *at)
            weight: Any = (rows, slice(None), *tap)
            y[:, rows] += np.einsum("nc...,oc->no...", seen[part], w[weight])
            dx[part] += np.einsum("no...,oc->nc...", g[:, rows], w[weight])
            ahead, behind = (v.reshape(*v.shape[:2], -1) for v in (g[:, rows], seen[part]))
            dw[weight] += np.einsum("nop,ncp->oc", ahead, behind)
    inside: Any = (..., *(slice(p, p + n) for p, n in zip(case.padding, x.shape[2:])))
    return y, dx[inside], dw


def layer(case: Case, x: Tensor, w: Tensor) -> Tensor:
    kind = "conv_transpose" if case.transposed else "conv"
    more = {"output_padding": case.extra} if case.extra else {}
    function = getattr(F, f"{kind}{len(case.space)}d")
    result: Tensor = function(
        x, w, stride=case.stride, padding=case.padding, dilation=case.dilation,
        groups=case.groups, **more,
    )  # fmt: skip
    return result


def operands(case: Case, dtype: lt.dtype) -> tuple[Tensor, Tensor]:
    inner = case.channels, case.outputs // case.groups
    outer = case.outputs, case.channels // case.groups
    lt.manual_seed(3)
    x = lt.randn(case.size, case.channels, *case.space, dtype=dtype)
    w = lt.randn(*(inner if case.transposed else outer), *case.kernel, dtype=dtype)
    return x.realize(), w.realize()


@pytest.mark.parametrize("number,case", list(enumerate([*CASES, *some_cases()])))
def test_values_and_gradients(number: int, case: Case) -> None:
    dtype, bound = (lt.float64, 1e-12) if number % 2 else (lt.float32, 2e-5)
    x, w = (t.requires_grad_(True) for t in operands(case, dtype))
    y = layer(case, x, w)
    g = lt.randn(*y.shape, dtype=dtype)
    found: list[Any] = [y, *lt.autograd.grad(y, [x, w], g)]
    lt.realize(*found)
    left, right, gradient = (t.detach().numpy() for t in (x, w, g))
    if case.transposed:
        # The layer is the gradient of a convolution whose results are its input.
        back = Case(
            case.size, y.shape[2:], case.outputs, case.channels, case.kernel, case.stride,
            case.padding, case.dilation, case.groups,
        )  # fmt: skip
        back_x, forward, back_w = reference(back, gradient, right, left)
        expected = [forward, back_x, back_w]
    else:
        expected = list(reference(case, left, right, gradient))
    for mine, true in zip(found, expected, strict=True):
        error = np.abs(mine.detach().numpy() - true).max()
        assert error <= bound * np.abs(true).max()


def in_form(monkeypatch: pytest.MonkeyPatch, form: Any, case: Case) -> list[bytes]:
    """The bits of a layer and of its kernel's gradient, in a form; None for a general one."""
    planning.clear()
    execute.forget()
    if form is None:
        monkeypatch.setattr(c_contract, "find_slide", lambda phase: None)
        monkeypatch.setattr(c_contract, "as_slide", lambda phase: None)
    elif isinstance(form, LanesForm):
        monkeypatch.setattr(c_contract, "choose_lanes", lambda *given: form)
    elif isinstance(form, SumsForm):
        monkeypatch.setattr(c_contract, "choose_sums", lambda plan: form)
    else:
        monkeypatch.setattr(c_contract, "choose_slide", lambda plan: form)
    with lt.config.override(disk_cache=False, any_size=False, verify=True):
        x, w = operands(case, lt.float32)
        w.requires_grad_(True)
        y = layer(case, x, w)
        slope: Any = lt.autograd.grad(y, [w], y.detach() * 0.5)[0]
        found = [t.detach().numpy().tobytes() for t in (lt.relu(y), slope)]
    monkeypatch.undo()
    return found


def test_every_form_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    case = plain((13, 11), 6, 10, 3)
    wanted = in_form(monkeypatch, None, case)
    forms: list[Any] = [
        SlideForm(1, 11, 4, 2), SlideForm(3, 1, 3, 1, 2), SlideForm(3, 2, 5, 1, 2, block=5),
        SumsForm(2, 4, 5, 1, 2, 1), SumsForm(1, 7, 9, 1, 4, 1),
        SlideForm(2, 5, 3, 1, 2, straight=True), SlideForm(1, 11, 4, 2, straight=True),
        SlideForm(3, 2, 5, 1, 2, block=5, straight=True),
    ]  # fmt: skip
    for form in forms:
        assert in_form(monkeypatch, form, case) == wanted, form


def test_weights_that_meet_few_columns_are_read_where_they_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = plain((7, 7), 64, 30, 3, padding=(1, 1), groups=2)
    wanted = in_form(monkeypatch, None, case)
    for straight in (True, False):
        form = SlideForm(2, 7, 4, 4, straight=straight)
        assert in_form(monkeypatch, form, case) == wanted

    def chosen(size: int, channels: int) -> bool:
        x, w = lt.rand(1, channels, size, size).realize(), lt.rand(64, channels, 3, 3).realize()
        (kernel,) = lt.explain(lt.nn.functional.conv2d(x, w, padding=1)).kernels
        assert kernel.form.startswith("SlideForm")
        return "straight=True" in kernel.form

    with lt.config.override(disk_cache=False, any_size=False):
        assert chosen(7, 128) and not chosen(40, 128)


def test_small_caches_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    # Sums of a few points, rows and steps at a time, none of which divides the whole.
    wide, tall = plain((13, 11), 6, 10, 3), plain((15, 17), 4, 26, 3, stride=(2, 2), padding=(1, 2))
    forms = (SlideForm(2, 5, 3, 1), SlideForm(1, 11, 4, 2), SlideForm(3, 2, 5, 1, 2, block=5))
    wanted = [in_form(monkeypatch, None, case) for case in (wide, tall)]
    for room, depth in ((90, 7), (1, 20)):
        for form in forms:
            for case, bits in zip((wide, tall), wanted, strict=True):
                if form.block and case is tall:
                    continue  # panels need neighbours at one distance
                monkeypatch.setattr(blocks, "_sums_room", lambda spec, room=room: room)
                for module in (blocks, panels):
                    monkeypatch.setattr(module, "steps_at_once", lambda *_, depth=depth: depth)
                assert in_form(monkeypatch, form, case) == bits, (form, room, depth)


def test_strides_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    case = plain((15, 17), 4, 6, 3, stride=(2, 2), dilation=(1, 3), padding=(1, 2))
    wanted = in_form(monkeypatch, None, case)
    for form in (SlideForm(2, 3, 6, 1), SlideForm(1, 4, 4, 2), SumsForm(2, 3, 4, 1, 2, 1)):
        assert in_form(monkeypatch, form, case) == wanted, form


@pytest.mark.parametrize(
    "case,forms",
    [
        # A last chunk that is shorter, lanes without a batch, padding before and behind.
        (plain((16, 18), 21, 21, 3, groups=21), [
            LanesForm(3, 2, 3, 32, 1, 1), LanesForm(2, 5, 3, 32, 0, 0),
            LanesForm(2, 1, 1, 32, 1, 1), LanesForm(1, 7, 2, 16, 0, 0),
        ]),
        # Two channels in a group and two results of each, steps, and a row that no tap reads.
        (plain((15, 20), 20, 40, 4, stride=(2, 3), padding=(2, 1), groups=10), [
            LanesForm(3, 1, 2, 32, 1, 1), LanesForm(2, 3, 3, 32, 0, 0),
            LanesForm(1, 4, 1, 16, 0, 0),
        ]),
        (plain((300,), 9, 9, 4, dilation=(3,), padding=(9,), groups=9), [
            LanesForm(2, 2, 1, 32, 1, 1), LanesForm(1, 100, 1, 32, 0, 0),
        ]),
        (plain((6, 9, 8), 8, 8, 3, stride=(1, 2, 1), groups=8), [
            LanesForm(3, 2, 9, 32, 0, 0), LanesForm(2, 4, 4, 32, 1, 0),
        ]),
    ],
)  # fmt: skip
def test_batches_in_lanes_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, case: Case, forms: list[LanesForm]
) -> None:
    wanted = in_form(monkeypatch, None, case)
    for form in forms:
        assert in_form(monkeypatch, form, case) == wanted, form


def test_gradients_of_depthwise_kernels_sum_with_a_channel_in_each_lane() -> None:
    lt.manual_seed(0)
    w, g = lt.randn(48, 1, 5, 5, requires_grad=True), lt.randn(2, 48, 14, 14).realize()
    x = lt.randn(2, 48, 28, 28).realize()
    slopes = []
    for threads in (1, 2, 3):
        with lt.config.override(threads=threads):
            y = F.conv2d(x, w, stride=2, padding=2, groups=48)
            slope: Any = lt.autograd.grad(y, [w], g)[0]
            assert "a batch in each lane" in str(lt.explain(slope))
            slopes.append(slope.detach().numpy())
    found = slopes[0]
    assert all(s.tobytes() == found.tobytes() for s in slopes)
    windows = np.pad(x.numpy().astype("f8"), ((0, 0), (0, 0), (2, 2), (2, 2)))
    for tap in product(range(5), range(5)):
        part = windows[:, :, tap[0] : tap[0] + 27 : 2, tap[1] : tap[1] + 27 : 2]
        total = (part * g.numpy()).sum((0, 2, 3))
        assert np.abs(found[:, 0, *tap] - total).max() < 1e-4 * np.abs(total).max()


def test_one_launch_for_a_layer_and_one_for_each_gradient() -> None:
    lt.manual_seed(0)
    x, w, b = lt.randn(2, 8, 20, 20), lt.randn(16, 8, 3, 3), lt.randn(16)
    lt.realize(x, w, b)
    made = lt.explain(F.relu(F.conv2d(x, w, b, padding=1)))
    assert len(made.kernels) == 1 and "slides along the results" in str(made)
    x.requires_grad_(True)
    w.requires_grad_(True)
    g = lt.randn(2, 16, 20, 20).realize()
    made = lt.explain(*lt.autograd.grad(F.conv2d(x, w, padding=1), [x, w], g))
    # No gradient of single windows, which would be nine times the input.
    assert len(made.kernels) == 2 and "slides along the sums" in str(made)


@pytest.mark.parametrize("groups", [2, 8])
def test_the_gradient_of_an_input_in_groups_is_computed_without_its_padding(groups: int) -> None:
    lt.manual_seed(0)
    x, w = lt.randn(2, 8, 12, 14), lt.randn(16, 8 // groups, 3, 3)
    lt.realize(x, w)
    x.requires_grad_(True)
    y = F.conv2d(x, w, padding=(1, 2), groups=groups)
    g = lt.randn(*y.shape).realize()
    slope: Any = lt.autograd.grad(y, [x], g)[0]
    assert len(lt.explain(slope).kernels) == 1
    # Each group alone, which has no other channels beside it.
    for n in range(groups):
        part = x.detach()[:, n * 8 // groups : (n + 1) * 8 // groups].requires_grad_(True)
        chosen = slice(n * 16 // groups, (n + 1) * 16 // groups)
        alone: Any = lt.autograd.grad(
            F.conv2d(part, w[chosen], padding=(1, 2)), [part], g[:, chosen]
        )
        assert lt.allclose(alone[0], slope[:, n * 8 // groups : (n + 1) * 8 // groups], atol=1e-5)


def test_windows_of_a_costly_value_are_not_stored() -> None:
    lt.manual_seed(0)
    x, w = lt.randn(2, 24, 20, 20).realize(), lt.randn(24, 1, 3, 3, requires_grad=True)
    scale = lt.randn(24, 1, 1)
    lt.realize(w.detach(), scale)
    y = F.conv2d(F.relu6(x * scale + 1), w, padding=1, groups=24)
    made = lt.explain(y.square().mean(), *lt.autograd.grad(y.square().mean(), [w]))
    # Windows would be nine times as large as the value.
    assert "window" not in str(made)
    assert "along the results" in str(made) and "along the sums" in str(made)


def test_infinite_weights_meet_no_zeros_between_elements() -> None:
    # Zeros between the elements would make NaN of an infinite weight.
    x, w = lt.ones(1, 1, 3, 3), lt.ones(1, 1, 2, 2)
    w[0, 0, 0, 0] = float("inf")
    y = F.conv_transpose2d(x, w, stride=2)
    assert y[0, 0, 0::2, 0::2].isinf().all()
    assert not y.isnan().any() and (y[0, 0, 1::2] == 1).all()


def test_a_look_at_the_layer_keeps_no_windows_for_its_gradient() -> None:
    lt.manual_seed(0)
    x, w = lt.randn(2, 8, 20, 20).realize(), lt.randn(16, 8, 3, 3, requires_grad=True)
    w.detach().realize()
    y = F.conv2d(x, w, padding=1)
    (slope,) = lt.autograd.grad(y, [w], lt.ones(2, 16, 20, 20))
    y.realize()
    # The windows are nine times what they are windows of, and cost nothing to read.
    assert len(lt.explain(slope).kernels) == 1
