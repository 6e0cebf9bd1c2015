"""Branches and loops in recorded programs: one call each, whose functions are graphs of their own.

What such a function reads besides its operands becomes another operand, so that the graphs are
complete: ``cond`` and ``map`` hand it to their functions, loops carry it from step to step.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lazyt.errors import LazytError
from lazyt.functional.control import loops
from lazyt.functional.control.branches import cond, while_loop
from lazyt.fx._symbolic_trace import Tracer
from lazyt.fx.codegen import PyTreeCodeGen, PyTreeInfo
from lazyt.fx.graph import Graph
from lazyt.fx.graph_module import GraphModule
from lazyt.fx.node import Node
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.utils import _pytree as pytree

if TYPE_CHECKING:
    from lazyt.fx.experimental.proxy_tensor import Recorder

__all__ = ["CONTROL_FLOW", "record_control_flow"]

#: What is recorded as one call, by name.
CONTROL_FLOW: dict[str, Callable[..., Any]] = {
    "associative_scan": loops.associative_scan,
    "cond": cond,
    "map": loops.map,
    "scan": loops.scan,
    "while_loop": while_loop,
}

Function = Callable[..., Any]
#: A function with example arguments: trees of tensors.
Call = tuple[Function, tuple[Any, ...]]


def record_control_flow(
    recorder: Recorder, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Runs one of the functions of ``CONTROL_FLOW`` and records the call; returns its result.

    Raises LazytError where the functions that it calls give other values than tensors.
    """
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    result = function(*args, **kwargs)
    if not all(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(result)):
        raise LazytError(f"{function.__name__} of a recorded program carries tensors, no numbers")
    given, named = _RECORDED[function](recorder, *bound.args, **bound.kwargs)
    node = recorder._node("call_function", function, given, named)
    _know_parts(recorder, result, node, function)
    return result


def _know_parts(recorder: Recorder, result: Any, node: Node, function: Function) -> None:
    """Notes where the tensors of a result are in what the recorded call gives."""

    def part(node: Node, number: int) -> Node:
        return recorder._node("call_function", operator.getitem, (node, number), {})

    groups = result if function is loops.scan else (result,)
    for number, group in enumerate(groups):
        inside = part(node, number) if function is loops.scan else node
        for place, leaf in enumerate(pytree.tree_leaves(group)):
            recorder.know(leaf, part(inside, place))


def _flat(value: Any) -> tuple[list[Tensor], Any]:
    leaves, spec = pytree.tree_flatten(value)
    return list(leaves), spec


