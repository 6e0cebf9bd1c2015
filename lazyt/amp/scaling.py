"""Scaling losses so that float16 gradients do not vanish (Micikevicius et al. 2018)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

import lazyt
from lazyt.device import check_device
from lazyt.errors import DeviceError, LazytError
from lazyt.tensor import Tensor


class GradScaler:
    """Scales losses up before ``backward`` and gradients down before the step.

    A step whose gradients are not finite is left out and the scale falls; after
    ``growth_interval`` good steps it rises. For ``"cuda"`` without a GPU the scaler switches itself
    off, with a warning, and passes everything through.

    Args:
        device: ``"cuda"`` or ``"cpu"``.
        init_scale: the scale at the start.
        growth_factor, backoff_factor: what the scale is multiplied with.
        growth_interval: good steps before the scale rises.
        enabled: whether to scale at all.

    Raises LazytError for factors that do not grow, or do not fall.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if growth_factor <= 1.0:
            raise LazytError("The growth factor must be > 1.0.")
        if not backoff_factor < 1.0:
            raise LazytError("The backoff factor must be < 1.0.")
        self._enabled = enabled and _usable(device)
        self._scale, self._growth_interval = init_scale, growth_interval
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._good_steps = 0
        self._seen_bad: list[bool] = []
        self._unscaled: WeakSet[Any] = WeakSet()
        self._bad: dict[int, bool] = {}

    def scale(self, outputs: Any) -> Any:
        """A loss, or several in lists and tuples, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            scaled = [self.scale(output) for output in outputs]
            return tuple(scaled) if isinstance(outputs, tuple) else scaled
        raise TypeError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Scale the gradients of an optimizer's parameters down, for example to clip them.

        Raises LazytError when that was done since the last ``update``.
        """
        if not self._enabled:
            return
        if optimizer in self._unscaled:
            raise LazytError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        self._unscaled.add(optimizer)
        inverse = 1.0 / self._scale
        finite = []
        with lazyt.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad.mul_(inverse)
                        finite.append(lazyt.isfinite(parameter.grad).all())
        self._bad[id(optimizer)] = bool(finite) and not bool(lazyt.stack(finite).all())

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step`` unless a gradient is not finite; its result."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if optimizer not in self._unscaled:
            self.unscale_(optimizer)
        bad = self._bad.pop(id(optimizer))
        self._seen_bad.append(bad)
        return None if bad else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Change the scale after the step, or set it. Raises LazytError without a step before."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._seen_bad:
            raise LazytError("No inf checks were recorded prior to update.")
        elif any(self._seen_bad):
            self._scale *= self._backoff_factor
            self._good_steps = 0
        else:
            self._good_steps += 1
            if self._good_steps == self._growth_interval:
                grown = self._scale * self._growth_factor
                self._scale = grown if math.isfinite(grown) else self._scale
                self._good_steps = 0
        self._seen_bad.clear()
        self._unscaled.clear()

    def get_scale(self) -> float:
        """The scale now; 1 when switched off."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether the scaler scales."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """What the scale is multiplied with after many good steps."""
        return self._growth_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied with after a bad step."""
        return self._backoff_factor

    def get_growth_interval(self) -> int:
        """Good steps before the scale rises."""
        return self._growth_interval

    def state_dict(self) -> dict[str, Any]:
        """Scale and settings; empty when switched off."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._good_steps,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a ``state_dict``. Raises LazytError for an empty one."""
        if not self._enabled:
            return
        if not state_dict:
            raise LazytError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._good_steps = state_dict["_growth_tracker"]


def _usable(device: str) -> bool:
    if device == "cpu":
        return True
    try:
        check_device(device)
    except DeviceError:
        warnings.warn(
            "GradScaler is enabled, but CUDA is not available.  Disabling.",
            UserWarning,
            stacklevel=3,
        )
        return False
    return True
