"""Graphs that differ in their axes share nothing, whatever their sizes."""

from __future__ import annotations

import pytest

import lazyt as lt
from lazyt import sizes
from lazyt.ir.text_graph import field_names
from lazyt.ops.registry import OPS

pytestmark = [pytest.mark.usefixtures("module_cache"), pytest.mark.lazy]


def test_operations_along_other_axes_decide_for_themselves() -> None:
    for size in (3000, 3001):
        x = lt.ones(size, size + 2 * (size % 2)).realize()
        assert [x.sum(axis).max().item() for axis in (0, 1)] == [*x.shape]
        y = lt.rand(size % 90 + 40, size % 90 + 40)
        for how in ("ij,jk->ik", "ij,kj->ik", "ji,jk->ik"):
            wanted = lt.einsum(how, y.double(), y.double()).float()
            lt.testing.assert_close(lt.einsum(how, y, y), wanted)


def test_each_number_of_an_operation_is_a_size_or_says_which_axes() -> None:
    values = {
        "shape", "starts", "sizes", "steps", "extent", "uid", "low", "high", "interior", "fill",
        "strides", "offset", "place", "dtype", "kind", "routine", "mode", "descending",
    }  # fmt: skip
    names = {name for op in OPS.values() for name in field_names(op.params) or ()}
    axes = {name for name in names if sizes._AXES.search(f"{name}=(0, 1)")}
    assert axes == {"axes", "axis", "batch", "left", "right", "out"}
    assert names - axes <= values, "say whether they are sizes (`_AXES` in sizes.py)"
