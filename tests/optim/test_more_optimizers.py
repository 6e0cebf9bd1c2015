"""The less common optimizers against PyTorch 2.13's numbers; hooks, state and messages of all."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, cast

import pytest

import lazyt
from lazyt import Tensor, optim

Make = Callable[[list[Tensor]], optim.Optimizer]

# Six steps from [[1, -2, 0.5]] on a weighted sum of squares and the names of state, by PyTorch.
CASES: dict[str, tuple[Make, list[float], str]] = {
    "adadelta": (
        lambda p: optim.Adadelta(p, 2.0, rho=0.8, eps=1e-3, weight_decay=0.1),
        [0.297899, -1.142445, 1.27739], "acc_delta square_avg step",
    ),
    "adamax": (
        lambda p: optim.Adamax(p, 0.1, weight_decay=0.1),
        [0.477191, -1.426469, 1.046409], "exp_avg exp_inf step",
    ),
    "nadam": (
        lambda p: optim.NAdam(p, 0.1, weight_decay=0.1),
        [0.560437, -1.531552, 0.9539], "exp_avg exp_avg_sq mu_product step",
    ),
    "nadam decoupled": (
        lambda p: optim.NAdam(
            p, 0.1, weight_decay=0.1, decoupled_weight_decay=True, momentum_decay=0.1
        ),
        [0.519995, -1.430738, 0.914661], "exp_avg exp_avg_sq mu_product step",
    ),
    "radam": (
        lambda p: optim.RAdam(p, 0.1, betas=(0.9, 0.95)),
        [0.18606, -0.639544, 2.386654], "exp_avg exp_avg_sq step",
    ),
    "rprop": (lambda p: optim.Rprop(p, 0.5), [0.05, 1.7208, 1.96], "prev step step_size"),
    "asgd": (
        lambda p: optim.ASGD(p, 0.1, lambd=0.1, t0=3.0, weight_decay=0.1),
        [0.232205, -0.50215, 1.846935], "ax eta mu step",
    ),
    "adafactor": (
        lambda p: optim.Adafactor(p, 0.3, weight_decay=0.1),
        [0.006151, -0.209538, 1.686346], "col_var row_var step",
    ),
    "muon": (
        lambda p: optim.Muon(p, 0.1, adjust_lr_fn="match_rms_adamw"),
        [0.902087, -1.823307, 0.590046], "momentum_buffer",
    ),
    "rmsprop of a tensor": (
        lambda p: optim.RMSprop(p, lazyt.tensor(0.05), maximize=True),
        [3.193078, -3.998672, -1.613456], "square_avg step",
    ),
    "adam decoupled": (
        lambda p: optim.Adam(p, 0.1, weight_decay=0.2, decoupled_weight_decay=True, maximize=True),
        [1.459895, -2.343698, -0.130999], "exp_avg exp_avg_sq step",
    ),
}  # fmt: skip


def descend(weight: Tensor, optimizer: optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        gap = weight - lazyt.tensor([[0.0, 1.0, 2.0]])
        (gap**2 * lazyt.tensor([[1.0, 0.5, 2.0]])).sum().backward()
        optimizer.step()


def start() -> Tensor:
    return lazyt.tensor([[1.0, -2.0, 0.5]], requires_grad=True)


#: Muon computes in bfloat16: what fuses rounds less often on the way
ROUNDED = pytest.param("muon", marks=pytest.mark.varies)


@pytest.mark.parametrize("name", [ROUNDED if name == "muon" else name for name in CASES])
def test_steps_are_pytorchs_and_go_on_from_a_file(name: str) -> None:
    make, expected, names = CASES[name]
    weight = start()
    first = make([weight])
    descend(weight, first, 3)
    state = first.state_dict()
    assert sorted(state["state"][0]) == names.split()
    file = io.BytesIO()
    lazyt.save({"weight": weight.detach(), "optimizer": state}, file)
    file.seek(0)
    saved = lazyt.load(file)
    weight = saved["weight"].requires_grad_()
    second = make([weight])
    second.load_state_dict(saved["optimizer"])
    descend(weight, second, 3)
    tolerance = 5e-3 if name == "muon" else 3e-6  # Muon computes in bfloat16
    assert weight[0].tolist() == pytest.approx(expected, rel=tolerance, abs=tolerance)


def test_counts_are_tensors_in_state_dicts() -> None:
    weight = start()
    optimizer = optim.NAdam([weight])
    descend(weight, optimizer, 2)
    state = optimizer.state_dict()["state"][0]
    assert state["step"].item() == 2 and state["step"].dtype is lazyt.float32
    assert state["mu_product"].item() == pytest.approx(0.2023, rel=1e-2)


def test_lion_is_the_papers() -> None:
    weight = start()
    optimizer = optim.Lion([weight], lr=0.1, betas=(0.5, 0.75), weight_decay=0.5)
    value, mean = [1.0, -2.0, 0.5], [0.0, 0.0, 0.0]
    for _ in range(3):
        slopes = [2 * w * (x - c) for x, c, w in zip(value, [0, 1, 2], [1, 0.5, 2], strict=True)]
        mixed = [0.5 * m + 0.5 * g for m, g in zip(mean, slopes, strict=True)]
        value = [0.95 * x - 0.1 * (1 if d > 0 else -1) for x, d in zip(value, mixed, strict=True)]
        mean = [0.75 * m + 0.25 * g for m, g in zip(mean, slopes, strict=True)]
    descend(weight, optimizer, 3)
    assert weight[0].tolist() == pytest.approx(value, rel=1e-6)


def test_sparse_adam_refuses_dense_gradients() -> None:
    weight = start()
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        descend(weight, optim.SparseAdam([weight]), 1)


# ------------------------------------------------------------------ L-BFGS


def minimize(**settings: Any) -> tuple[list[float], list[float], list[int]]:
    """Losses, values and counts of three steps on a curved valley."""
    x = lazyt.tensor([-1.5, 2.0, 0.3], dtype=lazyt.float64, requires_grad=True)
    y = lazyt.tensor([[0.5]], dtype=lazyt.float64, requires_grad=True)
    optimizer = optim.LBFGS([x, y], **settings)

    def closure() -> Tensor:
        optimizer.zero_grad()
        valley = (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2
        loss: Tensor = valley + (x[2] - y[0, 0]) ** 4 + (y**2).sum() * 0.5
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure)) for _ in range(3)]
    state = optimizer.state[x]
    return losses, x.tolist(), [state["func_evals"], state["n_iter"], len(state["ro"])]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (
            {"lr": 0.01, "max_iter": 4, "history_size": 2},
            (
                [7.0016, 6.790609917, 6.723527324],
                [-1.481201779, 2.000108146, 0.3001206513],
                [12, 12, 2],
            ),
        ),
        (
            {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 6},
            (
                [7.0016, 5.152555078, 0.8463214319],
                [0.7175379613, 0.4740648914, -0.03098923296],
                [21, 14, 3],
            ),
        ),
        (
            {"line_search_fn": "strong_wolfe", "max_eval": 7},
            (
                [7.0016, 5.16078882, 0.9841434449],
                [0.7064168726, 0.4900270758, -0.335447249],
                [22, 16, 15],
            ),
        ),
    ],
)
def test_lbfgs_is_pytorchs(settings: dict[str, Any], wanted: Any) -> None:
    wanted_losses, wanted_x, wanted_counts = wanted
    losses, x, counts = minimize(**settings)
    assert losses == pytest.approx(wanted_losses, rel=1e-8)
    assert x == pytest.approx(wanted_x, rel=1e-6, abs=1e-9)
    assert counts == wanted_counts


def test_lbfgs_says_what_it_does_not_take() -> None:
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        minimize(line_search_fn="armijo")
    with pytest.raises(ValueError, match="per-parameter options"):
        optim.LBFGS([{"params": [start()]}, {"params": [start()]}])
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([start()]).step()


# ------------------------------------------------------------------ what all share


def test_hooks_are_called_in_order() -> None:
    weight = start()
    optimizer = optim.SGD([weight], lr=0.1)
    weight.grad = lazyt.ones(1, 3)
    log: list[Any] = []
    before = optimizer.register_step_pre_hook(lambda o, a, k: log.append(("pre", o is a[0], k)))
    optimizer.register_step_post_hook(lambda o, a, k: log.append(("post", len(a), sorted(k))))
    optimizer.step()
    before.remove()
    optimizer.step(closure=lambda: 4.0)
    assert log == [("pre", True, {}), ("post", 1, []), ("post", 1, ["closure"])]
    log.clear()
    optimizer.register_state_dict_pre_hook(lambda o: log.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: log.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, s: {**s, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, s: log.append(sorted(s)))
    optimizer.register_load_state_dict_post_hook(lambda o: log.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert log == ["first", "second", ["more", "param_groups", "state"], "loaded"]
    optimizer.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


def test_optimizers_of_users_have_hooks_and_schedules() -> None:
    class Plain(optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            with lazyt.no_grad():
                for group in self.param_groups:
                    for parameter in group["params"]:
                        parameter.sub_(parameter.grad, alpha=group["lr"])

    weight = start()
    optimizer = Plain([weight], {"lr": 0.5})
    calls: list[int] = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(2):
        weight.grad = lazyt.ones(1, 3)
        optimizer.step()
        schedule.step()  # warns when no step was counted
    assert weight[0].tolist() == [0.25, -2.75, -0.25] and calls == [1, 1]


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda w: optim.SGD([("a", w), start()]), ValueError, "Some param names are missing"),
    (lambda w: optim.SGD([w]).add_param_group({"params": [("a", start())]}), ValueError,
     "cannot add param group with names"),
    (lambda w: optim.SGD([w]).add_param_group(cast(Any, 3)), TypeError, "must be a dict"),
    (lambda w: optim.SGD([{"params": {w}}]), TypeError, "ordered collections"),
    (lambda w: optim.SGD([w], lr=lazyt.ones(2)), ValueError, "Tensor lr must be 1-element"),
    (lambda w: optim.Adam([w], betas=(0, 0.9)), ValueError, "both floats or both Tensors"),
    (lambda w: optim.Adam([w], fused=True, foreach=True), RuntimeError, "cannot be `True`"),
    (lambda w: optim.AdamW([w], lr=lazyt.ones(1), foreach=True), ValueError, "lr as a Tensor"),
    (lambda w: optim.Rprop([w], etas=(2.0, 3.0)), ValueError, "Invalid eta values: 2.0, 3.0"),
    (lambda w: optim.Adafactor([w], d=0.5), ValueError, "threshold d should be >= 1 but is: 0.5"),
    (lambda w: optim.Muon([w[0].detach()]), ValueError, "Muon only supports 2D parameters"),
    (lambda w: optim.Muon([w], adjust_lr_fn="x"), ValueError, "function x is not supported"),
    (lambda w: optim.NAdam([w], momentum_decay=-1.0), ValueError, "Invalid momentum_decay value"),
    (lambda w: optim.SGD([w]).load_state_dict(optim.SGD([w, start()]).state_dict()), ValueError,
     "doesn't match the size"),
])  # fmt: skip
def test_messages_are_pytorchs(
    make: Callable[[Tensor], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        make(start())


def test_a_parameter_twice_in_one_group_warns() -> None:
    weight = start()
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([weight, weight])
