"""The main process's side of worker processes: hands out tasks, puts batches in order.

Every worker has two pipes of its own. One that dies, raises or takes too long is noticed while
waiting for a batch, and ends the iteration with an exception.
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
import queue
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyt.config import config
from lazyt.errors import LazytError, warn
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.utils.data.collate import (
    collate_tensor_fn,
    default_collate,
    default_collate_fn_map,
)
from lazyt.utils.data.dataset import IterableDataset, Subset, TensorDataset

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess


# Getting one batch out of a dataset.


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


# What runs in a loader's worker processes, and what they send when something goes wrong.


_PATIENCE = 1.0  # seconds until a worker looks whether the main process is still there


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker process knows about itself.

    Attributes:
        id: its number, from 0.
        num_workers: how many there are.
        seed: what its random numbers started from.
        dataset: its copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_infos: list[WorkerInfo] = []  # empty, or the one of this process


def get_worker_info() -> WorkerInfo | None:
    """About this worker process; None in the main process."""
    return _infos[-1] if _infos else None


def warn_of_many_workers(count: int) -> None:
    """Warn where there are more workers than processors for them."""
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    most = len(processors) or os.cpu_count() or 1
    if count > most:
        warn(
            f"This DataLoader will create {count} worker processes in total. Our suggested max "
            f"number of worker in current system is {most}, which is smaller than what this "
            "DataLoader is going to create. Please be aware that excessive worker creation might "
            "get DataLoader running slow or even freeze, lower the worker number to avoid "
            "potential slowness/freeze if necessary."
        )


class _Message(str):
    """Text that ``KeyError`` prints with its line breaks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Failure:
    """An exception in a worker, on its way to the main process.

    Attributes:
        kind: its class, None for one that cannot be sent.
        text: what it said, with the traceback.
    """

    kind: type[BaseException] | None
    text: str

    @staticmethod
    def of(error: BaseException, number: int) -> Failure:
        """What to send about ``error`` in worker ``number``."""
        name = type(error).__name__
        where = f"Caught {name} in DataLoader worker process {number}.\nOriginal "
        kind: type[BaseException] | None = type(error)
        try:
            pickle.dumps(kind)
        except (pickle.PicklingError, AttributeError, TypeError):
            kind = None
        return Failure(kind, where + "".join(traceback.format_exception(error)))

    def raise_again(self) -> None:
        """Raise an exception of the same class, or else LazytError, that tells all."""
        kind = LazytError if self.kind is None else self.kind
        try:
            error = kind(_Message(self.text))
        except TypeError:  # a class that takes other arguments
            error = LazytError(self.text)
        raise error


class End:
    """Sent when an IterableDataset is through."""


@dataclass(frozen=True)
class Job:
    """What a worker process is started with."""

    number: int
    count: int
    dataset: Any
    collate: Callable[[Any], Any]
    batched: bool
    drop_last: bool
    prepare: Callable[[int], Any] | None


