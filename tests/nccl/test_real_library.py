"""NVIDIA's own library, where it is installed: what can be asked of it without a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from lazyt.runtime.ranks import nccl


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[nccl.Library]:
    monkeypatch.delenv("LAZYT_NCCL", raising=False)
    nccl.find.cache_clear()
    nccl.load.cache_clear()
    if nccl.find() is None:
        pytest.skip("needs nvidia-nccl-cu12")
    yield nccl.load()
    nccl.find.cache_clear()
    nccl.load.cache_clear()


def test_functions_and_version(library: nccl.Library) -> None:
    assert library.version >= nccl.version_code(*nccl.OLDEST, 0)
    assert library.version_text.count(".") == 2


def test_ids(library: nccl.Library) -> None:
    made = [library.new_id() for _ in range(2)]
    assert all(len(key) == 128 and any(key) for key in made)


def test_words(library: nccl.Library) -> None:
    state = ctypes.c_int()
    with pytest.raises(nccl.NcclError) as caught:
        library.call("ncclCommGetAsyncError", None, ctypes.byref(state))
    assert caught.value.code == 4
    text = str(caught.value)
    assert text.startswith("NCCL: ncclCommGetAsyncError: invalid argument")
    assert "(ncclInvalidArgument): " in text and text.endswith("NULL")


def test_groups_without_a_call(library: nccl.Library) -> None:
    assert library.call("ncclGroupStart") == nccl.SUCCESS
    assert library.call("ncclGroupEnd") == nccl.SUCCESS
