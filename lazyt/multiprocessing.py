"""Python's ``multiprocessing``, with ``spawn`` as in PyTorch.

Tensors go to other processes by value, those after ``share_memory_()`` by their memory, which all
processes read and write then.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing import connection
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence

__all__ = [
    *multiprocessing.__all__, "ProcessContext", "ProcessExitedException", "ProcessRaisedException",
    "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy",
    "spawn", "start_processes",
]  # fmt: skip

_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """Names that ``set_sharing_strategy`` takes."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """The name that was set."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Remembers the name; memory goes to other processes by descriptors of files. Raises
    AssertionError for names that there are not."""
    global _strategy
    assert new_strategy in get_all_sharing_strategies()
    _strategy = new_strategy


class ProcessRaisedException(Exception):
    """A process ended with an exception, whose text this holds."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid


class ProcessExitedException(Exception):
    """A process ended with an exit code other than 0, or by a signal."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid
        self.exit_code = exit_code


def _work(function: Callable[..., Any], index: int, args: tuple[Any, ...], said: Any) -> None:
    try:
        function(index, *args)
    except KeyboardInterrupt:
        pass  # the parent process gets it, too, and says so
    except Exception:
        said.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that ``start_processes`` has started."""

    def __init__(self, processes: list[Any], error_queues: list[Any]) -> None:
        self.processes, self.error_queues = processes, error_queues
        self._left: dict[Any, int] = {
            process.sentinel: index for index, process in enumerate(processes)
        }

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits for the processes, ``timeout`` seconds at most; whether all are done. When one
        fails, ends the others, raises ProcessRaisedException or ProcessExitedException."""
        while self._left:
            ready = connection.wait(list(self._left), timeout)
            if not ready:
                return False
            for index in [self._left.pop(sentinel) for sentinel in ready]:
                self.processes[index].join()
                if self.processes[index].exitcode:
                    self._fail(index)
        return True

    def _fail(self, index: int) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()
        failed = self.processes[index]
        if not self.error_queues[index].empty():
            text = f"\n\n-- Process {index} terminated with the following error:\n"
            text += self.error_queues[index].get()
            raise ProcessRaisedException(text, index, failed.pid)
        text = f"process {index} terminated with exit code {failed.exitcode}"
        raise ProcessExitedException(text, index, failed.pid, failed.exitcode)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Runs ``fn(i, *args)`` in ``nprocs`` processes; with ``join`` waits for them. Raises as
    ``ProcessContext.join`` does."""
    place: Any = multiprocessing.get_context(start_method)
    processes, queues = [], []
    for index in range(nprocs):
        said = place.SimpleQueue()
        process = place.Process(target=_work, args=(fn, index, args, said), daemon=daemon)
        process.start()
        processes.append(process)
        queues.append(said)
    context = ProcessContext(processes, queues)
    if not join:
        return context
    context.join()
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """``start_processes`` with processes that start anew."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


_explain_absence(__name__)
