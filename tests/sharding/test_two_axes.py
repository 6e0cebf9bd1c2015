"""``fully_shard`` of modules that tensor parallelism divides already, on a mesh of two axes."""

from __future__ import annotations

from pathlib import Path

from tests.distributed.launching import run

PROGRAM = """
import lazyt.nn.functional as F
from lazyt import nn
from lazyt.distributed.tensor import DTensor, Replicate, Shard
from lazyt.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module,
)
from lazyt.errors import LazytError
from lazyt.sharding import checkpoint, fully_shard
from lazyt.sharding.checkpoint.state_dict import get_model_state_dict

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 14), nn.Linear(14, 8)
    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, 3)
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)

def train(net, part):
    optimizer = lazyt.optim.AdamW(net.parameters(), 1e-2)
    norms = []
    for x, y in data:
        optimizer.zero_grad()
        F.cross_entropy(net(x[part]), y[part]).backward()
        total = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        norms.append((total.full_tensor() if isinstance(total, DTensor) else total).item())
        optimizer.step()
    return optimizer, norms

mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

def check(stays):
    global data
    lazyt.manual_seed(0)
    plain, net = Net(), Net()
    net.load_state_dict(plain.state_dict())
    data = [(lazyt.randn(8, 8), lazyt.randint(0, 3, (8,))) for _ in range(3)]
    for block in net.blocks:
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(block, mesh["tp"], plan)
        fully_shard(block, mesh=mesh["dp"], reshard_after_forward=stays)
    fully_shard(net, mesh=mesh["dp"])
    row = mesh["dp"].get_local_rank()
    optimizer, norms = train(net, slice(row * 4, row * 4 + 4))
    _, wanted = train(plain, slice(0, 8))
    assert all(abs(a - b) < 1e-5 for a, b in zip(norms, wanted)), (norms, wanted)
    for (name, p), q in zip(net.named_parameters(), plain.named_parameters()):
        assert lazyt.allclose(p.full_tensor(), q[1], atol=1e-5), name
    up, down = net.blocks[0].up, net.blocks[0].down
    assert up.weight.placements == (Shard(0), Shard(0)) and up.weight.to_local().shape[1] == 8
    assert down.weight.placements == (Shard(1), Shard(0))
    assert down.weight.to_local().shape == (4, 7)
    assert down.bias.placements == (Replicate(), Shard(0))
    assert optimizer.state[down.weight]["exp_avg"].placements == (Shard(1), Shard(0))
    with lazyt.no_grad():
        x = data[0][0]
        assert lazyt.allclose(net(x), plain(x), atol=1e-5)
    return plain, net

check(True)
plain, net = check(False)
folder = os.path.join(os.getcwd(), "stored")
checkpoint.save({"net": get_model_state_dict(net)}, checkpoint_id=folder)
whole = {"net": {name: lazyt.zeros(p.shape) for name, p in plain.named_parameters()}}
checkpoint.load(whole, checkpoint_id=folder)
for name, p in net.named_parameters():
    assert (whole["net"][name] == p.full_tensor()).all(), name
before = {name: p.full_tensor() for name, p in net.named_parameters()}
for p in net.parameters():
    with lazyt.no_grad():
        p.zero_()
own = {"net": get_model_state_dict(net)}
checkpoint.load(own, checkpoint_id=folder)
for name, p in net.named_parameters():
    assert (p.full_tensor() == before[name]).all(), name

layer = parallelize_module(nn.Linear(4, 6), mesh["tp"], ColwiseParallel())
try:
    fully_shard(layer, mesh=dist.init_device_mesh("cpu", (4,)))
except ValueError as error:
    assert "same parent mesh" in str(error)
else:
    raise AssertionError
layer = parallelize_module(nn.Linear(4, 6), mesh["tp"], ColwiseParallel())
fully_shard(layer, mesh=mesh["dp"])
try:
    shares, parameters = dist.Shares(4), list(layer.parameters())
    shares.backward(lambda x: layer(x).sum(), lazyt.ones(1, 4), parameters=parameters)
except LazytError as error:
    assert "tensor parallelism" in str(error)
else:
    raise AssertionError
"""


def test_tensor_parallel_modules_are_divided_again(tmp_path: Path) -> None:
    run(PROGRAM, 4, tmp_path)
