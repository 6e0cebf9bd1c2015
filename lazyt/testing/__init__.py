"""``torch.testing``: comparisons for tests, whose errors say what differs, and where."""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.testing.comparison import assert_allclose, assert_close, make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_explain_absence(__name__)
