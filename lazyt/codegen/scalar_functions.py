"""Scalar functions from outside of the package: meaning, C text and derivative in one call."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

from lazyt.codegen.prelude import SUFFIXES, c_names
from lazyt.errors import ArgumentError
from lazyt.ir.scalar import FUNCTIONS, HOMES, Call, Expr, ScalarFunction, may_redefine, register

#: What a C compiler takes for something else.
_KEYWORDS = re.compile(
    "auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|"
    "inline|int|long|register|restrict|return|short|signed|sizeof|static|struct|switch|typedef|"
    "union|unsigned|void|volatile|while"
)
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def define_scalar(
    name: str,
    *,
    evaluate: Callable[..., Any],
    c: str,
    derivative: Callable[..., Expr | None] | None = None,
    reason: str = "",
    kinds: str = "f",
    cost: float = 10.0,
) -> ScalarFunction:
    """Adds a function of scalars to the vocabulary of ``map``: ``call(name, x)`` makes an
    expression of it (``lazyt.ir.scalar``), which fuses with whatever reads it.

    A file that is loaded again, or a cell that runs again, may define its function once more.

    Args:
        name: lower case letters, digits and ``_``, as IR text and C have it.
        evaluate: its meaning on NumPy arrays, by which results are checked; its parameters are the
            function's, by name.
        c: a C expression of these parameters, or statements that end in ``return``. ``@S`` stands
            for the suffix of the type, which is ``f32`` or ``f64`` and decides which helpers are
            called: ``lz_exp_@S(x)``. ``@{a|b}`` is a for 32 bits, and b for 64. Without a compiler
            the text is run on arrays where it has arithmetic, conditions and loops alone, and
            ``evaluate`` in its place elsewhere.
        derivative: given the arguments as expressions, and the result behind them, one expression
            for each argument (of a function of one, no tuple); None for one that is zero.
        reason: where there is no derivative, why; the user reads it.
        kinds: the kinds of dtypes that it takes: ``f``, ``i`` and ``u``.
        cost: about how many multiply-adds it takes.

    Returns the function.

    Raises ArgumentError for a name that is taken, in IR or in C, or no name, for parameters that
    are no names in C, kinds that there are not, and where neither derivative nor reason is given;
    TypeError where ``evaluate`` or ``derivative`` cannot be called so.

    Example::

        softplus2 = compiler.define_scalar(
            "softplus2",
            evaluate=lambda x: np.log2(1 + np.exp2(x)),
            c="lz_log2_@S(1 + lz_exp2_@S(x))",
            derivative=lambda x, y: call("sigmoid", call("mul", x, const(math.log(2), x.dtype))),
        )
    """
    home = sys._getframe(1).f_globals.get("__name__", "")
    parameters = _parameters(name, evaluate)
    _check_name(name, home, kinds)
    if not isinstance(c, str) or not c.strip():
        raise ArgumentError(f"{name}: c has to be C text, not {c!r}")
    if derivative is None and not reason:
        raise ArgumentError(f"{name}: give a derivative, or as reason why there is none")
    rule = None if derivative is None else _rule(name, derivative, len(parameters))
    function = ScalarFunction(
        name, len(parameters), evaluate, rule, kinds=kinds, cost=cost, reason=reason,
        c_text=_c_text(name, parameters, c),
    )  # fmt: skip
    return register(function, home)


def _parameters(name: str, evaluate: Callable[..., Any]) -> list[str]:
    """The names of the function's arguments."""
    if not callable(evaluate):
        raise TypeError(f"{name}: evaluate has to be a function, not {evaluate!r}")
    try:
        found = inspect.signature(evaluate).parameters.values()
    except ValueError:
        raise TypeError(
            f"{name}: nobody knows the parameters of {evaluate!r}; write lambda x: ..."
        ) from None
    wrong = [p for p in found if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if wrong or not found:
        raise TypeError(f"{name}: evaluate has to take its arguments by place, one for each")
    names = [p.name for p in found]
    for each in names:
        if _KEYWORDS.fullmatch(each) or not each.isascii() or each.startswith("lz_"):
            raise ArgumentError(f"{name}: a parameter cannot be called '{each}' in C")
    return names


def _check_name(name: str, home: str, kinds: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ArgumentError(
            f"a scalar function is called by lower case letters, digits and '_', not {name!r}"
        )
    if not kinds or set(kinds) - SUFFIXES.keys():
        raise ArgumentError(f"{name}: kinds are some of {', '.join(SUFFIXES)}, not {kinds!r}")
    if name in FUNCTIONS and not may_redefine(HOMES[name], home):
        raise ArgumentError(
            f"there is a scalar function called '{name}' already, of {HOMES[name] or 'a module'}"
        )
    taken = [f"lz_{name}_{suffix}" for kind in kinds for suffix in SUFFIXES[kind]]
    if clash := [each for each in taken if each in c_names()]:
        raise ArgumentError(
            f"{name} would be called {clash[0]} in C, which lazyt's kernels call already"
        )


def _rule(
    name: str, derivative: Callable[..., Any], arity: int
) -> Callable[[Call, int], Expr | None]:
    """The derivative as ``ScalarFunction`` has it."""
    if not callable(derivative):
        raise TypeError(f"{name}: derivative has to be a function, not {derivative!r}")
    try:
        inspect.signature(derivative).bind(*[None] * (arity + 1))
    except TypeError:
        raise TypeError(
            f"{name}: derivative is called with {arity} argument(s) and the result"
        ) from None

    def rule(call: Call, number: int) -> Expr | None:
        found = derivative(*call.args, call)
        parts = (found,) if arity == 1 and not isinstance(found, tuple) else found
        if not isinstance(parts, tuple) or len(parts) != arity:
            raise ArgumentError(
                f"{name}: derivative has to return {arity} expression(s), not {found!r:.200}"
            )
        part = parts[number]
        if part is not None and not isinstance(part, Expr):
            raise ArgumentError(
                f"{name}: derivative returned {part!r:.200}, which is no expression"
            )
        return part

    return rule


def _c_text(name: str, parameters: list[str], c: str) -> str:
    """The C function, for each type."""
    body = c.strip()
    if not re.search(r"\breturn\b", body):
        body = f"return {body.rstrip(';')};"
    listed = ", ".join(f"lz_@S {each}" for each in parameters)
    return f"LZ_FN lz_@S lz_{name}_@S({listed}) {{\n  {body}\n}}\n"
