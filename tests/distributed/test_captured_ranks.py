"""Captured functions with collectives: the same bits as without a capture, one order on all ranks,
and errors on all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import lazyt
import lazyt.distributed as dist
from lazyt.distributed import functional
from lazyt.ops.parallel.collectives import Ranks
from tests.distributed.launching import BEGIN, finish, run, start

STEPS = """
import hashlib
from lazyt import nn
import lazyt.nn.functional as F
def train(kind, captured):
    lazyt.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(5, 40), nn.GELU(), nn.Dropout(0.2), nn.BatchNorm1d(40), nn.Linear(40, 3)
    )
    net, shares = model, dist.Shares(2)
    if kind != "shares":
        net = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1e-3)
    optimizer = lazyt.optim.Adam(model.parameters(), 1e-2)
    x, y = lazyt.randn(96, 5), lazyt.randint(0, 3, (96,))
    called = lazyt.jit(net) if kind == "forward" and captured else net
    def step(a, b):
        optimizer.zero_grad()
        if kind == "shares":
            loss = shares.backward(
                lambda p, q: F.cross_entropy(net(p), q), a, b, parameters=model.parameters()
            )
        else:
            loss = F.cross_entropy(called(a), b)
            loss.backward()
        optimizer.step()
        return loss.detach()
    if captured and kind != "forward":
        step = lazyt.jit(step)
    losses = []
    for i in range(4):
        rows = (lazyt.arange(24) * 7 + i * 24)[shares.rows(24)] % 96
        losses.append(step(x[rows], y[rows]).item().hex())
    if captured and not lazyt.config.eager:
        why = (called if kind == "forward" else step).why()
        assert why == ["captured"], why
    state = b"".join(v.numpy().tobytes() for v in model.state_dict().values())
    return losses, hashlib.sha256(state).hexdigest()
assert train(kind, True) == train(kind, False)
print("well")
"""

CALLS = """
from lazyt.distributed import functional
def used_by_some(x):
    y, z = x * 2, x * 3
    dist.all_reduce(y)
    dist.all_reduce(z)  # whose value one rank needs
    big = x.repeat(3000)
    dist.all_reduce(big, dist.ReduceOp.MAX)
    work = dist.all_reduce(x.clone() * 5, async_op=True)  # and this one nobody
    work.wait()
    rows = [lazyt.zeros(4) for _ in range(size)]
    dist.all_gather(rows, y + 1)
    return y + (z if rank == 0 else 0), big.sum(), rows[1 - rank] * 2
def with_gradient(x):
    x = x.clone().requires_grad_()
    y = functional.all_reduce(x * x) * (rank + 1)
    y.sum().backward()
    return y.detach(), x.grad
def goes_on(x):
    return functional.all_gather(x * 2)[1 - rank].sin()
def backward_outside(function):
    def call(x):
        x = x.clone().requires_grad_()
        y = function(x)
        y.square().sum().backward()
        return y.detach(), x.grad
    return call
def numbers(values):
    return [v.tolist() for v in values]
for function in (used_by_some, with_gradient):
    captured = lazyt.jit(function)
    for i in range(5):
        x = lazyt.arange(4.0) + rank + i
        assert numbers(captured(x)) == numbers(function(x)), (function, i)
    if not lazyt.config.eager:
        assert captured.why() == ["captured"], captured.why()
@lazyt.jit
def returned(x):  # the value of a collective itself
    big = x.repeat(6000)
    dist.all_reduce(big)
    y = x * (rank + 1)
    dist.broadcast(y, 1)
    return big, y
for i in range(5):
    x = lazyt.arange(4.0) + i
    big, y = returned(x)
    assert big[:4].tolist() == (x * 2).tolist() and y.tolist() == (x * 2).tolist(), i
captured = lazyt.jit(goes_on)
for i in range(5):
    x = lazyt.arange(4.0) * 0.1 + rank + i
    assert numbers(backward_outside(captured)(x)) == numbers(backward_outside(goes_on)(x)), i
# A rank that captures again, while the others replay.
factor = 2.0
@lazyt.jit
def scaled(x):
    y = x * factor
    dist.all_reduce(y)
    return y
for i in range(6):
    factor = 3.0 if i > 3 and rank == 0 else 2.0
    want = (3.0 if i > 3 else 2.0) + 2.0
    assert scaled(lazyt.ones(2)).tolist() == [want, want], i
# A look in the middle is no capture, and right.
@lazyt.jit
def looks(x):
    y = x + 1
    dist.all_reduce(y)
    return x * 2 if y.sum().item() > 0 else x
for i in range(6):
    sign = 1.0 if i % 2 else -9.0
    assert looks(lazyt.ones(2) * sign).tolist() == ([2.0, 2.0] if sign > 0 else [-9.0, -9.0]), i
# Groups that are gone are no reason for an error where the function takes the group there is.
@lazyt.jit
def anywhere(x):
    y = x + 1
    dist.all_reduce(y, group=here)
    return y
for i in range(6):
    if i in (0, 3):
        here = dist.new_group([0, 1])
    assert anywhere(lazyt.ones(2)).tolist() == [4.0, 4.0]
    if i == 2:
        dist.destroy_process_group(here)
