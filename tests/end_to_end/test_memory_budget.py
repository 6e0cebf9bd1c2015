"""The dial of memory against time: the same results to the bit, lower peaks, true predictions."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as torch
from lazyt import nn
from lazyt.errors import LazytError
from lazyt.nn import functional
from lazyt.plan import build, planning
from lazyt.plan.explain import Explanation
from lazyt.plan.footprint import Footprint
from lazyt.runtime.memory import pool
from lazyt.testing.random_graphs import random_graph
from lazyt.utils.checkpoint import checkpoint

Part = Callable[[torch.Tensor], torch.Tensor]


class Block(nn.Module):
    """A layer of a transformer: attention and neurons, with dropout."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.neurons = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [n, length, width] to the same shape."""
        n, length, width = x.shape
        parts = self.mix(self.norm1(x)).reshape(n, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            parts[0], parts[1], parts[2], is_causal=True
        )
        x = x + self.out(mixed.transpose(1, 2).reshape(n, length, width))
        out: torch.Tensor = x + self.neurons(self.norm2(x))
        return out


def transformer() -> tuple[nn.Module, tuple[int, ...]]:
    """Two layers."""
    return nn.Sequential(*(Block(32) for _ in range(2))), (8, 32, 32)


def perceptron() -> tuple[nn.Module, tuple[int, ...]]:
    """Eight layers."""
    layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(8)]
    return nn.Sequential(*layers), (1024, 64)


def convolutions() -> tuple[nn.Module, tuple[int, ...]]:
    """Images through normalized convolutions."""
    layers: list[nn.Module] = [nn.Conv2d(3, 8, 3, padding=1)]
    for _ in range(3):
        layers += [nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)]
    return nn.Sequential(*layers), (8, 3, 24, 24)


#: Models, and the budgets they are trained with: each is a compile.
MODELS = {
    "perceptron": (perceptron, (1.0, 0.5, 0.25, 0.0)),
    "convolutions": (convolutions, (1.0, 0.4, 0.0)),
    "transformer": (transformer, (1.0, 0.4, 0.0)),
}


def needs(plan: Explanation) -> Footprint:
    """The memory and time of a plan."""
    assert plan.footprint is not None
    return plan.footprint


def train(
    net: nn.Module,
    shape: tuple[int, ...],
    through: Callable[[Part], Part] = lambda part: part,
    amp: bool = False,
    steps: int = 4,
) -> tuple[Any, bytes]:
    """The captured step, and the bits of losses, weights and gradients."""  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
            for part in net:  # type: ignore[attr-defined]
                x = through(part)(x)
        loss = x.float().square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    captured = torch.compile(step)
    losses = [captured(torch.randn(*shape).realize()).item() for _ in range(steps)]
    tensors = [t for p in net.parameters() for t in (p.detach(), p.grad) if t is not None]
    bits = b"".join(t.numpy().tobytes() for t in tensors)
    return captured, np.array(losses).tobytes() + bits


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Explanation]:
    """What the plans that ran say about themselves, largest last."""
    found: list[Explanation] = []
    run = build.Plan.run

    def note(plan: Any, inputs: list[Any]) -> list[Any]:
        out = run(plan, inputs)
        found.append(planning.explain_plan(plan))
        found.sort(key=lambda plan: len(plan.kernels))
        return out

    monkeypatch.setattr(build.Plan, "run", note)
    return found


@pytest.mark.lazy
@pytest.mark.parametrize("name", MODELS)
def test_less_budget_is_less_memory_and_the_same_bits(name: str, ran: list[Explanation]) -> None:
    model, budgets = MODELS[name]
    peaks, bits = [], []
    for budget in budgets:
        torch.manual_seed(0)
        net, shape = model()
        torch.realize(*net.parameters(), x := torch.randn(*shape))
        with torch.config.override(memory_budget=budget, max_pending_nodes=10**6):
            loss = net(x).square().mean()
            loss.backward()
            results = [loss.detach(), *(p.grad for p in net.parameters())]
            ran.clear()
            gc.collect()
            before = pool.in_use
            pool.reset_peak()
            torch.realize(*results)
        footprint = needs(ran[-1])
        assert pool.peak - before == pytest.approx(footprint.results + footprint.between, rel=0.1)
        assert footprint.measured_peak == pytest.approx(footprint.peak, rel=0.1)
        assert bool(footprint.again) == (budget < 1)
        peaks.append(ran[-1].arena_bytes)
        bits.append(b"".join(t.numpy().tobytes() for t in results))
    assert all(found == bits[0] for found in bits)
    assert peaks == sorted(peaks, reverse=True) and len(set(peaks)) == len(peaks), peaks
    assert peaks[-1] < 0.85 * peaks[0], peaks


@pytest.mark.lazy
def test_an_ordinary_step_takes_less_memory_with_every_turn_of_the_dial() -> None:
    found = []
    for budget in (1.0, 0.5, 0.0):
        torch.manual_seed(0)
        net = nn.Sequential(*(nn.Sequential(nn.Linear(48, 48), nn.GELU(), nn.LayerNorm(48),
                                            nn.Dropout(0.1)) for _ in range(5)))  # fmt: skip
        with torch.config.override(memory_budget=budget):
            captured, bits = train(net, (512, 48))
        plan = torch.explain(captured)
        footprint = needs(plan)
        assert footprint.measured_peak in (None, footprint.peak)
        assert 0 < footprint.alone <= plan.arena_bytes
        assert f"one launch needs {footprint.alone / 1e6:.2f} MB" in str(footprint)
        found.append((bits, plan.arena_bytes, footprint.peak, len(footprint.again)))
    assert len({bits for bits, *_ in found}) == 1
    (_, *whole), (_, *half), (_, *none) = found
    assert none[0] < half[0] < whole[0] and none[1] < half[1] < whole[1]
    assert none[0] < 0.5 * whole[0] and whole[2] == 0 < half[2] < none[2]


