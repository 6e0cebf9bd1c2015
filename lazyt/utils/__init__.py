"""Loading data, sharing memory, and computing again instead of remembering."""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.utils import checkpoint as checkpoint
from lazyt.utils import data as data
from lazyt.utils import dlpack as dlpack
from lazyt.utils import hooks as hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks"]

_explain_absence(__name__)
