"""Custom functions and checkpoints in captured functions: the same gradients, from plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt
from lazyt.autograd import Function
from lazyt.autograd.function import once_differentiable
from lazyt.utils.checkpoint import checkpoint

Program = Callable[[Any], Any]


class Swish(Function):
    """Saves its argument."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * lazyt.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        s = lazyt.sigmoid(x)
        return g * (s * (1 + x * (1 - s)))


class Exp(Function):
    """Saves its result, and a number."""

    @staticmethod
    def forward(ctx: Any, x: Any, k: float) -> Any:
        y = lazyt.exp(x * k)
        ctx.save_for_backward(y)
        ctx.k = k
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0] * ctx.k, None


class Sin(Function):
    """Calls another custom function in its backward, which calls this one."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * Cos.apply(ctx.saved_tensors[0])


class Cos(Function):
    """The other one."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.cos()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return -g * Sin.apply(ctx.saved_tensors[0])


class Two(Function):
    """Has two results, and tells apart which of them has a gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        parts = [c * part for c, part in ((2, g), (3, h)) if part is not None]
        return sum(parts[1:], parts[0])


class Once(Function):
    """Its gradient has none."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2 * ctx.saved_tensors[0]


class Frees(Function):
    """Its backward takes what it needs off its ctx."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.factor = x.detach() + 1
        return x * ctx.factor

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        factor = ctx.factor
        del ctx.factor
        return g * factor


weight = lazyt.nn.Parameter(lazyt.tensor([0.5, -1.0, 2.0]))
dropout = lazyt.nn.Dropout(0.5)


def _block(x: Any) -> Any:
    return lazyt.tanh(Swish.apply(x * weight)) * 2


PROGRAMS: dict[str, Program] = {
    "argument": lambda x: Swish.apply(x @ x.mT).sum(),
    "result": lambda x: (Exp.apply(x * weight, 0.5) * x).sum(),
    "nested": lambda x: Sin.apply(Sin.apply(x) * weight).sum(),
    "first result": lambda x: Two.apply(x * weight)[0].sum(),
    "both results": lambda x: sum(part.square().sum() for part in Two.apply(x * weight)),
    "once": lambda x: Once.apply(x * weight).sum(),
    "frees": lambda x: Frees.apply(x * weight).sum(),
    "checkpoint": lambda x: checkpoint(_block, x, use_reentrant=False).square().sum(),
    "reentrant": lambda x: checkpoint(_block, x, use_reentrant=True).square().sum(),
    "inner checkpoint": lambda x: checkpoint(
        lambda t: checkpoint(_block, t * 2, use_reentrant=False).exp(), x, use_reentrant=False
    ).sum(),
    "dropout": lambda x: (
        checkpoint(lambda t: dropout(t * weight).tanh(), x, use_reentrant=False) * dropout(x)
    ).sum(),
}


def trained(function: Program, x: Any, seed: int) -> list[Any]:
    """Its result and its gradients."""
    lazyt.manual_seed(seed)
    weight.grad = None
    x = x.clone().requires_grad_()
    y = function(x)
    y.backward()
    return [y.tolist(), x.grad.tolist(), None if weight.grad is None else weight.grad.tolist()]


def second(function: Program, x: Any) -> list[Any]:
    """Its gradient, and the gradient of that."""
    lazyt.manual_seed(5)
    x = x.clone().requires_grad_()
    g: Any = lazyt.autograd.grad(function(x), x, create_graph=True)[0]
    h: Any = lazyt.autograd.grad(g.square().sum(), x)[0]
    return [g.tolist(), h.tolist()]


def same(found: list[Any], wanted: list[Any]) -> None:
    """Second gradients may be summed in another order."""
    for part, other in zip(found, wanted, strict=True):
        assert lazyt.allclose(lazyt.tensor(part), lazyt.tensor(other), rtol=1e-4)


@pytest.mark.lazy
@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_gradients_are_those_of_the_function(name: str) -> None:
    function = PROGRAMS[name]
    captured = lazyt.jit(function, fullgraph=True)
    for seed in range(4):
        x = lazyt.rand(3, 3) + seed
        wanted = trained(function, x, seed)
        assert trained(captured, x, seed) == wanted
    assert captured.why() == ["captured"]


# Second gradients through checkpoints are added in another order where they are not captured.
@pytest.mark.varies
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("first result", "frees")])
def test_captured_gradients_have_gradients(name: str) -> None:
    function = PROGRAMS[name]
    captured = lazyt.jit(function)
    for seed in range(3):
        trained(captured, lazyt.rand(3, 3), seed)
    for _ in range(2):
        x = lazyt.rand(3, 3)
        if name == "once":
            for either in (function, captured):
                with pytest.raises(lazyt.errors.GradientError):
                    second(either, x)
        else:
            same(second(captured, x), second(function, x))


@pytest.mark.lazy
def test_numbers_that_a_backward_reads_are_followed_or_compared() -> None:
    captured = lazyt.jit(lambda x, k: Exp.apply(x, k).sum())
    for k in (0.5, 0.25, 2.0, -1.0, 0.125):
        x: Any = lazyt.tensor([0.5, 1.0], requires_grad=True)
        captured(x, k).backward()
        assert lazyt.allclose(x.grad, k * lazyt.exp(k * x.detach()))
    assert captured.why()[0] == "captured"


scale = [2.0]


class Scaled(Function):
    """Its backward reads the state of the module."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * scale[0]


