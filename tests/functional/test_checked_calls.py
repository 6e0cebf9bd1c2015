"""Functions that check values see wrong ones in tensors of every state, also at replays."""

from __future__ import annotations

import pytest

import lazyt
from lazyt import nn
from lazyt.config import config
from tests.functional.checked_calls import COUNT, failures

#: Calls that ``lazyt.jit`` leaves alone, as they look at values in ways that a replay cannot.
NOT_CAPTURED = {
    "t.repeat_interleave(v, count)", "F.embedding_bag(rows, x, t.tensor([0, 2]))",
    "t.nn.utils.rnn.pack_padded_sequence(x[:2], lengths, True, False).data",
    "F.ctc_loss(x.log_softmax(-1).reshape(4, 1, 5).expand(4, 2, 5), t.ones(2, 3).long(), "
    "steps - 1, t.tensor([1, 1]))",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_random_calls_raise_where_pytorch_raises_in_every_state() -> None:
    wrong, refused = failures(COUNT)
    assert not wrong, "\n".join(wrong[:10])
    unexpected = {text: why for text, why in refused.items() if text not in NOT_CAPTURED}
    assert config.eager or config.interpret or not unexpected


def test_a_step_that_checks_values_is_captured_and_checks_at_every_replay() -> None:
    lazyt.manual_seed(1)
    net = nn.Linear(4, 1)
    optimizer = lazyt.optim.SGD(net.parameters(), lr=0.1)

    def plain(x: lazyt.Tensor, y: lazyt.Tensor) -> lazyt.Tensor:
        optimizer.zero_grad()
        dropped = nn.functional.dropout(x, 0.25)  # the check depends on random numbers
        loss = nn.functional.binary_cross_entropy(net(dropped).sigmoid(), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = lazyt.linspace(-1, 1, 12).reshape(3, 4).realize(), lazyt.tensor([[0.0], [1.0], [0.5]])
    start = [p.detach().clone() for p in net.parameters()]
    results = []
    for step in (plain, lazyt.jit(plain)):
        with lazyt.no_grad():
            for p, value in zip(net.parameters(), start, strict=True):
                p.copy_(value)
        lazyt.manual_seed(2)
        losses = [step(x, y).item() for _ in range(5)]
        before = [p.tolist() for p in net.parameters()]
        with pytest.raises(RuntimeError, match="elements of target"):
            step(x, y + 1)
        assert [p.tolist() for p in net.parameters()] == before
        losses += [step(x, y).item() for _ in range(3)]
        results.append((losses, [p.tolist() for p in net.parameters()]))
    assert results[0] == results[1]


def test_several_pending_arguments_are_looked_at_once() -> None:
    loc, scale = lazyt.zeros(3) + 1, lazyt.ones(3) * 2
    if config.eager:
        return
    made = lazyt.distributions.Normal(loc, scale)
    assert made.scale.node.data is not None
    unchecked = lazyt.distributions.Normal(lazyt.zeros(3) + 3, -scale, validate_args=False)
    assert unchecked.scale.node.data is None


def test_constants_need_no_look() -> None:
    with config.override(strict_laziness=True):
        lazyt.distributions.Normal(0.0, lazyt.ones(5)).log_prob(lazyt.zeros(5))
        lazyt.bernoulli(lazyt.full((1000, 1000), 0.5))
