"""Models with observers and fake quantization in them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import lazyt.nn as nn
import lazyt.nn.functional as F
from lazyt.ao.fake_quantize import (
    FusedMovingAvgObsFakeQuantize,
    default_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_weight_fake_quant,
)
from lazyt.ao.observers import (
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    per_channel_symmetric,
    per_tensor_symmetric,
)
from lazyt.compat.legacy import qint8
from lazyt.errors import LazytError, UnsupportedNameError
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.nn.utils.fusion import fuse_conv_bn_eval

__all__ = [
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "DeQuantStub", "LinearReLU", "QConfig", "QatConv1d",
    "QatConv2d", "QatConv3d", "QatLinear", "QuantStub", "QuantWrapper", "default_dynamic_qconfig",
    "default_observer", "default_per_channel_weight_observer", "default_placeholder_observer",
    "default_qat_qconfig", "default_qconfig", "default_weight_observer",
    "float16_dynamic_qconfig", "fuse_modules", "get_default_qat_qconfig", "get_default_qconfig",
    "prepare", "prepare_qat", "propagate_qconfig_",
]  # fmt: skip


class QConfig(NamedTuple):
    """How a module is quantized.

    Attributes:
        activation: makes what observes its results.
        weight: makes what observes its weight.
    """

    activation: Any
    weight: Any


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_weight_observer = MinMaxObserver.with_args(dtype=qint8, qscheme=per_tensor_symmetric)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric
)
default_placeholder_observer = PlaceholderObserver
default_qconfig = QConfig(default_observer, default_weight_observer)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_dynamic_qconfig = QConfig(PlaceholderObserver, default_weight_observer)
float16_dynamic_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=lazyt.float32),
    PlaceholderObserver.with_args(dtype=lazyt.float16),
)

_BACKENDS = ("fbgemm", "x86", "qnnpack", "onednn")


def _check_backend(backend: str) -> bool:
    """Whether one bit stays unused; raises AssertionError for other backends."""
    if backend not in _BACKENDS:
        raise AssertionError(
            f"backend: {backend} not supported. backend must be one of {list(_BACKENDS)}"
        )
    return backend in ("fbgemm", "x86")


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The configuration for observing a trained model. Where PyTorch has an observer of histograms
    this one has the least and the largest value. Raises AssertionError for other backends."""
    activation = MinMaxObserver.with_args(reduce_range=_check_backend(backend))
    per_channel = backend != "qnnpack"
    weight = default_per_channel_weight_observer if per_channel else default_weight_observer
    return QConfig(activation, weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """The configuration for training with fake quantization. Raises AssertionError for other
    backends."""
    activation = FusedMovingAvgObsFakeQuantize.with_args(
        observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
        reduce_range=_check_backend(backend),
    )  # fmt: skip
    per_channel = backend != "qnnpack"
    weight = default_fused_per_channel_wt_fake_quant if per_channel else default_fused_wt_fake_quant
    return QConfig(activation, weight)


class QuantStub(nn.Module):
    """Where values would be quantized; they pass unchanged.

    Args:
        qconfig: the configuration.
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """The values."""
        return x


class DeQuantStub(QuantStub):
    """Where values would become floats again; they pass unchanged. Args: those of QuantStub."""


class QuantWrapper(nn.Module):
    """A module between a QuantStub and a DeQuantStub.

    Args:
        module: the module.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, x: Tensor) -> Any:
        """The module's result."""
        return self.dequant(self.module(self.quant(x)))


# ------------------------------------------------------------------- layers with fake weights


