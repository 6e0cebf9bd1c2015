"""One process that runs one workload in one framework, round by round, as ``session`` asks.

Reads a JSON object a line and answers each with one. The first names the
workload; the framework checks its result against the reference's file and says how long the first
call took. Every further one asks for samples of an already warm computation. The framework
``reference`` writes that file (``exact`` does for networks), and ``machine`` measures what the
machine can do at best.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from lazyt.bench.frameworks import FRAMEWORKS, Framework, tensors_of
from lazyt.bench.loading import load_for_peer, place_in_loaded
from lazyt.bench.names import NotOffered, reference_names
from lazyt.bench.networks.building import Reference
from lazyt.bench.problems import RULES, Array, Problem, Workload, no_function, workloads

#: Why this process could not load a user's file; ``launch`` says so.
load_error = ""
WARM_CALLS, WARM_SECONDS = 4, 2.0
#: Calls longer than this need no warm one at the beginning of a turn.
LONG_SECONDS = 0.2
#: Calls shorter than this are timed several at once.
SAMPLE_SECONDS = 2e-3
#: Sets of inputs that calls take in turn, and the bytes up to which each is checked.
SETS, CHECKED_BYTES = 2, 1 << 24
#: Checked steps of training.
STEPS = 3
_WHOLE, _ENDS, _BETWEEN = 1 << 17, 1 << 12, 1 << 16


def sampled(array: Array) -> Array:
    """The elements that are compared, in float64: all, or of large arrays 2^16 all over and the
    first and last 2^12."""
    flat = np.asarray(array).reshape(-1)
    if flat.size > _WHOLE:
        stride = flat.size // _BETWEEN | 1
        flat = np.concatenate([flat[:_ENDS], flat[::stride], flat[-_ENDS:]])
    return flat.astype(np.float64)


def error_of(got: list[Array], want: list[Array]) -> float:
    """The largest error of any result's elements, relative to the result's largest value."""
    if len(got) != len(want):
        raise ValueError(f"{len(got)} results instead of {len(want)}")
    worst = 0.0
    for found, exact in zip(got, want):
        flat = sampled(found)
        if flat.size != exact.size:
            raise ValueError(f"a result of {found.size} elements is not of the right size")
        with np.errstate(invalid="ignore"):
            difference = np.where(flat == exact, 0.0, np.abs(flat - exact))
        scale = np.abs(exact).max(initial=0.0)
        error = difference.max(initial=0.0) / (scale if scale > 0 else 1.0)
        worst = max(worst, math.inf if np.isnan(error) else float(error))
    return worst


def checked_sets(workload: Workload, quick: bool) -> int:
    """How many sets of inputs have a reference."""
    if workload.problem.training:
        return 1
    nbytes = sum(array.nbytes for array in workload.inputs(0, quick))
    return SETS if nbytes <= CHECKED_BYTES else 1


def input_sets(workload: Workload) -> int:
    """How many sets of inputs calls take in turn."""
    return 1 if workload.problem.training else SETS


def input_path(reference: Path, number: int, place: int) -> Path:
    """Where an input of a set is: making random numbers takes longer than reading them."""
    return reference.with_name(f"{reference.name}_{number}_{place}.npy")


def write_reference(workload: Workload, quick: bool, path: Path) -> dict[str, object]:
    """Writes the float64 results, and the inputs beside them; returns the bytes of inputs and
    outputs, and the operations."""
    problem, names = workload.problem, reference_names()
    model = Reference(problem, workload.dims(quick)) if problem.network is not None else None
    kept: dict[str, Array] = {}
    nbytes = 0
    for number in range(input_sets(workload)):
        arrays = workload.inputs(number, quick)
        for place, array in enumerate(arrays):
            np.save(input_path(path, number, place), array)
        if number >= checked_sets(workload, quick):
            continue
        wide = [_widened(array) for array in arrays]
        names.flops = 0.0
        if problem.training:
            found = _trained(workload, wide, names)
            kept.update({f"{number}_{step}_0": a for step, a in enumerate(found)})
            weights = arrays[problem.training.data :]
            state = 1 + RULES[problem.training.optimizer].state
            nbytes = sum(a.nbytes for a in arrays) + sum(a.nbytes for a in weights) * (
                2 * state - 1
            )
        else:
            results = _right_results(problem, model, names, wide)
            kept.update({f"{number}_0_{k}": sampled(a) for k, a in enumerate(results)})
            given = [int(size) for size in _itemsizes(workload.dtypes())]
            nbytes = sum(a.size * size for a, size in zip(arrays, given))
            nbytes += sum(int(np.asarray(a).size) * given[0] for a in results)
            if model is not None:
                nbytes, names.flops = nbytes + model.parameter_bytes(), model.flops
    with path.open("wb") as file:
        save: Any = np.savez  # its types forbid names that are not known beforehand
        save(file, **kept)
    flops = names.flops * (3 if problem.training else 1)
    dims = workload.dims(quick)
    if problem.nbytes is not None:
        nbytes = int(problem.nbytes(**dims))
    if problem.flops is not None:
        flops = float(problem.flops(**dims))
    return {"nbytes": nbytes, "flops": flops}


def _widened(array: Array) -> Array:
    kinds = {"f": np.float64, "b": np.bool_}
    return array.astype(kinds.get(array.dtype.kind, np.int64))


def _right_results(
    problem: Problem, model: Reference | None, names: Any, arrays: list[Array]
) -> list[Array]:
    """What a problem computes, in float64: of a network, by its model; else by NumPy where there is
    a function for it, else by lazyt's interpreter of graphs."""
    result: Any
    if model is not None:
        result = model(*arrays)
    elif problem.reference is not None:
        result = problem.reference(*arrays)
    elif problem.function is not no_function:
        result = problem.function(names, *arrays)
    elif "numpy" in problem.functions:
        result = problem.functions["numpy"](*arrays)
    else:
        from lazyt.bench.declare import interpreted

        result = interpreted(problem.functions["torch"], arrays)
    return [np.asarray(array) for array in tensors_of(result)]


