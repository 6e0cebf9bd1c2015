"""Reductions and normalizations of what a mask leaves, under the names of ``torch.masked``.

Every function takes ``mask``, a bool tensor that is broadcast to the input, True where an element
counts.
"""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.functional.calls import explain_calls as _explain_calls
from lazyt.masked.functions import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum",
    "var",
]  # fmt: skip

_explain_calls(globals(), __all__, __name__, "masked_")

_explain_absence(__name__)
