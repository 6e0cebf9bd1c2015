"""Loading and running plans on CUDA devices: ``runtime/cpu/execute.py`` for programs in CUDA C.

Kernels are compiled as one program and cached on disk under text, compiler and architecture. From
its second run on a plan is launched as one graph, whose launches follow the memory it runs on.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.config import config
from lazyt.errors import InternalError
from lazyt.ir.program import Grid, KernelSource, Program
from lazyt.runtime import cache, devices, events
from lazyt.runtime.cpython import forks, interrupts
from lazyt.runtime.cuda import nvrtc
from lazyt.runtime.cuda.device import CudaDevice
from lazyt.runtime.cuda.driver import CudaError, DeviceLostError, Driver, Image
from lazyt.runtime.cuda.memory import DeviceBuffer

#: Graphs that one plan keeps, and launches from which on a graph is worth it.
_MOST_GRAPHS, _FEWEST_LAUNCHES = 4, 2
#: Characters of kernels from which on another compiler is started.
_PART_CHARS = 12_000
#: Launches of a plan that an error names.
_MOST_TITLES = 8


#: Where buffers and arena of a run are.
Places = tuple[int, ...]
#: A function, how it is launched, its slots, and the number of the plan's launch it is part of.
_Step = tuple[Any, Grid, tuple[int, ...], int]


def _end_graphs(driver: Driver, graphs: dict[Places, Any]) -> None:
    """Give the driver's graphs back; one that still runs ends first. A device that was lost, or a
    process that is at its end, has no graphs left."""
    for graph in graphs.values():
        with contextlib.suppress(CudaError):
            driver.end_graph(graph)
    graphs.clear()


class CudaExecutable:
    """A Program that is loaded on a device.

    Attributes:
        program: what it was made from.
        device: where it runs.
        facts: what the compiler said about each function.
    """

    def __init__(
        self, program: Program, device: CudaDevice, functions: dict[str, Any],
        facts: dict[str, dict[str, int]],
    ) -> None:  # fmt: skip
        self.program = program
        self.device = device
        self.facts = facts
        grids = {kernel.name: kernel.grids for kernel in program.kernels}
        self._steps: list[_Step] = [
            (functions[grid.function], grid, launch.slots, number)
            for number, launch in enumerate(program.launches)
            for grid in grids[launch.kernel]
        ]
        self._lock = forks.renewed(threading.Lock())
        self._counts = 0, 0
        self._sizes: list[int] = []
        self._layout: list[tuple[int, int]] = []
        self._donated = frozenset(number for number, _ in program.donated)
        self._lay_out(0, 0)
        self._checked: Places = ()
        self._graphs: dict[Places, Any] = {}
        weakref.finalize(self, _end_graphs, device.driver, self._graphs).atexit = False
        self._seen: dict[Places, None] = {}
        self._in_graphs = len(self._steps) >= _FEWEST_LAUNCHES

    def run(self, inputs: Sequence[DeviceBuffer], outputs: Sequence[DeviceBuffer]) -> None:
        """Launch everything; returns before it is done.

        Raises OutOfMemoryError for the arena, and CudaError, with the kernel's name and the line it
        comes from, for what the device reports at once.
        """
        device = self.device
        device.check()
        if self._counts != (len(inputs), len(outputs)):
            self._lay_out(len(inputs), len(outputs))
        stream, buffers = device.stream, [*inputs, *outputs]
        for buffer, nbytes in zip(buffers, self._sizes, strict=True):
            if buffer.nbytes < nbytes or buffer.device is not device:
                raise InternalError("cuda_execute", f"{buffer!r} is no memory of {nbytes} bytes")
            if buffer.stream is not stream:
                device.use(buffer)
        places = [buffer.ptr for buffer in buffers]
        arena = device.allocate(self.program.arena_bytes)  # lives until all is launched
        places.append(arena.ptr)
        self._launch(tuple(places))

    def run_at(self, places: Places) -> None:
        """``run`` on the memory of inputs and outputs at these addresses, which is large enough and
        which no other stream uses."""
        device = self.device
        device.check()
        arena = device.allocate(self.program.arena_bytes)  # lives until all is launched
        self._launch((*places, arena.ptr))

    def _lay_out(self, inputs: int, outputs: int) -> None:
        """For each slot the place that it is in, and how many bytes behind its beginning: inputs
        are the first places, then outputs, then the arena."""
        starts = {"input": 0, "output": inputs, "arena": inputs + outputs}
        sizes, layout = [0] * (inputs + outputs + 1), []
        for slot in self.program.slots:
            is_arena = slot.kind == "arena"
            place = starts[slot.kind] + (0 if is_arena else slot.index)
            layout.append((place, slot.offset if is_arena else 0))
            if place < len(sizes):
                sizes[place] = max(sizes[place], slot.nbytes)
        self._sizes, self._layout = sizes[:-1], layout
        self._counts = inputs, outputs  # last: other threads read on when it fits

    def _pointers(self, places: Places) -> list[int]:
        return [places[place] + offset for place, offset in self._layout]

    def _check(self, places: Places) -> None:
        """Raises InternalError for a result in memory that another place of the plan has, too:
        some kernel might read what another has written over. The same goes for an input that is
        donated: results that take it over have no place of their own."""
        inputs, outputs = self._counts
        alike: dict[int, list[int]] = {}
        for number, place in enumerate(places[: inputs + outputs]):
            if place:
                alike.setdefault(place, []).append(number)
        for numbers in alike.values() if len(alike) < inputs + outputs else ():
            given = [n for n in numbers if n < inputs]
            results = [n - inputs for n in numbers if n >= inputs]
            several = len(numbers) > 1
            if several and (results or not self._donated.isdisjoint(given)):
                raise InternalError(
                    "cuda_execute", f"inputs {given} and results {results} have the same memory"
                )
        self._checked = places

    def _launch(self, places: Places) -> None:
        if places != self._checked and places not in self._seen:
            self._check(places)
        self.device.recent.append(self._titles)
        if events.watching or os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
            self._launch_one_by_one(self._pointers(places))
            return
        graph = None
        if self._in_graphs:
            with self._lock:  # a graph must not be changed by two threads
                graph = self._graph_for(places)
                if graph is not None:
                    driver, stream = self.device.driver, self.device.stream
                    self._do(self._as_one, driver.launch_graph, graph, stream)
        if graph is None:
            self._launch_steps(self._pointers(places))

    def _graph_for(self, places: Places) -> Any:
        """The plan as a graph on this memory; None at the first run, which may be the only one.

        Memory that comes again gets a graph of its own, up to _MOST_GRAPHS. Else the graph that
        was not used for longest gets the memory.
        """
        graphs = self._graphs
        found = graphs.pop(places, None)
        if found is None and self._seen:
            room = len(graphs) < _MOST_GRAPHS
            if not graphs or (room and places in self._seen):
                at = self._pointers(places)
                launches = [(f, grid, [at[s] for s in slots]) for f, grid, slots, _ in self._steps]
                found = self._do(self._as_one, self.device.driver.new_graph, launches)
                self._in_graphs = found is not None
            else:
                before = next(iter(graphs))
                found = graphs.pop(before)
                try:
                    self._change(found, before, places)
                except BaseException:
                    _end_graphs(self.device.driver, {before: found})
                    raise
        if found is not None:
            graphs[places] = found  # the last one of the dict was used last
        self._seen[places] = None
        if len(self._seen) > 4 * _MOST_GRAPHS:
            self._seen.pop(next(iter(self._seen)))
        return found

    def _change(self, graph: Any, before: Places, places: Places) -> None:
        """Give the launches of a graph other memory where it is other memory."""
        change, pointers = self.device.driver.change_graph, self._pointers(places)
        moved = {n for n, pair in enumerate(zip(before, places, strict=True)) if len({*pair}) > 1}
        for number, (_, grid, slots, launch) in enumerate(self._steps):
            if any(self._layout[slot][0] in moved for slot in slots):
                title = functools.partial(self._title, grid, launch)
                self._do(title, change, graph, number, [pointers[s] for s in slots])

    def _launch_steps(self, pointers: list[int]) -> None:
        """One by one; all of them where some write over inputs, whatever signals come."""
        with interrupts.deferred() if self._donated else contextlib.nullcontext():
            for step in self._steps:
                self._launch_step(step, pointers)

    def _launch_step(self, step: _Step, pointers: list[int]) -> None:
        function, grid, slots, number = step
        arguments = [pointers[s] for s in slots]
        launch, stream = self.device.driver.launch, self.device.stream
        self._do(lambda: self._title(grid, number), launch, function, grid, arguments, stream)

    def _launch_one_by_one(self, pointers: list[int]) -> None:
        """Waits for every launch; tells ``events.watching`` how long each took."""
        device, begin = self.device, time.monotonic()
        self._do("earlier work", device.driver.wait_stream, device.stream)
        thread, in_use = threading.get_ident(), device.pool.allocated.now
        plan: dict[str, object] = {"kind": "plan", "kernels": len(self.program.launches)}
        found: list[events.Timing] = []
        started = time.monotonic()
        for step in self._steps:
            begin = time.monotonic()
            self._launch_step(step, pointers)
            title = functools.partial(self._title, step[1], step[3])
            device.recent.clear()  # all that came before is done
            device.recent.append(title)
            self._do(title, device.driver.wait_stream, device.stream)
            note = self.program.notes[step[3]] if self.program.notes else {}
            found.append(events.Timing(note, begin, time.monotonic(), in_use, 0, thread))
        found.insert(0, events.Timing(plan, started, time.monotonic(), in_use, 0, thread))
        for timings in events.watching:
            timings += found

    def _do(self, title: str | Callable[[], str], function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except CudaError as error:
            text = title if isinstance(title, str) else title()
            if isinstance(error, DeviceLostError):
                raise self.device.blame(error, f"reported at {text}") from None
            raise CudaError(f"{error} ({text})", error.code) from None

    def _as_one(self) -> str:
        """The plan as a graph for people."""
        return f"one graph of {self._titles()}"

    def _titles(self) -> str:
        """All launches for people."""
        titles = [self._title(grid, number) for _, grid, _, number in self._steps[:_MOST_TITLES]]
        more = len(self._steps) - len(titles)
        return ", ".join(titles) + (f" and {more} more" if more > 0 else "")

    def _title(self, grid: Grid, number: int) -> str:
        """A launch for people: its kernel, and the line of the program that it comes from."""
        notes = self.program.notes[number] if number < len(self.program.notes) else {}
        sources = notes.get("sources") or ()
        where = (
            f", from {next(iter(sources))}"
            if isinstance(sources, (list, tuple)) and sources
            else ""
        )
        return f"kernel {grid.function}, {grid.blocks} blocks of {grid.threads} threads{where}"


_loaded: dict[tuple[str, str], CudaExecutable] = {}
_lock = forks.guarded(threading.RLock())


def load(
    program: Program, device: CudaDevice, helpers: str, reason: str = "", where: str = ""
) -> CudaExecutable:
    """The executable of ``program``: from this process, else the disk cache, else compiled.

    Args:
        program: with target ``cuda``.
        helpers: the text of the ``lz_*`` helpers as the device's driver compiles them.
        reason: why it is needed, for ``why_compiled()``.
        where: the user's ``file:line``.

    Raises CompileError, and what the driver raises.
    """
    if program.target != "cuda":
        raise InternalError("cuda_execute", f"a program for target {program.target!r}")
    device.check()
    key = device.place, program.fingerprint()
    with _lock:
        found = _loaded.get(key)
        if found is None or found.device is not device:
            functions: dict[str, Any] = {}
            facts: dict[str, dict[str, int]] = {}
            shared = {g.function: g.shared_bytes for k in program.kernels for g in k.grids}
            for names, image in _images(program, device, helpers, (reason, where)):
                needs = {name: shared[name] for name in names}
                functions |= device.call(device.driver.load, image.data, needs)
                facts |= image.facts
            found = _loaded[key] = CudaExecutable(program, device, functions, facts)
    return found


def forget() -> None:
    """Forget all loaded programs."""
    _loaded.clear()


def source_texts(program: Program, helpers: str) -> list[tuple[list[str], str]]:
    """The complete texts that are compiled, with the names of their functions; large programs are
    several, so that compilers can work side by side."""
    sections = [text for _, text in program.sections]
    parts: list[list[KernelSource]] = []
    room = 0
    for kernel in program.kernels:
        if len(kernel.text) > room:
            parts.append([])
            room = _PART_CHARS
        parts[-1].append(kernel)
        room -= len(kernel.text)
    return [
        (
            [grid.function for kernel in part for grid in kernel.grids],
            "\n".join([helpers, *sections, *(k.text for k in part)]) + "\n",
        )
        for part in parts
    ]


def _images(
    program: Program, device: CudaDevice, helpers: str, why: tuple[str, str]
) -> list[tuple[list[str], Image]]:
    texts = source_texts(program, helpers)
    if len(texts) == 1:
        return [(texts[0][0], _image(device, *texts[0], len(program.kernels), why))]
    from concurrent.futures import ThreadPoolExecutor  # not for the start of every program

    count = len(program.kernels) // len(texts)
    with ThreadPoolExecutor(min(len(texts), devices.core_count())) as workers:
        made = [workers.submit(_image, device, *text, count, why) for text in texts]
        return [(names, job.result()) for (names, _), job in zip(texts, made, strict=True)]


def _image(
    device: CudaDevice, names: Sequence[str], source: str, count: int, why: tuple[str, str]
) -> Image:
    key = cache.hash_text(str(cache.FORMAT), device.driver.identity(), source, repr(names))
    image = _cached(key)
    if image is None:
        with cache.only_once(key):
            image = _cached(key)  # another process may have built it while this one waited
            if image is None:
                image = _built(device, source, names, count, key, why)
    return image


def _cached(key: str) -> Image | None:
    facts = cache.get_text("cuda", key)
    binary = None if facts is None else cache.get_binary(key)
    if facts is None or binary is None:
        return None
    with binary:
        try:
            image = Image(binary.data, json.loads(facts))
        except ValueError:  # of another version: it is built again
            return None
    events.record("load", "found in the disk cache", key=key)
    return image


def _built(
    device: CudaDevice, source: str, names: Sequence[str], count: int, key: str,
    why: tuple[str, str],
) -> Image:  # fmt: skip
    begun = time.perf_counter()
    image = device.driver.compile(source, names)
    seconds = round(time.perf_counter() - begun, 4)
    events.record(
        "compile",
        why[0] or "not in the disk cache",
        why[1],
        kernels=count,
        seconds=seconds,
        key=key,
    )
    if config.dump is not None and device.driver.helpers == "cuda":
        os.makedirs(config.dump, exist_ok=True)
        with open(os.path.join(config.dump, f"{key[:16]}.sass"), "w", encoding="utf-8") as file:
            file.write(nvrtc.text_of(image.data))
    cache.put_text("cuda", key, json.dumps(image.facts))
    cache.put_binary(key, image.data, source, {"compiler": device.driver.identity()})
    return image