class QatLinear(nn.Linear):
    """A linear layer whose weight passes through fake quantization.

    Args:
        in_features, out_features, bias: those of ``nn.Linear``.
        qconfig: the configuration.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        """The product with the rounded weight."""
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)


def _conv(base: Any, name: str) -> Any:
    class Conv(base):  # type: ignore[misc]
        def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.qconfig = qconfig
            self.weight_fake_quant = qconfig.weight()

        def forward(self, input: Tensor) -> Any:
            """The convolution with the rounded weight."""
            return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    Conv.__name__ = Conv.__qualname__ = name
    Conv.__doc__ = f"``nn.{name}`` whose weight passes through fake quantization."
    return Conv


QatLinear.__name__ = QatLinear.__qualname__ = "Linear"
QatConv1d, QatConv2d, QatConv3d = (_conv(getattr(nn, n), n) for n in ("Conv1d", "Conv2d", "Conv3d"))


def _with_fake_weight(module: nn.Module) -> nn.Module:
    """The same layer with fake quantization of its weight, or the module itself."""
    made: Any
    if type(module) is nn.Linear:
        made = QatLinear(
            module.in_features, module.out_features, module.bias is not None, module.qconfig
        )
    else:
        found: dict[Any, Any] = {nn.Conv1d: QatConv1d, nn.Conv2d: QatConv2d, nn.Conv3d: QatConv3d}
        kind = found.get(type(module))
        if kind is None:
            return module
        conv: Any = module
        made = kind(
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding,
            conv.dilation, conv.groups, conv.bias is not None, conv.padding_mode,
            qconfig=conv.qconfig,
        )  # fmt: skip
    made.weight, made.bias = module.weight, module.bias
    for hook in module._forward_hooks.values():
        made.register_forward_hook(hook)
    made.train(module.training)
    return made  # type: ignore[no-any-return]


#: Layers whose results are observed.
_OBSERVED = (
    QuantStub, nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d,
    nn.ConvTranspose3d, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.Hardswish,
    nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm1d,
    nn.InstanceNorm2d, nn.InstanceNorm3d, nn.PReLU, nn.Dropout,
)  # fmt: skip


def propagate_qconfig_(module: nn.Module, qconfig_dict: Any = None) -> None:
    """Give modules without a configuration the one of what holds them."""
    found = getattr(module, "qconfig", None)
    module.qconfig = found
    for child in module.children():
        if getattr(child, "qconfig", None) is None:
            child.qconfig = None if isinstance(child, DeQuantStub) else found
        propagate_qconfig_(child)


def _observe(module: nn.Module, *_: Any) -> Any:
    return module.activation_post_process(_[-1])


def _add_observers(module: nn.Module) -> None:
    for child in list(module.children()):
        joined = isinstance(child, (ConvReLU1d, ConvReLU2d, ConvReLU3d, LinearReLU))
        wanted = type(child) in _OBSERVED or joined or hasattr(child, "weight_fake_quant")
        if wanted and getattr(child, "qconfig", None) is not None:
            child.add_module("activation_post_process", child.qconfig.activation())
            child.register_forward_hook(_observe, prepend=True)
        elif not isinstance(child, DeQuantStub):
            _add_observers(child)


def prepare(
    model: nn.Module, inplace: bool = False, allow_list: Any = None,
    observer_non_leaf_module_list: Any = None, prepare_custom_config_dict: Any = None,
) -> nn.Module:  # fmt: skip
    """A model whose layers with a configuration (``qconfig``) have their results observed.

    Args:
        model: the model; ``qconfig`` of a module goes for all that it holds.
        inplace: change the model instead of a copy.
        allow_list, observer_non_leaf_module_list, prepare_custom_config_dict: taken for PyTorch's
            sake.
    """
    found = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(found)
    _add_observers(found)
    return found


def prepare_qat(model: nn.Module, mapping: Any = None, inplace: bool = False) -> nn.Module:
    """A model to be trained with fake quantization of weights and of results.

    Args:
        model: a model that is being trained; ``qconfig`` of a module goes for all that it holds.
        mapping: None.
        inplace: change the model instead of a copy.

    Raises AssertionError for a model in eval mode, UnsupportedNameError for a mapping.
    """
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    if mapping is not None:
        raise UnsupportedNameError("prepare_qat(mapping=...): lazyt has linear and conv layers")
    found = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(found)
    _swap(found)
    _add_observers(found)
    return found


def _swap(module: nn.Module) -> None:
    for name, child in list(module.named_children()):
        made = _with_fake_weight(child) if getattr(child, "qconfig", None) is not None else child
        if made is child:
            _swap(child)
        else:
            module._modules[name] = made


# ------------------------------------------------------------------------------ joined layers


class _Joined(nn.Sequential):
    """Layers that are quantized as one."""


class ConvReLU1d(_Joined):
    """A convolution and ReLU."""


class ConvReLU2d(_Joined):
    """A convolution and ReLU."""


class ConvReLU3d(_Joined):
    """A convolution and ReLU."""


class LinearReLU(_Joined):
    """A linear layer and ReLU."""


def fuse_modules(
    model: nn.Module, modules_to_fuse: Sequence[Any], inplace: bool = False, **_: Any
) -> nn.Module:
    """A model in eval mode in which layers behind each other are one, and the rest is Identity.

    Args:
        model: the model.
        modules_to_fuse: names of a convolution, batch normalization and ReLU, or of a part of
            these, or of a linear layer and ReLU; or a list of such lists.
        inplace: change the model instead of a copy.

    Raises LazytError for layers in training, NotImplementedError for other lists of layers.
    """
    found = model if inplace else copy.deepcopy(model)
    several = modules_to_fuse and not isinstance(modules_to_fuse[0], str)
    for names in modules_to_fuse if several else [modules_to_fuse]:
        layers = [found.get_submodule(name) for name in names]
        made = [_joined(layers), *(nn.Identity() for _ in layers[1:])]
        for name, layer in zip(names, made):
            owner, _, last = name.rpartition(".")
            setattr(found.get_submodule(owner), last, layer)
    return found


def _joined(layers: list[nn.Module]) -> Any:
    kinds = tuple(type(layer) for layer in layers)
    convs: dict[Any, tuple[Any, Any]] = {
        nn.Conv1d: (nn.BatchNorm1d, ConvReLU1d),
        nn.Conv2d: (nn.BatchNorm2d, ConvReLU2d),
        nn.Conv3d: (nn.BatchNorm3d, ConvReLU3d),
    }
    first: Any = layers[0]
    if kinds == (nn.Linear, nn.ReLU):
        return LinearReLU(*layers)
    if kinds[0] in convs:
        norm, together = convs[kinds[0]]
        if kinds == (kinds[0], nn.ReLU):
            return together(*layers)
        if kinds in ((kinds[0], norm), (kinds[0], norm, nn.ReLU)):
            if any(layer.training for layer in layers[:2]):
                raise LazytError("fuse_modules joins layers in eval mode: call model.eval()")
            made = fuse_conv_bn_eval(first, layers[1])
            return made if len(layers) == 2 else together(made, layers[2])
    raise UnsupportedNameError(f"Cannot fuse modules: {kinds}")
