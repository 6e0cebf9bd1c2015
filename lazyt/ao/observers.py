"""Observers: modules that pass values on, note their range, and say which grid fits it."""

from __future__ import annotations

from typing import Any

from lazyt.compat.legacy import qint8, quint8
from lazyt.errors import UnsupportedNameError, warn
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module

__all__ = [
    "MinMaxObserver", "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver",
    "NoopObserver", "ObserverBase", "Partial", "PerChannelMinMaxObserver", "PlaceholderObserver",
    "Scheme", "UniformQuantizationObserverBase", "per_channel_affine", "per_channel_symmetric",
    "per_tensor_affine", "per_tensor_symmetric",
]  # fmt: skip


class Scheme:
    """How the values of a grid are chosen, such as ``torch.per_tensor_affine``.

    Args:
        name: what it is called.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


per_tensor_affine, per_tensor_symmetric = (
    Scheme("per_tensor_affine"),
    Scheme("per_tensor_symmetric"),
)
per_channel_affine = Scheme("per_channel_affine")
per_channel_symmetric = Scheme("per_channel_symmetric")


class Partial:
    """A class with arguments, which calls make objects of.

    Args:
        made: the class.
        given: arguments by name.
    """

    def __init__(self, made: Any, given: dict[str, Any]) -> None:
        self.made, self.given = made, given

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """An object."""
        return self.made(*args, **{**self.given, **kwargs})

    def with_args(self, **kwargs: Any) -> Partial:
        """The class with more arguments."""
        return Partial(self.made, {**self.given, **kwargs})

    def __repr__(self) -> str:
        named = "".join(f", {name}={value!r}" for name, value in self.given.items())
        return f"functools.partial({self.made!r}{named}){{}}"


class ObserverBase(Module):
    """What all observers are.

    Args:
        dtype: of the numbers that a quantized program has.
        is_dynamic: whether ranges are those of each call.
    """

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    def calculate_qparams(self, **_: Any) -> Any:
        """Scale and zero point; for derived classes."""
        raise NotImplementedError

    @classmethod
    def with_args(cls, **kwargs: Any) -> Partial:
        """The class with arguments, to be called for each object."""
        return Partial(cls, kwargs)


class UniformQuantizationObserverBase(ObserverBase):
    """An observer of grids of equal steps.

    Args:
        dtype: ``torch.quint8`` or ``torch.qint8``.
        qscheme: one of the four schemes.
        reduce_range: leaves one bit unused.
        quant_min, quant_max: the numbers of the least and the largest value, both or none.
        factory_kwargs: dtype and device of the buffers.
        eps: the smallest scale.
        is_dynamic: kept as an attribute.

    Raises AssertionError for limits that are no range with 0 in it, UnsupportedNameError for a
    symmetric range of ``quint8`` that leaves a bit unused.
    """

    eps: Tensor

    def __init__(
        self, dtype: Any = quint8, qscheme: Any = per_tensor_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: Any = None,
        eps: float = 1.1920928955078125e-07, is_dynamic: bool = False, **_: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.qscheme, self.reduce_range = qscheme, reduce_range
        if qscheme is per_tensor_symmetric and reduce_range and dtype is quint8:
            raise UnsupportedNameError("Cannot reduce range for symmetric quantization for quint8")
        self.made = dict(factory_kwargs or {})
        self.register_buffer("eps", lazyt.tensor([eps], **self.made))
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        low, high = (-128, 127) if dtype is qint8 else (0, 255)
        if quant_min is not None and quant_max is not None:
            if not quant_min <= 0 <= quant_max:
                raise AssertionError("Used-specified quantization range must include 0.")
            if quant_min >= quant_max:
                raise AssertionError(
                    "qmin must be strictly less than qmax for user-specified quantization range."
                )
            low, high = quant_min, quant_max
        if reduce_range:
            low, high = low // 2, high // 2
        self.quant_min, self.quant_max = low, high

    def reset_min_max_vals(self) -> None:
        """Forget the range; for derived classes."""
        raise NotImplementedError

    @property
    def _is_symmetric(self) -> bool:
        return self.qscheme in (per_tensor_symmetric, per_channel_symmetric)

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> tuple[Tensor, Tensor]:
        """Scale and zero point of a range, each of one element at least."""
        low, high = self.quant_min, self.quant_max
        if not min_val.numel() or bool((min_val > max_val).all()):
            warn("must run observer before calling calculate_qparams. Returning default values.")
            return lazyt.tensor([1.0]), lazyt.tensor([0])
        least = lazyt.minimum(min_val, lazyt.zeros_like(min_val))
        most = lazyt.maximum(max_val, lazyt.zeros_like(max_val))
        if self._is_symmetric:
            most = lazyt.maximum(-least, most)
            scale = lazyt.maximum(most / (float(high - low) / 2), self.eps)
            middle = 0
            if self.dtype is quint8:
                middle = (low + high) // 2 if self.has_customized_qrange else 128
            zero = lazyt.full(scale.shape, middle, dtype=lazyt.int64, device=scale.device)
        else:
            scale = lazyt.maximum((most - least) / float(high - low), self.eps)
            zero = (low - (least / scale).round().to(lazyt.int32)).clamp(low, high)
        return scale.reshape(-1), zero.reshape(-1)


class MinMaxObserver(UniformQuantizationObserverBase):
    """Notes the least and the largest value that it ever saw.

    Args: those of UniformQuantizationObserverBase.

    Raises NotImplementedError for a scheme of channels.
    """

    min_val: Tensor
    max_val: Tensor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.qscheme in (per_channel_affine, per_channel_symmetric):
            raise UnsupportedNameError(
                "MinMaxObserver's qscheme only support torch.per_tensor_symmetric and "
                "torch.per_tensor_affine."
            )
        self.register_buffer("min_val", lazyt.tensor(float("inf"), **self.made))
        self.register_buffer("max_val", lazyt.tensor(float("-inf"), **self.made))

    def forward(self, x_orig: Tensor) -> Tensor:
        """The values, noted and unchanged."""
        if x_orig.numel():
            x = x_orig.detach().to(self.min_val.dtype)
            self._note(*lazyt.aminmax(x))
        return x_orig

    def _note(self, least: Tensor, most: Tensor) -> None:
        self.min_val.copy_(lazyt.minimum(least, self.min_val))
        self.max_val.copy_(lazyt.maximum(most, self.max_val))

    def calculate_qparams(self, **_: Any) -> tuple[Tensor, Tensor]:
        """Scale and zero point."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """The range."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        """Forget the range."""
        self.min_val.copy_(lazyt.tensor(float("inf")))
        self.max_val.copy_(lazyt.tensor(float("-inf")))


def _averaged(before: Tensor, now: Tensor, share: float) -> Tensor:
    found: Tensor = lazyt.where(before.isinf(), now, before + share * (now - before))
    return found


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Notes moving averages of the least and the largest value of each call.

    Args:
        averaging_constant: the share of the latest call.
        others: those of MinMaxObserver.
    """

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        self_constant = averaging_constant
        super().__init__(*args, **kwargs)
        self.averaging_constant = self_constant

    def _note(self, least: Tensor, most: Tensor) -> None:
        share = self.averaging_constant
        self.min_val.copy_(_averaged(self.min_val, least, share))
        self.max_val.copy_(_averaged(self.max_val, most, share))


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Notes the least and the largest value of each slice along a dimension.

    Args:
        ch_axis: the dimension.
        others: those of UniformQuantizationObserverBase.
    """

    min_val: Tensor
    max_val: Tensor

    def __init__(
        self, ch_axis: int = 0, dtype: Any = quint8, qscheme: Any = per_channel_affine,
        *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, qscheme, *args, **kwargs)
        self.ch_axis = ch_axis
        self.register_buffer("min_val", lazyt.tensor([], **self.made))
        self.register_buffer("max_val", lazyt.tensor([], **self.made))

    def forward(self, x_orig: Tensor) -> Tensor:
        """The values, noted and unchanged."""
        if not x_orig.numel():
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype).movedim(self.ch_axis, 0).flatten(1)
        least, most = lazyt.aminmax(x, dim=1)
        if self.min_val.numel():
            least, most = self._merged(least, most)
        self.min_val, self.max_val = least, most
        return x_orig

    def _merged(self, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        return lazyt.minimum(least, self.min_val), lazyt.maximum(most, self.max_val)

    def calculate_qparams(self, **_: Any) -> tuple[Tensor, Tensor]:
        """Scales and zero points."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """The ranges."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        """Forget the ranges."""
        self.min_val, self.max_val = lazyt.tensor([]), lazyt.tensor([])

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for name in ("min_val", "max_val"):
            given = state_dict.get(prefix + name)
            if given is not None and given.shape != getattr(self, name).shape:
                setattr(self, name, lazyt.empty_like(given))
        super()._load_from_state_dict(state_dict, prefix, *args)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Notes moving averages of the ranges of each slice along a dimension.

    Args:
        averaging_constant: the share of the latest call.
        others: those of PerChannelMinMaxObserver.
    """

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.averaging_constant = averaging_constant

    def _merged(self, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        share = self.averaging_constant
        return (
            self.min_val + share * (least - self.min_val),
            self.max_val + share * (most - self.max_val),
        )


class PlaceholderObserver(ObserverBase):
    """Passes values on and notes nothing; for numbers that are cast.

    Args:
        dtype: what they are cast to.
        custom_op_name: kept as an attribute.
        others: taken for PyTorch's sake.
    """

    def __init__(self, dtype: Any = lazyt.float32, custom_op_name: str = "", **_: Any) -> None:
        super().__init__(dtype)
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        """The values."""
        return x


class NoopObserver(PlaceholderObserver):
    """Passes values on and notes nothing.

    Args:
        dtype: kept as an attribute.
        custom_op_name: kept as an attribute.
    """

    def __init__(self, dtype: Any = lazyt.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype, custom_op_name)
