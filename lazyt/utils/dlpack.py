"""DLPack under PyTorch's name for it: memory shared with other array libraries."""

from __future__ import annotations

from lazyt.handle.interop.dlpack import DLDeviceType as DLDeviceType
from lazyt.handle.interop.dlpack import from_dlpack as from_dlpack
from lazyt.handle.interop.dlpack import to_dlpack as to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
