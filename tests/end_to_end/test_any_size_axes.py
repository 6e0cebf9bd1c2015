"""Graphs that differ in their axes share nothing, whatever their sizes."""

from __future__ import annotations

import pytest

import lazyt as lt

pytestmark = [pytest.mark.usefixtures("module_cache"), pytest.mark.lazy]


def test_operations_along_other_axes_decide_for_themselves() -> None:
    for size in (3000, 3001):
        x = lt.ones(size, size + 2 * (size % 2)).realize()
        assert [x.sum(axis).max().item() for axis in (0, 1)] == [*x.shape]
        y = lt.rand(size % 90 + 40, size % 90 + 40)
        for how in ("ij,jk->ik", "ij,kj->ik", "ji,jk->ik"):
            wanted = lt.einsum(how, y.double(), y.double()).float()
            lt.testing.assert_close(lt.einsum(how, y, y), wanted)
