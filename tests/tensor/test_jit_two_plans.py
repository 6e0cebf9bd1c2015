"""Captured functions whose gradients go on outside: a plan forward, and one backward."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt import Tensor, nn
from lazyt.errors import GradientError
from lazyt.optim import optimizer as optimizers


class Net(nn.Module):
    """A network with dropout, buffers that a forward pass writes to, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.25)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.drop(nn.functional.gelu(self.norm(self.first(x))))
        return self.last(hidden).softmax(-1), hidden


def pair() -> tuple[Net, Any, Net]:
    """A network, the captured one, and a copy that stays as it is; two calls are done."""
    lt.manual_seed(0)
    net = Net()
    fast, copied = lt.jit(net), copy.deepcopy(net)
    for _ in range(2):
        both(fast, copied, lambda module: module(lt.ones(5, 6))[0].sum().backward())
    for module in (net, copied):
        module.zero_grad()
    return net, fast, copied


def both(fast: Any, plain: Any, call: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What a call gives of each, with the same random numbers."""
    found = []
    for module in (fast, plain):
        lt.manual_seed(7)
        found.append(call(module))
    return found[0], found[1]


def agree(net: Net, plain: Net) -> None:
    """All parameters, gradients and buffers are the same bits."""
    for (name, a), b in zip(net.named_parameters(), plain.parameters(), strict=True):
        assert lt.equal(a, b), name
        assert (a.grad is None) == (b.grad is None), name
        assert a.grad is None or b.grad is None or lt.equal(a.grad, b.grad), name
    for one, two in zip(net.buffers(), plain.buffers(), strict=True):
        assert lt.equal(one, two)


def name_below(result: Tensor) -> str:
    assert result.grad_fn is not None
    below = result.grad_fn.next_functions[0][0]
    assert below is not None
    return below.name()


@pytest.mark.lazy
def test_leaves_for_what_is_stored_are_made_by_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [nn.Linear(6, 6) for _ in range(20)]

    def run(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x).tanh()
        return x

    fast, x = lt.jit(run), lt.ones(5, 6)
    for _ in range(3):
        result = fast(x)
    made: list[Any] = []
    plain = lt.ops.input_

    def counted(*given: Any) -> Any:
        made.append(given)
        return plain(*given)

    monkeypatch.setattr(lt.ops, "input_", counted)
    result = fast(x)
    assert fast.why()[-1] == "captured" and len(made) < 10
    result.sum().backward()
    assert len(made) > 20


@pytest.mark.lazy
def test_results_stand_behind_the_function_as_a_whole() -> None:
    _, fast, _ = pair()
    for _ in range(2):
        result, _ = fast(lt.ones(5, 6))
    assert fast.why()[-1] == "captured"
    assert result.grad_fn.name() == "SoftmaxBackward0"
    assert name_below(result) == "CompiledFunctionBackward" and result.output_nr == 0


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_steps_are_those_of_the_function(which: tuple[int, ...]) -> None:
    net, fast, plain = pair()
    for step in range(4):
        x = lt.randn(5, 6)

        def train(module: Any, x: Tensor = x) -> Tensor:
            given = x.clone().requires_grad_()
            found = module(given)
            sum(((found[n] ** 2).sum() for n in which), lt.zeros(())).backward()
            assert given.grad is not None
            return given.grad

        a, b = both(fast, plain, train)
        assert lt.equal(a, b)
        agree(net, plain)
        for module in (net, plain):
            with lt.no_grad():
                for parameter in module.parameters():
                    if parameter.grad is not None:
                        parameter.sub_(parameter.grad, alpha=0.1)
            if step % 2:
                module.zero_grad()


def test_gradients_accumulate_over_calls_and_backwards() -> None:
    net, fast, plain = pair()

    def twice(module: Any) -> None:
        one, _ = module(lt.ones(5, 6))
        two, _ = module(lt.arange(30.0).reshape(5, 6))
        (one.square().sum() + two.square().sum()).backward(retain_graph=True)
        one.square().sum().backward()

    both(fast, plain, twice)
    agree(net, plain)


def test_a_second_backward_needs_retain_graph() -> None:
    _, fast, plain = pair()

    def again(module: Any) -> str:
        result, hidden = module(lt.ones(5, 6))
        result.sum().backward()
        with pytest.raises(GradientError) as caught:
            hidden.sum().backward()
        return str(caught.value)

    a, b = both(fast, plain, again)
    assert a == b and "a second time" in a


def test_what_a_backward_needs_is_let_go() -> None:
    _, fast, _ = pair()
    result, hidden = fast(lt.ones(5, 6))
    joint = result.grad_fn.next_functions[0][0]
    if joint.name() == "CompiledFunctionBackward":
        assert joint.found["saved"]
        (result.sum() + hidden.sum()).backward()
        assert not joint.found and not joint.ends


def test_values_that_are_needed_must_not_be_written_to() -> None:
    net, fast, plain = pair()

    def written(module: Any) -> str:
        result, _ = module(lt.ones(5, 6))
        owner = net if module is fast else plain
        with lt.no_grad():
            owner.last.weight.mul_(2.0)
        with pytest.raises(GradientError) as caught:
            result.square().sum().backward()
        return str(caught.value)

    a, b = both(fast, plain, written)
    assert "modified by an inplace operation" in a and a.partition(" is used")[0] in b


def test_hooks_hear_of_gradients() -> None:
    net, fast, plain = pair()

    def heard(module: Any) -> list[Tensor]:
        found: list[Tensor] = []
        owner = net if module is fast else plain
        handle = owner.first.weight.register_hook(lambda grad: grad * 2)
        given = lt.ones(5, 6, requires_grad=True) * 1.5
        given.retain_grad()
        result, hidden = module(given)
        hidden.retain_grad()
        result.register_hook(found.append)
        (result.square().sum() + hidden.sum()).backward()
        handle.remove()
        assert given.grad is not None and hidden.grad is not None
        return [*found, given.grad, hidden.grad]

    for _ in range(3):  # hooks are noted, so that the function is captured once more
        a, b = both(fast, plain, heard)
        assert len(a) == 3 and all(map(lt.equal, a, b))
        agree(net, plain)


def test_gradients_can_be_differentiated() -> None:
    net, fast, plain = pair()
    x = lt.randn(5, 6)

    def penalty(module: Any) -> tuple[Tensor, Tensor]:
        given = x.clone().requires_grad_()
        result, _ = module(given)
        (slope,) = lt.autograd.grad(result.square().sum(), given, create_graph=True)
        assert slope is not None
        slope.square().sum().backward()
        assert given.grad is not None
        return slope, given.grad

    for _ in range(4):
        (a, b), (c, d) = both(fast, plain, penalty)
        assert lt.equal(a, c) and lt.allclose(b, d, rtol=1e-3, atol=1e-5)
        for one, two in zip(net.parameters(), plain.parameters(), strict=True):
            if one.grad is not None and two.grad is not None:
                assert lt.allclose(one.grad, two.grad, rtol=1e-3, atol=1e-4)


def test_one_function_takes_what_another_gave() -> None:
    lt.manual_seed(0)
    one, two = nn.Linear(4, 4), nn.Linear(4, 2)
    first, second = lt.jit(one), lt.jit(two)

    def train(a: Any, b: Any) -> list[Tensor]:
        one.zero_grad()
        two.zero_grad()
        b(a(lt.ones(3, 4)).tanh()).square().sum().backward()
        b(a(lt.ones(3, 4))).square().sum().backward()
        return [p.grad.clone() for p in (*one.parameters(), *two.parameters())]  # type: ignore[union-attr]

    for _ in range(4):
        assert all(map(lt.equal, train(first, second), train(one, two)))


def test_only_some_inputs_are_asked() -> None:
    scale = lt.tensor([1.0, 2.0], requires_grad=True)
    unused = lt.ones(2, requires_grad=True)

    @lt.jit
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return (x * scale).exp(), (unused * 2).sin()

    for _ in range(4):
        x = lt.tensor([0.5, -0.5], requires_grad=True)
        found, _ = function(x)
        grads = lt.autograd.grad(found.sum(), [x, unused], allow_unused=True)
        assert grads[1] is None and grads[0] is not None
        assert lt.equal(grads[0], (x.detach() * scale.detach()).exp() * scale.detach())


class Bounded(nn.Module):
    """Dropout, a buffer that is written over, and views among the results."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()
        self.register_buffer("seen", lt.zeros(8))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        result, hidden = self.net(x)
        self.seen.mul_(0.5).add_(hidden.detach().mean(0))
        return {"result": result, "row": hidden[0], "less": hidden - self.seen}


@pytest.mark.deadline(60)
def test_fast_paths_hand_out_histories() -> None:
    lt.manual_seed(0)
    module = Bounded()
    plain, fast = copy.deepcopy(module), lt.jit(module)
    own, other = lt.optim.AdamW(module.parameters()), lt.optim.AdamW(plain.parameters())
    for step in range(90):
        x = lt.randn(5, 6)

        def train(called: Any, x: Tensor = x, step: int = step) -> dict[str, Tensor]:
            optimizer = own if called is fast else other
            optimizer.zero_grad()
            found: dict[str, Tensor] = called(x)
            names = ("result", "row", "less")[: 1 + step % 3]
            sum((found[name].square().sum() for name in names), lt.zeros(())).backward()
            optimizer.step()
            return found

        a, b = both(fast, plain, train)
        for name in a:
            assert lt.equal(a[name], b[name]), (step, name)
            assert a[name].grad_fn.name() == b[name].grad_fn.name()
        for one, two in zip(module.state_dict().values(), plain.state_dict().values(), strict=True):
            assert lt.equal(one, two), step
        if step == 70:
            lt.wait_for_compiler(60)
    if fast.why():
        assert fast.why()[-1] == "captured"
        with pytest.warns(UserWarning, match="Anomaly"), lt.autograd.detect_anomaly():
            result = fast(x)["result"]
        result.sum().backward()


# Steps of optimizers that find gradients in memory.


MAKE: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda ps: lt.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=1e-2),
    "adamw": lambda ps: lt.optim.AdamW(ps, lr=0.01),
    "rmsprop": lambda ps: lt.optim.RMSprop(ps, lr=0.01, centered=True),
}


