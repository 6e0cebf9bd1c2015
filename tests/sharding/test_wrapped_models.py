"""``FullyShardedDataParallel`` and meshes of replicas, beyond what ``examples/ranks`` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import lazyt
from lazyt import nn
from lazyt.compat.served.choices import StateDictType
from lazyt.sharding.fsdp.settings import FullStateDictConfig, settings_of
from lazyt.sharding.fsdp.wrap import (
    CustomPolicy,
    always_wrap_policy,
    or_policy,
    size_based_auto_wrap_policy,
    wrap,
    wrap_children,
)
from tests.distributed.launching import run

PROGRAM = """
from lazyt import nn
from lazyt.compat.served.choices import ShardingStrategy
from lazyt.distributed.device_mesh import init_device_mesh
from lazyt.distributed.tensor import DTensor, Replicate, Shard
from lazyt.sharding import fully_shard
from lazyt.sharding.fsdp.fully_sharded import FullyShardedDataParallel as FSDP
from lazyt.sharding.fsdp.sharded_grad_scaler import ShardedGradScaler
import lazyt.nn.functional as F

def net(seed):
    lazyt.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 12), nn.BatchNorm1d(12), nn.Dropout(0.2), nn.Linear(12, 3))
def whole(model):
    return [p.full_tensor().tolist() if isinstance(p, DTensor) else p.tolist()
            for p in model.parameters()]

# Ranks that begin differently take the first one's values, replicas and buffers, too.
hybrid = init_device_mesh("cpu", (size, 1), mesh_dim_names=("replicate", "shard"))
for options in ({}, {"sharding_strategy": ShardingStrategy.HYBRID_SHARD, "device_mesh": hybrid}):
    model = FSDP(net(rank), sync_module_states=True, **options)
    wanted = net(0)
    assert whole(model) == whole(wanted), options
    placed = (Replicate(), Shard(0)) if options else (Shard(0),)
    assert all(p.placements == placed for p in model.parameters())
    assert list(model.state_dict()) == list(wanted.state_dict())
    assert model.check_is_root() and model[0] is model.module[0]
# On the meta device, filled where nothing is whole before.
with lazyt.device("meta"):
    empty = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
def fill(module):
    module.to_empty(device="cpu", recurse=False)
    with lazyt.no_grad():
        for p in module.parameters(recurse=False):
            p.fill_(0.5)
model = FSDP(empty, param_init_fn=fill)
assert all((p.full_tensor() == 0.5).all() for p in model.parameters())
model.apply(lambda m: m.bias.data.fill_(2.0) if isinstance(m, nn.Linear) else None)
assert model.module[1].bias.full_tensor().tolist() == [2.0] * 3
# All ranks leave out the step in which one of them has a gradient that is not finite.
plain = nn.Linear(2, 1, bias=False)
scaler = ShardedGradScaler("cpu", init_scale=4.0)
optimizer = lazyt.optim.SGD(plain.parameters(), lr=1.0)
before = plain.weight.tolist()
for step in range(2):
    x = lazyt.ones(1, 2) * (float("inf") if rank == 1 and step == 0 else 1.0)
    optimizer.zero_grad()
    scaler.scale(plain(x).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert (plain.weight.tolist() == before) == (step == 0) and scaler.get_scale() == 2.0
# One result for any mesh: shares of a batch among replicas, and among those who divide.
def train(mesh):
    shares = dist.Shares(4)
    lazyt.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 3))
    if mesh is not None:
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = lazyt.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = lazyt.randn(16, 5), lazyt.randint(0, 3, (16,))
    rows, losses = shares.rows(16), []
    for _ in range(2):
        optimizer.zero_grad()
        loss = shares.backward(
            lambda a, b: F.cross_entropy(model(a), b), x[rows], y[rows],
            parameters=model.parameters(),
        )
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(loss.item())
    return losses, whole(model)
wanted = train(None)
for sizes in ((size, 1), (1, size)):
    assert train(init_device_mesh("cpu", sizes, mesh_dim_names=("a", "b"))) == wanted, sizes
print("well")
"""


def test_two_ranks(tmp_path: Path) -> None:
    assert [text.splitlines()[-1] for text in run(PROGRAM, 2, tmp_path)] == ["well"] * 2


def _wrapped(policy: object, ignored: set[object]) -> str:
    """Which modules a policy wraps: their names."""

    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module, **settings: object) -> None:
            super().__init__()
            self.inner, self.settings = inner, settings

    net = nn.ModuleDict({
        "a": nn.Linear(10, 10), "b": nn.ModuleList([nn.Linear(2, 2), nn.Linear(10, 10)]),
    })  # fmt: skip
    net.a.mark = nn.Linear(1, 1)
    ignored |= {net.a} if "a" in ignored else set()
    wrap_children(net, policy, Wrapper, ignored)
    found = [n for n, m in net.named_modules() if isinstance(m, Wrapper)]
    return " ".join(found).replace("inner.", "")


def test_policies() -> None:
    def small(**how: int) -> bool:
        return size_based_auto_wrap_policy(**how, min_num_params=50)  # type: ignore[arg-type]

    def never(**how: object) -> bool:
        return bool(how["recurse"])

    assert _wrapped(always_wrap_policy, set()) == "a a.mark b b.0 b.1"
    assert _wrapped(small, set()) == "a b.1"
    assert _wrapped(small, {"a"}) == "b.1"
    assert _wrapped(never, set()) == ""
    assert _wrapped(lambda **how: or_policy(**how, policies=[never, small]), set()) == "a b.1"
    custom = CustomPolicy(lambda m: {"x": 1} if isinstance(m, nn.ModuleList) else False)
    assert _wrapped(custom, set()) == "b"
    with pytest.raises(ValueError, match="should return False/True or a kwarg dict"):
        _wrapped(CustomPolicy(lambda m: 3), set())  # type: ignore[arg-type, return-value]
    module = nn.Linear(1, 1)
    assert wrap(module) is module


def test_settings() -> None:
    found = settings_of(StateDictType.FULL_STATE_DICT, FullStateDictConfig(True, True))
    assert found.optim_state_dict_config.offload_to_cpu
    with pytest.raises(RuntimeError, match="Expected state_dict_config of type"):
        settings_of(StateDictType.SHARDED_STATE_DICT, FullStateDictConfig())
    with pytest.raises(ValueError, match="Unexpected state_dict_type"):
        settings_of(lazyt.float32)
