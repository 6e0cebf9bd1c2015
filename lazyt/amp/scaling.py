"""Scaling losses so that float16 gradients do not vanish (Micikevicius et al. 2018)."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any

from lazyt.errors import ArgumentError, DeviceError, LazytError, warn
from lazyt.functional import namespace as lazyt
from lazyt.handle.device import check_device
from lazyt.handle.hooks import looks
from lazyt.handle.pytree import Identity
from lazyt.handle.tensor import Tensor

_INSTEAD = "capture what comes before, up to backward(), and call it outside"


class ScalerError(LazytError, AssertionError):
    """A scaler used out of order, or with a factor that makes no sense."""


class _Progress:
    """How far an optimizer is since the last ``update``.

    Attributes:
        finite: whether all its gradients are, a tensor; None before they were unscaled.
        stepped: whether it has made its step.
    """

    def __init__(self) -> None:
        self.finite: Tensor | None = None
        self.stepped = False


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

    ``step`` looks whether the gradients are finite, because counts of steps live in Python and must
    not go on when a step is left out. A function captured by ``lazyt.jit`` cannot replay that: it
    runs as always; capture what comes before ``step`` instead.

    Raises ScalerError (an AssertionError) for factors that do not grow, or do not fall, and for
    calls out of order.
    """

    #: Counted by ``update`` alone, which is never captured.
    _unwatched = frozenset({"_growth_tracker"})

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled and _usable(device)
        if self._enabled and growth_factor <= 1.0:
            raise ScalerError("The growth factor must be > 1.0.")
        if self._enabled and backoff_factor >= 1.0:
            raise ScalerError("The backoff factor must be < 1.0.")
        self._scale, self._growth_interval = _rounded(init_scale), growth_interval
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_tracker = 0
        self._used = False
        self._progress: dict[Identity, _Progress] = {}

    def scale(self, outputs: Any) -> Any:
        """A loss, or several in lists and tuples, times the scale.

        Raises ArgumentError (a ValueError) for anything else.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            self._used = True
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ArgumentError("outputs must be a Tensor or an iterable of Tensors")

    def _require_use(self, name: str) -> None:
        if not self._used:
            raise ScalerError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )

    def unscale_(self, optimizer: Any) -> None:
        """Scale the gradients of an optimizer's parameters down, for example to clip them.

        Raises LazytError (a RuntimeError) when that was done, or its step made, since the last
        ``update``, and ArgumentError (a ValueError) for gradients in float16.
        """
        if not self._enabled:
            return
        self._require_use("unscale_")
        progress = self._progress.setdefault(Identity(optimizer), _Progress())
        if progress.stepped:
            raise LazytError("unscale_() is being called after step().")
        if progress.finite is not None:
            raise LazytError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        inverse = _rounded(1.0 / self._scale)
        finite = []
        with lazyt.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if grad.dtype is lazyt.float16:
                        raise ArgumentError("Attempting to unscale FP16 gradients.")
                    finite.append(lazyt.isfinite(grad).all())
                    grad.mul_(inverse)
        if finite:
            progress.finite = lazyt.stack(finite).all()

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step`` unless a gradient is not finite; its result.

        Raises LazytError (a RuntimeError) for a closure, and for a second step since ``update``.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise LazytError("Closure use is not currently supported if GradScaler is enabled.")
        self._require_use("step")
        progress = self._progress.setdefault(Identity(optimizer), _Progress())
        if progress.stepped:
            raise LazytError("step() has already been called since the last update().")
        if progress.finite is None:
            self.unscale_(optimizer)
        if progress.finite is None:
            raise ScalerError("No inf checks were recorded for this optimizer.")
        looks(
            "GradScaler.step, which leaves a step out where gradients are not finite; " + _INSTEAD
        )
        result = optimizer.step(*args, **kwargs) if bool(progress.finite) else None
        progress.stepped = True
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Change the scale after the step, or set it.

        Raises ScalerError (an AssertionError) without a check before, or for a tensor of several
        elements or one that requires a gradient.
        """
        if not self._enabled:
            return
        looks(f"GradScaler.update, whose scale follows the gradients; {_INSTEAD}")
        self._require_use("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor) and (
                new_scale.numel() != 1 or new_scale.requires_grad
            ):
                raise ScalerError(
                    "new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
                    "torch.FloatTensor with requires_grad=False."
                )
            self._scale = _rounded(float(new_scale))
        else:
            checks = [p.finite for p in self._progress.values() if p.finite is not None]
            if not checks:
                raise ScalerError("No inf checks were recorded prior to update.")
            self._follow(all(bool(finite) for finite in checks))
        self._progress.clear()

    def _follow(self, good: bool) -> None:
        """Change the scale after a good step, or one that was left out."""
        if not good:
            self._scale = _rounded(self._scale * self._backoff_factor)
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = _rounded(self._scale * self._growth_factor)
            self._scale = grown if math.isfinite(grown) else self._scale
            self._growth_tracker = 0

    def get_scale(self) -> float:
        """The scale now; 1 when switched off."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether the scaler scales."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """What the scale is multiplied with after many good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Change what the scale is multiplied with after many good steps."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied with after a bad step."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Change what the scale is multiplied with after a bad step."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Good steps before the scale rises."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Change how many good steps there are before the scale rises."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        """Good steps since the scale changed."""
        return self._growth_tracker if self._enabled else 0

    def state_dict(self) -> dict[str, Any]:
        """Scale and settings; empty when switched off."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a ``state_dict``. Raises LazytError (a RuntimeError) for an empty one."""
        if not self._enabled:
            return
        if not state_dict:
            raise LazytError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._scale = _rounded(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]

    def __getstate__(self) -> dict[str, Any]:
        if self._enabled and self._progress:
            raise ScalerError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at "
                "the end after scaler.update()."
            )
        return {**self.__dict__, "_used": False}


def _rounded(value: float) -> float:
    """The nearest number of float32, which PyTorch keeps scales in."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def _usable(device: str) -> bool:
    if device != "cuda":
        return True
    try:
        check_device(device)
    except DeviceError:
        warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
        return False
    return True
