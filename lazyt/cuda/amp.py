"""``torch.cuda.amp``: mixed precision on a GPU. Without one it switches itself off."""

from __future__ import annotations

from lazyt.amp.custom import custom_bwd as custom_bwd
from lazyt.amp.custom import custom_fwd as custom_fwd
from lazyt.amp.scaling import GradScaler as _GradScaler
from lazyt.functional import namespace as lazyt
from lazyt.handle.autocast import autocast as _autocast
from lazyt.handle.cuda_devices import device_count

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


class autocast(_autocast):
    """``lazyt.autocast("cuda")``."""

    def __init__(
        self, enabled: bool = True, dtype: lazyt.dtype = lazyt.float16, cache_enabled: bool = True
    ):
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """``lazyt.amp.GradScaler("cuda")``."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU."""
    return device_count() == 0
