"""Checkpoints that ranks write and read together."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt import nn
from lazyt.errors import CheckpointError
from lazyt.sharding import checkpoint
from lazyt.sharding.checkpoint.formats import dcp_to_torch_save, torch_save_to_dcp
from lazyt.sharding.checkpoint.metadata import MetadataIndex
from lazyt.sharding.checkpoint.planners import EmptyStateDictLoadPlanner
from tests.distributed.launching import BEGIN, finish, run, start

#: A model, divided or not, and its optimizer; some steps; hashes.
MODEL = """
import hashlib
from lazyt import nn
from lazyt.sharding import ZeroRedundancyOptimizer, checkpoint as dcp, fully_shard
from lazyt.sharding.checkpoint.state_dict import *
def make(seed, zero):
    lazyt.manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, 30), nn.LayerNorm(30), nn.Linear(30, 3))
    if zero == 3:
        for layer in net:
            fully_shard(layer)
        fully_shard(net)
    kind = lazyt.optim.AdamW
    if zero == 1:
        return net, ZeroRedundancyOptimizer(net.parameters(), kind, lr=0.1)
    return net, kind(net.parameters(), lr=0.1)
def step(net, optimizer, shares=4):
    shares = dist.Shares(shares)
    x = lazyt.arange(60.0).reshape(12, 5).sin()
    optimizer.zero_grad()
    shares.backward(
        lambda a: net(a).square().mean(), x[shares.rows(12)], parameters=net.parameters()
    )
    optimizer.step()
def digest(net):
    whole = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))
    return hashlib.sha256(str([v.tolist() for v in whole.values()]).encode()).hexdigest()
"""

SAVE = (
    MODEL
    + """
net, optimizer = make(1, 3)
step(net, optimizer)
model_state, state = get_state_dict(net, optimizer)
assert list(model_state) == [f"{i}.{n}" for i in range(3) for n in ("weight", "bias")]
from lazyt.distributed.tensor import Shard, distribute_tensor
mesh = dist.init_device_mesh("cpu", (size,))
part = distribute_tensor(lazyt.arange(28.0).reshape(4, 7), mesh, [Shard(1)])
dcp.save({"net": model_state, "optimizer": state, "step": 1, "part": part}, checkpoint_id="saved")
step(net, optimizer)
print(digest(net))
options = StateDictOptions(full_state_dict=True)
whole, state = get_state_dict(net, optimizer, options=options)
other = make(2, 3)
set_state_dict(*other, model_state_dict=whole, optim_state_dict=state, options=options)
step(net, optimizer), step(*other)
assert digest(net) == digest(other[0])
"""
)

LOAD = (
    MODEL
    + """
net, optimizer = make(2, ZERO)
model_state, state = get_state_dict(net, optimizer)
import lazyt.distributed.tensor as dt
part = dt.zeros(4, 7, device_mesh=dist.init_device_mesh("cpu", (size,)), placements=[dt.Shard(0)])
loaded = {"net": model_state, "optimizer": state, "step": 0, "part": part}
dcp.load(loaded, checkpoint_id="saved")
assert loaded["step"] == 1
assert lazyt.equal(part.full_tensor(), lazyt.arange(28.0).reshape(4, 7))
set_state_dict(
    net, optimizer, model_state_dict=loaded["net"], optim_state_dict=loaded["optimizer"]
)
step(net, optimizer)
print(digest(net))
"""
)

KILLED = (
    MODEL
    + """
import time
net, optimizer = make(1, 3)
state = {"net": get_model_state_dict(net)}
dcp.save(state, checkpoint_id="saved")
writer = dcp.FileSystemWriter("saved")
write = writer.write_data
def slow(*args):
    if rank:  # waits for the first rank's answer, which will not come
        return write(*args)
    open("writing", "w").close()
    time.sleep(60)
if KIND == "index":
    writer.finish = slow
else:
    writer.write_data = slow
