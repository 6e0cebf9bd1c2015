"""Judging Python: modules in KernelBench's form, functions for a task, CUDA C on the emulator."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lazyt.bench.judge.judging import Draws, Options, TaskDraws, baseline_sides, judged
from lazyt.bench.judge.memory import POISONS
from lazyt.bench.judge.process import Limits, Process, python_path
from lazyt.bench.judge.sides import PythonSide, Side
from lazyt.bench.judge.tasks import Case, Task
from lazyt.bench.judge.verdicts import Refusal, Verdict
from lazyt.bench.problems import Dims

#: How values may be spread where nothing says what inputs mean: only numbers of both signs are.
_SPREADS = ("usual", "small", "uneven", "constant", "sparse", "sorted")
#: What makes frameworks run operation by operation, where calls are watched.
_SEEN = {"LAZYT_INTERPRET": "1", "TORCHDYNAMO_DISABLE": "1", "PYTORCH_JIT": "0"}
#: Python with a framework needs more address space than a kernel.
_MEMORY = 16 << 30


class PairDraws(Draws):
    """Fresh inputs of a KernelBench reference, made by its own process.

    Args:
        path: the reference's file.
        module: ``lazyt`` or ``torch``.
        options: how to judge.

    Raises ValueError for a reference that does not work: that is nobody's fault but the problem's.
    """

    def __init__(self, path: Path, module: str, options: Options) -> None:
        limits = Limits(max(120.0, options.limits.seconds), 0, options.limits.threads)
        words = [options.python or sys.executable, "-m", "lazyt.bench.judge.reference"]
        path_of_child = {"PYTHONPATH": python_path(options.python)}
        self.process = Process([*words, "{in}", "{out}", "{memory}"], limits, path_of_child)
        self._folder = tempfile.TemporaryDirectory(prefix="judge-")
        try:
            super().__init__(
                Task(path.stem, {"input0": "float32"}, [{}], _nothing, nan="any"), True
            )
            self.model_seed = int(self.source.integers(1 << 31))
            settings = {
                "path": str(path.resolve()), "module": module, "seed": self.model_seed,
                "threads": limits.threads,
            }  # fmt: skip
            self.init = json.loads(self._ask(settings).partition(" ")[2])
            case = self.cases({}, ["usual"])[0]
        except (Refusal, ValueError) as error:
            self.close()
            raise ValueError(f"the reference {path.name} does not work: {error}") from None
        inputs = {f"input{n}": str(array.dtype) for n, array in enumerate(case.inputs)}
        outputs = [f"output{n}" for n in range(len(case.rounded))]
        self.task = replace(self.task, inputs=inputs, outputs=outputs, spreads=_SPREADS)
        self.names = [*inputs, *outputs]
        self.moves_all = all(array.dtype.kind == "f" for array in case.inputs)

    def _ask(self, request: dict[str, Any]) -> str:
        return self.process.ask(json.dumps(request))

    def cases(self, dims: Dims, spreads: Sequence[str]) -> list[Case]:
        """Sets of inputs, with results."""
        return [self._case(spread) for spread in spreads]

    def _case(self, spread: str) -> Case:
        path = os.path.join(self._folder.name, "case.npz")
        seed = int(self.source.integers(1 << 62))
        self._ask({"seed": seed, "spread": spread, "path": path})
        with np.load(path, allow_pickle=False) as file:
            found = {name: np.ascontiguousarray(file[name]) for name in file.files}
        for name, array in found.items():
            if array.dtype.kind == "b":
                found[name] = array.astype(np.uint8)

        def numbered(kind: str) -> list[Any]:
            return [found[f"{kind}{n}"] for n in range(len(found)) if f"{kind}{n}" in found]

        kinds = ("exact", "rounded", "noise")
        exact, rounded, noise = (numbered(kind) for kind in kinds)
        return Case(numbered("input"), [], exact, rounded, noise, spread)

    def close(self) -> None:
        """Ends the reference's process."""
        self.process.close()
        self._folder.cleanup()


