"""Discrete Fourier transforms under the names of ``torch.fft``, with gradients.

They take float32, float64, complex64 and complex128, count whole numbers as the default dtype, and
are compiled like all other operations.
"""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.functional.calls import explain_calls as _explain_calls
from lazyt.functional.fourier.transforms import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

_explain_calls(globals(), __all__, __name__, "fft_")

_explain_absence(__name__)
