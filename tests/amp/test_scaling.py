"""GradScaler, and custom functions under autocast, as PyTorch 2.13 has them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, cast

import pytest

import lazyt
from lazyt import Tensor, optim
from lazyt.amp import GradScaler, autocast, custom_bwd, custom_fwd


def test_scale_follows_the_gradients() -> None:
    weight = lazyt.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.Adam([weight], lr=0.1)
    scaler = GradScaler("cpu", 3.0, growth_factor=2.1, backoff_factor=0.3, growth_interval=2)
    scales, norms = [], []
    for step in range(6):
        optimizer.zero_grad()
        loss = (weight * weight).sum() * (float("nan") if step == 3 else 1.0)
        scaler.scale(loss).backward()
        if step % 2 == 0:
            scaler.unscale_(optimizer)
            norms.append(lazyt.nn.utils.clip_grad_norm_([weight], 1.0).item())
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    # 3 * 2.1 after two good steps, * 0.3 for the fourth, which is left out, * 2.1 after two more
    assert scales == pytest.approx([3.0, 6.3, 6.3, 1.89, 1.89, 3.969])
    assert optimizer.state_dict()["state"][0]["step"].item() == 5
    assert norms[0] == pytest.approx(20**0.5)
    again = GradScaler("cpu")
    again.load_state_dict(pickle.loads(pickle.dumps(scaler)).state_dict())
    assert again.state_dict() == scaler.state_dict()
    assert list(again.state_dict()) == [
        "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker",
    ]  # fmt: skip


def test_a_scale_does_not_grow_to_infinity() -> None:
    weight = lazyt.tensor([1e-30], requires_grad=True)
    optimizer = optim.SGD([weight])
    scaler = GradScaler("cpu", 2.0**127, growth_interval=1)
    scaler.scale((weight * 1e-5).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def steps(*names: str) -> Callable[[], Any]:
    """A program that calls these methods of a scaler, in order."""

    def run() -> None:
        weight = lazyt.ones(2, requires_grad=True)
        optimizer = optim.SGD([weight])
        scaler = GradScaler("cpu")
        calls: dict[str, Callable[[], Any]] = {
            "scale": lambda: scaler.scale(weight.sum()).backward(),
            "unscale": lambda: scaler.unscale_(optimizer),
            "step": lambda: scaler.step(optimizer),
            "closure": lambda: scaler.step(optimizer, closure=lambda: 1.0),
            "update": lambda: scaler.update(),
            "tensor": lambda: scaler.update(lazyt.ones(2)),
            "forget": optimizer.zero_grad,
            "number": lambda: scaler.scale(3),
            "pickle": lambda: pickle.dumps(scaler),
            "load": lambda: scaler.load_state_dict({}),
        }
        for name in names:
            calls[name]()

    return run


@pytest.mark.parametrize(("run", "error", "text"), [
    (steps("step"), AssertionError, "Attempted step but _scale is None"),
    (steps("update"), AssertionError, "Attempted update but _scale is None"),
    (steps("scale", "update"), AssertionError, "prior to update"),
    (steps("scale", "forget", "step"), AssertionError, "recorded for this optimizer"),
    (steps("scale", "unscale", "unscale"), RuntimeError, "already been called on this optimizer"),
    (steps("scale", "step", "step"), RuntimeError, r"step\(\) has already been called"),
    (steps("scale", "step", "unscale"), RuntimeError, r"called after step\(\)"),
    (steps("scale", "closure"), RuntimeError, "Closure use is not"),
    (steps("scale", "tensor"), AssertionError, "new_scale should be a float"),
    (steps("scale", "unscale", "pickle"), AssertionError, "may only be pickled"),
    (steps("number"), ValueError, "outputs must be a Tensor"),
    (steps("load"), RuntimeError, "source state dict is empty"),
    (lambda: GradScaler("cpu", growth_factor=1.0), AssertionError, "growth factor must be > 1.0"),
    (lambda: GradScaler("cpu", backoff_factor=1.0), AssertionError, "backoff factor must be < 1"),
    (lambda: custom_fwd(device_type=cast(Any, 3)), ValueError, "Expected `device_type` of type"),
    (lambda: autocast("tpu"), RuntimeError, "unsupported autocast device_type 'tpu'"),
])  # fmt: skip
def test_messages_are_pytorchs(run: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run()


@pytest.mark.lazy
def test_a_captured_step_of_a_scaler_runs_as_always() -> None:
    weight = lazyt.ones(2, requires_grad=True)
    optimizer = optim.SGD([weight], lr=1.0)
    scaler = GradScaler("cpu", 4.0)

    def step(factor: Tensor) -> None:
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    captured = lazyt.jit(step)
    with pytest.warns(UserWarning, match=r"lazyt\.jit leaves"):
        for value in (1.0, 1.0, float("inf"), 1.0, 1.0, 1.0):
            captured(lazyt.tensor(value))
    assert weight.tolist() == [-4.0, -4.0] and scaler.get_scale() == 2.0


@pytest.mark.parametrize(("inputs", "seen"), [
    (None, [("float32", True), ("bfloat16", True)]),
    (lazyt.float16, [("float16", False), ("float16", False)]),
])  # fmt: skip
def test_custom_functions_run_as_they_say(inputs: Any, seen: list[Any]) -> None:
    log: list[Any] = []

    class Product(lazyt.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=inputs)  # type: ignore[untyped-decorator]
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            log.append((x.dtype.name, lazyt.is_autocast_enabled()))
            ctx.save_for_backward(x, y)
            return x @ y

        @staticmethod
        @custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
        def backward(ctx: Any, grad: Any) -> Any:
            x, y = ctx.saved_tensors
            log.append((grad.dtype.name, lazyt.is_autocast_enabled()))
            return grad @ y.T, x.T @ grad

    x = lazyt.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        result = Product.apply(x, x.detach())
    result.sum().backward()
    assert log == seen
    assert x.grad is not None and x.grad.dtype is lazyt.float32 and x.grad.tolist() == [[2, 2]] * 2
    log.clear()
    assert Product.apply(x, x).dtype is lazyt.float32 and log == [("float32", False)]


def test_a_region_that_is_off_remembers_the_dtype() -> None:
    with autocast("cpu", lazyt.float16), autocast("cpu", enabled=False):
        assert lazyt.get_autocast_dtype("cpu") is lazyt.float16
        with autocast("cpu"):
            assert (lazyt.ones(2, 2) @ lazyt.ones(2, 2)).dtype is lazyt.float16
    assert lazyt.get_autocast_dtype("cpu") is lazyt.bfloat16
