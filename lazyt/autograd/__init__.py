"""Gradients, by PyTorch's names: ``backward``, ``grad``, switches, hooks and custom functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from lazyt import grad_mode as grad_mode
from lazyt import ops
from lazyt.autograd import handles as handles
from lazyt.autograd.edges import ends
from lazyt.autograd.engine import (
    Backward,
    accumulate,
    check_tape,
    flat_nodes,
    flattened,
    free_tape,
    gradient_tensor,
    run_hooks,
    running,
    stale_nodes,
    walk_tape,
)
from lazyt.autograd.function import Function as Function
from lazyt.autograd.handles import zero_like
from lazyt.dispatch import method
from lazyt.errors import ArgumentError, DTypeError, GradientError, ShapeError
from lazyt.grad_mode import enable_grad as enable_grad
from lazyt.grad_mode import inference_mode as inference_mode
from lazyt.grad_mode import no_grad as no_grad
from lazyt.grad_mode import set_grad_enabled as set_grad_enabled
from lazyt.ir.graph import Node
from lazyt.ops.leaves import VARIABLE
from lazyt.tape import AccumulateGrad, GradFn, boundaries, output_number, watched
from lazyt.tensor import Tensor
from lazyt.watching import differentiated, hook

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


def _needs_tape(
    order: Sequence[GradFn], outputs: Sequence[Tensor], inner: Sequence[Tensor], create_graph: bool
) -> bool:
    """Whether a backward through ``order`` has to follow the tape: for hooks and the like, for
    saved values that were written to without autograd knowing, or for the gradients of ``inner``,
    no leaves, where those of their nodes may be others'."""
    hooks = bool(watched)
    if create_graph and hooks:  # what these gradients are made of is met when they are derived
        order = walk_tape(_fns(outputs), None)
    for fn in order:
        extra = fn._extra
        if hooks and extra is not None and extra.interferes and not isinstance(fn, AccumulateGrad):
            return True
        for storage, _ in fn.saved:
            if storage.share is not None and stale_nodes(storage):
                return True
    if not inner:
        return False
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
    for fn in walk_tape(_fns(outputs), None):
        if fn.made is not None and fn not in fns and fn.made() in own:
            return True
    return len(own) < len(fns)


def _idle(
    outputs: Sequence[Tensor], targets: set[GradFn] | None, order: Sequence[GradFn]
) -> set[GradFn]:
    """The users' functions below ``outputs`` that are not in ``order``."""
    if targets is None or not boundaries:
        return set()
    return {fn for fn in walk_tape(_fns(outputs), None) if fn.several}.difference(order)


def _traverse(
    outputs: Sequence[Tensor],
    pairs: Sequence[tuple[Node, Node]],
    places: dict[tuple[GradFn, int], Node] | None,
    create_graph: bool,
    arrived: Callable[[AccumulateGrad, Node], None] | None,
) -> dict[tuple[GradFn, int], Tensor]:
    """Follow the tape from ``outputs``; returns the gradients of ``places``.

    ``arrived``: what to do with those of leaves in a backward.
    """
    from lazyt.autograd.traversal import Root, Traversal, plain

    with set_grad_enabled(create_graph):
        roots = [
            Root(*_place(output), plain(cotangent, create_graph))
            for output, (_, cotangent) in zip(outputs, pairs)
        ]
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
        from lazyt.autograd.traversal import Order

        turns = {leaf: turn for turn, leaf in enumerate(Order(_fns(outputs)).leaves)}
        chosen.sort(key=lambda item: turns.get(item[0], len(turns)))
    return chosen


def _received(
    run: Backward, outputs: Sequence[Tensor], wanted: Sequence[Tensor], order: Sequence[GradFn]
) -> list[Tensor | None]:
    """What arrived at each of the tensors ``wanted``."""
    by_leaf: dict[GradFn | None, Node] = {
        leaf: run_hooks(leaf, grad, run.create_graph)
        for leaf, grad in _at_leaves(run, outputs, order, set(_fns(wanted)))
    }
    found: list[Tensor | None] = []
    for tensor in wanted:
        fn = tensor._fn
        leaf = isinstance(fn, AccumulateGrad)
        node = by_leaf.get(fn) if leaf else run.received.get(tensor.node)
        used = node if node is not None and _leads_to(outputs, fn) else None
        found.append(None if used is None else gradient_tensor(used))
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
    pairs = _roots(outputs, ends(grad_tensors))
    targets = set(_fns(only)) if inputs is not None else None
    order = walk_tape(_fns(outputs), targets)
    for tensor in only:
        if isinstance(tensor, Tensor):
            tensor.retain_grad()
    differentiated(order)
    before, running.order = running.order, order if targets is None else [*order, *targets]
    if _needs_tape(running.order, outputs, (), create_graph):

        def arrived(leaf: AccumulateGrad, grad: Node) -> None:
            accumulate(leaf, grad, create_graph)

        places = None if targets is None else {_place(t): t.node for t in only}
        _traverse(outputs, pairs, places, create_graph, arrived)
    else:
        check_tape(order)
        run = Backward(pairs, (), create_graph, _idle(outputs, targets, order))
        for leaf, grad in _at_leaves(run, outputs, order, targets):
            accumulate(leaf, run_hooks(leaf, grad, create_graph), create_graph)
    running.order = before  # kept longer, it would keep the tape
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
    pairs = _roots(results, ends(grad_outputs))
    if any(tensor._fn is None for tensor in wanted):
        raise GradientError("One of the differentiated Tensors does not require grad")
    targets = set(_fns(wanted))
    order = walk_tape(_fns(results), targets)
    differentiated(order)
    before, running.order = running.order, [*order, *targets]
    inner = [tensor for tensor in wanted if not isinstance(tensor._fn, AccumulateGrad)]
    if _needs_tape(running.order, results, inner, create_graph):
        places = [_place(tensor) for tensor in wanted]
        nodes = {place: tensor.node for place, tensor in zip(places, wanted)}
        captured = _traverse(results, pairs, nodes, create_graph, None)
        grads = [captured.get(place) for place in places]
    else:
        check_tape(order)
        nodes_wanted = [tensor.node for tensor in wanted]
        run = Backward(pairs, nodes_wanted, create_graph, _idle(results, targets, order))
        grads = _received(run, results, wanted, order)
    running.order = before
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
    raise import_module("lazyt.absent").AbsentName.of("lazyt.autograd", name)
