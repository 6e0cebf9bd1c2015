"""Collectives give what their names say, with the same bits on all ranks."""

from __future__ import annotations

from pathlib import Path

from tests.distributed.launching import run

COLLECTIVES = """
x = lazyt.arange(6.0).reshape(2, 3)
for op, want in (("SUM", x * 6), ("PRODUCT", x**3 * 6), ("MAX", x * 3), ("MIN", x), ("AVG", x * 2)):
    y = x * (rank + 1)
    assert dist.all_reduce(y, getattr(dist.ReduceOp, op)) is None
    assert lazyt.equal(y, want), (op, y)
bits = lazyt.tensor([1 << rank, 6])
dist.all_reduce(bits, dist.ReduceOp.BOR)
assert bits.tolist() == [7, 6]
z = lazyt.tensor([rank + 1j])
dist.all_reduce(z)
assert z.tolist() == [3 + 3j]
h = lazyt.full((4,), float(rank), dtype=lazyt.bfloat16)
dist.all_reduce(h)
assert h.tolist() == [3.0] * 4 and h.dtype is lazyt.bfloat16

# Parts of larger tensors, in another order in memory.
whole = lazyt.zeros(4, 5)
part = whole.T[1:3, ::2]
part += rank
dist.all_reduce(part)
assert whole.sum().item() == 3 * 4 and part.tolist() == [[3.0, 3.0]] * 2

# Long enough for two messages; the odd length needs a filling.
long = (lazyt.arange(10007) % 97).float() / 7 * (rank + 1)
dist.all_reduce(long)
a, b, c = [(lazyt.arange(10007) % 97).float() / 7 * k for k in (1, 2, 3)]
assert lazyt.equal(long, (a + b) + c)

parts = [lazyt.empty(2) for _ in range(size)]
dist.all_gather(parts, lazyt.tensor([float(rank), -1.0]))
assert [p.tolist() for p in parts] == [[0.0, -1.0], [1.0, -1.0], [2.0, -1.0]]
uneven = [lazyt.empty(k + 1) for k in range(size)]
dist.all_gather(uneven, lazyt.full((rank + 1,), float(rank)))
assert [p.tolist() for p in uneven] == [[0.0], [1.0, 1.0], [2.0, 2.0, 2.0]]
for shape in ((6, 2), (3, 2, 2)):
    row = lazyt.empty(shape)
    dist.all_gather_into_tensor(row, lazyt.full((2, 2), float(rank)))
    assert row.flatten().tolist() == [0.0] * 4 + [1.0] * 4 + [2.0] * 4

mine = lazyt.empty(2)
dist.reduce_scatter(mine, [lazyt.full((2,), float(rank + k)) for k in range(size)])
assert mine.tolist() == [3.0 + 3 * rank] * 2
dist.reduce_scatter_tensor(mine, lazyt.arange(6.0) * (rank + 1))
assert mine.tolist() == [12.0 * rank, 12.0 * rank + 6]

got = [lazyt.empty(1, dtype=lazyt.int64) for _ in range(size)]
dist.all_to_all(got, [lazyt.tensor([10 * rank + k]) for k in range(size)])
assert [t.item() for t in got] == [10 * k + rank for k in range(size)]
sent = [[0, 1, 2], [2, 0, 1], [1, 1, 1]][rank]
received = [[0, 1, 2], [2, 0, 1], [1, 1, 1]]
out = lazyt.empty(sum(row[rank] for row in received), 2)
dist.all_to_all_single(
    out, lazyt.full((3, 2), float(rank)), [row[rank] for row in received], sent
)
want = [float(k) for k in range(size) for _ in range(received[k][rank])]
assert out[:, 0].tolist() == want

y = lazyt.full((2,), float(rank))
dist.broadcast(y, src=2)
assert y.tolist() == [2.0, 2.0]
y = lazyt.full((2,), float(rank))
dist.reduce(y, dst=1)
assert y.tolist() == ([3.0, 3.0] if rank == 1 else [float(rank)] * 2)
every = [lazyt.empty(1) for _ in range(size)] if rank == 2 else None
dist.gather(lazyt.tensor([float(rank)]), every, dst=2)
assert every is None or [t.item() for t in every] == [0.0, 1.0, 2.0]
dist.scatter(y, [lazyt.full((2,), 7.0 + k) for k in range(size)] if rank == 1 else None, src=1)
assert y.tolist() == [7.0 + rank] * 2

work = dist.all_reduce(x := lazyt.full((3000, 3), 1.0), async_op=True)
other = (lazyt.arange(100.0) ** 2).sum().item()  # computed meanwhile
assert work.wait() and work.is_completed() and x.sum().item() == 3 * 9000

group = dist.new_group([0, 2])
if rank != 1:
    y = lazyt.tensor([float(rank)])
    dist.all_reduce(y, group=group)
    assert y.item() == 2.0 and dist.get_group_rank(group, 2) == 1
    assert dist.get_process_group_ranks(group) == [0, 2]
else:
    assert group == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(group) == -1
dist.barrier()
print("well")
"""

