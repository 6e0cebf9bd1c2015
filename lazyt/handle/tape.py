"""What tensors remember of their making: the ``grad_fn`` objects.

Gradients themselves come from the graph (``transforms.vjp``). The tape holds what the pure graph
cannot: which handle was made from which, whether backward already freed it, which stored values
the gradient needs unchanged, hooks, and where a differentiable path continues when a value was
replaced without autograd noticing.

A node is a value, and equal values are one node; a tensor's place in autograd is its grad_fn and
the number of the output that it is. Hooks and retained gradients belong to that place. Where some
stand on the way of a backward, it follows the tape function by function
(``autograd/traversal.py``), for which each grad_fn knows its operands' nodes or, if it moves
elements only, how.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from lazyt import ops
from lazyt.errors import GradientError
from lazyt.handle.function_table import Traits, grad_name_of, traits_of
from lazyt.handle.grad_mode import mode
from lazyt.ir.graph import Node

if TYPE_CHECKING:
    from lazyt.autograd.retracing import Retracing
    from lazyt.autograd.saving import PackedCall
    from lazyt.handle.storage import Storage
    from lazyt.handle.tensor import Tensor
    from lazyt.handle.views import Step, View
    from lazyt.ir.dtypes import DType


# What users decide of a backward: anomaly mode, and what becomes of saved tensors.


class Anomaly:
    """Whether gradients are looked at as they are computed (``autograd.detect_anomaly``)."""

    __slots__ = ("check_nan", "enabled")

    def __init__(self) -> None:
        self.enabled = False
        self.check_nan = True


anomaly = Anomaly()


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return anomaly.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether NaN raises in anomaly mode."""
    return anomaly.check_nan


class Checks:
    """What users decide of saved tensors.

    Attributes:
        versions: whether backward refuses those that were written to.
        packer: called with each grad_fn that saves, its operands and its result's storage, while
            ``saved_tensors_hooks`` are active.
    """

    __slots__ = ("packer", "versions")

    def __init__(self) -> None:
        self.versions = True
        self.packer: Callable[[GradFn, Sequence[Any], Storage], None] | None = None


checks = Checks()


def inputs_of(kind: type[GradFn], count: int) -> list[int | None]:
    """Which of ``count`` operands PyTorch counts as a function's inputs; None for a number."""
    traits = kind.traits
    if count == 1 and traits.takes_number:
        return [0, None]
    at = count if traits.indices is None else traits.indices
    return [i for i in range(count) if i != at and not (at < 0 and i >= -at)]


Saved = tuple[tuple["Storage", int], ...]

_INFERENCE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
    "inference mode in computation tracked by autograd. To work around this, you can make a clone "
    "to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
    "`torch.inference_mode()`."
)
_uids = itertools.count(1)
next_uid = _uids.__next__
next_number = itertools.count(1).__next__
_hook_keys = itertools.count()
_new = object.__new__
_weak = weakref.ref


