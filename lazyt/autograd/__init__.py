"""Gradients, by PyTorch's names: ``backward``, ``grad``, switches, hooks and custom functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from lazyt import ops
from lazyt.autograd import handles as handles
from lazyt.autograd.engine import (
    Backward,
    accumulate,
    check_tape,
    flat_nodes,
    flattened,
    free_tape,
    running,
    stale_nodes,
    walk_tape,
)
from lazyt.autograd.function import Function as Function
from lazyt.autograd.handles import zero_like
from lazyt.autograd.node_hooks import call_hooks, ends, gradient_tensor, run_hooks
from lazyt.autograd.retracing import Retracing, behind, link
from lazyt.autograd.traversal import Order, Root, Traversal, plain
from lazyt.errors import ArgumentError, DTypeError, GradientError, ShapeError
from lazyt.handle import grad_mode as grad_mode
from lazyt.handle.dispatch import method
from lazyt.handle.grad_mode import enable_grad as enable_grad
from lazyt.handle.grad_mode import inference_mode as inference_mode
from lazyt.handle.grad_mode import no_grad as no_grad
from lazyt.handle.grad_mode import set_grad_enabled as set_grad_enabled
from lazyt.handle.hooks import differentiated, hook
from lazyt.handle.tape import AccumulateGrad, GradFn, boundaries, output_number, watched
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import package_name
from lazyt.ir.graph import Node
from lazyt.ops.leaves import VARIABLE

Tensors = Tensor | Sequence[Tensor]


def _roots(outputs: Sequence[Tensor], given: Sequence[Tensor | None]) -> list[tuple[Node, Node]]:
    """Outputs with their cotangents; raises GradientError, ShapeError as PyTorch does."""
    pairs = []
    if given and len(given) != len(outputs):
        raise GradientError(f"got {len(outputs)} tensors and {len(given)} gradients")
    for index, output in enumerate(outputs):
        if output._fn is None:
            raise GradientError(
                f"element {index} of tensors does not require grad and does not have a grad_fn"
            )
        cotangent = given[index] if index < len(given) else None
        node = output.node
        if cotangent is None:
            if node.size != 1:
                raise GradientError("grad can be implicitly created only for scalar outputs")
            if node.dtype.kind == "c":
                raise GradientError(
                    "grad can be implicitly created only for real scalar outputs but got "
                    f"{package_name()}.{node.dtype.name}"
                )
            one = ops.constant(1, node.dtype)
            pairs.append((node, ops.reshape(one, node.shape) if node.shape else one))
            continue
        if not isinstance(cotangent, Tensor):
            raise DTypeError(
                f"gradients can be either Tensors or None, but got {type(cotangent).__name__}"
            )
        if cotangent.shape != output.shape:
            raise ShapeError(
                f"Mismatch in shape: grad_output[{index}] has a shape of {cotangent.shape} and "
                f"output[{index}] has a shape of {output.shape}."
            )
        pairs.append((node, ops.cast(cotangent.node, node.dtype)))
    return pairs


def _fns(tensors: Sequence[Tensor]) -> list[GradFn]:
    return [fn for tensor in tensors if (fn := tensor._fn) is not None]


def _leads_to(outputs: Sequence[Tensor], fn: GradFn | None) -> bool:
    """Whether a path leads from ``outputs`` to ``fn``, as far as the tape tells.

    Equal values have one node, so a node may be met though its tensor was not used.
    """
    if isinstance(fn, AccumulateGrad):
        return True
    order = walk_tape(_fns(outputs), None)
    # A gradient does not tell what it was made from.
    return fn in order or any(not f.parents and not isinstance(f, AccumulateGrad) for f in order)


def _place(tensor: Tensor) -> tuple[GradFn, int]:
    """A tensor's place on the tape: its grad_fn, and which of its outputs it is."""
    fn = tensor._fn
    assert fn is not None
    known: int | None = getattr(tensor, "index", None) if not isinstance(tensor, Tensor) else None
    if known is not None:
        return fn, known
    return fn, output_number(fn, tensor.node) if fn.several else 0


def _has_hooks(order: Iterable[GradFn], create_graph: bool, now: bool = True) -> bool:
    """Whether something in ``order`` needs the tape for itself: hooks and the like, or saved values
    that were written to without autograd knowing; with autograd's knowledge if ``now``, where that
    is an error."""
    hooks = bool(watched)
    for fn in order:
        extra = fn._extra
        if hooks and extra is not None and extra.interferes and not isinstance(fn, AccumulateGrad):
            return True
        if (
            create_graph and fn.runs_python
        ):  # a user's function is not called again for its derivative
            return True
        for storage, version in fn.saved:
            known = not now and storage.version_now() != version
            if storage.share is not None and not known and stale_nodes(storage):
                return True
    return False


