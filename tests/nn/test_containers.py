"""Containers, and how modules print."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import lazyt
from lazyt import nn

# Text by PyTorch 2.13.
TEXTS = {
    "nn.Linear(3, 2)": "Linear(in_features=3, out_features=2, bias=True)",
    "nn.Conv2d(1, 16, 3, padding=1)": (
        "Conv2d(1, 16, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))"
    ),
    "nn.Conv1d(4, 8, 3, stride=2, groups=2, bias=False, dilation=2, padding_mode='circular')": (
        "Conv1d(4, 8, kernel_size=(3,), stride=(2,), dilation=(2,), groups=2, bias=False, "
        "padding_mode=circular)"
    ),
    "nn.Conv2d(1, 2, 3, padding='same')": (
        "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=same)"
    ),
    "nn.ConvTranspose2d(3, 4, 2, stride=2, output_padding=1)": (
        "ConvTranspose2d(3, 4, kernel_size=(2, 2), stride=(2, 2), output_padding=(1, 1))"
    ),
    "nn.BatchNorm2d(16)": (
        "BatchNorm2d(16, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    ),
    "nn.LayerNorm(8)": "LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True)",
    "nn.GroupNorm(2, 4)": "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)",
    "nn.RMSNorm(4)": "RMSNorm((4,), eps=None, elementwise_affine=True)",
    "nn.Embedding(10, 3, padding_idx=0)": "Embedding(10, 3, padding_idx=0)",
    "nn.Dropout(0.1, inplace=True)": "Dropout(p=0.1, inplace=True)",
    "nn.ReLU()": "ReLU()",
    "nn.ReLU(True)": "ReLU(inplace=True)",
    "nn.LeakyReLU(0.2, True)": "LeakyReLU(negative_slope=0.2, inplace=True)",
    "nn.GELU('tanh')": "GELU(approximate='tanh')",
    "nn.Softmax(dim=-1)": "Softmax(dim=-1)",
    "nn.Hardtanh()": "Hardtanh(min_val=-1.0, max_val=1.0)",
    "nn.Threshold(0.1, 2)": "Threshold(threshold=0.1, value=2)",
    "nn.PReLU()": "PReLU(num_parameters=1)",
    "nn.Softshrink()": "Softshrink(0.5)",
    "nn.MaxPool2d(2)": "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)",
    "nn.AvgPool1d(2)": "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))",
    "nn.AdaptiveAvgPool2d((1, None))": "AdaptiveAvgPool2d(output_size=(1, None))",
    "nn.Flatten()": "Flatten(start_dim=1, end_dim=-1)",
    "nn.ConstantPad2d((1, 2, 0, 0), 3.5)": "ConstantPad2d(padding=(1, 2, 0, 0), value=3.5)",
    "nn.Identity(54, x=1)": "Identity()",
    "nn.CrossEntropyLoss()": "CrossEntropyLoss()",
    "nn.Sequential()": "Sequential()",
    "nn.Sequential(nn.Linear(1, 2), nn.Sequential(nn.ReLU()))": (
        "Sequential(\n  (0): Linear(in_features=1, out_features=2, bias=True)\n"
        "  (1): Sequential(\n    (0): ReLU()\n  )\n)"
    ),
    "nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])": (
        "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    ),
    "nn.ModuleDict({'a': nn.Linear(1, 1)})": (
        "ModuleDict(\n  (a): Linear(in_features=1, out_features=1, bias=True)\n)"
    ),
}


@pytest.mark.parametrize("source", TEXTS)
def test_text_is_pytorchs(source: str) -> None:
    assert repr(eval(source, {"nn": nn})) == TEXTS[source]


def test_sequential() -> None:
    net = nn.Sequential(OrderedDict(up=nn.Linear(2, 3), act=nn.ReLU()))
    assert net.up is net[0] and [name for name, _ in net.named_children()] == ["up", "act"]
    assert net(lazyt.ones(4, 2)).shape == (4, 3)
    plain = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    assert [type(m).__name__ for m in plain[1:]] == ["Tanh", "Sigmoid"]
    assert isinstance(plain[:1], nn.Sequential) and plain[-1] is plain[2]
    plain[0] = nn.GELU()
    plain.append(nn.ReLU()).insert(1, nn.SELU())
    assert [type(m).__name__ for m in plain] == ["GELU", "SELU", "Tanh", "Sigmoid", "ReLU"]
    del plain[1]
    assert isinstance(plain.pop(0), nn.GELU) and len(plain) == 3
    assert list(plain._modules) == ["0", "1", "2"]
    with pytest.raises(IndexError, match="index 3 is out of range"):
        plain[3]
    assert len(plain + nn.Sequential(nn.ReLU())) == 4


def test_lists_and_dicts_register_their_modules() -> None:
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
    layers.append(nn.Linear(2, 1))
    layers += [nn.ReLU()]
    assert len(layers) == 4 and len(list(layers.parameters())) == 6
    assert list(layers.state_dict())[-1] == "2.bias"
    assert isinstance(layers[1:], nn.ModuleList) and len(layers[1:]) == 3
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Linear(1, 1)
    assert "b" in table and list(table) == ["a", "b"] and len(list(table.parameters())) == 2
    assert isinstance(table.pop("a"), nn.ReLU) and len(table) == 1


def test_parameter_containers() -> None:
    rows = nn.ParameterList([lazyt.ones(2), nn.Parameter(lazyt.zeros(1))])
    rows.append(lazyt.ones(3))
    assert all(isinstance(p, nn.Parameter) for p in rows) and len(list(rows.parameters())) == 3
    assert rows[-1].shape == (3,)
    assert repr(rows[:1]) == "ParameterList(  (0): Parameter containing: [lazyt.float32 of size 2])"
    named = nn.ParameterDict({"w": lazyt.ones(2, 2)})
    named["b"] = lazyt.zeros(2)
    assert list(named.state_dict()) == ["w", "b"] and "w" in named
    del named["w"]
    assert [name for name, _ in named.named_parameters()] == ["b"]
