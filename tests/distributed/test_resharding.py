"""Parameters of divided modules that captured steps gather for forward and again for backward: no
more than those of a few modules are there at a time, and the bits are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import lazyt
import lazyt.distributed as dist
from lazyt import ops
from lazyt.handle.dispatch import wrap
from lazyt.ir.graph import Node, topological
from lazyt.ops import builders as build
from lazyt.ops.parallel.collectives import COLLECTIVE, Ranks, all_gather
from lazyt.plan.control.resharding import gather_again, groups_of, windows
from tests.distributed.launching import run

STEPS = """
import gc
import lazyt.nn.functional as F
from lazyt import nn
from lazyt.runtime.memory import pool
from lazyt.sharding import fully_shard
WIDTH, LAYERS = 256, 10
def train(captured, shares=0, frozen=False, **more):
    lazyt.manual_seed(3)
    layers = [
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH))
        for _ in range(LAYERS)
    ]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 3))
    if frozen:
        layers[4].requires_grad_(False)
    for layer in layers:
        fully_shard(layer, **more)
    fully_shard(model)
    rule = lazyt.optim.SGD(model.parameters(), 1e-2)
    exact = dist.Shares(shares) if shares else None
    x, y = lazyt.randn(24, WIDTH), lazyt.randint(0, 3, (24,))
    if exact:
        x, y = x[exact.rows(24)], y[exact.rows(24)]
    def loss_of(a, b):
        return F.cross_entropy(model(a), b)
    def step(a, b):
        rule.zero_grad()
        if exact:
            return exact.backward(loss_of, a, b, parameters=model.parameters())
        loss = loss_of(a, b)
        loss.backward()
        rule.step()
        return loss.detach()
    call = lazyt.jit(step) if captured else step
    losses = [call(x + i * 0.1, y).item().hex() for i in range(4)]
    gc.collect()
    base = pool.stats().in_use
    pool.reset_peak()
    losses.append(call(x, y).item().hex())
    peak = pool.stats().peak - base
    state = [v.full_tensor().numpy().tobytes() for v in model.state_dict().values()]
    grads = [None if p.grad is None else p.grad.to_local().tolist() for p in model.parameters()]
    return (losses, state, grads), peak, call
want, _, _ = train(False)
again, low, call = train(True)
kept, high, other = train(True, reshard_after_forward=False)
assert again == want and kept == want
for more in ({"shares": 4}, {"frozen": True}, {"reshard_after_forward": 1}):
    assert train(True, **more)[0] == train(False, **more)[0], more
if not lazyt.config.eager:
    layer = 4 * (WIDTH * WIDTH + 3 * WIDTH)
    assert high - low > (LAYERS - 4) * layer, (high, low, layer)
    texts = str(call.explain()), str(other.explain())
    twice, once = ([line for line in t.splitlines() if "all_gather f" in line] for t in texts)
    # Two of each layer and of the model: large parameters by themselves. Of eight layers again.
    starts, all_ = (sum(line.split()[1] == "collective" for line in some) for some in (twice, once))
    assert all_ == 2 * LAYERS + 1 and starts == all_ + 2 * (LAYERS - 2), (starts, all_)
    assert texts[0].count("it is gathered again") == 2 * (LAYERS - 2), texts[0]
print("well")
"""


@pytest.mark.lazy
def test_captured_steps_gather_twice_and_have_little(tmp_path: Path) -> None:
    assert [t.splitlines()[-1] for t in run(STEPS, 2, tmp_path)] == ["well"] * 2


def product(a: Node, b: Node) -> Node:
    """The product of two matrices."""
    return (wrap(a) @ wrap(b)).node


class _Chain:
    """A forward and a backward through some modules, each with one parameter of 4 by 4.

    Attributes:
        calls: the gathers of forward, and for each module a collective of its gradient.
        roots: the gradients.
    """

    def __init__(self, count: int) -> None:
        group = dist.group.WORLD
        assert group is not None
        ranks = Ranks(group.group_name, 0, 1)
        parts = [(lazyt.ones(4, 4) * i).realize().node for i in range(1, count + 1)]
        self.calls = [all_gather(p, ranks, resharded=i) for i, p in enumerate(parts, 1)]
        wholes = [build.permute(call, (1, 0)) for call in self.calls]
        values = [lazyt.ones(2, 4).realize().node]
        for whole in wholes:
            values.append(ops.apply("tanh", product(values[-1], whole)))
        cotangent = ops.apply("exp", values.pop())
        self.roots: list[Node] = []
        for call, value in zip(reversed(self.calls[:]), reversed(values)):
            gradient = product(build.permute(value, (1, 0)), cotangent)
            self.calls.append(all_gather(gradient, ranks))
            self.roots.append(self.calls[-1])
            cotangent = product(cotangent, call)


def _gathers(node: Node) -> set[int]:
    """The modules whose parameters a value depends on; negative for those gathered again."""
    order = topological([node], lambda n: n.data is not None)
    return {n.params.resharded for n in order if n.op is COLLECTIVE and n.data is None} - {0}


@pytest.mark.lazy
def test_where_second_gathers_stand() -> None:
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        chain = _Chain(5)
        found = gather_again(chain.roots, chain.calls)
        # Those of the fifth and fourth module stay; the first one's has no use in backward.
        modules = [call.params.resharded for call in found.calls]
        assert modules == [1, 2, 3, 4, 5, 0, 0, -1, 0, -2, 0, 0], modules
        assert [root in found.calls for root in found.roots] == [True] * 5
        assert _gathers(found.roots[1]) == {1, 2, 3, 4, 5}
        assert _gathers(found.roots[4]) == {1, 2, 3, 4, 5, -1, -2}
        # Each waits for the one before, and for gradients that were on their way before that.
        held = windows(found.calls)
        assert [bin(bits) for bits in held[:5]] == ["0b0", "0b1", "0b11", "0b111", "0b1111"]
        assert held[5:] == [0, 0, 0b11111, 0, 0b11111111, 0, 0]
        assert groups_of(found.calls) == [[0], [1], [2], [3], [4], [7], [9]]
        short = gather_again(chain.roots[:1], chain.calls[3:6])
        assert short.calls == chain.calls[3:6] and short.roots == chain.roots[:1]
    finally:
        dist.destroy_process_group()


@pytest.mark.lazy
def test_a_module_computes_when_those_inside_have() -> None:
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        group = dist.group.WORLD
        assert group is not None
        ranks = Ranks(group.group_name, 0, 1)
        parts = [(lazyt.ones(4, 4) * i).realize().node for i in range(1, 6)]
        calls = [all_gather(p, ranks, resharded=i) for i, p in enumerate(parts, 1)]
        value = lazyt.ones(2, 4).realize().node
        for number in (0, 1, 2, 0, 3, 4):  # the second and third are inside of the first
            value = ops.apply("tanh", product(value, calls[number]))
        found = gather_again([value], calls)
        assert [call.params.resharded for call in found.calls] == [1, 2, 3, -1, 4, 5]
        assert _gathers(found.roots[0]) == {1, 2, 3, -1, 4, 5}
    finally:
        dist.destroy_process_group()
