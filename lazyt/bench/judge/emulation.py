"""CUDA C of a submission without a GPU: every launch goes through ``lazyt.check_cuda``, which finds
races, accesses out of bounds, missed barriers and unwritten shared memory with their lines, and
then through the emulator, whose values are judged. A GPU would be asked only after that.

Two comments in the text say how it is launched, as ``lazyt.cuda_kernel`` takes it::

    // grid: (n + 255) / 256        blocks; the name of a size alone means a thread for each
    // block: 256
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lazyt
from lazyt.bench.judge.judging import Draws, Options, TaskDraws, baseline_sides, judged
from lazyt.bench.judge.process import Limits
from lazyt.bench.judge.sides import PythonSide, Side
from lazyt.bench.judge.tasks import Task
from lazyt.bench.judge.verdicts import Refusal, Verdict
from lazyt.bench.problems import described
from lazyt.errors import LazytError
from lazyt.runtime.cuda.checks import Finding, check_cuda
from lazyt.runtime.cuda.checks.build import build, checker_object, take_checker
from lazyt.runtime.cuda.checks.text import find_kernels
from lazyt.runtime.cuda.driver import CudaError

_MOST_BLOCK = 1024
#: The emulator is slow: sizes are cut to this, which is what a block or two need.
_MOST_EXTENT = 96
#: Seconds of one checked launch.
_CHECK_SECONDS = 10.0
#: What a finding of the checks is in a verdict.
_KINDS = {
    "bounds": "bounds", "race": "race", "barrier": "race", "misaligned": "crash",
    "crash": "crash", "hang": "timeout",
}  # fmt: skip
_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a // b,
    ast.FloorDiv: lambda a, b: a // b,
}


def launch_of(text: str) -> tuple[str, int]:
    """The grid's expression and the threads of a block. Raises Refusal where the text has none."""
    found = {m[1]: m[2].strip() for m in re.finditer(r"//\s*(grid|block)\s*:([^\n]*)", text)}
    if "grid" not in found:
        raise Refusal("compile", "a comment `// grid: ...` has to say how many blocks there are")
    block = found.get("block", "256")
    if not block.isdigit() or not 1 <= int(block) <= _MOST_BLOCK:
        raise Refusal("compile", f"a block has 1 to {_MOST_BLOCK} threads, not {block}")
    return found["grid"], int(block)


def blocks(expression: str, dims: dict[str, int]) -> int:
    """The value of a grid's expression: sizes, whole numbers, ``+ - * /`` and parentheses, rounded
    down. Raises ValueError for anything else."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name) and node.id in dims:
            return dims[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            right = value(node.right)
            if right == 0 and isinstance(node.op, (ast.Div, ast.FloorDiv)):
                raise ValueError(f"the grid {expression!r} divides by 0")
            return _OPERATORS[type(node.op)](value(node.left), right)
        raise ValueError(f"cannot read the grid {expression!r}")

    try:
        return value(ast.parse(expression, mode="eval").body)
    except (SyntaxError, RecursionError):
        raise ValueError(f"cannot read the grid {expression!r}") from None


class _Checks:
    """Launches of a submission under ``lazyt.check_cuda``.

    Args:
        settings: the text, its grid and block, and the task's names.
        refused: makes the exception that the process reports.

    Raises what ``refused`` makes for a text without one kernel to judge.
    """

    def __init__(
        self, settings: dict[str, Any], refused: Callable[[str, str], Exception]
    ) -> None:  # fmt: skip
        self._settings, self._refused = settings, refused
        kernels = [item for item in find_kernels(settings["source"]) if not item.is_template]
        if len(kernels) != 1:
            names = ", ".join(item.name for item in kernels) or "none"
            raise refused("compile", f"one __global__ function is judged; the text has {names}")
        self._kernel = kernels[0]

    def launch(self, given: Mapping[str, Any], like: Mapping[str, Any]) -> None:
        """Refuses the submission if a launch with these arrays and numbers has a fault.

        Args:
            given: inputs as arrays, and numbers, by name.
            like: arrays of the results' shapes and dtypes, by name.
        """
        settings, kernel = self._settings, self._kernel
        sizes = {
            name: extent
            for key, shape in settings["inputs"].items()
            for name, extent in zip(shape.split(), given[key].shape)
        }
        described = {name: f"{array.dtype}[{array.size}]" for name, array in like.items()}
        known = {**sizes, **given, **described}
        if unknown := [name for name in kernel.parameters if name not in known]:
            raise self._refused("compile", f"the task has nothing called {', '.join(unknown)}")
        if absent := [name for name in like if name not in kernel.parameters]:
            raise self._refused("compile", f"the kernel has no parameter {', '.join(absent)}")
        grid, block = settings["grid"], settings["block"]
        try:
            self._require_types({**given, **like})
            count = -(-sizes[grid] // block) if grid in sizes else blocks(grid, sizes)
            found = check_cuda(
                settings["source"], kernel.name, count, block,
                [known[name] for name in kernel.parameters], seconds=_CHECK_SECONDS,
            )  # fmt: skip
        except (ValueError, LazytError) as error:
            raise self._refused("compile", _in_a_line(error)) from None
        if grave := [item for item in found if item.matters]:
            raise self._refused(*_told(grave, settings["source"]))

    def _require_types(self, known: Mapping[str, Any]) -> None:
        """Refuses pointers to elements that are not as large as the task's."""
        kernel = self._kernel
        kinds = build(self._settings["source"], kernel.name).kernels[kernel.name].kinds
        for name, (code, _, _, each) in zip(kernel.parameters, kinds):
            array = known.get(name)
            if array is None or not hasattr(array, "dtype"):
                continue
            if code != "p" or each != array.itemsize:
                text = f"line {kernel.line}: {name} should point to elements of {array.dtype}"
                raise self._refused("compile", text)


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _told(found: Sequence[Finding], text: str) -> tuple[str, str]:
    """The kind and the evidence of the first finding."""
    first = found[0]
    kind = _KINDS.get(first.kind, "race")
    if first.kind == "uninitialised" and "never written" in first.message:
        kind = "unwritten"
    line = " ".join(text.split("\n")[first.line - 1].split())[:80]
    evidence = f"line {first.line}, `{line}`: {first.message}"
    if first.other_line and first.other_line != first.line:
        evidence += f"; the other access is in line {first.other_line}"
    if lines := sorted({item.line for item in found[1:]} - {first.line}):
        evidence += f"; more in line {', '.join(map(str, lines[:5]))}"
    return kind, evidence


