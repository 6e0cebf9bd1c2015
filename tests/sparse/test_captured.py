"""Captured functions that are given, find or return sparse tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import lazyt as lt
from lazyt import Tensor

pytestmark = pytest.mark.lazy


def graph(seed: int, count: int = 12) -> Tensor:
    """A coalesced matrix of 6 rows and 5 columns; the same indices for the same count."""
    lt.manual_seed(count)
    places = lt.stack([lt.randint(0, 6, (count,)), lt.randint(0, 5, (count,))])
    lt.manual_seed(seed)
    made: Tensor = lt.sparse_coo_tensor(places, lt.randn(count), (6, 5)).coalesce()
    return made


def batches() -> list[Tensor]:
    lt.manual_seed(1)
    return [lt.randn(5, 2) for _ in range(6)]


def agree(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[str]:
    """What a captured function says after these calls, whose results have the same bits."""
    captured = lt.jit(function)
    for given in calls:
        got, want = captured(*given), function(*given)
        assert type(got) is type(want) and got.layout is want.layout
        assert lt.equal(got.to_dense(), want.to_dense())
    found: list[str] = captured.why()
    return found


def test_arguments_are_their_members() -> None:
    x = batches()
    coo = [(graph(seed), x[seed]) for seed in range(6)]
    csr = [(s.to_sparse_csr(), b) for s, b in coo]
    for calls in (coo, csr, [(s.t(), b.new_ones(6, 3)) for s, b in coo]):
        why = agree(lambda s, b: (s @ b).relu() * 2, calls)
        assert why.count("captured") <= 2 and why[-1] == "captured", why
    assert agree(lambda s, b: (s @ b).relu() * 2, [(csr[0][0], b) for b in x]) == ["captured"]


def test_another_size_is_captured_again() -> None:
    calls = [(graph(n, 12 if n % 3 else 9), b) for n, b in enumerate(batches())]
    why = agree(lambda s, b: s @ b, calls)
    assert any("its shape is" in reason for reason in why)


def test_what_functions_find_in_python() -> None:
    s = graph(0)
    assert agree(lambda b: (s @ b).square(), [(b,) for b in batches()]) == ["captured"]
    held = {"s": [graph(1).to_sparse_csr()]}
    captured = lt.jit(lambda b: held["s"][0] @ b)
    for number, b in enumerate(batches()):
        if number == 4:
            held["s"][0] = graph(2).to_sparse_csr()
        assert lt.equal(captured(b), held["s"][0] @ b)
    assert any("object" in reason or "held" in reason for reason in captured.why())


def test_results_are_sparse() -> None:
    s, c = graph(0), graph(1).to_sparse_csr()
    scaled = [(lt.tensor(float(n)),) for n in range(5)]
    for function in (lambda f: s * f, lambda f: c * f, lambda f: (s * f).to_sparse_csc()):
        assert agree(function, scaled)[-1] == "captured"
    given = [(graph(n),) for n in range(6)]
    assert agree(lambda a: a, given)[-1] == "captured"
    both = lt.jit(lambda a, b: {"s": a * 2, "dense": a @ b})
    for n, b in enumerate(batches()):
        a = graph(n)
        found = both(a, b)
        assert lt.equal(found["s"].to_dense(), (a * 2).to_dense()) and found["s"].is_coalesced()
        assert lt.equal(found["dense"], a @ b)
    assert both.why()[-1] == "captured"


def test_values_that_are_written_to() -> None:
    captured = lt.jit(lambda a, b: a.mul_(2) @ b)
    for n, b in enumerate(batches()):
        one, other = graph(n), graph(n)
        assert lt.equal(captured(one, b), other.mul_(2) @ b)
        assert lt.equal(one.to_dense(), other.to_dense())


def test_gradients_of_sparse_leaves() -> None:
    w = graph(0).requires_grad_()

    def step(b: Tensor) -> Tensor:
        w.grad = None
        (w @ b).square().sum().backward()
        grad = w.grad
        assert grad is not None
        return grad

    assert agree(step, [(b,) for b in batches()])[-1] == "captured"


class Convolution(lt.nn.Module):
    """Two graph convolutions over an adjacency matrix that is an attribute."""

    def __init__(self, adjacency: Tensor) -> None:
        super().__init__()
        lt.manual_seed(0)
        self.adjacency = adjacency
        self.first, self.second = lt.nn.Linear(4, 8), lt.nn.Linear(8, 3)

    def forward(self, x: Tensor, given: Tensor | None = None) -> Tensor:
        adjacency = self.adjacency if given is None else given
        hidden = lt.relu(lt.sparse.mm(adjacency, self.first(x)))
        found: Tensor = lt.sparse.mm(adjacency, self.second(hidden))
        return found


@pytest.mark.parametrize("as_argument", (False, True))
@pytest.mark.parametrize("layout", ("coo", "csr"))
def test_training_of_a_graph_convolution(layout: str, as_argument: bool) -> None:
    lt.manual_seed(3)
    places = lt.randint(0, 10, (2, 30))
    adjacency = lt.sparse_coo_tensor(places, lt.rand(30), (10, 10)).coalesce()
    if layout == "csr":
        adjacency = adjacency.to_sparse_csr()
    x = [lt.randn(10, 4) for _ in range(6)]
    target = lt.randint(0, 3, (10,))
    losses, weights = [], []
    why: list[str] = []
    for jitted in (False, True):
        model = Convolution(adjacency)
        optimizer = lt.optim.Adam(model.parameters(), lr=0.05)

        def step(x: Tensor, *given: Tensor, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = lt.nn.functional.cross_entropy(model(x, *given), target)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run: Any = lt.jit(step) if jitted else step
        losses.append(lt.stack([run(b, *((adjacency,) if as_argument else ())) for b in x]))
        weights.append([p.detach() for p in model.parameters()])
        why += run.why() if jitted else []
    assert lt.equal(*losses) and all(map(lt.equal, *weights))
    assert why[-1] == "captured" and not any("not captured" in reason for reason in why)


def test_what_is_not_captured_says_so() -> None:
    s = graph(0)
    same = lt.jit(lambda b: s)
    for b in batches()[:4]:
        assert same(b) is s
    assert any("was there before" in reason for reason in same.why())
    s.__dict__["owner"] = "somebody"
    marked = lt.jit(lambda a, b: a @ b)
    for b in batches()[:3]:
        assert lt.equal(marked(s, b), s @ b)
    assert any("attributes of its own" in reason for reason in marked.why())
