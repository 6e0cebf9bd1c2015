"""Programs on ``cuda:emu``: the CPU's values to the bit, on the device that PyTorch would say."""

from __future__ import annotations

import copy
import io
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt.errors import DeviceError, LazytError
from lazyt.runtime.cuda import device as cuda_device

EMU = "cuda:emu"


def same(a: Any, b: Any) -> None:
    """Equal dtypes, shapes and bits, wherever they are."""
    assert a.dtype == b.dtype and lt.equal(a.cpu(), b.cpu()), (a, b)


def test_where_things_are_made() -> None:
    x = lt.ones(3, device=EMU)
    assert str(x.device) == EMU and x.device.type == "cuda" and str(x.device.index) == "emu"
    assert x.is_cuda and not x.is_cpu and x.get_device() == 0 and lt.ones(1).get_device() == -1
    assert x.device == lt.device("cuda", "emu") == lt.device(EMU) != lt.device("cuda")
    assert repr(x * 2) == "tensor([2., 2., 2.], device='cuda:emu')"
    assert x.to(EMU) is x and x.cpu().is_cpu and x.cpu().cpu().device == lt.device("cpu")
    assert lt.zeros(2, 3).t().to(EMU).stride() == (1, 3)
    with lt.device(EMU):
        assert lt.eye(2).is_cuda and lt.tensor([1]).is_cuda and lt.nn.Linear(2, 2).weight.is_cuda
    assert lt.eye(2).is_cpu
    lt.set_default_device(EMU)
    try:
        assert lt.arange(3).is_cuda and lt.get_default_device() == lt.device(EMU)
    finally:
        lt.set_default_device("cpu")
    with pytest.raises(TypeError, match=r"can't convert cuda:emu device type tensor to numpy"):
        x.numpy()
    assert x.data_ptr() > 0 and int(x.__dlpack_device__()[0]) == 2
    y = lt.arange(6, device=EMU).view(2, 3)
    assert y.untyped_storage().data_ptr() == y[1].untyped_storage().data_ptr() == y.data_ptr()
    assert y[1].data_ptr() == y.data_ptr() + 24 and lt.ones(0, device=EMU).data_ptr() == 0
    for share in (x.__dlpack__, lambda: x.numpy()):
        with pytest.raises((LazytError, BufferError), match=r"cuda:emu.*cpu\(\)"):
            share()
    with pytest.raises(LazytError, match="Invalid device string"):
        lt.device("cpu:emu")


def test_memories_with_one_value_have_addresses_of_their_own() -> None:
    x = (lt.arange(12.0, device=EMU) + 1).view(3, 4).requires_grad_()
    y, z = x.clone(), x.detach()
    assert x.data_ptr() == z.data_ptr() == x.t().data_ptr() == x.view(12).data_ptr()
    assert x.data_ptr() != y.data_ptr() == y.data_ptr() and y.data_ptr() == y.view(-1).data_ptr()
    assert x.storage().data_ptr() != x.clone().storage().data_ptr()
    assert (x == y).all() and y.requires_grad and y.detach().data_ptr() == y.data_ptr()
    (y * y).sum().backward()
    assert x.grad is not None and (x.grad == 2 * x).all()
    with lt.no_grad():
        x.zero_()
    assert y.sum() == 78 and z.sum() == 0


def test_random_numbers_are_the_cpus() -> None:
    drawn: list[list[Any]] = []
    for place in ("cpu", EMU):
        lt.manual_seed(3)
        x = lt.ones(9, device=place)
        drawn.append([
            lt.randn(4, 5, device=place), lt.randint(0, 9, (7,), device=place),
            lt.randperm(6, device=place), lt.nn.functional.dropout(x), x.bernoulli(),
            lt.rand_like(x), x.clone().uniform_(), x.multinomial(3),
        ])  # fmt: skip
    for a, b in zip(*drawn, strict=True):
        assert b.is_cuda
        same(a, b)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_training_follows_the_cpu(kind: str, captured: bool) -> None:
    def train(place: str) -> tuple[list[float], list[Any]]:
        lt.manual_seed(0)
        model = lt.nn.Sequential(
            lt.nn.Linear(6, 8), lt.nn.LayerNorm(8), lt.nn.GELU(), lt.nn.Dropout(0.2),
            lt.nn.Linear(8, 3),
        ).to(place)  # fmt: skip
        optimizer: Any = (
            lt.optim.AdamW(model.parameters(), 1e-2) if kind == "adam"
            else lt.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        )  # fmt: skip
        draw = lt.Generator().manual_seed(1)
        x = lt.randn(16, 6, generator=draw).to(place)
        y = lt.randint(0, 3, (16,), generator=draw).to(place)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = lt.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = lt.jit(step) if captured else step
        losses = [run(x, y).item() for _ in range(7)]
        for p in model.parameters():
            assert p.grad is not None and p.device == x.device == p.grad.device
        return losses, list(model.parameters())

    there, here = train(EMU), train("cpu")
    assert there[0] == here[0]
    for a, b in zip(there[1], here[1], strict=True):
        same(a.detach(), b.detach())


