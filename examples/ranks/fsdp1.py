"""A classifier in `FullyShardedDataParallel`, the older of both ways to divide a model.

    python -m lazyt.distributed.run --lazyt --nproc-per-node 2 examples/ranks/fsdp1.py
    torchrun --nproc-per-node 2 examples/ranks/fsdp1.py          # with PyTorch, on GPUs

Policies say which modules are gathered by themselves: by size, by class, by a function. What the
model computes is that of the module in it, in each strategy; its state is saved as whole tensors
on the first process, loaded into another model, and training goes on alike.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.fsdp import (
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
)
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    enable_wrap,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)

WIDTH, CLASSES = 20, 5


class Block(nn.Module):
    """A network that is added to what comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.first, self.last = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.last(F.gelu(self.first(self.norm(x))))


class Classifier(nn.Module):
    """Two blocks between linear layers, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(7, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.Sequential(Block(), Block())
        self.register_buffer("center", torch.full((7,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.blocks(self.first(x - self.center)))


def make(seed: int = 1, **options: Any) -> FSDP:
    """A wrapped model; its parameters are their own, by the names that they had."""
    torch.manual_seed(seed)
    return FSDP(Classifier(), use_orig_params=True, device_id=torch.device("cpu"), **options)


def batch(rank: int) -> tuple[Tensor, Tensor]:
    """The rows of a process."""
    generator = torch.Generator().manual_seed(rank)
    x = torch.rand(8, 7, generator=generator)
    return x, torch.randint(0, CLASSES, (8,), generator=generator)


def train(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    """Steps on this process's rows; its losses."""
    x, y = batch(dist.get_rank())
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).float(), y)
        loss.backward()
        norm = model.clip_grad_norm_(1.0)
        assert norm.dim() == 0 and norm.item() > 0
        optimizer.step()
        losses.append(loss.item())
    return losses


def reference(steps: int) -> list[float]:
    """The losses of this process where one process has all rows and the whole model."""
    torch.manual_seed(1)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        every = [F.cross_entropy(model(x), y) for x, y in map(batch, range(dist.get_world_size()))]
        torch.stack(every).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(every[dist.get_rank()].item())
    return losses


def policies() -> dict[str, Any]:
    """Ways to say what is gathered by itself."""
    return {
        "none": None,
        "size": functools.partial(size_based_auto_wrap_policy, min_num_params=1000),
        "transformer": functools.partial(
            transformer_auto_wrap_policy, transformer_layer_cls={Block}
        ),
        "lambda": functools.partial(
            lambda_auto_wrap_policy, lambda_fn=lambda module: isinstance(module, nn.Linear)
        ),
        "classes": ModuleWrapPolicy({Block, nn.Linear}),
        "custom": CustomPolicy(lambda module: isinstance(module, Block)),
    }


