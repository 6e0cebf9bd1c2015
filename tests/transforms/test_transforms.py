"""Whole-graph behaviour of vjp, jvp and batch; the ops' own rules are in the contract tests."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from lazyt import ops
from lazyt.errors import DTypeError, GradientError, ShapeError
from lazyt.ir.dtypes import DType, bfloat16, float16, float32, float64, int64, uint32
from lazyt.ir.graph import Node, NoGradient, Type, make, topological
from lazyt.ops import registry
from lazyt.runtime.interpreter import interpret
from lazyt.transforms.batch import batch
from lazyt.transforms.jvp import jvp
from lazyt.transforms.vjp import vjp

F64 = float64


def number(x: float) -> Node:
    return ops.constant(x, F64)


def value(node: Node | None) -> np.ndarray:
    assert node is not None
    return interpret([node])[0]


def ones(node: Node) -> Node:
    return ops.broadcast_to(ops.constant(1, node.dtype), node.shape)


def softmax(x: Node) -> Node:
    shape = (*x.shape[:-1], 1)
    last = (len(x.shape) - 1,)
    shifted = ops.apply("sub", x, ops.reshape(ops.reduce_("max", x, last), shape))
    e = ops.apply("exp", shifted)
    return ops.apply("div", e, ops.reshape(ops.reduce_("sum", e, last), shape))


def spread(*values: float) -> Node:
    return ops.concat([ops.reshape(number(v), (1,)) for v in values], 0)


def test_contributions_of_all_users_are_summed() -> None:
    x = ops.variable(number(3.0), 0)
    y = ops.apply("add", ops.apply("mul", x, x), ops.apply("mul", x, number(5.0)))
    assert value(vjp([y], [number(1.0)], [x])[0]) == 11
    assert value(vjp([y, y, x], [number(1.0), number(2.0), number(7.0)], [x])[0]) == 40


def test_targets_may_lie_on_one_path() -> None:
    x = number(2.0)
    y = ops.apply("exp", x)
    z = ops.apply("mul", y, y)
    by_x, by_y = vjp([z], [number(1.0)], [x, y])
    np.testing.assert_allclose(value(by_y), 2 * np.exp(2))
    np.testing.assert_allclose(value(by_x), 2 * np.exp(4))


def test_unconnected_is_none_and_flat_is_zeros() -> None:
    x, other = ops.variable(number(2.0), 1), ops.variable(number(2.5), 2)
    flat = ops.apply("floor", x)
    assert vjp([flat], [number(1.0)], [x, other])[1] is None
    assert value(vjp([flat], [number(1.0)], [x])[0]) == 0
    assert vjp([ops.detach(x)], [number(1.0)], [x]) == [None]
    assert vjp([ops.cast(ops.cast(x, int64), F64)], [number(1.0)], [x]) == [None]
    assert vjp([x], [None], [x])[0] is ops.zeros_like(x)


def test_only_the_path_is_visited() -> None:
    """The history behind a value without gradient is not looked at, however bad it is."""
    key = ops.concat([ops.reshape(ops.constant(k, uint32), (1,)) for k in (1, 2)], 0)
    noise = ops.cast(ops.random(key, (3,)), F64)
    x = ops.variable(spread(1.0, 2.0, 3.0), 3)
    y = ops.reduce_("sum", ops.apply("mul", x, noise), (0,))
    np.testing.assert_array_equal(value(vjp([y], [number(1.0)], [x])[0]), value(noise))


def test_gradients_of_gradients() -> None:
    x = number(0.7)
    y: Node | None = ops.apply("sin", x)
    for expected in (np.cos, lambda t: -np.sin(t), lambda t: -np.cos(t), np.sin):
        assert y is not None
        (y,) = vjp([y], [number(1.0)], [x])
        np.testing.assert_allclose(value(y), expected(0.7), rtol=1e-12)


def test_forward_over_reverse_is_the_hessian() -> None:
    x = spread(0.2, -0.4, 0.9)
    loss = ops.reduce_("sum", ops.apply("log", softmax(x)), (0,))
    (slope,) = vjp([loss], [number(1.0)], [x])
    assert slope is not None
    columns = [value(jvp([slope], [x], [spread(*row)])[0]) for row in np.eye(3)]
    p = value(softmax(x))
    np.testing.assert_allclose(np.array(columns), -3 * (np.diag(p) - np.outer(p, p)), atol=1e-12)


def test_jacobian_by_batching_the_vjp() -> None:
    x = spread(0.2, -0.4, 0.9)
    y = softmax(x)
    seed = ops.input_((3,), F64)
    (pulled,) = vjp([y], [seed], [x])
    assert pulled is not None
    rows = ops.reshape(ops.concat([spread(*row) for row in np.eye(3)], 0), (3, 3))
    (jacobian,) = batch([pulled], [seed], [rows], 3)
    p = value(y)
    np.testing.assert_allclose(value(jacobian), np.diag(p) - np.outer(p, p), atol=1e-12)


def test_jvp_and_vjp_are_transposes() -> None:
    rng = np.random.default_rng(0)
    x = spread(*rng.standard_normal(6))
    grid = ops.reshape(x, (2, 3))
    mixed = ops.contract(softmax(grid), ops.apply("tanh", grid), (0, 1), (2, 1), (0, 2))
    y = ops.scan("sum", ops.reshape(mixed, (4,)), 0)
    u, v = spread(*rng.standard_normal(6)), spread(*rng.standard_normal(4))
    forward = value(jvp([y], [x], [u])[0]) @ value(v)
    backward = value(vjp([y], [v], [x])[0]) @ value(u)
    np.testing.assert_allclose(forward, backward, rtol=1e-12)


def test_masked_branch_keeps_nan_out() -> None:
    """log's own slope at 0 meets a zero adjoint only through PyTorch's product: 0 * inf is NaN,
    while a cotangent that is masked itself stays clean."""
    x = spread(0.0, 2.0)
    positive = ops.apply("gt", x, number(0.0))
    safe = ops.apply("where", positive, x, number(1.0))
    y = ops.apply("where", positive, ops.apply("log", safe), number(0.0))
    np.testing.assert_array_equal(value(vjp([y], [ones(y)], [x])[0]), [0.0, 0.5])


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32], ids=repr)
def test_cotangents_keep_the_type_of_their_value(dtype: DType) -> None:
    x = ops.input_((2, 3), dtype)
    wide = ops.cast(x, float32)
    y = ops.reduce_("sum", ops.apply("mul", wide, wide), (0, 1))
    (slope,) = vjp([y], [ops.constant(1, float32)], [x])
    assert slope is not None and slope.type == x.type
    (push,) = jvp([y], [x], [x])
    assert push is not None and push.dtype is float32


def test_overlapping_windows_need_no_scatter() -> None:
    x = ops.input_((2, 3, 8, 8), F64)
    windows = ops.window(x, (2, 3, 3, 3, 3, 3), (192, 64, 16, 2, 8, 1), 0)
    (slope,) = vjp([windows], [ones(windows)], [x])
    assert slope is not None
    assert "scatter" not in {n.op.name for n in topological([slope])}


def test_long_chains_differentiate_without_recursion() -> None:
    x = ops.variable(number(1.0), 5)
    y = x
    for _ in range(5_000):
        y = ops.apply("mul", y, number(1.0001))
    (slope,) = vjp([y], [number(1.0)], [x])
    np.testing.assert_allclose(value(slope), 1.0001**5000)
    (push,) = jvp([y], [x], [number(1.0)])
    np.testing.assert_allclose(value(push), 1.0001**5000)
    (many,) = batch([y], [x], [spread(1.0, 2.0)], 2)
    np.testing.assert_allclose(value(many), [1.0001**5000, 2 * 1.0001**5000])


def test_batch_leaves_shared_work_alone() -> None:
    x, shared = ops.input_((3,), F64), ops.apply("exp", spread(1.0, 2.0, 3.0))
    y = ops.apply("add", x, shared)
    many = ops.input_((4, 3), F64)
    out, constant_out = batch([y, shared], [x], [many], 4)
    assert shared in topological([out]) and constant_out.shape == (4, 3)


def test_what_does_not_fit_is_refused() -> None:
    x = ops.input_((2,), F64)
    y = ops.apply("exp", x)
    with pytest.raises(ShapeError):
        vjp([y], [number(1.0)], [x])
    with pytest.raises(DTypeError):
        vjp([y], [ops.input_((2,), float32)], [x])
    with pytest.raises(ShapeError):
        jvp([y], [x], [number(1.0)])
    with pytest.raises(DTypeError):
        jvp([y], [x], [ops.input_((2,), float32)])
    with pytest.raises(ShapeError):
        batch([y], [x], [x], 2)
    with pytest.raises(DTypeError):
        batch([y], [x], [ops.input_((5, 2), float32)], 5)


def test_missing_gradients_say_why_and_where() -> None:
    op = registry.define_op(
        "opaque",
        params=None,
        infer=lambda params, x: Type(x.shape, x.dtype),
        evaluate=lambda node, x: x,
        vjp=NoGradient("nobody knows its inside"),
        jvp=NoGradient("nobody knows its inside"),
        batch=lambda node, inputs, batched: make(op, tuple(inputs)),
        lower="opaque",
    )
    try:
        x = ops.input_((2,), F64)
        y = make(op, (x,))
        with pytest.raises(GradientError, match=r"opaque has no gradient: .*test_transf"):
            vjp([y], [ones(y)], [x])
        with pytest.raises(GradientError, match="nobody knows"):
            jvp([y], [x], [ones(x)])
    finally:
        del ops.OPS["opaque"]


def test_transforms_keep_nothing_alive() -> None:
    x = ops.variable(number(1.25), 6)
    y = ops.apply("exp", x)
    (slope,) = vjp([y], [number(1.0)], [x])
    watch = weakref.ref(y)
    del y, slope
    assert watch() is None
