"""``torch.cuda.CUDAGraph``: work that is captured in a block and replayed on the same tensors."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt.errors import DeviceError
from tests.cuda.mock_driver import MockDriver

F = lt.nn.functional


def small_net() -> Any:
    return lt.nn.Sequential(lt.nn.Linear(5, 6), lt.nn.Tanh(), lt.nn.Linear(6, 3)).cuda()


def test_a_step_of_training(mock: MockDriver) -> None:
    """Replays do what steps would: weights, gradients, the optimizer's state, Python's counts."""
    lt.manual_seed(0)
    net = small_net()
    twin = copy.deepcopy(net)
    batches = [(lt.randn(4, 5).cuda(), lt.randint(0, 3, (4,)).cuda()) for _ in range(4)]

    def stepper(model: Any) -> Callable[[Any, Any], Any]:
        optimizer = lt.optim.Adam(model.parameters(), 0.05)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    captured, plain = stepper(net), stepper(twin)
    captured(*batches[0])
    plain(*batches[0])
    x, y = (t.clone() for t in batches[0])
    graph = lt.cuda.CUDAGraph()
    before = net[0].weight.detach().clone()
    with lt.cuda.graph(graph, stream=lt.cuda.Stream()):
        assert lt.cuda.is_current_stream_capturing()
        static = captured(x, y)
    assert lt.equal(net[0].weight, before)  # captured is not done
    for batch, labels in batches[1:]:
        x.copy_(batch)
        y.copy_(labels)
        graph.replay()
        assert static.item() == plain(batch, labels).item()
        for p, q in zip(net.parameters(), twin.parameters(), strict=True):
            assert lt.equal(p, q) and lt.equal(p.grad, q.grad)
    assert mock.calls.count("cuGraphLaunch") > 0


def test_what_a_replay_reads_and_draws(mock: MockDriver) -> None:
    total, index = lt.zeros(3, device="cuda"), lt.tensor([0, 1]).cuda()
    graph = lt.cuda.CUDAGraph()
    with lt.cuda.graph(graph):
        drawn = lt.rand(2, device="cuda")
        total += 1
        picked = total[index] * 2
    graph.replay()
    first = drawn.tolist()
    graph.replay()
    assert drawn.tolist() != first and total.tolist() == [2, 2, 2] and picked.tolist() == [4, 4]
    total[2] = 10
    index.fill_(2)
    graph.replay()
    assert picked.tolist() == [22, 22]
    index.fill_(7)
    with pytest.raises(IndexError, match="from 7 to 7"):
        graph.replay()
    graph.reset()
    with pytest.raises(DeviceError, match="without a preceding successful capture"):
        graph.replay()


def test_what_other_threads_make_is_no_part_of_a_capture(mock: MockDriver) -> None:
    x, made = lt.ones(3, device="cuda"), []
    graph = lt.cuda.CUDAGraph()
    with lt.cuda.graph(graph):
        y = x + 1
        worker = threading.Thread(target=lambda: made.append(lt.full((3,), 5.0, device="cuda")))
        worker.start()
        worker.join()
    made[0].mul_(2)
    graph.replay()
    assert y.tolist() == [2, 2, 2] and made[0].tolist() == [10, 10, 10]


def test_what_cannot_be_captured(mock: MockDriver) -> None:
    x = lt.ones(3, 3, device="cuda")
    blocks: dict[str, Callable[[], Any]] = {
        "when stream is capturing: it looks at a value": lambda: x.sum().item(),
        "a call of the CPU's matrix library": lambda: x.copy_(lt.linalg.matrix_exp(x)),
        "under way already": lambda: lt.cuda.CUDAGraph().capture_begin(),
    }
    for said, block in blocks.items():
        with pytest.raises(DeviceError, match=said), lt.cuda.graph(lt.cuda.CUDAGraph()):
            block()
        assert not lt.cuda.is_current_stream_capturing()
    assert x.sum().item() == 9
    with pytest.raises(DeviceError, match="capture_begin"):
        lt.cuda.CUDAGraph().capture_end()


def test_graphed_callables_have_gradients(mock: MockDriver) -> None:
    lt.manual_seed(1)
    twin = small_net()
    net = copy.deepcopy(twin)

    def scale(x: lt.Tensor) -> lt.Tensor:
        return x * 3

    made = lt.cuda.make_graphed_callables((net, scale), ((lt.ones(2, 5).cuda(),), (lt.ones(1),)))
    x = lt.ones(2, 5, device="cuda", requires_grad=True)
    z = lt.ones(2, 5, device="cuda", requires_grad=True)
    for _ in range(4):
        made[1](made[0](x)).sum().backward()
        scale(twin(z)).sum().backward()
    assert made[0] is net and x.grad is not None and z.grad is not None
    assert lt.equal(x.grad, z.grad)
    assert all(lt.equal(p.grad, q.grad) for p, q in zip(net.parameters(), twin.parameters()))
