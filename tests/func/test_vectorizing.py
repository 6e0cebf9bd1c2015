"""vmap against loops over the examples: every sampled function, its gradients and tangents."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyt
from lazyt.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from tests.functional.sample_values import Operands, call
from tests.functional.samples import Sample, all_samples, has, owner_of, tensors_in

_LOOKS = "its result's shape, or its bins, depend on values"
#: Functions that vmap refuses, as PyTorch does, and why.
REFUSED = {
    "argwhere": _LOOKS, "nonzero": _LOOKS, "unique": _LOOKS, "unique_consecutive": _LOOKS,
    "histc": _LOOKS, "histogram": _LOOKS, "histogramdd": _LOOKS, "where": _LOOKS,
    "masked_select": _LOOKS,
    "requires_grad_": "leaves are made outside of transforms",
}  # fmt: skip
#: Functions whose forward and reverse derivatives differ on purpose.
NOT_TRANSPOSED = {"eigh": "it reads one triangle; the gradient is spread over both"}


def outputs(sample: Sample, leaves: dict[str, Any] | None = None) -> tuple[list[Any], Operands]:
    """The tensors that a sample call gives with these operands, and all operands."""
    changes = sample.name.endswith("_")
    names = Operands(lazyt, "float64", False, lazyt.clone if changes else None)
    for key, value in (leaves or {}).items():
        names[key] = value.clone() if changes else value
    function = getattr(owner_of(lazyt, sample.place), sample.name)
    return tensors_in(lazyt, call(function, sample.text, names)), names


def working(gradients: bool) -> Iterator[tuple[Sample, dict[str, Any]]]:
    """Samples with a tensor as operand and as result, with their operands.

    For gradients, the first of every name: forms of one function share its rules.
    """
    seen: set[str] = set()
    for sample in all_samples():
        if sample.place == "nn" or not has(lazyt, sample) or sample.random:
            continue
        if "sparse" in sample.text + sample.name:  # transforms take none, and tests/sparse says so
            continue
        if gradients and (sample.name.endswith("_") or sample.name in seen):
            continue
        seen.add(sample.name)
        try:
            found, names = outputs(sample)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            continue
        if found and names.leaves:
            yield sample, dict(names.leaves)


def varied(leaf: Any) -> Any:
    """Two examples: a leaf, and another with values in the same range."""
    if leaf.is_floating_point():
        return lazyt.stack([leaf, leaf * 1.01])
    return lazyt.stack([leaf, leaf.flip(0) if leaf.ndim else leaf])


def close(one: Any, other: Any, tolerance: float = 1e-9) -> bool:
    """Whether two tensors have the same shape, dtype and values."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    found = lazyt.isclose(
        one.double(), other.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    )
    return bool(found.all())


def collect(check: Callable[[Sample, dict[str, Any]], str | None], gradients: bool) -> list[str]:
    """What the check says of the samples."""
    found = []
    with warnings.catch_warnings(), lazyt.config.override(interpret=True):
        warnings.simplefilter("ignore")
        for sample, leaves in working(gradients):
            text = check(sample, leaves)
            if text is not None:
                found.append(f"{sample}: {text}")
    return found


def _loop(sample: Sample, leaves: dict[str, Any]) -> str | None:
    many = {key: varied(leaf) for key, leaf in leaves.items()}
    try:
        loop = [outputs(sample, {k: v[i] for k, v in many.items()})[0] for i in range(2)]
        wanted = [lazyt.stack(list(pair)) for pair in zip(*loop, strict=True)]
    except (RuntimeError, ValueError):
        return None  # the other values do not suit the function, or its shape depends on them
    refused = sample.name in REFUSED and (sample.name != "where" or "," not in sample.text)
    if refused:
        with pytest.raises(RuntimeError, match=r"vmap: |functorch"):
            vmap(lambda d: tuple(outputs(sample, d)[0]))(many)
        return None
    found = vmap(lambda d: tuple(outputs(sample, d)[0]), randomness="same")(many)
    return None if all(map(lambda a, b: close(a, b), found, wanted)) else "differs from the loop"


def test_vmap_of_every_function_is_a_loop() -> None:
    assert not collect(_loop, False)


