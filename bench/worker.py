"""One process that runs one workload in one framework, round by round, as ``run.py`` asks.

Reads a JSON object a line from standard input and answers each with one: first
``{"workload", "framework", "quick"}``, which checks the result and times the first call, then any
number of ``{"samples"}``, which times that many samples of an already warm computation.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from frameworks import FRAMEWORKS, Call, Framework
from workloads import CHECKED_STEPS, WORKLOADS, Array, Workload

WARM_CALLS = 4
SAMPLE_SECONDS = 2e-3  # calls shorter than this are timed several at once


def timed(call: Call, repeats: int = 1) -> float:
    """Seconds of one call."""
    begun = time.perf_counter()
    for _ in range(repeats):
        result = call()
    seconds = (time.perf_counter() - begun) / repeats
    del result  # freeing it is not timed
    return seconds


def error_of(got: Array, want: Array) -> float:
    """Largest error of the elements that the reference has, relative to its largest value."""
    flat = np.asarray(got, np.float64).reshape(-1)[: want.size]
    if flat.size != want.size:
        raise ValueError(f"{flat.size} values instead of {want.size}")
    error = np.abs(flat - want.reshape(-1)).max() / np.abs(want).max()
    return float("inf") if np.isnan(error) else float(error)


class Job:
    """A workload in a framework."""

    def __init__(self, framework: Framework, workload: Workload, quick: bool) -> None:
        self.framework, self.workload = framework, workload
        arrays = workload.inputs(quick)
        self.want = workload.reference(arrays)
        self.inputs = [framework.tensor(array) for array in arrays]
        self.call = self._make_call()
        self.repeats = 1

    def _make_call(self) -> Call:
        framework, compute = self.framework, self.workload.compute
        if self.workload.kind == "train":
            return framework.train(self.inputs)
        if self.workload.kind == "gpt":
            return framework.train_gpt(self.inputs)
        if self.workload.kind == "call":
            return framework.prepare(compute, self.inputs)
        variants = itertools.count()

        def call() -> Any:
            variant = next(variants)

            def another(k: Any, x: Any) -> Any:
                return compute(k, x, variant)

            return framework.prepare(another, self.inputs)()

        return call

    def begin(self) -> dict[str, object]:
        """The first call, its check, and the warm-up."""
        begun = time.perf_counter()
        result = self.call()
        first = time.perf_counter() - begun
        count = CHECKED_STEPS if self.workload.kind == "train" else 1
        parts = [self.framework.values(result)]
        parts += [self.framework.values(self.call()) for _ in range(count - 1)]
        error = error_of(np.concatenate([p.reshape(-1) for p in parts]), self.want)
        del result
        if self.workload.kind != "first":
            costs = [timed(self.call) for _ in range(WARM_CALLS)]
            self.repeats = max(1, round(SAMPLE_SECONDS / min(costs)))
        kernels = None
        if self.workload.kind == "call":
            kernels = self.framework.kernels(self.workload.compute, self.inputs)
        return {
            "version": self.framework.version,
            "first_call_s": first,
            "error": error,
            "correct": error <= self.workload.tolerance,
            "kernels": kernels,
        }

    def sample(self, samples: int) -> dict[str, object]:
        """Times of warm calls."""
        seconds = [timed(self.call, self.repeats) for _ in range(samples)]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"seconds": seconds, "peak_bytes": peak * (1 if sys.platform == "darwin" else 1024)}


def answer(line: str, job: Job | None) -> tuple[dict[str, object], Job | None]:
    """Do what a request says."""
    request = json.loads(line)
    if job is not None:
        return job.sample(request["samples"]), job
    make: Callable[[], Framework] = FRAMEWORKS[request["framework"]]
    try:
        framework = make()
    except ImportError as missing:
        return {"missing": str(missing)}, None
    job = Job(framework, WORKLOADS[request["workload"]], request["quick"])
    return job.begin(), job


def main() -> None:
    """Answer requests until the input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what frameworks print must not mix with the replies
    job: Job | None = None
    for line in sys.stdin:
        try:
            reply, job = answer(line, job)
        except Exception as error:
            reply = {"failed": f"{type(error).__name__}: {error}".strip().split("\n")[0]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
