"""CUDA graphs: work that is captured in a block and replayed on the same tensors.

``lazyt.jit`` does the same for functions, without tensors that have to stay in place, and every
plan is launched as a graph anyway. These are for programs that capture by themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lazyt import nn
from lazyt.cuda.streams import Stream, StreamContext
from lazyt.errors import DeviceError
from lazyt.handle.cuda_devices import CudaDevice, launch_pending, wanted_device
from lazyt.handle.hooks import capturing
from lazyt.tracing.jit import jit
from lazyt.tracing.recorded_work import RecordedWork, WorkRecorder

__all__ = [
    "CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing",
    "make_graphed_callables",
]  # fmt: skip


class CUDAGraph:
    """Work that is captured once and replayed often.

    Capturing does nothing yet: tensors that the work changes keep their values until the first
    ``replay``. Tensors that are made in the block and still exist after it get new values from
    every replay. What the work reads are the tensors it read when it was captured, whatever is in
    them then: ``static_input.copy_(batch)`` before ``replay()`` gives it another batch.

    Args:
        keep_graph: noted, but without effect.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self.keep_graph = keep_graph
        self._device: CudaDevice | None = None
        self._recorder: WorkRecorder | None = None
        self._work: RecordedWork | None = None

    def capture_begin(
        self,
        pool: Any = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        """Write down what this thread does on the current device from now on.

        Raises DeviceError where there is no GPU, and inside of another capture.
        """
        if self._recorder is not None or capturing() is not None:
            raise DeviceError("a capture is under way already")
        self._device = wanted_device()
        launch_pending(self._device)
        self._work, self._recorder = None, WorkRecorder()
        self._recorder.begin()

    def capture_end(self) -> None:
        """Stop. Raises DeviceError for what cannot be replayed: library calls, copies between
        devices."""
        if self._recorder is None or self._device is None:
            raise DeviceError("capture_begin() was not called")
        self._recorder.end()
        try:
            self._work = RecordedWork(self._recorder, self._device.place)
        finally:
            self._forget()

    def _forget(self) -> None:
        """End the capture, if one is under way: what it wrote is not done."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.end()
            recorder.undo()

    def instantiate(self) -> None:
        """Nothing to do: the work is ready when its capture ends."""

    def replay(self) -> None:
        """Do the work that was captured. Raises DeviceError where nothing was."""
        if self._work is None:
            raise DeviceError("Called CUDAGraph::replay without a preceding successful capture.")
        self._work.replay()

    def reset(self) -> None:
        """Forget the work."""
        self._work = None

    def pool(self) -> tuple[int, int]:
        """A token; all graphs of a device share its memory."""
        return graph_pool_handle()

    def enable_debug_mode(self) -> None:
        """Nothing to do: ``lazyt.explain`` shows kernels."""

    def debug_dump(self, debug_path: str) -> None:
        """Raises DeviceError, which names what shows kernels."""
        raise DeviceError("graphs have no dump; LAZYT_DUMP=folder writes the kernels of plans")

    def raw_cuda_graph(self) -> int:
        """Raises DeviceError: the driver's graph belongs to a plan, and changes with its memory."""
        raise DeviceError("a CUDAGraph of lazyt is a plan, whose driver's graphs are its own")

    raw_cuda_graph_exec = raw_cuda_graph


class graph:
    """Captures the work of a ``with`` block into ``cuda_graph``, on a stream of its own.

    Args:
        cuda_graph: what can be replayed afterwards.
        pool, capture_error_mode, enable_annotations, check_input_liveness: without effect.
        stream: where the work is captured; the current stream by default.
    """

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        self.cuda_graph = cuda_graph
        self._context = StreamContext(stream)

    def __enter__(self) -> None:
        self._context.__enter__()
        try:
            self.cuda_graph.capture_begin()
        except BaseException:
            self._context.__exit__()
            raise

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            if kind is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph._forget()
        finally:
            self._context.__exit__()


def is_current_stream_capturing() -> bool:
    """Whether this thread is inside of a capture."""
    return isinstance(capturing(), WorkRecorder)


def graph_pool_handle() -> tuple[int, int]:
    """A token that ``graph`` takes: all graphs of a device share its memory."""
    return (0, 1)


def make_graphed_callables(
    callables: Any,
    sample_args: Sequence[Any],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Functions, or modules, whose forward pass is captured and replayed; gradients go through.

    Args:
        callables: one function or module, or a tuple of them. A module is changed and returned.
        sample_args: arguments as they will be called with; a tuple of tuples for several.
        num_warmup_iters, allow_unused_input, pool: without effect.

    The calls are ``lazyt.jit``'s, which needs no tensors that stay in place: it sees the arguments
    of every call, and captures anew where their shapes differ.
    """
    if isinstance(callables, tuple):
        pairs = zip(callables, sample_args, strict=True)
        return tuple(make_graphed_callables(one, args) for one, args in pairs)
    if isinstance(callables, nn.Module):
        forward, quick = callables.forward, jit(callables.forward)
        mode = callables.training
        module = callables

        @functools.wraps(forward)
        def inside(*args: Any, **kwargs: Any) -> Any:
            run: Callable[..., Any] = quick if module.training == mode else forward
            return run(*args, **kwargs)

        object.__setattr__(module, "forward", inside)
        return module
    return jit(callables)
