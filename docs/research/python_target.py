"""A target of one's own, in one file outside of the package: kernels printed as Python.

lazyt's passes, fusion and lowering do their work; this file prints the kernels that come out, and
runs what it printed. A target for another language has the same parts. Kernel IR says what is
computed and, for sums, in which order, so the results have the bits of lazyt's own kernels.

Run it: ``python docs/research/python_target.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import lazyt
from lazyt import compiler
from lazyt.codegen.lower.groups import lower_group
from lazyt.handle.dispatch import unwrap
from lazyt.ir.graph import Node
from lazyt.ir.index import (
    Axis,
    Datum,
    Guard,
    Guarded,
    Linear,
    Load,
    Position,
    Quotient,
    Remainder,
    Var,
)
from lazyt.ir.kernel import BLOCK, LANES, Keep, Kernel, Let, Phase, Reduce, Stage, Store
from lazyt.ir.scalar import FUNCTIONS, Call, Const, Expr

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
FOLDS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}


class Unsupported(NotImplementedError):
    """The target has no text for a piece of kernel IR."""


def index_text(index: Linear) -> str:
    """A position: a sum of loop variables, quotients and remainders with coefficients."""

    def atom(item: Axis | Quotient | Remainder | Datum) -> str:
        if isinstance(item, Axis):
            return item.name
        if isinstance(item, Datum):  # a value that was computed, clamped to what there is
            return f"min(max(int({item.name}), 0), {max(item.extent - 1, 0)})"
        sign = "//" if isinstance(item, Quotient) else "%"
        return f"(({index_text(item.value)}) {sign} {item.divisor})"

    parts = [atom(a) if factor == 1 else f"{factor} * {atom(a)}" for a, factor in index.terms]
    if index.const or not parts:
        parts.append(str(index.const))
    return " + ".join(parts)


def element_text(buffer: str, index: Sequence[Linear]) -> str:
    """An element of a buffer; one without axes has a single element."""
    return f"{buffer}[{', '.join(map(index_text, index)) or '()'}]"


def guard_text(guards: Sequence[Guard]) -> str:
    """A condition on positions."""
    tests = (f"{g.low} <= {index_text(g.index)} < {g.high}" for g in guards)
    return " and ".join(tests) or "True"


def expression_text(expr: Expr) -> str:
    """A scalar expression; NumPy's scalars give it the arithmetic of its dtype."""
    if isinstance(expr, Const):
        return f"{expr.dtype.compute.numpy.name}({expr.value!r})"
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, Load):
        return element_text(expr.buffer, expr.index)
    if isinstance(expr, Position):
        return f"int64({index_text(expr.index)})"
    if isinstance(expr, Guarded):
        value, other = expression_text(expr.value), expression_text(expr.other)
        return f"({value} if {guard_text(expr.guards)} else {other})"
    assert isinstance(expr, Call)
    parts = [expression_text(part) for part in expr.args]
    if expr.fn.name in INFIX and expr.dtype.kind == "f":
        return f"({parts[0]} {INFIX[expr.fn.name]} {parts[1]})"
    if expr.fn.name == "cast":
        return f"{expr.dtype.compute.numpy.name}({parts[0]})"
    return f"functions[{expr.fn.name!r}]({', '.join(parts)})"


def stage_lines(stage: Stage, kept: list[str]) -> Iterator[str]:
    """A stage: statements that run once, or a loop. Folds collect their values first.

    ``kept``: names that earlier stages of the point gave one value for each step.
    """
    loops = stage.axis is not None
    for item in stage.body:
        if isinstance(item, (Reduce, Keep)):
            yield f"{item.name}_all = []"
    if stage.axis is not None:
        yield f"for {stage.axis.name} in range({stage.axis.extent}):"
        if stage.guard is not None:
            yield f"    if not ({guard_text([stage.guard])}): continue"
        for name in kept:
            yield f"    {name} = {name}_all[{stage.axis.name}]"
    indent = "    " * loops
    for item in stage.body:
        if isinstance(item, Let):
            yield f"{indent}{item.name} = {expression_text(item.value)}"
        elif isinstance(item, Store):
            place = element_text(item.buffer, item.index)
            value = expression_text(item.value)
            if item.combine is not None:
                value = f"functions[{item.combine!r}]({place}, {value})"
            condition = f"if {guard_text(item.guards)}: " if item.guards else ""
            yield f"{indent}{condition}{place} = {value}"
        elif isinstance(item, Keep):
            yield f"{indent}{item.name} = {expression_text(item.value)}"
            yield f"{indent}{item.name}_all.append({item.name})"
        elif isinstance(item, Reduce) and item.kind in FOLDS:
            yield f"{indent}{item.name}_all.append({expression_text(item.value)})"
        else:
            raise Unsupported(f"{type(item).__name__} {getattr(item, 'kind', '')}")
    kept += [item.name for item in stage.body if isinstance(item, Keep)]
    for item in stage.body:
        if isinstance(item, Reduce):
            yield f"{item.name} = fold({item.kind!r}, {item.name}_all)"


