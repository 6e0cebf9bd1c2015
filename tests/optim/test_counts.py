"""Counts of steps in the state of optimizers are tensors, which Python advances in place."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

import lazyt
from lazyt import Tensor, optim

#: With a tensor of one number for each name; PyTorch has the same.
OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "Adam": ("step",), "AdamW": ("step",), "NAdam": ("step", "mu_product"), "RAdam": ("step",),
    "Adamax": ("step",), "ASGD": ("step", "eta", "mu"), "Adagrad": ("step",),
    "Adafactor": ("step",), "Rprop": ("step",), "RMSprop": ("step",), "Adadelta": ("step",),
}  # fmt: skip


def training(name: str) -> tuple[Any, dict[str, Any], Any]:
    """An optimizer by name, after one step; the state of its parameter; and a step."""
    parameter = lazyt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    optimizer = getattr(optim, name)([parameter], 0.1)

    def step() -> None:
        optimizer.zero_grad()
        (parameter**2).sum().backward()
        optimizer.step()

    step()
    return optimizer, optimizer.state[parameter], step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_counts_are_tensors_that_are_advanced_in_place(name: str) -> None:
    _, state, step = training(name)
    numbers = {n: v for n, v in state.items() if isinstance(v, Tensor) and v.ndim == 0}
    assert set(numbers) == set(OPTIMIZERS[name])
    for value in numbers.values():
        assert value.dtype is lazyt.float32 and value.device.type == "cpu" and value.is_leaf
    count = state["step"]
    version = count._version
    doubled, copied, view, alias = count * 2, count.clone(), count.view(1), count.detach()
    step()
    assert state["step"] is count and count._version > version
    assert (doubled.item(), copied.item()) == (2.0, 1.0)
    assert (count.item(), view.tolist(), alias.item()) == (2.0, [2.0], 2.0)
    count.add_(40)
    step()
    assert (count.item(), view.tolist(), alias.item()) == (43.0, [43.0], 43.0)
    memory = count.numpy()
    step()
    assert memory == 44.0
    memory += 1
    step()
    assert count.item() == 46.0


@pytest.mark.parametrize("name", ["SGD", "Muon", "Lion"])
def test_others_count_nothing(name: str) -> None:
    assert "step" not in training(name)[1]


def test_a_count_does_not_wrap_around() -> None:
    _, state, step = training("Adam")
    state["step"].fill_(2.0**24 - 1)
    step()
    step()  # 2**24 + 1 is no float32 number
    assert state["step"].item() == 2.0**24
    state["step"].fill_(0.1)
    step()
    assert state["step"].item() == (lazyt.tensor(0.1) + 1).item()


def test_counts_have_the_default_dtype_if_that_is_double() -> None:
    lazyt.set_default_dtype(lazyt.float64)
    try:
        _, state, step = training("Adam")
        step()
    finally:
        lazyt.set_default_dtype(lazyt.float32)
    assert state["step"].dtype is lazyt.float64
    step()
    assert state["step"].item() == 3.0 and state["step"].dtype is lazyt.float64


@pytest.mark.parametrize(
    "count",
    [lazyt.tensor(7.0), lazyt.tensor([7.0]), lazyt.tensor(7), lazyt.tensor([0.0, 7.0])[1], 7],
    ids=["number", "one element", "int64", "view", "int"],
)
def test_counts_that_users_give(count: Any) -> None:
    def run(wrap: Any) -> list[Any]:
        optimizer, state, step = training("Adam")
        function = wrap(step)
        for _ in range(4):
            function()
        state["step"] = given = copy.deepcopy(count)
        for _ in range(4):
            function()
        if isinstance(given, Tensor):
            assert state["step"] is given
        (parameter,) = optimizer.param_groups[0]["params"]
        return [float(state["step"]), parameter.tolist()]

    captured = run(lazyt.jit)
    assert captured == run(lambda step: step)
    assert captured[0] == 11.0


def test_state_dicts_share_counts_and_loading_copies_them() -> None:
    optimizer, state, step = training("Adam")
    saved = optimizer.state_dict()
    assert saved["state"][0]["step"] is state["step"]
    step()
    assert saved["state"][0]["step"].item() == 2.0
    other, _, advance = training("Adam")
    other.load_state_dict(saved)
    (parameter,) = other.param_groups[0]["params"]
    loaded = other.state[parameter]["step"]
    assert loaded is not state["step"]
    advance()
    assert loaded.item() == 3.0 and state["step"].item() == 2.0
    saved["state"][0]["step"] = 5  # as old files have it
    other.load_state_dict(saved)
    advance()
    assert other.state[parameter]["step"].item() == 6.0
    assert other.state[parameter]["step"].dtype is lazyt.float32


def test_copies_and_files_go_on_counting() -> None:
    optimizer, _, step = training("NAdam")
    step()
    file = io.BytesIO()
    lazyt.save(optimizer.state_dict(), file)
    file.seek(0)
    read = lazyt.load(file)["state"][0]
    twin = copy.deepcopy(optimizer)
    (parameter,) = twin.param_groups[0]["params"]
    parameter.grad = lazyt.ones(2, 2)
    twin.step()
    assert read["step"].item() == 2.0
    assert twin.state[parameter]["step"].item() == 3.0
    (own,) = optimizer.param_groups[0]["params"]
    assert optimizer.state[own]["step"].item() == 2.0
    assert optimizer.state[own]["mu_product"].item() == read["mu_product"].item()


def test_counting_makes_no_graph() -> None:
    _, state, step = training("Adam")
    made = type(state["step"]._storage).__name__
    step()
    assert made == "CountStorage" and state["step"]._storage.count == 2.0


@pytest.mark.lazy  # captures nothing where all is eager, and so warns of nothing
def test_a_function_that_reads_a_count_sees_it_at_every_call() -> None:
    def run(wrap: Any) -> list[Any]:
        parameter = lazyt.ones(2, requires_grad=True)
        optimizer = optim.Adam([parameter], 0.1)
        (parameter * 2).sum().backward()
        optimizer.step()
        state = optimizer.state[parameter]

        def only_reads(x: Tensor) -> Tensor:
            return x * state["step"]  # type: ignore[no-any-return]

        def steps(x: Tensor) -> tuple[Tensor, Tensor]:
            before = x * state["step"]
            optimizer.zero_grad()
            (parameter * x).sum().backward()
            optimizer.step()
            return before, x + state["step"]

        first, second = wrap(only_reads), wrap(steps)
        shown: list[Any] = []
        for number in range(5):
            x = lazyt.full((2,), 1.0 + number)
            shown.append([first(x).tolist(), *(v.tolist() for v in second(x))])
        return [shown, parameter.tolist()]

    with pytest.warns(UserWarning, match="state\\['step'\\]"):
        captured = run(lazyt.jit)
    assert captured == run(lambda function: function)


def test_counts_in_inference_mode_and_with_gradients() -> None:
    _, state, step = training("Adam")
    state["step"].requires_grad_()
    step()
    assert state["step"].item() == 2.0 and state["step"].requires_grad
    with lazyt.inference_mode():
        state["step"] = lazyt.tensor(5.0)
    with pytest.raises(RuntimeError, match="inference tensor"):
        state["step"].add_(1)
