"""Programs with subclasses of their own of distributions, datasets, samplers and layers."""

# Classes made from classes that are arguments, and attributes that a user adds.
# mypy: disable-error-code="misc, valid-type, name-defined, attr-defined, no-any-return"
from __future__ import annotations

import copy
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
    helpers = D.multivariate_normal
    wanted = helpers._batch_mahalanobis(factor, at - 1)
    solved = lazyt.linalg.solve(factor @ factor.mT, (at - 1).mT)
    assert lazyt.allclose(wanted, ((at - 1) * solved.mT).sum(-1))


@pytest.mark.parametrize("diag", [-1, 0, 1])
def test_triangles_as_vectors(diag: int) -> None:
    matrix = lazyt.arange(18.0).reshape(2, 3, 3) + 1
    utils = D.utils
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
    inner = data._utils.collate

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
        found = next(iter(data.DataLoader(samples, batch_size=2)))
        assert found["at"].tolist() == [1.0, 3.0] and found["n"].tolist() == [2, 4]
    finally:
        del inner.default_collate_fn_map[Point]


def test_a_rule_for_tensors_is_used_for_datasets_of_tensors() -> None:
    rules = data._utils.collate.default_collate_fn_map
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


# ------------------------------------------------------------------ optimizers and schedules


def _trained(optimizer: Any, weight: Any, steps: int = 3) -> list[float]:
    for _ in range(steps):
        optimizer.zero_grad()
        (weight * lazyt.tensor([1.0, 2.0])).sum().backward()
        optimizer.step()
    found: list[float] = weight.tolist()
    return found