def kernel_text(kernel: Kernel) -> str:
    """The function of a kernel: its buffers are the arguments, phases follow each other."""
    lines = [f"def {kernel.name}({', '.join(b.name for b in kernel.arguments)}):"]
    for phase in kernel.phases:
        if not isinstance(phase, Phase):
            raise Unsupported(type(phase).__name__)
        depth = 1
        for axis in phase.grid:
            lines.append("    " * depth + f"for {axis.name} in range({axis.extent}):")
            depth += 1
        kept: list[str] = []
        for stage in phase.stages:
            lines += ["    " * depth + line for line in stage_lines(stage, kept)]
    return "\n".join(lines) + "\n"


def fold(kind: str, values: list[Any]) -> Any:
    """A sum in the order that kernel IR gives it: see ``lazyt.ir.kernel.reduction_levels``."""
    combine = FUNCTIONS[FOLDS[kind]].evaluate
    unit = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}[kind]
    while True:
        blocks = []
        for start in range(0, len(values), BLOCK):
            lanes = [type(values[0])(unit)] * LANES
            for at, value in enumerate(values[start : start + BLOCK]):
                lanes[at % LANES] = combine(lanes[at % LANES], value)
            half = LANES // 2
            while half:
                lanes[:half] = [combine(lanes[i], lanes[i + half]) for i in range(half)]
                half //= 2
            blocks.append(lanes[0])
        if len(blocks) == 1:
            return blocks[0]
        values = blocks


NAMES: dict[str, Any] = {
    "fold": fold,
    "functions": {name: function.evaluate for name, function in FUNCTIONS.items()},
    **{name: getattr(np, name) for name in ("float32", "float64", "int64", "int32", "bool")},
}


def compute(tensor: lazyt.Tensor, show: bool = False) -> Any:
    """The value of a tensor, as an array, by kernels of this target.

    Raises Unsupported where a kernel has a part that the target lacks, such as a contraction.
    """
    (root,), groups = compiler.group_graph([unwrap(tensor)])
    values: dict[Node, Any] = {}
    for group in groups:
        lowered = lower_group(group, unroll=0)
        text = kernel_text(lowered.kernel)
        if show:
            print(text)
        arguments = []
        for node, buffer in zip(lowered.arguments, lowered.kernel.arguments, strict=True):
            if node is not None and node.data is not None:  # an input
                values[node] = node.data.as_numpy(node.dtype, node.shape)
            memory = values.get(node) if node is not None else None
            if memory is None:  # a result, or scratch
                memory = np.zeros(buffer.shape, buffer.dtype.compute.numpy)
            if node is not None:
                values[node] = memory
            arguments.append(memory)
        names = dict(NAMES)
        exec(compile(text, lowered.kernel.name, "exec"), names)
        with np.errstate(all="ignore"):
            names[lowered.kernel.name](*arguments)
    return values[root]


if __name__ == "__main__":
    x = lazyt.linspace(-1, 1, 12).reshape(3, 4).realize()
    result = compute((x * x).sum(1).sqrt() / 3, show=True)

    # Basic arithmetic has the same bits as lazyt's own kernels, sums of any length included.
    assert result.tolist() == ((x * x).sum(1).sqrt() / 3).tolist()
    long = lazyt.linspace(0, 1, 5000).realize()
    assert compute((long * long).sum()).item() == (long * long).sum().item()
    shifted = lazyt.nn.functional.pad(x, (1, 1))[:, :4] - x
    assert compute(shifted).tolist() == shifted.tolist()
    # exp is NumPy's here and lazyt's there: the last bits may differ.
    np.testing.assert_allclose(compute(x.softmax(-1)), x.softmax(-1).numpy(), rtol=1e-6)

    try:
        compute(x @ x.T)
    except Unsupported as error:
        print("not supported:", error)
