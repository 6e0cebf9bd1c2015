"""Exponentials of what is not positive have the bits of all other exponentials."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tests.codegen.prelude_harness as harness

pytestmark = pytest.mark.skipif(harness.compiler() is None, reason="needs a C compiler")


@pytest.mark.parametrize("suffix", ["f32", "f64"])
def test_exponentials_of_what_is_not_positive(tmp_path: Path, suffix: str) -> None:
    """Subnormal results, zeros and NaN included."""
    names = [f"lz_{name}_{suffix}" for name in ("exp", "exp_nonpositive")]
    loops = "".join(harness.loop(name, [suffix], suffix, simd=True) for name in names)
    text = harness.prelude_text(names) + loops
    lib, _ = harness.build(tmp_path, "exponentials", text, harness.FLAGS)
    kind = np.dtype(harness.C_TYPES[suffix])
    source = np.random.default_rng(1)
    x = -np.concatenate([source.uniform(0, 110, 200_000), source.uniform(700, 760, 50_000)])
    special = [-0.0, 0.0, -np.inf, -103.97, -104.5, -87.33, -1e-30, -745.13, -746.5, -3e38]
    x = np.concatenate([x, special]).astype(kind)
    want, got = (harness.apply(lib, name, suffix, x).view(f"u{kind.itemsize}") for name in names)
    assert not x[got != want].tolist()[:9]
    nothing = np.array([np.nan, -np.nan], kind)
    assert np.isnan(harness.apply(lib, names[1], suffix, nothing)).all()
