"""When functions ask ``__torch_function__``: not before somebody may want to be asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

_START = """
import lazyt
from lazyt import nn
from lazyt.functional.overriding import switch
import lazyt.distributed.tensor, lazyt.subclasses.fake_tensors, lazyt.subclasses.masked_tensors
assert not switch.on
"""
_CLASS = """
class Loud(lazyt.Tensor):
    called = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.called.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})

assert switch.on
"""


def _run(text: str) -> None:
    command = [sys.executable, "-c", _START + text]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-2000:]


@pytest.mark.lazy
def test_who_is_asked_among_plain_arguments() -> None:
    _run(
        _CLASS
        + """
x, p = lazyt.ones(2, 3), nn.Parameter(lazyt.ones(3))
assert (x * p).sum(dim=1).tolist() == [3, 3] and not Loud.called
assert lazyt.cat([x, x], dim=0).shape == (4, 3) and not Loud.called
loud = lazyt.ones(2, 3).as_subclass(Loud)
assert type(lazyt.cat([x, loud], dim=0)) is Loud and Loud.called[-1] == "cat"
assert type(lazyt.add(x, other=loud)) is Loud and Loud.called[-1] == "add"
assert type(p * loud) is Loud and Loud.called[-1] == "mul"
"""
    )


@pytest.mark.lazy
def test_distributed_tensors_are_asked_once_there_is_one() -> None:
    _run("""
import lazyt.distributed as dist
from lazyt.distributed.tensor import DTensor, Shard, distribute_tensor
dist.init_process_group("gloo", rank=0, world_size=1)
mesh = dist.init_device_mesh("cpu", (1,))
x = distribute_tensor(lazyt.arange(4.0).reshape(2, 2), mesh, [Shard(0)])
assert switch.on
y = lazyt.cat([x, x], dim=0)
assert isinstance(y, DTensor) and isinstance(x.sum(dim=0), DTensor)
assert y.full_tensor().tolist() == [[0, 1], [2, 3]] * 2
dist.destroy_process_group()
""")