@pytest.mark.parametrize("name", MAKE)
def test_steps_after_a_captured_backward(name: str) -> None:
    net, fast, plain = pair()
    own, other = MAKE[name](net.parameters()), MAKE[name](plain.parameters())
    schedules = [lt.optim.lr_scheduler.StepLR(o, 2, gamma=0.5) for o in (own, other)]
    for step in range(7):
        x = lt.randn(5, 6)

        def train(module: Any, x: Tensor = x) -> None:
            optimizer = own if module is fast else other
            optimizer.zero_grad()
            result, _ = module(x)
            result.square().sum().backward()
            optimizer.step()

        both(fast, plain, train)
        for schedule in schedules:
            schedule.step()
        if step == 3:
            own.load_state_dict(copy.deepcopy(own.state_dict()))
        agree(net, plain)
    assert own.state_dict()["param_groups"] == other.state_dict()["param_groups"]


@pytest.mark.lazy
def test_a_step_is_captured_where_gradients_are_in_memory() -> None:
    net, fast, plain = pair()
    own, other = lt.optim.SGD(net.parameters(), lr=0.1), lt.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(4):
        for module, optimizer in ((fast, own), (plain, other)):
            optimizer.zero_grad()
            module(lt.ones(5, 6))[0].square().sum().backward()
            optimizer.step()
    assert optimizers.captured_steps.known[own].why() == ["captured"]
    assert other not in optimizers.captured_steps.known