def _shares_nodes(inner: Sequence[Tensor], order: Iterable[GradFn]) -> bool:
    """Whether gradients of the nodes of ``inner``, no leaves, may be those of other tensors, which
    ``order`` made."""
    own: set[Node] = set()
    for tensor in inner:
        made = getattr(tensor._fn, "made", None)
        node = None if made is None else made()
        if node is None or node is not tensor.node or node.op is VARIABLE:
            return True
        operands = tensor._fn.operands if tensor._fn is not None else ()
        if isinstance(operands, tuple) and any(o is not None and o() is node for o in operands):
            return True
        own.add(node)
    fns = set(_fns(inner))
    for fn in order:
        if fn.made is not None and fn not in fns and fn.made() in own:
            return True
    return len(own) < len(fns)


def _needs_tape(
    order: Sequence[GradFn], outputs: Sequence[Tensor], inner: Sequence[Tensor], create_graph: bool
) -> bool:
    """Whether a backward through ``order`` has to follow the tape: for what is there, or for the
    gradients of ``inner``, no leaves, where those of their nodes may be others'."""
    if create_graph and watched:  # what these gradients are made of is met when they are derived
        order = walk_tape(_fns(outputs), None)
    if _has_hooks(order, create_graph):
        return True
    return bool(inner) and _shares_nodes(inner, walk_tape(_fns(outputs), None))


def _needs_links(hidden: Sequence[GradFn], inner: Sequence[Tensor], create_graph: bool) -> bool:
    """Whether it matters for a backward what gradients on its way were made of: ``hidden``."""
    if not hidden:
        return False
    if _has_hooks(hidden, create_graph, now=False):
        return True
    return bool(inner) and _shares_nodes(inner, hidden)


def _way(
    outputs: Sequence[Tensor],
    targets: set[GradFn] | None,
    inner: Sequence[Tensor],
    create_graph: bool,
) -> tuple[list[GradFn], bool]:
    """The grad_fns to be run from ``outputs`` to ``targets``, and whether along the tape, which is
    then complete."""
    roots = _fns(outputs)
    links = _needs_links(behind(roots), inner, create_graph)
    if links:
        link(roots)
    order = walk_tape(roots, targets)
    way = order if targets is None else [*order, *targets]
    return order, links or _needs_tape(way, outputs, inner, create_graph)


def _retracing(
    outputs: Sequence[Tensor],
    pairs: Sequence[tuple[Node, Node]],
    weights: Sequence[Tensor | None],
    places: dict[tuple[GradFn, int], Node] | None,
    accumulates: bool,
) -> Retracing:
    starts = _starts(outputs, pairs, weights, True)
    return Retracing(starts, [node for node, _ in pairs], places, accumulates)


def _idle(
    outputs: Sequence[Tensor], targets: set[GradFn] | None, order: Sequence[GradFn]
) -> set[GradFn]:
    """The users' functions below ``outputs`` that are not in ``order``."""
    if targets is None or not boundaries:
        return set()
    return {fn for fn in walk_tape(_fns(outputs), None) if fn.several}.difference(order)


def _starts(
    outputs: Sequence[Tensor],
    pairs: Sequence[tuple[Node, Node]],
    weights: Sequence[Tensor | None],
    create_graph: bool,
) -> list[Root]:
    """Where a backward starts, with gradients that have the history of ``weights``."""
    found = []
    with set_grad_enabled(create_graph):
        for place, (output, (_, cotangent)) in enumerate(zip(outputs, pairs)):
            weight = weights[place] if place < len(weights) else None
            if create_graph and weight is not None and weight.node is cotangent:
                gradient = gradient_tensor(cotangent, weight)
            else:
                gradient = plain(cotangent, create_graph)
            found.append(Root(*_place(output), gradient))
    return found


def _traverse(
    roots: Sequence[Root],
    places: dict[tuple[GradFn, int], Node] | None,
    create_graph: bool,
    arrived: Callable[[AccumulateGrad, Tensor], None] | None,
) -> dict[tuple[GradFn, int], Tensor]:
    """Follow the tape from ``roots``; returns the gradients of ``places``.

    ``arrived``: what to do with those of leaves in a backward.
    """
    if arrived is None:
        return Traversal(roots, places, create_graph, lambda *_: None, False).captured
    return Traversal(roots, places, create_graph, arrived).captured


