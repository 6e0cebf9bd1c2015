"""Samplers: in which order samples are taken."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt

T = TypeVar("T", covariant=True)


class SamplerError(LazytError, ValueError):
    """A setting of a sampler that makes no sense."""


class SamplerTypeError(LazytError, TypeError):
    """A setting of a sampler of another type."""


class Sampler(Generic[T]):
    """Base of samplers: subclasses define ``__iter__`` and, where it is known, ``__len__``."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """All samples in order."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class DistributedSampler(Sampler[int]):
    """The part of a dataset that one of several equal programs takes: every ``num_replicas``-th
    sample from ``rank`` on, in an order that all of them shuffle alike.

    Args:
        num_replicas, rank: how many programs there are, and which of them this is.
        shuffle: take samples in an order drawn from ``seed`` and the epoch.
        drop_last: leave out what is left over, instead of repeating samples until all have as many.

    Without ``num_replicas`` and ``rank`` they are those of ``lazyt.distributed``. Raises ValueError
    before its ``init_process_group``, and SamplerError (a ValueError) for a rank out of range.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from lazyt.distributed import process_groups

            num_replicas = num_replicas or process_groups.get_world_size()
            rank = process_groups.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise SamplerError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.shuffle, self.seed, self.drop_last = 0, shuffle, seed, drop_last
        full, rest = divmod(len(dataset), num_replicas)
        self.num_samples = full + bool(rest and not drop_last)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = list(range(count))
        if self.shuffle:
            generator = lazyt.Generator().manual_seed(self.seed + self.epoch)
            order = lazyt.randperm(count, generator=generator).tolist()
        order = list(itertools.islice(itertools.cycle(order), self.total_size))
        return iter(order[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Shuffle in another order from now on; every program has to say the same."""
        self.epoch = epoch


#: How many numbers are drawn with replacement at a time: loops over very many may end early.
_AT_ONCE = 1 << 13


class RandomSampler(Sampler[int]):
    """Samples at random: all in random order, or with ``replacement``.

    Args:
        num_samples: how many, as many as there are by default.
        generator: where randomness comes from.

    Raises SamplerError for a count below 1, SamplerTypeError for another ``replacement``.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: lazyt.Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise SamplerTypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.data_source, self.replacement = data_source, replacement
        self._num_samples, self.generator = num_samples, generator
        if self.num_samples <= 0:
            raise SamplerError(
                "num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many samples are taken."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, generator = len(self.data_source), self.generator
        left = self.num_samples
        if self.replacement and left > _AT_ONCE and generator is None:
            # Numbers that are drawn later are not to depend on what else is drawn in between.
            seed = lazyt.randint(1 << 62, ()).realize().item()
            generator = lazyt.Generator().manual_seed(int(seed))
        while left > 0 and count > 0:
            if self.replacement:
                size = (min(left, _AT_ONCE),)
                drawn = lazyt.randint(count, size, generator=generator).realize().tolist()
            else:
                drawn = lazyt.randperm(count, generator=generator).tolist()[:left]
            left -= len(drawn)
            yield from drawn

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given numbers in random order."""

    def __init__(self, indices: Sequence[int], generator: lazyt.Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order = lazyt.randperm(len(self.indices), generator=self.generator).tolist()
        return iter([self.indices[i] for i in order])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Numbers drawn with probabilities proportional to ``weights``.

    Raises SamplerError for a count below 1, or above the number of positive weights without
    replacement.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: lazyt.Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise SamplerError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise SamplerError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        shape = lazyt.as_tensor(weights).shape
        if len(shape) != 1:
            raise SamplerError(
                f"weights should be a 1d sequence but given weights have shape {tuple(shape)}"
            )
        self.weights = [float(w) for w in weights]
        if not replacement and num_samples > len(self.weights):
            raise SamplerError(
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
            )
        if not replacement and num_samples > sum(w > 0 for w in self.weights):
            raise SamplerError("cannot sample more than the positive weights without replacement")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        if self.replacement:
            ends = list(itertools.accumulate(self.weights))
            drawn = lazyt.rand(self.num_samples, dtype=lazyt.float64, generator=self.generator)
            return iter([bisect.bisect_right(ends, x * ends[-1]) for x in drawn.realize().tolist()])
        # The greatest keys u**(1/w) are a weighted sample (Efraimidis & Spirakis 2006).
        drawn = lazyt.rand(len(self.weights), dtype=lazyt.float64, generator=self.generator)
        keys = [
            u ** (1 / w) if w > 0 else -1.0 for u, w in zip(drawn.realize().tolist(), self.weights)
        ]
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
        return iter(order[: self.num_samples])

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The numbers of another sampler in lists of ``batch_size``.

    Args:
        drop_last: leave out a last list that is not full.

    Raises SamplerError for a batch size below 1 and for another ``drop_last`` than a bool.
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise SamplerError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise SamplerError(
                f"drop_last should be a boolean value, but got drop_last={drop_last}"
            )
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