def test_a_captured_step_does_not_hold_its_optimizer() -> None:
    net, fast, _ = pair()
    own = lt.optim.AdamW(net.parameters(), lr=0.1)
    for _ in range(5):
        own.zero_grad()
        fast(lt.ones(5, 6))[0].square().sum().backward()
        own.step()
    reference = weakref.ref(own)
    gc.disable()
    try:
        del own
        assert reference() is None
    finally:
        gc.enable()


def test_copies_of_settings_do_not_read_optimizers() -> None:
    lt.manual_seed(0)
    layer, settings = nn.Linear(3, 2), {"scale": [2.0]}
    optimizer = lt.optim.AdamW(layer.parameters())

    def train(x: Tensor) -> Tensor:
        scale = copy.deepcopy(settings)["scale"][0]
        optimizer.zero_grad()
        loss: Tensor = layer(x).square().sum() * scale
        loss.backward()
        optimizer.step()
        return loss

    def count(x: Tensor) -> float:
        train(x)
        copied = copy.deepcopy(optimizer)
        return float(copied.state[copied.param_groups[0]["params"][0]]["step"])

    plain: Any = lt.jit(train)
    for _ in range(4):
        plain(lt.ones(4, 3))
    assert not plain.why() or plain.why() == ["captured"]
    counting: Any = lt.jit(count)
    assert [counting(lt.ones(4, 3)) for _ in range(4)] == [5.0, 6.0, 7.0, 8.0]
