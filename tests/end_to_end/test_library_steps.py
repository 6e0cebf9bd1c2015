"""Library calls inside of compiled programs: steps, laziness, memory that is shared or kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import linalg, ops
from lazyt.errors import LazinessError
from lazyt.ops import routines
from lazyt.ops.routines import Routine
from lazyt.runtime import events


class Chance:
    """Where random values come from; begun anew for each test."""

    generator = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def same_chance() -> None:
    """The values of a test do not depend on which tests ran before."""
    Chance.generator = np.random.default_rng(5)


def random(*shape: int) -> lazyt.Tensor:
    return lazyt.tensor(Chance.generator.standard_normal(shape))


def positive(n: int) -> lazyt.Tensor:
    x = random(n, n)
    made: lazyt.Tensor = (x @ x.mT + lazyt.eye(n, dtype=lazyt.float64)).realize()
    return made


@pytest.fixture
def by_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has a kernel, as what is complex or larger has none."""
    monkeypatch.setattr(routines, "is_kernel", lambda *given: False)


@pytest.fixture
def calls(by_library: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The routines that ran, in order."""
    seen: list[str] = []

    def watched(name: str, routine: Routine) -> Routine:
        def run(mode: str, *arrays: Any) -> Any:
            seen.append(name)
            return routine.run(mode, *arrays)

        return routine._replace(run=run)

    for name, routine in list(routines.ROUTINES.items()):
        monkeypatch.setitem(routines.ROUTINES, name, watched(name, routine))
    yield seen


@pytest.mark.lazy
def test_calls_at_several_depths_run_once_each(calls: list[str]) -> None:
    a = positive(40)
    first = linalg.inv_ex(a)[0]
    second = linalg.inv_ex(first * 2 + a)[0]
    third = linalg.cholesky_ex(second @ second.mT)[0]
    total = (third.sum() + first.sum()).exp()
    x = a.numpy()
    i = np.linalg.inv(x)
    j = np.linalg.inv(2 * i + x)
    expected = np.exp(np.linalg.cholesky(j @ j.T).sum() + i.sum())
    assert not calls
    np.testing.assert_allclose(total.item(), expected, rtol=1e-10)
    assert calls == ["inv", "inv", "cholesky"]
    np.testing.assert_allclose(first.numpy(), i, rtol=1e-10)
    np.testing.assert_allclose(second.numpy(), j, rtol=1e-10)
    assert len(calls) == 3  # what was computed on the way was kept


@pytest.mark.lazy
def test_a_product_before_and_after_a_call_is_computed_once(by_library: None) -> None:
    x = random(40, 40)
    square = x @ x.mT
    inverse = linalg.inv_ex(square + lazyt.eye(40, dtype=lazyt.float64))[0]
    report = lazyt.explain((inverse @ square).sum())
    kinds = [k.kind for k in report.kernels]
    assert kinds.count("library") == 1 and kinds.count("contract") == 2
    assert kinds.index("contract") < kinds.index("library") < len(kinds) - 1
    assert "1 library call" in str(report)
    found = (inverse @ square).sum().item()
    y = x.numpy() @ x.numpy().T
    np.testing.assert_allclose(found, (np.linalg.inv(y + np.eye(40)) @ y).sum(), rtol=1e-9)


@pytest.mark.lazy
def test_explaining_computes_nothing(calls: list[str]) -> None:
    result = linalg.inv_ex(linalg.inv_ex(positive(40))[0])[0]
    assert [k.kind for k in lazyt.explain(result).kernels].count("library") == 2
    assert not calls


def test_a_loop_with_calls_compiles_once() -> None:
    def step(scale: float) -> float:
        a = positive(5) * scale
        return float(linalg.solve_ex(a, lazyt.ones(5, 1, dtype=lazyt.float64))[0].sum().item())

    step(1.0), step(1.5), step(1.75)
    before = len(events.recorded("compile")) + len(events.recorded("load"))
    for scale in (2.0, 2.5, 3.0):
        step(scale)
    assert len(events.recorded("compile")) + len(events.recorded("load")) == before


def test_checked_functions_look_and_unchecked_ones_do_not() -> None:
    a = positive(3)
    lazyt.config.strict_laziness = True
    try:
        assert linalg.inv_ex(a)[0].shape == (3, 3)
        assert linalg.cholesky_ex(a)[0].shape == (3, 3)
        assert a.det().shape == ()
        with pytest.raises(LazinessError):
            linalg.inv(a)
    finally:
        lazyt.config.strict_laziness = False
    linalg.inv(a + 1)
    assert any("linalg.inv checks its result" in str(e) for e in events.recorded("realize"))


def test_singular_matrices_raise_at_the_call() -> None:
    with pytest.raises(linalg.LinAlgError, match="diagonal element 1 is zero"):
        linalg.inv(lazyt.zeros(2, 2))
    with pytest.raises(RuntimeError, match=r"Batch element 1.*singular"):
        linalg.solve(lazyt.stack([lazyt.eye(2), lazyt.ones(2, 2)]), lazyt.ones(2, 2, 1))
    with pytest.raises(linalg.LinAlgError, match="leading minor of order 2"):
        linalg.cholesky(lazyt.tensor([[1.0, 0.0], [0.0, -1.0]]))


def test_operands_are_left_alone_and_results_may_be_written() -> None:
    a = positive(4)
    kept = a.numpy().copy()
    for result in (*linalg.lu_factor(a)[:1], linalg.inv(a), *linalg.qr(a), *linalg.svd(a)):
        result.mul_(3)
        result.realize()
    np.testing.assert_array_equal(a.numpy(), kept)
    inverse = linalg.inv(a)
    again = inverse.clone()
    inverse.fill_(0)
    np.testing.assert_allclose(again.numpy(), np.linalg.inv(kept), rtol=1e-10)


def test_views_shared_memory_and_odd_layouts_are_read_as_they_are() -> None:
    base = Chance.generator.standard_normal((6, 6))
    shared = lazyt.from_numpy(base)
    view = shared[::2, ::2].mT
    np.testing.assert_allclose(linalg.inv(view).numpy(), np.linalg.inv(base[::2, ::2].T))
    base *= 2
    np.testing.assert_allclose(linalg.inv(view).numpy(), np.linalg.inv(base[::2, ::2].T))


def test_every_float_width_and_the_interpreter_agree() -> None:
    a = positive(5)
    for dtype, tolerance in ((lazyt.float32, 1e-4), (lazyt.float64, 1e-11)):
        x = a.to(dtype)
        compiled = (linalg.solve(x, x @ x) - x).abs().max().item()
        assert compiled < tolerance * 10
        assert linalg.svdvals(x).dtype is dtype
    lazyt.config.interpret = True
    try:
        found = linalg.eigvalsh(a * 1.5).numpy()
    finally:
        lazyt.config.interpret = False
    np.testing.assert_allclose(linalg.eigvalsh(a * 1.5).numpy(), found, rtol=1e-12)


def test_training_through_a_decomposition_descends() -> None:
    x = random(4, 3).requires_grad_()
    target = lazyt.tensor([3.0, 2.0, 1.0], dtype=lazyt.float64)
    losses = []
    for _ in range(12):
        loss = ((linalg.svdvals(x) - target) ** 2).sum()
        loss.backward()
        with lazyt.no_grad():
            assert x.grad is not None
            x -= 0.2 * x.grad
        x.grad = None
        losses.append(loss.item())
    assert losses[-1] < 0.02 * losses[0]


@pytest.mark.lazy
def test_pairwise_distances_are_one_kernel() -> None:
    x, y = random(40, 6).float().realize(), random(50, 6).float().realize()
    report = lazyt.explain(lazyt.cdist(x, y))
    assert len(report.kernels) == 1
    gaps = x.numpy()[:, None] - y.numpy()[None]
    np.testing.assert_allclose(
        lazyt.cdist(x, y).numpy(), np.sqrt((gaps.astype(float) ** 2).sum(-1)), rtol=1e-5
    )


def test_blocks_of_elimination_fit_together() -> None:
    a = random(150, 130)
    p, low, high = linalg.lu(a)
    np.testing.assert_allclose((p @ low @ high).numpy(), a.numpy(), atol=1e-11)
    square = random(140, 140)
    right = random(140, 3)
    packed, pivots = linalg.lu_factor(square)
    x = linalg.lu_solve(packed, pivots, right)
    np.testing.assert_allclose((square @ x).numpy(), right.numpy(), atol=1e-9)
    y = linalg.solve_triangular(square, right, upper=False)
    np.testing.assert_allclose((square.tril() @ y / y.abs().max()).numpy(),
                               (right / y.abs().max()).numpy(), atol=1e-9)  # fmt: skip


def test_graph_text_names_the_routine() -> None:
    from lazyt.ir.printer import print_graph

    (node,) = ops.library("exp", ops.input_((2, 2), lazyt.float64))
    assert "library(%0) {routine=exp, mode=plain}" in print_graph([node])


@pytest.mark.lazy
def test_a_captured_function_runs_plans_around_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    @lazyt.jit
    def flow(x: lazyt.Tensor, empty: lazyt.Tensor) -> tuple[lazyt.Tensor, ...]:
        first = linalg.matrix_exp(x * 0.5)
        second = linalg.matrix_exp(first.mT - x)
        values = linalg.matrix_exp(x.float()).double()
        inverse = linalg.inv_ex(second.to(lazyt.complex128)).inverse
        return first + second @ values, linalg.matrix_exp(empty), inverse.real

    empty = lazyt.zeros(0, 2, 2, dtype=lazyt.float64)
    for _ in range(3):
        lazyt.realize(*flow(random(3, 3), empty))

    def built(*given: Any) -> Any:
        raise AssertionError("the graph was built again")

    x = random(3, 3)
    wanted = [value.numpy() for value in flow.function(x, empty)]
    with monkeypatch.context() as patch:
        patch.setattr("lazyt.plan.steps.run_calls", built)
        timings: list[events.Timing] = []
        patch.setattr(events, "watching", [timings])
        found = [value.numpy() for value in flow(x, empty)]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    names = [timing.note["name"] for timing in timings if timing.note["kind"] == "library"]
    assert names.count("exp") == 3 and names.count("inv") == 1
    with lazyt.config.override(exact=True), pytest.raises(lazyt.errors.ReproducibilityError):
        lazyt.realize(*flow(x, empty))


def test_a_captured_call_that_writes_leaves_what_it_read(by_library: None) -> None:
    state = positive(3)

    @lazyt.jit
    def step(x: lazyt.Tensor) -> lazyt.Tensor:
        state.copy_(linalg.inv(state + x))
        return state.sum()

    other = state.clone().realize()
    for _ in range(5):
        x = positive(3)
        other = linalg.inv(other + x)
        assert step(x).item() == other.sum().item()


def test_the_gradient_of_a_determinant_calls_no_library_for_regular_matrices() -> None:
    stack = lazyt.stack([positive(4), random(4, 4), lazyt.zeros(4, 4, dtype=lazyt.float64)])
    stack[2, :3, :3] = positive(3)
    singular = stack.detach().requires_grad_()
    (found,) = lazyt.autograd.grad(linalg.det(singular).sum(), singular)
    assert found is not None
    wide = stack.numpy()
    for number in range(2):
        want = np.linalg.det(wide[number]) * np.linalg.inv(wide[number]).T
        np.testing.assert_allclose(found[number].numpy(), want, rtol=1e-9, atol=1e-12)
    corner = np.zeros((4, 4))
    corner[3, 3] = np.linalg.det(wide[2, :3, :3])
    np.testing.assert_allclose(found[2].numpy(), corner, rtol=1e-9, atol=1e-9)
