"""Autocast, loss scaling, checkpoints, the profiler, and torch.cuda without a GPU."""

from __future__ import annotations

import json
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F
from lazyt import Tensor, nn
from lazyt.amp import GradScaler
from lazyt.autograd.profiler import profile, record_function
from lazyt.utils.checkpoint import checkpoint, checkpoint_sequential

bf16, f32 = lazyt.bfloat16, lazyt.float32


# ---------------------------------------------------------------------- autocast


def test_autocast_knows_which_function_takes_what() -> None:
    a, image = lazyt.rand(3, 3), lazyt.rand(1, 1, 4, 4)
    half = a.bfloat16()
    with lazyt.autocast("cpu"):
        low = [
            a @ a, F.linear(a, a), lazyt.einsum("ij,jk->ik", a, a), F.conv2d(image, image),
            F.scaled_dot_product_attention(image, image, image), half.softmax(0), half.sum(),
        ]  # fmt: skip
        full = [F.mse_loss(half, half), F.cross_entropy(half, lazyt.tensor([0, 1, 2])), a + a]
        full += [half.prod(), half.trace()]
        assert (a.double() @ a.double()).dtype is lazyt.float64
    assert [t.dtype for t in low] == [bf16] * 7
    assert [t.dtype for t in full] == [f32] * 5
    assert (a @ a).dtype is f32


def test_autocast_nests_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    a = lazyt.ones(2, 2)
    with lazyt.autocast("cpu", dtype=lazyt.float16):
        assert lazyt.is_autocast_enabled() and (a @ a).dtype is lazyt.float16
        with lazyt.autocast("cpu", enabled=False):
            assert (a @ a).dtype is f32
        with pytest.raises(KeyError), lazyt.autocast("cpu"):
            raise KeyError
        assert lazyt.get_autocast_dtype("cpu") is lazyt.float16
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append((a @ a).dtype))
        thread.start()
        thread.join()
        assert found == [f32]  # each thread has its own

    @lazyt.autocast("cpu")
    def product(x: Tensor) -> Tensor:
        return x @ x

    assert product(a).dtype is bf16 and not lazyt.is_autocast_enabled()
    with pytest.raises(RuntimeError, match="unsupported autocast device_type"):
        lazyt.autocast("tpu")
    monkeypatch.setattr(
        "lazyt.handle.autocast._has_gpu", lambda: False
    )  # other tests use the emulator
    with pytest.warns(UserWarning, match="CUDA is not available"):
        lazyt.autocast("cuda")
    with pytest.warns(UserWarning, match="not supported"):
        assert not lazyt.autocast("cpu", dtype=lazyt.float64).enabled


def test_training_under_autocast_keeps_float32_weights() -> None:
    layer = nn.Linear(2, 1)
    with lazyt.autocast("cpu"):
        out = layer(lazyt.ones(4, 2))
        loss = F.mse_loss(out, lazyt.zeros(4, 1))
    loss.backward()
    assert (out.dtype, loss.dtype) == (bf16, f32)
    assert layer.weight.grad is not None and layer.weight.grad.dtype is f32


def test_scaler_skips_what_is_not_finite() -> None:
    weight = lazyt.tensor([1.0, 2.0], requires_grad=True)
    optimizer = lazyt.optim.SGD([weight], lr=0.5)
    scaler = GradScaler("cpu", init_scale=1024.0, growth_interval=1)
    scaler.scale((weight * 3).sum()).backward()
    assert weight.grad is not None and weight.grad.tolist() == [3072.0, 3072.0]
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [-0.5, 0.5] and scaler.get_scale() == 2048.0
    optimizer.zero_grad()
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [-0.5, 0.5] and scaler.get_scale() == 1024.0
    other = GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 1024.0
    with pytest.raises(RuntimeError, match="No inf checks"):
        scaler.update()


def test_scaler_without_gpu_passes_through() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = GradScaler()
    loss = lazyt.ones(1)
    assert not scaler.is_enabled() and scaler.scale(loss) is loss and scaler.state_dict() == {}


