"""What runs in a loader's worker processes, and what they send when something goes wrong."""

from __future__ import annotations

import io
import os
import pickle
import queue
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import lazyt
from lazyt.config import config
from lazyt.errors import LazytError, warn
from lazyt.utils.data.fetch import Fetcher

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

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
