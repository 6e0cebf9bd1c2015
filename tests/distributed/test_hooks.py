"""Communication hooks of DistributedDataParallel, and collectives by PyTorch's other signatures."""

from __future__ import annotations

from pathlib import Path

import pytest

import lazyt
from lazyt import nn
from lazyt.sharding.checkpoint_wrapper import apply_activation_checkpointing, checkpoint_wrapper
from tests.distributed.launching import run

HOOKS = """
from lazyt import nn
from lazyt.distributed import comm_hooks as H
def make():
    lazyt.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 30), nn.ReLU(), nn.Linear(30, 2))
    return nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1e-4)
x = (lazyt.arange(24.0).reshape(6, 4) * (rank + 1)).sin()
want = make()
want(x).square().sum().backward()
def check(hook, tolerance):
    net = make()
    net.register_comm_hook(None, hook)
    for _ in range(2):
        net.zero_grad()
        net(x).square().sum().backward()
        for p, q in zip(net.parameters(), want.parameters()):
            assert lazyt.allclose(p.grad, q.grad, atol=tolerance, rtol=tolerance), hook
    try:
        net.register_comm_hook(None, hook)
        raise SystemExit("a second hook")
    except RuntimeError as error:
        assert "can only be called once" in str(error)
seen = []
def own(state, bucket):
    assert lazyt.equal(lazyt.cat([g.flatten() for g in bucket.gradients()]), bucket.buffer())
    seen.append((bucket.index(), bucket.is_last(), len(bucket.parameters())))
    return H.allreduce_hook(state, bucket)
check(own, 1e-5)
assert seen[:4] == [(0, False, 1), (1, False, 1), (2, False, 1), (3, True, 1)]
check(H.fp16_compress_hook, 2e-2)
check(H.bf16_compress_wrapper(H.allreduce_hook), 1e-1)
print("well")
"""

COLLECTIVES = """
from lazyt.sharding import functional_collectives as C
t = lazyt.arange(6.0).reshape(3, 2) + 10 * rank
t.requires_grad_()
g = C.all_gather_tensor(t, 1)
assert g.shape == (3, 4) and g[:, 2:].tolist() == (lazyt.arange(6.0).reshape(3, 2) + 10).tolist()
(g * (rank + 1)).sum().backward()
assert t.grad.tolist() == [[3.0, 3.0]] * 3
r = C.reduce_scatter_tensor(lazyt.ones(3, 4) * (rank + 1), "sum", 1)
assert r.tolist() == [[3.0, 3.0]] * 3
assert C.permute_tensor(lazyt.full((2,), float(rank)), [1, 0]).tolist() == [1.0 - rank] * 2
o = C.all_to_all([lazyt.zeros(2)] * 2, [lazyt.full((2,), 10.0 * rank + i) for i in range(2)])
assert [v.tolist() for v in o] == [[0.0 + rank] * 2, [10.0 + rank] * 2]
assert C.scatter([lazyt.full((2,), float(i)) for i in range(2)], 0).tolist() == [rank] * 2
assert C.reduce(lazyt.ones(2), 0).tolist() == [2.0 - rank] * 2
assert C.gather(lazyt.ones(2), 0)[1].tolist() == [1.0 - rank] * 2
e = C.reduce_scatter_list(lazyt.zeros(2), [lazyt.ones(2), lazyt.ones(2) * 3])
assert e.tolist() == [2.0 + 4 * rank] * 2
assert C.all_to_all_into(lazyt.zeros(2), lazyt.arange(2.0) + rank).tolist() == [rank, rank + 1.0]
assert C.wait_tensor(e) is e
try:
    C.reduce_scatter_tensor(lazyt.ones(3, 3), "sum", 1)
except (RuntimeError, ValueError) as error:
    assert "must be a multiple of group_size 2" in str(error)
    print("well")
"""


@pytest.mark.parametrize("program", [HOOKS, COLLECTIVES], ids=["hooks", "collectives"])
def test_two_ranks(program: str, tmp_path: Path) -> None:
    assert [t.splitlines()[-1] for t in run(program, 2, tmp_path)] == ["well"] * 2


def test_modules_that_are_computed_again() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    names, x = list(net.state_dict()), lazyt.randn(2, 3)
    net(x).sum().backward()
    want = [p.grad for p in net.parameters()]
    net.zero_grad()
    apply_activation_checkpointing(net, check_fn=lambda m: isinstance(m, nn.Linear))
    assert list(net.state_dict()) == names
    net.load_state_dict(net.state_dict())
    net(x).sum().backward()
    for p, grad in zip(net.parameters(), want):
        assert p.grad is not None and grad is not None and lazyt.allclose(p.grad, grad)
    layer = checkpoint_wrapper(nn.Linear(2, 1))
    assert [n for n, _ in layer.named_parameters()] == ["weight", "bias"]
    assert layer.in_features == 2
