"""What graphs share: nothing where their axes differ; at trial sizes, counts follow the sizes."""

from __future__ import annotations

import pytest

import lazyt as lt
from lazyt.ir.printer import field_names
from lazyt.ops.registry import OPS
from lazyt.plan import dynamic_shapes
from lazyt.plan.dynamic_shapes import texts_of_multiples

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
        # of kernels of users' own
        "name", "target", "function", "text", "used", "slots", "read_shapes", "read_dtypes",
        "shapes", "dtypes", "examples", "grid",
        # of Fourier transforms, whose stages belong to one number of points
        "sign", "points", "pairs",
        # of loops and branches, which stand between plans
        "body", "constants", "carries", "length", "reverse", "history", "then", "other", "test",
        # of calls of Python, which do too
        "call",
        # of collectives, which do too
        "group", "rank", "size", "number", "sent", "received", "root",
        "lane", "groups", "ranks", "parts", "reduction", "resharded", "written",
    }  # fmt: skip
    names = {name for op in map(OPS.get, list(OPS)) for name in field_names(op.params) or ()}
    axes = {name for name in names if dynamic_shapes._AXES.search(f"{name}=(0, 1)")}
    assert axes == {"axes", "axis", "batch", "batched", "left", "right", "out", "result"}
    assert names - axes <= values, "say whether they are sizes (`_AXES` in sizes.py)"


def test_counts_of_all_but_one_element_follow_the_size() -> None:
    """Means over 16 * (n - 1) elements, and what they are multiplied by instead."""
    pairs = [("17", "37"), ("256.0", "576.0"), ("0.00390625", repr(1 / 576)), ("2.5", "2.5")]
    texts = texts_of_multiples(["", " ", " ", " ", ""], pairs, (17, 37))
    assert len(texts) >= 4
    for n, count, factor, constant in map(str.split, texts):
        assert float(count) == 16 * (int(n) - 1) and constant == "2.5"
        assert float(factor) == pytest.approx(1 / float(count), rel=1e-12)
    assert len({int(text.split()[0]) % 2 for text in texts}) == 2, "odd and even ones"


def test_gradients_are_checked_by_graphs_that_are_alike() -> None:
    def function(x: lt.Tensor, w: lt.Tensor) -> lt.Tensor:
        return lt.nn.functional.conv_transpose2d(x, w, stride=2)

    x, w = (lt.randn(*s, dtype=lt.float64).realize() for s in ((1, 2, 2, 3), (2, 1, 2, 2)))
    begin = len(lt.why_compiled())
    assert lt.autograd.gradcheck(function, (x.requires_grad_(), w.requires_grad_()))
    events = [event for event in lt.why_compiled()[begin:] if event.kind == "compile"]
    largest = max(int(str(event.details["kernels"])) for event in events)
    assert largest < 20, "no graph holds all rows of a Jacobian"
