"""Stacked datasets, parts for several programs, order of workers, and messages, as PyTorch's."""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import lazyt
from lazyt.utils.data import (
    ChainDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    StackDataset,
    Subset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
)


class Numbers(Dataset[int]):
    """Sample i is i."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index


class Hundreds(Numbers):
    """Several samples at once are a hundred more."""

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [100 + index for index in indices]


class Slow(Numbers):
    """The first sample takes its time."""

    def __getitem__(self, index: int) -> int:
        if index == 0:
            time.sleep(1.0)
        return index


class Stream(IterableDataset[int]):
    """Three numbers."""

    def __iter__(self) -> Any:
        return iter(range(3))


def test_stacked_datasets_give_tuples_or_dicts() -> None:
    pair = StackDataset(Numbers(3), Hundreds(3))
    assert pair[1] == (1, 1) and len(pair) == 3
    named = StackDataset(a=Numbers(3), b=Hundreds(3))
    assert named.__getitems__([0, 2]) == [{"a": 0, "b": 100}, {"a": 2, "b": 102}]
    (batch,) = DataLoader(named, 3)
    assert batch["b"].tolist() == [100, 101, 102]
    assert Subset(Hundreds(5), [3, 1]).__getitems__([1, 0]) == [101, 103]
    assert list(Stream() + Stream()) == [0, 1, 2] * 2


@pytest.mark.parametrize("drop", [False, True])
def test_programs_share_a_dataset(drop: bool) -> None:
    parts = [DistributedSampler(Numbers(7), 3, rank, drop_last=drop) for rank in range(3)]
    for part in parts:
        part.set_epoch(4)
    taken = [list(part) for part in parts]
    assert [len(t) for t in taken] == [len(p) for p in parts] == [2 if drop else 3] * 3
    everything = [number for t in taken for number in t]
    assert len(set(everything)) == (6 if drop else 7)
    parts[0].set_epoch(5)
    assert list(DistributedSampler(Numbers(7), 3, 1, shuffle=False)) == [1, 4, 0]


def test_workers_need_not_wait_for_each_other() -> None:
    loader = DataLoader(Slow(6), num_workers=2, in_order=False)
    found = [batch.item() for batch in loader]
    assert sorted(found) == [0, 1, 2, 3, 4, 5] and found[0] != 0


def test_collections_keep_their_kind() -> None:
    made = default_collate([defaultdict(int, a=1), defaultdict(int, a=2)])
    assert type(made) is defaultdict and made["b"] == 0 and made["a"].tolist() == [1, 2]
    converted = default_convert(OrderedDict(a=np.ones(1)))
    assert type(converted) is OrderedDict and converted["a"].tolist() == [1.0]
    assert default_convert(np.float32(2)).dtype is lazyt.float32
    with pytest.raises(TypeError, match="found <U1"):
        default_collate([np.array("a")])


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: StackDataset(), ValueError, "At least one dataset"),
    (lambda: StackDataset(Numbers(1), a=Numbers(1)), ValueError, "both types are given"),
    (lambda: StackDataset(Numbers(1), Numbers(2)), ValueError, "Size mismatch between datasets"),
    (lambda: list(ChainDataset([Numbers(1)])), AssertionError, "only supports IterableDataset"),
    (lambda: DistributedSampler(Numbers(1), 2, 2), ValueError, "Invalid rank 2"),
    (lambda: DistributedSampler(Numbers(1)), ValueError, "has not been initialized"),
    (lambda: WeightedRandomSampler([1.0], True), ValueError, "num_samples=True"),
    (lambda: DataLoader(Numbers(1), num_workers=1, prefetch_factor=-1), ValueError, "non-negative"),
    (lambda: DataLoader(Numbers(1), multiprocessing_context="fork"), ValueError, "num_workers=0"),
    (lambda: DataLoader(Numbers(1), num_workers=1, multiprocessing_context="x"), ValueError,
     "valid start method"),
    (lambda: setattr(DataLoader(Numbers(1)), cast(Any, "batch_size"), 3), ValueError,
     "batch_size attribute should not be set"),
])  # fmt: skip
def test_messages_are_pytorchs(make: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()
