"""A target of one's own, in one file outside of the package: kernels printed as NumPy.

lazyt's passes, fusion, lowering and memory do their work; this file prints the kernels that come
out, all points of a grid at once, and says how the text is run. A target for another language or
device has the same parts. Kernel IR says what is computed and in which order it is added up, so
results have the bits of lazyt's own kernels.

Run it: ``python docs/research/numpy_target.py``. Or have it run a program of yours::

    python -m lazyt opt graph.ir --load docs/research/numpy_target.py --emit numpy
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import lazyt
from lazyt import compiler
from lazyt.ir import index as places
from lazyt.ir import kernel as ir
from lazyt.ir.arithmetic.folds import fold, identity, reduce_in_order
from lazyt.ir.arithmetic.fused import fused_multiply_add
from lazyt.ir.dtypes import bfloat16, dtype_by_name
from lazyt.ir.program import Program
from lazyt.ir.scalar import FUNCTIONS, Call, Const, Expr


class Unsupported(NotImplementedError):
    """The target has no text for a piece of kernel IR."""


def index_text(index: places.Linear) -> str:
    """A position: a sum of loop variables, quotients and remainders with coefficients."""

    def atom(item: places.Axis | places.Quotient | places.Remainder | places.Datum) -> str:
        if isinstance(item, places.Axis):
            return item.name
        if isinstance(item, places.Datum):  # a value that was computed, clamped to what there is
            return f"clip({item.name}, 0, {max(item.extent - 1, 0)})"
        sign = "//" if isinstance(item, places.Quotient) else "%"
        return f"(({index_text(item.value)}) {sign} {item.divisor})"

    parts = [atom(a) if factor == 1 else f"{factor} * {atom(a)}" for a, factor in index.terms]
    return " + ".join([*parts, str(index.const)])


def tuple_text(parts: Iterable[str]) -> str:
    """A tuple."""
    return f"({''.join(f'{part}, ' for part in parts)})"


def guard_text(guards: Sequence[places.Guard]) -> str:
    """A condition on positions, for all points."""
    tests = [
        f"({g.low} <= {at}) & ({at} < {g.high})"
        for g, at in ((g, f"({index_text(g.index)})") for g in guards)
    ]
    return " & ".join(tests) or "True"


def expression_text(expr: Expr) -> str:
    """A scalar expression, which arrays and NumPy's scalars give the arithmetic of its dtype."""
    if isinstance(expr, Const):
        return f"{expr.dtype.compute.numpy.name}({expr.value!r})"
    if isinstance(expr, places.Var):
        return expr.name
    if isinstance(expr, places.Load):
        return f"get({expr.buffer}, {tuple_text(map(index_text, expr.index))})"
    if isinstance(expr, places.Position):
        return f"asarray({index_text(expr.index)}, int64)"
    if isinstance(expr, places.Guarded):
        value, other = expression_text(expr.value), expression_text(expr.other)
        return f"where({guard_text(expr.guards)}, {value}, {other})"
    assert isinstance(expr, Call)
    parts = [f"asarray({expression_text(part)})" for part in expr.args]
    if expr.fn.name in ("cast", "bitcast"):  # they have to know between which dtypes
        parts += [f"dtype({dtype.name!r})" for dtype in (expr.args[0].dtype, expr.dtype)]
    return f"functions[{expr.fn.name!r}]({', '.join(parts)})"


def statement_lines(item: ir.Statement, guard: str) -> Iterator[str]:
    """A statement; where the guard of its loop fails nothing is stored and nothing added up."""
    value = expression_text(item.value)
    if isinstance(item, (ir.Let, ir.Keep)):
        yield f"{item.name} = {value}"
        if isinstance(item, ir.Keep):
            yield f"{item.name}_all.append({item.name})"
    elif isinstance(item, ir.Store):
        place = tuple_text(map(index_text, item.index))
        if item.combine is not None:
            value = f"functions[{item.combine!r}](get({item.buffer}, {place}), asarray({value}))"
        yield f"put({item.buffer}, {place}, {value}, {guard} & {guard_text(item.guards)}, points)"
    elif isinstance(item, ir.Scan):
        yield f"{item.name} = fold({item.kind!r}, asarray({item.name}), asarray({value}))"
    elif guard == "True" or not item.kind.startswith("arg"):
        neutral = f"identity({item.kind!r}, dtype({item.value.dtype.name!r}))"
        chosen = value if guard == "True" else f"where({guard}, {value}, {neutral})"
        yield f"{item.name}_all.append(broadcast_to({chosen}, points))"
    else:
        raise Unsupported(f"{item.kind} under a guard")


def stage_lines(stage: ir.Stage, held: list[str]) -> Iterator[str]:
    """A stage: statements that run once, or a loop. Reductions collect their values first.

    ``held``: names that earlier stages of the phase gave one value for each step.
    """
    for item in stage.body:
        if isinstance(item, (ir.Reduce, ir.Keep)):
            yield f"{item.name}_all = []"
        elif isinstance(item, ir.Scan):
            yield f"{item.name} = identity({item.kind!r}, dtype({item.dtype.name!r}))"
    guard = "True" if stage.guard is None else guard_text([stage.guard])
    indent = ""
    if stage.axis is not None:
        indent = "    "
        yield f"for {stage.axis.name} in range({stage.axis.extent}):"
        yield from (f"    {name} = {name}_all[{stage.axis.name}]" for name in held)
    for item in stage.body:
        yield from (indent + line for line in statement_lines(item, guard))
    held += [item.name for item in stage.body if isinstance(item, ir.Keep)]
    for item in stage.body:
        if isinstance(item, ir.Reduce):
            kind = dict.fromkeys(("argmax", "argmin"), "extreme").get(item.kind, "total")
            of_dtype = f"dtype({item.value.dtype.name!r})"
            yield f"{item.name} = {kind}({item.kind!r}, stack({item.name}_all, -1), {of_dtype})"


