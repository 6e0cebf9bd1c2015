"""Getting one batch out of a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any

import lazyt
from lazyt.tensor import Tensor
from lazyt.utils.data.collate import (
    collate_tensor_fn,
    default_collate,
    default_collate_fn_map,
)
from lazyt.utils.data.dataset import IterableDataset, Subset, TensorDataset


class DatasetKind:
    """PyTorch's numbers for datasets of samples by number, and for streams."""

    Map, Iterable = 0, 1


class Fetcher:
    """Batches of one dataset.

    Args:
        collate: makes a batch of samples, or converts a single one.
        batched: whether samples are put together.
        drop_last: leave out a last batch of an IterableDataset that is not full.
    """

    def __init__(
        self, dataset: Any, collate: Callable[[Any], Any], batched: bool, drop_last: bool
    ) -> None:
        self.dataset, self.collate = dataset, collate
        self.batched, self.drop_last = batched, drop_last
        self._stream: Iterator[Any] | None = None
        if isinstance(dataset, IterableDataset):
            self._stream = iter(dataset)

    def fetch(self, numbers: Any) -> Any:
        """The batch of these samples, computed: what uses it has one graph, however it was made.

        Raises StopIteration when an IterableDataset is through.
        """
        return computed(self._collated(numbers))

    def _collated(self, numbers: Any) -> Any:
        if self._stream is not None:
            return self._next_of_stream(self._stream, numbers)
        if not self.batched:
            return self.collate(computed(self.dataset[numbers]))
        if self.collate is default_collate and _stacks_tensors():
            rows = _gathered(self.dataset, list(numbers))
            if rows is not None:
                return rows
        several = getattr(self.dataset, "__getitems__", None)
        if several is not None:
            return self.collate([computed(sample) for sample in several(list(numbers))])
        return self.collate([computed(self.dataset[number]) for number in numbers])

    def _next_of_stream(self, stream: Iterator[Any], numbers: Any) -> Any:
        if not self.batched:
            return self.collate(computed(next(stream)))
        samples = [computed(sample) for sample in itertools.islice(stream, len(numbers))]
        if not samples or (self.drop_last and len(samples) < len(numbers)):
            raise StopIteration
        return self.collate(samples)


class Batches(Iterator[Any]):
    """One pass over a dataset, by whatever means."""


class LocalBatches(Batches):
    """One pass over a dataset in this process; an iterator.

    Args:
        fetcher: gets the batches.
        numbers: the samples of each.
        loader: what iterates; it knows the number of batches.
    """

    def __init__(self, fetcher: Fetcher, numbers: Iterable[Any], loader: Sized) -> None:
        self._fetcher, self._numbers, self._loader = fetcher, iter(numbers), loader

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._fetcher.fetch(next(self._numbers))

    def __len__(self) -> int:
        return len(self._loader)


#: As they are defined: programs may replace them.
_subset_item, _tensors_item = Subset.__getitem__, TensorDataset.__getitem__


def _stacks_tensors() -> bool:
    """Whether programs left it at that; they may ask for anything else."""
    return next(iter(default_collate_fn_map.items())) == (Tensor, collate_tensor_fn)


def _gathered(dataset: Any, numbers: list[int]) -> list[Tensor] | None:
    """Rows of tensors in one go instead of one by one; None for other datasets."""
    while type(dataset) is Subset and _subset_item is Subset.__getitem__:
        numbers = [dataset.indices[number] for number in numbers]
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset or TensorDataset.__getitem__ is not _tensors_item:
        return None
    return dataset.gather(numbers)


def computed(value: Any) -> Any:
    """A sample or a batch, after its tensors have been computed, slices into memory of their own.

    Samples are computed one by one: what is drawn for each (a shift, a crop, a length) would
    otherwise make another graph of every batch, and each graph a plan.
    """
    lazyt.realize(*tensors_of(value))
    return value


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors in a sample or a batch."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_of(item)]
    return []


def compute_dataset(dataset: Any) -> None:
    """Compute tensors of a dataset that are pending: workers would each do it again."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    if type(dataset) is TensorDataset:
        lazyt.realize(*dataset.tensors)
