"""A pass, an op, a function of numbers and their gradients, in one file outside of the package.

Run it: ``python docs/research/scaled_product.py``. Or have any program compiled with it::

    python -m lazyt run --load docs/research/scaled_product.py train.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import lazyt
from lazyt import compiler, ops
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.ir.graph import Node, Op, Type, make, rebuild, remake
from lazyt.ir.scalar import Expr, arg, call, const
from lazyt.ops.registry import linear_jvp

# ----------------------------------------------------------------------- a pass


def scale_the_result(roots: Sequence[Node]) -> list[Node]:
    """``(x * c) @ w -> (x @ w) * c``: the product reads ``x`` itself, and has fewer columns."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op.name == "contract":
            match ops.match_call(inputs[0]):
                case ("mul", Node() as x, float(c)) | ("mul", float(c), Node() as x):
                    product = remake(node, (x, inputs[1]))
                    return ops.apply("mul", product, ops.constant(c, node.dtype))
        return remake(node, inputs)

    return rebuild(roots, change)


SCALING = compiler.register_pass(
    compiler.Pass(
        "scale_the_result", scale_the_result, "scales the smaller matrix",
        exact=False, tolerance=1e-6, needs_constants=True,
    ),
    after="simplify",
)  # fmt: skip

# ------------------------------------------------------- a function of numbers


def _derivative(x: Expr, y: Expr) -> Expr:
    """``1 / (1 + |x|)^2``."""
    root = call("reciprocal", call("add", const(1, x.dtype), call("abs", x)))
    return call("mul", root, root)


compiler.define_scalar(
    "soft_step",
    evaluate=lambda x: x / (1 + np.abs(x)),
    c="x / (1 + lz_abs_@S(x))",
    derivative=_derivative,
)


def soft_step(x: lazyt.Tensor) -> lazyt.Tensor:
    """``x / (1 + |x|)`` of every element of a tensor of floats, which has its shape."""
    return wrap(ops.elementwise(call("soft_step", arg(0, x.dtype)), [unwrap(x)]), x)


# ----------------------------------------------------------------------- an op


def _lower(node: Node, index: Any, read: Any) -> Expr:
    value: Expr = read(node.inputs[0], index)
    return call("mul", value, const(FACTOR, value.dtype))


FACTOR = 3.0
TRIPLE: Op = compiler.define_op(
    "triple",
    params=None,
    infer=lambda params, x: Type(x.shape, x.dtype),
    evaluate=lambda node, x: x * x.dtype.type(FACTOR),
    vjp=lambda node, cotangent: [make(TRIPLE, (cotangent,))],
    jvp=linear_jvp,
    batch=lambda node, inputs, batched: make(TRIPLE, tuple(inputs)),
    lower=_lower,
)


def triple(x: lazyt.Tensor) -> lazyt.Tensor:
    """Every element three times as large."""
    return wrap(make(TRIPLE, (unwrap(x),)), x)


if __name__ == "__main__":
    x = lazyt.linspace(-1, 1, 12).reshape(3, 4).realize()
    w = lazyt.linspace(0, 1, 8).reshape(4, 2).realize()
    print(triple(soft_step((x * 0.125) @ w)))
    for product in ((x * 0.125) @ w, (0.125 * x) @ w):  # both are scaled behind the product
        assert [kernel.computes[-1] for kernel in lazyt.explain(product).kernels] == [
            "map float32[3, 2]"
        ]
    SCALING.remove()
    print(triple(soft_step((x * 0.125) @ w)))
    leaf = lazyt.linspace(0.5, 2, 4, dtype=lazyt.float64).requires_grad_()
    assert lazyt.autograd.gradcheck(lambda x: triple(soft_step(x)), (leaf,))
