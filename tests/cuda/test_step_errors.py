"""Errors of the driver in the middle of a training step: where they come up, and what goes on."""

from __future__ import annotations

import gc
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt.errors import DeviceError, LazytError, OutOfMemoryError
from lazyt.plan import planning
from lazyt.runtime.cuda import execute
from tests.cuda.mock_driver import CUresult, MockDriver

STEPS = 3


class Training:
    """A small model on a device, trained step by step."""

    def __init__(self) -> None:
        lt.manual_seed(4)
        self.model = lt.nn.Sequential(
            lt.nn.Linear(6, 40), lt.nn.LayerNorm(40), lt.nn.Tanh(), lt.nn.Linear(40, 3)
        ).cuda()
        self.optimizer = lt.optim.Adam(self.model.parameters(), 1e-2)
        draw = lt.Generator().manual_seed(1)
        self.x = lt.randn(50, 6, generator=draw).cuda().realize()
        self.y = lt.randint(0, 3, (50,), generator=draw).cuda().realize()
        self.state()

    def state(self) -> list[Any]:
        """The parameters on the host."""
        return [p.detach().cpu().tolist() for p in self.model.parameters()]

    def step(self) -> float:
        """One step; its loss."""
        self.optimizer.zero_grad()
        loss = lt.nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        found: list[Any] = [p.grad for p in self.model.parameters()]
        lt.realize(loss.detach(), *found)
        self.optimizer.step()
        lt.realize(*self.model.parameters())
        return float(loss.item())


@pytest.fixture
def undisturbed(mock: MockDriver) -> list[float]:
    """The losses of a run without errors."""
    training = Training()
    return [training.step() for _ in range(STEPS)]


def failing(mock: MockDriver, name: str, after: int, reply: CUresult, times: int = 1) -> list[int]:
    """A function of the driver fails after so many calls; the list counts how often it did."""
    original: Callable[..., Any] = getattr(mock, name)
    calls, failed = [0], [0]

    def call(*arguments: Any) -> Any:
        calls[0] += 1
        if after < calls[0] <= after + times:
            failed[0] += 1
            return reply, None
        return original(*arguments)

    setattr(mock, name, call)
    return failed


def lines_of(function: Any) -> range:
    """The lines of a function of this file."""
    lines, first = inspect.getsourcelines(function)
    return range(first, first + len(lines))


def require_place(text: str) -> None:
    """An error names a kernel, and a line of the step."""
    assert re.search(r"kernel lz_\w+, \d+ blocks of \d+ threads, from ", text), text
    found = [int(n) for n in re.findall(r"test_step_errors\.py:(\d+)", text)]
    assert found and all(n in lines_of(Training.step) for n in found), text


@pytest.mark.parametrize("name, done, after", [
    ("cuLaunchKernel", 0, 0), ("cuLaunchKernel", 0, 5), ("cuGraphInstantiate", 1, 0),
    ("cuGraphLaunch", 2, 0),
])  # fmt: skip
def test_a_refused_launch(
    name: str, done: int, after: int, mock: MockDriver, undisturbed: list[float]
) -> None:
    """The step can be made again, and training comes to the same numbers."""
    planning.clear()
    execute.forget()
    training = Training()
    losses = [training.step() for _ in range(done)]
    before = training.state()
    failed = failing(mock, name, after, CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
    with pytest.raises(DeviceError, match="LAUNCH_OUT_OF_RESOURCES") as caught:
        training.step()
    assert failed == [1]
    require_place(str(caught.value))
    assert training.state() == before and (training.x.sum() * 0).item() == 0
    losses += [training.step() for _ in range(STEPS - done)]
    assert losses == undisturbed


def test_no_memory(mock: MockDriver, undisturbed: list[float]) -> None:
    """Nothing is changed by the step, and memory that is given back is enough to make it again."""
    training = Training()
    losses = [training.step()]
    before = training.state()
    gc.collect()
    lt.cuda.empty_cache()
    failed = failing(mock, "cuMemAllocAsync", 1, CUresult.CUDA_ERROR_OUT_OF_MEMORY, 2)
    with pytest.raises(OutOfMemoryError, match="Tried to allocate"):
        training.step()
    assert failed == [2]
    assert training.state() == before
    losses += [training.step() for _ in range(STEPS - 1)]
    assert losses == undisturbed


def test_a_lost_device(mock: MockDriver, undisturbed: list[float]) -> None:
    """The host's copies stay; all that is on the device says that it is lost, and why."""
    training = Training()
    training.step()
    saved = {name: value.cpu() for name, value in training.model.state_dict().items()}
    numbers = {name: value.tolist() for name, value in saved.items()}
    mock.fault_in = "lz_contract"
    with pytest.raises(DeviceError, match="ILLEGAL_ADDRESS") as caught:
        training.step()
    assert "lz_contract" in str(caught.value) and "test_step_errors.py" in str(caught.value)
    asked: list[Callable[[], object]] = [
        training.step, training.state, lambda: (training.x + 1).tolist(),
        lambda: training.y.cpu().tolist(), lambda: lt.zeros(2, device="cuda").tolist(),
        lt.cuda.synchronize,
    ]  # fmt: skip
    for ask in asked:
        with pytest.raises(LazytError, match=r"cuda:0 cannot be used any more.*ILLEGAL_ADDRESS"):
            ask()
    assert {name: value.tolist() for name, value in saved.items()} == numbers
    model = lt.nn.Sequential(
        lt.nn.Linear(6, 40), lt.nn.LayerNorm(40), lt.nn.Tanh(), lt.nn.Linear(40, 3)
    )
    model.load_state_dict(saved)
    assert model(lt.ones(2, 6)).shape == (2, 3) and model(lt.ones(1, 6)).sum().isfinite()
