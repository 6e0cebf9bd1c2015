"""Optimizers against PyTorch 2.13's numbers, their settings and state, and what a step costs."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import lazyt
from lazyt import Tensor, nn, optim
from lazyt.config import config
from lazyt.runtime import events

Make = Callable[[list[Tensor]], optim.Optimizer]

# Six steps from [1, -2, 0.5] on a weighted sum of squares, computed by PyTorch.
CASES: dict[str, tuple[Make, list[float]]] = {
    "sgd": (lambda p: optim.SGD(p, lr=0.1), [0.262144, -0.594323, 1.930016]),
    "decay": (
        lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1),
        [0.243087, -0.536673, 1.890006],
    ),
    "dampened": (
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
        [-0.607183, 1.202673, 3.015725],
    ),
    "nesterov": (
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        [-0.396822, 1.767874, 1.991721],
    ),
    "maximize": (
        lambda p: optim.SGD(p, lr=0.1, momentum=0.5, maximize=True),
        [4.643534, -6.084008, -18.282454],
    ),
    "adam": (lambda p: optim.Adam(p, lr=0.1), [0.414237, -1.403064, 1.092364]),
    "adam decay": (
        lambda p: optim.Adam(p, lr=0.1, weight_decay=0.1, betas=(0.8, 0.95)),
        [0.419847, -1.404838, 1.0884],
    ),
    "amsgrad": (
        lambda p: optim.Adam(p, lr=0.1, amsgrad=True, eps=1e-3),
        [0.414557, -1.40327, 1.092258],
    ),
    "adamw": (
        lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.2),
        [0.333226, -1.205317, 1.007529],
    ),
    "rmsprop": (lambda p: optim.RMSprop(p, lr=0.05), [0.027585, -0.416675, 1.772817]),
    "rmsprop centered": (
        lambda p: optim.RMSprop(p, lr=0.05, centered=True, momentum=0.9, weight_decay=0.1),
        [-0.500327, 2.462405, 3.104705],
    ),
    "adagrad": (
        lambda p: optim.Adagrad(p, lr=0.3, lr_decay=0.1, initial_accumulator_value=0.2),
        [0.281127, -1.131688, 1.304363],
    ),
}


def descend(weight: Tensor, optimizer: optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        gap = weight - lazyt.tensor([0.0, 1.0, 2.0], dtype=weight.dtype)
        (gap**2 * lazyt.tensor([1.0, 0.5, 2.0], dtype=weight.dtype)).sum().backward()
        optimizer.step()


def start(dtype: Any = lazyt.float32) -> Tensor:
    return lazyt.tensor([1.0, -2.0, 0.5], dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("name", CASES)
def test_steps_are_pytorchs(name: str) -> None:
    make, expected = CASES[name]
    weight = start()
    descend(weight, make([weight]), 6)
    assert weight.tolist() == pytest.approx(expected, rel=2e-6, abs=2e-6)
    assert weight.is_leaf and weight.requires_grad


@pytest.mark.parametrize("dtype", [lazyt.float64, lazyt.bfloat16])
def test_other_dtypes_stay_what_they_are(dtype: Any) -> None:
    weight = start(dtype)
    optimizer = optim.Adam([weight], lr=0.1)
    descend(weight, optimizer, 6)
    tolerance = 1e-6 if dtype is lazyt.float64 else 0.05
    assert weight.tolist() == pytest.approx(CASES["adam"][1], rel=tolerance, abs=tolerance)
    assert weight.dtype is dtype
    assert optimizer.state[weight]["exp_avg"].dtype is dtype


@pytest.mark.parametrize("name", ["nesterov", "amsgrad", "rmsprop centered", "adagrad"])
def test_state_dict_goes_on_where_it_was_taken(name: str) -> None:
    make, expected = CASES[name]
    weight = start()
    first = make([weight])
    descend(weight, first, 3)
    saved = pickle.loads(pickle.dumps(first.state_dict()))
    other = weight.detach().clone().requires_grad_()
    second = make([other])
    second.load_state_dict(saved)
    descend(other, second, 3)
    assert other.tolist() == pytest.approx(expected, rel=2e-6, abs=2e-6)
    descend(weight, first, 3)
    assert other.tolist() == weight.tolist()


def test_optimizers_copy_with_their_state() -> None:
    weight = start()
    optimizer = optim.Adam([weight], lr=0.1)
    descend(weight, optimizer, 2)
    twin, again = copy.deepcopy((weight, optimizer))
    descend(twin, again, 4)
    assert twin.tolist() == pytest.approx(CASES["adam"][1], rel=1e-5)
    assert weight.tolist() != twin.tolist()


def test_groups_have_their_own_settings() -> None:
    a, b = start(), start()
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)
    (a.sum() + b.sum()).backward()
    optimizer.step()
    assert a.tolist() == pytest.approx([0.9, -2.1, 0.4])
    assert b.tolist() == pytest.approx([0.5, -2.5, 0.0])
    optimizer.param_groups[0]["lr"] = 1.0
    optimizer.step()
    assert a.tolist() == pytest.approx([-0.1, -3.1, -0.6])


def test_closure_gives_the_loss() -> None:
    weight = start()
    optimizer = optim.SGD([weight], lr=0.1)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = (weight**2).sum()
        loss.backward()
        return loss

    with lazyt.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == pytest.approx(5.25)
    assert weight.tolist() == pytest.approx([0.8, -1.6, 0.4])


@pytest.mark.lazy
def test_a_step_computes_nothing() -> None:
    weight = start()
    optimizer = optim.Adam([weight])
    weight.grad = lazyt.ones(3)
    with config.override(strict_laziness=True):
        optimizer.step()
        assert optimizer.state[weight]["exp_avg"].node.data is None
        assert weight.node.data is None


@pytest.mark.fused
@pytest.mark.parametrize("look", [False, True])
def test_a_training_loop_compiles_once(look: bool) -> None:
    lazyt.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 2))
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    inputs = lazyt.randn(5, 4).realize()
    events.forget()  # a full log forgets an event for each new one
    before = 0
    for step in range(8):
        if step == 2:
            before = len(events.recorded("compile")) + len(events.recorded("load"))
        optimizer.zero_grad()
        loss = (net(inputs) ** 2).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        if look:
            loss.item()
    assert len(events.recorded("compile")) + len(events.recorded("load")) == before


def test_pending_work_does_not_pile_up() -> None:
    weight = start()
    optimizer = optim.SGD([weight], lr=0.01, momentum=0.9)
    with config.override(max_pending_nodes=400, strict_laziness=True):
        descend(weight, optimizer, 200)  # would be over the budget without zero_grad's help
    assert weight.tolist() == pytest.approx([0.0, 1.0, 2.0], abs=1e-2)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: optim.SGD([], lr=0.1), ValueError, "empty parameter list"),
        (lambda: optim.SGD(start(), lr=0.1), TypeError, "iterable"),
        (lambda: optim.SGD([start()], lr=-1.0), ValueError, "Invalid learning rate: -1.0"),
        (lambda: optim.SGD([start() * 2], lr=0.1), ValueError, "non-leaf"),
        (lambda: optim.SGD([start()], lr=0.1, nesterov=True), ValueError, "Nesterov"),
        (lambda: optim.Adam([start()], betas=(1.0, 0.9)), ValueError, "index 0: 1.0"),
        (lambda: optim.Adam([3.0]), TypeError, "float"),
    ],
)  # fmt: skip
def test_wrong_settings_raise(
    make: Callable[[], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        make()


def test_a_parameter_in_two_groups_raises() -> None:
    weight = start()
    with pytest.raises(ValueError, match="more than one parameter group"):
        optim.SGD([{"params": [weight]}, {"params": [weight]}], lr=0.1)


def test_repr_lists_groups() -> None:
    text = repr(optim.SGD([start()], lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "    lr: 0.1\n" in text


COMPLEX: dict[str, Make] = {
    **{name: make for name, (make, _) in CASES.items()},
    "adamax": lambda p: optim.Adamax(p, lr=0.1, weight_decay=0.1),
    "nadam": lambda p: optim.NAdam(p, lr=0.1),
    "radam": lambda p: optim.RAdam(p, lr=0.1),
    "adadelta": lambda p: optim.Adadelta(p, lr=0.5),
    "rprop": lambda p: optim.Rprop(p, lr=0.05),
    "asgd": lambda p: optim.ASGD(p, lr=0.05),
    "lion": lambda p: optim.Lion(p, lr=0.05),
    "lbfgs": lambda p: optim.LBFGS(p, lr=0.5, max_iter=4),
    "wolfe": lambda p: optim.LBFGS(p, max_iter=4, line_search_fn="strong_wolfe"),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_parameters_are_pairs_of_real_ones(name: str) -> None:
    """As PyTorch has it: every step is that of ``view_as_real``, and state is complex."""
    z = nn.Parameter(lazyt.tensor([[1 + 2j, -2 - 1j], [0.5j, 3 + 0j]]))
    x = nn.Parameter(lazyt.view_as_real(z.detach()).clone())
    sides = ((z, COMPLEX[name]([z])), (x, COMPLEX[name]([x])))
    for _ in range(3):
        for parameter, optimizer in sides:

            def loss(p: Tensor = parameter, o: optim.Optimizer = optimizer) -> Tensor:
                o.zero_grad()
                pairs = lazyt.view_as_real(p) if p is z else p
                value = (pairs.square() - 1).square().sum() + pairs.prod(-1).sum()
                value.backward()
                return value

            optimizer.step(loss)
    assert lazyt.view_as_real(z.detach()).tolist() == x.tolist()
    for key, value in sides[0][1].state[z].items():
        if "lbfgs" not in name and "wolfe" not in name and key not in ("step", "eta", "mu"):
            assert key == "mu_product" or value.dtype is lazyt.complex64
    if name not in ("lbfgs", "wolfe"):
        saved = copy.deepcopy(sides[0][1].state_dict())
        again = COMPLEX[name]([z])
        again.load_state_dict(saved)
        for key, value in again.state[z].items():
            assert value.dtype is sides[0][1].state[z][key].dtype


def test_who_refuses_complex_parameters() -> None:
    z = nn.Parameter(lazyt.ones(2, 2, dtype=lazyt.complex64))
    with pytest.raises(ValueError, match=r"Complex params at indices \[\[0, 0\]\]: SparseAdam"):
        optim.SparseAdam([z])
    z.grad = lazyt.ones_like(z)
    for kind in (optim.Adafactor, optim.Muon):
        with pytest.raises(RuntimeError, match=f"{kind.__name__} does not support complex"):
            kind([z]).step()