def _loss(sample: Sample, leaves: dict[str, Any]) -> Any:
    total = lazyt.zeros((), dtype=lazyt.float64)
    for tensor in outputs(sample, leaves)[0]:
        if tensor.dtype is lazyt.float64:
            weights = lazyt.arange(tensor.numel(), dtype=tensor.dtype) % 7 - 2.5
            total = total + (weights.reshape(tensor.shape) * tensor).sum()
    return total


def _derivatives(sample: Sample, leaves: dict[str, Any]) -> str | None:
    moving = {k: v for k, v in leaves.items() if v.dtype is lazyt.float64}
    rest = {k: v for k, v in leaves.items() if k not in moving}
    if not moving:
        return None

    def loss(d: dict[str, Any]) -> Any:
        return _loss(sample, {**rest, **d})

    try:
        own = {k: v.clone().requires_grad_() for k, v in moving.items()}
        wanted = lazyt.autograd.grad(loss(own), list(own.values()), materialize_grads=True)
    except (RuntimeError, NotImplementedError):
        return None  # there is no gradient
    found = grad(loss)(moving)
    if not all(map(lambda a, b: close(a, b), found.values(), wanted)):
        return "func.grad is not autograd's"
    tangents = {
        k: (lazyt.arange(v.numel(), dtype=v.dtype) * 0.37).cos().reshape(v.shape)
        for k, v in moving.items()
    }
    many = {k: varied(v) for k, v in moving.items()}
    inside = vmap(grad(loss), randomness="same")(many)
    outside = grad(lambda m: vmap(loss, randomness="same")(m).sum())(many)
    for index in range(2):
        single = grad(loss)({k: v[index] for k, v in many.items()})
        for key, value in single.items():
            if not close(inside[key][index], value):
                return "vmap of grad is not a loop"
            if not close(outside[key][index], value):
                return "grad of vmap is not a loop"
    if sample.name in NOT_TRANSPOSED or (sample.name, sample.text) == ("svd", "x"):
        return None  # svd: the extra vectors of a full basis have no derivative
    _, moved = jvp(loss, (moving,), (tangents,))
    product = sum((tangents[k] * found[k]).sum() for k in moving)
    return None if close(moved, product, 1e-7) else "jvp is not the transpose of vjp"


def test_derivatives_of_every_function_agree() -> None:
    assert not collect(_derivatives, True)


def _net(w: Any) -> Any:
    x = lazyt.linspace(-1, 1, 6, dtype=lazyt.float64).reshape(2, 3)
    return (x @ w[:6].reshape(3, 2)).tanh() @ w[6:8] + w[8]


def test_jacobians_agree_with_each_other_and_with_differences() -> None:
    w = (lazyt.arange(9, dtype=lazyt.float64) * 0.7).sin()
    reverse, forward = jacrev(_net)(w), jacfwd(_net)(w)
    steps = lazyt.eye(9, dtype=lazyt.float64) * 1e-6
    slopes = (vmap(_net)(w + steps) - vmap(_net)(w - steps)).t() / 2e-6
    assert close(reverse, forward) and close(reverse, slopes, 1e-6)
    loss = lambda v: (_net(v) ** 2).sum()  # noqa: E731
    second = hessian(loss)(w)
    gradients = (vmap(grad(loss))(w + steps) - vmap(grad(loss))(w - steps)).t() / 2e-6
    assert close(second, second.t(), 1e-9) and close(second, gradients, 1e-6)
    assert close(second, jacrev(jacrev(loss))(w)) and close(second, jacrev(jacfwd(loss))(w))
    assert close(second, jacfwd(jacfwd(loss))(w))


def test_any_depth() -> None:
    f: Callable[..., Any] = lazyt.sin
    later: list[Callable[..., Any]] = [
        lazyt.cos, lambda t: -lazyt.sin(t), lambda t: -lazyt.cos(t), lazyt.sin
    ]  # fmt: skip
    for wanted in later:
        f = grad(f)
        x = lazyt.tensor([0.3, 0.7], dtype=lazyt.float64)
        assert close(vmap(f)(x), wanted(x))


