"""PyTorch's longer names, modules for several devices, and gradients of convolutions by name."""

from __future__ import annotations

import importlib

import pytest

import lazyt
from lazyt import nn
from lazyt.nn import grad
from lazyt.nn.attention import SDPBackend, sdpa_kernel
from lazyt.nn.modules.sizes import consume_prefix_in_state_dict_if_present


def test_layers_have_the_longer_names_too() -> None:
    conv = importlib.import_module("lazyt.nn.modules.conv")
    assert isinstance(nn.LazyConv2d(2, 3), conv._ConvNd)
    assert importlib.import_module("lazyt.nn.modules.utils")._pair(3) == (3, 3)
    assert nn.modules.Linear is nn.Linear
    with pytest.raises(AttributeError, match="no attribute 'Linea'"):
        getattr(nn.modules, "Linea")  # noqa: B009


def test_data_parallel_calls_its_module() -> None:
    layer = nn.Linear(2, 3)
    whole = nn.DataParallel(layer, device_ids=[0, 1])
    x = lazyt.ones(4, 2)
    assert lazyt.equal(whole(x), layer(x))
    assert lazyt.equal(nn.parallel.data_parallel(layer, x), layer(x))
    state = whole.state_dict()
    assert list(state) == ["module.weight", "module.bias"]
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert repr(layer.load_state_dict(state)) == "<All keys matched successfully>"


def test_gradients_of_convolutions_by_name() -> None:
    x = lazyt.arange(12.0).reshape(1, 1, 3, 4).requires_grad_()
    weight = lazyt.tensor([[[[1.0, -2.0]]], [[[0.5, 3.0]]]], requires_grad=True)
    out = nn.functional.conv2d(x, weight, stride=(1, 2), padding=(0, 1))
    slope = lazyt.arange(float(out.numel())).reshape(out.shape)
    wanted = lazyt.autograd.grad(out, (x, weight), slope)
    found = grad.conv2d_input(x.shape, weight, slope, (1, 2), (0, 1))
    assert wanted[0] is not None and lazyt.equal(found, wanted[0])
    found = grad.conv2d_weight(x, weight.shape, slope, (1, 2), (0, 1))
    assert wanted[1] is not None and lazyt.equal(found, wanted[1])


def test_the_choice_of_attention_is_taken_and_checked() -> None:
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]), sdpa_kernel(SDPBackend.MATH):
        assert SDPBackend(2) is SDPBackend.EFFICIENT_ATTENTION
    with pytest.raises(AssertionError, match="Backend must be an instance of SDPBackend"):
        sdpa_kernel("math").__enter__()  # type: ignore[arg-type]


def test_a_linear_layer_with_its_loss() -> None:
    loss = nn.LinearCrossEntropyLoss(2, 3, out_features=(2,), bias=True, ignore_index=1)
    x, target = lazyt.randn(4, 2), lazyt.tensor([[0, 1], [2, 2], [1, 0], [1, 1]])
    logits = loss.linear(x).reshape(4, 3, 2)
    wanted = nn.functional.cross_entropy(logits, target, ignore_index=1)
    assert loss(x, target).item() == pytest.approx(wanted.item(), rel=1e-5)
    with pytest.raises(RuntimeError, match=r"expected weight shape to be \(3,\), got \(2,\)"):
        nn.LinearCrossEntropyLoss(2, 3, weight=lazyt.ones(2))
    with pytest.raises(ValueError, match="invalid chunking_method: 'aspect'"):
        nn.LinearCrossEntropyOptions(chunking_method="aspect")


def test_normalisation_starts_again_and_an_empty_batch_changes_nothing() -> None:
    for layer in (nn.LayerNorm(3), nn.GroupNorm(1, 3), nn.RMSNorm(3)):
        with lazyt.no_grad():
            layer.weight.fill_(7.0)
        layer.reset_parameters()
        assert layer.weight.tolist() == [1.0] * 3
    norm = nn.BatchNorm1d(2)
    norm(lazyt.ones(0, 2))
    assert norm.running_mean.tolist() == [0.0, 0.0] and norm.running_var.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="eps must be positive during training"):
        nn.BatchNorm1d(2, eps=0.0)(lazyt.ones(3, 2))


def test_both_masks_as_one() -> None:
    layer = nn.MultiheadAttention(4, 2)
    query, padding = lazyt.ones(3, 5, 4), lazyt.zeros(3, 5)
    assert layer.merge_masks(None, None, query) == (None, None)
    assert layer.merge_masks(None, padding, query) == (padding, 1)
    merged, kind = layer.merge_masks(lazyt.ones(5, 5), padding - 1, query)
    assert merged is not None and kind == 2
    assert tuple(merged.shape) == (3, 2, 5, 5) and not merged.any()