MESSAGES = """
if rank == 0:
    dist.send(lazyt.arange(5.0), 1)
    dist.send(lazyt.arange(3), dst=2, tag=4)
elif rank == 1:
    x = lazyt.empty(5)
    assert dist.recv(x) == 0 and x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
else:
    x = lazyt.empty(3, dtype=lazyt.int64)
    assert dist.recv(x, 0, tag=4) == 0 and x.tolist() == [0, 1, 2]
left, right = (rank - 1) % size, (rank + 1) % size
got = lazyt.empty(1000)
works = dist.batch_isend_irecv([
    dist.P2POp(dist.isend, lazyt.full((1000,), float(rank)), right),
    dist.P2POp(dist.irecv, got, left),
])
for work in works:
    work.wait()
assert got.sum().item() == 1000.0 * left

objects = [None] * size
dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank * 100})
assert [o["rank"] for o in objects] == [0, 1, 2] and len(objects[2]["text"]) == 200
names = ["a", {"b": rank}] if rank == 1 else [None, None]
dist.broadcast_object_list(names, src=1)
assert names == ["a", {"b": 1}]
found = [None] * size if rank == 0 else None
dist.gather_object(rank * 11, found)
assert found in (None, [0, 11, 22])
mine = [None]
dist.scatter_object_list(mine, [(k,) for k in range(size)] if rank == 0 else None)
assert mine == [(rank,)]
if rank == 2:
    dist.send_object_list(["from two"], 0)
if rank == 0:
    got = [None]
    assert dist.recv_object_list(got, 2) == 2 and got == ["from two"]
print("well")
"""

DERIVATIVES = """
# The sum over ranks of <y, A x> is that of <vjp(y), x>, for every linear collective A.
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.ops.parallel import collectives, sums
from lazyt.distributed.process_groups import default_group, ranks_of

ranks = ranks_of(default_group())
lazyt.manual_seed(rank)
cases = {
    "gather": (lambda x: collectives.all_gather(x, ranks), (2, 3)),
    "exchange": (lambda x: collectives.all_to_all(x, ranks, [1, 2, 1], [[1, 2, 1][rank]] * 3),
                 (4, 2)),
    "broadcast": (lambda x: collectives.broadcast(x, ranks, 1), (3,)),
    "permute": (lambda x: collectives.permute(x, ranks, [(0, 2), (2, 1)]), (2, 2)),
    "sum": (lambda x: sums.all_reduce(x, ranks), (5,)),
    "long sum": (lambda x: sums.all_reduce(x, ranks), (5000,)),
    "scatter": (lambda x: collectives.reduce_scatter(x, ranks), (6, 2)),
}
for name, (function, shape) in cases.items():
    x = lazyt.randn(shape, dtype=lazyt.float64).requires_grad_()
    result = wrap(function(unwrap(x)), x)
    y = lazyt.randn(result.shape, dtype=lazyt.float64)
    result.backward(y)
    both = lazyt.stack([(result.detach() * y).sum(), (x.grad * x.detach()).sum()])
    dist.all_reduce(both)
    assert abs(both[0] - both[1]).item() < 1e-9, (name, both)
    batch = lazyt.randn(4, *shape, dtype=lazyt.float64)
    mapped = lazyt.vmap(lambda v: wrap(function(unwrap(v))))(batch)
    for one, row in zip(batch, mapped):
        assert lazyt.equal(wrap(function(unwrap(one))), row), name
print("well")
"""


def _all_well(program: str, folder: Path, size: int = 3) -> None:
    assert [text.splitlines()[-1] for text in run(program, size, folder)] == ["well"] * size


def test_collectives(tmp_path: Path) -> None:
    _all_well(COLLECTIVES, tmp_path)


def test_messages_and_objects(tmp_path: Path) -> None:
    _all_well(MESSAGES, tmp_path)


def test_derivatives_and_batches(tmp_path: Path) -> None:
    _all_well(DERIVATIVES, tmp_path)
