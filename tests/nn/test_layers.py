"""Layers: their formulas by PyTorch 2.13's numbers, their initial values, their errors."""

from __future__ import annotations

import math
from typing import Any

import pytest

import lazyt
from lazyt import Tensor, nn
from lazyt.nn import init
from lazyt.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)


def filled(module: nn.Module) -> nn.Module:
    """The module with the same simple values as in the script that PyTorch ran."""
    with lazyt.no_grad():
        for parameter in module.parameters():
            count = parameter.numel()
            values = (lazyt.arange(count, dtype=lazyt.float32) * 7) % 11 / 11 - 0.4
            parameter.copy_(values.view(parameter.shape))
    return module


def ramp(*shape: int) -> Tensor:
    count = lazyt.Size(shape).numel()
    values: Tensor = (lazyt.arange(count, dtype=lazyt.float32) * 5) % 13 / 6 - 1
    found: Tensor = values.view(shape)
    return found


# module, input's shape, sum of output * ramp, sum of input's gradient squared, by PyTorch
# fmt: off
CASES: list[tuple[str, tuple[int, ...], float, float]] = [
    ("nn.Linear(4, 3)", (2, 4), 0.5530303, 1.211644),
    ("nn.Conv1d(2, 4, 3, stride=2, padding=1, groups=2)", (2, 2, 7), 2.874242, 2.661901),
    ("nn.Conv2d(2, 3, 3, padding='same')", (1, 2, 4, 5), 12.51364, 42.9809),
    ("nn.Conv2d(2, 3, 3, padding=1, padding_mode='reflect')", (1, 2, 4, 5), 20.18131, 70.68213),
    (
        "nn.Conv2d(2, 3, 3, padding='same', padding_mode='circular', dilation=2)",
        (1, 2, 5, 5),
        15.8,
        69.70737,
    ),
    ("nn.Conv3d(1, 2, 2)", (1, 1, 3, 3, 3), 1.437879, 7.492837),
    (
        "nn.ConvTranspose1d(2, 3, 3, stride=2, padding=1, output_padding=1)",
        (2, 2, 4),
        0.8444443,
        13.42615,
    ),
    ("nn.ConvTranspose2d(2, 2, (2, 3), dilation=2)", (1, 2, 3, 3), 0.9217172, 7.077328),
    ("nn.BatchNorm1d(3)", (4, 3), 0.4376726, 4.502036e-09),
    ("nn.BatchNorm2d(2, affine=False)", (2, 2, 3, 3), 22.45666, 2.507607e-08),
    ("nn.InstanceNorm2d(2, affine=True)", (2, 2, 3, 3), -2.100258, 2.350712e-09),
    ("nn.LayerNorm((2, 3))", (4, 2, 3), -0.7498566, 1.221799),
    ("nn.RMSNorm(4)", (3, 4), -0.1221696, 1.03791),
    ("nn.GroupNorm(2, 4)", (2, 4, 3), 1.604671, 2.312934),
    ("nn.MaxPool2d(2, padding=1)", (1, 2, 5, 5), -2.444445, 7),
    ("nn.AvgPool2d(3, 2, 1, count_include_pad=False)", (1, 2, 5, 5), -0.3117284, 1.224537),
    ("nn.AvgPool1d(2)", (1, 2, 5), 0.9166667, 0.9583333),
    ("nn.AdaptiveAvgPool2d((2, None))", (1, 2, 5, 3), 0.0833333, 2.123457),
    ("nn.AdaptiveMaxPool2d(2)", (1, 2, 5, 3), 0.5277778, 3.416667),
    ("nn.PReLU(3)", (2, 3), 0.90101, 1.704885),
    ("nn.Softmax(dim=1)", (2, 5), 0.5839255, 0.1352382),
    ("nn.LogSoftmax(dim=0)", (3, 2), 2.918819, 2.895318),
    ("nn.GELU('tanh')", (3, 3), 1.826714, 1.800457),
    ("nn.SELU()", (3, 3), 4.530644, 3.32497),
    ("nn.ELU(0.5)", (3, 3), 2.496099, 1.837373),
    ("nn.CELU(2.0)", (3, 3), 3.584049, 2.723219),
    ("nn.LeakyReLU(0.3)", (3, 3), 2.405555, 1.927222),
    ("nn.Softplus(2.0)", (3, 3), 1.659389, 1.265904),
    ("nn.Hardtanh(-0.5, 0.7)", (3, 3), 2.811111, 0.861111),
    ("nn.Threshold(0.2, 3.0)", (3, 3), -6.805556, 1.694444),
    ("nn.Softshrink(0.3)", (3, 3), 2.444444, 3.944444),
    ("nn.Hardshrink(0.3)", (3, 3), 3.944444, 3.944444),
    ("nn.Tanhshrink()", (3, 3), 0.7379398, 0.938492),
    ("nn.GLU()", (2, 4), 0.301588, 0.7650023),
    ("nn.SiLU()", (3, 3), 1.884594, 1.348479),
    ("nn.Mish()", (3, 3), 2.211511, 1.772995),
    ("nn.Hardswish()", (3, 3), 1.91821, 1.164609),
    ("nn.LogSigmoid()", (3, 3), 2.521578, 1.276723),
    ("nn.ConstantPad2d((1, 0, 2, 1), 0.5)", (1, 1, 2, 2), -0.05555561, 1.888889),
    ("nn.ReflectionPad2d(1)", (1, 1, 3, 3), -0.5277778, 8.388888),
    (
        "nn.Sequential(nn.Flatten(), nn.Linear(6, 2), nn.Unflatten(1, (2, 1)))",
        (2, 2, 3),
        0.5853535,
        0.9905509,
    ),
]
# fmt: on