# ---------------------------------------------------------------------- checkpoints


def test_checkpoint_of_a_chain_with_closures() -> None:
    layers = [nn.Linear(3, 3) for _ in range(3)]

    def run(use: bool) -> list[Any]:
        x = lazyt.ones(2, 3, requires_grad=True)
        h: Tensor = x
        for layer in layers:
            layer.zero_grad()

            def step(t: Tensor, layer: nn.Module = layer) -> Tensor:
                return lazyt.tanh(layer(t)) * t

            h = checkpoint(step, h, use_reentrant=False) if use else step(h)
        (h**2).sum().backward()
        grads = [p.grad for layer in layers for p in layer.parameters()]
        return [t.tolist() for t in (h, x.grad, *grads) if t is not None]

    for ours, plain in zip(run(True), run(False), strict=True):
        assert lazyt.allclose(lazyt.tensor(ours), lazyt.tensor(plain), rtol=1e-6)


def test_checkpoint_draws_the_same_numbers_again() -> None:
    x = lazyt.ones(50, requires_grad=True)
    out = checkpoint(lambda t: F.dropout(t, 0.5) * 3, x)
    lazyt.rand(3)  # what is drawn in between must not matter
    out.sum().backward()
    assert x.grad is not None and x.grad.tolist() == out.tolist()
    before = lazyt.get_rng_state().tolist()
    checkpoint(lambda t: t * 2, x).sum().backward()
    assert lazyt.get_rng_state().tolist() == before


def test_checkpoint_keeps_structures_and_modes() -> None:
    x = lazyt.tensor([1.0, 2.0], requires_grad=True)
    modes = []

    def f(t: Tensor, *, k: float) -> dict[str, Any]:
        modes.append((lazyt.is_grad_enabled(), lazyt.is_autocast_enabled()))
        return {"a": (t * k, [t + 1]), "n": 3, "plain": t.detach()}

    with lazyt.autocast("cpu"):
        out = checkpoint(f, x, k=2.0)
    assert out["n"] == 3 and not out["plain"].requires_grad
    (out["a"][0].sum() + out["a"][1][0].sum() * 10).backward()
    assert x.grad is not None and x.grad.tolist() == [12.0, 12.0]
    assert modes == [(True, True), (True, True)]
    with lazyt.no_grad():
        assert not checkpoint(f, x, k=1.0)["a"][0].requires_grad


def test_checkpoint_gradients_can_be_differentiated() -> None:
    x = lazyt.tensor(2.0, requires_grad=True)
    y = checkpoint(lambda t: t**3, x)
    (first,) = lazyt.autograd.grad(y, x, create_graph=True)
    assert first is not None
    (second,) = lazyt.autograd.grad(first, x)
    assert second is not None and (first.item(), second.item()) == (12.0, 12.0)