@pytest.mark.lazy
def test_state_that_a_backward_reads_is_guarded() -> None:
    captured = lazyt.jit(lambda x: Scaled.apply(x).sum())
    for value in (2.0, 2.0, 2.0, 2.0, 3.0, 3.0):
        scale[0] = value
        x: Any = lazyt.ones(2, requires_grad=True)
        captured(x).backward()
        assert x.grad.tolist() == [value, value]
    assert sum(reason.startswith("captured again") for reason in captured.why()) == 1


printed: list[str] = []


class Appends(Function):
    """Its backward changes a list."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        printed.append("backward")
        return g * 2


class Prints(Function):
    """Its backward prints."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        print("backward")
        return g * 2


class Looks(Function):
    """Its backward looks at a gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (2 if g.sum().item() > 0 else 3)


@pytest.mark.lazy
@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
@pytest.mark.parametrize(
    ("kind", "reason"),
    [(Appends, "changes printed"), (Prints, "it prints"), (Looks, "it looks at a value")],
)
def test_what_a_replay_cannot_repeat_is_not_captured(
    kind: Any, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    captured = lazyt.jit(lambda x: kind.apply(x).sum())
    for sign in (1, -1, 1, -1):
        x: Any = lazyt.ones(2, requires_grad=True)
        (sign * captured(x)).backward()
        factor = 3 if kind is Looks and sign < 0 else 2
        assert x.grad.tolist() == [sign * factor] * 2
    assert reason in captured.why()[-1]
    if kind is Prints:  # as often as without: a trace stops before it prints
        assert capsys.readouterr().out == "backward\n" * 4


@pytest.mark.lazy
def test_checkpoints_of_a_captured_function_store_less() -> None:
    layers = lazyt.nn.ModuleList([lazyt.nn.Linear(8, 8) for _ in range(4)])

    def block(layer: Any, x: Any) -> Any:
        return layer(layer(layer(x).tanh()).tanh()).tanh()

    def saved(uses: bool) -> int:
        def run(x: Any) -> Any:
            for layer in layers:
                x = checkpoint(block, layer, x, use_reentrant=False) if uses else block(layer, x)
            return x.sum()

        captured = lazyt.jit(run, fullgraph=True)
        for _ in range(4):
            captured(lazyt.rand(16, 8)).backward()
        assert captured.why() == ["captured"]
        ((replay, _),) = next(iter(captured._captures.values()))
        return len(replay.joint._saved)

    assert 0 < saved(True) <= saved(False) // 2


def test_a_second_backward_raises_as_without() -> None:
    captured = lazyt.jit(PROGRAMS["argument"])
    for _ in range(4):
        x: Any = lazyt.rand(3, 3, requires_grad=True)
        y = captured(x)
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()


@pytest.mark.lazy
def test_values_of_custom_functions_without_gradients_are_captured() -> None:
    captured = lazyt.jit(lambda x: (Swish.apply(x).detach() * x).sum(), fullgraph=True)
    for _ in range(3):
        x: Any = lazyt.rand(3, requires_grad=True)
        captured(x).backward()
        assert lazyt.allclose(x.grad, Swish.apply(x.detach()))
    assert captured.why() == ["captured"]


def test_gradients_of_gradients_go_through_custom_functions_in_checkpoints() -> None:
    lazyt.manual_seed(2)
    x = lazyt.rand(3, 3)
    same(second(PROGRAMS["checkpoint"], x), second(lambda t: _block(t).square().sum(), x))
