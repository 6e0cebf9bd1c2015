"""Steps on a device write parameters and state over their old values, in the memory they have."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt.codegen.cuda.target import CudaKernel, print_kernel_cuda
from lazyt.ir.dtypes import float32
from lazyt.ir.index import Axis, Linear, Load, Var
from lazyt.ir.kernel import Buffer, Kernel, Phase, Reduce, Stage, Store
from lazyt.ir.scalar import Expr, call
from lazyt.runtime.cuda.memory import DeviceBuffer
from lazyt.tracing.capture import leaf_of
from tests.cuda.mock_driver import MockDriver


def address(tensor: Any) -> int:
    return int(leaf_of(tensor.realize()._storage).data.ptr)


def stepper(net: Any, optimizer: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_a_step_keeps_its_memory() -> None:
    lt.manual_seed(0)
    net = lt.nn.Sequential(lt.nn.Linear(6, 5), lt.nn.LayerNorm(5), lt.nn.Linear(5, 3))
    moved = copy.deepcopy(net).to("cuda:emu")
    results = []
    for model in (net, moved):
        optimizer = lt.optim.AdamW(model.parameters(), 0.1)
        step: Any = lt.jit(stepper(model, optimizer))
        lt.manual_seed(1)
        losses, places = [], []
        for _ in range(9):
            losses.append(step(lt.randn(4, 6).to(model[0].weight.device)).item())
            state = [v for s in optimizer.state.values() for v in s.values()]
            kept = [*model.parameters(), *(v for v in state if isinstance(v, lt.Tensor))]
            places.append([address(t) for t in kept if t.ndim])
        assert places[3] == places[-1] and step.why() == ["captured"]
        results.append((losses, [p.tolist() for p in model.parameters()]))
    assert results[0] == results[1]


def test_who_sees_the_old_value_keeps_it(mock: MockDriver) -> None:
    w = lt.tensor([0.0, 256.0, -512.0]).cuda().realize()

    def step(x: Any) -> Any:
        w.mul_(0.5).add_(x)
        return x * 1

    captured: Any = lt.jit(step)
    x = lt.ones(3).cuda().realize()
    for _ in range(6):
        captured(x)
    held, value = w.detach(), w.tolist()
    data: DeviceBuffer = leaf_of(w._storage).data
    pending = w * 2
    for _ in range(3):
        captured(x)
        value = [v * 0.5 + 1 for v in value]
        assert w.tolist() == value and held.tolist() == value  # one memory, as always
    assert pending.tolist() != [v * 2 for v in value] and data.nbytes == 12


def printed(stages: tuple[Stage, ...], grid: tuple[Axis, ...], buffers: list[Buffer]) -> CudaKernel:
    return print_kernel_cuda(Kernel("k", tuple(buffers), (Phase(grid, stages, "grid"),)))


def test_large_updates_move_16_bytes() -> None:
    n = 1 << 20
    i = Axis("i", n)
    index = (Linear(((i, 1),), 0),)
    old: Expr = Load("w", index, float32)
    step: Expr = Load("g", index, float32)
    stage = Stage(None, (Store("w", index, call("sub", old, step)),))
    text = printed(
        (stage,), (i,), [Buffer("g", float32, (n,), "in"), Buffer("w", float32, (n,), "inout")]
    ).text
    assert text.count("lz_load_adjacent(") == 2 and text.count("lz_store_adjacent(") == 1
    other = Load("w", (Linear(((i, 1),), 4),), float32)  # of which another thread makes a new one
    stage = Stage(None, (Store("w", index, call("sub", other, step)),))
    text = printed(
        (stage,), (i,), [Buffer("g", float32, (n,), "in"), Buffer("w", float32, (n + 4,), "inout")]
    ).text
    assert text.count("lz_load_adjacent(") == 1


@pytest.mark.parametrize("over", [True, False])
def test_no_warp_reads_what_another_has_written_over(over: bool) -> None:
    """Of a short loop beside a long one, all warps take all steps."""
    r, k, j = Axis("r", 4), Axis("k", 5000), Axis("j", 64)
    total = Reduce(
        "t", "sum", Load("x", (Linear(((r, 1),), 0), Linear(((k, 1),), 0)), float32), float32
    )
    index = (Linear(((r, 1),), 0), Linear(((j, 1),), 0))
    old = Load("w" if over else "v", index, float32)
    again = Reduce("s", "sum", old, float32)
    store = Store("w", index, call("add", old, Var("t", float32)))
    last = Stage(None, (Store("o", (Linear(((r, 1),), 0),), Var("s", float32)),))
    buffers = [
        Buffer("x", float32, (4, 5000), "in"), Buffer("v", float32, (4, 64), "in"),
        Buffer("w", float32, (4, 64), "inout" if over else "out"),
        Buffer("o", float32, (4,), "out"),
    ]  # fmt: skip
    made = printed((Stage(k, (total,)), Stage(j, (again, store)), last), (r,), buffers)
    assert ("warp_" not in made.text) == over
