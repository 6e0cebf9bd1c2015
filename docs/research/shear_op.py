"""An op of one's own, in one file outside of the package: shear, which shifts row i by i columns.

    result[..., i, j] = x[..., i, (j + steps * i) % columns]

Run it: ``python docs/research/shear_op.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import lazyt
from lazyt.errors import ShapeError
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.ir.graph import Node, Type, make
from lazyt.ir.index import Linear
from lazyt.ir.scalar import Expr
from lazyt.ops.registry import define_op, linear_jvp


class ShearParams(NamedTuple):
    """By how many columns a row is shifted further than the row before it."""

    steps: int


def _infer(params: ShearParams, x: Node) -> Type:
    """Shape and dtype of the result; what does not fit raises here, at the user's line."""
    if len(x.shape) < 2:
        raise ShapeError(f"shear: needs rows and columns, got shape {list(x.shape)}")
    return Type(x.shape, x.dtype)


def _evaluate(node: Node, x: Any) -> Any:
    """The meaning, in NumPy: the oracle of tests, and what runs where there is no compiler."""
    rows, columns = node.shape[-2:]
    i, j = np.arange(rows)[:, None], np.arange(columns)
    return x[..., i, (j + node.params.steps * i) % columns]


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    """The gradient: every element goes back to where it came from."""
    return [shear(cotangent, -node.params.steps)]


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    """For ``vmap``: the new axis comes first, and this op leaves leading axes alone."""
    return shear(inputs[0], node.params.steps)


def _lower(node: Node, index: tuple[Linear, ...], read: Any) -> Expr:
    """For kernels: where the element at ``index`` is read. Fusion follows from it."""
    *leading, row, column = index
    source = (column + row * node.params.steps) % node.shape[-1]
    value: Expr = read(node.inputs[0], (*leading, row, source))
    return value


SHEAR = define_op(
    "shear",
    params=ShearParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=linear_jvp,  # a linear op is its own derivative
    batch=_batch,
    lower=_lower,
)


def shear(x: Node, steps: int) -> Node:
    """The builder: a node of the graph."""
    return make(SHEAR, (x,), ShearParams(steps))


def shear_rows(x: lazyt.Tensor, steps: int = 1) -> lazyt.Tensor:
    """The user's function: row ``i`` shifted by ``steps * i`` columns, around the end.

    Raises ShapeError for tensors of fewer than two dimensions.
    """
    return wrap(shear(unwrap(x), steps), x, name="shear_rows")


if __name__ == "__main__":
    x = lazyt.arange(12.0).reshape(3, 4).realize()
    print(shear_rows(x))

    # It fuses with what is around it: one kernel.
    scaled = (shear_rows(x.exp()) * 2 + 1).sum(-1)
    report = lazyt.explain(scaled)
    assert len(report.kernels) == 1, report

    # Compiled, interpreted, and on the emulator of GPUs: the same bits.
    with lazyt.config.override(interpret=True):
        meant = shear_rows(x).tolist()
    assert shear_rows(x).tolist() == meant
    assert shear_rows(x.to("cuda:emu")).tolist() == meant

    # Gradients, in both directions, and a batch of matrices.
    leaf = x.clone().requires_grad_()
    (shear_rows(leaf, 2) * x).sum().backward()
    assert (leaf.grad == shear_rows(x, -2)).all()
    _, tangent = lazyt.func.jvp(shear_rows, (x,), (x * 10,))
    assert (tangent == shear_rows(x) * 10).all()
    batch = lazyt.stack([x, x + 1])
    assert (lazyt.vmap(shear_rows)(batch)[1] == shear_rows(x + 1)).all()

    # And it prints, parses, and is captured like every other op.
    fast = lazyt.jit(lambda x: shear_rows(x) - x)
    for _ in range(3):
        assert (fast(x) == shear_rows(x) - x).all()
    assert fast.why() == ["captured"]
    try:
        shear_rows(lazyt.ones(3))
    except ShapeError as error:
        print(error)
