"""Automatic mixed precision, by PyTorch's names."""

from lazyt.amp.scaling import GradScaler as GradScaler
from lazyt.cast_mode import autocast as autocast

__all__ = ["GradScaler", "autocast"]