def _at_leaves(
    run: Backward,
    outputs: Sequence[Tensor],
    order: Sequence[GradFn],
    targets: set[GradFn] | None,
) -> list[tuple[AccumulateGrad, Node]]:
    """What arrived at the leaves among ``targets``; where hooks can tell, in PyTorch's order."""
    found = run.leaf_gradients()
    if run.create_graph:  # PyTorch's gradients may have a history though nothing depends on it
        nodes, under = flat_nodes(order)
        found = {leaf: flattened(g, nodes) if leaf in under else g for leaf, g in found.items()}
    chosen = [(leaf, grad) for leaf, grad in found.items() if targets is None or leaf in targets]
    if len(chosen) > 1 and any(
        leaf.post_hooks or (leaf._extra is not None and leaf._extra.interferes)
        for leaf, _ in chosen
    ):
        turns = {leaf: turn for turn, leaf in enumerate(Order(_fns(outputs)).leaves)}
        chosen.sort(key=lambda item: turns.get(item[0], len(turns)))
    return chosen


def _at_leaf(
    leaf: AccumulateGrad, grad: Node, create_graph: bool, retracing: Retracing | None
) -> tuple[Node, Tensor | None]:
    """A leaf's gradient after its hooks, and the tensor that has its history if there is one."""
    if retracing is None or not grad.needs_grad:
        return run_hooks(leaf, grad, create_graph), None
    source = retracing.note(gradient_tensor(grad), (leaf, 0))
    if leaf._extra is not None:
        changed = call_hooks(leaf._extra.hooks, source, create_graph)
        assert changed is not None
        source = changed
    return source.node, source


def _received(
    run: Backward,
    outputs: Sequence[Tensor],
    wanted: Sequence[Tensor],
    order: Sequence[GradFn],
    retracing: Retracing | None,
) -> list[Tensor | None]:
    """What arrived at each of the tensors ``wanted``."""
    by_leaf = {
        leaf: _at_leaf(leaf, grad, run.create_graph, retracing)
        for leaf, grad in _at_leaves(run, outputs, order, set(_fns(wanted)))
    }
    found: list[Tensor | None] = []
    for tensor in wanted:
        fn = tensor._fn
        node, source = run.received.get(tensor.node), None
        if isinstance(fn, AccumulateGrad):
            node, source = by_leaf.get(fn, (None, None))
        if node is None or not _leads_to(outputs, fn):
            found.append(None)
            continue
        gradient = gradient_tensor(node, source)
        if retracing is not None and source is None:
            retracing.note(gradient, _place(tensor))
        found.append(gradient)
    return found


