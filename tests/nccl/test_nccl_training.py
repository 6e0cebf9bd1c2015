"""Two ranks with a GPU each, which the emulator is, train as two ranks on the CPU: to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nccl.mock import calls, run

#: Small, as every kernel is compiled for the emulator.
TRAIN = """
import hashlib
from lazyt import nn
import lazyt.nn.functional as F
from lazyt.sharding import fully_shard
lazyt.manual_seed(3)
x, y = lazyt.randn(8, 3), lazyt.randn(8, 3)
def trained(kind, device):
    lazyt.manual_seed(4)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)).to(device)
    shares = dist.Shares(4)
    if "parallel" in kind:
        model = nn.parallel.DistributedDataParallel(model)
    elif "shard" in kind:
        for layer in (model[0], model[2], model):
            fully_shard(layer)
    optimizer = lazyt.optim.SGD(model.parameters(), 0.1)
    rows = shares.rows(8)
    a, b = x[rows].to(device), y[rows].to(device)
    def step():
        optimizer.zero_grad()
        if "shares" in kind:
            loss = shares.backward(
                lambda a, b: F.mse_loss(model(a), b), a, b, parameters=model.parameters()
            )
        else:
            loss = F.mse_loss(model(a), b)
            loss.backward()
        optimizer.step()
        return loss
    if "captured" in kind:
        step = lazyt.jit(step)
    losses = [step().item().hex() for _ in range(3)]
    if kind == "captured parallel" and device != "cpu" and os.environ.get("LAZYT_EAGER") != "1":
        text = str(step.explain())
        assert "moved by NCCL" in text and "transfer" in text, text
    data = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
    return losses, hashlib.sha256(data).hexdigest()
kinds = os.environ["KINDS"].split(", ")
want = trained(kinds[0], "cpu")
for kind in kinds:
    got = trained(kind, there)
    assert want == got, (kind, want, got)
print(got[1] if "shares" in kinds else "well")
dist.destroy_process_group()
"""

#: What a program does beside its step, with nothing but NCCL.
AROUND = """
import tempfile
from lazyt import nn
from lazyt.distributed import functional
from lazyt.distributed.tensor import Shard, distribute_tensor
from lazyt.sharding import ZeroRedundancyOptimizer, checkpoint, fully_shard
x = lazyt.full((2, 3), rank + 1.0, device=there)
class Some(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(3, 1), nn.Linear(3, 1)
    def forward(self, x):
        return self.used(x)
net = nn.parallel.DistributedDataParallel(Some().to(there), find_unused_parameters=True)
net(x).sum().backward()
assert net.module.used.weight.grad.tolist() == [[3.0] * 3] and net.module.unused.weight.grad is None
y = lazyt.ones(2, device=there, requires_grad=True)  # its gradient is a constant
(functional.broadcast(y, 0) * (rank + 1)).sum().backward()
assert y.grad.tolist() == [3.0 - 3.0 * rank] * 2
lazyt.manual_seed(5)  # one model on both ranks
zero = nn.Linear(3, 1).to(there)
optimizer = ZeroRedundancyOptimizer(zero.parameters(), lazyt.optim.SGD, lr=1.0)
before = zero.bias.item()
zero(x).mean().backward()
optimizer.step()
assert abs(zero.bias.item() - before + 1) < 1e-6
shard = nn.Linear(3, 1, bias=False).to(there)  # the second rank has no row
fully_shard(shard)
shard(x).sum().backward()
norm = nn.utils.clip_grad_norm_(shard.parameters(), 1.0)
assert abs(norm.item() - 27**0.5) < 1e-6, norm
folder = [tempfile.mkdtemp()]
dist.broadcast_object_list(folder, 0)
checkpoint.save({"model": shard.state_dict()}, checkpoint_id=folder[0])
checkpoint.load({"model": shard.state_dict()}, checkpoint_id=folder[0])
mesh = dist.init_device_mesh("cuda", (2,))
divided = distribute_tensor(lazyt.arange(8.0, device=there).reshape(4, 2), mesh, [Shard(0)])
assert divided.sum(0).full_tensor().tolist() == [12.0, 16.0]
dist.barrier()
print("well")
dist.destroy_process_group()
"""


@pytest.mark.parametrize("without", ["", "mpi4py"])
def test_what_is_around_a_step(without: str, tmp_path: Path) -> None:
    assert run(AROUND, 2, tmp_path, WITHOUT_MPI=without) == ["well"] * 2


@pytest.mark.parametrize("kinds", ["parallel, captured parallel", "shard, captured shard"])
def test_two_devices_train_as_two_hosts(kinds: str, tmp_path: Path) -> None:
    found = run(TRAIN, 2, tmp_path, "cpu:gloo,cuda:nccl", KINDS=kinds)
    assert found == ["well"] * 2
    assert any("stream=" in call for call in calls(tmp_path))


def test_any_number_of_devices_gives_one_result(tmp_path: Path) -> None:
    found = set()
    for size in (1, 2):
        folder = tmp_path / str(size)
        folder.mkdir()
        found |= {*run(TRAIN, size, folder, "cpu:gloo,cuda:nccl", KINDS="shares")}
    assert len(found) == 1
