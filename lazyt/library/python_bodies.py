"""Operators whose kernels are Python that looks at values, in captured functions and in ``vmap``.

What a kernel does with tensors becomes part of the graph. One that reads memory (NumPy, ``item``)
or Python's state cannot: in a captured function it is a call between two plans
(``lazyt.ops.control.python_calls``), which every replay makes again, and ``vmap`` calls it for each
example. Which kernels do is found out where a captured function is observed.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lazyt import ops
from lazyt.autograd.levels import stack as levels
from lazyt.errors import LazytError
from lazyt.functional.creation.creation import empty
from lazyt.handle import pending
from lazyt.handle.dispatch import lay_out, wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.hooks import capturing, hook
from lazyt.handle.layout import is_dense
from lazyt.handle.pending import realize_nodes
from lazyt.handle.storage import raw
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import contiguous_strides
from lazyt.ir.dtypes import uint8
from lazyt.ir.graph import Node, Type
from lazyt.library.fake_context import DynamicSizeError, in_fake
from lazyt.ops.control.python_calls import PythonCall, results_of
from lazyt.plan.control.python_calls import called as called
from lazyt.runtime.memory import Buffer
from lazyt.tracing.capture import Recorder, _lock
from lazyt.tracing.frames import Frames, global_names
from lazyt.tracing.symbolic_numbers import is_symbolic, recipe_of

if TYPE_CHECKING:
    from lazyt.autograd.function import VmapInfo
    from lazyt.handle.storage import Storage
    from lazyt.handle.tape import AccumulateGrad, GradFn
    from lazyt.library.operators import Call, OpOverload, Rule

T = TypeVar("T")


def no_fake(op: OpOverload) -> str:
    """What is said of an operator without a fake kernel that needs one."""
    return (
        f"There was no fake impl registered for <CustomOpDef({op._schema.qualified_name})>. This "
        "is necessary for torch.compile/export/fx tracing to work. Please use "
        f"`{op._opname}.register_fake` to add an fake impl."
    )


def chosen(call: Call, kernel: Rule) -> Rule:
    """What to call for a kernel while a function is captured, or is observed before that."""
    op = call.op
    watcher = capturing()
    while watcher is not None and not isinstance(watcher, Recorder):
        watcher = getattr(watcher, "outer", None)
    if watcher is None:
        if op.looks is None and not levels.levels:
            return observed(op, kernel)
        return _unnoted(kernel) if op.looks else kernel
    has_fake = op.fake is not None or not op._schema.returns
    if op.looks is False or (op.looks is None and not has_fake):
        return kernel
    if not has_fake:
        watcher.refuse(no_fake(op))
        return kernel
    if not all(item.kind == "Tensor" for item in op._schema.returns):
        watcher.refuse(f"{op} gives numbers that its Python computes")
        return kernel
    return _stepped(call, kernel, watcher)


# ------------------------------------------------------------------- which kernels look at values


class _Listener:
    """Hears whether a kernel looks at values.

    Attributes:
        looked_at: whether it did.
    """

    def __init__(self, outer: Any) -> None:
        self.outer, self.looked_at = outer, False

    mine = True

    def looked(self, reason: str, where: str, nodes: Sequence[Node]) -> None:
        """A look at values."""
        self.looked_at = True

    def looked_behind(self, storage: Storage) -> None:
        """A look at memory."""
        self.looked_at = True

    def number(self, node: Node, reason: str) -> int | None:
        """A look at one element."""
        self.looked_at = True
        return None

    def checked(self, node: Node, bounds: tuple[tuple[int, int], tuple[int, int]]) -> None:
        """Nothing: a capture checks it again."""

    def verified(self, node: Node) -> bool:
        """False: the value is looked at."""
        return False

    def read(self, storage: Storage) -> None:
        """Nothing."""

    def wrote(self, storage: Storage, value: Node) -> None:
        """Nothing."""

    def created(self, storage: Storage) -> None:
        """Nothing."""

    def communicated(self, node: Node) -> None:
        """Nothing."""

    def accumulated(self, leaf: AccumulateGrad) -> None:
        """Nothing."""

    def differentiated(self, order: Sequence[GradFn]) -> None:
        """Nothing."""

    def renewed(self, storage: Storage, name: str) -> None:
        """Nothing."""

    def whole(self, node: Node) -> Node:
        """The node."""
        return node

    def filled(self, make: Callable[[], Node], key: Hashable) -> Node:
        """A leaf that is made now."""
        return make()

    def random_key(self, make: Callable[[], Node]) -> Node:
        """A leaf that is made now."""
        return make()

    def each_call(self, function: Callable[[], T]) -> T:
        """What the function gives."""
        return function()

    def counted(
        self, table: Mapping[str, Any], names: tuple[str, ...], value: Hashable
    ) -> Hashable:
        """The value."""
        return value


def observed(op: OpOverload, kernel: Rule) -> Rule:
    """A kernel that finds out, while it runs, whether it looks at values."""

    def watched(*args: Any, **named: Any) -> Any:
        outer = _active_frames()
        listener, frames = _Listener(hook.watcher), Frames()
        with _lock:
            before, hook.watcher = hook.watcher, listener
            try:
                with frames:
                    found = kernel(*args, **named)
            finally:
                hook.watcher = before
        shared = any(t._storage.share is not None for t in _leaves(found))
        troubled = frames.trouble is not None or shared or _reads_state(kernel)
        op.looks = listener.looked_at or troubled
        if not op.looks and outer is not None:
            outer.codes.update(frames.codes)
        return found

    return watched


def _unnoted(kernel: Rule) -> Rule:
    """A kernel whose code is none of the function's that calls it."""
    frames = _active_frames()
    if frames is None:
        return kernel

    def run(*args: Any, **named: Any) -> Any:
        frames.paused += 1
        try:
            return kernel(*args, **named)
        finally:
            frames.paused -= 1

    return run