def _cond(
    recorder: Recorder, pred: Any, true_fn: Function, false_fn: Function, operands: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    flat, spec = _flat(operands)

    def of(function: Function) -> Function:
        def run(*values: Any) -> Any:
            found = function(*pytree.tree_unflatten(values[: len(flat)], spec))
            return tuple(_flat(found)[0])

        return run

    sides = [of(true_fn), of(false_fn)]
    extras = _read_by(recorder, [(side, tuple(flat)) for side in sides])
    given = (*flat, *extras)
    graphs = [
        _graph(recorder, (side, given), _behind(flat, extras), f"{name}_graph_")
        for side, name in zip(sides, ("true", "false"), strict=True)
    ]
    return (pred, *graphs, given), {}


def _while_loop(
    recorder: Recorder, cond_fn: Function, body_fn: Function, carried_inputs: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    flat, spec = _flat(carried_inputs)
    count = len(flat)

    def test(*values: Any) -> Any:
        return cond_fn(*pytree.tree_unflatten(values[:count], spec))

    def step(*values: Any) -> Any:
        found = body_fn(*pytree.tree_unflatten(values[:count], spec))
        return (*_flat(found)[0], *values[count:])

    extras = _read_by(recorder, [(test, tuple(flat)), (step, tuple(flat))])
    given = (*flat, *extras)
    graphs = [
        _graph(recorder, (test, given), _behind(flat, extras), "while_loop_cond_graph_"),
        _graph(recorder, (step, given), _behind(flat, extras), "while_loop_body_graph_"),
    ]
    return (*graphs, given), {}


def _scan(
    recorder: Recorder, combine_fn: Function, init: Any, xs: Any, *, dim: int, reverse: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    carry, carry_spec = _flat(init)
    columns, spec = _flat(xs)
    count = len(carry)

    def step(state: Sequence[Any], slices: Sequence[Any]) -> Any:
        following, found = combine_fn(
            pytree.tree_unflatten(state[:count], carry_spec), pytree.tree_unflatten(slices, spec)
        )
        return [*_flat(following)[0], *state[count:]], _flat(found)[0]

    first = [item.select(dim, 0) for item in columns]
    extras = _read_by(recorder, [(step, (carry, first))])
    call = (step, ([*carry, *extras], first))
    graph = _graph(recorder, call, _behind(carry, extras), "scan_combine_graph_")
    return (graph, [*carry, *extras], columns), {"dim": dim, "reverse": reverse}


def _map(
    recorder: Recorder, f: Function, xs: Any, *args: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    columns, spec = _flat(xs)
    others = [arg for arg in args if isinstance(arg, Tensor)]

    def each(slices: Sequence[Any], *values: Any) -> Any:
        waiting = iter(values)
        own = [next(waiting) if isinstance(arg, Tensor) else arg for arg in args]
        return _flat(f(pytree.tree_unflatten(slices, spec), *own))[0]

    first = [item.select(0, 0) for item in columns]
    extras = _read_by(recorder, [(each, (first, *others))])
    call = (each, (first, *others, *extras))
    graph = _graph(recorder, call, _behind([*first, *others], extras), "map_body_graph_")
    return (graph, columns, *others, *extras), {}


def _associative_scan(
    recorder: Recorder, combine_fn: Function, xs: Any, dim: int, reverse: bool, combine_mode: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    columns, spec = _flat(xs)

    def combine(a: Sequence[Any], b: Sequence[Any]) -> Any:
        found = combine_fn(pytree.tree_unflatten(a, spec), pytree.tree_unflatten(b, spec))
        return _flat(found)[0]

    first = [item.select(dim, 0) for item in columns]
    second = [item.select(dim, -1) for item in columns]
    graph = _graph(recorder, (combine, (first, second)), range(0), "associative_scan_graph_")
    return (graph, columns, dim, reverse, combine_mode), {}


_RECORDED: dict[Function, Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]] = {
    loops.associative_scan: _associative_scan,
    cond: _cond,
    loops.map: _map,
    loops.scan: _scan,
    while_loop: _while_loop,
}


# ----------------------------------------------------------------------------- their functions


def _read_by(recorder: Recorder, calls: Sequence[Call]) -> list[Tensor]:
    """The tensors from outside that functions read. A tensor that a function makes is another one
    each time that it is called."""
    seen: list[list[Tensor]] = []
    for _ in range(2):
        found: list[Tensor] = []
        for function, operands in calls:
            args = _copied(operands, range(0))
            inner = _inner(recorder, args)
            inner.read = found
            with inner:
                function(*args)
        seen.append(found)
    # By identity, as tensors compare element by element; ``seen`` holds all of them.
    again = {id(value) for value in seen[1]}
    return list({id(value): value for value in seen[0] if id(value) in again}.values())


def _inner(recorder: Recorder, args: tuple[Any, ...]) -> Recorder:
    """What records a function that is called with these arguments."""
    tracer = Tracer()
    tracer.root, tracer.graph = Module(), Graph(tracer_cls=Tracer)
    inner = recorder.inner(tracer)
    for number, leaf in enumerate(pytree.tree_leaves(args), 1):
        inner.know(leaf, tracer.graph.placeholder(f"operand_{number}"))
    return inner


def _behind(operands: Sequence[Tensor], extras: Sequence[Tensor]) -> range:
    """The numbers of the extras among all operands."""
    return range(len(operands), len(operands) + len(extras))


def _copied(args: tuple[Any, ...], extras: range) -> tuple[Any, ...]:
    """Arguments with tensors of their own in the place of operands, but the ``extras``: a function
    may get one twice, or read it as a tensor from outside, too."""
    leaves, spec = pytree.tree_flatten(args)
    own = [leaf if n in extras else leaf.view_as(leaf) for n, leaf in enumerate(leaves)]
    copied: tuple[Any, ...] = pytree.tree_unflatten(own, spec)
    return copied


def _graph(recorder: Recorder, call: Call, extras: range, title: str) -> Node:
    """The node of a function's graph, which becomes an attribute of the program's module."""
    function, args = call[0], _copied(call[1], extras)
    spec = pytree.tree_structure(args)
    inner = _inner(recorder, args)
    with inner:
        result = function(*args)
    results, made = pytree.tree_flatten(result)
    if not all(isinstance(leaf, Tensor) for leaf in results):
        raise LazytError("functions of recorded branches and loops return tensors")
    graph = inner.tracer.graph
    if all(isinstance(arg, Tensor) for arg in args):
        graph.output(inner.argument(result))
    else:
        names = [f"argument_{number + 1}" for number in range(len(args))]
        graph.set_codegen(PyTreeCodeGen(PyTreeInfo(names, spec, made)))
        graph.output(inner.argument(results))
    name = recorder.tracer.get_fresh_qualname(title)
    module = GraphModule(inner.tracer.root, graph, title.rstrip("_"))
    recorder.tracer.root.add_module(name, module)
    return recorder.tracer.graph.create_node("get_attr", name)
