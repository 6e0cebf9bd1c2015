"""Functions of the user's API against NumPy, or against their definition in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.nn import functional as F

Array = np.ndarray[Any, Any]


def _random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _close(found: lt.Tensor, wanted: Any, tolerance: float = 2e-6) -> None:
    np.testing.assert_allclose(
        np.array(found.tolist(), np.float64), np.asarray(wanted, np.float64), tolerance, tolerance
    )


@pytest.mark.parametrize(
    "name", ["exp", "sin", "tanh", "floor", "ceil", "trunc", "sqrt", "log1p", "abs", "sign"]
)
def test_unary_functions(name: str) -> None:
    array = np.abs(_random(3, 4)) if name in ("sqrt", "log1p") else _random(3, 4) * 2
    _close(getattr(lt, name)(lt.tensor(array)), getattr(np, name)(array))
    assert getattr(lt.tensor(array), name)().dtype is lt.float32


_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "floor_divide": np.floor_divide, "remainder": np.mod, "fmod": np.fmod,
    "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2, "hypot": np.hypot,
}  # fmt: skip


@pytest.mark.parametrize("name", _BINARY)
def test_binary_functions_broadcast(name: str) -> None:
    a, b = _random(3, 1), _random(4, seed=1)
    _close(getattr(lt, name)(lt.tensor(a), lt.tensor(b)), _BINARY[name](a, b))


def test_integer_division_rounds_as_asked() -> None:
    a, b = lt.tensor([7, -7, 7, -7]), lt.tensor([2, 2, -2, -2])
    assert lt.div(a, b, rounding_mode="trunc").tolist() == [3, -3, -3, 3]
    assert lt.div(a, b, rounding_mode="floor").tolist() == [3, -4, -4, 3]
    assert (a / b).tolist() == [3.5, -3.5, -3.5, 3.5]
    assert (a % b).tolist() == [1, 1, -1, -1]


def test_small_integers_wrap() -> None:
    assert (lt.tensor([250, 5], dtype=lt.uint8) + 10).tolist() == [4, 15]
    assert (lt.tensor([127], dtype=lt.int8) + 1).tolist() == [-128]


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin", "std", "var"])
@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2)])
def test_reductions(name: str, dim: Any) -> None:
    if name == "prod" and isinstance(dim, tuple):
        pytest.skip("prod takes one dimension")
    array = _random(2, 3, 4)
    options = {"ddof": 1} if name in ("std", "var") else {}
    wanted = getattr(np, name)(array.astype(np.float64), axis=dim, **options)
    _close(getattr(lt, name)(lt.tensor(array), dim), wanted)
    kept = getattr(lt, name)(lt.tensor(array), dim, keepdim=True)
    assert kept.ndim == 3


def test_extremes_take_the_first_and_spread_nan() -> None:
    x = lt.tensor([[2.0, 5.0, 5.0], [math.nan, 1.0, 0.0]])
    values, places = x.max(dim=1)
    assert places.tolist() == [1, 0]
    assert values.tolist()[0] == 5.0
    assert math.isnan(values.tolist()[1])


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_adds_up_to_one(dim: int) -> None:
    x = lt.tensor(_random(4, 5) * 50)
    _close(lt.softmax(x, dim).sum(dim), np.ones(5 if dim == 0 else 4))
    _close(lt.log_softmax(x, dim).exp(), lt.softmax(x, dim).tolist())


def test_layer_norm_is_its_definition() -> None:
    array, weight, bias = _random(2, 3, 8), _random(8, seed=1), _random(8, seed=2)
    wide = array.astype(np.float64)
    gap = wide - wide.mean(-1, keepdims=True)
    wanted = gap / np.sqrt((gap**2).mean(-1, keepdims=True) + 1e-5) * weight + bias
    _close(F.layer_norm(lt.tensor(array), (8,), lt.tensor(weight), lt.tensor(bias)), wanted, 5e-6)


def _convolution(x: Array, w: Array, stride: int, padding: int, groups: int) -> Array:
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    (n, _, h, width), (o, per, kh, kw) = x.shape, w.shape
    out = np.zeros((n, o, (h - kh) // stride + 1, (width - kw) // stride + 1))
    for k, i, j in np.ndindex(o, *out.shape[2:]):
        first = k // (o // groups) * per
        i0, j0 = i * stride, j * stride
        seen = x[:, first : first + per, i0 : i0 + kh, j0 : j0 + kw]
        out[:, k, i, j] = (seen * w[k]).sum((1, 2, 3))
    return out


@pytest.mark.parametrize(("stride", "padding", "groups"), [(1, 0, 1), (2, 1, 1), (1, 1, 2)])
def test_convolution_is_its_definition(stride: int, padding: int, groups: int) -> None:
    x, w = _random(2, 4, 6, 5), _random(6, 4 // groups, 3, 2, seed=1)
    found = F.conv2d(lt.tensor(x), lt.tensor(w), None, stride, padding, 1, groups)
    _close(found, _convolution(x, w, stride, padding, groups), 1e-5)


def test_transposed_convolution_is_the_gradient_of_convolution() -> None:
    x = lt.tensor(_random(1, 3, 5, 5), requires_grad=True)
    w = lt.tensor(_random(2, 3, 3, 3, seed=1))
    y = F.conv2d(x, w, stride=2, padding=1)
    seed = lt.tensor(_random(*y.shape, seed=2))
    y.backward(seed)
    assert x.grad is not None
    _close(F.conv_transpose2d(seed, w, stride=2, padding=1), x.grad.tolist(), 1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolution_of_a_batch_may_have_an_empty_result(groups: int) -> None:
    x = lt.ones(2, 4, 2, 2, requires_grad=True)
    w = lt.ones(4, 3, 1, 2, requires_grad=True)
    b = lt.ones(3 * groups, requires_grad=True)
    y = F.conv_transpose2d(x, w, b, padding=1, groups=groups)
    assert y.shape == (2, 3 * groups, 0, 1)
    y.sum().backward()
    for operand in (x, w, b):
        assert operand.grad is not None and operand.grad.shape == operand.shape
        assert not operand.grad.any()
    for one in (x[:1], x[0], x.double()):  # PyTorch refuses these
        with pytest.raises(RuntimeError, match="Output size is too small"):
            F.conv_transpose2d(one, w.to(one.dtype), None, padding=1)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.conv_transpose2d(x, w, None, padding=2)


def test_pooling() -> None:
    x = lt.arange(16.0).reshape(1, 1, 4, 4)
    assert F.max_pool2d(x, 2).tolist() == [[[[5, 7], [13, 15]]]]
    assert F.avg_pool2d(x, 2).tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    edges = F.avg_pool2d(lt.ones(1, 1, 4, 4), 3, 2, 1, count_include_pad=False)
    assert edges.tolist() == [[[[1, 1], [1, 1]]]]
    assert F.max_pool2d(x, 2, return_indices=True)[1].tolist() == [[[[5, 7], [13, 15]]]]


def test_max_pooling_gives_ties_to_the_first() -> None:
    x = lt.zeros(1, 1, 2, 2, requires_grad=True)
    F.max_pool2d(x, 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[[[1, 0], [0, 0]]]]


def test_cross_entropy_forms_agree() -> None:
    logits, classes = lt.tensor(_random(4, 5)), lt.tensor([0, 3, 4, 1])
    each = F.cross_entropy(logits, classes, reduction="none")
    _close(F.cross_entropy(logits, classes), np.mean(each.tolist()))
    _close(F.cross_entropy(logits, F.one_hot(classes, 5).float()), np.mean(each.tolist()))
    _close(F.nll_loss(logits.log_softmax(1), classes), np.mean(each.tolist()))
    kept = F.cross_entropy(logits, classes, ignore_index=3)
    _close(kept, np.mean([each.tolist()[i] for i in (0, 2, 3)]))


def test_attention_is_its_definition() -> None:
    q, k, v = (lt.tensor(_random(2, 3, 4, seed=i)) for i in range(3))
    weights = lt.softmax(q @ k.transpose(1, 2) / 2, -1)
    _close(F.scaled_dot_product_attention(q, k, v), (weights @ v).tolist())
    causal = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    _close(causal[:, 0], v[:, 0].tolist())


def test_attention_with_a_mask_is_causal_too() -> None:
    q, k, v = (lt.tensor(_random(2, 2, 3, 4, seed=i)) for i in range(3))
    kept = lt.tensor([[True, True, True], [False, True, True], [True, False, True]])
    earlier = lt.ones(3, 3).tril().bool()
    added = k[0, 0, :, :3]
    for mask, both in (
        (kept, kept & earlier),
        (added, added.masked_fill(~earlier, float("-inf"))),
        (added[None, None], added.masked_fill(~earlier, float("-inf"))),
    ):
        got = F.scaled_dot_product_attention(q, k, v, mask, is_causal=True)
        _close(got, F.scaled_dot_product_attention(q, k, v, both).tolist())


def test_attention_says_which_sizes_do_not_fit() -> None:
    q, k, v = lt.ones(2, 3, 5, 24), lt.ones(2, 3, 7, 24), lt.ones(2, 3, 7, 24)
    for operands, words in (
        ((q, k[..., :23], v), r"query \[2, 3, 5, 24\] and key \[2, 3, 7, 23\]"),
        ((q, k, v[:, :, :6]), r"key \[2, 3, 7, 24\] and value \[2, 3, 6, 24\]"),
        ((q, k, v, lt.ones(5, 6)), r"attn_mask .* scores, \[2, 3, 5, 7\], but got \[5, 6\]"),
    ):
        with pytest.raises(lt.errors.ShapeError, match=words):
            F.scaled_dot_product_attention(*operands)


def test_a_mask_and_is_causal_are_refused_where_pytorch_refuses_them() -> None:
    q, mask = lt.ones(2, 2, 3, 4), lt.ones(3, 3)
    for operands, given, dropout in (
        ((q[0], q[0], q[0]), mask, 0.0),
        ((q, q, lt.ones(2, 2, 3, 6)), mask, 0.0),
        ((q[:1], q, q), mask, 0.0),
        ((q, q, q), mask[None], 0.0),
        ((q, q, q), lt.ones(3, 3, requires_grad=True), 0.0),
        ((q, q, q), mask, 0.5),
    ):
        with pytest.raises(RuntimeError, match="attn_mask should not be set"):
            F.scaled_dot_product_attention(*operands, given, dropout, is_causal=True)


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "ij,jk", "i,j->ij", "ij->ji", "ij->", "ii->i", "ij,ij,ij->i"]
)
def test_einsum(equation: str) -> None:
    terms = equation.split("->")[0].split(",")
    arrays = [_random(*(3,) * len(term), seed=i) for i, term in enumerate(terms)]
    _close(lt.einsum(equation, *map(lt.tensor, arrays)), np.einsum(equation, *arrays), 1e-5)


@pytest.mark.parametrize(
    ("a", "b"), [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((5, 1, 2, 3), (4, 3, 2)),
                 ((1, 2, 3), (4, 3, 2)), ((4, 2, 3), (3,))]
)  # fmt: skip
def test_matmul_broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = _random(*a), _random(*b, seed=1)
    _close(lt.tensor(x) @ lt.tensor(y), x @ y, 1e-5)


_ERRORS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "add": (lambda a, b: a + b, r"The size of tensor a \(3\) must match"),
    "mm": (lambda a, b: a @ a, r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)"),
    "cat": (lambda a, b: lt.cat([a, b]), "Expected size 3 but got size 4 for tensor number 1"),
    "stack": (lambda a, b: lt.stack([a, b]), "stack expects each tensor to be equal size"),
    "sum": (lambda a, b: a.sum(2), r"expected to be in range of \[-2, 1\], but got 2"),
    "max": (lambda a, b: lt.zeros(0).max(), "Expected reduction dim to be specified"),
    "mean": (lambda a, b: lt.arange(3).mean(), "could not infer output dtype"),
    "class": (lambda a, b: F.cross_entropy(a, lt.tensor([0, 3])), "Target 3 is out of bounds"),
    "embedding": (lambda a, b: F.embedding(lt.tensor([2]), a), "index out of range in self"),
    "dropout": (lambda a, b: F.dropout(a, 2.0), "has to be between 0 and 1, but got 2.0"),
}  # fmt: skip


@pytest.mark.parametrize("name", _ERRORS)
def test_errors_come_at_the_line(name: str) -> None:
    call, text = _ERRORS[name]
    with pytest.raises((RuntimeError, IndexError, ValueError), match=text):
        call(lt.zeros(2, 3), lt.zeros(2, 4))
