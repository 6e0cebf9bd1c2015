"""``torch.cpu.amp``: mixed precision on the CPU."""

from __future__ import annotations

from lazyt.functional import namespace as lazyt
from lazyt.handle.autocast import autocast as _autocast

__all__ = ["autocast"]


class autocast(_autocast):
    """``lazyt.autocast("cpu")``."""

    def __init__(
        self, enabled: bool = True, dtype: lazyt.dtype = lazyt.bfloat16, cache_enabled: bool = True
    ):
        super().__init__("cpu", dtype, enabled, cache_enabled)
