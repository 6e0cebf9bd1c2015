"""The modules of ``lazyt.nn`` by PyTorch's longer names, such as ``nn.modules.conv.Conv2d``."""

from __future__ import annotations

import sys
from typing import Any

from lazyt.absent import AbsentName
from lazyt.nn import (
    activation,
    containers,
    convolution,
    distance,
    dropout,
    embedding,
    lazy,
    linear,
    loss,
    padding,
    pooling,
    recurrent,
    transformer,
)
from lazyt.nn.modules import batchnorm as batchnorm
from lazyt.nn.modules import module as module
from lazyt.nn.modules import sizes

_ELSEWHERE = {
    "activation": activation, "container": containers, "conv": convolution, "distance": distance,
    "dropout": dropout, "lazy": lazy, "linear": linear, "loss": loss, "padding": padding,
    "pooling": pooling, "rnn": recurrent, "sparse": embedding, "transformer": transformer,
    "utils": sizes,
}  # fmt: skip

for _name, _module in _ELSEWHERE.items():
    sys.modules[f"{__name__}.{_name}"] = _module
    globals()[_name] = _module


def __getattr__(name: str) -> Any:
    """The layers themselves, as in ``from lazyt.nn.modules import Linear``."""
    from lazyt import nn

    if name not in nn.__all__:
        raise AbsentName.of(__name__, name)
    return getattr(nn, name)