@pytest.mark.parametrize(("source", "shape", "output", "slope"), CASES)
def test_numbers_are_pytorchs(
    source: str, shape: tuple[int, ...], output: float, slope: float
) -> None:
    module = filled(eval(source, {"nn": nn}))
    x = ramp(*shape).requires_grad_()
    y = module(x)
    loss = (y * ramp(*y.shape)).sum()
    loss.backward()
    assert x.grad is not None
    assert loss.item() == pytest.approx(output, rel=2e-5, abs=2e-5)
    assert (x.grad**2).sum().item() == pytest.approx(slope, rel=2e-5, abs=1e-5)
    for parameter in module.parameters():
        assert parameter.grad is not None


def test_batch_norm_tracks_statistics() -> None:
    layer = nn.BatchNorm1d(2, momentum=0.5)
    x = lazyt.tensor([[1.0, 10.0], [3.0, 30.0]])
    layer(x)
    assert layer.running_mean.tolist() == [1.0, 10.0]
    assert layer.running_var.tolist() == pytest.approx([1.5, 100.5])
    assert layer.num_batches_tracked.item() == 1
    layer.eval()
    assert layer(x)[0, 0].item() == pytest.approx(0.0, abs=1e-6)
    assert layer.num_batches_tracked.item() == 1
    mean = nn.BatchNorm1d(2, momentum=None)
    mean(x)
    mean(x + 2)
    assert mean.running_mean.tolist() == [3.0, 21.0]
    with pytest.raises(ValueError, match="expected 2D or 3D input"):
        layer(lazyt.ones(3))
    names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    assert list(layer.state_dict()) == names
    layer.reset_running_stats()
    assert layer.running_var.tolist() == [1.0, 1.0]


def test_dropout_only_acts_in_training() -> None:
    layer = nn.Dropout(0.25)
    x = lazyt.ones(4000)
    share = (layer(x) == 0).float().mean().item()
    assert 0.2 < share < 0.3  # deviation 0.007
    assert layer(x).max().item() == pytest.approx(1 / 0.75)
    assert layer.eval()(x) is x
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(1.5)


