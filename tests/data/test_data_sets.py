"""Datasets, samplers and collation."""

from __future__ import annotations

from collections import Counter, namedtuple
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)

Point = namedtuple("Point", ("x", "y"))


class Squares(Dataset[Any]):
    """Sample i is i and its square."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, float(index * index)


class Countdown(IterableDataset[int]):
    """Numbers down to 0."""

    def __init__(self, start: int) -> None:
        self.start = start

    def __iter__(self) -> Any:
        return iter(range(self.start, -1, -1))


def test_tensor_dataset_needs_equal_lengths() -> None:
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(lazyt.zeros(3), lazyt.zeros(4))
    data = TensorDataset(lazyt.arange(3), lazyt.arange(6.0).view(3, 2))
    assert len(data) == 3
    assert [t.tolist() for t in data[1]] == [1, [2.0, 3.0]]
    assert [t.tolist() for t in data[-1]] == [2, [4.0, 5.0]]


def test_gathered_batches_are_stacked_samples() -> None:
    data = TensorDataset(lazyt.arange(8.0).view(4, 2), lazyt.arange(4))
    part = Subset(Subset(data, [3, 1, 0]), [2, 0])
    for numbers, wanted in ((data, [[0, 1], [2, 3]]), (part, [[0, 3]])):
        batches = list(DataLoader(numbers, batch_size=2))
        assert [labels.tolist() for _, labels in batches] == wanted
        samples = [numbers[i] for i in range(len(numbers))]
        stacked = default_collate(samples)
        joined = lazyt.cat([rows for rows, _ in batches])
        assert joined.tolist() == stacked[0].tolist()


def test_concatenation_and_chain() -> None:
    both = Squares(3) + Squares(2)
    assert isinstance(both, ConcatDataset) and len(both) == 5
    assert [both[i][0] for i in range(5)] == [0, 1, 2, 0, 1]
    assert both[-1] == (1, 1.0)
    with pytest.raises(ValueError, match="should not exceed"):
        both[-6]
    assert list(ChainDataset([Countdown(1), Countdown(2)])) == [1, 0, 2, 1, 0]


def test_random_split_parts_everything_once() -> None:
    generator = lazyt.Generator().manual_seed(3)
    parts = random_split(Squares(10), [0.5, 0.25, 0.25], generator)
    assert [len(part) for part in parts] == [6, 2, 2]  # what rounding left over goes first
    assert sorted(part[i][0] for part in parts for i in range(len(part))) == list(range(10))
    again = random_split(Squares(10), [6, 2, 2], lazyt.Generator().manual_seed(3))
    assert [p.indices for p in again] == [p.indices for p in parts]
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(Squares(10), [5, 4])


def test_samplers() -> None:
    data = Squares(6)
    assert list(SequentialSampler(data)) == [0, 1, 2, 3, 4, 5]
    assert sorted(RandomSampler(data)) == [0, 1, 2, 3, 4, 5]
    drawn = list(RandomSampler(data, replacement=True, num_samples=40))
    assert len(drawn) == 40 and set(drawn) <= set(range(6))
    longer = list(RandomSampler(data, num_samples=14))
    assert Counter(longer[:12]) == Counter([*range(6)] * 2) and len(longer) == 14
    assert sorted(SubsetRandomSampler([3, 5])) == [3, 5]
    assert list(BatchSampler(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert [len(BatchSampler(range(5), 2, drop)) for drop in (False, True)] == [3, 2]


def test_weights_decide_what_is_drawn() -> None:
    sampler = WeightedRandomSampler([0.0, 3.0, 1.0, 0.0], 400, generator=lazyt.Generator())
    counts = Counter(sampler)
    assert set(counts) == {1, 2}
    assert 240 < counts[1] < 360  # 300 expected, deviation under 9
    without = WeightedRandomSampler([0.0, 1.0, 2.0], 2, replacement=False)
    assert sorted(without) == [1, 2]
    with pytest.raises(ValueError, match="without replacement"):
        WeightedRandomSampler([0.0, 1.0], 2, replacement=False)


def test_collation_follows_the_structure() -> None:
    batch = default_collate(
        [
            {"p": Point(1, 2.5), "name": "a", "rows": [np.float32(1), True]},
            {"p": Point(3, 4.5), "name": "b", "rows": [np.float32(2), False]},
        ]
    )
    assert isinstance(batch["p"], Point)
    assert batch["p"].x.dtype is lazyt.int64 and batch["p"].x.tolist() == [1, 3]
    assert batch["p"].y.dtype is lazyt.float64 and batch["p"].y.tolist() == [2.5, 4.5]
    assert batch["name"] == ["a", "b"]
    assert batch["rows"][0].dtype is lazyt.float32
    assert batch["rows"][1].tolist() == [True, False]
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="found <class 'set'>"):
        default_collate([{1}, {2}])


def test_loading_without_batches() -> None:
    singles = list(DataLoader(Squares(3), batch_size=None))
    assert singles == [[0, 0.0], [1, 1.0], [2, 4.0]]
    arrays = [np.ones(2, np.float32)]
    (only,) = DataLoader(arrays, batch_size=None)
    assert isinstance(only, lazyt.Tensor)


def test_iterable_dataset_in_batches() -> None:
    batches = [b.tolist() for b in DataLoader(Countdown(4), batch_size=2)]
    assert batches == [[4, 3], [2, 1], [0]]
    dropped = [b.tolist() for b in DataLoader(Countdown(4), batch_size=2, drop_last=True)]
    assert dropped == [[4, 3], [2, 1]]


def test_custom_order_and_collation() -> None:
    data = Squares(6)
    loader = DataLoader(data, batch_size=2, sampler=[5, 3, 1], collate_fn=lambda s: len(s))
    assert list(loader) == [2, 1] and len(loader) == 2
    chosen = DataLoader(data, batch_sampler=[[0, 5], [2]])
    assert [numbers.tolist() for numbers, _ in chosen] == [[0, 5], [2]]


def test_shuffling_follows_the_generator() -> None:
    def order(seed: int) -> list[int]:
        generator = lazyt.Generator().manual_seed(seed)
        loader = DataLoader(Squares(20), batch_size=20, shuffle=True, generator=generator)
        (batch,) = loader
        return batch[0].tolist()  # type: ignore[no-any-return]

    assert order(1) == order(1) != order(2)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"num_workers": -1}, "non-negative"),
        ({"prefetch_factor": 2}, "num_workers > 0"),
        ({"persistent_workers": True}, "num_workers > 0"),
        ({"shuffle": True, "sampler": [0]}, "mutually exclusive"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "drop_last"),
        ({"batch_size": 0}, "positive integer"),
    ],
)
def test_wrong_settings_raise(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        DataLoader(Squares(3), **settings)


def test_iterable_dataset_has_no_order() -> None:
    with pytest.raises(ValueError, match="IterableDataset"):
        DataLoader(Countdown(3), shuffle=True)


def test_pinning_is_said_to_do_nothing() -> None:
    loader = DataLoader(TensorDataset(lazyt.arange(2)), pin_memory=True)
    with pytest.warns(UserWarning, match="no accelerator"):
        assert [x.tolist() for (x,) in loader] == [[0], [1]]
