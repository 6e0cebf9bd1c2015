"""Signal processing under the names of ``torch.signal``."""

from lazyt.signal import windows as windows

__all__ = ["windows"]
