"""Modules that observe values and round them to the grid that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.ao.functions import fake_quantize_per_channel_affine, fake_quantize_per_tensor_affine
from lazyt.ao.observers import (
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    Partial,
    per_channel_affine,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from lazyt.compat.legacy import qint8, quint8
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module

__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "FusedMovingAvgObsFakeQuantize", "default_fake_quant",
    "default_fused_act_fake_quant", "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant", "default_per_channel_weight_fake_quant",
    "default_weight_fake_quant", "disable_fake_quant", "disable_observer", "enable_fake_quant",
    "enable_observer",
]  # fmt: skip


class FakeQuantizeBase(Module):
    """What all modules of fake quantization are: two switches, which are buffers."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", lazyt.tensor([1], dtype=lazyt.uint8))
        self.register_buffer("observer_enabled", lazyt.tensor([1], dtype=lazyt.uint8))

    def forward(self, x: Tensor) -> Tensor:
        """The values; for derived classes."""
        raise NotImplementedError

    def calculate_qparams(self, **_: Any) -> Any:
        """Scale and zero point; for derived classes."""
        raise NotImplementedError

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Round values from now on."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        """Round no values from now on."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Observe values from now on."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        """Observe no values from now on."""
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs: Any) -> Partial:
        """The class with arguments, to be called for each object."""
        return Partial(cls, kwargs)


class FakeQuantize(FakeQuantizeBase):
    """Observes values and rounds them to the grid that fits what it saw.

    Args:
        observer: the class of the observer.
        quant_min, quant_max: the numbers of the least and the largest value.
        is_dynamic: kept as an attribute.
        observer_kwargs: arguments of the observer.
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None,
        quant_max: int | None = None, is_dynamic: bool = False, **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if quant_min is not None and quant_max is not None:
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        self.is_dynamic = is_dynamic
        self.activation_post_process: Any = observer(**observer_kwargs)
        watching = self.activation_post_process
        self.quant_min, self.quant_max = watching.quant_min, watching.quant_max
        self.register_buffer("scale", lazyt.tensor([1.0]))
        self.register_buffer("zero_point", lazyt.tensor([0], dtype=lazyt.int32))
        self.dtype, self.qscheme = watching.dtype, watching.qscheme
        self.ch_axis = getattr(watching, "ch_axis", -1)
        self.is_per_channel = self.qscheme in (per_channel_affine, per_channel_symmetric)

    def calculate_qparams(self, **_: Any) -> Any:
        """Scale and zero point of what was observed."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, x: Tensor) -> Tensor:
        """The values, rounded."""
        if self.observer_enabled[0] == 1:
            self.activation_post_process(x.detach())
            scale, zero_point = self._grid()
            if self.scale.shape != scale.shape:
                self.scale, self.zero_point = scale, zero_point.to(lazyt.int32)
            else:
                self.scale.copy_(scale)
                self.zero_point.copy_(zero_point)
        if self.fake_quant_enabled[0] == 1:
            limits = self.quant_min, self.quant_max
            if self.is_per_channel:
                return fake_quantize_per_channel_affine(
                    x, self.scale, self.zero_point, self.ch_axis, *limits
                )
            return fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, *limits)
        return x

    def _grid(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point of what was observed."""
        found: tuple[Tensor, Tensor] = self.calculate_qparams()
        return found

    def extra_repr(self) -> str:
        """The switches and the grid."""
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
            f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for name in ("scale", "zero_point"):
            given = state_dict.get(prefix + name)
            if given is not None and given.shape != getattr(self, name).shape:
                setattr(self, name, lazyt.empty_like(given))
        super()._load_from_state_dict(state_dict, prefix, *args)


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """FakeQuantize with an observer of moving averages, whose grids are those of PyTorch's kernel
    that does both. Args: those of FakeQuantize."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("fake_quant_enabled", "observer_enabled"):  # as PyTorch's files have them
            setattr(self, name, lazyt.tensor([1], dtype=lazyt.int64))
        self.is_symmetric_quant = self.qscheme in (per_tensor_symmetric, per_channel_symmetric)

    def _grid(self) -> tuple[Tensor, Tensor]:
        """The grid on which 0 is a value, chosen in float64. A symmetric one of values of both
        signs reaches the farther end with the numbers of its side, and other zero points come from
        the end that gives the smaller error."""
        low, high = self.quant_min, self.quant_max
        watching = self.activation_post_process
        least = watching.min_val.to(lazyt.float64).clamp(max=0).reshape(-1)
        most = watching.max_val.to(lazyt.float64).clamp(min=0).reshape(-1)
        if self.is_symmetric_quant:
            half = (high - low) // 2
            step = lazyt.maximum((least / -(half + 1)).abs(), (most / half).abs())
            both = (least < 0) & (most > 0)
            least = lazyt.where(both, step * -(half + 1), least)
            most = lazyt.where(both, step * half, most)
        scale = ((most - least) / (high - low)).to(lazyt.float32)
        scale = lazyt.where((scale == 0) | (1 / scale).isinf(), 0.1, scale)
        wide = scale.to(lazyt.float64)
        from_least, from_most = low - least / wide, high - most / wide
        error_of_least = abs(low) + (least / wide).abs()
        error_of_most = abs(high) + (most / wide).abs()
        chosen = lazyt.where(error_of_least < error_of_most, from_least, from_most)
        if self.is_symmetric_quant:
            chosen = lazyt.where(both, (low + high) / 2, chosen)
        return scale, chosen.round().clamp(low, high).to(lazyt.int32)


def _switch(name: str) -> Callable[[Module], None]:
    def switch(mod: Module) -> None:
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, name)()

    switch.__name__ = switch.__qualname__ = name
    switch.__doc__ = f"``{name}`` of a module of fake quantization: for ``model.apply``."
    return switch


enable_fake_quant, disable_fake_quant = _switch("enable_fake_quant"), _switch("disable_fake_quant")
enable_observer, disable_observer = _switch("enable_observer"), _switch("disable_observer")

default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=quint8,
    qscheme=per_tensor_affine, reduce_range=True,
)  # fmt: skip
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_tensor_symmetric, reduce_range=False,
)  # fmt: skip
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_channel_symmetric, reduce_range=False, ch_axis=0,
)  # fmt: skip
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=quint8
)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_tensor_symmetric,
)  # fmt: skip
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_channel_symmetric,
)  # fmt: skip