def _itemsizes(dtypes: list[str]) -> list[int]:
    return [2 if dtype == "bfloat16" else np.dtype(dtype).itemsize for dtype in dtypes]


def _trained(workload: Workload, arrays: list[Array], names: Any) -> list[Array]:
    """What the first steps return, as far as it is known without gradients."""
    problem = workload.problem
    how = problem.training
    assert how is not None
    if how.losses is not None:
        problem.function(names, *arrays)
        return [np.asarray(loss) for loss in how.losses(arrays)]
    if not how.gradients:
        return [np.asarray(problem.function(names, *arrays))]
    rule = RULES[how.optimizer]
    slope, weight = arrays[0], arrays[how.data]
    state, found = [np.zeros_like(weight)] * rule.state, []
    for step in range(1, STEPS + 1):
        weight, state = rule.formula(names, weight, slope, state, step)
        found.append(sampled(weight))
    return found


def reset_peak() -> None:
    """Starts the count of the most memory anew, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def memory_now(name: str) -> int | None:
    """``VmRSS`` (memory now) or ``VmHWM`` (the most) in bytes, where the system tells."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    line = next((line for line in text.splitlines() if line.startswith(name)), "")
    return int(line.split()[1]) * 1024 if line else None


def peak_memory() -> int:
    """The most memory of this process, in bytes."""
    peak = memory_now("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit if peak is None else peak


class Job:
    """A workload in a framework."""

    def __init__(
        self, framework: Framework, workload: Workload, reference: Path, quick: bool = False
    ) -> None:
        self.framework, self.workload, self.reference = framework, workload, reference
        self.function = framework.function(workload.problem, workload.dims(quick))
        self.base = memory_now("VmRSS")
        self.sets = [
            [
                framework.tensor(np.load(input_path(reference, number, place)), dtype)
                for place, dtype in enumerate(workload.dtypes())
            ]
            for number in range(input_sets(workload))
        ]
        self.turn, self.repeats, self.seconds = 0, 1, 0.0
        self.function = framework.function(workload.problem, workload.dims(quick))
        self.call: Callable[[], Any] = lambda: None

    def _prepare(self) -> Callable[[], Any]:
        if self.workload.problem.training:
            return self.framework.training(self.workload.problem, self.sets[0])
        compute, sets = self.framework.prepare(self.function), self.sets

        def call() -> Any:
            # Another set each time: nobody may remember the result of the call before.
            chosen = sets[self.turn % len(sets)]
            self.turn += 1
            return compute(*chosen)

        return call

    def begin(self) -> dict[str, object]:
        """The first call, its check, and the warm-up."""
        begun = time.perf_counter()
        self.call = self._prepare()
        result = self.call()
        first = time.perf_counter() - begun
        want, places = self._wanted()
        error, history = 0.0, []
        for place in range(max(len(places), STEPS if self.workload.problem.training else 1)):
            got = self.framework.values(result if place == 0 else self.call())
            if place < len(places):
                error = max(error, error_of(got, want[places[place]]))
            history.append(float(got[0].reshape(-1)[0]))
        del result, want
        reset_peak()
        self._warm_up()
        problem = self.workload.problem
        kernels = None
        if not problem.training:
            kernels = self.framework.kernels(self.function, self.sets[0])
        return {
            "version": self.framework.version,
            "cold_first_s": first,
            "error": error,
            "correct": error <= problem.tolerance,
            "history": history if problem.training else [],
            "kernels": kernels and kernels[0],
            "operations": kernels and kernels[1],
            "note": self.framework.note(),
        }

    def _wanted(self) -> tuple[dict[str, list[Array]], list[str]]:
        """The right results by the place of a call, and these places in order."""
        want: dict[str, list[Array]] = {}
        with np.load(self.reference) as file:
            for name in sorted(file.files, key=lambda name: int(name.rsplit("_", 1)[1])):
                want.setdefault(name.rsplit("_", 1)[0], []).append(file[name].reshape(-1))
        return want, sorted(want)

    def check(self) -> dict[str, object]:
        """Whether calls still give the right results, after all that were timed. A step of
        training has another one each time, and none to compare with."""
        problem, error = self.workload.problem, 0.0
        if not problem.training:
            want, places = self._wanted()
            for _ in self.sets:
                number = self.turn % len(self.sets)
                got = self.framework.values(self.call())
                if f"{number}_0" in places:
                    error = max(error, error_of(got, want[f"{number}_0"]))
        return {"error": error, "correct": error <= problem.tolerance}

    def _warm_up(self) -> None:
        costs: list[float] = []
        while len(costs) < WARM_CALLS and sum(costs) < WARM_SECONDS:
            costs.append(self._timed())
        self.seconds = min(costs)
        self.repeats = max(1, round(SAMPLE_SECONDS / self.seconds))
        if self.repeats > 1:
            self._timed(self.repeats)

    def _timed(self, repeats: int = 1) -> float:
        return self.framework.clock(self.call, repeats) / repeats

    def sample(self, samples: int, limit: float) -> dict[str, object]:
        """Times of warm calls, fewer where they take longer than the limit in all."""
        if self.seconds < LONG_SECONDS:
            self._timed()
        seconds: list[float] = []
        end = time.perf_counter() + limit
        while len(seconds) < samples and (not seconds or time.perf_counter() < end):
            seconds.append(self._timed(self.repeats))
        return {"seconds": seconds, "peak_bytes": peak_memory(), "base_bytes": self.base}


def measure_machine(threads: int, device: str, quick: bool) -> dict[str, object]:
    """Bytes a second into warm buffers, and float32 operations a second, which nobody measures of
    a device."""
    if device:
        return {"bandwidth": copy_bandwidth(device, quick), "peak": None}
    from lazyt.runtime.cpu import roofline

    found = roofline.sample(threads)
    return {"bandwidth": found.bandwidth, "peak": found.peak}


def copy_bandwidth(device: str, quick: bool) -> float:
    """Bytes a second that a device reads and writes while it copies, by its own clock."""
    from lazyt.handle.cuda_devices import wanted_device

    found = wanted_device(device)
    driver, nbytes, turns = found.driver, 1 << (16 if quick else 29), 10
    buffers = [found.allocate(nbytes) for _ in range(2)]
    best = math.inf
    for _ in range(4):
        marks = [driver.new_event(True) for _ in range(2)]
        driver.record_event(marks[0], None)
        for _ in range(turns):
            driver.copy_within(buffers[1].ptr, buffers[0].ptr, nbytes, None)
        driver.record_event(marks[1], None)
        driver.wait_event(marks[1])
        best = min(best, driver.milliseconds(*marks) / 1e3 / turns)
    return 2 * nbytes / best


def answer(
    request: dict[str, Any], name: str, threads: int, job: Job | None, device: str
) -> tuple[dict[str, object], Job | None]:
    """Does what a request says."""
    if load_error:
        return {"failed": load_error}, None
    if name == "machine":
        return measure_machine(threads, device, bool(request.get("quick"))), None
    if job is not None and "samples" in request:
        return job.sample(request["samples"], request["limit"]), job
    if job is not None and "check" in request:
        return job.check(), job
    trouble = load_for_peer(name)
    known, quick = workloads(), bool(request["quick"])
    if request["workload"] not in known:
        return {"failed": trouble or f"no workload is called {request['workload']}"}, None
    workload = known[request["workload"]]
    path = Path(request["reference"])
    if name in ("reference", "exact"):
        return write_reference(workload, quick, path), None
    try:
        framework = FRAMEWORKS[name](threads)
    except ImportError as missing:
        return {"missing": str(missing)}, None
    framework.use(device)
    job = Job(framework, workload, path, quick)
    return job.begin(), job


def main(name: str, threads: int, device: str, line: TextIO) -> None:
    """Answers requests until there are no more."""
    job: Job | None = None
    while request := line.readline():
        try:
            reply, job = answer(json.loads(request), name, threads, job, device)
        except NotOffered as lacking:
            reply = {"absent": str(lacking)}
        except Exception as error:
            text = f"{place_in_loaded(error)}{type(error).__name__}: {error}"
            reply = {"failed": text.strip().split("\n")[0]}
        line.write(json.dumps(reply) + "\n")
        line.flush()
