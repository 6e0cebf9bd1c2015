"""Complex numbers: values against NumPy, gradients against finite differences, views, files."""

import copy
import io
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.errors import DTypeError, LazytError, LinAlgError, NoKernelError
from lazyt.runtime.interpreter import interpret
from lazyt.serialization import safetensors

Z = np.array([[0.5 - 1.25j, -2.0 + 0.75j, 1.5 + 2.5j], [-0.25 - 0.5j, 3.0 - 1.0j, 0.125 + 0.25j]])
W = np.array([[1.0 + 1.0j, -0.5 + 2.0j, 0.25 - 0.75j], [2.0 - 0.5j, -1.5 - 1.5j, 0.5 + 0.5j]])
#: Where parts are zeros of either sign, infinite or not a number.
EDGES = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e300, -1e-300]

ANALYTIC: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "expm1": np.expm1,
    "square": np.square, "reciprocal": np.reciprocal, "neg": np.negative,
    "rsqrt": lambda z: 1 / np.sqrt(z), "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
}  # fmt: skip
OTHERS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "angle": np.angle, "conj": np.conj, "real": np.real, "imag": np.imag,
    "sgn": lambda z: z / np.abs(z),
}  # fmt: skip
PAIRS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
}  # fmt: skip


Function = Callable[..., Any]


def of(array: np.ndarray, requires_grad: bool = False) -> lazyt.Tensor:
    return lazyt.tensor(array, requires_grad=requires_grad)


def values(tensor: lazyt.Tensor) -> np.ndarray:
    return tensor.detach().resolve_conj().numpy()


@pytest.mark.parametrize("name", [*ANALYTIC, *OTHERS])
def test_a_function_of_one_number(name: str) -> None:
    function: Function = {**ANALYTIC, **OTHERS}[name]
    np.testing.assert_allclose(values(getattr(lazyt, name)(of(Z))), function(Z), 1e-13, 1e-14)
    single = getattr(lazyt, name)(of(Z.astype(np.complex64)))
    assert single.dtype in (lazyt.complex64, lazyt.float32)
    np.testing.assert_allclose(values(single), function(Z), 2e-6, 1e-6)
    assert lazyt.autograd.gradcheck(getattr(lazyt, name), of(Z, True))


@pytest.mark.parametrize("name", PAIRS)
def test_a_function_of_two_numbers(name: str) -> None:
    function = getattr(lazyt, name)
    np.testing.assert_allclose(values(function(of(Z), of(W))), PAIRS[name](Z, W), 1e-13)
    assert lazyt.autograd.gradcheck(function, (of(Z, True), of(W, True)))
    assert lazyt.autograd.gradcheck(function, (of(Z, True), of(abs(W.real) + 0.5, True)))
    assert function(of(Z.astype(np.complex64)), of(W.real.copy())).dtype is lazyt.complex128
    assert function(of(Z.real.astype(np.float32)), 1j).dtype is lazyt.complex64


@pytest.mark.parametrize(
    "name", ["exp", "log", "sqrt", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "acos"]
)
def test_special_values_are_those_of_c99(name: str) -> None:
    # Which part is NaN where one is differs between libraries, also in PyTorch.
    parts = np.array([complex(x, y) for x in EDGES for y in EDGES])
    with np.errstate(all="ignore"):
        wanted = ANALYTIC[name](parts)
    found = values(getattr(lazyt, name)(of(parts)))
    for z, a, b in zip(parts, found, wanted):
        for x, y in ((a.real, b.real), (a.imag, b.imag)):
            same = np.isnan(b.real) or np.isnan(b.imag)
            assert same or x == y or abs(x - y) <= 1e-12 * abs(y), (name, z, a, b)