def test_embedding() -> None:
    layer = nn.Embedding(5, 3, padding_idx=-5)
    assert layer.padding_idx == 0 and layer.weight[0].tolist() == [0.0, 0.0, 0.0]
    numbers = lazyt.tensor([[0, 2], [2, 4]])
    layer(numbers).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad[:, 0].tolist() == [0.0, 0.0, 2.0, 0.0, 1.0]
    with pytest.raises(IndexError):
        layer(lazyt.tensor([5]))
    frozen = nn.Embedding.from_pretrained(lazyt.eye(2))
    assert not frozen.weight.requires_grad
    assert frozen(lazyt.tensor([1])).tolist() == [[0.0, 1.0]]


def test_losses_with_settings() -> None:
    scores = lazyt.tensor([[1.0, 2.0, 0.5], [0.1, 0.2, 3.0]])
    target = lazyt.tensor([1, -100])
    assert nn.CrossEntropyLoss()(scores, target).item() == pytest.approx(0.46436879)
    weighted = nn.CrossEntropyLoss(weight=lazyt.tensor([1.0, 2.0, 3.0]))
    assert list(weighted.state_dict()) == ["weight"]
    assert weighted(scores, lazyt.tensor([1, 2])).item() == pytest.approx(0.2515084, rel=1e-5)
    smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
    assert smooth(scores, lazyt.tensor([1, 2])).item() == pytest.approx(0.4236518, rel=1e-5)
    y = lazyt.tensor([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    pairs = {
        nn.L1Loss(reduction="sum"): 4.8,
        nn.BCEWithLogitsLoss(): 0.584231615,
        nn.HuberLoss(delta=0.5): 0.29583332,
        nn.SmoothL1Loss(beta=0.5): 0.59166664,
    }
    found = {loss: loss(scores, y).item() for loss in pairs}
    assert list(found.values()) == pytest.approx(list(pairs.values()), rel=1e-5)


def attention() -> tuple[nn.Module, Tensor]:
    return filled(nn.MultiheadAttention(4, 2, batch_first=True)), ramp(2, 3, 4)


def test_attention_is_pytorchs() -> None:
    layer, x = attention()
    out, weights = layer(x, x, x)
    assert (out * ramp(2, 3, 4)).sum().item() == pytest.approx(0.9921893, rel=2e-5)
    assert weights[1, 2].tolist() == pytest.approx([0.418122, 0.15789, 0.423988], rel=2e-5)


def test_attention_with_masks() -> None:
    layer, x = attention()
    causal = lazyt.ones(3, 3).triu(1).bool()
    padding = lazyt.tensor([[False, False, False], [False, False, True]])
    out, weights = layer(x, x, x, key_padding_mask=padding, attn_mask=causal)
    assert weights[0, 0].tolist() == [1.0, 0.0, 0.0] and weights[1, 2, 2].item() == 0.0
    assert (out * ramp(2, 3, 4)).sum().item() == pytest.approx(0.8453686, rel=2e-5)
    same, none = layer(x, x, x, key_padding_mask=padding, attn_mask=causal, need_weights=False)
    assert none is None and lazyt.allclose(same, out, atol=1e-6)
    alone, _ = layer(x[0], x[0], x[0], attn_mask=causal)
    assert lazyt.allclose(alone, out[0], atol=1e-6)
    with pytest.raises(RuntimeError, match="is_causal"):
        layer(x, x, x, is_causal=True)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.Conv2d(3, 4, 1, groups=2), "in_channels must be divisible"),
        (lambda: nn.Conv2d(4, 3, 1, groups=2), "out_channels must be divisible"),
        (lambda: nn.Conv2d(4, 4, 1, padding_mode="odd"), "padding_mode"),
        (lambda: nn.GroupNorm(2, 3), "must be divisible"),
        (lambda: init.calculate_gain("odd"), "Unsupported nonlinearity"),
        (lambda: init.xavier_normal_(lazyt.ones(3)), "fewer than 2 dimensions"),
    ],
)
def test_wrong_settings_raise(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_sizes_that_pytorch_asserts() -> None:
    with pytest.raises(AssertionError, match="divisible by num_heads"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(AssertionError, match="within num_embeddings"):
        nn.Embedding(3, 2, padding_idx=3)


# ---------------------------------------------------------------------- initial values


def spread_of(tensor: Tensor) -> tuple[float, float]:
    """Greatest magnitude and deviation."""
    return tensor.abs().max().item(), tensor.std().item()


def test_layers_start_as_pytorchs() -> None:
    bound = 1 / math.sqrt(200)
    for parameter in nn.Linear(200, 100).parameters():
        largest, deviation = spread_of(parameter)
        assert 0.9 * bound < largest <= bound
        assert deviation == pytest.approx(bound / math.sqrt(3), rel=0.2)
    largest, _ = spread_of(nn.Conv2d(8, 32, 5).weight)
    assert 0.9 * bound < largest <= bound
    assert spread_of(nn.Embedding(100, 100).weight)[1] == pytest.approx(1.0, rel=0.1)
    norm = nn.LayerNorm(3)
    assert norm.weight.tolist() == [1.0] * 3 and norm.bias.tolist() == [0.0] * 3


def test_initialisations() -> None:
    weight = nn.Parameter(lazyt.empty(100, 200))
    assert init.xavier_uniform_(weight) is weight and weight.is_leaf and weight.requires_grad
    assert spread_of(weight)[0] == pytest.approx(math.sqrt(6 / 300), rel=0.02)
    init.xavier_normal_(weight, gain=2.0)
    assert spread_of(weight)[1] == pytest.approx(2 * math.sqrt(2 / 300), rel=0.05)
    init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")
    assert spread_of(weight)[1] == pytest.approx(math.sqrt(2 / 100), rel=0.05)
    init.trunc_normal_(weight, std=2.0, a=-1.0, b=3.0)
    values = weight.detach()
    assert values.min().item() >= -1.0 and values.max().item() <= 3.0
    assert values.mean().item() == pytest.approx(0.7, abs=0.1)
    init.eye_(weight)
    assert weight.sum().item() == 100.0
    init.constant_(weight, 0.5)
    assert weight.mean().item() == 0.5


# ---------------------------------------------------------------------- all parameters at once


def test_clipping_gradients() -> None:
    a, b = nn.Parameter(lazyt.ones(2)), nn.Parameter(lazyt.ones(1))
    a.grad, b.grad = lazyt.tensor([3.0, 0.0]), lazyt.tensor([-4.0])
    assert clip_grad_norm_([a, b], 10.0).item() == pytest.approx(5.0)
    assert a.grad.tolist() == [3.0, 0.0]
    clip_grad_norm_([a, b], 1.0)
    assert a.grad.tolist() == pytest.approx([0.6, 0.0]) and b.grad.item() == pytest.approx(-0.8)
    assert get_total_norm([a.grad, b.grad], math.inf).item() == pytest.approx(0.8)
    clip_grad_value_([a, b], 0.5)
    assert a.grad.tolist() == [0.5, 0.0] and b.grad.item() == -0.5
    b.grad = lazyt.tensor([math.inf])
    with pytest.raises(RuntimeError, match="non-finite"):
        clip_grad_norm_([a, b], 1.0, error_if_nonfinite=True)


def test_parameters_as_a_vector() -> None:
    net = nn.Linear(2, 1)
    vector = parameters_to_vector(net.parameters())
    assert vector.shape == (3,) and vector.requires_grad
    vector_to_parameters(lazyt.tensor([1.0, 2.0, 3.0]), net.parameters())
    assert net.weight.tolist() == [[1.0, 2.0]] and net.bias.tolist() == [3.0]
    assert net(lazyt.ones(1, 2)).item() == 6.0