def prepare(settings: dict[str, Any], refused: Callable[[str, str], Exception]) -> Any:
    """A call of the kernel in the text, for the submission's own process.

    ``refused`` makes the exception that the process reports.
    """
    grid: str = settings["grid"]
    shapes: list[tuple[int, ...]] = []
    outs = {
        name: (lambda *_, n=n: shapes[n]) for n, name in enumerate(settings["outputs"])
    }  # fmt: skip

    def count(*_: Any, **sizes: int) -> int:
        return blocks(grid, sizes)

    take_checker(Path(settings["checker"]).read_bytes())
    checks = _Checks(settings, refused)
    not_taken = ""
    try:
        kernel = lazyt.cuda_kernel(
            settings["source"],
            grid=grid if grid in settings["dims"] else count,
            block=settings["block"],
            inputs=settings["inputs"],
            out=outs,
        )
    except LazytError as error:
        # Said after the checks, which take more of CUDA.
        not_taken = f"the checks find no fault, but its values cannot be judged: {error}"

    def call(*parts: Any, like: Any = ()) -> Any:
        given = dict(zip([*settings["inputs"], *settings["numbers"]], parts, strict=True))
        arrays = {n: p.numpy() if isinstance(p, lazyt.Tensor) else p for n, p in given.items()}
        checks.launch(arrays, dict(zip(settings["outputs"], like, strict=True)))
        if not_taken:
            raise refused("compile", " ".join(not_taken.split())[:300])
        tensors = {n: p.to("cuda:emu") for n, p in given.items() if isinstance(p, lazyt.Tensor)}
        shapes[:] = [tuple(array.shape) for array in like]
        try:
            result = kernel(**{**given, **tensors})
            found = tuple(
                part.cpu() for part in (result if isinstance(result, tuple) else (result,))
            )
            for part in found:
                part.numpy()  # until then nothing has run
            return found
        except (LazytError, CudaError) as error:
            text = _in_a_line(error)
            if "may be outside" in text or "out of bounds" in text:
                raise refused("bounds", text) from None
            if re.search(r"barrier|deadlock|shared memory|syncthreads|without|wrote", text):
                raise refused("race", text) from None
            raise refused("compile", text) from None

    return call


def judge_cuda(text: str, task: Task, options: Options, name: str = "kernel.cu") -> Verdict:
    """Judges a kernel in CUDA C without a GPU: every launch is checked by ``lazyt.check_cuda``, and
    its values on the emulator. It is not timed; ``Verdict.notes`` say which part was given.

    Args:
        text: CUDA C with comments that say grid and block; parameters have the task's names.
        task: what it has to compute; sizes are cut, as the emulator is slow.
        options: how to judge.
        name: of the submission.

    Raises NoCompilerError without a C++ compiler; never for what a submission does.
    """
    sizes = [{n: min(e, _MOST_EXTENT + e % 2) for n, e in dims.items()} for dims in task.sizes]
    sizes += [{n: max(1, e // 2 + 1) for n, e in sizes[0].items()}]
    small = replace(task, sizes=sizes)

    def sides(_: Draws, folder: Path) -> tuple[Side, Side | None]:
        grid, block = launch_of(text)
        checker = folder / "checker.o"  # the process has a cache of its own
        checker.write_bytes(checker_object())
        settings = {
            "kind": "cuda", "module": "lazyt", "threads": options.limits.threads, "source": text,
            "checker": str(checker), "grid": grid, "block": block, "dims": task.dims(),
            "outputs": list(task.outputs),
            "inputs": {n: " ".join(described(t)[2]) for n, t in task.inputs.items()},
            "numbers": list(task.numbers),
        }  # fmt: skip
        limits = Limits(max(60.0, options.limits.seconds), 0, options.limits.threads)
        return PythonSide(settings, limits, options.python), None

    verdict = judged(name, TaskDraws(small), options, sides, baseline_sides)
    most = max(extent for dims in sizes for extent in dims.values())
    if verdict.accepted:
        verdict.notes = [
            f"given without a GPU, in {verdict.calls} launches with extents up to {most}: no race, "
            "access out of bounds, missed barrier or unwritten memory, and right values on the "
            "emulator",
            "not given: whether it runs on a GPU, and its time there",
        ]
    else:
        verdict.notes = ["refused without a GPU; none was asked"]
    return verdict
