"""The table of structural ops, and the constructor that accepts only complete ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from lazyt.errors import InternalError
from lazyt.ir.graph import Node, NoGradient, Op, Type, make
from lazyt.ir.op import Movement
from lazyt.ir.scalar import may_redefine, on_redefinition

#: Ops that few programs have, and the modules that define them, loaded at the first use.
_LATE = {
    "branch": "lazyt.ops.control.branches",
    "collective": "lazyt.ops.parallel.collectives",
    "distribute": "lazyt.ops.parallel.distribution",
    "fourier": "lazyt.ops.fourier.transform",
    "localize": "lazyt.ops.parallel.distribution",
    "loop": "lazyt.ops.control.loops",
    "python": "lazyt.ops.control.python_calls",
    "while": "lazyt.ops.control.conditions",
}


class Vocabulary(dict[str, Op]):
    """Ops by name."""

    def __missing__(self, name: str) -> Op:
        if name not in _LATE:
            raise KeyError(name)
        import_module(_LATE[name])
        return self[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The op of a name; ``default`` where there is none."""
        return self[name] if name in self or name in _LATE else default

    def __iter__(self) -> Iterator[str]:
        for name in _LATE:
            self[name]
        return super().__iter__()


OPS = Vocabulary()

Vjp = Callable[[Node, Node], Sequence[Node | None]] | NoGradient
Jvp = Callable[[Node, Sequence[Node | None]], Node | None] | NoGradient
Batch = Callable[[Node, Sequence[Node], Sequence[bool]], Node]


def define_op(
    name: str,
    *,
    params: type | None,
    infer: Callable[..., Type],
    evaluate: Callable[..., Any],
    vjp: Vjp,
    jvp: Jvp,
    batch: Batch,
    lower: Callable[..., Any] | str,
    marks: bool | None = None,
    moves: bool = False,
    movement: Movement = "",
    leaf: bool = False,
) -> Op:
    """Register an op. Every rule is required: what has no gradient says why in a NoGradient.

    A file outside of the package may define its op once more, when it is loaded again: the new one
    takes its name, and what was compiled is forgotten.

    Raises InternalError when the name is taken or a rule is missing; see ``ir.graph.Op`` for the
    rules' signatures.
    """
    home = sys._getframe(1).f_globals.get("__name__", "")
    again = name in OPS
    if again and not may_redefine(OPS[name].home, home):
        raise InternalError("ops.registry", f"op {name} is defined twice")
    for rule, value in (("infer", infer), ("evaluate", evaluate), ("batch", batch)):
        if not callable(value):
            raise InternalError("ops.registry", f"op {name} has no {rule} rule")
    for rule, gradient in (("vjp", vjp), ("jvp", jvp)):
        if isinstance(gradient, NoGradient):
            if not gradient.reason:
                raise InternalError("ops.registry", f"op {name} has no {rule} and no reason")
        elif not callable(gradient):
            raise InternalError("ops.registry", f"op {name} has no {rule} rule")
    if not (callable(lower) or (isinstance(lower, str) and lower)):
        raise InternalError("ops.registry", f"op {name} has no lower rule")
    OPS[name] = op = Op(
        name, params, infer, evaluate, vjp, jvp, batch, lower, marks, moves, movement, leaf, home
    )
    if again:
        for told in on_redefinition:
            told()
    return op


def linear_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    """The jvp of an op with one differentiable input, in which it is linear."""
    tangent = tangents[0]
    if tangent is None:
        return None
    return make(node.op, (tangent, *node.inputs[1:]), node.params)
