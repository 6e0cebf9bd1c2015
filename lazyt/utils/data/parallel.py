"""The main process's side of worker processes: hands out tasks, puts batches in order.

Every worker has two pipes of its own. One that dies, raises or takes too long is noticed while
waiting for a batch, and ends the iteration with an exception.
"""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import time
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazyt.errors import LazytError
from lazyt.utils.data.fetch import Batches
from lazyt.utils.data.worker import End, Failure, Job, work

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

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
        ahead: batches per worker that are begun before they are asked for.
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