@pytest.mark.lazy
def test_a_budget_works_with_half_precision() -> None:
    found = {}
    for budget in (1.0, 0.0):
        torch.manual_seed(0)
        net, shape = perceptron()
        with torch.config.override(memory_budget=budget):
            captured, bits = train(net, shape, amp=True)
        plan = torch.explain(captured)
        assert needs(plan).measured_peak == pytest.approx(needs(plan).peak, rel=0.1)
        found[budget] = bits, plan.arena_bytes
    assert found[0.0][0] == found[1.0][0]
    assert found[0.0][1] < 0.8 * found[1.0][1]


@pytest.mark.lazy
def test_a_checkpoint_takes_less_memory_whatever_the_budget() -> None:
    def run(through: Callable[[Part], Part], budget: float) -> tuple[bytes, int, int]:
        torch.manual_seed(0)
        net = nn.Sequential(*(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1),
                                            nn.Linear(256, 64)) for _ in range(4)))  # fmt: skip
        with torch.config.override(memory_budget=budget):
            captured, bits = train(net, (256, 64), through)
        plan = torch.explain(captured)
        return bits, plan.arena_bytes, sum(kernel.again for kernel in plan.kernels)

    def again(part: Part) -> Part:
        return lambda x: checkpoint(part, x, use_reentrant=False)

    bits, whole, none = run(lambda part: part, 1.0)
    same, less, some = run(again, 1.0)
    assert same == bits and none == 0 and some > 0
    assert less < 0.75 * whole


def test_a_checkpoint_draws_the_same_numbers_in_a_captured_step() -> None:
    def gradients(through: Callable[[Part], Part]) -> bytes:
        torch.manual_seed(0)
        net = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)) for _ in range(2)))
        return train(net, (16, 8), through, steps=5)[1]

    assert gradients(lambda p: lambda x: checkpoint(p, x)) == gradients(lambda p: p)


def test_checkpoints_in_checkpoints_pass_gradients_on() -> None:
    def gradients(outer: bool, inner: bool) -> list[float]:
        torch.manual_seed(0)
        layers = [nn.Linear(4, 4) for _ in range(4)]
        drop = nn.Dropout(0.5)

        def middle(x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = drop(layers[1](x)).tanh()
            return out

        def whole(x: torch.Tensor) -> torch.Tensor:
            x = drop(layers[0](x))
            for _ in range(2):  # the second one's gradient goes through the first
                x = checkpoint(middle, x) if inner else middle(x)
            out: torch.Tensor = layers[2](x)
            return out

        x = torch.randn(5, 4)
        y = checkpoint(whole, x) if outer else whole(x)
        layers[3](y).square().mean().backward()
        grads = [p.grad for layer in layers for p in layer.parameters()]
        return [value for grad in grads if grad is not None for value in grad.flatten().tolist()]

    want = gradients(False, False)
    for outer, inner in ((True, False), (False, True), (True, True)):
        assert gradients(outer, inner) == pytest.approx(want, rel=1e-5)


@pytest.mark.lazy
def test_a_step_is_captured_again_under_another_budget() -> None:
    net, shape = perceptron()
    captured, _ = train(net, shape)
    kernels = len(torch.explain(captured).kernels)
    with torch.config.override(memory_budget=0.0):
        for _ in range(3):
            captured(torch.randn(*shape).realize())
    plan = torch.explain(captured)
    assert len(plan.kernels) > kernels
    assert "to compute values again" in str(plan) and "peak memory: predicted" in str(plan)
    footprint = needs(plan)
    assert 0 < footprint.again_seconds < footprint.seconds
    assert footprint.measured is not None and footprint.measured.seconds > 0
    memory, time = str(footprint).splitlines()
    assert memory.startswith("peak memory: predicted") and "measured" in memory
    assert time.startswith("time: predicted") and "compute again" in time and "measured" in time


@pytest.mark.parametrize("budget", [0.5, 0.0])
def test_random_graphs_are_the_same_to_the_bit(budget: float) -> None:
    from lazyt.plan.planning import realize

    def values(first: int, share: float) -> list[bytes]:
        graphs = [random_graph(seed) for seed in range(first, first + 10)]
        roots = [root for graph in graphs for root in graph.roots]
        with torch.config.override(memory_budget=share):
            realize(roots)
        return [n.data.as_numpy(n.dtype, n.shape).tobytes() for n in roots]

    for first in (0, 10):
        want = values(first, 1.0)
        gc.collect()  # nodes of equal graphs are one while they live, and would have their values
        assert values(first, budget) == want


@pytest.mark.parametrize("value", [1.01, -0.1, float("nan"), "0.5", None, True])
def test_budgets_out_of_range_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="memory_budget must be a number from 0 to 1, got"):
        torch.config.memory_budget = value
    assert torch.config.memory_budget == 1.0


def test_explain_refuses_a_function_without_a_plan() -> None:
    with pytest.raises(LazytError, match="replays no plan"):
        torch.explain(torch.compile(lambda x: x + 1))