def _nothing(*given: Any) -> Any:
    raise NotImplementedError("the reference is in a process of its own")


def _python_limits(options: Options) -> Limits:
    limits = options.limits
    return replace(limits, memory=max(limits.memory, _MEMORY) if limits.memory else 0)


def judge_pair(
    source: str, reference: Path, options: Options, module: str = "lazyt", name: str = "candidate"
) -> Verdict:
    """Judges a module in KernelBench's form.

    Args:
        source: a Python file with a class ``ModelNew``.
        reference: a file with ``Model``, ``get_inputs`` and ``get_init_inputs``.
        options: how to judge; with a baseline, that is ``Model`` in the same framework.
        module: what ``import torch`` gives: ``lazyt``, or ``torch`` where it is installed.
        name: of the submission.

    Raises ValueError for a reference or a baseline that does not work; never for what a submission
    does.
    """
    draws = PairDraws(reference, module, options)
    found = os.stat(reference)
    settings = {
        "kind": "pair", "source": source, "class": "ModelNew", "init": draws.init,
        "module": module, "seed": draws.model_seed, "threads": options.limits.threads,
        "forbidden": [[found.st_dev, found.st_ino]],
    }  # fmt: skip
    model = {"source": reference.read_text(encoding="utf-8"), "class": "Model", "forbidden": []}

    def sides(draws: Draws, folder: Path) -> tuple[Side, Side | None]:
        return _two(settings, draws, options)

    def baselines(task: Task, options: Options) -> tuple[Side, Side]:
        limits = _python_limits(options)
        side = PythonSide({**settings, **model, "kind": "model"}, limits, options.python)
        try:
            return side, PythonSide({**settings, "kind": "null"}, limits, options.python)
        except Refusal:
            side.close()
            raise

    try:
        if options.baseline:
            options = replace(options, baseline="Model")
        return judged(name, draws, options, sides, baselines)
    finally:
        draws.close()


def _require_own_kernel(settings: dict[str, Any], draws: Draws, options: Options) -> None:
    """Raises Refusal where a submission lets the framework compute, in calls at every size.

    The process that is watched here is another than the one whose calls are timed. Nothing is
    compiled or captured in it, so that each operation is seen.
    """
    side = PythonSide({**settings, "watched": True}, _python_limits(options), options.python, _SEEN)
    source = draws.source
    try:
        for dims in reversed(draws.task.sizes):
            cases = draws.cases(dims, ["usual"] * 2)
            poison = int(source.choice(POISONS))
            side.prepare(
                cases, dims, at_end=False, readonly=False, remap=True, poison=poison, order=[0, 1]
            )
            side.fill()
            side.run()
    finally:
        side.close()


def _two(settings: dict[str, Any], draws: Draws, options: Options) -> tuple[Side, Side]:
    if not options.allow_framework:
        _require_own_kernel(settings, draws, options)
        # Nodes of lazyt are seen at next to no cost, so that is done in timed calls, too.
        settings = {**settings, "watched": settings["module"] == "lazyt"}
    limits = _python_limits(options)
    null = PythonSide(
        {"kind": "null", "module": settings["module"], "threads": limits.threads},
        limits,
        options.python,
    )
    try:
        return PythonSide(settings, limits, options.python), null
    except Refusal:
        null.close()
        raise


def judge_function(
    source: str, task: Task, options: Options, module: str = "lazyt", name: str = "candidate"
) -> Verdict:
    """Judges a Python function ``kernel(*tensors, *numbers)`` of a file against a task.

    Raises ValueError for a baseline that does not work; never for what a submission does.
    """
    settings = {
        "kind": "function", "source": source, "name": "kernel", "module": module,
        "threads": options.limits.threads,
    }  # fmt: skip

    def sides(draws: Draws, folder: Path) -> tuple[Side, Side | None]:
        return _two(settings, draws, options)

    return judged(name, TaskDraws(task), options, sides, baseline_sides)
