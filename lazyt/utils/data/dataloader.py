"""The DataLoader: batches of a dataset, in this process or from workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from types import GenericAlias
from typing import Any

from lazyt.accelerator import device_count
from lazyt.errors import LazytError, warn
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.utils.data.collate import default_collate, default_convert, pinned
from lazyt.utils.data.dataset import Dataset, IterableDataset
from lazyt.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from lazyt.utils.data.workers import Batches as _BaseDataLoaderIter
from lazyt.utils.data.workers import (
    DatasetKind,
    Fetcher,
    Job,
    LocalBatches,
    ParallelBatches,
    WorkerPool,
    compute_dataset,
    get_worker_info,
    warn_of_many_workers,
)
from lazyt.utils.data.workers import DatasetKind as _DatasetKind
from lazyt.utils.data.workers import LocalBatches as _SingleProcessDataLoaderIter
from lazyt.utils.data.workers import ParallelBatches as _MultiProcessingDataLoaderIter

__all__ = [
    "BatchSampler", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler",
    "SequentialSampler", "_BaseDataLoaderIter", "_DatasetKind", "_MultiProcessingDataLoaderIter",
    "_SingleProcessDataLoaderIter", "default_collate", "default_convert", "get_worker_info",
]  # fmt: skip

#: Attributes that may not be changed: others were made of them.
_FIXED = frozenset({
    "batch_sampler", "batch_size", "dataset", "drop_last", "persistent_workers", "sampler",
})  # fmt: skip


class LoaderError(LazytError, ValueError):
    """Settings of a DataLoader that exclude each other."""


class DataLoader:
    """Iterates over a dataset in batches.

    Samples are computed one by one as they are taken from the dataset, and so is each batch, by
    workers too: what is drawn for a sample, such as a crop, makes no other graph of its batch.

    Args:
        dataset: samples by number (``__getitem__`` and ``__len__``) or an IterableDataset.
        batch_size: samples per batch; None for single samples without a batch dimension.
        shuffle: take samples in random order, a new one every time.
        sampler: the order of samples; excludes ``shuffle``.
        batch_sampler: the numbers of every batch; excludes the four before and ``drop_last``.
        num_workers: processes that fetch batches; 0 fetches here, as the loop takes them.
        collate_fn: makes a batch of a list of samples.
        pin_memory: batches are in pinned memory, which a GPU reads by itself; without a GPU there
            is a warning instead.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a worker's batch, 0 for ever.
        worker_init_fn: called in every worker with its number.
        multiprocessing_context: how workers are started.
        generator: where random order and the workers' seeds come from.
        prefetch_factor: batches that every worker begins before the loop takes them, 2 by default.
        persistent_workers: keep the workers after the last batch.
        in_order: False gives batches of several workers as they come, not in their order.

    Raises LoaderError (a ValueError) for settings that exclude each other. Iterating raises what
    the dataset raises, in a worker too, and LazytError for a worker that dies.
    """

    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: lazyt.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.dataset, self.num_workers = dataset, num_workers
        self.pin_memory, self.timeout = pin_memory, timeout
        self.worker_init_fn, self.generator = worker_init_fn, generator
        self.multiprocessing_context = multiprocessing_context
        self.pin_memory_device, self.in_order = pin_memory_device, in_order
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self._check_workers()
        if num_workers and prefetch_factor is None:
            self.prefetch_factor = 2
        self._check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        self._streams = isinstance(dataset, IterableDataset)
        if sampler is None:
            if self._streams:
                sampler = itertools.repeat(0)
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last and not self._streams)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        default = default_collate if self._auto_collation else default_convert
        self.collate_fn = default if collate_fn is None else collate_fn
        self._pool: WorkerPool | None = None
        self._fixed = True
        self.check_worker_number_rationality()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and "_fixed" in self.__dict__:
            raise LoaderError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    def _check_workers(self) -> None:
        if self.num_workers < 0:
            raise LoaderError(
                "num_workers option should be non-negative; use num_workers=0 to disable "
                "multiprocessing."
            )
        if self.timeout < 0:
            raise LoaderError("timeout option should be non-negative")
        if self.num_workers == 0 and self.prefetch_factor is not None:
            raise LoaderError(
                "prefetch_factor option could only be specified in multiprocessing.let "
                "num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if self.prefetch_factor is not None and self.prefetch_factor < 0:
            raise LoaderError("prefetch_factor option should be non-negative")
        context = self.multiprocessing_context
        if context is not None and not self.num_workers:
            raise LoaderError(
                "multiprocessing_context can only be used with multi-process loading "
                f"(num_workers > 0), but got num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            import multiprocessing

            known = multiprocessing.get_all_start_methods()
            if context not in known:
                raise LoaderError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{known!r}, but got multiprocessing_context={context!r}"
                )
        if self.persistent_workers and self.num_workers == 0:
            raise LoaderError("persistent_workers option needs num_workers > 0")

    def _check_order(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any,
        drop_last: bool,
    ) -> None:  # fmt: skip
        if sampler is not None and shuffle:
            raise LoaderError("sampler option is mutually exclusive with shuffle")
        if isinstance(self.dataset, IterableDataset):
            given = {"shuffle": shuffle, "sampler": sampler, "batch_sampler": batch_sampler}
            for name, value in given.items():
                if value is not None and value is not False:
                    raise LoaderError(
                        "DataLoader with IterableDataset: expected unspecified "
                        f"{name} option, but got {name}={value}"
                    )
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise LoaderError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
        elif batch_size is None and drop_last:
            raise LoaderError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )

    def __len__(self) -> int:
        if self._streams:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            full, rest = divmod(count, self.batch_size)
            return full + bool(rest and not self.drop_last)
        numbers: Any = self._index_sampler
        return len(numbers)

    def __iter__(self) -> Iterator[Any]:
        return self._get_iterator()

    @property
    def _auto_collation(self) -> bool:
        """Whether samples are put together."""
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Iterable[Any]:
        """The numbers of every batch, or of single samples."""
        found: Any = self.batch_sampler if self._auto_collation else self.sampler
        return found  # type: ignore[no-any-return]

    @property
    def _dataset_kind(self) -> int:
        return DatasetKind.Iterable if self._streams else DatasetKind.Map

    def check_worker_number_rationality(self) -> None:
        """Warn of more workers than there are processors for them."""
        warn_of_many_workers(self.num_workers)

    def _get_iterator(self) -> Iterator[Any]:
        """One pass over the dataset."""
        batches = self._batches()
        if self.pin_memory and device_count():
            return map(pinned, batches)
        if self.pin_memory:
            warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used."
            )
        return batches

    def _batches(self) -> Iterator[Any]:
        numbers, batched = self._index_sampler, self._auto_collation
        # Drawn with and without workers, so that their number does not change the order.
        seed = lazyt.randint(0, (1 << 31) - self.num_workers, (1,), generator=self.generator)
        if self.num_workers:
            return self._in_parallel(numbers, batched, seed)
        fetcher = Fetcher(self.dataset, self.collate_fn, batched, self.drop_last)
        return LocalBatches(fetcher, numbers, self)

    def _in_parallel(self, numbers: Iterable[Any], batched: bool, seed: Tensor) -> Iterator[Any]:
        pool = self._pool if self._pool is not None and self._pool.workers else None
        if pool is None:
            compute_dataset(self.dataset)
            jobs = [
                Job(
                    number, self.num_workers, self.dataset, self.collate_fn, batched,
                    self.drop_last, self.worker_init_fn,
                )
                for number in range(self.num_workers)
            ]  # fmt: skip
            pool = WorkerPool(jobs, int(seed.realize().item()), self.multiprocessing_context)
            self._pool = pool if self.persistent_workers else None
        ahead = self.prefetch_factor or 2
        return ParallelBatches(
            pool, numbers, ahead, self.timeout, self.persistent_workers, self.in_order, self
        )
