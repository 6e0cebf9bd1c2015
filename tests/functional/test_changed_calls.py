"""Arguments of other types, out of range, or too many are taken and refused as by PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.nn import functional
from tests.functional.changed_calls import COUNT, Index, failures

# Many of these calls are none that the annotations allow.
lt: Any = lazyt
F: Any = functional


@pytest.mark.filterwarnings("ignore")
def test_changed_sample_calls_do_what_pytorch_does() -> None:
    wrong = failures(COUNT)
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, lt.tensor, Index])
def test_whole_numbers_of_other_types_leave_no_trace(kind: type) -> None:
    """A parameter of another type must not reach the graph, where equal ones are one."""
    x = lt.arange(24.0).reshape(1, 2, 3, 4)
    for found, wanted in (
        (F.pad(x, (kind(1), kind(0))), F.pad(x, (1, 0))),
        (F.pad(x, (kind(1), kind(2)), value=2.0), F.pad(x, (1, 2), value=2.0)),
        (F.avg_pool2d(x, kind(2), kind(1)), F.avg_pool2d(x, 2, 1)),
        (x.roll(kind(1), kind(2)), x.roll(1, 2)),
        (x.unfold(kind(3), kind(2), kind(1)), x.unfold(3, 2, 1)),
        (x.narrow(3, kind(1), kind(2)), x.narrow(3, 1, 2)),
        (x.tensor_split(kind(2), 3)[1], x.tensor_split(2, 3)[1]),
        (lt.topk(x, kind(2)).values, lt.topk(x, 2).values),
        (lt.bincount(lt.tensor([1, 1]), minlength=kind(4)), lt.tensor([0, 2, 0, 0])),
        (F.pixel_shuffle(x.repeat(1, 2, 1, 1), kind(2)), F.pixel_shuffle(x.repeat(1, 2, 1, 1), 2)),
        (lt.nn.ZeroPad2d(kind(1))(x), lt.nn.ZeroPad2d(1)(x)),
    ):
        assert found.shape == wanted.shape and all(type(n) is int for n in found.shape)
        assert found.tolist() == wanted.tolist()


def test_truth_values_and_fractions_are_no_sizes() -> None:
    x = lt.zeros(3, 4)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: x.sum(True), lambda: x.view(True), lambda: lt.cumsum(x, 1.0),
        lambda: F.pad(x, (1, 2.5)), lambda: F.max_pool1d(x, True), lambda: lt.zeros(2.0),
        lambda: lt.histc(x, 4.5), lambda: x.unsqueeze(True),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(TypeError):
            call()
    assert lt.var(x, True).shape == () and lt.zeros(2, True).shape == (2, 1)


def test_negative_sizes_are_refused() -> None:
    calls: tuple[Callable[[], Any], ...] = (
        lambda: lt.zeros(6).as_strided((-5, 6), (1, 2)), lambda: lt.normal(0.0, 1.0, (2, -3)),
        lambda: lt.randn(-1), lambda: lt.full((-2,), 1.0),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(RuntimeError, match="negative"):
            call()


def test_scalars_in_tensors_and_old_forms() -> None:
    p = lt.zeros(2)
    p.add_(lt.ones(2), alpha=lt.tensor(0.5))
    assert p.tolist() == [0.5, 0.5]
    assert lt.sub(p, p, alpha=lt.tensor(2) * 1).tolist() == [-0.5, -0.5]
    assert p.addcmul(p, p, value=lt.tensor(2.0)).tolist() == [1.0, 1.0]
    one = lt.ones(1, 1, 1)
    assert lt.baddbmm(one * 0, one, one, alpha=lt.tensor(3.0)).tolist() == [[[3.0]]]
    assert p.add_(2, lt.ones(2)).tolist() == [2.5, 2.5]
    assert p.addcmul_(0.5, p, p).tolist() == [5.625, 5.625]
    assert p.addcdiv_(2, p, p).tolist() == [7.625, 7.625]
    out = lt.empty(2)
    assert lt.add(p, 2, p, out=out) is out and out.tolist() == [22.875, 22.875]
    assert p.sub(2, lt.ones(2)).tolist() == lt.sub(p, 2, 1).tolist() == [5.625, 5.625]
    mistakes: list[Callable[[], object]] = [
        lambda: lt.add(p, p, p),
        lambda: lt.sub(p, 2, p, alpha=3),
    ]
    for mistaken in mistakes:
        with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
            mistaken()
    eye = lt.eye(2)
    assert lt.addmm(2, eye, 3, eye, eye).tolist() == [[5.0, 0.0], [0.0, 5.0]]
    assert eye.clone().addmm_(2, 3, eye, eye).tolist() == [[5.0, 0.0], [0.0, 5.0]]


def test_split_size_has_two_names() -> None:
    x = lt.arange(6.0)
    assert [part.tolist() for part in x.split(split_size=[1, 5], dim=0)] == [[0], [1, 2, 3, 4, 5]]
    assert len(lt.split(x, split_size_or_sections=2)) == 3


def test_limits_of_types_that_are_names_only() -> None:
    found = {
        name: lt.finfo(getattr(lt, name))
        for name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "complex64")
    }
    assert [v.max for v in found.values()] == [448.0, 57344.0, 2.0**127, lt.finfo(lt.float32).max]
    assert [v.bits for v in found.values()] == [8, 8, 8, 32]
    assert found["float8_e4m3fn"].eps == 0.125 and found["float8_e8m0fnu"].min > 0


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.normal_(0.0, float("nan")), lambda x: x.uniform_(0.0, float("nan")),
        lambda x: lt.normal(0.0, float("nan"), (2,)), lambda x: F.pdist(x, float("nan")),
        lambda x: lt.renorm(x, float("nan"), 0, 1.0), lambda x: lt.renorm(x, 2, 0, float("nan")),
        lambda x: F.huber_loss(x, x, delta=float("nan")), lambda x: lt.cdist(x, x, float("nan")),
        lambda x: F.smooth_l1_loss(x, x, beta=float("nan")),
        lambda x: lt.cov(x, aweights=lt.tensor([float("nan"), 1.0])),
        lambda x: lt.cov(x, aweights=lt.zeros(2) * 1), lambda x: lt.cov(x, fweights=x[0].int() * 0),
    ],
)  # fmt: skip
def test_numbers_that_are_none_are_in_no_range(call: object) -> None:
    with pytest.raises(RuntimeError):
        call(lt.ones(2, 2))  # type: ignore[operator]


def test_smoothing_below_zero_is_none() -> None:
    scores, label = lt.tensor([[1.0, 2.0]]), lt.tensor([0])
    plain = F.cross_entropy(scores, label).item()
    for smoothing in (-1.0, float("nan")):
        assert F.cross_entropy(scores, label, label_smoothing=smoothing).item() == plain
    with pytest.raises(RuntimeError, match="label_smoothing"):
        F.cross_entropy(scores, label, label_smoothing=1.5)
