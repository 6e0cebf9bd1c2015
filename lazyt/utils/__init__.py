"""Loading data, sharing memory, and computing again instead of remembering."""

from lazyt.utils import checkpoint as checkpoint
from lazyt.utils import data as data
from lazyt.utils import dlpack as dlpack

__all__ = ["checkpoint", "data", "dlpack"]
