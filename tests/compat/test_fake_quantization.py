"""Fake quantization: values on a grid, gradients through it, observers, training with it."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
from lazyt import nn
from lazyt.ao import fake_quantize, observers, preparing
from lazyt.ao.functions import fake_quantize_per_channel_affine, fake_quantize_per_tensor_affine
from lazyt.compat.legacy import qint8

X = lazyt.linspace(-1, 1, 12).reshape(3, 4)


def test_values_are_on_the_grid_and_gradients_pass_within_it() -> None:
    x = X.clone().requires_grad_()
    found = fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7)
    expected = (X / lazyt.tensor(0.1)).round().clamp(-8, 7) * 0.1
    lazyt.testing.assert_close(found.detach(), expected)
    found.sum().backward()
    inside = ((X / 0.1).round() >= -8) & ((X / 0.1).round() <= 7)
    assert x.grad is not None and x.grad.tolist() == inside.to(lazyt.float32).tolist()
    assert 0 < inside.sum().item() < 12


def test_channels_have_scales_and_zero_points() -> None:
    scale, zero = lazyt.tensor([0.1, 0.2, 0.5]), lazyt.tensor([0, 1, -1], dtype=lazyt.int32)
    found = fake_quantize_per_channel_affine(X, scale, zero, 0, -8, 7)
    for row, values, step, shift in zip(found, X, scale.tolist(), zero.tolist()):
        expected = fake_quantize_per_tensor_affine(values, step, shift, -8, 7)
        lazyt.testing.assert_close(row, expected)
    with pytest.raises(RuntimeError, match="not consistent"):
        fake_quantize_per_channel_affine(X, scale, zero, 1, -8, 7)
    with pytest.raises(RuntimeError, match="`zero_point` must be between"):
        fake_quantize_per_tensor_affine(X, 0.1, 9, -8, 7)


def test_observers_note_ranges() -> None:
    affine = observers.MinMaxObserver()
    assert affine(X) is X
    affine(X * 2)
    scale, zero = affine.calculate_qparams()
    assert scale.item() == pytest.approx(4 / 255, 1e-5) and zero.tolist() == [127]
    assert repr(affine) == "MinMaxObserver(min_val=-2.0, max_val=2.0)"
    symmetric = observers.MinMaxObserver(dtype=qint8, qscheme=observers.per_tensor_symmetric)
    symmetric(X + 1)
    scale, zero = symmetric.calculate_qparams()
    assert scale.item() == pytest.approx(2 / 127.5, 1e-5) and zero.tolist() == [0]
    moving = observers.MovingAverageMinMaxObserver(averaging_constant=0.5)
    moving(X)
    moving(X * 3)
    assert (moving.min_val.item(), moving.max_val.item()) == (-2.0, 2.0)
    channels = observers.PerChannelMinMaxObserver(ch_axis=1)
    channels(X)
    assert channels.min_val.tolist() == X.amin(0).tolist()
    again = observers.PerChannelMinMaxObserver(ch_axis=1)
    again.load_state_dict(channels.state_dict())
    assert again.max_val.tolist() == X.amax(0).tolist()
    with pytest.warns(UserWarning, match="must run observer"):
        observers.MinMaxObserver().calculate_qparams()


def test_switches_of_fake_quantization() -> None:
    module = fake_quantize.FakeQuantize(quant_min=0, quant_max=15)
    found = module(X)
    assert len(set(found.flatten().tolist())) <= 16 and not lazyt.equal(found, X)
    assert module.scale.item() == pytest.approx(2 / 15, 1e-5)
    fake_quantize.disable_fake_quant(module)
    assert lazyt.equal(module(X), X)
    fake_quantize.enable_fake_quant(module)
    fake_quantize.disable_observer(module)
    module(X * 100)
    assert module.scale.item() == pytest.approx(2 / 15, 1e-5)


def test_training_with_fake_quantization() -> None:
    lazyt.manual_seed(0)
    model: Any = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    model.qconfig = preparing.get_default_qat_qconfig("fbgemm")
    made: Any = preparing.prepare_qat(model)
    assert type(model[0]) is nn.Linear and type(made[0]) is preparing.QatLinear
    assert "0.weight_fake_quant.scale" in made.state_dict()
    optimizer = lazyt.optim.SGD(made.parameters(), lr=0.1)
    goal = made(X).detach() / 2  # within the range that was observed
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (made(X) - goal).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert made[0].weight_fake_quant.scale.shape == (8,)
    with pytest.raises(AssertionError, match="training mode"):
        preparing.prepare_qat(model.eval())


def test_fused_layers_and_observed_models() -> None:
    model: Any = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
    x = lazyt.arange(16.0).reshape(1, 1, 4, 4)
    fused: Any = preparing.fuse_modules(model, ["0", "1", "2"])
    assert type(fused[0]) is preparing.ConvReLU2d and type(fused[1]) is nn.Identity
    lazyt.testing.assert_close(fused(x), model(x))
    fused.qconfig = preparing.default_qconfig
    observed: Any = preparing.prepare(fused)
    observed(x)
    assert observed[0].activation_post_process.max_val.item() == fused(x).max().item()
    with pytest.raises(NotImplementedError, match="Cannot fuse modules"):
        preparing.fuse_modules(model, ["1", "2"])
