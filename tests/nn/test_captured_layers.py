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
