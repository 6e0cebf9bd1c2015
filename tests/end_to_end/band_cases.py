"""Builds what runs band by band, and compares its bits with those of separate launches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

import lazyt
from lazyt.compiler import group_graph
from lazyt.handle.tensor import Tensor
from lazyt.ir.group import Group
from lazyt.runtime import devices

Builder = Callable[[], "Tensor | tuple[Tensor, ...]"]


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache in which little fits, so that small cases have bands, and several of them."""
    lazyt.manual_seed(5)
    small = replace(devices.cpu(), l1=1 << 14, l2=1 << 11)
    monkeypatch.setattr(devices, "cpu", lambda: small)
    with lazyt.config.override(verify=True, any_size=False):
        yield


def drawn(*shape: int, dtype: lazyt.dtype = lazyt.float32) -> Tensor:
    """Random numbers."""
    return lazyt.randn(*shape).to(dtype).realize()


def groups_of(*results: Tensor) -> list[Group]:
    """The launches that would compute some values."""
    return group_graph([t.node for t in results], cache=devices.cpu().l2)[1]


def bits_of(build: Builder) -> list[bytes]:
    """What is built, computed, to the bit."""
    made = build()
    tensors = made if isinstance(made, tuple) else (made,)
    lazyt.realize(*tensors)
    raw = [t.view(lazyt.int16) if t.dtype is lazyt.bfloat16 else t for t in tensors]
    return [t.numpy().tobytes() for t in raw]


def check_band(build: Builder, stages: int) -> Group:
    """The one band of what ``build`` gives, which must have the bits of separate launches."""
    made = build()
    groups = groups_of(*(made if isinstance(made, tuple) else (made,)))
    (band,) = [g for g in groups if g.kind == "band"]
    assert len(band.stages) == stages
    with lazyt.config.override(bands=False):
        apart = bits_of(build)
    for threads in (1, 2):
        with lazyt.config.override(threads=threads):
            assert bits_of(build) == apart
    return band
