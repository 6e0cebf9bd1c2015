"""``torch.cuda.amp``: mixed precision on a GPU. Without one it switches itself off."""

from __future__ import annotations

import lazyt
from lazyt.amp.scaling import GradScaler as _GradScaler
from lazyt.cast_mode import autocast as _autocast

__all__ = ["GradScaler", "autocast"]


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
