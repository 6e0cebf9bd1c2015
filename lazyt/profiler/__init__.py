"""``torch.profiler``'s names: profiles with a schedule, and files for viewers.

    with lazyt.profiler.profile(profile_memory=True, with_flops=True, with_stack=True) as prof:
        train_step()
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
    prof.export_chrome_trace("trace.json")       # for https://ui.perfetto.dev
    prof.export_memory_timeline("memory.html")   # or .png, or .json

What is recorded, and what a row means, says ``lazyt.autograd.profiler``.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from lazyt.autograd.profiler import EventList, Events, record_function
from lazyt.autograd.profiler import profile as _Profile
from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import LazytError
from lazyt.profiler.timeline import ProfilerAction, ProfilerActivity, schedule, write_timeline

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function",
    "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip

_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """What can be recorded: the CPU."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is there: lazyt does without it."""
    return False


def _always(_: int) -> ProfilerAction:
    return ProfilerAction.RECORD


class profile:
    """Records what took time, in a ``with`` block or between ``start()`` and ``stop()``.

    Args:
        activities: what to record; the CPU is always recorded.
        schedule: which steps to record, by the number of ``step()`` calls; all by default.
        on_trace_ready: called with this profile whenever a part that was to be recorded is over.
        record_shapes, profile_memory, with_stack, with_flops: as for
            ``lazyt.autograd.profiler.profile``.

    The other settings of PyTorch's are taken and change nothing.

    Attributes:
        step_num: how often ``step()`` was called.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        **_: Any,
    ) -> None:
        self.activities = set(activities) if activities is not None else supported_activities()
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.schedule = schedule or _always
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops = with_stack, with_flops
        self.record_steps = schedule is not None
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.profiler: _Profile | None = None
        self._running = False
        self._warming: _Profile | None = None
        self._step: record_function | None = None
        self._metadata: dict[str, Any] = {}

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin, as the schedule has it for step 0."""
        self.current_action = self.schedule(self.step_num)
        self._move(ProfilerAction.NONE, self.current_action)
        self._open_step()

    def stop(self) -> None:
        """End; hands over what was being recorded."""
        self._close_step()
        if self._running:
            self._finish()
            self._hand_over()
        if self._warming is not None:
            self._warming.__exit__()
            self._warming = None
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """The next step of the schedule begins."""
        self._close_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._move(before, self.current_action)
        self._open_step()

    def _open_step(self) -> None:
        if self.record_steps and self._running:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _close_step(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _move(self, before: ProfilerAction, after: ProfilerAction) -> None:
        over = before is ProfilerAction.RECORD_AND_SAVE
        if self._running and (over or after not in _RECORDS):
            self._finish()
            if over:
                self._hand_over()
        warm = after is ProfilerAction.WARMUP
        if self._warming is not None and not warm:
            self._warming.__exit__()
            self._warming = None
        if warm and self._warming is None:  # plans with clocks are compiled now, not later
            self._warming = _Profile()
            self._warming.__enter__()
        if after in _RECORDS and not self._running:
            self.profiler = _Profile(
                record_shapes=self.record_shapes,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_flops=self.with_flops,
            )
            self.profiler.__enter__()
            self._running = True

    def _finish(self) -> None:
        assert self.profiler is not None
        self.profiler.__exit__()
        self._running = False

    def _hand_over(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _recorded(self, purpose: str) -> _Profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {purpose}")
        return self.profiler

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """One row per name of what was recorded last; ``table()`` prints them. Raises
        AssertionError where nothing was recorded, RuntimeError while it still is."""
        recorded = self._recorded("getting key averages")
        return recorded.key_averages(group_by_input_shape, group_by_stack_n)

    def events(self) -> Events:
        """Everything that was recorded last, in order of time; raises as ``key_averages``."""
        return self._recorded("accessing events").events()

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for Perfetto (https://ui.perfetto.dev) or ``chrome://tracing``, compressed
        where the name ends in ``.gz``. Raises as ``key_averages``, and OSError."""
        recorded = self._recorded("exporting chrome trace")
        recorded.export_chrome_trace(path, self._metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write microseconds by source line, for flame graphs; needs ``with_stack``, else raises
        LazytError. Raises ValueError for another metric."""
        self._recorded("exporting stacks").export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write how much memory was in use at which time, as the name's ending says: ``.html``, a
        page that needs nothing else, ``.png`` (with matplotlib installed), or ``.json`` and
        ``.json.gz``, lists of microseconds and bytes.

        Raises LazytError without ``profile_memory``, ValueError for other endings and for other
        devices than the CPU, ImportError for ``.png`` without matplotlib.
        """
        recorded = self._recorded("exporting memory timeline")
        if not self.profile_memory:
            raise LazytError("profile_memory=True is needed for memory timelines")
        if device not in (None, "cpu"):
            raise ValueError(f"memory of {device!r} is not recorded, that of 'cpu' is")
        ranges = [event for event in recorded.events() if event.kind in ("range", "plan")]
        write_timeline(path, recorded.memory_samples(), ranges, recorded.origin)

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace file, in quotes as PyTorch does."""
        self._metadata[key] = '"' + value.replace('"', '\\"') + '"'

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a value, given as JSON, into the trace file. Raises ValueError for other texts."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:
    """For ``on_trace_ready``: writes every trace into a folder, as
    ``<worker>.<nanoseconds>.pt.trace.json``. The worker is called after host and process unless
    ``worker_name`` is given. Raises RuntimeError where the folder cannot be made."""

    def handle(prof: profile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handle


_explain_absence(__name__)
