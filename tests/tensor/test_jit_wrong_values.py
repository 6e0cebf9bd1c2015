"""Programs whose captured form gave other values than the plain one, each as a small case."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import lazyt as lt
from lazyt import nn

pytestmark = [pytest.mark.lazy, pytest.mark.filterwarnings("ignore:lazyt.jit leaves")]


def after(function: Callable[..., Any], change: Callable[[], Any], *given: Any) -> None:
    """What is changed after some replays shows in the next call."""
    captured = lt.jit(function)
    for _ in range(5):
        captured(*given)
    change()
    assert captured(*given).tolist() == function(*given).tolist(), captured.why()


def test_a_buffer_that_equals_a_parameter_is_replaced() -> None:
    """Weight and variance of a new layer are one constant, though two places."""
    norm = nn.BatchNorm1d(3).eval()
    x = lt.ones(2, 3).realize()

    def function(x: Any) -> Any:
        return norm(x).detach()

    for name in ("running_mean", "running_var"):
        after(function, partial(setattr, norm, name, lt.full((3,), 5.0)), x)
    after(function, partial(setattr, norm, "weight", nn.Parameter(lt.full((3,), 3.0))), x)


def test_arguments_that_were_equal() -> None:
    """Two arguments, or parts of one tensor, are one value at the capture and two afterwards."""
    x, y = lt.full((3,), 3.0).realize(), lt.full((3,), 7.0).realize()
    data = lt.arange(12.0).reshape(4, 3).realize()
    captured = lt.jit(lambda a, b: a + 3 * b)
    parts = lt.jit(lambda a, b: a + 3 * b)
    a, b = lt.ones(3), lt.ones(3)
    for _ in range(4):
        captured(a, b)
        parts(data[0], data[0])
    for _ in range(3):
        assert captured(x, y).tolist() == [24.0] * 3
        assert parts(data[0], data[1]).tolist() == [9.0, 13.0, 17.0]


def test_a_part_that_the_function_takes_as_well() -> None:
    """A part that is given is not the part that the function takes itself."""
    data = lt.arange(12.0).reshape(4, 3).realize()

    def function(a: Any) -> Any:
        return a + 3 * data[0]

    captured = lt.jit(function)
    for n in (0, 0, 0, 0, 1, 2):
        assert captured(data[n]).tolist() == function(data[n]).tolist(), captured.why()


def test_a_constant_that_the_function_makes_as_well() -> None:
    """A tensor outside, and its detached twin, go apart from what the function makes itself."""
    state = {"k": lt.full((), 2.0).realize(), "a": lt.ones(3).realize()}
    state["b"] = state["a"].detach()
    x = lt.ones(3).realize()
    after(lambda x: x * state["k"] + lt.full((), 2.0), lambda: state.update(k=lt.tensor(5.0)), x)
    after(lambda x: x * state["a"] + state["b"], lambda: state.update(b=lt.full((3,), 5.0)), x)


def test_a_changing_number_becomes_a_tensor_of_the_default_dtype() -> None:
    """From the second value on the number is followed: float32, as without capture."""
    for make in (lt.tensor, lt.as_tensor, lt.asarray, lt.scalar_tensor):
        captured = lt.jit(lambda k, make=make: make(k))
        for k in (1.0, 2.5, 2.5, 0.1, -4.0, 7.5):
            found = captured(k)
            assert found.dtype is lt.float32 and found.tolist() == lt.tensor(k).tolist()
        assert captured.why() == ["captured"]


def trained(body: Callable[..., Any], jit: bool, total: int = 0) -> tuple[list[Any], list[str]]:
    """Seven steps of a parameter, a schedule and an optimizer: what ``body`` reads at each."""
    w = nn.Parameter(lt.ones(3))
    adam = lt.optim.Adam([w], lr=0.1)
    schedule: Any = lt.optim.lr_scheduler.StepLR(adam, 1, 0.5)
    if total:
        schedule = lt.optim.lr_scheduler.OneCycleLR(adam, 0.5, total_steps=total)

    def step(x: Any) -> Any:
        adam.zero_grad()
        (w * x).sum().backward()
        adam.step()
        return body(adam, schedule, w, x)

    function: Any = lt.jit(step) if jit else step
    found = []
    for _ in range(7):
        try:
            value = function(lt.ones(3))
        except ValueError as error:
            value = str(error)
        found.append((value.tolist() if isinstance(value, lt.Tensor) else value, w.tolist()))
    return found, function.why() if jit else []


def multiply(adam: Any, schedule: Any, w: Any, x: Any) -> Any:
    """Changes the rate itself."""
    adam.param_groups[0]["lr"] *= 0.9
    return x


READERS: list[tuple[Callable[..., Any], str]] = [
    (lambda o, s, w, x: (s.step(), x.sum() * o.param_groups[0]["lr"])[1], "['lr']"),
    (lambda o, s, w, x: (s.step(), s.get_last_lr()[0])[1], "_last_lr"),
    (lambda o, s, w, x: (s.step(), x * s.last_epoch)[1], "last_epoch"),
    (lambda o, s, w, x: x * o.state[w]["step"], "['step']"),
    (lambda o, s, w, x: (s.step(), x * getattr(s, "last_epoch"))[1], "last_epoch"),  # noqa: B009
    (lambda o, s, w, x: (s.step(), o.state_dict()["param_groups"][0]["lr"])[1], "['step']"),
    (multiply, "['lr']"),
]


@pytest.mark.parametrize("number", range(len(READERS)))
def test_rates_and_counts_that_the_function_reads(number: int) -> None:
    """What the optimizer renews by itself is guarded where the user's code looks at it."""
    body, culprit = READERS[number]
    found, reasons = trained(body, True)
    assert found == trained(body, False)[0]
    assert all(r.startswith("not captured") and culprit in r for r in reasons), reasons


