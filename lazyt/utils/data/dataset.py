"""Datasets: samples by number, or one after the other."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from lazyt.errors import BoundsError, LazytError, warn
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor

T = TypeVar("T", covariant=True)


class DatasetError(LazytError, ValueError):
    """Tensors or sizes that do not make a dataset."""


class DatasetMismatch(LazytError, AssertionError):
    """Datasets that do not go together, where PyTorch has assertions."""


class Dataset(Generic[T]):
    """Samples by number. Subclasses define ``__getitem__`` and, for most uses, ``__len__``."""

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Samples one after the other. Subclasses define ``__iter__``.

    With several workers each one iterates over its own copy: ``get_worker_info()`` tells it which
    part is its.
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: sample i is ``(a[i], b[i], ...)``.

    Raises DatasetMismatch for different first dimensions.
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            raise DatasetMismatch("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def gather(self, indices: Sequence[int]) -> list[Tensor]:
        """The samples stacked: one gather per tensor, the same plan for every batch."""
        rows = lazyt.tensor(list(indices), dtype=lazyt.int64)
        return [tensor[rows] for tensor in self.tensors]


class StackDataset(Dataset[Any]):
    """Datasets side by side: sample i is a tuple, or a dict, of theirs.

    Raises DatasetError for tuples and dicts at once, for none, and for different lengths.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise DatasetError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        self.datasets: Any = args or kwargs
        if not self.datasets:
            raise DatasetError("At least one dataset should be passed")
        lengths = {len(dataset) for dataset in self._all()}
        if len(lengths) != 1:
            raise DatasetError("Size mismatch between datasets")
        self._length: int = lengths.pop()

    def _all(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _joined(self, parts: Sequence[Any]) -> Any:
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, parts, strict=True))
        return tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._joined([dataset[index] for dataset in self._all()])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = []
        for dataset in self._all():
            several = getattr(dataset, "__getitems__", None)
            if not callable(several):
                columns.append([dataset[index] for index in indices])
                continue
            columns.append(several(indices))
            if len(columns[-1]) != len(indices):
                raise DatasetError(
                    "Nested dataset's output size mismatch. "
                    f"Expected {len(indices)}, got {len(columns[-1])}"
                )
        return [self._joined(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Any]):
    """Datasets one behind the other.

    Raises DatasetMismatch for none, and for an IterableDataset.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise DatasetMismatch("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise DatasetMismatch("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """The running sums of the lengths."""
        return list(itertools.accumulate(len(dataset) for dataset in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> Any:
        place = index + len(self) if index < 0 else index
        if place < 0:
            raise DatasetError("absolute value of index should not exceed dataset length")
        if place >= len(self):
            raise BoundsError("list index out of range")
        number = bisect.bisect_right(self.cumulative_sizes, place)
        before = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][place - before]


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one behind the other. Iterating, and ``len``, raise DatasetMismatch for
    others."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise DatasetMismatch("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._checked())

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())


class Subset(Dataset[Any]):
    """The samples of a dataset with the given numbers."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        places = [self.indices[index] for index in indices]
        several = getattr(self.dataset, "__getitems__", None)
        if callable(several):
            return list(several(places))
        return [self.dataset[place] for place in places]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: lazyt.Generator | None = None
) -> list[Subset]:
    """Parts of a dataset, drawn at random without overlap.

    Args:
        lengths: sizes of the parts, or fractions that sum to 1; what rounding leaves over goes
            to the first parts, one each.

    Raises DatasetError for lengths that do not make up the dataset.
    """
    count = len(dataset)
    sizes = [int(n) for n in lengths]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 and sizes != [count]:
        for number, part in enumerate(lengths):
            if not 0 <= part <= 1:
                raise DatasetError(f"Fraction at index {number} is not between 0 and 1")
        sizes = [math.floor(count * part) for part in lengths]
        for extra in range(count - sum(sizes)):
            sizes[extra % len(sizes)] += 1
        for number, size in enumerate(sizes):
            if size == 0:
                warn(
                    f"Length of split at index {number} is 0. "
                    "This might result in an empty dataset."
                )
    if sum(sizes) != count:
        raise DatasetError("Sum of input lengths does not equal the length of the input dataset!")
    order = lazyt.randperm(count, generator=generator).tolist()
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes)]
