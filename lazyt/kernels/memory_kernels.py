"""C and CUDA C kernels over memory as operations: what they are given, checked, and what they give.

A call becomes nodes of the graph (``lazyt/ops/custom.py``), so that a kernel is launched inside of
plans, in order with all others. Before, the indices in its text are proved to stay inside of the
arrays that it gets (``lazyt/codegen/proof/``).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, NoReturn

from lazyt import ops
from lazyt.autograd.function import Function
from lazyt.codegen.handwritten.kernel import Kernel, Parameter
from lazyt.codegen.handwritten.types import NAMES
from lazyt.codegen.proof.c_bounds import check_function
from lazyt.config import config
from lazyt.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    NoCompilerError,
    ShapeError,
    SourceError,
    warn,
)
from lazyt.functional.operands import Number, as_number, constant_of
from lazyt.functional.results import give
from lazyt.handle.hooks import hook
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node, Shape, make
from lazyt.ops.custom import CustomParams, custom, runners
from lazyt.plan.planning import realize
from lazyt.runtime.memory import Buffer

#: The shape of a result: sizes by name, the name of an input that has it, or a function of the
#: inputs' shapes.
Out = str | Callable[..., Sequence[int]]
Grid = int | str | Callable[..., int]

_SIZE = re.compile(r"\*?[A-Za-z_]\w*|\d+")
_MOST_THREADS = 1024
#: Calls that are remembered, with their sizes.
_MOST_KNOWN = 1024


class Binding(NamedTuple):
    """What one call of a kernel was given.

    Attributes:
        nodes: the values that it reads, in the order of its parameters.
        sizes: its whole numbers by name.
        shapes: of what it reads, and of its results.
    """

    nodes: list[Node]
    sizes: dict[str, int]
    shapes: tuple[list[Shape], list[Shape]]


class MemoryKernel:
    """A kernel as a function of tensors; ``c_kernel`` and ``cuda_kernel`` make it.

    Attributes:
        name: what plans call it.
        source: its text.
    """

    def __init__(
        self,
        source: str,
        name: str | None,
        inputs: Mapping[str, str],
        out: Out | Mapping[str, Out] | None,
        rules: Mapping[str, Callable[..., Any] | None],
        trust: bool,
        launch: tuple[Grid, int] | None,
    ) -> None:
        self._word = "c_kernel" if launch is None else "cuda_kernel"
        try:
            self._kernel = Kernel(source, launch is not None, trust)
        except SourceError as error:
            raise SourceError(f"{self._word}: {error}", error.line, error.column) from None
        self.source = source
        self.name = self._kernel.name if name is None else name
        self.__name__ = self.__qualname__ = self.name
        self._trust, self._launch = trust, launch
        self._specs = {key: self._split(key, text) for key, text in inputs.items()}
        every = self._kernel.parameters
        self._inputs = [item for item in every if item.kind in ("in", "number")]
        self._results = [item for item in every if item.kind == "out"]
        self._check_specs()
        taken = {item.name for item in self._inputs}
        bound = {token.lstrip("*") for spec in self._specs.values() for token in spec}
        self.arguments = tuple(
            item.name
            for item in every
            if item.kind in ("in", "number") or (item.kind == "size" and item.name not in bound)
        )
        self._out = self._outputs(out)
        self._free = [name for name in self.arguments if name not in taken]
        words = re.split(r"\W|_", self.name)
        self._title = "".join(word[:1].upper() + word[1:] for word in words) or "Custom"
        #: Calls whose accesses were proved, by shapes and whole numbers.
        self._known: dict[tuple[Any, ...], CustomParams] = {}
        self._given = (source, name, dict(inputs), out, dict(rules), trust, launch)
        self._rule = _rule(self, rules) if any(rules.values()) else None

    def _fail(self, what: str) -> NoReturn:
        raise ArgumentError(f"{self._word} {self.name}: {what}")

    def _split(self, key: str, text: str) -> list[str]:
        tokens = text.split() if isinstance(text, str) else [""]
        stars = [n for n, token in enumerate(tokens) if token.startswith("*")]
        if not all(_SIZE.fullmatch(token) for token in tokens) or stars not in ([], [0]):
            self._fail(
                f"the shape of {key} is sizes such as 'rows columns', the first perhaps '*rows' "
                f"for all axes before the others; not {text!r}"
            )
        return tokens

    def _check_specs(self) -> None:
        names = [item.name for item in self._inputs if item.kind == "in"]
        for key in self._specs:
            if key not in names:
                self._fail(f"{key} is no const pointer of the kernel; these are {_listed(names)}")

    def _outputs(self, out: Out | Mapping[str, Out] | None) -> dict[str, Out]:
        names = [item.name for item in self._results]
        pointers = [item.name for item in self._inputs if item.kind == "in"]
        if out is None:
            if not pointers:
                self._fail("it reads no array, so out= has to say the shape of its result")
            out = pointers[0]
        if not isinstance(out, Mapping):
            out = dict.fromkeys(names, out)
        if sorted(out) != sorted(names):
            self._fail(f"its results are {_listed(names)}, and out= has {_listed(list(out))}")
        for key, form in out.items():
            if not callable(form) and form not in pointers:
                self._split(key, form)
        return dict(out)

    # ------------------------------------------------------------- calling

    def __call__(self, *args: Tensor | Number, **named: Tensor | Number) -> Any:
        """The kernel's results: a tensor, or a tuple of several; see ``c_kernel``."""
        values = self._in_order(args, named)
        return self.applied(values) if self._rule is None else self._rule.apply(*values)

    def _in_order(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The arguments in the order of ``arguments``."""
        listed = ", ".join(self.arguments)
        if len(args) > len(self.arguments):
            raise DTypeError(
                f"{self.name}() takes {len(self.arguments)} arguments ({listed}), not {len(args)}"
            )
        found: dict[str, Any] = dict(zip(self.arguments, args))
        for key, value in named.items():
            if key not in self.arguments or key in found:
                why = "was given twice" if key in found else f"is none of its arguments ({listed})"
                raise DTypeError(f"{self.name}(): '{key}' {why}")
            found[key] = value
        missing = [key for key in self.arguments if key not in found]
        if missing:
            raise DTypeError(f"{self.name}(): missing {_listed(missing)}")
        return [found[key] for key in self.arguments]

    def applied(self, values: Sequence[Any]) -> Any:
        """The results as nodes of the graph, without the user's derivatives."""
        given = dict(zip(self.arguments, values))
        nodes = [self._operand(item, given[item.name]) for item in self._inputs]
        whole = {name: self._whole(name, given[name]) for name in self._free}
        key = (*[node.shape for node in nodes], *whole.values())
        params = self._known.get(key)
        if params is None:
            binding = self._bind(nodes, whole)
            blocks, threads = self._grid(binding)
            self._prove(binding, blocks, threads)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = params = self._params(binding, blocks, threads)
        parents = [value for value in values if isinstance(value, Tensor)]
        self._check_devices(parents)
        made = [give(node, self._title, parents) for node in custom(params, nodes)]
        return made[0] if len(made) == 1 else tuple(made)

    def _bind(self, nodes: list[Node], whole: Mapping[str, int]) -> Binding:
        """Sizes and shapes of a call with these operands and whole numbers."""
        sizes: dict[str, int] = {}
        for item, node in zip(self._inputs, nodes, strict=True):
            if item.kind == "in":
                self._measure(item.name, node.shape, sizes)
        sizes.update(whole)
        shapes = [node.shape for node in nodes]
        pointers = [
            node.shape for node, item in zip(nodes, self._inputs, strict=True) if item.kind == "in"
        ]
        results = [self._shape_of(item.name, pointers, sizes) for item in self._results]
        return Binding(nodes, sizes, (shapes, results))

    def _operand(self, item: Parameter, value: Any) -> Node:
        """The value of a pointer, or of a float, as a node."""
        if not isinstance(value, Tensor):
            number = as_number(value)
            if item.kind == "in" or number is None:
                kind = "a tensor" if item.kind == "in" else "a number"
                self._refuse(item.name, f"{kind}, not {type(value).__name__}")
            return constant_of(value, item.dtype)
        if value.dtype is not item.dtype:
            wanted = f"{item.dtype.name} ({NAMES.get(item.dtype, item.dtype.name)} in C)"
            self._refuse(item.name, f"{wanted}, not {value.dtype.name}")
        if item.kind == "number" and value.ndim:
            self._refuse(item.name, f"one number, not a tensor of shape {list(value.shape)}")
        return value.node

    def _whole(self, name: str, value: Any) -> int:
        if isinstance(value, (bool, float, Tensor)) or not hasattr(value, "__index__"):
            self._refuse(name, f"a whole number, not {type(value).__name__}")
        number = operator.index(value)
        if not -(1 << 62) < number < 1 << 62:
            self._refuse(name, f"a size, not {number}")
        return number

    def _refuse(self, name: str, what: str) -> NoReturn:
        raise DTypeError(f"{self.name}(): argument '{name}' must be {what}")

    def _measure(self, name: str, shape: Shape, sizes: dict[str, int]) -> None:
        """Takes sizes from the shape of an input, and compares those that are known."""
        spec = self._specs.get(name)
        if spec is None:
            return
        text = f"{self.name}(): {name} has the shape {list(shape)}, not [{', '.join(spec)}]"
        extents = list(shape)
        if spec and spec[0].startswith("*"):
            lead = len(shape) - len(spec) + 1
            if lead < 0:
                raise ShapeError(text)
            extents = [prod(shape[:lead]), *shape[lead:]]
        if len(extents) != len(spec):
            raise ShapeError(text)
        for token, extent in zip(spec, extents):
            key = token.lstrip("*")
            known = int(key) if key.isdigit() else sizes.setdefault(key, extent)
            if known != extent:
                raise ShapeError(f"{text}: {key} is {known}")

    def _shape_of(self, name: str, shapes: Sequence[Shape], sizes: Mapping[str, int]) -> Shape:
        """The shape of a result."""
        form = self._out[name]
        pointers = [item.name for item in self._inputs if item.kind == "in"]
        if callable(form):
            found = tuple(operator.index(extent) for extent in form(*shapes))
        elif form in pointers:
            found = shapes[pointers.index(form)]
        else:
            keys = [token.lstrip("*") for token in self._split(name, form)]
            unknown = [key for key in keys if not key.isdigit() and key not in sizes]
            if unknown:
                self._fail(f"the shape of {name} has unknown sizes: {_listed(unknown)}")
            found = tuple(int(key) if key.isdigit() else sizes[key] for key in keys)
        if any(extent < 0 for extent in found):
            raise ShapeError(f"{self.name}(): {name} would have the shape {list(found)}")
        return found

    def _grid(self, binding: Binding) -> tuple[int, int]:
        """Blocks, and threads of each."""
        if self._launch is None:
            return 1, 1
        grid, threads = self._launch
        if isinstance(grid, str):
            if grid not in binding.sizes:
                self._fail(f"grid={grid!r} is none of its sizes: {_listed(list(binding.sizes))}")
            blocks = -(-binding.sizes[grid] // threads)
        else:
            blocks = operator.index(grid(**binding.sizes) if callable(grid) else grid)
        if not 0 <= blocks < 1 << 31:
            self._fail(f"a grid of {blocks} blocks")
        return blocks, threads

    def _prove(self, binding: Binding, blocks: int, threads: int) -> None:
        """Raises SourceError for an access that is not proved to be inside."""
        if self._trust:
            return
        reads, writes = binding.shapes
        places = iter(reads), iter(writes)
        nbytes: list[int] = []
        for item in self._kernel.parameters:
            if item.kind in ("in", "out", "number"):
                shape = next(places[item.kind == "out"])
                if item.kind != "number":
                    nbytes.append(prod(shape) * item.dtype.itemsize)
        found = check_function(self._kernel.proof(binding.sizes, blocks, threads), nbytes)
        if found:
            first = found[0]
            where = ", ".join(f"{name} = {size}" for name, size in binding.sizes.items())
            access = re.sub(r"\b(\d+)LL\b", r"\1", first.access)
            what = f"{access}: {first.reason}"
            if first.reason.startswith("nothing is known"):
                what += ", as of what is unsigned, or read from memory and not compared"
            if first.extent is not None and first.interval is not None:
                low, high = first.interval
                what += f" (found {low}..{high}, allowed 0..{first.extent - 1})"
            if where:
                what += f", for {where}"
            more = f"; {len(found) - 1} more are not proved" if len(found) > 1 else ""
            text = f"{what}{more}. Check the index, or pass trust=True"
            shown = self._kernel.source.located(text, first.line, first.column)
            raise SourceError(f"{self._word} {self.name}: {shown}", first.line, first.column)

    def _check_devices(self, tensors: Sequence[Tensor]) -> None:
        kinds = {tensor.device.type for tensor in tensors if tensor.ndim or len(tensors) == 1}
        wanted = "cpu" if self._launch is None else "cuda"
        if hook.watcher is not None:
            return  # under vmap tensors name no device; lowering refuses a wrong one
        if wanted == "cuda" and not kinds:
            self._fail("it reads no tensor that says on which GPU it runs")
        for kind in kinds - {wanted}:
            other = "cuda_kernel" if wanted == "cpu" else "c_kernel"
            raise DeviceError(
                f"{self.name}(): {self._word} takes tensors on {wanted}, not on {kind}; "
                f"{other} is for those"
            )

    def _params(self, binding: Binding, blocks: int, threads: int) -> CustomParams:
        slots = {"in": "in", "out": "out", "number": "value", "threads": "threads"}
        kernel = self._kernel
        grid = (blocks, threads, kernel.shared_bytes, int(kernel.collective))
        return CustomParams(
            name=self.name,
            target="c" if self._launch is None else "cuda",
            function=kernel.function,
            text=kernel.text,
            used=kernel.used,
            slots=tuple(
                str(binding.sizes[item.name]) if item.kind == "size" else slots[item.kind]
                for item in kernel.parameters
            ),
            read_shapes=tuple(binding.shapes[0]),
            read_dtypes=tuple(node.dtype for node in binding.nodes),
            shapes=tuple(binding.shapes[1]),
            dtypes=tuple(item.dtype for item in self._results),
            result=0,
            batched=(0,) * len(binding.nodes),
            examples=0,
            grid=() if self._launch is None else grid,
        )

    def __repr__(self) -> str:
        language = "C" if self._launch is None else "CUDA"
        return f"<{language} kernel {self.name}({', '.join(self.arguments)})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryKernel, self._given


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"


def _rule(kernel: MemoryKernel, rules: Mapping[str, Callable[..., Any] | None]) -> type[Function]:
    """The kernel with the derivatives, and the rule for ``vmap``, that the user gave."""
    vjp, jvp, vmap = (rules.get(word) for word in ("vjp", "jvp", "vmap"))

    def forward(*args: Any) -> Any:
        return kernel.applied(args)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.args = [None if isinstance(a, Tensor) else a for a in inputs]
        ctx.several = isinstance(output, tuple)
        tensors = [a for a in inputs if isinstance(a, Tensor)]
        ctx.save_for_backward(*tensors, *outputs)
        ctx.save_for_forward(*tensors, *outputs)

    def saved(ctx: Any) -> tuple[tuple[Any, ...], Any]:
        """The arguments, and the results."""
        waiting = iter(ctx.saved_tensors)
        args = tuple(next(waiting) if a is None else a for a in ctx.args)
        outputs = tuple(waiting)
        return args, outputs if ctx.several else outputs[0]

    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        if vjp is None:
            raise GradientError(f"{kernel.name} has no gradient: no vjp was given")
        args, output = saved(ctx)
        found = vjp(args, output, cotangents if ctx.several else cotangents[0])
        several = list(found) if isinstance(found, (tuple, list)) else [found]
        tensors = [n for n, value in enumerate(args) if isinstance(value, Tensor)]
        if len(several) != len(tensors):
            raise GradientError(
                f"{kernel.name}: vjp gives {len(several)} cotangents for {len(tensors)} tensors"
            )
        out: list[Any] = [None] * len(args)
        for place, value in zip(tensors, several):
            out[place] = value
        return tuple(out)

    def forward_derivative(ctx: Any, *tangents: Any) -> Any:
        args, output = saved(ctx)
        assert jvp is not None
        return jvp(args, output, tangents)

    members: dict[str, Any] = {"forward": forward, "setup_context": setup_context}
    members["backward"] = backward
    if jvp is not None:
        members["jvp"] = forward_derivative
    if vmap is not None:
        members["vmap"] = vmap
    title = re.sub(r"\W", "_", kernel.name).title().replace("_", "")
    made = type(title, (Function,), {name: staticmethod(f) for name, f in members.items()})
    made.__module__ = __name__
    return made


def _run_alone(node: Node, *arrays: Any) -> Any:
    """A kernel's result for the interpreter, which has no other way to know it: compiled, alone."""
    from lazyt.runtime.cpu import compile

    if not compile.available():
        raise NoCompilerError(f"{node.params.name} is a kernel in C, and there is no C compiler")
    if config.interpret:
        warn(f"the kernel {node.params.name} is compiled: it cannot be interpreted")
    leaves: list[Node] = []
    for item, array in zip(node.inputs, arrays, strict=True):
        buffer = Buffer(item.nbytes)
        buffer.as_numpy(item.dtype, item.shape)[...] = array
        leaves.append(ops.input_(item.shape, item.dtype, buffer))
    alone = make(node.op, tuple(leaves), node.params)
    with config.override(interpret=False, verify=False):
        realize([alone])
    return alone.data.as_numpy(node.dtype, node.shape)


runners.append(_run_alone)


def c_kernel(
    source: str,
    *,
    name: str | None = None,
    inputs: Mapping[str, str] | None = None,
    out: Out | Mapping[str, Out] | None = None,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    vmap: Callable[..., Any] | None = None,
    trust: bool = False,
) -> MemoryKernel:
    """A kernel in C as an operation: a function over arrays, launched inside of plans.

    The last function of the text is the kernel, those before it are helpers on numbers. It is
    ``void``, reads ``const`` pointers, writes to the others, and takes sizes (``int``, ``long``,
    ``size_t``) and floats by value. Each call proves, for the sizes at hand, that every index stays
    inside of its array. The page about kernels of your own says what may stand in a text.

    Args:
        source: the C text.
        name: what plans and errors call it; that of its function by default.
        inputs: shapes of arrays, such as ``{"x": "rows columns"}``: sizes take their values from
            there. ``*rows`` in front is the product of all axes before the others. Arrays that are
            not listed have any shape, and sizes that stand nowhere are arguments of the call.
        out: the shape of the result, by sizes, by the name of an input that has it, or by a
            function of the inputs' shapes; a dict for several. By default that of the first input.
        vjp: ``(inputs, output, cotangent) -> one cotangent (or None) for each tensor``.
        jvp: ``(inputs, output, tangents) -> tangent of the output``.
        vmap: a rule as in ``autograd.Function``. By default one launch calls the function for each
            example.
        trust: skips the proof, and lets pointers be used freely. A wrong index may then end the
            process.

    Returns a function of arrays and numbers, in the order of the parameters. It gives a tensor, or
    a tuple of several, with the dtypes of the text. What is not written has no defined value.

    Raises SourceError, with line and column of the text, for what no kernel may say, and
    ArgumentError for shapes without meaning. A call raises DTypeError, ShapeError and DeviceError
    for arguments that do not fit, and SourceError for an access that is not proved.

    Example:
        >>> double = lazyt.c_kernel('''
        ... void twice(const float *x, float *y, long n) {
        ...     for (long i = 0; i < n; i++)
        ...         y[i] = 2 * x[i];
        ... }''', inputs={"x": "n"})
        >>> double(lazyt.ones(3)).tolist()
        [2.0, 2.0, 2.0]
    """
    rules = {"vjp": vjp, "jvp": jvp, "vmap": vmap}
    return MemoryKernel(source, name, inputs or {}, out, rules, trust, None)


def cuda_kernel(
    source: str,
    *,
    grid: Grid,
    block: int = 256,
    name: str | None = None,
    inputs: Mapping[str, str] | None = None,
    out: Out | Mapping[str, Out] | None = None,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    vmap: Callable[..., Any] | None = None,
    trust: bool = False,
) -> MemoryKernel:
    """A kernel in CUDA C as an operation on GPUs: ``c_kernel`` has what both have in common.

    ``threadIdx.x``, ``blockIdx.x``, ``blockDim.x``, ``gridDim.x``, ``__syncthreads()``,
    ``__syncwarp()`` and ``__shared__`` arrays of one axis are known; grids and blocks have one
    axis. The proof holds for all threads of the grid. On the emulator (``cuda:emu``) the
    text runs on the CPU, which finds races in shared memory and barriers that not all threads
    reach.

    Args:
        source: the CUDA C text.
        grid: how many blocks: a number, a function of the sizes by name, or the name of a size, for
            one thread each.
        block: threads of a block, at most 1024.
        name, inputs, out, vjp, jvp, vmap, trust: as in ``c_kernel``. By default ``vmap`` launches
            the grid once for each example, all at the same time.

    Returns a function of tensors on a GPU. Raises as ``c_kernel``, and DeviceError for tensors on
    the CPU.

    Example:
        >>> scale = lazyt.cuda_kernel('''
        ... __global__ void scale(const float *x, float *y, int n, float by) {
        ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
        ...     if (i < n)
        ...         y[i] = x[i] * by;
        ... }''', grid="n", inputs={"x": "n"})
        >>> scale(lazyt.ones(3).to("cuda:emu"), 2.5).tolist()
        [2.5, 2.5, 2.5]
    """
    try:
        threads = operator.index(block)
    except TypeError:
        raise DTypeError(
            f"cuda_kernel: a block is a number of threads, along one axis, not {block!r}"
        ) from None
    if not 1 <= threads <= _MOST_THREADS:
        raise ArgumentError(f"cuda_kernel: a block of {threads} threads, not 1 to {_MOST_THREADS}")
    rules = {"vjp": vjp, "jvp": jvp, "vmap": vmap}
    return MemoryKernel(source, name, inputs or {}, out, rules, trust, (grid, threads))