def check_strategies(steps: int) -> None:
    """All policies and strategies train alike."""
    wanted = torch.tensor(reference(steps))
    wrappers = {"none": 1, "size": 5, "transformer": 3, "lambda": 7, "classes": 9, "custom": 3}
    for name, policy in policies().items():
        model = make(auto_wrap_policy=policy)
        assert len(FSDP.fsdp_modules(model)) == wrappers[name], (name, model)
        found = train(model, torch.optim.Adam(model.parameters(), lr=1e-2), steps)
        assert torch.allclose(torch.tensor(found), wanted, atol=1e-5), (name, found, wanted)
    for strategy in (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
        model = make(auto_wrap_policy=policies()["classes"], sharding_strategy=strategy)
        found = train(model, torch.optim.Adam(model.parameters(), lr=1e-2), steps)
        assert torch.allclose(torch.tensor(found), wanted, atol=1e-5), (strategy, found, wanted)


def check_blocks() -> None:
    """`wrap` in `enable_wrap`, low precision, and gradients that are summed before they move."""
    with enable_wrap(wrapper_cls=FSDP, use_orig_params=True, device_id=torch.device("cpu")):
        torch.manual_seed(1)
        model = wrap(nn.Sequential(wrap(nn.Linear(7, WIDTH)), nn.ReLU(), nn.Linear(WIDTH, CLASSES)))
    assert len(FSDP.fsdp_modules(model)) == 2 and FSDP.fsdp_modules(model, root_only=True) == [
        model
    ]
    x, y = batch(dist.get_rank())
    with model.no_sync():
        F.cross_entropy(model(x), y).backward()
    F.cross_entropy(model(x), y).backward()
    with FSDP.summon_full_params(model, with_grads=True):
        twice = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
    with FSDP.summon_full_params(model, with_grads=True):
        for one, two in zip(model.parameters(), twice):
            assert torch.allclose(one.grad * 2, two, atol=1e-6)

    low = MixedPrecision(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16
    )
    model = make(mixed_precision=low, cpu_offload=CPUOffload(offload_params=False))
    assert model(x).dtype == torch.bfloat16
    F.cross_entropy(model(x).float(), y).backward()
    with FSDP.summon_full_params(model):
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def check_whole_parameters() -> None:
    """What is written to whole parameters stays, unless the block says otherwise."""
    model = make(auto_wrap_policy=policies()["transformer"])
    with FSDP.summon_full_params(model):
        shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
        with torch.no_grad():
            model.module.last.weight.fill_(0.25)
    assert shapes == {name: tuple(p.shape) for name, p in Classifier().named_parameters()}
    with FSDP.summon_full_params(model, writeback=False):
        assert (model.module.last.weight == 0.25).all()
        with torch.no_grad():
            model.module.last.weight.fill_(9.0)
    with FSDP.summon_full_params(model):
        assert (model.module.last.weight == 0.25).all()


def check_state(folder: str, steps: int) -> None:
    """A model goes on from what another one has saved."""
    policy = policies()["transformer"]
    model = make(auto_wrap_policy=policy)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    train(model, optimizer, steps)
    whole = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    of_optimizer = FullOptimStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, whole, of_optimizer):
        weights = model.state_dict()
        moments = FSDP.optim_state_dict(model, optimizer)
    first = dist.get_rank() == 0
    assert list(weights) == (list(Classifier().state_dict()) if first else [])
    if first:
        torch.save(weights, f"{folder}/model.pt")
    dist.barrier()

    plain = Classifier()  # without a wrapper
    plain.load_state_dict(torch.load(f"{folder}/model.pt", weights_only=True))
    other = make(2, auto_wrap_policy=policies()["classes"])
    other.load_state_dict(torch.load(f"{folder}/model.pt", weights_only=True))
    adam = torch.optim.Adam(other.parameters(), lr=1e-2)
    with FSDP.state_dict_type(other, StateDictType.FULL_STATE_DICT, whole, of_optimizer):
        adam.load_state_dict(FSDP.optim_state_dict_to_load(other, adam, moments))
    x, _ = batch(0)
    assert torch.allclose(other(x), plain(x), atol=1e-6)

    sharded = ShardedStateDictConfig()
    with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT, sharded):
        parts = model.state_dict()
        assert FSDP.get_state_dict_type(model).state_dict_type is StateDictType.SHARDED_STATE_DICT
        model.load_state_dict(parts)
    assert list(parts) == list(plain.state_dict())
    one, two = train(model, optimizer, 2), train(other, adam, 2)
    assert torch.allclose(torch.tensor(one), torch.tensor(two), atol=1e-6), (one, two)


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description="FullyShardedDataParallel.")
    parser.add_argument("--steps", type=int, default=3)
    steps = parser.parse_args().steps
    dist.init_process_group("gloo")
    check_strategies(steps)
    check_blocks()
    check_whole_parameters()
    shared = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(shared)
    folder: Any = shared[0]
    check_state(folder, steps)
    dist.barrier()
    if dist.get_rank() == 0:
        print("policies, strategies and states agree")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
