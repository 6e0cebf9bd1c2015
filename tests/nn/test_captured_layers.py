"""``lazyt.jit`` over recurrent layers and transformers: the same as without, train and eval."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
from lazyt import nn


def make(kind: str) -> tuple[Any, Any]:
    """A module and its input."""
    lazyt.manual_seed(3)
    if kind == "lstm":
        return nn.LSTM(3, 4, batch_first=True), lazyt.randn(2, 3, 3)
    return nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0), lazyt.randn(3, 2, 4)


def first(out: Any) -> Any:
    """The output without the states."""
    return out[0] if isinstance(out, tuple) else out


@pytest.mark.lazy
@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_captured_modules_give_what_they_gave(kind: str) -> None:
    net, x = make(kind)
    captured = lazyt.jit(net)
    for training in (True, False):
        net.train(training)
        wanted = first(net(x)).detach().clone()
        for _ in range(3):
            assert lazyt.allclose(first(captured(x)), wanted, atol=1e-6)
    assert captured._captured.why().count("captured") == 2


def test_a_captured_training_step_learns_as_without() -> None:
    losses = []
    for wraps in (False, True):
        net, x = make("lstm")
        optimizer = lazyt.optim.SGD(net.parameters(), lr=0.1)

        def step(x: Any, net: Any = net, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = net(x)[0].square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            return loss.detach()

        run = lazyt.jit(step) if wraps else step
        losses.append([run(x).item() for _ in range(5)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][-1] < losses[0][0]


def test_a_module_may_compile_itself() -> None:
    net, x = make("transformer")
    net.eval()
    wanted = net(x).detach().clone()
    net.compile()
    for _ in range(3):
        assert lazyt.allclose(net(x), wanted, atol=1e-6)


def test_a_captured_module_is_a_module_with_one_submodule() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    captured = lazyt.jit(net)
    keys = ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert isinstance(captured, nn.Module) and captured._orig_mod is net
    assert list(captured.state_dict()) == [name for name, _ in captured.named_parameters()] == keys
    assert [name for name, _ in captured.named_children()] == ["_orig_mod"]
    other = lazyt.jit(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    captured.load_state_dict(other.state_dict())
    x = lazyt.ones(1, 2)
    assert lazyt.equal(captured(x), other(x))
    assert captured.eval() is captured and not net.training and not captured.training
    captured.note = 3
    assert net.note == 3
    del captured.note
    assert not hasattr(net, "note")
    assert all(a is b for a, b in zip(captured.parameters(), net.parameters(), strict=True))


@pytest.mark.lazy
def test_parts_of_a_module_are_captured() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.first = lazyt.jit(self.first)
            self.blocks = nn.ModuleList([nn.Linear(3, 3), nn.Tanh()])
            for number, block in enumerate(self.blocks):
                self.blocks[number] = lazyt.jit(block)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            for block in self.blocks:
                x = block(x)
            return x

    lazyt.manual_seed(1)
    net, x = Net(), lazyt.rand(2, 3)
    assert "blocks.0._orig_mod.weight" in net.state_dict()
    optimizer = lazyt.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert net.first.why() == ["captured"] and net.blocks[0].why() == ["captured"]
    whole = lazyt.jit(net)
    wanted = net(x)
    for _ in range(3):
        assert lazyt.equal(whole(x), wanted)
    assert whole.why() == ["captured"]


def test_hooks_of_a_captured_module_run_at_every_call() -> None:
    captured = lazyt.jit(nn.Linear(2, 2))
    seen: list[str] = []
    captured.register_forward_hook(lambda module, args, result: seen.append("after"))
    captured.register_forward_pre_hook(lambda module, args: seen.append("before"))
    for _ in range(3):
        captured(lazyt.ones(1, 2))
    assert seen == ["before", "after"] * 3
