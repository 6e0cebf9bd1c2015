"""Signal processing under the names of ``torch.signal``."""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.signal import windows as windows

__all__ = ["windows"]

_explain_absence(__name__)