step(net, optimizer)
dcp.save({"net": get_model_state_dict(net)}, storage_writer=writer)
"""
)


def test_any_number_of_ranks_loads(tmp_path: Path) -> None:
    wanted = {text.splitlines()[-1] for text in run(SAVE, 3, tmp_path)}
    for size, zero in ((2, 3), (1, 0)):
        program = LOAD.replace("ZERO", str(zero))
        assert {text.splitlines()[-1] for text in run(program, size, tmp_path)} == wanted


@pytest.mark.parametrize("kind", ["data", "index"])
def test_a_rank_that_is_killed_while_it_saves(kind: str, tmp_path: Path) -> None:
    ranks = start(BEGIN + KILLED.replace("KIND", repr(kind)), 2, tmp_path)
    while not (tmp_path / "writing").exists():
        assert all(rank.poll() is None for rank in ranks), finish(ranks)
        time.sleep(0.02)
    ranks[0].kill()
    assert all(status for status, _ in finish(ranks))
    state = {"net": {"0.weight": lazyt.zeros(30, 5)}}
    checkpoint.load(state, checkpoint_id=tmp_path / "saved")
    lazyt.manual_seed(1)
    assert lazyt.equal(state["net"]["0.weight"], nn.Linear(5, 30).weight)


def _save(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = {
        "a": {"w": lazyt.arange(12.0).reshape(4, 3), "list": [lazyt.ones(2), 3]},
        "low": lazyt.ones(3, dtype=lazyt.bfloat16), "number": lazyt.tensor(2), "text": {"x": (1,)},
    }  # fmt: skip
    checkpoint.save(state, checkpoint_id=folder)
    return state


def _blank() -> dict[str, Any]:
    return {
        "a": {"w": lazyt.zeros(4, 3), "list": [lazyt.zeros(2), 0]},
        "low": lazyt.zeros(3, dtype=lazyt.bfloat16), "number": lazyt.tensor(0), "text": {"x": 0},
    }  # fmt: skip


def test_one_process(tmp_path: Path) -> None:
    state = _save(tmp_path)
    found = _blank()
    checkpoint.load(found, checkpoint_id=tmp_path)
    assert str(found) == str(state)
    # Another one replaces it, and its files.
    before = set(tmp_path.iterdir())
    future = checkpoint.async_save({"low": lazyt.zeros(3)}, checkpoint_id=tmp_path)
    assert future.result().state_dict_metadata.keys() == {"low"}
    after = set(tmp_path.iterdir())
    assert len(after) == 2 and before & after == {tmp_path / "index.json"}


def test_what_is_stateful(tmp_path: Path) -> None:
    net, other = nn.Linear(2, 3), nn.Linear(2, 3)
    checkpoint.save({"net": net}, checkpoint_id=tmp_path)
    checkpoint.load({"net": other}, checkpoint_id=tmp_path)
    assert lazyt.equal(net.weight, other.weight)
    reader = checkpoint.FileSystemReader(tmp_path)
    metadata = reader.read_metadata()
    assert metadata.storage_data[MetadataIndex("net.bias", [0])].end > 0
    assert checkpoint.FileSystemReader.validate_checkpoint_id(tmp_path)
    assert not checkpoint.FileSystemReader.validate_checkpoint_id("s3://x")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"b": lazyt.zeros(1)}, "Missing key in checkpoint state_dict: b."),
        ({"low": lazyt.zeros(4)}, "Size mismatch between saved"),
        ({"low": 3}, "'low' is a tensor of the checkpoint, and int here"),
    ],
)
def test_what_does_not_fit(state: dict[str, Any], words: str, tmp_path: Path) -> None:
    _save(tmp_path)
    with pytest.raises((RuntimeError, ValueError), match=words):
        checkpoint.load(state, checkpoint_id=tmp_path)
    planner = checkpoint.DefaultLoadPlanner(allow_partial_load=True)
    checkpoint.load({"b": lazyt.zeros(1)}, checkpoint_id=tmp_path, planner=planner)


def test_damage_is_told(tmp_path: Path) -> None:
    _save(tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    data, index = bytearray(file.read_bytes()), (tmp_path / "index.json").read_bytes()

    def told(words: str) -> None:
        with pytest.raises(CheckpointError, match=words):
            checkpoint.load(_blank(), checkpoint_id=tmp_path)

    data[-5] ^= 1
    file.write_bytes(data)
    told("has a wrong checksum")
    file.write_bytes(data[:-9])
    told("it ends before .* does")
    file.unlink()
    told("lacks a file")
    (tmp_path / "index.json").write_bytes(index.replace(b'"shape":[4,3]', b'"shape":[3,4]'))
    told("its checksum is wrong")
    (tmp_path / "index.json").write_bytes(index[:50])
    told("is damaged")
    (tmp_path / "index.json").write_text(json.dumps({"format": "other"}))
    told("has the format 'other'")
    (tmp_path / "index.json").unlink()
    told("no checkpoint, or an incomplete one")
    with pytest.raises(RuntimeError, match="must be specificed"):
        checkpoint.save({})


def test_one_file_of_a_checkpoint_and_back(tmp_path: Path) -> None:
    state: dict[str, Any] = {
        "net": {"weight": lazyt.randn(3, 4), "empty": {}},
        "list": [lazyt.arange(3), {"step": 4}],
        "names": ["a", "b"],
        "half": lazyt.ones(2, dtype=lazyt.bfloat16),
    }
    checkpoint.save(state, checkpoint_id=tmp_path / "many")
    dcp_to_torch_save(tmp_path / "many", tmp_path / "one.pt")
    found = lazyt.load(tmp_path / "one.pt")
    assert str(found) == str(state) and found["half"].dtype is lazyt.bfloat16
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "again")
    part = {"net": {"weight": lazyt.zeros(3, 4)}}
    checkpoint.load(part, checkpoint_id=tmp_path / "again")
    assert lazyt.equal(part["net"]["weight"], state["net"]["weight"])
    for keys, wanted in (({"net.weight"}, {"net": {"weight"}}), ({"list"}, {"list": None})):
        some: dict[str, Any] = {}
        planner = EmptyStateDictLoadPlanner(keys=keys)
        checkpoint.load(some, checkpoint_id=tmp_path / "many", planner=planner)
        assert some.keys() == wanted.keys()
    with pytest.raises(ValueError, match="has to be empty"):
        checkpoint.load({"x": 1}, checkpoint_id=tmp_path / "many", planner=planner)
    lazyt.save(lazyt.ones(2), tmp_path / "tensor.pt")
    with pytest.raises(ValueError, match="holds a Tensor, not a dictionary"):
        torch_save_to_dcp(tmp_path / "tensor.pt", tmp_path / "none")
