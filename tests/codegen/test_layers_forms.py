"""Which form the contractions of ordinary layers take."""

from __future__ import annotations

import pytest

import lazyt
from lazyt.compiler import compile_graph
from lazyt.ir.graph import topological


def forms(result: lazyt.Tensor) -> list[str]:
    """The forms of all contractions that computing ``result`` takes."""
    roots = [result.node]
    inputs = [n for n in topological(roots) if n.op.name == "input"]
    program, _ = compile_graph(roots, inputs)
    return [str(note["form"]) for note in program.notes if "form" in note]


def leaf(*shape: int) -> lazyt.Tensor:
    return lazyt.randn(*shape).realize()


@pytest.mark.parametrize("side", ["right", "transposed", "sums"])
def test_products_of_batches_of_rows_are_packed(side: str) -> None:
    # The rows of [batch, position, width] are two axes, and neighbours along none of them are
    # neighbours in memory: nothing is gained by vectors along positions.
    x, w = leaf(4, 32, 64), leaf(64, 64)
    if side == "sums":
        result = lazyt.einsum("bpi,bpo->io", x, leaf(4, 32, 64))
    else:
        result = x @ (w if side == "right" else w.t())
    (form,) = forms(result)
    assert form.startswith("PackedForm")


def test_points_of_images_are_multiplied_where_they_lie() -> None:
    """By few rows of weights; more of them pay for a copy."""
    (form,) = forms(lazyt.einsum("oc,bcp->bop", leaf(64, 64), leaf(4, 64, 96)))
    assert form.startswith("PackedForm") and "apart=True" in form
    (form,) = forms(lazyt.einsum("oc,bcp->bop", leaf(600, 64), leaf(4, 64, 4096)))
    assert form.startswith("SlideForm")