#: What is left of a value when a part of the argument is no number, or has no direction (C99,
#: annex G): parts of arguments, and of what functions give; None is NaN, of zeros signs count too.
LEFT: list[tuple[str, complex, tuple[float | None, float | None]]] = [
    ("exp", complex(math.inf, math.inf), (math.inf, None)),
    ("exp", complex(math.inf, math.nan), (math.inf, None)),
    ("exp", complex(-math.inf, math.nan), (0.0, 0.0)),
    ("exp", complex(-2000.0, math.nan), (None, None)),
    ("cosh", complex(math.inf, math.inf), (math.inf, None)),
    ("cosh", complex(-math.inf, math.nan), (math.inf, None)),
    ("sinh", complex(math.inf, math.nan), (math.inf, None)),
    ("sinh", complex(0.0, 2.0), (-0.0, math.sin(2.0))),
    ("tanh", complex(0.0, math.inf), (0.0, None)),
    ("tanh", complex(-0.0, math.nan), (-0.0, None)),
    ("tanh", complex(1000.0, math.inf), (None, None)),
    ("tanh", complex(-math.inf, math.nan), (-1.0, 0.0)),
    ("sqrt", complex(0.0, math.nan), (None, None)),
    ("sqrt", complex(math.nan, 0.0), (None, None)),
    ("acos", complex(-0.0, math.nan), (math.pi / 2, None)),
    ("acos", complex(math.nan, 0.0), (None, None)),
    ("acosh", complex(0.0, math.nan), (None, math.pi / 2)),
    ("asin", complex(-0.0, math.nan), (-0.0, None)),
    ("asinh", complex(math.nan, 0.0), (None, 0.0)),
    ("asinh", complex(0.0, math.nan), (None, None)),
    ("atan", complex(math.nan, -0.0), (None, -0.0)),
    ("atanh", complex(-0.0, math.nan), (-0.0, None)),
    ("atanh", complex(math.inf, math.nan), (0.0, None)),
    ("atanh", complex(1.5, math.nan), (None, None)),
]


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_what_is_left_beside_parts_that_are_no_numbers(dtype: Any) -> None:
    for name, z, parts in LEFT:
        found = complex(values(getattr(lazyt, name)(of(np.array([z], dtype))))[0])
        for got, wanted in zip((found.real, found.imag), parts):
            if wanted is None:
                assert math.isnan(got), (name, z, found)
            else:
                near = abs(got - wanted) < 1e-6 if math.isfinite(wanted) else got == wanted
                assert near, (name, z, found)
                assert math.copysign(1, got) == math.copysign(1, wanted) or name == "tanh"


@pytest.mark.lazy
def test_the_parts_fuse_into_one_kernel() -> None:
    z = of(Z.astype(np.complex64)).realize()
    total = ((z * z.conj()).exp() + 1j * z).abs().sum()
    assert len(lazyt.explain(total).kernels) == 1
    wanted = np.abs(np.exp(Z * np.conj(Z)) + 1j * Z).sum()
    assert abs(total.item() - wanted) < 1e-4 * wanted


def test_the_interpreter_computes_what_kernels_compute() -> None:
    z, w = of(Z), of(W)
    root = (z @ w.mH).exp().prod() + (z / w).cumsum(1).sum()
    (wanted,) = interpret([root.node])
    np.testing.assert_allclose(values(root), wanted, 1e-12)


def test_reductions_and_products() -> None:
    z, w = of(Z, True), of(W, True)
    check = lazyt.autograd.gradcheck
    for mine, numpys in (
        (z.sum(), Z.sum()), (z.sum(0), Z.sum(0)), (z.mean(1), Z.mean(1)), (z.prod(), Z.prod()),
        (z.cumsum(1), Z.cumsum(1)), (z.cumprod(1), Z.cumprod(1)), (z.std(1), Z.std(1, ddof=1)),
        (z.var(), Z.var(ddof=1)), (z.norm(), np.linalg.norm(Z)), (z @ w.mT, Z @ W.T),
        (z @ w.mH, Z @ W.conj().T), (lazyt.vdot(z[0], w[0]), np.vdot(Z[0], W[0])),
        (lazyt.einsum("ij,kj->ik", z, w), Z @ W.T),
        (lazyt.linalg.vecdot(z, w), (Z.conj() * W).sum(1)),
        (z.logsumexp(1), np.log(np.exp(Z).sum(1))),
    ):  # fmt: skip
        np.testing.assert_allclose(values(mine), numpys, 1e-12)
    assert check(lambda a, b: (a @ b.mH, a.prod(1), a.cumprod(1), a.std(), a.norm()), (z, w))


def test_views_show_the_same_memory() -> None:
    z = of(Z)
    lazyt.view_as_real(z)[0, 0] = lazyt.tensor([7.0, 8.0], dtype=lazyt.float64)
    z.imag[1] = 0.0
    z.real[1].add_(1)
    z.conj()[0, 1] = 1 + 1j
    wanted = Z.copy()
    wanted[0, 0], wanted[1] = 7 + 8j, wanted[1].real + 1
    wanted[0, 1] = 1 - 1j
    np.testing.assert_array_equal(values(z), wanted)
    assert z.conj().is_conj() and not z.conj().conj().is_conj()
    assert z.mH.is_conj() and z.mH.shape == (3, 2) and z.conj()._is_view()
    np.testing.assert_array_equal(values(lazyt.view_as_complex(lazyt.view_as_real(z))), wanted)
    with pytest.raises(LazytError, match="conjugate bit"):
        z.conj().numpy()
    shared = z.numpy()
    shared[0, 2] = 5j
    assert z[0, 2].item() == 5j


