"""Sums and products by index in 16 bits are those of float32, rounded once.

``recorded_sums.json.xz`` holds digests of what 2400 programs give on PyTorch 2.13 in float32. All
run in the interpreter; ``LAZYT_SUMS_COMPILED`` of them (default 120) are compiled. Record anew
after a change of ``sum_programs.py`` with ``python -m tests.index_sums.run_sums --record 2400``.
"""

from __future__ import annotations

import os

import pytest

from tests.index_sums.run_sums import differing, recorded

COMPILED = int(os.environ.get("LAZYT_SUMS_COMPILED", "120"))


def test_interpreted_sums_are_rounded_once() -> None:
    wanted = recorded()
    assert len(wanted) >= 2000
    wrong = differing(wanted, interpret=True)
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.fused_values
def test_compiled_sums_are_rounded_once() -> None:
    wanted = {seed: shown for seed, shown in recorded().items() if seed < COMPILED}
    wrong = differing(wanted, interpret=False)
    assert not wrong, "\n".join(wrong[:5])
