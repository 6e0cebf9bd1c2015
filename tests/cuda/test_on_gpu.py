"""On a real GPU: the CPU's bits, graphs, streams, memory, the emulator's values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lazyt as lt
from lazyt.config import config
from lazyt.errors import OutOfMemoryError
from lazyt.runtime.cuda import device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        bool(config.emulate_cuda) or device.device_count() == 0, reason="needs an NVIDIA GPU"
    ),
]

F = lt.nn.functional
WORK: dict[str, Callable[[lt.Tensor, lt.Tensor], lt.Tensor]] = {
    "elementwise": lambda x, y: (x * y + 1).tanh() - x.exp().log1p(),
    "rows": lambda x, y: F.layer_norm(x, (x.shape[-1],)).softmax(-1) + x.logsumexp(-1, True),
    "columns": lambda x, y: x.sum(0) + y.amax(0) + (x * y).mean(),
    "products": lambda x, y: F.gelu(x @ y.T) @ y,
    "double products": lambda x, y: x.double() @ y.double().T,
    "halves": lambda x, y: x.half() @ y.half().T,
    "bfloat16": lambda x, y: x.bfloat16() @ y.bfloat16().T,
    "scans": lambda x, y: x.cumsum(0) + y.cumprod(1),
    "sorting": lambda x, y: x.sort(1).values + y.argsort(0),
    "gather": lambda x, y: x.gather(1, (y > 0).long()) + x[y[:, 0] > 0].sum(),
    "scatter": lambda x, y: lt.zeros_like(x).scatter_add(1, (y > 0).long(), x),
    "convolution": lambda x, y: F.conv1d(x[None, None, 0], y[None, None, 0, :5]),
    "random": lambda x, y: F.dropout(x, 0.3) + lt.rand_like(y),
    "loss": lambda x, y: F.cross_entropy(x, y.argmax(1)),
}


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("shape", [(64, 128), (37, 1031), (3, 5000)])
def test_bits_are_the_cpus(name: str, shape: tuple[int, int]) -> None:
    found = []
    for place in ("cpu", "cuda"):
        lt.manual_seed(0)
        x, y = (lt.randn(*shape, generator=lt.Generator().manual_seed(n)) for n in (1, 2))
        x, y = x.to(place).requires_grad_(), y.to(place)
        result = WORK[name](x, y)
        total = result.float().sum()
        total.backward() if total.requires_grad else None
        found.append((result.detach().cpu(), None if x.grad is None else x.grad.cpu()))
    assert lt.equal(found[0][0], found[1][0])
    if found[0][1] is not None and found[1][1] is not None:
        assert lt.equal(found[0][1], found[1][1])


def test_steps_of_training() -> None:
    """Captured, launched as graphs, on changing memory: the CPU's losses."""
    losses = []
    for place in ("cpu", "cuda"):
        lt.manual_seed(0)
        net = lt.nn.Sequential(lt.nn.Linear(32, 64), lt.nn.GELU(), lt.nn.Linear(64, 10)).to(place)
        optimizer = lt.optim.AdamW(net.parameters(), 1e-2)

        @lt.jit
        def step(
            x: lt.Tensor, y: lt.Tensor, net: lt.nn.Module = net, optimizer: object = optimizer
        ) -> lt.Tensor:
            optimizer.zero_grad()  # type: ignore[attr-defined]
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()  # type: ignore[attr-defined]
            return loss

        draw = lt.Generator().manual_seed(3)
        batches = [(lt.randn(16, 32, generator=draw), lt.randint(0, 10, (16,), generator=draw))
                   for _ in range(20)]  # fmt: skip
        losses.append([step(x.to(place), y.to(place)).item() for x, y in batches])
    assert losses[0] == losses[1]


def test_streams_memory_and_copies() -> None:
    x = lt.arange(float(1 << 22)).pin_memory()
    side, start, end = lt.cuda.Stream(), *(lt.cuda.Event(enable_timing=True) for _ in range(2))
    with lt.cuda.stream(side):
        start.record()
        y = x.to("cuda", non_blocking=True) * 2
        end.record()
    assert (y + 1)[-1].item() == 2 * x[-1].item() + 1
    end.synchronize()
    assert start.elapsed_time(end) > 0 and side.query()
    pageable = lt.arange(5 << 20)
    assert lt.equal(pageable.cuda().cpu(), pageable)
    free, total = lt.cuda.mem_get_info()
    assert 0 < free <= total and lt.cuda.memory_allocated() >= y.nbytes
    with pytest.raises(OutOfMemoryError, match="Tried to allocate"):
        lt.zeros(4 * total, dtype=lt.uint8, device="cuda").add_(1).realize()
    graph, static = lt.cuda.CUDAGraph(), lt.zeros(8, device="cuda")
    with lt.cuda.graph(graph):
        out = static * 2 + 1
    static.fill_(4)
    graph.replay()
    assert out.tolist() == [9] * 8
    if lt.cuda.device_count() > 1:
        assert lt.equal(y.to("cuda:1").cpu(), y.cpu())


def test_reports_know_the_gpu() -> None:
    text = str(lt.explain(lt.randn(64, 1000, device="cuda").softmax(-1)))
    assert "registers" in text and "0 B spilled" in text and "occupancy" in text
    with lt.profiler.profile() as profile:
        lt.randn(100, device="cuda").exp().realize()
    assert len(profile.key_averages()) > 1
