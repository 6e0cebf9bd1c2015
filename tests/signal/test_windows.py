"""Windows against NumPy's, and against their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import lazyt
from lazyt.signal import windows

#: The windows that NumPy has too, symmetric ones.
NUMPY: dict[str, Callable[[int], np.ndarray]] = {
    "hann": np.hanning,
    "hamming": np.hamming,
    "blackman": np.blackman,
    "bartlett": np.bartlett,
    "kaiser": lambda length: np.kaiser(length, 12.0),
}


@pytest.mark.parametrize("name", sorted(NUMPY))
def test_symmetric_and_periodic_windows_are_numpys(name: str) -> None:
    make = getattr(windows, name)
    with lazyt.config.override(interpret=True):
        for length in (1, 2, 5, 8):
            whole = make(length, dtype=lazyt.float64).numpy()
            assert np.allclose(whole, NUMPY[name](length), atol=1e-12)
        period = make(6, sym=False, dtype=lazyt.float64).numpy()
        assert np.allclose(period, NUMPY[name](7)[:-1], atol=1e-12)
        assert make(0).shape == (0,)


def test_windows_of_other_forms_follow_their_definitions() -> None:
    n = np.arange(5.0)
    wanted = {
        "cosine": np.sin(math.pi * (n + 0.5) / 5),
        "gaussian": np.exp(-0.5 * (n - 2) ** 2),
        "exponential": np.exp(-np.abs(n - 2)),
    }
    with lazyt.config.override(interpret=True):
        for name, values in wanted.items():
            found = getattr(windows, name)(5, dtype=lazyt.float64).numpy()
            assert np.allclose(found, values, atol=1e-12), name
        nuttall = windows.nuttall(5, dtype=lazyt.float64).numpy()
        moved = windows.exponential(4, center=1.0, tau=2.0, sym=False).numpy()
        cosines = windows.general_cosine(5, a=[0.5, 0.25, 0.25], dtype=lazyt.float64).numpy()
        raised = windows.general_hamming(5, alpha=0.5, dtype=lazyt.float64).numpy()
    x = 2 * math.pi * n / 4
    terms = 0.3635819 - 0.4891775 * np.cos(x) + 0.1365995 * np.cos(2 * x)
    assert np.allclose(nuttall, terms - 0.0106411 * np.cos(3 * x), atol=1e-12)
    assert np.allclose(moved, np.exp(-np.abs(np.arange(4) - 1) / 2), atol=1e-6)
    assert np.allclose(cosines, 0.5 - 0.25 * np.cos(x) + 0.25 * np.cos(2 * x), atol=1e-12)
    assert np.allclose(raised, np.hanning(5), atol=1e-12)


def test_windows_have_the_default_dtype_and_may_be_learned() -> None:
    assert windows.hann(4).dtype is lazyt.float32
    assert windows.kaiser(4, requires_grad=True).requires_grad
    assert windows.bartlett(1, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: windows.hann(-1), "non-negative window length, got M=-1"),
        (lambda: windows.hann(3, dtype=lazyt.float16), "expects float32 or float64 dtypes"),
        (lambda: windows.exponential(3, center=1.0), "Center must be None"),
        (lambda: windows.exponential(3, tau=0.0), "Tau must be positive"),
        (lambda: windows.gaussian(3, std=0.0), "Standard deviation must be positive"),
        (lambda: windows.kaiser(3, beta=-1.0), "beta must be non-negative"),
        (lambda: windows.general_cosine(3, a=[]), "Coefficients cannot be empty"),
    ],
)
def test_settings_that_make_no_window_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_coefficients_are_a_list() -> None:
    with pytest.raises(TypeError, match="must be a list/tuple"):
        windows.general_cosine(3, a=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be int, not float"):
        windows.hann(2.5)  # type: ignore[arg-type]
