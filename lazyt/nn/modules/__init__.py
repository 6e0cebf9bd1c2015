"""The modules of ``lazyt.nn`` by PyTorch's longer names, such as ``nn.modules.conv.Conv2d``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from lazyt.compat.absent import AbsentName
from lazyt.nn import (
    activation,
    attention,
    containers,
    convolution,
    lazy,
    linear,
    loss,
    normalization,
    pooling,
    recurrent,
    transformer,
    vision,
)
from lazyt.nn.modules import module as module
from lazyt.nn.modules import sizes

#: PyTorch's modules, and where their classes are.
_ELSEWHERE = {
    "activation": (activation, attention), "adaptive": (loss,), "batchnorm": (normalization, lazy),
    "channelshuffle": (vision,), "container": (containers,), "conv": (convolution, lazy, sizes),
    "distance": (loss,), "dropout": (activation,), "flatten": (linear,), "fold": (vision,),
    "instancenorm": (normalization, lazy), "lazy": (lazy,), "linear": (linear, lazy),
    "linear_cross_entropy_options": (loss,), "loss": (loss,), "normalization": (normalization,),
    "padding": (vision,), "pixelshuffle": (vision,), "pooling": (pooling, sizes),
    "rnn": (recurrent,), "sparse": (linear,), "transformer": (transformer,),
    "upsampling": (vision,), "utils": (sizes,),
}  # fmt: skip


def _joined(name: str, sources: tuple[ModuleType, ...]) -> ModuleType:
    """A module with the names of all ``sources``; where there is one, it is that one itself."""
    if len(sources) == 1:
        return sources[0]
    made = ModuleType(name, f"PyTorch's ``{name}``.")
    for source in reversed(sources):
        own = {n: value for n, value in vars(source).items() if not n.startswith("__")}
        vars(made).update(own)
    return made


for _name, _sources in _ELSEWHERE.items():
    _module = _joined(f"{__name__}.{_name}", _sources)
    sys.modules[f"{__name__}.{_name}"] = _module
    globals()[_name] = _module


def __getattr__(name: str) -> Any:
    """The layers themselves, as in ``from lazyt.nn.modules import Linear``."""
    nn = sys.modules["lazyt.nn"]  # which imports this package
    if name not in nn.__all__:
        raise AbsentName.of(__name__, name)
    return getattr(nn, name)