def _filled(
    wanted: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    allow_unused: bool | None,
    materialize_grads: bool,
) -> list[Tensor | None]:
    """``grads`` with zeros in place of None if ``materialize_grads``.

    Raises GradientError for None where neither that nor ``allow_unused`` allows it.
    """
    found: list[Tensor | None] = []
    for place, (tensor, gradient) in enumerate(zip(wanted, grads)):
        if gradient is not None:
            found.append(gradient)
        elif materialize_grads:
            found.append(zero_like(tensor))
        elif allow_unused:
            found.append(None)
        else:
            raise GradientError(
                f"The differentiated Tensor at index {place} appears to not have been used in the "
                "graph. Set allow_unused=True if this is the desired behavior."
            )
    return found


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of ``tensors`` to the ``grad`` of the leaves they depend on.

    Args:
        tensors: what to differentiate.
        grad_tensors: a weight of each one's shape; may be left out for single elements.
        retain_graph: whether another backward may follow; ``create_graph`` by default.
        create_graph: whether the gradients can be differentiated in turn.
        inputs: the leaves to accumulate into, all by default.

    Raises:
        GradientError: no gradient is required, the graph was freed, or a value that the gradient
            needs was overwritten in place.
        ShapeError: a weight of another shape.
    """
    if hook.watcher is not None:
        _refuse_in_transform()
    outputs, only = ends(tensors), ends(inputs)
    if inputs is not None and not only:
        raise GradientError("`inputs` argument to `backward()` cannot be empty.")
    weights = ends(grad_tensors)
    pairs = _roots(outputs, weights)
    targets = set(_fns(only)) if inputs is not None else None
    for tensor in only:
        if isinstance(tensor, Tensor):
            tensor.retain_grad()
    order, on_tape = _way(outputs, targets, (), create_graph)
    differentiated(order)
    with running.through(order if targets is None else [*order, *targets]):
        places = None if targets is None else {_place(t): t.node for t in only}
        if on_tape:

            def arrived(leaf: AccumulateGrad, grad: Tensor) -> None:
                accumulate(leaf, grad.node, create_graph, grad)

            _traverse(_starts(outputs, pairs, weights, create_graph), places, create_graph, arrived)
        else:
            check_tape(order)
            retracing = _retracing(outputs, pairs, weights, places, True) if create_graph else None
            run = Backward(pairs, (), create_graph, _idle(outputs, targets, order))
            for leaf, grad in _at_leaves(run, outputs, order, targets):
                gradient, source = _at_leaf(leaf, grad, create_graph, retracing)
                accumulate(leaf, gradient, create_graph, source)
    if not (create_graph if retain_graph is None else retain_graph):
        free_tape(order)


def _refuse_in_transform() -> None:
    from lazyt.autograd.levels import active

    if active():
        raise GradientError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms."
        )


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``; no ``grad`` changes.

    Args as for ``backward``; besides:
        allow_unused: give None for inputs that the outputs do not depend on, instead of raising.
        materialize_grads: give zeros for them.

    Raises GradientError and ShapeError as ``backward``, and GradientError for unused inputs.
    """
    if materialize_grads and allow_unused is False:
        raise ArgumentError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    if is_grads_batched:
        return _grad_of_many(
            outputs, inputs, grad_outputs, retain_graph, create_graph,
            allow_unused=allow_unused, materialize_grads=materialize_grads,
        )  # fmt: skip
    results, wanted = ends(outputs), ends(inputs)
    if not wanted:
        raise GradientError("`inputs` argument to `grad()` cannot be empty.")
    weights = ends(grad_outputs)
    pairs = _roots(results, weights)
    if any(tensor._fn is None for tensor in wanted):
        raise GradientError("One of the differentiated Tensors does not require grad")
    targets = set(_fns(wanted))
    inner = [tensor for tensor in wanted if not isinstance(tensor._fn, AccumulateGrad)]
    order, on_tape = _way(results, targets, inner, create_graph)
    differentiated(order)
    with running.through([*order, *targets]):
        nodes = {_place(tensor): tensor.node for tensor in wanted}
        if on_tape:
            starts = _starts(results, pairs, weights, create_graph)
            captured = _traverse(starts, nodes, create_graph, None)
            grads = [captured.get(_place(tensor)) for tensor in wanted]
        else:
            check_tape(order)
            retracing = _retracing(results, pairs, weights, nodes, False) if create_graph else None
            run = Backward(
                pairs, [t.node for t in wanted], create_graph, _idle(results, targets, order)
            )
            grads = _received(run, results, wanted, order, retracing)
    found = _filled(wanted, grads, allow_unused, materialize_grads)
    if not (create_graph if retain_graph is None else retain_graph):
        free_tape(order)
    return tuple(found)


def _check_batches(outputs: Sequence[Tensor], weights: Sequence[Tensor]) -> None:
    for place, (output, weight) in enumerate(zip(outputs, weights)):
        if weight.shape[1:] != output.shape:
            raise GradientError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                "as the batch dimension. The sizes of the remaining dimensions are expected to "
                "match the shape of corresponding output, but a mismatch was detected: "
                f"grad_output[{place}] has a shape of {weight.shape[1:]} and output[{place}] has a "
                f"shape of {output.shape}. If you only want some tensors in `grad_output` to be "
                "considered batched, consider using vmap."
            )


def _grad_of_many(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any,
    retain_graph: bool | None,
    create_graph: bool,
    **options: Any,
) -> tuple[Tensor | None, ...]:
    """``grad`` for every row of ``grad_outputs``, which have one more axis in front."""
    from lazyt.autograd.vectorizing import vmap

    _check_batches(ends(outputs), ends(grad_outputs))
    found: list[int] = []

    def one(*weights: Tensor) -> Any:
        grads = grad(outputs, inputs, weights, retain_graph, create_graph, **options)
        found[:] = [number for number, item in enumerate(grads) if item is not None]
        return tuple(grads[number] for number in found)

    many = iter(vmap(one, randomness="same")(*ends(grad_outputs)))
    return tuple(next(many) if n in found else None for n in range(len(ends(inputs))))


@method("backward")
def _tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """``autograd.backward`` of this tensor."""
    weights = None if gradient is None else (gradient,)
    backward((self,), weights, retain_graph, create_graph, inputs)


_MODULES = frozenset({"forward_ad", "functional", "graph", "profiler", "variable"})
_ELSEWHERE = {
    "GradcheckError": "checking", "gradcheck": "checking", "gradgradcheck": "checking",
    "Variable": "variable", "detect_anomaly": "anomalies", "once_differentiable": "function",
    "set_detect_anomaly": "anomalies", "set_multithreading_enabled": "anomalies",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:  # imported when first used: `import lazyt` stays cheap
        return import_module(f"lazyt.autograd.{name}")
    if name in _ELSEWHERE:
        return getattr(import_module(f"lazyt.autograd.{_ELSEWHERE[name]}"), name)
    raise import_module("lazyt.compat.absent").AbsentName.of("lazyt.autograd", name)
