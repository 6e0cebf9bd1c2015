"""The constants of Fourier transforms: right to half an ulp, and the same on every machine."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from lazyt.ir.fourier import tables

#: Of the bytes of both functions of all n-th parts of a turn, the first digits of SHA-256, found on
#: x86-64 and on aarch64.
DIGESTS = {
    7: "c32b236db9c7e5da",
    127: "b5425d59741b2d73",
    1000: "69fb4654126c4265",
    4099: "1f0dfc7867904b05",
    65536: "48fe7f99f2b0d266",
}


@pytest.mark.parametrize("n", DIGESTS)
def test_sines_are_the_same_on_every_machine(n: int) -> None:
    parts = np.stack(tables.circle(np.arange(n), n))
    assert hashlib.sha256(parts.tobytes()).hexdigest()[:16] == DIGESTS[n]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="nothing more exact is here")
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 100, 127, 4099])
def test_sines_are_right_to_half_an_ulp(n: int) -> None:
    turns = (
        np.arange(n, dtype=np.longdouble) * 2 / n * np.longdouble("3.14159265358979323846264338")
    )
    for found, wanted in zip(tables.circle(np.arange(n), n), (np.cos(turns), np.sin(turns))):
        assert float(np.abs(found - wanted).max()) < 0.51 * 2.0**-53


@pytest.mark.parametrize(("n", "length"), [(2, 4), (7, 16), (331, 1024)])
def test_the_chirps_spectrum_is_its_transform(n: int, length: int) -> None:
    re, im = tables.chirp(n, 1, 1.0)
    ring = np.zeros(length, complex)
    ring[:n] = re + 1j * im
    ring[length - n + 1 :] = ring[1:n][::-1]
    re, im = tables.chirp_spectrum(n, length, -1)
    wanted = np.fft.fft(ring) / length
    assert np.abs(re + 1j * im - wanted).max() < 1e-15 * np.abs(wanted).max()
