"""A transformer whose parameters processes divide, trained, saved in three ways, and resumed.

    python -m lazyt.distributed.run --lazyt --nproc-per-node 2 examples/ranks/fsdp2.py
    torchrun --nproc-per-node 2 examples/ranks/fsdp2.py          # with PyTorch

`fully_shard` makes each parameter a DTensor, of which a process has some rows. The model begins on
the meta device, so that no process ever holds all of it. A state is saved as whole tensors, by the
functions of DTensor and by those of `torch.distributed.checkpoint.state_dict`, and by all
processes together (DCP); models that are restored from each train on alike, to the bit.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

LETTERS, LENGTH, WIDTH, HEADS = 16, 12, 24, 3


class Attention(nn.Module):
    """Each position looks at those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = self.qkv(x).view(rows, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(rows, length, width))


class Block(nn.Module):
    """Attention and a network for each position, both added to what comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Transformer(nn.Module):
    """Letters to scores of the next ones."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.letters(x) + self.places(torch.arange(x.shape[1]))
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h))

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        for module in self.modules():
            if module is not self and hasattr(module, "reset_parameters"):
                module.reset_parameters()


def build(depth: int, **options: Any) -> Transformer:
    """A divided model with weights drawn by the parts that each process has."""
    with torch.device("meta"):
        model = Transformer(depth)
    for layer in model.layers:
        fully_shard(layer, **options)
    fully_shard(model, **options)
    assert all(p.device.type == "meta" for p in model.parameters())
    model.to_empty(device="cpu")
    model.reset_parameters()
    return model


def inspect(model: nn.Module, placements: tuple[Any, ...]) -> None:
    """Asserts that each parameter is a DTensor with these placements."""
    assert isinstance(model, Transformer) and isinstance(model, FSDPModule)
    for parameter in model.parameters():
        assert isinstance(parameter, nn.Parameter) and isinstance(parameter, DTensor)
        assert parameter.placements == placements and parameter.dtype == torch.float32
        whole = parameter.full_tensor()
        assert not isinstance(whole, DTensor) and whole.shape == parameter.shape


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, seed: int) -> list[float]:
    """Steps on letters that each process draws; the losses of this one."""
    torch.manual_seed(seed + dist.get_rank())
    x = torch.randint(0, LETTERS, (4, LENGTH))
    losses = []
    for _ in range(steps):
        model.unshard()  # begins to gather before the forward
        loss = F.cross_entropy(model(x).flatten(0, 1).float(), x.flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        assert isinstance(norm, DTensor)
        assert norm.full_tensor().item() > 0
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


class State:
    """A model and its optimizer, as `torch.distributed.checkpoint` saves and loads them."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer = model, optimizer

    def state_dict(self) -> dict[str, Any]:
        """This process's parts."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes this process's parts."""
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )


def whole(tensor: Any) -> Any:
    """A tensor with the values of all processes, in the first one; the others forget it."""
    value = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return value.cpu() if dist.get_rank() == 0 else None


def by_dtensors(model: nn.Module, adam: torch.optim.Optimizer, folder: str, depth: int) -> Any:
    """A model and an optimizer restored from files of whole tensors, one tensor at a time."""
    weights = {name: whole(value) for name, value in model.state_dict().items()}
    packed = adam.state_dict()
    moments = {
        number: {name: whole(value) for name, value in state.items()}
        for number, state in packed["state"].items()
    }
    if dist.get_rank() == 0:
        torch.save(weights, f"{folder}/model.pt")
        torch.save({"state": moments, "param_groups": packed["param_groups"]}, f"{folder}/adam.pt")
    dist.barrier()

    made = build(depth)
    given = torch.load(f"{folder}/model.pt", mmap=True, weights_only=True, map_location="cpu")
    own = made.state_dict()
    divided = {
        name: nn.Parameter(distribute_tensor(value, own[name].device_mesh, own[name].placements))
        for name, value in given.items()
    }
    made.load_state_dict(divided, assign=True)
    inspect(made, (Shard(0),))

    optimizer = torch.optim.Adam(made.parameters(), lr=1e-2)
    given = torch.load(f"{folder}/adam.pt", mmap=True, weights_only=True, map_location="cpu")
    parameters = list(made.parameters())
    for number, state in given["state"].items():
        like = parameters[number]
        for name, value in state.items():
            if value.dim():
                state[name] = distribute_tensor(value, like.device_mesh, like.placements)
    optimizer.load_state_dict(given)
    return made, optimizer


def by_state_dicts(model: nn.Module, adam: torch.optim.Optimizer, depth: int) -> Any:
    """A model and an optimizer restored from whole tensors that the first process has."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=options)
    moments = get_optimizer_state_dict(model, adam, options=options)
    assert bool(weights) == bool(moments) == (dist.get_rank() == 0)
    made = build(depth, reshard_after_forward=False)
    optimizer = torch.optim.Adam(made.parameters(), lr=1e-2)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(made, weights, options=options)
    set_optimizer_state_dict(made, optimizer, moments, options=options)
    return made, optimizer


def by_all_processes(model: nn.Module, adam: torch.optim.Optimizer, folder: str, depth: int) -> Any:
    """A model and an optimizer restored from a folder that all processes write and read."""
    dcp.save({"app": State(model, adam)}, checkpoint_id=f"{folder}/parts")
    made = build(depth)
    optimizer = torch.optim.Adam(made.parameters(), lr=1e-2)
    dcp.load({"app": State(made, optimizer)}, checkpoint_id=f"{folder}/parts")
    return made, optimizer


def main() -> None:
    """Trains, saves, resumes; then divides a model among pairs of replicas."""
    parser = argparse.ArgumentParser(description="A divided transformer.")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--depth", type=int, default=3)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    low = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = build(options.depth, mp_policy=low)
    inspect(model, (Shard(0),))
    layers = list(model.layers)
    for number, layer in enumerate(layers):
        layer.set_modules_to_forward_prefetch(layers[number + 1 : number + 3])
        layer.set_modules_to_backward_prefetch(layers[max(0, number - 2) : number][::-1])
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = train(model, adam, options.steps, 0)
    assert losses[-1] < losses[0], losses
    for parameter in model.parameters():
        assert adam.state[parameter]["exp_avg"].placements == (Shard(0),)

    shared = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(shared)
    folder: Any = shared[0]
    restored = [
        by_dtensors(model, adam, folder, options.depth),
        by_state_dicts(model, adam, options.depth),
        by_all_processes(model, adam, folder, options.depth),
    ]
    several = [train(*pair, 2, 9) for pair in restored]
    assert several[0] == several[1] == several[2], several
    for same in zip(*(made.parameters() for made, _ in restored)):
        values = [parameter.full_tensor() for parameter in same]
        assert torch.equal(values[0], values[1]) and torch.equal(values[0], values[2])

    count = dist.get_world_size()
    if count % 2 == 0:
        mesh = init_device_mesh("cpu", (2, count // 2), mesh_dim_names=("replicas", "parts"))
        pairs = build(options.depth, mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=False))
        inspect(pairs, (Replicate(), Shard(0)))
        optimizer = torch.optim.AdamW(pairs.parameters(), lr=1e-2)
        train(pairs, optimizer, 2, 3)
        assert optimizer.state[pairs.head.weight]["exp_avg"].placements == (Replicate(), Shard(0))
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder)
        print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; three ways to resume agree")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
