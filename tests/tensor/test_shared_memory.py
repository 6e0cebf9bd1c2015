"""``share_memory_()``: forked and spawned processes read and write one memory."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

import lazyt
from lazyt import multiprocessing, nn


def write(tensor: Any, value: float) -> None:
    """Writes to a tensor, in another process."""
    tensor[1:] = value


def train(model: Any, steps: int) -> None:
    """Steps of gradient descent, in another process."""
    optimizer = lazyt.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        model(lazyt.ones(1, 2)).square().sum().backward()
        optimizer.step()


def answer(queue: Any, replies: Any) -> None:
    """Adds to a tensor that it gets, and says what that was."""
    tensor = queue.get()
    replies.put(tensor.tolist())
    tensor += 1
    replies.put("done")


def run(kind: str, function: Any, *args: Any) -> None:
    """Runs a function in a process that is started as ``kind`` says."""
    context: Any = multiprocessing.get_context(kind)
    process = context.Process(target=function, args=args)
    process.start()
    process.join(60)
    assert process.exitcode == 0


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_other_processes_write_to_the_memory(kind: str) -> None:
    x = lazyt.arange(4.0)
    assert not x.is_shared()
    assert x.share_memory_() is x and x.is_shared() and x.untyped_storage().is_shared()
    y = x * 2
    run(kind, write, x, 7.0)
    assert x.tolist() == [0.0, 7.0, 7.0, 7.0]
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0]  # was computed of the values that were there
    x[0] = 5.0
    assert (x + 1).tolist() == [6.0, 8.0, 8.0, 8.0]


def test_views_are_sent_as_parts_of_the_memory() -> None:
    whole = lazyt.zeros(3, 4).share_memory_()
    run("spawn", write, whole.t()[1], 3.0)
    assert whole.tolist() == [[0, 0, 0, 0], [0, 3, 0, 0], [0, 3, 0, 0]]


def test_what_is_not_shared_is_copied() -> None:
    x = lazyt.zeros(3)
    run("fork", write, x, 1.0)
    assert x.tolist() == [0.0, 0.0, 0.0] and not x.is_shared()


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_processes_train_one_model(kind: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False)).eval()
    assert model.share_memory() is model
    assert all(p.is_shared() and isinstance(p, nn.Parameter) for p in model.parameters())
    assert all(b.is_shared() for b in model.buffers())
    before = [p.detach().clone() for p in model.parameters()]
    run(kind, train, model, 2)
    after = [p.detach().clone() for p in model.parameters()]
    assert all(not lazyt.equal(a, b) for a, b in zip(before, after, strict=True))
    train(model, 1)  # on top of that
    alone = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False)).eval()
    with lazyt.no_grad():
        for p, value in zip(alone.parameters(), before, strict=True):
            p.copy_(value)
    train(alone, 3)
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        assert lazyt.equal(p, q)


def test_queues_send_shared_memory() -> None:
    context = multiprocessing.get_context("fork")
    queue, replies = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(queue, replies))
    process.start()
    x = lazyt.ones(3).share_memory_()
    queue.put(x)
    assert replies.get(timeout=60) == [1.0, 1.0, 1.0] and replies.get(timeout=60) == "done"
    process.join(60)
    assert x.tolist() == [2.0, 2.0, 2.0]


def test_shared_memory_is_given_back() -> None:
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        pytest.skip("no list of open files")
    gc.collect()
    before = len(os.listdir(folder))
    for _ in range(20):
        lazyt.ones(1000).share_memory_()
    gc.collect()
    assert len(os.listdir(folder)) <= before + 2


def test_arrays_of_numpy_keep_their_memory() -> None:
    x = lazyt.ones(3)
    array = x.numpy()
    x.share_memory_()
    array[0] = 9.0
    assert x.tolist() == [1.0, 1.0, 1.0]
