"""Fast paths of captured functions: every change is noticed, and memory in use is left alone."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
import lazyt.nn.functional as F
from lazyt import func, nn
from lazyt.runtime.cpython import dict_tags
from tests.tensor.test_jit import numbers

pytestmark = pytest.mark.lazy


def has_fast_path(captured: Any) -> bool:
    """Whether a call with these arguments would take a fast path."""
    return bool(captured._fast_paths.calls)


class Training:
    """A small network, its captured step, and the same trained without capture."""

    def __init__(self, make: Callable[[Any], Any] = lambda p: lt.optim.SGD(p, 0.1, 0.9)) -> None:
        self.nets: list[Any] = []
        self.optimizers: list[Any] = []
        self.steps: list[Any] = []
        for use in (True, False):
            lt.manual_seed(0)
            net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
            optimizer = make(net.parameters())
            step = self.make_step(net, optimizer)
            self.nets.append(net)
            self.optimizers.append(optimizer)
            self.steps.append(lt.jit(step) if use else step)

    @staticmethod
    def make_step(net: Any, optimizer: Any) -> Callable[[Any, Any], Any]:
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    def run(self, count: int = 4, change: Callable[[Any, Any], Any] | None = None) -> list[Any]:
        """Does ``change`` to both, trains both, compares everything; returns the losses."""
        losses: list[Any] = []
        if change is not None:
            for net, optimizer in zip(self.nets, self.optimizers, strict=True):
                change(net, optimizer)
        for _ in range(count):
            x, y = numbers(6, 4), lt.randint(0, 3, (6,)).realize()
            a, b = (step(x, y) for step in self.steps)
            assert a.item() == b.item()
            losses.append(a)
            for p, q in zip(*(net.parameters() for net in self.nets), strict=True):
                assert p.tolist() == q.tolist() and p._version == q._version
                assert (p.grad is None) == (q.grad is None)
                if p.grad is not None:
                    assert p.grad.tolist() == q.grad.tolist()
                    assert p.grad._version == q.grad._version
        return losses


@pytest.fixture(scope="module")
def training() -> Training:
    """A step that takes its fast path."""
    made = Training()
    made.run(5)
    assert has_fast_path(made.steps[0])
    return made


def rebind(net: Any, _: Any) -> None:
    """Other parameters."""
    net[2].weight = nn.Parameter(net[2].weight.detach().clone() * 0.5)


def freeze(net: Any, _: Any) -> None:
    """A parameter that needs no gradient."""
    net[0].bias.requires_grad_(not net[0].bias.requires_grad)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "rate": lambda net, opt: opt.param_groups[0].update(lr=0.03),
    "momentum": lambda net, opt: opt.param_groups[0].update(momentum=0.5),
    "decay": lambda net, opt: opt.param_groups[0].__setitem__("weight_decay", 0.1),
    "state": lambda net, opt: opt.state[net[0].weight]["momentum_buffer"].mul_(0.5),
    "no state": lambda net, opt: opt.state.clear(),
    "values": lambda net, opt: net[0].weight.data.mul_(0.9),
    "written": lambda net, opt: nn.init.constant_(net[2].bias, 0.25),
    "loaded": lambda net, opt: net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()}),
    "weight": rebind,
    "group": lambda net, opt: opt.param_groups[0]["params"].__setitem__(2, net[2].weight),
    "frozen": freeze,
    "thawed": freeze,
    "no gradients": lambda net, opt: net.zero_grad(),
    "gradient": lambda net, opt: setattr(net[0].bias, "grad", lt.ones(5)),
    "layer": lambda net, opt: net.__setitem__(1, nn.ReLU()),
    "method": lambda net, opt: setattr(net[1], "forward", lambda x: x * 2),
    "without method": lambda net, opt: vars(net[1]).pop("forward", None),
    "groups": lambda net, opt: setattr(opt, "param_groups", [{**opt.param_groups[0], "lr": 0.2}]),
    "other state": lambda net, opt: opt.load_state_dict(opt.state_dict()),
    "evaluation": lambda net, opt: net.eval(),
    "seen by NumPy": lambda net, opt: net[0].bias.detach().numpy().fill(0.5),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_between_two_calls_is_noticed(training: Training, name: str) -> None:
    training.run(4, CHANGES[name])


def test_a_class_that_changes_is_noticed() -> None:
    class Scale(nn.Module):
        factor = 2.0

        def forward(self, x: Any) -> Any:
            return x * self.factor

    scale = Scale()
    captured = lt.jit(lambda x: scale(x) + 1)
    x = numbers(3)
    for factor in (2.0, 3.0, 3.0, 5.0):
        Scale.factor = factor
        for _ in range(4):
            assert captured(x).tolist() == (x * factor + 1).tolist()
    Scale.forward = lambda self, x: x  # type: ignore[method-assign]
    assert captured(x).tolist() == (x + 1).tolist()


def test_what_a_caller_holds_is_left_alone() -> None:
    made = Training()
    losses = made.run(4)
    values = [loss.item() for loss in losses]
    net = made.nets[0]
    held: dict[str, Any] = {
        "grad": net[0].weight.grad, "pending": net[0].weight.detach() * 1,
        "view": net[2].weight.grad[0], "array": net[2].bias.grad.numpy(),
        "state": made.optimizers[0].state[net[0].bias]["momentum_buffer"] + 0,
        "history": (net[0].weight * 2).sum(),
    }  # fmt: skip
    copies = {
        k: np.array(v.detach().tolist()) if k != "array" else v.copy() for k, v in held.items()
    }
    held["late"] = net[0].bias.detach() * 1
    late = net[0].bias.tolist()
    x, y = numbers(6, 4), lt.tensor([0, 1, 2, 0, 1, 2])
    weak = weakref.ref(made.steps[0](x, y))
    made.steps[1](x, y)
    gc.collect()
    made.run(5)
    for name, copy in copies.items():
        value = held[name]
        assert np.array_equal(copy, value if name == "array" else np.array(value.tolist())), name
    assert held["late"].tolist() == late
    assert [loss.item() for loss in losses] == values
    again: Any = weak()
    assert again is None or again._version == 0


def test_results_that_nobody_holds_are_used_again() -> None:
    captured = lt.jit(lambda x: (x * 2, x + 1))
    for _ in range(4):
        captured(numbers(100))
    places = {id(captured(numbers(100))[0]) for _ in range(20)}
    assert len(places) <= 2
    kept = [captured(lt.full((100,), float(n))) for n in range(6)]
    for n, (double, more) in enumerate(kept):
        assert double.tolist() == [2.0 * n] * 100 and more.tolist() == [n + 1.0] * 100
    marked = captured(lt.ones(100))[0]
    marked.note = "mine"
    del marked
    assert not any(vars(captured(lt.ones(100))[0]) for _ in range(4))


def test_a_written_result_does_not_reach_the_next_call() -> None:
    captured = lt.jit(lambda x: x * 2)
    for n in range(8):
        result = captured(lt.full((3,), float(n)))
        assert result.tolist() == [2.0 * n] * 3 and result._version == 0
        result.add_(1)
        del result


def test_other_functions_train_the_same_parameters() -> None:
    made = Training()
    small = lt.jit(made.steps[0].function)
    plain = made.steps[1]
    for n in range(10):
        x, y = numbers(6 - n % 2, 4), lt.randint(0, 3, (6 - n % 2,)).realize()
        run = made.steps[0] if n % 3 else small
        assert run(x, y).item() == plain(x, y).item()
    for p, q in zip(*(net.parameters() for net in made.nets), strict=True):
        assert p.tolist() == q.tolist()


@pytest.mark.parametrize("make", [
    lambda p: lt.optim.AdamW(p, 1e-2),
    lambda p: lt.optim.SGD(p, 0.1),
    lambda p: lt.optim.RMSprop(p, 1e-2, momentum=0.5),
])  # fmt: skip
def test_optimizers_take_fast_paths(make: Callable[[Any], Any]) -> None:
    made = Training(make)
    made.run(9)
    assert has_fast_path(made.steps[0]) and made.steps[0].why() == ["captured"]


def test_indices_that_are_drawn_or_computed_inside() -> None:
    images, labels = numbers(50, 4), lt.randint(0, 3, (50,)).realize()

    def draw() -> Any:
        chosen = lt.randint(0, 50, (8,))
        return (
            images[chosen],
            labels[chosen],
            F.embedding(labels[chosen], images),
            lt.randperm(9)[:3],
        )

    captured = lt.jit(draw)
    lt.manual_seed(4)
    want = [[v.tolist() for v in draw()] for _ in range(6)]
    lt.manual_seed(4)
    assert [[v.tolist() for v in captured()] for _ in range(6)] == want
    assert captured.why() == ["captured"]

    def pick(q: Any) -> Any:
        return images[(q * 50).long()]

    looked = lt.jit(pick)
    for low in (0.5, 0.5, 0.5, 0.5, -0.25, 0.5):
        q = lt.rand(6) * 0.4 + low
        assert looked(q.realize()).tolist() == pick(q).tolist()
    with pytest.raises(IndexError):
        looked(lt.ones(6) * 2)


def test_gradients_of_gradients_through_a_captured_step() -> None:
    weight: Any = lt.randn(3, 3, dtype=lt.float64).requires_grad_()

    def penalty(x: Any) -> Any:
        y = (x @ weight).tanh().sum()
        grad: Any
        (grad,) = lt.autograd.grad(y, x, create_graph=True)
        return grad.square().sum() + y

    captured = lt.jit(penalty)
    for _ in range(4):
        x = lt.randn(2, 3, dtype=lt.float64).requires_grad_()
        found = []
        first: Any
        for function in (captured, penalty):
            (first,) = lt.autograd.grad(function(x), weight, create_graph=True)
            second: Any = lt.autograd.grad((first * first).sum(), (weight, x))
            found.append([first.tolist(), *[g.tolist() for g in second]])
        assert found[0] == found[1]
    assert captured.why() == ["captured"]

    def value(data: Any) -> float:
        with lt.no_grad():
            old = weight.clone()
            weight.copy_(data)
        total = captured(x.detach().requires_grad_()).item()
        with lt.no_grad():
            weight.copy_(old)
        return float(total)

    step = 1e-5
    for place in ((0, 0), (2, 1)):
        moved = lt.zeros(3, 3, dtype=lt.float64)
        moved[place] = step
        slope = (value(weight.detach() + moved) - value(weight.detach() - moved)) / (2 * step)
        assert slope == pytest.approx(first[place].item(), rel=1e-6)


def test_captures_and_transforms_of_functions() -> None:
    layer = nn.Linear(3, 2)

    def function(x: Any) -> Any:
        return (x.sin() * x).sum()

    captured, module = lt.jit(function), lt.jit(layer)
    xs = numbers(4, 3)
    for _ in range(4):
        captured(xs[0]), module(xs)
    assert func.grad(captured)(xs[0]).tolist() == func.grad(function)(xs[0]).tolist()
    assert func.vmap(captured)(xs).tolist() == func.vmap(function)(xs).tolist()
    assert func.vmap(module)(xs).tolist() == func.vmap(layer)(xs).tolist()
    whole = lt.jit(lambda x: func.vmap(func.grad(captured))(x))
    for _ in range(4):
        assert whole(xs).tolist() == func.vmap(func.grad(function))(xs).tolist()
    assert whole.why() == ["captured"]


def test_tags_tell_which_dict_has_changed() -> None:
    if not dict_tags.available():
        pytest.skip("this interpreter has no tags")
    tables: list[dict[str, int]] = [{str(n): n} for n in range(5)]
    tags = dict_tags.Tags(tables)
    assert tags.changed() is None
    tables[3]["new"] = 1
    tables[4].clear()
    assert tags.changed() is tables[3] and tags.all_changed() == [tables[3], {}]
    tags.renew()
    assert tags.changed() is None and tables[3].get("new") == 1 and tags.changed() is None


def test_without_tags_everything_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dict_tags, "available", lambda: False)
    made = Training()
    made.run(5)
    assert has_fast_path(made.steps[0])
    for name in ("rate", "momentum", "weight", "method", "gradient"):
        made.run(3, CHANGES[name])


def test_threads_train_networks_of_their_own() -> None:
    failures: list[Any] = []

    def work(training: Training) -> None:
        try:
            training.run(8)
        except BaseException as error:
            failures.append(error)
            raise

    # Made here, as the seed of initial values is one for all threads.
    threads = [threading.Thread(target=work, args=(Training(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_what_a_step_costs() -> None:
    # 17 us on a busy machine of 2 cores; without fast paths, 125.
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    step: Any = lt.jit(Training.make_step(net, lt.optim.SGD(net.parameters(), 0.01)))
    chain: Any = lt.jit(lambda x: x * 2 + 1)
    x, y = numbers(32, 64), lt.randint(0, 10, (32,)).realize()

    def best(function: Callable[..., Any], *args: Any) -> float:
        times = []
        for _ in range(60):
            begun = time.perf_counter()
            for _ in range(20):
                function(*args)
            times.append((time.perf_counter() - begun) / 20)
        return min(times)

    assert best(step, x, y) < 100e-6
    assert best(chain, numbers(100)) < 15e-6


def test_sizes_that_take_turns() -> None:
    step = lt.jit(lambda x: (x * 2 + 1).cumsum(0)[-1])
    sizes = range(3, 15)
    with lt.config.override(tier=1):  # kernels for these sizes, and then for any
        for turn in range(16):
            for size in sizes:
                assert step(lt.full((size,), float(turn))).item() == size * (2 * turn + 1)
        paths = step._fast_paths
        assert len(paths.calls) == len(sizes)
        # Each is tried first where it fits.
        tried = []
        for size in [*sizes, *sizes]:
            first = paths.calls[0]
            assert step(lt.ones(size)).item() == 3 * size
            tried.append(first is paths._last)
        assert all(tried[1:])
        # Runs of fast paths count, too: sizes that come back get kernels of their own.
        before = [call for call in paths.calls if "hot_code" in call.__globals__]
        assert before
        for turn in range(60):
            for size in sizes:
                assert step(lt.full((size,), float(turn))).item() == size * (2 * turn + 1)
        after = [call for call in paths.calls if "hot_code" in call.__globals__]
        assert len(paths.calls) == len(sizes) and len(after) < len(before)
