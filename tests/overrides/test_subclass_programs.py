"""Programs with subclasses of their own of distributions, datasets, samplers and layers."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
from lazyt import distributions as D
from lazyt import nn
from lazyt.nn import functional as F
from lazyt.utils import data


class _Ones(D.Distribution):
    arg_constraints: Any = {}
    has_rsample = True

    def __init__(self) -> None:
        super().__init__(lazyt.Size([2]), validate_args=False)

    def rsample(self, sample_shape: Any = ()) -> lazyt.Tensor:
        return lazyt.ones(self._extended_shape(sample_shape), requires_grad=True) * 2


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_samples_are_those_of_rsample(shape: tuple[int, ...]) -> None:
    drawn = _Ones().sample(shape)
    assert drawn.shape == (*shape, 2) and bool((drawn == 2).all()) and not drawn.requires_grad
    within = D.Independent(_Ones(), 1)
    assert lazyt.equal(within.sample(shape), drawn)
    carried = D.TransformedDistribution(_Ones(), [D.AffineTransform(0.0, 2.0)])
    assert lazyt.equal(carried.sample(shape), drawn * 2)


@pytest.mark.parametrize("kind", [D.Normal, D.Laplace, D.Gumbel, D.Gamma, D.Beta, D.LogNormal])
def test_an_own_rsample_is_what_sample_gives(kind: Any) -> None:
    class Own(kind):
        def rsample(self, sample_shape: Any = ()) -> lazyt.Tensor:
            return super().rsample(sample_shape) * 0 + 0.25

    own = Own(lazyt.tensor([0.5, 1.0]), lazyt.tensor([0.5, 1.0]))
    # PyTorch's Normal and what transforms carry draw without rsample.
    without = kind is D.Normal or issubclass(kind, D.TransformedDistribution)
    assert bool((own.sample((3,)) == 0.25).all()) is not without
    assert bool((own.rsample((3,)) == 0.25).all())


def test_expanding_a_subclass_goes_through_its_own_instance() -> None:
    class Diagonal(D.Independent):
        def __init__(self, loc: Any, scale: Any) -> None:
            super().__init__(D.Normal(loc, scale), 1)

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            made = self._get_checked_instance(Diagonal, _instance)
            made.tag = "expanded"
            return super().expand(batch_shape, made)

    found = Diagonal(lazyt.zeros(3), lazyt.ones(3)).expand((2,))
    assert type(found) is Diagonal and found.tag == "expanded"
    assert found.batch_shape == (2,) and found.event_shape == (3,)
    assert found.base_dist.batch_shape == (2, 3)
    assert found.log_prob(lazyt.zeros(2, 3)).shape == (2,)


def test_a_subclass_with_its_own_init_has_to_say_how_it_expands() -> None:
    class Scaled(D.Normal):
        def __init__(self, loc: Any) -> None:
            self.extra = loc * 2
            super().__init__(loc, 1.0)

    class Plain(D.Normal):
        pass

    with pytest.raises(NotImplementedError, match="must also define a custom"):
        Scaled(lazyt.zeros(2)).expand((3, 2))
    assert Plain(lazyt.zeros(2), 1.0).expand((3, 2)).batch_shape == (3, 2)


def test_divergences_are_registered_for_any_classes() -> None:
    class Other:
        pass

    @D.register_kl(D.Independent, Other)
    def rule(p: Any, q: Any) -> lazyt.Tensor:
        return lazyt.tensor(7.0)

    independent = D.Independent(D.Normal(lazyt.zeros(2), 1.0), 1)
    assert float(D.kl_divergence(independent, Other())) == 7.0  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        D.register_kl(D.Normal, 3)  # type: ignore[arg-type]


def test_a_normal_vector_by_its_private_factor() -> None:
    class Own(D.MultivariateNormal):  # as gpytorch makes its own
        def __init__(self, loc: Any, factor: Any) -> None:
            self.loc, self._unbroadcasted_scale_tril = loc, factor
            D.Distribution.__init__(self, loc.shape[:-1], loc.shape[-1:], validate_args=False)

    factor = lazyt.tensor([[2.0, 0.0], [1.0, 0.5]])
    own, plain = Own(lazyt.ones(2), factor), D.MultivariateNormal(lazyt.ones(2), scale_tril=factor)
    at = lazyt.tensor([[0.5, 2.0], [1.0, -1.0]])
    assert lazyt.equal(own.log_prob(at), plain.log_prob(at))
    assert lazyt.equal(own.covariance_matrix, plain.covariance_matrix)
    helpers = D.multivariate_normal  # type: ignore[attr-defined]
    wanted = helpers._batch_mahalanobis(factor, at - 1)
    solved = lazyt.linalg.solve(factor @ factor.mT, (at - 1).mT)
    assert lazyt.allclose(wanted, ((at - 1) * solved.mT).sum(-1))


@pytest.mark.parametrize("diag", [-1, 0, 1])
def test_triangles_as_vectors(diag: int) -> None:
    matrix = lazyt.arange(18.0).reshape(2, 3, 3) + 1
    utils = D.utils  # type: ignore[attr-defined]
    vector = utils.tril_matrix_to_vec(matrix, diag)
    assert lazyt.equal(utils.vec_to_tril_matrix(vector, diag), lazyt.tril(matrix, diag))


@pytest.mark.parametrize("count", [10**10, 3, 8192, 8193, 20000])
def test_random_numbers_with_replacement_come_as_they_are_asked_for(count: int) -> None:
    sampler = data.RandomSampler([0] * 10, replacement=True, num_samples=count)
    assert len(sampler) == count
    first = [n for n, _ in zip(sampler, range(100))]
    assert all(0 <= n < 10 for n in first) and len(first) == min(count, 100)
    if count < 10**6:
        assert len(list(sampler)) == count


def test_the_order_of_many_numbers_does_not_depend_on_draws_in_between() -> None:
    def numbers(between: bool) -> list[int]:
        lazyt.manual_seed(3)
        found = []
        for n in data.RandomSampler([0] * 1000, replacement=True, num_samples=20000):
            found.append(n)
            if between and len(found) == 100:
                lazyt.rand(5).realize()
        return found

    assert numbers(True) == numbers(False)


def test_collating_by_rules_of_ones_own() -> None:
    inner = data._utils.collate  # type: ignore[attr-defined]

    class Point:
        def __init__(self, x: float) -> None:
            self.x = x

    def points(batch: Any, *, collate_fn_map: Any) -> lazyt.Tensor:
        return lazyt.tensor([point.x for point in batch])

    samples = [{"at": Point(1.0), "n": 2}, {"at": Point(3.0), "n": 4}]
    with pytest.raises(TypeError, match="default_collate: batch must contain"):
        data.default_collate(samples)
    inner.default_collate_fn_map[Point] = points
    try:
        found = next(iter(data.DataLoader(samples, batch_size=2)))  # type: ignore[arg-type]
        assert found["at"].tolist() == [1.0, 3.0] and found["n"].tolist() == [2, 4]
    finally:
        del inner.default_collate_fn_map[Point]


def test_a_rule_for_tensors_is_used_for_datasets_of_tensors() -> None:
    rules = data._utils.collate.default_collate_fn_map  # type: ignore[attr-defined]
    before = rules[lazyt.Tensor]
    rules[lazyt.Tensor] = lambda batch, *, collate_fn_map: lazyt.stack(batch) * 10
    try:
        loader = data.DataLoader(data.TensorDataset(lazyt.arange(4.0)), batch_size=4)
        assert next(iter(loader))[0].tolist() == [0, 10, 20, 30]
    finally:
        rules[lazyt.Tensor] = before


def test_loaders_that_override_how_they_iterate() -> None:
    class Doubled(data.DataLoader):
        def _get_iterator(self) -> Any:
            return iter([batch * 2 for batch in super()._get_iterator()])

        @property
        def _index_sampler(self) -> Any:
            return [[3, 0], [1]]

    found = list(Doubled([1.0, 2.0, 3.0, 4.0], batch_size=2))
    assert [batch.tolist() for batch in found] == [[8.0, 2.0], [4.0]]


# ------------------------------------------------------------------ layers


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("jit", [False, True])
def test_an_own_convolution_of_any_rank(rank: int, jit: bool) -> None:
    base = getattr(nn, f"Conv{rank}d")

    class Own(base):
        def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
            return super()._conv_forward(input, weight * 0 + 1, bias)

    layer = Own(2, 1, 2, bias=False)
    call = lazyt.jit(layer) if jit else layer
    x = lazyt.ones((1, 2) + (3,) * rank)
    for _ in range(3):
        assert bool((call(x) == 2 * 2**rank).all())


@pytest.mark.parametrize("jit", [False, True])
def test_a_patched_function_is_seen_and_forgotten(jit: bool, monkeypatch: Any) -> None:
    layer = nn.Sequential(nn.ReLU(), nn.Softmax(-1))
    call = lazyt.jit(layer) if jit else layer
    x = lazyt.tensor([-1.0, 2.0])
    plain = [call(x).tolist() for _ in range(3)]
    monkeypatch.setattr(F, "softmax", lambda input, dim=None: input * 0 + 7)
    assert call(x).tolist() == [7.0, 7.0]
    monkeypatch.undo()
    assert [call(x).tolist() for _ in range(3)] == plain


def test_a_class_that_calls_itself_otherwise() -> None:
    class Own(nn.Linear):
        def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
            return super()._call_impl(*args, **kwargs) * 0

    x = lazyt.ones(2, 4)
    assert bool((nn.Sequential(Own(4, 3))(x) == 0).all())
    plain = nn.Linear(4, 3)
    plain._call_impl = lambda x: x + 1  # type: ignore[method-assign]
    assert lazyt.equal(plain(x), x + 1)


def test_a_lazy_module_of_ones_own() -> None:
    class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, x: Any) -> None:
            if self.has_uninitialized_params():
                self.weight.materialize(x.shape[-1:])
                nn.init.constant_(self.weight, 3.0)

        def forward(self, x: Any) -> Any:
            return x * self.weight

    scale = Scale()
    assert lazyt.equal(scale(lazyt.ones(2, 4)), lazyt.full((2, 4), 3.0))
    assert not scale.has_uninitialized_params() and scale.weight.shape == (4,)


def test_an_lstm_computes_with_the_weights_it_is_given() -> None:
    layer, x = nn.LSTM(2, 3), lazyt.ones(2, 1, 2)
    layer._flat_weights = [weight * 0 for weight in layer._flat_weights]
    assert bool((layer(x)[0] == 0).all())
    layer.double()
    assert bool((layer(x.double())[0] != 0).any())