class _Wrapper(lazyt.optim.Optimizer):
    """Another optimizer, without ``super().__init__()``, as accelerate's."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    @property
    def param_groups(self) -> Any:  # type: ignore[override]
        return self.optimizer.param_groups

    @property
    def defaults(self) -> Any:  # type: ignore[override]
        return self.optimizer.defaults

    def step(self, closure: Any = None) -> Any:
        return self.optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)


@pytest.mark.parametrize("name", ["LambdaLR", "StepLR", "CosineAnnealingLR", "OneCycleLR"])
def test_schedules_of_an_optimizer_within_another(name: str) -> None:
    settings: dict[str, tuple[Any, ...]] = {
        "LambdaLR": (lambda n: 1 / (1 + n),), "StepLR": (1, 0.5), "CosineAnnealingLR": (5,),
        "OneCycleLR": (0.1, 10),
    }  # fmt: skip
    found = []
    for wrapped in (False, True):
        weight = nn.Parameter(lazyt.ones(2))
        inner = lazyt.optim.SGD([weight], 0.1, momentum=0.5)
        optimizer = _Wrapper(inner) if wrapped else inner
        schedule = getattr(lazyt.optim.lr_scheduler, name)(optimizer, *settings[name])
        for _ in range(3):
            _trained(optimizer, weight, 1)
            schedule.step()  # without a warning of the order
        found.append((weight.tolist(), schedule.get_last_lr()))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Muon"])
def test_a_subclass_chooses_what_is_updated_and_by_which_gradients(name: str) -> None:
    base = getattr(lazyt.optim, name)

    class Own(base):
        def _init_group(self, group: Any, params: Any, grads: Any, *states: Any) -> Any:
            found = super()._init_group(group, params, grads, *states)
            del params[1:], grads[1:]
            grads[0] = -grads[0]
            return found

    def weights() -> list[Any]:
        made = [nn.Parameter(lazyt.ones(2, 2)) for _ in range(2)]
        for weight in made:
            weight.grad = lazyt.full((2, 2), 0.5)
        return made

    own, up = weights(), weights()
    Own(own, lr=0.1).step()
    for weight in up:
        weight.grad = -weight.grad
    base(up[:1], lr=0.1).step()
    assert lazyt.equal(own[0], up[0]) and lazyt.equal(own[1], lazyt.ones(2, 2))


def test_settings_that_a_subclass_adds_when_state_is_loaded() -> None:
    class Own(lazyt.optim.SGD):
        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("warmup", 7)

    weight = nn.Parameter(lazyt.ones(2))
    own = Own([weight], 0.1, momentum=0.9)
    calls = []
    own.register_step_pre_hook(lambda *args: calls.append("step"))
    _trained(own, weight)
    own.load_state_dict(lazyt.optim.SGD([weight], 0.2).state_dict())
    assert own.param_groups[0]["warmup"] == 7 and own.param_groups[0]["lr"] == 0.2
    _trained(own, weight, 1)
    assert calls == ["step"] * 4  # hooks outlive loading


def test_loaded_state_goes_through_the_policy() -> None:
    class Own(lazyt.optim.Adam):
        @staticmethod
        def _process_value_according_to_param_policy(
            param: Any, value: Any, param_id: Any, param_groups: Any, key: Any = None
        ) -> Any:
            seen.append((param_id, key))
            return value * 2 if key == "exp_avg" else value

    seen: list[Any] = []
    weight = nn.Parameter(lazyt.ones(2))
    first = lazyt.optim.Adam([weight], 0.1)
    _trained(first, weight)
    own = Own([weight], 0.1)
    own.load_state_dict(first.state_dict())
    assert lazyt.equal(own.state[weight]["exp_avg"], first.state[weight]["exp_avg"] * 2)
    assert lazyt.equal(own.state[weight]["exp_avg_sq"], first.state[weight]["exp_avg_sq"])
    assert (0, "exp_avg") in seen and (0, "exp_avg_sq") in seen


def test_a_step_that_was_replaced_keeps_its_hooks() -> None:
    class Own(lazyt.optim.SGD):
        pass

    calls = []
    Own.step = lambda self, closure=None: calls.append("own")  # type: ignore[method-assign]
    own = Own([nn.Parameter(lazyt.ones(2))], 0.1)
    own.register_step_post_hook(lambda *args: calls.append("after"))
    own.step()
    assert calls == ["own", "after"]
    assert own.step.hooked and isinstance(own._optimizer_step_post_hooks, dict)


def test_schedules_by_functions_of_their_own() -> None:
    class Halves(lazyt.optim.lr_scheduler.CyclicLR):
        @staticmethod
        def _triangular_scale_fn(x: float) -> float:
            return 0.5

    class Straight(lazyt.optim.lr_scheduler.OneCycleLR):
        def _anneal_func(self, start: float, end: float, pct: float) -> float:
            return start

    class Kept(lazyt.optim.lr_scheduler.ReduceLROnPlateau):
        def _reduce_lr(self, epoch: int) -> None:
            reduced.append(epoch)

    def optimizer() -> Any:
        return lazyt.optim.SGD([nn.Parameter(lazyt.ones(2))], 1.0, momentum=0.9)

    reduced: list[int] = []
    cyclic = Halves(optimizer(), 0.0, 1.0, step_size_up=1)
    cyclic.optimizer.step()
    cyclic.step()
    assert cyclic.get_last_lr() == [0.5]
    straight = Straight(optimizer(), 1.0, total_steps=4, div_factor=4.0)
    straight.optimizer.step()
    straight.step()
    assert straight.get_last_lr() == [1.0]  # where the second phase starts
    kept = Kept(optimizer(), patience=0)
    for value in (1.0, 2.0, 3.0):
        kept.step(value)
    assert reduced == [2, 3] and kept.get_last_lr() == [1.0]


# ------------------------------------------------------------------ what packages reach into


def test_a_cached_transform_is_carried_back_without_an_inverse() -> None:
    class Flow(D.transforms.Transform):
        domain = codomain = D.constraints.real
        bijective = True

        def _call(self, x: Any) -> Any:
            return x + x.tanh()

        def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
            return (2 - x.tanh() ** 2).log()

    flow = Flow(cache_size=1)
    carried = D.TransformedDistribution(D.Normal(lazyt.zeros(3), 1.0), [flow])
    drawn = carried.rsample()
    score = carried.log_prob(drawn)
    x = flow._inv_call(drawn)
    assert flow.inv(drawn) is x and flow(x) is drawn
    assert lazyt.equal(score, D.Normal(0.0, 1.0).log_prob(x) - (2 - x.tanh() ** 2).log())
    with pytest.raises(NotImplementedError):
        flow.inv(drawn + 1)
    with pytest.raises(NotImplementedError):
        Flow().inv(drawn)
    assert flow.with_cache(0)._cache_size == 0


@pytest.mark.parametrize("way", ["clear", "replace", "pop"])
def test_hooks_are_removed_by_their_private_dicts(way: str) -> None:
    layer, calls = nn.Linear(2, 2), []
    layer.register_forward_hook(lambda *args: calls.append("forward"))
    layer.register_forward_pre_hook(lambda *args: calls.append("before"))
    layer._register_state_dict_hook(lambda *args: calls.append("saved"))
    layer._register_load_state_dict_pre_hook(lambda *args: calls.append("loaded"))
    names = (
        "_forward_hooks", "_forward_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks",
    )  # fmt: skip
    layer(lazyt.ones(2))
    layer.load_state_dict(layer.state_dict())
    assert calls == ["before", "forward", "saved", "loaded"]
    for name in names:
        hooks = getattr(layer, name)
        assert len(hooks) == 1
        if way == "clear":
            hooks.clear()
        elif way == "pop":
            hooks.popitem()
        else:
            setattr(layer, name, {})
    layer(lazyt.ones(2))
    layer.load_state_dict(layer.state_dict())
    assert len(calls) == 4


def test_subclasses_of_parameters_stay_such() -> None:
    class Own(nn.Parameter):
        pass

    layer = nn.Linear(2, 2)
    layer.weight = Own(lazyt.ones(2, 2))
    layer.weight.note = "seen"
    assert type(layer.weight) is Own and layer.weight.requires_grad
    copied = copy.deepcopy(layer)
    assert type(copied.weight) is Own and not hasattr(copied.weight, "note")
    layer.double()
    assert type(layer.weight) is Own and layer.weight.note == "seen"


def test_several_shifts_need_their_dimensions() -> None:
    x = lazyt.arange(6).reshape(2, 3)
    assert x.roll((1,)).tolist() == [[5, 0, 1], [2, 3, 4]]
    for shifts, dims in (((1, 2), None), ((1, 2), ()), ((1, 2), (0,)), (1, (0, 1))):
        with pytest.raises(RuntimeError, match="shifts and dimensions must align"):
            x.roll(shifts, dims)


class _Answer:
    """No tensor, but a class that says what functions make of it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func.__name__, types, len(args), kwargs or {}


def test_functions_ask_arguments_that_are_no_tensors() -> None:
    given = _Answer()
    mean, stack = lazyt.mean, lazyt.stack
    assert mean(given) == ("mean", (_Answer,), 1, {})  # type: ignore[arg-type]
    assert stack([lazyt.ones(2), given]) == ("stack", (_Answer,), 1, {})
    assert F.relu(given) == ("relu", (_Answer,), 1, {"inplace": False})  # type: ignore[arg-type]
    assert nn.Softmax(-1)(given)[0] == "softmax"
    with pytest.raises(TypeError):
        lazyt.mean(object())  # type: ignore[arg-type]


def test_a_subclass_of_tensor_may_not_want_to_be_asked() -> None:
    plain = lazyt._C._disabled_torch_function_impl
    kind = type("Plain", (lazyt.Tensor,), {"__torch_function__": plain})
    assert type(lazyt.ones(1).as_subclass(kind) + 1) is lazyt.Tensor
    assert plain(lazyt.add, (), (1, lazyt.ones(1))).tolist() == [2.0]
