"""What is divided among ranks gives what whole modules and optimizers give, to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.launching import run

#: Losses, the norm of gradients and weights after some steps, by what is divided.
TRAIN = """
from lazyt import nn
import lazyt.nn.functional as F
import hashlib
from lazyt.sharding import ZeroRedundancyOptimizer, fully_shard
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(20, 50), nn.Linear(50, 20), nn.Dropout(0.2)
    def forward(self, x):
        return x + self.drop(self.b(F.gelu(self.a(x))))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 20), nn.Linear(20, 3)
        self.blocks = nn.Sequential(Block(), Block())
    def forward(self, x):
        return self.last(self.blocks(self.first(x)))
def train(zero):
    shares = dist.Shares(4)
    lazyt.manual_seed(3)
    net = Net()
    if zero >= 2:
        for block in net.blocks:
            fully_shard(block, reshard_after_forward=zero == 3)
        fully_shard(net, reshard_after_forward=zero == 3)
    groups = [
        {"params": [p for p in net.parameters() if p.dim() == 2], "weight_decay": 0.1},
        {"params": [p for p in net.parameters() if p.dim() != 2]},
    ]
    make = lazyt.optim.AdamW
    if zero == 1:
        optimizer = ZeroRedundancyOptimizer(groups, make, lr=1e-2, parameters_as_bucket_view=True)
    else:
        optimizer = make(groups, lr=1e-2)
    schedule = lazyt.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
    x, y = lazyt.randn(60, 5), lazyt.randint(0, 3, (60,))
    found = []
    for step in range(2):
        rows = lazyt.randint(0, 60, (20,))[shares.rows(20)]
        optimizer.zero_grad()
        loss = shares.backward(
            lambda a, b: F.cross_entropy(net(a), b), x[rows], y[rows], parameters=net.parameters()
        )
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        found += [loss.item().hex(), norm.item().hex()]
        optimizer.step()
        schedule.step()
    if zero >= 2:
        kept = sum(p.to_local().numel() for p in net.parameters())
        moments = [t for s in optimizer.state.values() for t in s.values() if t.dim()]
        kept += sum(t.to_local().numel() for t in moments)
        whole = sum(p.numel() for p in net.parameters())
        assert kept <= 3 * whole * (1 / size + 0.05), (kept, whole)
        for module in net.modules():
            if hasattr(module, "unshard"):
                module.unshard()
    data = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
    return found, hashlib.sha256(data).hexdigest(), optimizer
want = train(0)
for zero in ZEROS:
    found = train(zero)
    assert found[:2] == want[:2], (zero, found[:2], want[:2])
    if zero == 1:
        found[2].consolidate_state_dict(0)
        if rank == 0:
            assert str(found[2].state_dict()) == str(want[2].state_dict())
            found[2].load_state_dict(want[2].state_dict())
        else:
            try:
                found[2].state_dict()
                raise SystemExit("state that is not here")
            except RuntimeError as error:
                assert "has not been consolidated on this rank" in str(error)
print(want[:2])
"""

FEATURES = """
from lazyt import nn
import lazyt.nn.functional as F
from lazyt.sharding import FSDPModule, MixedPrecisionPolicy, fully_shard
from lazyt.utils.checkpoint import checkpoint
class Block(nn.Module):
    def __init__(self, again):
        super().__init__()
        self.a, self.b, self.again = nn.Linear(9, 30), nn.Linear(30, 9), again
    def inner(self, x):
        return self.b(F.gelu(self.a(x)))
    def forward(self, x):
        return x + (checkpoint(self.inner, x, use_reentrant=False) if self.again else self.inner(x))
class Net(nn.Module):
    def __init__(self, again):
        super().__init__()
        self.emb = nn.Embedding(7, 9)
        self.blocks = nn.ModuleList([Block(again), Block(again)])
        self.last = nn.Linear(9, 7, bias=False)
        self.last.weight = self.emb.weight
        self.frozen = nn.Linear(9, 9)
        self.frozen.requires_grad_(False)
    def forward(self, x):
        h = self.frozen(self.emb(x))
        for block in self.blocks:
            h = block(h)
        return self.last(h)
def make(again=False, **how):
    lazyt.manual_seed(5)
    net = Net(again)
    for block in net.blocks:
        fully_shard(block, **how)
    return fully_shard(net, **how)
lazyt.manual_seed(100 + rank)
x = lazyt.randint(0, 7, (4, 6))
def loss(net):
    return F.cross_entropy(net(x).flatten(0, 1).float(), x.flatten())
lazyt.manual_seed(5)
alone = Net(False)
loss(alone).backward()
want = {}
for name, p in alone.named_parameters():
    if p.grad is not None:
        dist.all_reduce(p.grad, "avg")
        want[name] = p.grad
def check(net, factor=1.0):
    for name, p in net.named_parameters():
        if name not in want:
            assert p.grad is None
            continue
        assert lazyt.allclose(p.grad.full_tensor(), want[name] * factor, atol=1e-5), name
for again in (False, True):
    net = make(again)
    assert isinstance(net, FSDPModule) and isinstance(net, Net) and type(net).__name__ == "FSDPNet"
    loss(net).backward()
    check(net)
    loss(net).backward()  # on top of it
    check(net, 2.0)
net = make()
net.set_requires_gradient_sync(False)
loss(net).backward()
assert all(p.grad is None for p in net.parameters())
net.set_requires_gradient_sync(True)
loss(net).backward()
check(net, 2.0)
with lazyt.no_grad():
    assert lazyt.equal(net(x), alone(x))
    nn.utils.clip_grad_value_(net.parameters(), 1e-3)
assert all(p.grad is None or p.grad.abs().max() <= 1e-3 for p in net.parameters())
net.unshard()
assert net.last.weight.shape == (7, 9) and net.last.weight is net.emb.weight
net.reshard()
assert net.last.weight.shape == (7, 9)
assert net.last.weight.to_local().shape == (4 if rank == 0 else 3, 9)
low = make(mp_policy=MixedPrecisionPolicy(param_dtype=lazyt.bfloat16, reduce_dtype=lazyt.float32))
assert low(x).dtype is lazyt.bfloat16
loss(low).backward()
assert low.emb.weight.grad.dtype is low.emb.weight.dtype is lazyt.float32
compiled = make()
for _ in range(2):
    compiled.zero_grad()
    loss(lazyt.compile(compiled)).backward()
    check(compiled)
print("well")
"""


@pytest.mark.parametrize(("size", "zeros"), [(2, "(1,)"), (2, "(2,)"), (3, "(3,)")])
def test_all_divisions_have_one_result(size: int, zeros: str, tmp_path: Path) -> None:
    """That of ranks that have everything, which is one for any number of ranks."""
    program = TRAIN.replace("ZEROS", zeros)
    assert len({text.splitlines()[-1] for text in run(program, size, tmp_path)}) == 1


def test_fully_shard(tmp_path: Path) -> None:
    assert [t.splitlines()[-1] for t in run(FEATURES, 2, tmp_path)] == ["well"] * 2