def test_gradients_pass_through_views_and_writes() -> None:
    def function(z: lazyt.Tensor) -> lazyt.Tensor:
        y = z.clone()
        y.imag.mul_(2)
        y.real[0] = y.imag[1]
        return (y.conj() * z[:, :1]).sum(0)

    assert lazyt.autograd.gradcheck(function, of(Z, True))
    assert lazyt.autograd.gradgradcheck(lambda z: (z * z.conj()).real * z.abs(), of(Z, True))


def test_matrices() -> None:
    square = Z @ W.conj().T
    definite = square @ square.conj().T + np.eye(2)
    wide = Z.T @ W
    a, h, b = of(square, True), of(definite), of(wide, True)
    linalg, numpys, check = lazyt.linalg, np.linalg, lazyt.autograd.gradcheck
    for mine, wanted in (
        (linalg.inv(a), numpys.inv(square)), (linalg.det(a), numpys.det(square)),
        (linalg.solve(a, of(Z)), numpys.solve(square, Z)), (linalg.pinv(b), numpys.pinv(wide)),
        (linalg.cholesky(h), numpys.cholesky(definite)), (linalg.svdvals(b), numpys.svd(wide)[1]),
        (linalg.eigvalsh(h), numpys.eigvalsh(definite)), (linalg.qr(a)[1], numpys.qr(square)[1]),
        (linalg.slogdet(a)[0], numpys.slogdet(square)[0]),
        (linalg.norm(b, 2), numpys.norm(wide, 2)),
        (linalg.matrix_rank(b), 2), (linalg.lstsq(b, of(Z.T))[0], numpys.pinv(wide) @ Z.T),
    ):  # fmt: skip
        np.testing.assert_allclose(values(mine), wanted, 1e-9, 1e-11)
    assert check(linalg.det, (a,))
    assert check(lambda m: (linalg.inv(m), linalg.slogdet(m)[1], *linalg.qr(m)), (a,))
    assert check(lambda m: (linalg.matrix_exp(m * 0.1), linalg.svdvals(m), linalg.pinv(m)), (a,))
    assert check(lambda m: linalg.cholesky(m @ m.mH + h), (a,))


def test_singular_vectors_and_eigenvectors() -> None:
    rows = of(Z.T.copy(), True)
    u, s, vh = lazyt.linalg.svd(rows, full_matrices=False)
    np.testing.assert_allclose(values(u * s @ vh), Z.T, 1e-12, 1e-12)
    square = of(Z @ W.T, True)
    found, vectors = lazyt.linalg.eig(square)
    np.testing.assert_allclose(values(square @ vectors), values(vectors * found), 1e-10, 1e-10)

    def without_direction(z: lazyt.Tensor) -> tuple[lazyt.Tensor, ...]:
        u, s, vh = lazyt.linalg.svd(z, full_matrices=False)
        return s, u.abs(), vh.abs(), u[:, :1] @ vh[:1]

    assert lazyt.autograd.gradcheck(without_direction, rows)
    assert lazyt.autograd.gradcheck(lambda z: lazyt.linalg.eig(z)[1].abs(), square)
    assert lazyt.autograd.gradcheck(lambda z: lazyt.linalg.eigvals(z), square)
    assert lazyt.autograd.gradcheck(lambda z: lazyt.linalg.eigh(z + z.mH)[1].abs(), square)
    with pytest.raises(LinAlgError, match="positive-definite"):
        lazyt.linalg.cholesky(-lazyt.eye(2, dtype=lazyt.complex128))
    with pytest.raises(LazytError, match="should not contain infs or NaNs"):
        lazyt.linalg.eig(lazyt.tensor([[math.inf]]))


def test_real_matrices_have_complex_eigenvalues() -> None:
    turn = lazyt.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=lazyt.float64, requires_grad=True)
    found = lazyt.linalg.eigvals(turn)
    assert sorted(found.tolist(), key=lambda z: z.imag) == [-1j, 1j]
    (slope,) = lazyt.autograd.grad(found.imag.abs().sum(), turn)
    assert slope is not None
    np.testing.assert_allclose(slope.numpy(), [[0, -1], [1, 0]], atol=1e-12)