def test_writes_stay_on_the_device() -> None:
    x, y = lt.zeros(3, 4, device=EMU), lt.zeros(3, 4)
    for z in (x, y):
        z.fill_(2)
        z[1] = 5
        z.add_(1)
        z[:, 0].zero_()
        z.mul_(lt.ones(4, device=z.device) * 2)
        z[lt.tensor([0, 2]), 1] = 7
    same(x, y)
    x.copy_(lt.arange(12.0).view(3, 4))
    y.copy_(x)
    assert x.is_cuda and y.is_cpu
    same(x, y)
    x.data = lt.ones(2)
    assert x.is_cpu


MIXED: dict[str, Callable[[Any], Any]] = {
    "add": lambda a: a + lt.ones(3),
    "reflected": lambda a: lt.ones(3) * a,
    "cat": lambda a: lt.cat([a, lt.ones(2)]),
    "stack": lambda a: lt.stack([a, lt.ones(3)]),
    "matmul": lambda a: lt.ones(2, 3) @ a,
    "where": lambda a: lt.where(lt.ones(3) > 0, a, a),
    "inplace": lambda a: a.add_(lt.ones(3)),
    "into the CPU": lambda a: lt.ones(3).add_(a),
    "linear": lambda a: lt.nn.functional.linear(lt.ones(2, 3), a.expand(4, 3)),
    "data": lambda a: lt.tensor([1.0, 2.0, 3.0]) + a,
    "gather": lambda a: a.gather(0, lt.tensor([0, 1])),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixing_devices_is_refused(name: str) -> None:
    with pytest.raises(DeviceError, match=r"Expected all tensors to be on the same device.*cpu"):
        MIXED[name](lt.ones(3, device=EMU))


def test_numbers_on_the_cpu_go_with_all_devices() -> None:
    a = lt.ones(3, device=EMU)
    for found in (a + lt.tensor(2.0), lt.tensor(2.0) * a, a + lt.ones(3).sum(), a.add(2)):
        assert found.is_cuda
    assert (a + lt.arange(4.0).sum()).tolist() == [7, 7, 7]
    assert a[lt.tensor([0, 1])].is_cuda


RESULTS: dict[str, Callable[[Any], Any]] = {
    "zeros_like": lt.zeros_like, "full_like": lambda x: lt.full_like(x, 2),
    "randn_like": lt.randn_like, "new_zeros": lambda x: x.new_zeros(2),
    "new_tensor": lambda x: x.new_tensor([1.0]), "detach": lambda x: x.detach(),
    "half": lambda x: x.half(), "argmax": lambda x: x.argmax(), "order": lambda x: x.sort()[1],
    "nonzero": lambda x: x.nonzero(), "unique": lambda x: x.unique(), "mask": lambda x: x[x > 0],
    "empty": lambda x: x.new_empty(0) * 2, "split": lambda x: x.split(1)[0],
    "histc": lambda x: x.histc(3), "bincount": lambda x: lt.bincount(x.long().view(-1)),
    "einsum": lambda x: lt.einsum("ij,kj->ik", x, x), "quantile": lambda x: x.quantile(0.5),
    "one_hot": lambda x: lt.nn.functional.one_hot(x.long(), 5), "cdist": lambda x: lt.cdist(x, x),
    "copy": lambda x: lt.tensor(x.tolist(), device=x.device), "list": lambda x: x[[0, 1]],
    "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "max_pool": lambda x: lt.nn.functional.max_pool1d(x, 2), "cumsum": lambda x: x.cumsum(0),
    "batch_norm": lambda x: lt.nn.BatchNorm1d(3).to(x.device)(x), "trace": lambda x: x.trace(),
    "attention": lambda x: lt.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
    "conv": lambda x: lt.nn.functional.conv1d(x[None], lt.ones(1, 2, 2, device=x.device)),
}  # fmt: skip


def test_results_are_where_their_operands_are() -> None:
    for name, function in RESULTS.items():
        a = lt.tensor([[1.0, 2.0, 0.0], [4.0, 1.0, 2.0]])
        lt.manual_seed(1)
        found = function(a.to(EMU))
        assert found.is_cuda, name
        lt.manual_seed(1)
        wanted = function(a)
        assert found.tolist() == wanted.tolist() and found.dtype == wanted.dtype, name


def test_gradients_are_where_their_tensors_are() -> None:
    w = lt.linspace(-1, 1, 12).view(3, 4).to(EMU).requires_grad_()
    w.sum().backward()
    assert w.grad is not None and w.grad.is_cuda
    v = lt.ones(3, 4, requires_grad=True)
    (v.to(EMU) * 2).sum().backward()
    assert v.grad is not None and v.grad.is_cpu and (v.grad == 2).all()
    g: Any = lt.autograd.grad((w**2).sum(), w, create_graph=True)[0]
    h: Any = lt.autograd.grad(g.sum(), w)[0]
    assert g.is_cuda and h.is_cuda and (h == 2).all()
    curved = lt.func.hessian(lambda z: (z**3).sum())(lt.ones(2, device=EMU))
    assert curved.is_cuda
    same(curved, lt.eye(2) * 6)
    share = lt.tensor(3.0, requires_grad=True)  # a number on the CPU
    (share * lt.ones(2, device=EMU)).sum().backward()
    assert share.grad is not None and share.grad.is_cpu and share.grad.item() == 2


def test_files_know_the_device() -> None:
    a = lt.arange(6.0, device=EMU).view(2, 3)
    file = io.BytesIO()
    lt.save({"a": a, "b": lt.ones(1)}, file)
    for where, device in ((None, EMU), ("cpu", "cpu"), ({EMU: "cpu"}, "cpu")):
        file.seek(0)
        found = lt.load(file, map_location=where)
        assert str(found["a"].device) == device and found["b"].is_cpu
        same(found["a"], a)


def test_captured_functions_tell_devices_apart() -> None:
    function = lt.jit(lambda x: (x * 2).sum(0))
    for _ in range(4):
        for place in ("cpu", EMU):
            found = function(lt.ones(3, 2, device=place))
            assert str(found.device) == place and found.tolist() == [6, 6]
    moving = lt.jit(lambda x: (x.to(EMU) + 1).cpu() * 2)
    for n in range(4):
        assert moving(lt.full((3,), float(n))).tolist() == [2 * n + 2] * 3


def test_reports_and_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    x = lt.linspace(0, 1, 70).view(7, 10)
    text = str(lt.explain(((x.to(EMU) * 2).softmax(-1)).cpu() + 1))
    assert "lz_row" in text and "copy to cuda:emu" in text and "copy to cpu" in text
    found = [lt.linspace(0, 1, 3000, device=EMU).sum().item()]
    with lt.config.override(emulator_seed=5):
        found.append(lt.linspace(0, 1, 3000, device=EMU).sum().item())
    assert found[0] == found[1]
    before = lt.cuda.memory_allocated(EMU)
    y = lt.ones(1000, device=EMU).realize()
    assert lt.cuda.memory_allocated(EMU) - before == 4096
    del y
    assert lt.cuda.memory_allocated(EMU) == before
    assert lt.cuda.get_device_properties(EMU).multi_processor_count >= 1


def test_the_emulator_as_several_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_device, "_devices", {})
    with lt.config.override(emulate_cuda=2):
        assert lt.cuda.device_count() == 2 and lt.cuda.is_available()
        a = lt.arange(6.0, device="cuda:0").view(2, 3)
        b = a.to("cuda:1")
        assert str(b.device) == "cuda:1" and (b + a.cuda(1)).tolist() == [[0, 2, 4], [6, 8, 10]]
        assert a.type() == "lazyt.cuda.FloatTensor" and b.cpu().type() == "lazyt.FloatTensor"
        with pytest.raises(DeviceError, match=r"cuda:0 and cuda:1"):
            a + b
        with pytest.raises(DeviceError, match=r"stands for 2 GPUs.*not for cuda:2"):
            lt.ones(1, device="cuda:2")
    for word, count in {"1": 1, "yes": 1, "off": 0, "0": 0, "3": 3}.items():
        monkeypatch.setenv("LAZYT_EMULATE_CUDA", word)
        assert type(lt.config)().emulate_cuda == count


def test_more_reductions_of_columns_than_fit_shared_memory() -> None:
    """They are computed by the warps of each column: no single thread holds a whole one."""

    def sums(x: lt.Tensor) -> list[lt.Tensor]:
        e = x.exp()
        return [(e * n).sin().sum(0) for n in range(1, 21)]

    x = lt.linspace(-1, 1, 70 * 40).reshape(70, 40)
    there = x.to("cuda:emu")
    forms = re.findall(r"form: (\w+)", str(lt.explain(*sums(there))))
    assert "rows" in forms and "threads" not in forms, forms
    for found, wanted in zip(sums(there), sums(x), strict=True):
        assert lt.equal(found.cpu(), wanted)