class RemovableHandle:
    """What registering a hook returns; ``remove()`` takes the hook away. A context manager too."""

    __slots__ = ("_hooks", "id")

    def __init__(self, hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self.id = next(_hook_keys)
        self._hooks = hooks
        hooks[self.id] = hook

    def remove(self) -> None:
        """Take the hook away; doing so twice is harmless."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Extra:
    """What only few grad_fns have.

    Attributes:
        hooks: functions of the first output's gradient, by key.
        others: those of other outputs' gradients, by the number of the output.
        history: where differentiation continues below a boundary, else None.
        retained: the tensors whose ``.grad`` is to receive the gradient, each with the number of
            the output that it is.
        metadata: what users note.
        owner: the tensor that was made, once somebody asked it for its grad_fn.
        packed: the call whose operands ``saved_tensors_hooks`` packed.
        prehooks, posthooks: functions of the tuple of gradients that arrives, and of those that
            leave and arrive, by key.
        retraced: of a gradient that the graph alone gave, the backward and whose gradient it is.
    """

    __slots__ = (
        "history", "hooks", "metadata", "others", "owner", "packed", "posthooks", "prehooks",
        "retained", "retraced",
    )  # fmt: skip

    def __init__(self) -> None:
        self.hooks: dict[int, Callable[[Any], Any]] = {}
        self.others: dict[int, dict[int, Callable[[Any], Any]]] = {}
        self.history: Node | None = None
        self.retained: list[tuple[int, weakref.ref[Tensor]]] = []
        self.metadata: dict[Any, Any] = {}
        self.owner: weakref.ref[Tensor] | None = None
        self.packed: PackedCall | None = None
        self.prehooks: dict[int, Callable[..., Any]] = {}
        self.posthooks: dict[int, Callable[..., Any]] = {}
        self.retraced: tuple[Retracing, tuple[GradFn, int]] | None = None

    def hooks_of(self, index: int) -> dict[int, Callable[[Any], Any]]:
        """The hooks on the gradient of output ``index``."""
        return self.hooks if index == 0 else self.others.setdefault(index, {})

    @property
    def interferes(self) -> bool:
        """Whether a backward that passes has to call, keep or unpack something."""
        return bool(
            self.hooks
            or self.retained
            or self.prehooks
            or self.posthooks
            or self.packed is not None
            or any(self.others.values())
        )


class Moves:
    """How a grad_fn made its output by moving elements of one operand.

    Attributes:
        steps: from a value of ``shape`` and ``dtype`` to the output's.
        parent: the number of that operand.
        index: which output of its grad_fn the operand is.
        arranged: where the value is that of a storage, the steps from there to the operand, which
            may be in another order, or a part.
    """

    __slots__ = ("arranged", "dtype", "index", "parent", "shape", "steps")

    def __init__(
        self,
        steps: tuple[Step, ...],
        shape: tuple[int, ...],
        dtype: DType,
        index: int = 0,
        parent: int = 0,
        arranged: tuple[Step, ...] = (),
    ) -> None:
        self.steps, self.shape, self.dtype = steps, shape, dtype
        self.index, self.parent, self.arranged = index, parent, arranged


class Written:
    """How a grad_fn made a storage's value by writing its second operand through a view.

    Attributes:
        view: the view that was written through.
        shape, dtype: of the storage.
        index: which output of its grad_fn the old value is.
        arranged: from there to the tensor whose storage it is.
    """

    __slots__ = ("arranged", "dtype", "index", "shape", "view")

    def __init__(
        self,
        view: View,
        shape: tuple[int, ...],
        dtype: DType,
        index: int,
        arranged: tuple[Step, ...],
    ) -> None:
        self.view, self.shape, self.dtype = view, shape, dtype
        self.index, self.arranged = index, arranged


#: How a grad_fn's output came about: its operands' nodes while the graph has them, or a rule.
#: An empty tuple for a value that replaced another one whole, of which nothing is left.
Operands = tuple["weakref.ref[Node] | None", ...] | Moves | Written


class GradFn:
    """How one differentiable result was made.

    Attributes:
        parents: the grad_fns of the tensors it was made from, None for those without gradient.
        saved: storages, with their version, that the gradient needs unchanged.
        freed: whether a backward has run through it without ``retain_graph``.
        dead: whether another backward through it must fail, because something below was freed.
        made: the node of the result, while there is one; views, and writes into parts, have none.
        operands: one for each parent, see ``Operands``.
        number: grows in the order in which grad_fns are made; backward takes the latest first.
    """

    __slots__ = (
        "__weakref__", "_extra", "dead", "freed", "made", "number", "operands", "parents", "saved",
    )  # fmt: skip

    traits: Traits = Traits()  # what is declared of grad_fns of its name
    rule: str = ""  # what its gradient reads: ``traits.saves``
    several: bool = False  # whether it may have more than one output
    runs_python: bool = False  # whether a backward calls functions of the user's for it
    computes_again: bool = False  # whether a backward computes values anew that were not stored
    refusal: str = ""  # why there is no gradient, where that is all that is known of it
    parents: tuple[GradFn | None, ...]
    saved: Saved
    freed: bool
    dead: bool
    made: weakref.ref[Node] | None
    operands: Operands
    number: float
    _extra: Extra | None

    def begin(self) -> None:
        """Set what is the same for all new grad_fns."""
        self.parents = self.saved = self.operands = ()
        self.freed = self.dead = False
        self._extra = self.made = None
        self.number = next_number()

    @property
    def extra(self) -> Extra:
        """The rare attributes, made on first use."""
        if self._extra is None:
            self._extra = Extra()
        return self._extra

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """The grad_fns of the inputs, each with the number of the output it refers to."""
        chosen = inputs_of(type(self), len(self.parents))
        return tuple(
            (None, 0) if i is None else (self.parents[i], self.output_of_parent(i)) for i in chosen
        )

    def output_of_parent(self, number: int) -> int:
        """Which output of its grad_fn operand ``number`` is."""
        parent, operands = self.parents[number], self.operands
        if parent is None or not parent.several:
            return 0
        if not isinstance(operands, tuple):
            return operands.index if number == getattr(operands, "parent", 0) else 0
        reference = operands[number] if number < len(operands) else None
        node = None if reference is None else reference()
        return 0 if node is None else output_number(parent, node)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for users' notes."""
        return self.extra.metadata

    def register_prehook(self, hook: Callable[[tuple[Any, ...]], Any]) -> RemovableHandle:
        """Call ``hook`` with the gradients that arrive here, as a tuple; what it returns replaces
        them. Returns a handle with ``remove()``.

        Raises LazytError where the tensor that this function made no longer exists.
        """
        return self._register(self.extra.prehooks, hook)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this function's gradients are known; what
        it returns replaces ``grad_inputs``. Returns a handle with ``remove()``.

        Raises LazytError where the tensor that this function made no longer exists.
        """
        return self._register(self.extra.posthooks, hook)

    def _register(
        self, hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]
    ) -> RemovableHandle:
        if not isinstance(self, AccumulateGrad):
            watched.add(self)
        return RemovableHandle(hooks, hook)

    if TYPE_CHECKING:  # ``autograd/traversal.py``, which knows derivatives, adds the method

        def __call__(self, *grads: Any) -> Any: ...

    def name(self) -> str:
        """Its name, such as ``AddBackward0``."""
        name = type(self).__name__
        return name if "Backward" in name else f"torch::autograd::{name}"

    @property
    def reads_saved(self) -> bool:
        """Whether a second backward fails, because what was saved is freed by the first one."""
        return bool(self.rule) and self.rule != "o"

    def needs_saved(self) -> bool:
        """Whether backward needs something that was saved."""
        return bool(self.rule) and (self.rule != "o" or bool(self.saved))

    def release(self) -> bool:
        """Let go of what was saved; returns whether backward needs it."""
        needed = self.needs_saved()
        self.saved = ()
        if self._extra is not None:
            self._extra.packed = None
        return needed

    def freed_all(self) -> None:
        """A backward that ran through this function has freed all that it ran through."""

    def advance(self, cotangents: list[Node | None]) -> list[tuple[Node, Node]]:
        """Continue below a boundary: pairs of node and cotangent."""
        history = self.extra.history
        cotangent = cotangents[0]
        return [] if history is None or cotangent is None else [(history, cotangent)]

    def rehearsal(self) -> AbstractContextManager[None]:
        """A block in which ``advance`` changes nothing that it reads when it comes again."""
        return nullcontext()

    def below(self) -> list[Node]:
        """The nodes that ``advance`` may continue with."""
        if self._extra is None or self._extra.history is None:
            return []
        return [self._extra.history]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


class AccumulateGrad(GradFn):
    """The end of a differentiable path: a leaf tensor that requires its gradient.

    Attributes:
        uid: number of its ``variable`` nodes.
        grad: the accumulated gradient.
        post_hooks: functions called with the tensor after accumulation.
    """

    __slots__ = ("_tensor", "grad", "post_hooks", "uid")

    def __init__(self, tensor: Tensor) -> None:
        self.begin()
        self.uid = next(_uids)
        self.grad: Tensor | None = None
        self.post_hooks: dict[int, Callable[[Any], Any]] = {}
        self._tensor = weakref.ref(tensor)
        leaves[self.uid] = self

    @property
    def variable(self) -> Tensor | None:
        """The leaf tensor, None when it no longer exists."""
        return self._tensor()

    def name(self) -> str:
        """Its name, as PyTorch spells it."""
        return "torch::autograd::AccumulateGrad"

    def rebind(self, tensor: Tensor) -> None:
        """Make ``tensor`` the leaf."""
        self._tensor = weakref.ref(tensor)

    def mark(self, value: Node) -> Node:
        """``value`` as the leaf's differentiable value."""
        return _variable(value, self.uid)


class Bridge(GradFn):
    """A boundary whose gradient simply goes on at ``history``, or nowhere when that is None."""

    __slots__ = ()

    def __init__(self, history: Node | None) -> None:
        self.begin()
        self.extra.history = history


class Flat(GradFn):
    """The grad_fn of a gradient that does not change with the nodes that it depends on."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.begin()
        self.nodes = tuple(nodes)

    def below(self) -> list[Node]:
        """The nodes that it depends on."""
        return [*self.nodes]

    def advance(self, cotangents: list[Node | None]) -> list[tuple[Node, Node]]:
        """Zeros for each of them."""
        return [(node, ops.zeros_like(node)) for node in self.nodes]


leaves: weakref.WeakValueDictionary[int, AccumulateGrad] = weakref.WeakValueDictionary()
# Keyed by node, so that a boundary lives as long as a graph that contains it.
boundaries: weakref.WeakKeyDictionary[Node, tuple[GradFn, int]] = weakref.WeakKeyDictionary()


#: Dense values of sparse gradients. Backward passes them on like others, and nothing computes them
#: where users are given the sparse tensor that is found here (``node_hooks.gradient_tensor``).
sparse_forms: weakref.WeakKeyDictionary[Node, Tensor] = weakref.WeakKeyDictionary()


#: Grad_fns, except leaves, that may have hooks, retained gradients or packed operands.
watched: weakref.WeakSet[GradFn] = weakref.WeakSet()


def output_number(fn: GradFn, node: Node) -> int:
    """Which output of ``fn`` a node is."""
    known = boundaries.get(node)
    return known[1] if known is not None and known[0] is fn else 0


def hand_over(old: GradFn | None, new: GradFn | None, tensor: Tensor | None = None) -> None:
    """Retain the gradient of what ``new`` made instead of ``old``, whose tensor (or ``tensor``
    only) was written to."""
    if old is None or old is new or old._extra is None or not old._extra.retained:
        return
    moved = [item for item in old._extra.retained if tensor is None or item[1]() is tensor]
    old._extra.retained = [item for item in old._extra.retained if item not in moved]
    if new is not None and moved and not isinstance(new, AccumulateGrad):
        new.extra.retained += [(0, reference) for _, reference in moved]
        watched.add(new)


def _variable(value: Node, uid: int) -> Node:
    node = ops.variable(value, uid)
    if node.data is None and value.data is not None:
        node.data = value.data  # an identity: what is computed below is computed here
    return node


def boundary(value: Node, fn: GradFn, index: int = 0) -> Node:
    """A node with ``value`` whose gradient is handed to ``fn`` instead of flowing into ``value``.

    ``fn.advance`` says where it continues. This is how hooks, custom functions and values that
    were replaced without autograd noticing fit into a pure graph.
    """
    hidden = value
    if value.needs_grad:
        hidden = ops.detach(value)
        hidden.data = value.data
    node = _variable(hidden, next(_uids))
    boundaries[node] = (fn, index)
    return node


_types: dict[str, type[GradFn]] = {}


def fn_type(name: str) -> type[GradFn]:
    """The class of grad_fns of a full name, or of a function's such as ``log_softmax``."""
    found = _types.get(name)
    if found is not None:
        return found
    full = name
    if "Backward" not in name and name != "CopySlices":
        full = grad_name_of(name) + "Backward0"
    found = _types.get(full)
    if found is None:
        traits = traits_of(full)
        body = {"__slots__": (), "traits": traits, "rule": traits.saves}
        found = _types[full] = type(full, (GradFn,), body)
    _types[name] = found
    return found


def record(name: str, parents: Sequence[Any], result: Storage | None) -> GradFn:
    """The grad_fn of a result.

    Args:
        name: of the function, see ``fn_type``.
        parents: its operands; other values than tensors are passed over.
        result: the result's storage, None where it has none of its own.
    """
    kind = _types.get(name) or fn_type(name)
    fn = _new(kind)
    fns: list[GradFn | None] = []
    storages: list[Storage] = []
    nodes: list[weakref.ref[Node] | None] = []
    for parent in parents:
        storage = getattr(parent, "_storage", None)
        if storage is not None:
            view = parent._view
            if view is None:
                fns.append(storage.fn)
                nodes.append(_weak(storage.node))
            else:
                fns.append(view.fn_now(storage))
                shown = view.shown(storage)
                nodes.append(None if shown is None else _weak(shown))
            storages.append(storage)
    fn.parents = tuple(fns)
    fn.operands = tuple(nodes)
    fn.number = next_number()
    fn.freed = fn.dead = False
    fn._extra = None
    fn.made = None if result is None else _weak(result.node)
    rule = kind.rule
    fn.saved = _saved(rule, fns, storages, result) if rule else ()
    if rule and checks.packer is not None and result is not None:
        checks.packer(fn, parents, result)
    return fn


def titled(result: Tensor, name: str) -> Tensor:
    """``result`` with the full name of PyTorch's grad_fn, where a function there has several forms.

    The shorter name that it was made with is the one that other tables know.
    """
    fn = result._fn
    if fn is not None and not isinstance(fn, AccumulateGrad):
        fn.__class__ = fn_type(name)
    return result


def remember(result: Any, *others: Any) -> None:
    """Note that the gradient of ``result`` also needs the tensors ``others`` unchanged."""
    fn = result._fn
    if fn is not None and not isinstance(fn, AccumulateGrad):
        more = saved_versions([o._storage for o in others])
        fn.saved = (*fn.saved, *more)


def record_view(name: str, parent: GradFn, operands: Operands = ()) -> GradFn:
    """The grad_fn of a view of what ``parent`` made; without ``operands``, of a value that
    replaced that."""
    fn = _new(_types.get(name) or fn_type(name))
    fn.parents = (parent,)
    fn.saved = ()
    fn.freed = fn.dead = False
    fn._extra = fn.made = None
    fn.operands = operands
    fn.number = next_number()
    return fn


def _saved(
    rule: str, fns: list[GradFn | None], storages: list[Storage], result: Storage | None
) -> Saved:
    if rule == "r":
        return () if result is None else saved_versions([result])
    if rule == "p" and len(fns) == 2:
        saved = [storages[i] for i in (0, 1) if fns[1 - i] is not None]
    else:
        saved = [storages[i] for letter in rule for i in _saved_inputs(letter, fns, storages)]
        if "r" in rule and result is not None:
            saved.append(result)
    return saved_versions(saved)


def saved_versions(storages: Iterable[Storage]) -> Saved:
    """Storages with their versions. Raises GradientError for those of inference tensors."""
    saved = []
    for storage in storages:
        if storage.version < 0 and not mode.inference:
            raise GradientError(_INFERENCE)
        saved.append((storage, storage.version_now()))
    return tuple(saved)


def _saved_inputs(
    letter: str, fns: list[GradFn | None], storages: list[Storage]
) -> Iterable[int]:  # fmt: skip
    """Which inputs one letter of a rule keeps; the letters are explained in ``Traits``."""
    count = len(fns)
    if letter == "a":
        return range(count)
    if letter in "sl":
        return range(min(count, 1)) if letter == "s" else range(2, count)
    if letter in "PD":
        return [i + 1 for i in _saved_inputs(letter.lower(), fns[1:], storages[1:])]
    if letter in "oOK" and (count < 2 or fns[1] is None):
        return ()
    if letter in "oO":
        return range("oO".index(letter), count)
    if letter in "kK":
        return [i for i in range(count) if storages[i].node.dtype.kind not in "fc"]
    if letter == "e":
        return [i for i in range(count) if fns[i] is not None]
    if letter in "pd":
        required = sum(fn is not None for fn in fns)
        saved = [i for i in range(count) if required > (fns[i] is not None)]
        return saved if letter == "p" or count < 2 or 1 in saved else [*saved, 1]
    return ()