def test_files_and_exchange() -> None:
    z = of(Z)
    memory = io.BytesIO()
    lazyt.save({"a": z, "c": z.conj()}, memory)
    memory.seek(0)
    back = lazyt.load(memory)
    np.testing.assert_array_equal(values(back["a"]), Z)
    assert back["c"].is_conj() and values(back["c"])[0, 0] == Z[0, 0].conj()
    np.testing.assert_array_equal(np.from_dlpack(z), Z)
    np.testing.assert_array_equal(values(lazyt.from_dlpack(Z)), Z)
    single = of(Z.astype(np.complex64))
    np.testing.assert_array_equal(values(safetensors.load(safetensors.save({"z": single}))["z"]), Z)
    with pytest.raises(DTypeError, match="view_as_real"):
        safetensors.save({"z": z})
    for copied in (pickle.loads(pickle.dumps(z)), copy.deepcopy(z)):
        np.testing.assert_array_equal(values(copied), Z)


def test_how_they_print() -> None:
    assert repr(lazyt.tensor([1 + 2j, -0.5])) == "tensor([ 1.0000+2.j, -0.5000+0.j])"
    assert repr(of(Z)[0, 0]) == "tensor(0.5000-1.2500j, dtype=lazyt.complex128)"
    assert complex(of(Z)[0, 0]) == Z[0, 0] and of(Z).tolist() == Z.tolist()


@pytest.mark.parametrize("name", ["lt", "maximum", "floor", "erf"])
def test_what_has_no_meaning_is_refused(name: str) -> None:
    with pytest.raises(NoKernelError, match="not implemented for 'Complex"):
        function = getattr(lazyt, name)
        function(of(Z)) if name in ("floor", "erf") else function(of(Z), of(Z))
    with pytest.raises(LazytError, match="In-place abs"):
        of(Z).abs_()


def test_random_numbers() -> None:
    lazyt.manual_seed(0)
    z = lazyt.randn(20000, dtype=lazyt.complex64)
    assert abs(z.abs().square().mean().item() - 1) < 0.03 and abs(z.mean().item()) < 0.03
    u = lazyt.rand(20000, dtype=lazyt.complex128)
    assert abs(u.mean().item() - (0.5 + 0.5j)) < 0.01


def test_modules_learn() -> None:
    lazyt.manual_seed(1)
    layer = lazyt.nn.Linear(3, 2, dtype=lazyt.complex64)
    optimizer = lazyt.optim.SGD(layer.parameters(), lr=0.05, momentum=0.9)
    z, goal = of(Z.astype(np.complex64)), of(W[:, :2].astype(np.complex64))

    @lazyt.jit
    def loss() -> lazyt.Tensor:
        found: lazyt.Tensor = (layer(z) - goal).abs().square().mean()
        return found

    first = loss().item()
    for _ in range(60):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert loss().item() < 0.1 * first


def test_captured_and_compiled_functions() -> None:
    function = lazyt.compile(lambda z, k: (z * k).exp().real.sum())
    for k in (1, 2j, 0.5):
        np.testing.assert_allclose(function(of(Z), k).item(), np.exp(Z * k).real.sum(), 1e-12)
    found = lazyt.func.vmap(lambda row: (row * row.conj()).real.sum())(of(Z))
    np.testing.assert_allclose(found.numpy(), (Z * Z.conj()).real.sum(1), 1e-14)
    _, moved = lazyt.func.jvp(lambda z: z * z.conj(), (of(Z),), (of(W),))
    np.testing.assert_allclose(values(moved), Z * W.conj() + W * Z.conj(), 1e-14)


def test_joining_real_views_gives_real_numbers() -> None:
    z = lazyt.tensor([1 + 2j, 3 - 1j])
    pairs = lazyt.view_as_real(z)
    for found, wanted in (
        (lazyt.cat([pairs]), [[1, 2], [3, -1]]),
        (lazyt.cat([z.real, z.imag]), [1, 3, 2, -1]),
        (lazyt.stack([z.real, z.imag]), [[1, 3], [2, -1]]),
        (lazyt.hstack([z.imag, lazyt.ones(1)]), [2, -1, 1]),
        (lazyt.where(lazyt.tensor([True, False]), z.real, z.imag), [1, -1]),
        (lazyt.maximum(z.real, z.imag), [2, 3]),
        (z.real + z.imag, [3, 2]),
        (lazyt.lerp(z.real, z.imag, 0.5), [1.5, 1.0]),
    ):
        assert found.dtype is lazyt.float32
        assert found.tolist() == wanted
