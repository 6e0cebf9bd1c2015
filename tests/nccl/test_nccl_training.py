"""Two ranks with a GPU each, which the emulator is, train as two ranks on the CPU: to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nccl.mock import calls, run

#: Small, as every kernel is compiled for the emulator.
TRAIN = """
import hashlib
from lazyt import nn
import lazyt.nn.functional as F
from lazyt.sharding import fully_shard
lazyt.manual_seed(3)
kind = os.environ["KIND"]
x, y = lazyt.randn(8, 3), lazyt.randn(8, 3)
def trained(device):
    lazyt.manual_seed(4)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)).to(device)
    shares = dist.Shares(4)
    if "parallel" in kind:
        model = nn.parallel.DistributedDataParallel(model)
    elif "shard" in kind:
        for layer in (model[0], model[2], model):
            fully_shard(layer)
    optimizer = lazyt.optim.SGD(model.parameters(), 0.1)
    rows = shares.rows(8)
    a, b = x[rows].to(device), y[rows].to(device)
    def step():
        optimizer.zero_grad()
        if "shares" in kind:
            loss = shares.backward(
                lambda a, b: F.mse_loss(model(a), b), a, b, parameters=model.parameters()
            )
        else:
            loss = F.mse_loss(model(a), b)
            loss.backward()
        optimizer.step()
        return loss
    if "captured" in kind:
        step = lazyt.jit(step)
    losses = [step().item().hex() for _ in range(3)]
    if "captured" in kind and device != "cpu" and os.environ.get("LAZYT_EAGER") != "1":
        text = str(step.explain())
        assert "moved by NCCL" in text and "transfer" in text, text
    data = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
    return losses, hashlib.sha256(data).hexdigest()
want, got = trained("cpu"), trained(there)
assert want == got, (want, got)
print(got[1] if "shares" in kind else "well")
dist.destroy_process_group()
"""


@pytest.mark.parametrize("kind", ["parallel", "captured parallel", "shard", "captured shard"])
def test_two_devices_train_as_two_hosts(kind: str, tmp_path: Path) -> None:
    found = run(TRAIN, 2, tmp_path, "cpu:gloo,cuda:nccl", KIND=kind)
    assert found == ["well"] * 2
    assert any("stream=" in call for call in calls(tmp_path))


def test_any_number_of_devices_gives_one_result(tmp_path: Path) -> None:
    found = set()
    for size in (1, 2):
        folder = tmp_path / str(size)
        folder.mkdir()
        found |= {*run(TRAIN, size, folder, "cpu:gloo,cuda:nccl", KIND="shares")}
    assert len(found) == 1
