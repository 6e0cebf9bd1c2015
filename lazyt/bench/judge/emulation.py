"""CUDA C of a submission on the emulator: what a GPU would be asked for only once it is clean.

Two comments in the text say how it is launched, as ``lazyt.cuda_kernel`` takes it::

    // grid: (n + 255) / 256        blocks; the name of a size alone means a thread for each
    // block: 256
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lazyt.bench.judge.judging import Draws, Options, TaskDraws, baseline_sides, judged
from lazyt.bench.judge.process import Limits
from lazyt.bench.judge.sides import PythonSide, Side
from lazyt.bench.judge.tasks import Task
from lazyt.bench.judge.verdicts import Refusal, Verdict
from lazyt.bench.problems import described

_MOST_BLOCK = 1024
#: The emulator is slow: sizes are cut to this, which is what a block or two need.
_MOST_EXTENT = 96
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


def prepare(settings: dict[str, Any], refused: Callable[[str, str], Exception]) -> Any:
    """A call of the kernel in the text, for the submission's own process.

    ``refused`` makes the exception that the process reports.
    """
    import lazyt
    from lazyt.errors import LazytError
    from lazyt.runtime.cuda.driver import CudaError

    grid: str = settings["grid"]
    shapes: list[tuple[int, ...]] = []
    outs = {
        name: (lambda *_, n=n: shapes[n]) for n, name in enumerate(settings["outputs"])
    }  # fmt: skip

    def count(*_: Any, **sizes: int) -> int:
        return blocks(grid, sizes)

    try:
        kernel = lazyt.cuda_kernel(
            settings["source"],
            grid=grid if grid in settings["dims"] else count,
            block=settings["block"],
            inputs=settings["inputs"],
            out=outs,
        )
    except LazytError as error:
        raise refused("compile", " ".join(str(error).split())[:300]) from None

    def call(*given: Any, like: Any = ()) -> Any:
        numbers = [part for part in given if not isinstance(part, lazyt.Tensor)]
        tensors = [part.to("cuda:emu") for part in given if isinstance(part, lazyt.Tensor)]
        shapes[:] = [tuple(array.shape) for array in like]
        try:
            result = kernel(*tensors, *numbers)
            parts = result if isinstance(result, tuple) else (result,)
            found = tuple(part.cpu() for part in parts)
            for part in found:
                part.numpy()  # until then nothing has run
            return found
        except (LazytError, CudaError) as error:
            text = " ".join(str(error).split())[:300]
            if "may be outside" in text or "out of bounds" in text:
                raise refused("bounds", text) from None
            if re.search(r"barrier|deadlock|shared memory|syncthreads|without|wrote", text):
                raise refused("race", text) from None
            raise refused("compile", text) from None

    return call


def judge_cuda(text: str, task: Task, options: Options, name: str = "kernel.cu") -> Verdict:
    """Judges a kernel in CUDA C on the emulator; it is not timed.

    Args:
        text: CUDA C with comments that say grid and block; parameters have the task's names.
        task: what it has to compute; sizes are cut, as the emulator is slow.
        options: how to judge.
        name: of the submission.

    Never raises for what a submission does.
    """
    sizes = [{n: min(e, _MOST_EXTENT + e % 2) for n, e in dims.items()} for dims in task.sizes]
    sizes += [{n: max(1, e // 2 + 1) for n, e in sizes[0].items()}]
    small = replace(task, sizes=sizes)

    def sides(_: Draws, folder: Path) -> tuple[Side, Side | None]:
        grid, block = launch_of(text)
        settings = {
            "kind": "cuda", "module": "lazyt", "threads": options.limits.threads, "source": text,
            "grid": grid, "block": block, "dims": task.dims(), "outputs": list(task.outputs),
            "inputs": {n: " ".join(described(t)[2]) for n, t in task.inputs.items()},
        }  # fmt: skip
        limits = Limits(max(60.0, options.limits.seconds), 0, options.limits.threads)
        return PythonSide(settings, limits, options.python), None

    verdict = judged(name, TaskDraws(small), options, sides, baseline_sides)
    if verdict.accepted:
        verdict.notes = ["correct on the emulator, not timed"]
    return verdict
