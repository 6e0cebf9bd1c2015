"""Loading data, and computing again instead of remembering."""

from lazyt.utils import checkpoint as checkpoint
from lazyt.utils import data as data

__all__ = ["checkpoint", "data"]