def work(job: Job, tasks: Connection, results: Connection, seed: int) -> None:
    """The worker process: answers ``(number, samples)`` with ``(number, batch)`` until None.

    A number below 0 starts another pass over the dataset.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process hears it and ends us
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # Tasks are taken off at once, so that the main process never waits to send one while this
    # process waits to send a batch.
    threading.Thread(target=_drain, args=(tasks, inbox), daemon=True).start()
    config.threads = 1  # the other cores have workers of their own
    _infos[:] = [WorkerInfo(job.number, job.count, seed, job.dataset)]
    _seed_all(seed)
    failure = _prepare(job)
    fetcher: Fetcher | None = None
    for number, samples in iter(inbox.get, None):
        if number < 0:
            fetcher = None
            continue
        answer: Any = failure
        if failure is None:
            try:
                if fetcher is None:
                    fetcher = Fetcher(job.dataset, job.collate, job.batched, job.drop_last)
                answer = fetcher.fetch(samples)
            except StopIteration:
                answer = End()
            except Exception as error:
                answer = Failure.of(error, job.number)
        if not _send(results, number, answer, job.number):
            return


def _drain(tasks: Connection, inbox: queue.SimpleQueue[Any]) -> None:
    parent = os.getppid()
    task: Any = ()
    while task is not None:
        try:
            # The other workers may hold this pipe open, too: its end does not tell enough.
            while not tasks.poll(_PATIENCE):
                if os.getppid() != parent:
                    raise EOFError
            task = tasks.recv()
        except (EOFError, OSError):  # the main process is gone
            inbox.put(None)
            time.sleep(_PATIENCE)
            os._exit(1)  # whoever sends a batch to nobody waits for ever
        inbox.put(task)


def _prepare(job: Job) -> Failure | None:
    if job.prepare is not None:
        try:
            job.prepare(job.number)
        except Exception as error:
            return Failure.of(error, job.number)
    return None


def _seed_all(seed: int) -> None:
    lazyt.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))


class _Packer(pickle.Pickler):
    """Pickles a slice of a tensor without the rest of its memory: a sample without the dataset."""

    def reducer_override(self, value: Any) -> Any:
        """How to pickle ``value`` where that is another way than its own."""
        if type(value) is lazyt.Tensor and not value.__dict__:
            own = value.detach()
            if own.untyped_storage().nbytes() > own.nbytes:
                copied = own.clone().realize().requires_grad_(value.requires_grad)
                return copied.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return NotImplemented


def _packed(answer: Any) -> bytes:
    file = io.BytesIO()
    _Packer(file, protocol=pickle.HIGHEST_PROTOCOL).dump(answer)
    return file.getvalue()


def _send(results: Connection, number: int, answer: Any, worker: int) -> bool:
    """Whether somebody still listens."""
    try:
        packed = _packed((number, answer))
    except Exception as error:
        packed = pickle.dumps((number, Failure.of(error, worker)))
    try:
        results.send_bytes(packed)
    except OSError:
        return False
    return True


_GRACE = 2.0  # seconds for a worker to end by itself


@dataclass
class _Worker:
    process: BaseProcess
    tasks: Connection
    results: Connection


class WorkerPool:
    """The worker processes of a loader.

    Args:
        jobs: what each one does.
        seed: of the first; the others count on from it.
        context: how processes are started, as ``multiprocessing.get_context`` has it.
    """

    def __init__(self, jobs: list[Job], seed: int, context: Any) -> None:
        import multiprocessing

        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.workers: list[_Worker] = []
        self._owner = os.getpid()
        for job in jobs:
            theirs, tasks = context.Pipe(duplex=False)
            results, answers = context.Pipe(duplex=False)
            arguments = (job, theirs, answers, seed + job.number)
            process = context.Process(target=work, args=arguments, daemon=True)
            process.start()
            theirs.close()
            answers.close()
            self.workers.append(_Worker(process, tasks, results))

    def close(self, idle: bool = False) -> None:
        """End all workers: at once, or after their last task when they are ``idle``.

        A process that was forked later has this pool, too, but not a say in it.
        """
        if os.getpid() != self._owner:
            self.workers = []
        for worker in self.workers:
            if not idle:
                worker.process.terminate()
            else:
                send(worker, None)
        for worker in self.workers:
            worker.process.join(_GRACE)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.tasks.close()
            worker.results.close()
        self.workers = []

    def __del__(self) -> None:
        if self.workers:
            self.close()


def send(worker: _Worker, task: Any) -> bool:
    """Whether the worker could be told; one that died is noticed when its batch is waited for."""
    try:
        worker.tasks.send(task)
    except OSError:
        return False
    return True


class ParallelBatches(Batches):
    """One pass over a dataset by worker processes; an iterator.

    Args:
        pool: the workers.
        samples: what each batch consists of.
        ahead: batches per worker that are begun before the loop takes them.
        timeout: seconds to wait for a batch, 0 for ever.
        keep: whether the pool goes on living afterwards.
        loader: what iterates; it knows the number of batches.
        in_order: whether batches come in the order of ``samples``, or as they are ready.

    Raises, while iterating, what a worker raised, or LazytError (a RuntimeError) for one that died
    or took too long.
    """

    def __init__(
        self,
        pool: WorkerPool,
        samples: Iterable[Any],
        ahead: int,
        timeout: float,
        keep: bool,
        in_order: bool,
        loader: Sized,
    ) -> None:
        self._in_order, self._loader = in_order, loader
        self._pool, self._samples = pool, iter(samples)
        self._timeout, self._keep = timeout, keep
        self._ready: dict[int, Any] = {}
        self._begun: dict[int, _Worker] = {}
        self._next = 0
        self._numbers = itertools.count()
        self._through: set[int] = set()
        self._turns = itertools.cycle(pool.workers)
        self._open = True
        for worker in pool.workers:
            send(worker, (-1, None))
        for _ in range(ahead * len(pool.workers)):
            self._begin()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        while self._open:
            if self._ready and not self._in_order:
                self._next = next(iter(self._ready))
            if self._next in self._ready:
                value = self._ready.pop(self._next)
                self._next += 1
                self._begin()
                if isinstance(value, Failure):
                    value.raise_again()  # whoever wants to go on with the next batch may
                if not isinstance(value, End):
                    return value
            elif self._next in self._begun or (self._begun and not self._in_order):
                self._receive()
            else:
                self.close()
        raise StopIteration

    def _begin(self) -> None:
        """Give the next task to the worker whose turn it is."""
        workers = self._pool.workers
        if len(self._through) == len(workers):
            return
        task = next(self._samples, None)
        if task is None:
            return
        if self._in_order:
            worker = next(self._turns)
            while id(worker) in self._through:
                worker = next(self._turns)
        else:  # whoever has least to do
            busy = list(map(id, self._begun.values()))
            free = [worker for worker in workers if id(worker) not in self._through]
            worker = min(free, key=lambda worker: busy.count(id(worker)))
        number = next(self._numbers)
        self._begun[number] = worker
        send(worker, (number, task))

    def _receive(self) -> None:
        """Wait for any worker's answer."""
        from multiprocessing.connection import wait

        workers = {worker.results: worker for worker in self._pool.workers}
        ready = wait(list(workers), self._timeout or None)
        if not ready:
            self._fail()
            raise LazytError(f"DataLoader timed out after {self._timeout:g} seconds")
        for connection in ready:
            worker = workers[connection]  # type: ignore[index]
            try:
                number, value = pickle.loads(worker.results.recv_bytes())
            except (EOFError, OSError):
                self._report_death(worker)
            if number not in self._begun:  # of an epoch that was given up
                continue
            del self._begun[number]
            self._ready[number] = value
            if isinstance(value, End):
                self._through.add(id(worker))

    def _report_death(self, worker: _Worker) -> None:
        worker.process.join(_GRACE)
        pid, code = worker.process.pid, worker.process.exitcode
        self._fail()
        if code is not None and code < 0:
            name = signal.strsignal(-code)
            raise LazytError(f"DataLoader worker (pid {pid}) is killed by signal: {name}.")
        raise LazytError(
            f"DataLoader worker (pid(s) {pid}) exited unexpectedly with exit code {code}."
        )

    def _fail(self) -> None:
        self._open = False
        self._pool.close()

    def close(self) -> None:
        """End the pass; the workers end with it unless they are kept."""
        if not self._open:
            return
        self._open = False
        if not self._keep:
            self._pool.close(idle=not self._begun)
            return
        deadline = time.monotonic() + _GRACE
        while self._begun and time.monotonic() < deadline:  # what was begun for this pass
            self._receive()
        if self._begun:
            self._pool.close()

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()