def test_per_sample_gradients_of_a_model_equal_the_loop() -> None:
    lazyt.manual_seed(0)
    model = lazyt.nn.Sequential(lazyt.nn.Linear(4, 5), lazyt.nn.Tanh(), lazyt.nn.Linear(5, 3))
    x, y = lazyt.randn(6, 4), lazyt.tensor([0, 1, 2, 0, 1, 2])
    parameters = {k: v.detach() for k, v in model.named_parameters()}

    def loss(p: Any, a: Any, b: Any) -> Any:
        out = lazyt.func.functional_call(model, p, (a[None],))
        return lazyt.nn.functional.cross_entropy(out, b[None])

    many = vmap(grad(loss), (None, 0, 0))(parameters, x, y)
    for index in range(6):
        model.zero_grad()
        lazyt.nn.functional.cross_entropy(model(x[index : index + 1]), y[index : index + 1]).backward()  # noqa: E501  # fmt: skip
        for key, parameter in model.named_parameters():
            assert close(many[key][index], parameter.grad, 1e-5), key


@pytest.mark.lazy
def test_transforms_work_inside_of_jit_and_around_it() -> None:
    w = lazyt.linspace(0.1, 1, 3)

    @lazyt.jit
    def step(x: Any) -> Any:
        return vmap(grad(lambda v: (v * w).sin().sum()))(x)

    @lazyt.jit
    def inner(v: Any) -> Any:
        return (v * w).sin().sum()

    for scale in (1.0, 2.0, 3.0, 4.0):
        x = lazyt.arange(6.0).reshape(2, 3) * scale
        wanted = (x * w).cos() * w
        assert close(step(x), wanted, 1e-5)
        assert close(vmap(grad(inner))(x), wanted, 1e-5)
    assert any("captured" in reason and "not" not in reason for reason in step.why()), step.why()


def test_random_numbers() -> None:
    x = lazyt.zeros(3, 2)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda v: v + lazyt.rand(2))(x)
    same = vmap(lambda v: v + lazyt.rand(2), randomness="same")(x)
    different = vmap(lambda v: v + lazyt.rand(2), randomness="different")(x)
    nested = vmap(vmap(lambda v: v + lazyt.rand(()), randomness="different"),
                  randomness="different")(x)  # fmt: skip
    assert bool((same == same[0]).all())
    assert len(set(different.reshape(-1).tolist())) == 6
    assert len(set(nested.reshape(-1).tolist())) == 6


def test_writes_into_what_the_function_made_are_right() -> None:
    def f(v: Any) -> Any:
        found = lazyt.zeros(3)
        found[0] = v.sum()
        found[1:] += v
        return found

    x = lazyt.arange(6.0).reshape(3, 2)
    wanted = lazyt.stack([f(row) for row in x])
    assert close(vmap(f)(x), wanted)
    assert close(vmap(jacrev(f))(x), lazyt.stack([jacfwd(f)(row) for row in x]))


def test_a_refused_write_leaves_the_tensor_as_it_was() -> None:
    outside = lazyt.zeros(2)
    for transform in (vmap, lambda g: grad(lambda v: g(v).sum())):
        with pytest.raises(RuntimeError, match=r"vmap: inplace|captured Tensor"):
            transform(lambda v: outside.copy_(v) * 1)(lazyt.ones(3, 2) if transform is vmap else lazyt.ones(2))  # noqa: E501  # fmt: skip
        assert outside.tolist() == [0, 0] and not outside.requires_grad


def test_hooks_and_checkpoints_inside_of_transforms() -> None:
    seen = []

    def doubled(g: Any) -> Any:
        seen.append(1)
        return g * 2

    def f(v: Any) -> Any:
        y = v * 3
        y.register_hook(doubled)
        return (y**2).sum()

    x = lazyt.arange(4.0)
    assert close(grad(f)(x), 2 * 18 * x, 1e-6) and seen
    rows = lazyt.arange(6.0).reshape(2, 3)
    assert close(vmap(grad(f))(rows), 36 * rows, 1e-6)
    checkpoint = lazyt.utils.checkpoint.checkpoint
    g = lambda v: checkpoint(lambda t: t.sin() * t, v, use_reentrant=False).sum()  # noqa: E731
    plain = lambda v: (v.sin() * v).sum()  # noqa: E731
    assert close(vmap(grad(g))(rows), vmap(grad(plain))(rows), 1e-6)
    assert close(jacrev(grad(g))(x), hessian(plain)(x), 1e-5)
