"""Programs of integers at the ends of their types show what PyTorch showed, and kernels the same.

``recorded_edges.json.xz`` holds digests of what 2400 programs gave on PyTorch 2.13. All run in the
interpreter; ``LAZYT_EDGES_COMPILED`` of them (default 400) are compiled, many into each kernel.
Record anew after a change of ``edge_programs.py`` with
``python -m tests.integer_edges.run_edges --record 2400``; see there for a live comparison.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import lazyt
from tests.integer_edges.edge_programs import SIGNED, edge_values
from tests.integer_edges.run_edges import differing, recorded

COMPILED = int(os.environ.get("LAZYT_EDGES_COMPILED", "400"))


def test_interpreted_programs_show_what_pytorch_showed() -> None:
    wanted = recorded()
    assert len(wanted) >= 2000
    wrong = differing(wanted, interpret=True)
    assert not wrong, "\n".join(wrong[:5])


def test_compiled_programs_show_what_pytorch_showed() -> None:
    wanted = {seed: shown for seed, shown in recorded().items() if seed < COMPILED}
    wrong = differing(wanted, interpret=False)
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.parametrize("interpret", [True, False])
def test_divided_by_minus_one_the_smallest_number_is_itself(interpret: bool) -> None:
    """PyTorch's process dies of these; here they wrap around, as differences do."""
    with lazyt.config.override(interpret=interpret):
        for dtype in SIGNED:
            values = np.array(edge_values(dtype), dtype)
            x = lazyt.tensor(values)
            found = [
                x // -1, lazyt.div(x, -1, rounding_mode="trunc"), x % -1, lazyt.fmod(x, -1),
                (x // -1) == 0 - x, ((x + 1) // -1) < x,
            ]  # fmt: skip
            lazyt.realize(*found)
            with np.errstate(all="ignore"):
                negated, more = -values, -(values + 1)
            for quotient in found[:2]:
                assert np.array_equal(quotient.numpy(), negated)
            assert not found[2].any() and not found[3].any()
            assert found[4].all()
            assert np.array_equal(found[5].numpy(), more < values)