def test_rates_that_nobody_reads_are_replayed() -> None:
    """A schedule inside keeps its capture."""

    def body(adam: Any, schedule: Any, w: Any, x: Any) -> Any:
        schedule.step()
        return x * 2

    found, reasons = trained(body, True)
    assert found == trained(body, False)[0] and reasons == ["captured"]


def test_what_a_schedule_raises_comes_after_the_step() -> None:
    """Beyond the total number of steps the parameters have moved all the same."""

    def body(adam: Any, schedule: Any, w: Any, x: Any) -> Any:
        schedule.step()
        return x * 2

    found, reasons = trained(body, True, total=5)
    assert found == trained(body, False, total=5)[0] and reasons == ["captured"]
    assert "total_steps" in found[-1][0] or "step" in found[-1][0]


class Decay(lt.optim.Optimizer):
    """Steps of 1 / n, counted in the state."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 1.0})

    @lt.no_grad()
    def step(self, closure: Any = None) -> None:
        """One step."""
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                p.sub_(p.grad, alpha=group["lr"] / state["step"])


class Inverse(lt.optim.lr_scheduler.LRScheduler):
    """The first rate over the number of steps."""

    def get_lr(self) -> Any:
        """The rates."""
        return [rate / (1 + self.last_epoch) for rate in self.base_lrs]


def test_optimizers_and_schedules_of_the_user() -> None:
    """Counts of a user's optimizer are refused; a user's schedule is called at every replay."""
    for kind in (Decay, lt.optim.SGD):
        found = []
        for jit in (False, True):
            w = nn.Parameter(lt.zeros(1))
            optimizer = kind([w])
            schedule = Inverse(optimizer)

            def step(w: Any = w, optimizer: Any = optimizer, schedule: Any = schedule) -> Any:
                optimizer.zero_grad()
                w.sum().backward()
                optimizer.step()
                schedule.step()
                return w.detach().clone()

            function: Any = lt.jit(step) if jit else step
            found.append([function().item() for _ in range(7)])
        assert found[0] == found[1]
        assert (function.why() == ["captured"]) is (kind is lt.optim.SGD), function.why()


def test_the_environment_is_no_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read from it may be another text at every call."""
    readers: list[Callable[[Any], Any]] = [
        lambda x: x * float(os.environ["LAZYT_TEST_RATE"]),
        lambda x: x * float(os.environ.get("LAZYT_TEST_RATE", "3")),
        lambda x: x * float(os.getenv("LAZYT_TEST_RATE") or "3"),
        lambda x: x * ("LAZYT_TEST_RATE" in os.environ),
    ]
    for reader in readers:
        captured = lt.jit(reader)
        for n in range(7):
            monkeypatch.setenv("LAZYT_TEST_RATE", str(n))
            assert captured(lt.ones(2)).tolist() == reader(lt.ones(2)).tolist()
        assert all("os.environ" in r for r in captured.why() if r != "captured"), captured.why()

    def write(x: Any) -> Any:
        os.environ["LAZYT_TEST_RATE"] = "9"
        return x * 2

    writer = lt.jit(write)
    for _ in range(3):
        monkeypatch.setenv("LAZYT_TEST_RATE", "1")
        assert writer(lt.ones(2)).tolist() == [2, 2] and os.environ["LAZYT_TEST_RATE"] == "9"
    assert all("changes os.environ" in reason for reason in writer.why())


class Outputs(dict[str, Any]):
    """A dict that looks at its own attributes by ``__dict__``."""

    def __init__(self, **entries: Any) -> None:
        super().__init__(entries)
        self.__dict__.update(entries)
        assert all(self.__dict__.get(name) is entries[name] for name in self)