def _active_frames() -> Frames | None:
    """What notes the code that this thread runs, if something does."""
    found = getattr(sys.getprofile(), "__self__", None)
    return found if isinstance(found, Frames) else None


def _reads_state(kernel: Any) -> bool:
    """Whether a kernel can reach variables of functions around it, or objects that may change."""
    if not isinstance(kernel, FunctionType) or kernel.__closure__ is not None:
        return True
    code = kernel.__code__
    if any(step.opname == "STORE_GLOBAL" for step in dis.get_instructions(code)):
        return True
    table = kernel.__globals__
    found = [table[name] for name in global_names(code) if name in table]
    known = (ModuleType, FunctionType, BuiltinFunctionType, type, int, float, str, bool, type(None))
    return not all(isinstance(value, known) for value in found)


# ------------------------------------------------------------------- calls between plans


class _Operand(NamedTuple):
    """A tensor among the arguments, by its number."""

    number: int


class _Changing(NamedTuple):
    """A number among the arguments that another call may have otherwise, as it is calculated."""

    recipe: Callable[[], Any]


class Body:
    """A kernel as a function from buffers to buffers, with the other arguments of one call.

    Attributes:
        op: the operator.
        tensors: those among the arguments; let go of by ``forget``.
        types: those of the results; what is written to follows what is returned.

    Args:
        call: the call, whose results are taken apart in the same way.
        kernel: the kernel.
        bound: the arguments by name.
    """

    def __init__(self, call: Call, kernel: Rule, bound: Mapping[str, Any]) -> None:
        self.op, self._kernel, self._kind, self._make = call.op, kernel, call.kind, type(call)
        self.tensors: list[Tensor] = []
        self._bound = {name: self._encoded(value) for name, value in bound.items()}
        self._layouts = [(t.node.type, _layout(t)) for t in self.tensors]
        self.written = [
            number
            for item in self.op._schema.arguments
            if item.is_written
            for number in _numbers(self._bound[item.name])
        ]
        self.types: tuple[Type, ...] = ()
        self.results: list[int] = []

    def _encoded(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return _Operand(len(self.tensors) - 1)
        if isinstance(value, (list, tuple)):
            return [self._encoded(item) for item in value]
        return _Changing(recipe_of(value)) if is_symbolic(value) else value

    def forget(self) -> list[Tensor]:
        """Gives the tensors, and does not hold on to them any more."""
        tensors, self.tensors = self.tensors, []
        return tensors

    def over(self, tensors: Sequence[Tensor]) -> dict[str, Any]:
        """The arguments by name, with other tensors."""

        def decoded(value: Any) -> Any:
            if isinstance(value, _Operand):
                return tensors[value.number]
            if isinstance(value, _Changing):
                return value.recipe()
            return [decoded(item) for item in value] if isinstance(value, list) else value

        return {name: decoded(value) for name, value in self._bound.items()}

    def fakes(self) -> list[Tensor]:
        """The results, by the operator's fake kernel, and what is written to. Raises
        DynamicSizeError where sizes depend on values, and what the fake kernel raises."""
        metas = []
        for (shape, dtype), strides in self._layouts:
            made = empty(shape, dtype=dtype, device="meta")
            metas.append(made if strides is None else lay_out(made, strides))
        fake = self.op.fake or _nothing  # which is right for what returns nothing
        call = self._make(self.op, self.over(metas), "meta")
        with in_fake():
            flat = [*call.spread_results(call.run(fake))]
        self.results = call.results
        return [*flat, *(metas[number] for number in self.written)]

    def fake_types(self) -> tuple[Type, ...]:
        """The types of ``fakes``."""
        return tuple(Type(tuple(t.shape), t.dtype) for t in self.fakes()) or _NOTHING

    def __call__(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """The buffers of the results. Raises LazytError for results of other types than ``types``,
        where these are known."""
        with undisturbed(), no_grad():
            tensors = []
            for number, ((shape, dtype), strides) in enumerate(self._layouts):
                data = buffers[number].copy() if number in self.written else buffers[number]
                made = wrap(ops.input_(shape, dtype, data), name="Clone")
                tensors.append(made if strides is None else lay_out(made, strides))
            call = self._make(self.op, self.over(tensors), self._kind)
            flat = [*call.spread_results(call.run(self._kernel))]
            self.results = call.results
            flat += [tensors[number] for number in self.written]
            nodes = [raw(tensor.node) for tensor in flat]
            types = tuple(Type(node.shape, node.dtype) for node in nodes) or _NOTHING
            if self.types and types != self.types:
                raise LazytError(
                    f"{self.op}: its kernel gave {_told(types)}, and {_told(self.types)} when the "
                    "function around it was captured: results whose sizes depend on values need a "
                    "fake kernel that says so, by torch.library.get_ctx().new_dynamic_size()"
                )
            self.types = types
            realize_nodes([node for node in nodes if node.data is None])
            # NumPy may go on to write to memory that it shares.
            made_of = zip(flat, nodes)
            out = [n.data if t._storage.share is None else n.data.copy() for t, n in made_of]
        return out or [Buffer(1)]


#: What stands for the result of a call that gives none.
_NOTHING = (Type((), uint8),)


def _nothing(*_: Any, **__: Any) -> None:
    """The fake kernel of an operator that gives no results."""


def _told(types: Sequence[Type]) -> str:
    return ", ".join(f"{dtype.name}{list(shape)}" for shape, dtype in types)


def _layout(tensor: Tensor) -> tuple[int, ...] | None:
    """The strides of a tensor that is dense and not row-major."""
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    if strides == contiguous_strides(shape) or not is_dense(shape, strides):
        return None
    return strides


def _numbers(value: Any) -> list[int]:
    if isinstance(value, _Operand):
        return [value.number]
    if isinstance(value, list) and not isinstance(value, str):
        return [n for item in value for n in _numbers(item)]
    return []


def _leaves(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [t for item in value for t in _leaves(item)] if isinstance(value, (list, tuple)) else []


@contextmanager
def undisturbed() -> Iterator[None]:
    """A block that runs as outside of captures and transforms: none hears of it, and none of its
    code is noted."""
    frames = _active_frames()
    outer = levels.levels[:]
    watcher, nodes = hook.watcher, pending.budget.nodes
    if frames is not None:
        frames.paused += 1
    if watcher is not None:
        hook.watcher, pending.budget.nodes = None, max(nodes, _ROOM)
    del levels.levels[:]
    try:
        yield
    finally:
        levels.levels[:] = outer
        if watcher is not None:
            hook.watcher, pending.budget.nodes = watcher, nodes
        if frames is not None:
            frames.paused -= 1


#: Nodes that a body may leave pending before they are measured.
_ROOM = 1000


def _stepped(call: Call, kernel: Rule, recorder: Recorder) -> Rule:
    """A kernel that becomes a call between two plans of the captured function."""
    op = call.op

    def between_plans(*args: Any, **named: Any) -> Any:
        places = [item.name for item in op._schema.arguments if not item.is_keyword]
        body = Body(call, kernel, {**dict(zip(places, args)), **named})
        operands = [raw(tensor.node) for tensor in body.tensors]
        ready: list[Buffer] | None = None
        with undisturbed():
            try:
                types = body.fake_types()
            except DynamicSizeError:
                types = ()
        if not types:
            recorder.refuse(f"the size of what {op} gives depends on values")
            return kernel(*args, **named)
        if recorder.stops:
            body.types = types
        else:
            realize_nodes([node for node in operands if node.data is None])
            ready = body([node.data for node in operands])
            if body.types != types:
                raise LazytError(
                    f"{op}: its kernel gives {_told(body.types)}, and its fake kernel says "
                    f"{_told(types)}"
                )
        call.results = body.results
        made = PythonCall(str(op), body, types)
        made.ready = ready
        nodes = results_of(made, operands)
        for node, data in zip(nodes, ready or ()):
            node.data = data
        if not recorder.stops:
            recorder.activity += 1
            recorder.python_calls.append(nodes[0])
        tensors = body.forget()
        first = len(types) - len(body.written)
        for number, node in zip(body.written, nodes[first:]):
            with no_grad():
                tensors[number].copy_(wrap(node, name="Clone"))
        if not op._schema.returns:
            return None
        return call.gathered([wrap(node, name="Clone") for node in nodes[:first]])

    return between_plans


# ------------------------------------------------------------------- many examples


def looped(call: Call) -> Callable[..., Any]:
    """The rule for ``vmap`` of an operator that has none: the operator, for each example."""

    def rule(info: VmapInfo, in_dims: Sequence[Any], *flat: Any) -> Any:
        from lazyt.functional.shapes.joining import stack

        rows = []
        for number in range(info.batch_size):
            own = [v if d is None else v.select(d, number) for v, d in zip(flat, in_dims)]
            found = call.op(*call.unflat(own), **call.named)
            rows.append(call.spread_results(found))
        made = tuple(stack(list(column)) for column in zip(*rows))
        return made, (0,) * len(made)

    return rule


__all__ = ["Body", "chosen", "looped", "no_fake", "observed", "undisturbed"]