def test_checkpoint_errors() -> None:
    x = lazyt.ones(2, requires_grad=True)
    y = checkpoint(lambda t: t.exp(), x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    base = lazyt.ones(2, requires_grad=True) * 1
    z = checkpoint(lambda t: t.exp(), base).sum()
    base.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    sizes = iter([2, 1])
    w = checkpoint(lambda t: t[: next(sizes)] * 2, x).sum()
    with pytest.raises(RuntimeError, match=r"\[\[1\]\] instead of \[\[2\]\]"):
        w.backward()


def test_sequential_checkpoints() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
    x = lazyt.ones(1, 2, requires_grad=True)
    out = checkpoint_sequential(net, 2, x, use_reentrant=False)
    out.sum().backward()
    mine = x.grad
    x.grad = None
    net(x).sum().backward()
    assert mine is not None and x.grad is not None and lazyt.allclose(mine, x.grad)


# ---------------------------------------------------------------------- profiler


@pytest.mark.fused
def test_profiler_times_kernels(tmp_path: Path) -> None:
    a = lazyt.rand(32, 32).realize()
    with profile(profile_memory=True, with_flops=True) as prof, record_function("layer"):
        for scale in (1.0, 2.0, 3.0):
            (a @ a * scale + 1).softmax(1).realize()
    rows = {row.key: row for row in prof.key_averages()}
    (products,) = [row for name, row in rows.items() if "mm" in name]
    assert products.count == 3 and products.cpu_memory_usage == 3 * 4 * 32 * 32
    assert products.flops >= 3 * 2 * 32**3
    layer = rows["layer"]
    assert layer.self_cpu_time_total < layer.cpu_time_total
    inner = sum(r.cpu_time_total for n, r in rows.items() if n.startswith("lazyt::plan"))
    assert 0 < inner < layer.cpu_time_total <= rows["python"].cpu_time_total
    assert prof.self_cpu_time_total == pytest.approx(rows["python"].cpu_time_total, rel=1e-3)
    lines = prof.key_averages().table(sort_by="cpu_time_total", row_limit=2).splitlines()
    assert lines[3].split()[0] == "python" and len(lines) == 7 + ("compile" in rows)
    with pytest.raises(AttributeError):
        prof.key_averages().table(sort_by="odd")
    shaped = prof.key_averages(group_by_input_shape=True)
    assert len(shaped) >= len(rows)
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) == sum(row.count for row in rows.values())


@pytest.mark.fused
def test_profiler_ends_with_its_block() -> None:
    a = lazyt.rand(4, 4).realize()
    with pytest.raises(KeyError), profile() as broken:
        raise KeyError
    with profile() as outer:
        (a + 1).realize()
        with profile() as inner:
            (a + 2).realize()
    (a + 3).realize()
    rows = [[r for r in p.key_averages() if "elementwise" in r.key] for p in (outer, inner)]
    assert [sum(r.count for r in found) for found in rows] == [2, 1]
    assert not [r for r in broken.key_averages() if "lazyt" in r.key]
    with profile(enabled=False) as off:
        (a + 4).realize()
    assert list(off.key_averages()) == []


# ---------------------------------------------------------------------- cuda, backends


needs_no_gpu = pytest.mark.skipif(lazyt.cuda.is_available(), reason="for machines without a GPU")


@needs_no_gpu
def test_questions_about_gpus_have_answers() -> None:
    assert lazyt.cuda.device_count() == 0 and not lazyt.cuda.is_bf16_supported()
    assert lazyt.cuda.memory_allocated() == lazyt.cuda.max_memory_reserved() == 0
    assert "Allocated memory" in lazyt.cuda.memory_summary()
    lazyt.cuda.manual_seed_all(3)
    with lazyt.cuda.device(None), lazyt.cuda.stream(None):
        assert lazyt.ones(2).sum().item() == 2.0
    lazyt.backends.cudnn.benchmark = True
    assert not lazyt.backends.mps.is_available() and not lazyt.backends.cuda.is_built()


@needs_no_gpu
@pytest.mark.parametrize(
    "demand",
    [
        lazyt.cuda.synchronize, lazyt.cuda.current_device, lazyt.cuda.get_device_name,
        lazyt.cuda.Stream, lazyt.cuda.Event, lazyt.cuda.current_stream, lazyt.cuda.init,
        lazyt.cuda.mem_get_info, lambda: lazyt.cuda.set_device(1),
        lambda: lazyt.cuda.device(0).__enter__(),
    ],
)  # fmt: skip
def test_demands_say_what_is_missing(demand: Any) -> None:
    with pytest.raises(RuntimeError, match="cannot use cuda"):
        demand()


@needs_no_gpu
def test_cuda_amp_without_gpu() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lazyt.cuda.amp.autocast():
            assert (lazyt.ones(1, 1) @ lazyt.ones(1, 1)).dtype is f32
        assert not lazyt.cuda.amp.GradScaler().is_enabled()


def test_unknown_names_are_named() -> None:
    with pytest.raises(AttributeError, match="no_such_package"):
        _ = lazyt.no_such_package
    with pytest.raises(AttributeError, match="no_such_module"):
        _ = lazyt.autograd.no_such_module