class Watched(lt.optim.SGD):
    """An optimizer that does so."""

    def count(self) -> float:
        """What is read by no name of the user's code."""
        return float(self.__dict__["defaults"]["lr"])


@pytest.mark.parametrize("watched", [False, True])
def test_methods_that_read_the_dict_of_their_own_object(watched: bool) -> None:
    def run(jit: bool) -> tuple[list[Any], list[str]]:
        w = lt.ones(2, requires_grad=True)
        adam = Watched([w], lr=0.5, momentum=0.5)

        def step(x: Any) -> Any:
            adam.zero_grad()
            out = Outputs(loss=(w * x).sum() * (adam.count() if watched else 1.0))
            out["loss"].backward()
            adam.step()
            return out

        function: Any = lt.jit(step) if jit else step
        found = []
        for n in range(7):
            adam.defaults["lr"] = 0.5 + watched * (n // 4)
            found.append((function(lt.ones(2) * n)["loss"].item(), w.tolist()))
        return found, function.why() if jit else []

    found, reasons = run(True)
    assert found == run(False)[0]
    assert watched or reasons == ["captured"], reasons


def test_copies_read_everything() -> None:
    class Settings:
        def __init__(self) -> None:
            self.factor = 2.0

        def total(self) -> float:
            """The sum of all that is there, by no name."""
            return float(sum(self.__dict__.values()))

    settings = Settings()
    captured = lt.jit(lambda x: x * copy.deepcopy(settings).total())
    for factor in (2.0, 2.0, 2.0, 3.0, 3.0, 4.0):
        settings.factor = factor
        assert captured(lt.ones(1)).item() == factor


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
@pytest.mark.lazy
@pytest.mark.parametrize("called", [False, True])
def test_functions_within_that_read_the_dict_of_an_object(called: bool) -> None:
    def run(jit: bool) -> tuple[list[Any], list[str]]:
        w = lt.ones(2, requires_grad=True)
        adam = lt.optim.Adam([w], lr=0.5)

        def step(x: Any) -> Any:
            def count(optimizer: Any) -> float:
                states = optimizer.__dict__["state"].values()
                return 1.0 + sum(float(state["step"]) for state in states)

            adam.zero_grad()
            loss = (w * x).sum() * (count(adam) if called else 1.0)
            loss.backward()
            adam.step()
            return loss

        function: Any = lt.jit(step) if jit else step
        found = [(function(lt.ones(2) * n).item(), w.tolist()) for n in range(7)]
        return found, function.why() if jit else []

    found, reasons = run(True)
    assert found == run(False)[0]
    assert ("captured" in reasons) is not called, reasons


_STEPS: dict[str, tuple[Callable[[Any], float], bool]] = {
    "another key": (lambda adam: adam.__dict__["defaults"]["lr"], True),
    "get of another key": (lambda adam: adam.__dict__.get("defaults", {})["lr"], True),
    "whether there is one": (lambda adam: 1.0 + ("state" in adam.__dict__), True),
    "the key": (lambda adam: _count(adam.__dict__["state"]), False),
    "get of the key": (lambda adam: _count(adam.__dict__.get("state")), False),
    "get of any key": (lambda adam: _count(adam.__dict__.get(_itself("state", ""))), False),
    "all of it": (lambda adam: _count(_itself(adam.__dict__, "lr")["state"]), False),
    "all of it, returned": (lambda adam: _count(_dict_of(adam)["state"]), False),
}  # fmt: skip


def _count(states: Any) -> float:
    return 1.0 + sum(float(state["step"]) for state in states.values())


def _itself(value: Any, _: str) -> Any:
    return value


def _dict_of(value: Any) -> Any:
    return value.__dict__


@pytest.mark.lazy
@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
@pytest.mark.parametrize("name", _STEPS)
def test_what_is_read_of_the_dict_of_an_optimizer(name: str) -> None:
    read, is_captured = _STEPS[name]

    def run(jit: bool) -> tuple[list[Any], list[str]]:
        w = lt.ones(2, requires_grad=True)
        adam = lt.optim.Adam([w], lr=0.5)

        def step(x: Any) -> Any:
            adam.zero_grad()
            loss = (w * x).sum() * read(adam)
            loss.backward()
            adam.step()
            return loss

        function: Any = lt.jit(step) if jit else step
        found = []
        for n in range(7):
            adam.defaults["lr"] = 0.5 + n // 4
            found.append((function(lt.ones(2) * n).item(), w.tolist()))
        return found, function.why() if jit else []

    found, reasons = run(True)
    assert found == run(False)[0]
    assert ("captured" in reasons) is is_captured, reasons
