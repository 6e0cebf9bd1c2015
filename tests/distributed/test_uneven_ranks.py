"""Ranks with different numbers of batches, and gradients that are sent as thin matrices."""

from __future__ import annotations

from pathlib import Path

import pytest

import lazyt
from lazyt.distributed.comm_hooks import GradBucket
from lazyt.sharding.power_sgd import PowerSGDState
from tests.distributed.launching import run

PROGRAM = """
from lazyt import nn
from lazyt.distributed.joining import Join, Joinable, JoinHook
from lazyt.nn.parallel import DistributedDataParallel as DDP
from lazyt.sharding import ZeroRedundancyOptimizer
from lazyt.sharding.power_sgd import PowerSGDState, batched_powerSGD_hook, powerSGD_hook

def rows(step, of):
    return (lazyt.arange(12.0).reshape(3, 4) * (step + 2 * of + 1)).sin()

def make(**options):
    lazyt.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
    return net if options.pop("plain", False) else DDP(net, bucket_cap_mb=1e-4, **options)

# What one process gives: in the first two steps the gradients of both, then those of rank 1 alone.
def reference(by_all):
    nets = [make(plain=True) for _ in range(2)]
    optimizers = [lazyt.optim.SGD(net.parameters(), lr=0.1, momentum=0.5) for net in nets]
    for step in range(5):
        active = [0, 1] if step < 2 else [1]
        for net in nets:
            net.zero_grad()
        for of in active:
            nets[of](rows(step, of)).square().mean().backward()
        count = 2 if by_all else len(active)
        grads = [sum(p.grad for p in same if p.grad is not None) / count
                 for same in zip(*(net.parameters() for net in nets))]
        for net, optimizer in zip(nets, optimizers):
            for p, g in zip(net.parameters(), grads):
                p.grad = g.clone()
            optimizer.step()
    return nets[1]

for by_all in (True, False):
    for zero in (False, True):
        model = make(broadcast_buffers=False)
        kind = lazyt.optim.SGD
        how = {"lr": 0.1, "momentum": 0.5}
        optimizer = (
            ZeroRedundancyOptimizer(model.parameters(), kind, **how) if zero
            else kind(model.parameters(), **how)
        )
        together = [model, optimizer] if zero else [model]
        with Join(together, divide_by_initial_world_size=by_all):
            for step in range(5 if rank else 2):
                optimizer.zero_grad()
                model(rows(step, rank)).square().mean().backward()
                optimizer.step()
        want = reference(by_all)
        for p, q in zip(model.module.parameters(), want.parameters()):
            assert lazyt.allclose(p, q, atol=1e-5), (by_all, zero, p, q)
        every = [None] * size
        dist.all_gather_object(every, [t.tolist() for t in model.state_dict().values()])
        assert every[0] == every[1]

# With buffers of the first rank, or of the last one that has batches; parameters that are not used.
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 1), nn.Linear(4, 1)
        self.register_buffer("calls", lazyt.zeros(1))
    def forward(self, x, first):
        self.calls += 1
        return (self.a if first else self.b)(x)
lazyt.manual_seed(1)
model = DDP(Branches(), find_unused_parameters=True)
with model.join():
    for step in range(4 if rank else 1):
        model(rows(step, rank), step % 2 == 0).sum().backward()
assert model.module.calls.item() == 4 and model.module.b.weight.grad is not None
model.zero_grad()
try:
    with model.join(throw_on_early_termination=True):
        for step in range(1 + rank):
            model(rows(step, rank), True).sum().backward()
    raise SystemExit("no error")
except RuntimeError as error:
    assert "exhausted inputs" in str(error)
with model.join(enable=False):
    pass

class Counter(Joinable):
    def __init__(self):
        super().__init__()
        self.count, self.most = 0, None
    def __call__(self):
        Join.notify_join_context(self)
        t = lazyt.ones(1)
        dist.all_reduce(t)
        self.count += t.item()
    def join_hook(self, **kwargs):
        counter = self
        class Hook(JoinHook):
            def main_hook(self):
                dist.all_reduce(lazyt.zeros(1))
            def post_hook(self, is_last_joiner):
                counter.most = is_last_joiner
        return Hook()
    join_device = "cpu"
    join_process_group = dist.group.WORLD
counter = Counter()
assert isinstance(model, Joinable)
with Join([counter]):
    for _ in range(3 + rank):
        counter()
assert (counter.count, counter.most) == ((6.0, False), (7.0, True))[rank]

# Thin matrices: exact for gradients of that rank, and what is lost comes with the next ones.
def network():
    lazyt.manual_seed(2)
    return nn.Sequential(nn.Linear(30, 40), nn.Linear(40, 2))
x = (lazyt.arange(240.0).reshape(8, 30) * (1 + rank)).sin()
want = DDP(network())
want(x).square().mean().backward()
for hook in (powerSGD_hook, batched_powerSGD_hook):
    for r, exact in ((1, False), (16, True)) if hook is powerSGD_hook else ((8, False),):
        model = DDP(network())
        state = PowerSGDState(None, matrix_approximation_rank=r, start_powerSGD_iter=2,
                              min_compression_rate=1)
        model.register_comm_hook(state, hook)
        total = [0] * 4
        for step in range(42):
            model.zero_grad()
            model(x).square().mean().backward()
            if step == 1:
                assert all(lazyt.allclose(p.grad, q.grad, atol=1e-5)
                           for p, q in zip(model.parameters(), want.parameters()))
            if step >= 2:
                total = [t + p.grad for t, p in zip(total, model.parameters())]
        for t, q in zip(total, want.parameters()):
            far = ((t / 40 - q.grad).norm() / q.grad.norm()).item()
            assert far < (1e-4 if exact else 0.2), (hook, r, far)
        rate, before, after = state.compression_stats()
        assert after < before and rate > 1 and state.iter == 42
print("well")
"""


def test_two_ranks(tmp_path: Path) -> None:
    assert [text.splitlines()[-1] for text in run(PROGRAM, 2, tmp_path)] == ["well"] * 2


def test_wrong_starts() -> None:
    with pytest.raises(ValueError, match="Expect `start_powerSGD_iter` > 1"):
        PowerSGDState(None, start_powerSGD_iter=1)
    state = PowerSGDState(None, start_powerSGD_iter=0, use_error_feedback=False, warm_start=False)
    weight = lazyt.nn.Parameter(lazyt.ones(2))
    weight.grad = lazyt.ones(2)
    state.maybe_increase_iter(GradBucket(0, [weight], True))
    assert state.iter == 1 and state.compression_stats() == (0.0, 0, 0)
