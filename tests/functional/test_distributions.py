"""Draws against their distribution functions (Kolmogorov and Smirnov) and moments; fixed seeds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import lazyt as lt
from lazyt.config import config
from lazyt.errors import DTypeError, LazytError

N = 4000


def distance(drawn: lt.Tensor, cdf: Callable[[float], float]) -> float:
    """The largest gap between the empirical and the true distribution function, times sqrt(n).

    Above 1.95 with probability 0.001 for continuous laws; discrete ones come closer.
    """
    values = np.sort(np.array(drawn.double().flatten().tolist()))
    levels = np.array([cdf(v) for v in values])
    n = len(values)
    last = np.searchsorted(values, values, side="right")
    return float(np.sqrt(n) * np.max(np.abs(levels - last / n)))


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def poisson_cdf(rate: float) -> Callable[[float], float]:
    terms = [math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(400)]
    return lambda x: sum(terms[: int(x) + 1])


def binomial_cdf(n: int, p: float) -> Callable[[float], float]:
    terms = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    return lambda x: sum(terms[: int(x) + 1])


def test_continuous_laws() -> None:
    lt.manual_seed(11)
    wide = lt.float64
    draws: dict[str, tuple[lt.Tensor, Callable[[float], float]]] = {
        "rand": (lt.rand(N), lambda x: x),
        "rand64": (lt.rand(N, dtype=wide), lambda x: x),
        "randn": (lt.randn(N), normal_cdf),
        "randn64": (lt.randn(N, dtype=wide), normal_cdf),
        "uniform_": (lt.empty(N).uniform_(-2, 3), lambda x: (x + 2) / 5),
        "normal_": (lt.empty(N).normal_(1, 2), lambda x: normal_cdf((x - 1) / 2)),
        "exponential_": (lt.empty(N).exponential_(2.5), lambda x: -math.expm1(-2.5 * x)),
        "cauchy_": (lt.empty(N).cauchy_(1, 3), lambda x: 0.5 + math.atan((x - 1) / 3) / math.pi),
        "log_normal_": (lt.empty(N).log_normal_(0.5, 0.25),
                        lambda x: normal_cdf((math.log(x) - 0.5) / 0.25)),
        "normal": (lt.normal(lt.full((N,), 2.0), 0.5), lambda x: normal_cdf((x - 2) / 0.5)),
    }  # fmt: skip
    lt.realize(*(d for d, _ in draws.values()))
    for name, (drawn, cdf) in draws.items():
        assert distance(drawn, cdf) < 1.95, name
    assert draws["exponential_"][0].min().item() > 0


def test_discrete_laws() -> None:
    lt.manual_seed(12)
    draws: dict[str, tuple[lt.Tensor, Callable[[float], float]]] = {
        "geometric_": (lt.empty(N).geometric_(0.3), lambda x: 1 - 0.7**x),
        "random_": (lt.empty(N, dtype=lt.int64).random_(-3, 7), lambda x: (x + 4) / 10),
        "randint": (lt.randint(10, (N,)), lambda x: (x + 1) / 10),
        "poisson small": (lt.poisson(lt.full((N,), 0.7)), poisson_cdf(0.7)),
        "poisson": (lt.poisson(lt.full((N,), 42.5)), poisson_cdf(42.5)),
        "binomial": (lt.binomial(lt.full((N,), 20.0), lt.tensor(0.3)), binomial_cdf(20, 0.3)),
        "binomial high": (lt.binomial(lt.full((N,), 7.0), lt.tensor(0.9)), binomial_cdf(7, 0.9)),
        "bernoulli": (lt.bernoulli(lt.full((N,), 0.2)), lambda x: 1.0 if x >= 1 else 0.8),
        "bernoulli_": (lt.empty(N).bernoulli_(0.6), lambda x: 1.0 if x >= 1 else 0.4),
    }
    lt.realize(*(d for d, _ in draws.values()))
    for name, (drawn, cdf) in draws.items():
        assert distance(drawn, cdf) < 1.95, name
    large = lt.poisson(lt.full((N,), 4e6, dtype=lt.float64))
    assert distance((large - 4e6) / 2e3, normal_cdf) < 1.95
    many = lt.binomial(lt.full((N,), 1e8, dtype=lt.float64), lt.tensor(0.25, dtype=lt.float64))
    assert distance((many - 2.5e7) / math.sqrt(1e8 * 0.1875), normal_cdf) < 1.95
    edge = lt.binomial(lt.tensor([5.0, 5.0, 0.0, -1.0]), lt.tensor([0.0, 1.0, 0.5, 0.5]))
    assert str(edge.tolist()) == "[0.0, 5.0, 0.0, nan]"


def test_poisson_has_a_gradient_of_zero() -> None:
    rate = lt.tensor([3.0, 4.0], requires_grad=True)
    lt.poisson(rate).sum().backward()
    assert rate.grad is None or rate.grad.tolist() == [0, 0]


def test_multinomial_with_replacement() -> None:
    lt.manual_seed(13)
    weights = lt.tensor([[1.0, 0.0, 3.0, 4.0], [2.0, 2.0, 0.0, 0.0]])
    drawn = lt.multinomial(weights, N, replacement=True)
    assert drawn.shape == (2, N) and drawn.dtype is lt.int64
    counts = np.stack([np.bincount(row, minlength=4) for row in np.array(drawn.tolist())]) / N
    np.testing.assert_allclose(counts, [[0.125, 0, 0.375, 0.5], [0.5, 0.5, 0, 0]], atol=0.03)
    assert counts[0, 1] == 0 and (counts[1, 2:] == 0).all()


def test_multinomial_without_replacement() -> None:
    lt.manual_seed(14)
    drawn = np.array(lt.multinomial(lt.tensor([1.0, 2.0, 3.0, 0.0]).expand(N, 4), 2).tolist())
    assert (drawn[:, 0] != drawn[:, 1]).all() and drawn.max() < 3
    first = np.bincount(drawn[:, 0], minlength=3) / N
    np.testing.assert_allclose(first, [1 / 6, 2 / 6, 3 / 6], atol=0.03)
    both = np.mean((drawn == [0, 1]).all(1))
    assert both == pytest.approx(1 / 6 * 2 / 5, abs=0.02)
    rare = lt.multinomial(lt.tensor([1e-3, 1.0]).expand(20 * N, 2), 1).sum().item()
    assert 20 * N - rare == pytest.approx(20 * N * 1e-3, abs=40)


def test_randperm() -> None:
    lt.manual_seed(15)
    orders = np.array([lt.randperm(5).tolist() for _ in range(300)])
    assert (np.sort(orders, 1) == np.arange(5)).all()
    np.testing.assert_allclose(orders.mean(0), 2, atol=0.35)
    assert lt.randperm(0).tolist() == []
    assert sorted(lt.randperm(9, dtype=lt.float32).tolist()) == [*range(9)]


@pytest.mark.fused_values
def test_same_numbers_however_they_are_computed() -> None:
    """Fused or alone, late or at once, in any number of threads, eagerly or not."""

    def program(look: bool) -> list[list[float]]:
        lt.manual_seed(21)
        x = lt.rand(300)
        if look:
            x.realize()
        y = lt.randn(300) * x
        z = lt.poisson(x * 9) + lt.empty(300).exponential_()
        if look:
            z.realize()
        order = lt.randperm(300)
        kept = lt.nn.functional.dropout(x, 0.3)
        return [t.tolist() for t in (x, y, z, order, kept, (y[order] + kept))]

    wanted = program(False)
    assert program(True) == wanted
    with config.override(threads=1):
        assert program(False) == wanted
    with config.override(eager=True):
        assert program(False) == wanted


def test_generators() -> None:
    own = lt.Generator().manual_seed(7)
    before = lt.get_rng_state().tolist()
    first = lt.rand(3, generator=own).tolist()
    assert lt.get_rng_state().tolist() == before
    copy = own.clone_state()
    assert lt.randn(2, generator=own).tolist() == lt.randn(2, generator=copy).tolist()
    state = own.get_state()
    following = lt.multinomial(lt.ones(9), 4, generator=own).tolist()
    own.set_state(state)
    assert lt.multinomial(lt.ones(9), 4, generator=own).tolist() == following
    assert lt.rand(3, generator=own.manual_seed(7)).tolist() == first
    assert own.initial_seed() == 7 and own.manual_seed(-1).initial_seed() == 2**64 - 1
    assert own.seed() == own.initial_seed() != 7
    with pytest.raises(DTypeError, match=r"must be a torch\.ByteTensor"):
        own.set_state(lt.zeros(3))
    with pytest.raises(LazytError, match="expected a long, but got float"):
        own.manual_seed(1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Overflow when unpacking"):
        own.manual_seed(2**64)


def test_fork_rng() -> None:
    lt.manual_seed(5)
    with lt.random.fork_rng():
        inside = lt.rand(2).tolist()
        lt.manual_seed(99)
    assert lt.rand(2).tolist() == inside
    assert lt.random.initial_seed() == lt.initial_seed() == 5
    with lt.random.fork_rng(enabled=False):
        lt.manual_seed(6)
    assert lt.initial_seed() == 6


#: Calls and the messages of their errors.
REFUSED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: lt.bernoulli(lt.ones(2), 1.5), LazytError, "p to be in [0, 1], but got p=1.5"),
    (lambda: lt.bernoulli(lt.tensor([1])), NotImplementedError, "bernoulli_tensor_cpu_p_"),
    (lambda: lt.multinomial(lt.ones(2), 3), LazytError, "cannot sample n_sample > prob_dist.size"),
    (lambda: lt.multinomial(lt.ones(2), 0), LazytError, "cannot sample n_sample <= 0 samples"),
    (lambda: lt.multinomial(lt.ones(()), 1), LazytError, "prob_dist must be 1 or 2 dim"),
    (lambda: lt.multinomial(lt.tensor([1]), 1), LazytError, "only supports floating-point dtypes"),
    (lambda: lt.normal(0.0, -1.0, (2,)), LazytError, "normal expects std >= 0.0, but found std -1"),
    (lambda: lt.normal(0.0, 1.0), DTypeError, "normal() received an invalid combination"),
    (
        lambda: lt.randint(0, 300, (2,), dtype=lt.uint8),
        LazytError,
        "to - 1 is out of bounds for un",
    ),
    (lambda: lt.randint(5, 5, (2,)), LazytError, "but got from=5 >= to=5"),
    (lambda: lt.rand(2, dtype=lt.int64), NotImplementedError, "check_uniform_bounds"),
    (lambda: lt.rand(-1), RuntimeError, "Trying to create tensor with negative dimension -1: [-1]"),
    (lambda: lt.zeros(2).exponential_(0), LazytError, "lambda > 0.0, but found lambda=0"),
    (lambda: lt.zeros(2).geometric_(1), LazytError, "p to be in (0, 1), but got p=1"),
    (lambda: lt.zeros(2).cauchy_(0, 0), LazytError, "sigma > 0.0, but found sigma=0"),
    (lambda: lt.zeros(2).log_normal_(0, 0), LazytError, "std > 0.0, but found std=0"),
    (lambda: lt.zeros(2).uniform_(2, 1), LazytError, "but found from=2 > to=1"),
    (
        lambda: lt.binomial(lt.tensor([5]), lt.ones(1)),
        ValueError,
        "binomial only supports floating",
    ),
]


def test_refusals() -> None:
    for call, error, text in REFUSED:
        with pytest.raises(error) as caught:
            call()
        assert text in str(caught.value)


def test_forms_of_the_calls() -> None:
    out = lt.zeros(0, dtype=lt.float64)
    assert lt.rand(2, 3, out=out) is out and out.shape == (2, 3)
    assert lt.randn(size=(2,)).shape == (2,)
    like = lt.randn_like(lt.zeros(2, 3).t(), dtype=lt.float64)
    assert like.stride() == (1, 3) and like.dtype is lt.float64
    assert lt.randint_like(lt.zeros(4), 3, 5).tolist()[0] in (3, 4)
    assert lt.normal(lt.zeros(2, 1), lt.ones(3)).shape == (2, 3)
    assert lt.zeros(3, dtype=lt.int64).geometric_(0.5).min().item() >= 1
    assert lt.ones(3).bernoulli().tolist() == [1, 1, 1]
