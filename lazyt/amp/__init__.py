"""Automatic mixed precision, by PyTorch's names."""

from lazyt.amp.custom import custom_bwd as custom_bwd
from lazyt.amp.custom import custom_fwd as custom_fwd
from lazyt.amp.scaling import GradScaler as GradScaler
from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.compat.homes import add_homes as _add_homes
from lazyt.handle.autocast import autocast as autocast
from lazyt.handle.autocast import is_autocast_available as is_autocast_available

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_add_homes(
    __name__,
    {
        "grad_scaler": {"GradScaler": GradScaler},
        "autocast_mode": {
            "autocast": autocast, "custom_bwd": custom_bwd, "custom_fwd": custom_fwd,
            "is_autocast_available": is_autocast_available,
        },
    },
)  # fmt: skip

_explain_absence(__name__)