def contract_lines(phase: ir.ContractPhase) -> Iterator[str]:
    """A product of matrices, or a convolution: a fused multiply-add for each step, in order."""
    kind, indent = phase.accumulator.numpy.name, ""
    yield f"{phase.name} = zeros(points, {kind})"
    for axis in phase.inner:
        yield f"{indent}for {axis.name} in range({axis.extent}):"
        indent += "    "
    left, right = (f"asarray({expression_text(e)}, {kind})" for e in (phase.left, phase.right))
    yield f"{indent}{phase.name} = fused({left}, {right}, {phase.name})"
    for item in phase.epilogue:
        yield from statement_lines(item, "True")


def phase_lines(phase: ir.AnyPhase) -> Iterator[str]:
    """The positions of all points, then what is computed there."""
    if isinstance(phase, ir.CallPhase):
        raise Unsupported(f"the routine {phase.routine}")
    if isinstance(phase, ir.Phase):
        axes = phase.grid
    else:
        axes = (*phase.batch, *phase.rows, *phase.columns)
    yield f"points = {tuple_text(str(axis.extent) for axis in axes)}"
    if axes:
        yield f"{tuple_text(axis.name for axis in axes)} = indices(points, sparse=True)"
    if isinstance(phase, ir.ContractPhase):
        yield from contract_lines(phase)
        return
    held: list[str] = []
    for stage in phase.stages:
        yield from stage_lines(stage, held)


class NumpyTarget:
    """Prints kernels as functions of Python, and runs them."""

    suffix = "py"

    def print_kernel(self, kernel: ir.Kernel) -> str:
        """The function of a kernel: its buffers are the arguments, phases follow each other."""
        lines = [f"def {kernel.name}({', '.join(b.name for b in kernel.arguments)}):"]
        for b in kernel.arguments:
            if b.dtype is bfloat16:
                raise Unsupported("bfloat16, which NumPy lacks")
            shape, name = tuple_text(map(str, b.shape)), b.dtype.numpy.name
            lines.append(f"    {b.name} = frombuffer({b.name}, {name}).reshape({shape})")
        for phase in kernel.phases:
            lines += ["    " + line for line in phase_lines(phase)]
        return "\n".join(lines) + "\n"

    def load(self, program: Program) -> dict[str, Callable[..., None]]:
        """The functions of a program's kernels, by name."""
        names = dict(NAMES)
        for kernel in program.kernels:
            exec(compile(kernel.text, f"<{kernel.name}>", "exec"), names)
        return {k.name: np.errstate(all="ignore")(names[k.name]) for k in program.kernels}


def get(array: Any, index: tuple[Any, ...]) -> Any:
    """Elements of a buffer; what a guard excludes may lie outside of it."""
    inside = tuple([np.clip(i, 0, n - 1) for i, n in zip(index, array.shape)])
    found = array[inside]
    return found.astype(np.float32) if array.dtype == np.float16 else found


def put(array: Any, index: tuple[Any, ...], value: Any, mask: Any, points: Any) -> None:
    """Writes elements of a buffer where the mask holds."""
    if not index:
        array, index = array.reshape(1), (0,)
    *at, value, mask, _ = np.broadcast_arrays(*index, value, mask, np.empty(points, bool))
    array[tuple([i[mask] for i in at])] = value[mask]


USED = (
    "asarray broadcast_to clip frombuffer indices stack where zeros float16 float32 float64 "
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
)
NAMES: dict[str, Any] = {
    **{name: getattr(np, name) for name in USED.split()},
    "bool": np.bool_, "nan": np.nan, "inf": np.inf, "get": get, "put": put, "fold": fold,
    "fused": fused_multiply_add, "identity": identity, "total": reduce_in_order,
    "dtype": dtype_by_name, "extreme": lambda kind, values, _: getattr(np, kind)(values, -1),
    "functions": {name: function.evaluate for name, function in FUNCTIONS.items()},
}  # fmt: skip

compiler.register_target("numpy", NumpyTarget())


if __name__ == "__main__":

    def program(x: lazyt.Tensor, w: lazyt.Tensor) -> lazyt.Tensor:
        """A layer, with what a program has around it."""
        hidden = lazyt.nn.functional.pad(x @ w + 0.5, (1, 1)).cumsum(1)
        return (hidden * hidden).sum(1).sqrt() / hidden.argmax(1)

    x, w = lazyt.linspace(-1, 1, 12).reshape(3, 4).realize(), lazyt.linspace(0, 2, 20).reshape(4, 5)
    expected = program(x, w).tolist()
    with compiler.using(target="numpy"):
        assert program(x, w).tolist() == expected  # to the bit
        print(lazyt.explain(program(x, w)))
        try:
            x.sort(1)[0].tolist()
        except Unsupported as error:
            print("not supported:", error)
