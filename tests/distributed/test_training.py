"""Training on several ranks: averages of gradients, and results that do not depend on their
number."""

from __future__ import annotations

from pathlib import Path

import lazyt
from lazyt import nn
from lazyt.nn import functional as F
from tests.distributed.launching import run

SHARES = """
from lazyt import nn
import lazyt.nn.functional as F
import hashlib
shares = dist.Shares(4)
lazyt.manual_seed(3)
model = nn.Sequential(
    nn.Linear(5, 40), nn.GELU(), nn.Dropout(0.2), nn.LayerNorm(40), nn.Linear(40, 3)
)
optimizer = lazyt.optim.Adam(model.parameters(), 1e-2)
x, y = lazyt.randn(96, 5), lazyt.randint(0, 3, (96,))
def loss(a, b):
    return F.cross_entropy(model(a), b)
losses = []
for step in range(5):
    rows = lazyt.randint(0, 96, (24,))[shares.rows(24)]
    optimizer.zero_grad()
    losses.append(shares.backward(loss, x[rows], y[rows], parameters=model.parameters()).item())
    optimizer.step()
data = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print([v.hex() for v in losses], hashlib.sha256(data).hexdigest())
"""

PARALLEL = """
from lazyt import nn
import lazyt.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 30), nn.Linear(30, 2)
        self.unused, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(4)
    def forward(self, x):
        return self.last(F.relu(self.first(self.norm(x))))
lazyt.manual_seed(10 + rank)  # the first rank's values count
net = nn.parallel.DistributedDataParallel(Net(), find_unused_parameters=True, bucket_cap_mb=1e-4)
x = (lazyt.arange(48.0).reshape(12, 4) * 0.7).sin()
part = x[rank * 6 : rank * 6 + 6]
with net.no_sync():
    net(part * 0.5).square().mean().backward()
net(part).square().mean().backward()
weights = {name: p.detach() for name, p in net.module.named_parameters()}
got = {name: p.grad for name, p in net.module.named_parameters() if p.grad is not None}
# The same by hand: each half's gradient, and their average.
alone = Net()
alone.load_state_dict(net.module.state_dict())
halves = []
for half in (x[:6], x[6:]):
    alone.zero_grad()
    (alone(half * 0.5).square().mean() + alone(half).square().mean()).backward()
    halves.append({name: p.grad for name, p in alone.named_parameters() if p.grad is not None})
for name in halves[0]:
    want = (halves[0][name] + halves[1][name]) / 2
    assert lazyt.allclose(got[name], want, atol=1e-6), name
assert "unused.weight" not in got
class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.LayerNorm(40), nn.Linear(40, 40)
    def forward(self, x):
        return x + self.last(self.norm(x))
lazyt.manual_seed(4)
plain = nn.Sequential(nn.Linear(4, 40), Residual(), Residual())
lazyt.manual_seed(4)
wrapped = nn.parallel.DistributedDataParallel(
    nn.Sequential(nn.Linear(4, 40), Residual(), Residual())
)
plain(x).square().mean().backward()
with wrapped.no_sync():
    wrapped(x).square().mean().backward()
for p, q in zip(plain.parameters(), wrapped.parameters()):
    assert lazyt.equal(p.grad, q.grad)  # to the bit
strict = nn.parallel.DistributedDataParallel(Net())
strict(part).sum().backward()
try:
    strict(part)
except RuntimeError as error:
    assert "Expected to have finished reduction" in str(error)
    print("well")
dist.destroy_process_group()
"""

STATISTICS = """
from lazyt import nn
from lazyt.utils.data import DistributedSampler
assert list(DistributedSampler(range(8), shuffle=False)) == list(range(rank, 8, 2))
x = (lazyt.arange(2 * 10 * 3 * 5.0).reshape(10, 3, 2, 5) * 0.37).sin()
weights = lazyt.arange(10 * 3 * 10.0).reshape(10, 3, 2, 5).cos()
whole, both = nn.BatchNorm2d(3), nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(3))
own = slice(0, 6) if rank == 0 else slice(6, 10)  # parts of different sizes
a, b = x.clone().requires_grad_(), x[own].clone().requires_grad_()
want, got = whole(a), both(b)
assert lazyt.allclose(got, want[own], atol=1e-6)
(want * weights).sum().backward()
(got * weights[own]).sum().backward()
assert lazyt.allclose(b.grad, a.grad[own], atol=1e-5)
total = both.weight.grad.clone()
dist.all_reduce(total)
assert lazyt.allclose(total, whole.weight.grad, atol=1e-4)
assert lazyt.allclose(both.running_mean, whole.running_mean, atol=1e-6)
assert lazyt.allclose(both.running_var, whole.running_var, atol=1e-6)
both.eval(), whole.eval()
assert lazyt.allclose(both(x), whole(x), atol=1e-6)
print("well")
"""


def test_statistics_of_all_ranks(tmp_path: Path) -> None:
    assert [t.splitlines()[-1] for t in run(STATISTICS, 2, tmp_path)] == ["well"] * 2


def test_shares_have_one_result(tmp_path: Path) -> None:
    found = {}
    for size in (1, 2, 3):
        texts = {text.splitlines()[-1] for text in run(SHARES, size, tmp_path)}
        assert len(texts) == 1
        found[size] = texts.pop()
    assert found[1] == found[2] == found[3]


def test_data_parallel(tmp_path: Path) -> None:
    assert [t.splitlines()[-1] for t in run(PARALLEL, 2, tmp_path)] == ["well"] * 2


def test_shares_of_a_program_without_ranks() -> None:
    """The mean over shares is the mean of the batch, but for the order of sums."""
    from lazyt.distributed import Shares

    model = nn.Linear(3, 2)
    x, y = lazyt.randn(12, 3), lazyt.randint(0, 2, (12,))
    loss = Shares(4).backward(
        lambda a, b: F.cross_entropy(model(a), b), x, y, parameters=model.parameters()
    )
    assert model.weight.grad is not None
    got = model.weight.grad.clone()
    model.zero_grad()
    want = F.cross_entropy(model(x), y)
    want.backward()
    assert lazyt.allclose(loss, want) and lazyt.allclose(got, model.weight.grad, atol=1e-7)