print("well")
"""


@pytest.mark.parametrize("kind", ["inside", "forward", "shares"])
def test_training_steps_have_the_same_bits(kind: str, tmp_path: Path) -> None:
    program = f"kind = {kind!r}\n{STEPS}"
    assert [t.splitlines()[-1] for t in run(program, 2, tmp_path)] == ["well"] * 2


def test_calls_have_the_same_values(tmp_path: Path) -> None:
    assert [t.splitlines()[-1] for t in run(CALLS, 2, tmp_path)] == ["well"] * 2


@pytest.mark.lazy
def test_captures_that_differ(tmp_path: Path) -> None:
    """The first call, which runs as always, is equal; the captured one is not."""
    program = """
def work(x):
    y = x + 1
    dist.all_reduce(y)
    if captured and rank == 0:
        dist.all_reduce(x * 3)  # the second
    return y
captured = False
f = lazyt.jit(work)
f(lazyt.ones(2))
captured = True
for i in range(4):
    f(lazyt.ones(2))
print("went on")
"""
    for status, text in finish(start(BEGIN + program, 2, tmp_path)):
        assert status != 0 and "went on" not in text
        assert "do not call the same: collective 2 of group" in text, text
        assert "program.py:12" in text and "program.py:10" in text, text


def lone_group() -> None:
    """A group of this process alone."""
    dist.init_process_group("gloo", rank=0, world_size=1)


@pytest.mark.lazy
def test_steps_of_a_schedule() -> None:
    """A collective that is not needed is run, and what waits for none is computed meanwhile."""
    from lazyt import ops
    from lazyt.ops.parallel.collectives import all_gather
    from lazyt.plan import planning
    from lazyt.plan.control.schedules import Compute, Start, Wait, schedule
    from lazyt.plan.steps import Planner

    lone_group()
    try:
        group = dist.group.WORLD
        assert group is not None
        x = lazyt.arange(12.0).reshape(3, 4).realize()
        w = lazyt.ones(4, 4).realize()
        ranks = Ranks(group.group_name, 0, 1)
        first = all_gather((x + 1).node, ranks)
        unused = all_gather((x * 5).node, ranks)
        product = (w @ w).node
        root = ops.apply("mul", ops.slice_(first, (0, 0), (3, 4), (1, 1)), x.node)
        root = ops.apply("add", root, ops.broadcast_to(ops.reduce_("sum", product, (0, 1)), (3, 4)))
        planner = Planner(planning.realize, planning.prepare)
        found = schedule([root], [first, unused], {}, planner)
        assert found is not None
        kinds = [type(step) for step in found.steps]
        assert kinds.count(Start) == kinds.count(Wait) == 2
        waited = kinds.index(Wait)
        assert kinds[:waited].count(Compute) == 3  # both operands, and the product
        got = found.run([leaf.data for leaf in found.leaves])[0]
        want = ((x + 1) * x + (w @ w).sum()).numpy()
        assert (got.as_numpy(lazyt.float32, (3, 4)) == want).all()
        assert "start 1: all_gather" in str(found)
    finally:
        dist.destroy_process_group()


@pytest.mark.lazy
def test_explain_names_transfers() -> None:
    lone_group()
    try:

        @lazyt.jit
        def f(x: lazyt.Tensor) -> lazyt.Tensor:
            total = functional.broadcast(x * 2, 0)
            return total + 1

        for _ in range(3):
            assert f(lazyt.ones(3)).tolist() == [3.0] * 3
        text = str(f.explain())
        assert "broadcast float32[3] from 0 over 1 ranks" in text
        assert "started after line 1, waited for at line 3" in text and "are hidden" in text
        assert "2 kernels, 1 transfer" in text
    finally:
        dist.destroy_process_group()


@pytest.mark.lazy
def test_schedules_are_dumped(tmp_path: Path) -> None:
    lone_group()
    before = lazyt.config.dump
    lazyt.config.dump = str(tmp_path)
    try:
        captured = lazyt.jit(lambda x: functional.broadcast(x + 2, 0) * 3)
        for _ in range(2):
            assert captured(lazyt.ones(3)).tolist() == [9.0] * 3
        (text,) = [path.read_text() for path in tmp_path.glob("*_schedule.txt")]
        lines = [line.split(maxsplit=1)[1] for line in text.splitlines()]
        assert lines[0] == "%1 = compute(%0)"
        assert lines[1].startswith("start 0: broadcast float32[3] from 0 over 'world")
        assert lines[2:] == ["%2 = wait 0", "%3 = compute(%2)"]
    finally:
        lazyt.config.dump = before
        dist.destroy_process_group()


def test_transfers_are_spans_of_a_profile() -> None:
    from lazyt.profiler import profile

    lone_group()
    try:
        captured = lazyt.jit(lambda x: functional.broadcast(x + 2, 0) * 3)
        for _ in range(3):
            with profile() as found:
                captured(lazyt.ones(3)).realize()
        (event,) = [event for event in found.events() if "broadcast" in event.name]
        assert event.input_shapes == [[3]]
    finally:
        dist.destroy_process_group()
