"""C functions of numbers as scalar expressions: the text is run once with unknowns for arguments.

An ``if`` whose condition depends on an argument runs on both ways, and what the ways give is chosen
by the condition. Loops are unrolled, so their conditions must not depend on arguments.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pycparser import c_ast

from lazyt.codegen.handwritten import types
from lazyt.codegen.handwritten.source import Source, walk
from lazyt.codegen.handwritten.types import Types, common, promoted
from lazyt.errors import SourceError
from lazyt.ir.dtypes import DType, bool_, float32, float64, int32, int64
from lazyt.ir.scalar import Const, Expr, arg, call, const, post_order, real_number

#: Statements that a call may run, loops unrolled, and operations of its expression.
MOST_STATEMENTS, MOST_OPERATIONS = 20_000, 20_000
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul"}
_BITS = {"&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor"}
_LEAVES = (c_ast.Return, c_ast.Break, c_ast.Continue)


@dataclass(frozen=True)
class Translated:
    """A function as an expression.

    Attributes:
        name: the function's name.
        names, dtypes: of its parameters.
        expr: over an Arg for each parameter.
    """

    name: str
    names: tuple[str, ...]
    dtypes: tuple[DType, ...]
    expr: Expr


@dataclass
class _Variable:
    """A local variable, or an array of one axis."""

    dtype: DType
    value: Expr | tuple[Expr, ...]
    fixed: bool = False


#: What is left to do: a statement, or a word, and what comes behind it.
_Work = tuple[Any, Any] | None


@dataclass
class _Scopes:
    """Names and what they stand for, innermost scope last."""

    names: list[dict[str, _Variable]] = field(default_factory=lambda: [{}])

    def copy(self) -> _Scopes:
        return _Scopes([{n: copy.copy(v) for n, v in scope.items()} for scope in self.names])

    def find(self, name: str) -> _Variable | None:
        return next((scope[name] for scope in reversed(self.names) if name in scope), None)


def signature(source: Source, real: DType | None) -> tuple[tuple[str, ...], tuple[DType, ...]]:
    """Names and dtypes of the entry's parameters; raises SourceError for what is no number."""
    kinds = Types(source, real)
    parameters = source.parameters(source.entry)
    dtypes = tuple(kinds.scalar(p.type, f"parameter {p.name}") for p in parameters)
    if not parameters:
        source.fail("a function without parameters is a constant", source.entry)
    return tuple(p.name for p in parameters), dtypes


def uses_real(source: Source) -> bool:
    """Whether the text has the type ``real``."""
    return any(
        isinstance(node, c_ast.IdentifierType) and "real" in node.names
        for function in source.functions.values()
        for node in walk(function)
    )


def translate(source: Source, real: DType | None = None) -> Translated:
    """The entry of a text as an expression, ``real`` standing for a dtype of floats.

    16-bit floats compute in float32 and round once, in the end. Raises SourceError, with line and
    column, for what has no meaning in scalar expressions.
    """
    wide = None if real is None else real.compute
    names, dtypes = signature(source, wide)
    parameters = source.parameters(source.entry)
    reals = [is_real(p.type) for p in parameters]
    given = tuple(real if r and real else d for r, d in zip(reals, dtypes))
    run = _Run(source, wide)
    arguments = [_cast(arg(i, g), d) for i, (g, d) in enumerate(zip(given, dtypes))]
    try:
        expr = run.function(source.entry, arguments)
        if real is not None and is_real(source.entry.decl.type.type):
            expr = _cast(expr, real)
        count = len(post_order(expr))
    except RecursionError:
        raise SourceError(f"{source.entry.decl.name} nests too deep") from None
    if count > MOST_OPERATIONS:
        source.fail(f"it becomes more than {MOST_OPERATIONS} operations", source.entry)
    return Translated(source.entry.decl.name, names, given, expr)


def is_real(declared: Any) -> bool:
    """Whether a declaration is of type ``real``."""
    return getattr(getattr(declared, "type", None), "names", None) == ["real"]


def _wrapped(value: int, dtype: DType) -> int:
    """A whole number as its type holds it."""
    bits = 8 * dtype.itemsize
    value %= 1 << bits
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def _cast(value: Expr, dtype: DType) -> Expr:
    """The conversion of C; what is known beforehand is a constant again."""
    if value.dtype is dtype:
        return value
    if isinstance(value, Const):
        if dtype is bool_:
            return const(value.value != 0, bool_)
        if dtype.kind == "f":
            wide = float(real_number(value.value))
            return const(types.nearest_float(wide) if dtype is float32 else wide, dtype)
        if value.dtype.kind != "f":
            return const(_wrapped(int(real_number(value.value)), dtype), dtype)
    if dtype is bool_:
        return call("ne", value, const(0, value.dtype))
    return call("cast", value, dtype=dtype)


def _truth(value: Expr) -> Expr:
    """A condition."""
    return _cast(value, bool_)


class _Run:
    """One run of a text.

    Args:
        source: the text.
        real: what ``real`` is computed in.
    """

    def __init__(self, source: Source, real: DType | None) -> None:
        self.source = source
        self.types = Types(source, real)
        self.real = real
        self.calls: list[str] = []
        self.steps = 0

    # ---------------------------------------------------------- statements

    def function(self, function: c_ast.FuncDef, arguments: Sequence[Expr]) -> Expr:
        """What a function gives for its arguments, of the parameters' types."""
        name = function.decl.name
        if name in self.calls:
            self.source.fail(f"{name} calls itself", function)
        kind = self.types.scalar(function.decl.type.type, f"what {name} returns")
        scopes = _Scopes()
        for parameter, value in zip(self.source.parameters(function), arguments, strict=True):
            fixed = "const" in (parameter.quals or ())
            scopes.names[0][parameter.name] = _Variable(value.dtype, value, fixed)
        self.calls.append(name)
        found = self._run((function.body, None), scopes, kind)
        self.calls.pop()
        if found is None:
            self.source.fail(f"{name} does not return a value on every way to its end", function)
        return found

    def _run(self, work: _Work, scopes: _Scopes, kind: DType) -> Expr | None:
        """The value that is returned, None where the end is reached without."""
        while work is not None:
            node, work = work
            if node is None or isinstance(node, c_ast.EmptyStatement):
                continue
            self.steps += 1
            if self.steps > MOST_STATEMENTS:
                what = f"it runs more than {MOST_STATEMENTS} statements, loops unrolled"
                self.source.fail(what, _place_of(node))
            if isinstance(node, tuple):
                work = self._go_on(node, work, scopes)
            elif isinstance(node, c_ast.Compound):
                scopes.names.append({})
                work = ("leave", len(scopes.names)), work
                for item in reversed(node.block_items or ()):
                    work = item, work
            elif isinstance(node, c_ast.Return):
                if node.expr is None:
                    self.source.fail("return needs a value", node)
                return _cast(self.value(node.expr, scopes), kind)
            elif isinstance(node, c_ast.If):
                condition = _truth(self.value(node.cond, scopes))
                if isinstance(condition, Const):
                    work = (node.iftrue if condition.value else node.iffalse), work
                elif any(isinstance(item, _LEAVES) for item in walk(node)):
                    return self._either(node, condition, work, scopes, kind)
                else:
                    self._both(node, condition, scopes, kind)
            elif isinstance(node, c_ast.For):
                scopes.names.append({})
                work = ("turn", node, len(scopes.names)), (("leave", len(scopes.names)), work)
                if node.init is not None:
                    self._simple(node.init, scopes)
            elif isinstance(node, (c_ast.Break, c_ast.Continue)):
                work = self._jump(node, work, scopes)
            else:
                self._simple(node, scopes)
        return None

    def _go_on(self, word: tuple[Any, ...], work: _Work, scopes: _Scopes) -> _Work:
        """The end of a block, or the next turn of a loop."""
        if word[0] == "leave":
            del scopes.names[word[1] - 1 :]
            return work
        kind, node, depth = word
        del scopes.names[depth:]
        if kind == "next" and node.next is not None:
            self._simple(node.next, scopes)
        if node.cond is None:
            self.source.fail("the loop has no condition, so that it has no end", node)
        condition = _truth(self.value(node.cond, scopes))
        if not isinstance(condition, Const):
            what = "the condition depends on an argument, and loops are unrolled beforehand"
            self.source.fail(what, node.cond)
        if not condition.value:
            return work
        return node.stmt, (("next", node, depth), work)

    def _jump(self, node: Any, work: _Work, scopes: _Scopes) -> _Work:
        """What is left behind ``break`` or ``continue``."""
        while work is not None:
            word, rest = work
            if isinstance(word, tuple) and word[0] == "next":
                if isinstance(node, c_ast.Break):
                    del scopes.names[word[2] :]
                    work = rest
                return work
            work = rest
        self.source.refuse(node, "it stands in no loop")

    def _either(
        self, node: c_ast.If, condition: Expr, work: _Work, scopes: _Scopes, kind: DType
    ) -> Expr | None:
        """Both ways to the end of the function."""
        yes = self._run((node.iftrue, work), scopes.copy(), kind)
        no = self._run((node.iffalse, work), scopes, kind)
        if yes is None or no is None:
            return None
        return call("where", condition, yes, no)

    def _both(self, node: c_ast.If, condition: Expr, scopes: _Scopes, kind: DType) -> None:
        """Both ways to the end of the statement; variables have the value of the one that is
        taken."""
        other = scopes.copy()
        self._run((node.iftrue, None), scopes, kind)
        self._run((node.iffalse, None), other, kind)
        for mine, theirs in zip(scopes.names, other.names, strict=True):
            for name, variable in mine.items():
                variable.value = _chosen(condition, variable.value, theirs[name].value)

    def _simple(self, node: Any, scopes: _Scopes) -> None:
        """A declaration, an assignment, or several of them."""
        if isinstance(node, c_ast.DeclList):
            for item in node.decls:
                self._declare(item, scopes)
        elif isinstance(node, c_ast.ExprList):
            for item in node.exprs:
                self._simple(item, scopes)
        elif isinstance(node, c_ast.Decl):
            self._declare(node, scopes)
        elif isinstance(node, c_ast.Assignment):
            new = self.value(node.rvalue, scopes)
            if node.op != "=":
                old = self.value(node.lvalue, scopes)
                new = self.binary(node, node.op[:-1], old, new)
            self._assign(node.lvalue, new, scopes)
        elif isinstance(node, c_ast.UnaryOp) and node.op in ("++", "--", "p++", "p--"):
            old = self.value(node.expr, scopes)
            new = self.binary(node, node.op[-1], old, const(1, int32))
            self._assign(node.expr, new, scopes)
        elif isinstance(node, (c_ast.While, c_ast.DoWhile)):
            self.source.refuse(node, "loops are unrolled; write for, with a known number of turns")
        elif isinstance(node, (c_ast.Switch, c_ast.Goto, c_ast.Label, c_ast.Pragma)):
            self.source.refuse(node, "a scalar function has if and for only")
        else:
            self.value(node, scopes)

    def _declare(self, node: c_ast.Decl, scopes: _Scopes) -> None:
        self.source.check_name(node, node.name)
        for word in (*node.storage, *node.funcspec):
            self.source.fail(f"{word}: local variables are plain", node)
        if node.name in scopes.names[-1]:
            self.source.fail(f"{node.name} is declared twice", node)
        fixed = "const" in (node.quals or ())
        value: Expr | tuple[Expr, ...]
        if isinstance(node.type, c_ast.ArrayDecl):
            dtype = self.types.scalar(node.type.type, "an element")
            value = self._elements(node, dtype, scopes)
        else:
            dtype = self.types.scalar(node.type, f"a variable such as {node.name}")
            value = const(0, dtype)
            if isinstance(node.init, c_ast.InitList):
                self.source.refuse(node.init, "a number takes one value")
            if node.init is not None:
                value = _cast(self.value(node.init, scopes), dtype)
        scopes.names[-1][node.name] = _Variable(dtype, value, fixed)

    def _elements(self, node: c_ast.Decl, dtype: DType, scopes: _Scopes) -> tuple[Expr, ...]:
        """The elements of a local array; those that get no value are 0."""
        given: list[Any] = []
        if node.init is not None:
            if not isinstance(node.init, c_ast.InitList):
                self.source.fail("an array takes its values in braces", node.init)
            given = list(node.init.exprs)
        size = len(given)
        if node.type.dim is not None:
            size = self._known(node.type.dim, scopes, "an array's size")
        if not len(given) <= size <= 1024 or size < 1:
            self.source.fail(f"an array of {size} elements with {len(given)} values", node)
        values = [_cast(self.value(item, scopes), dtype) for item in given]
        return tuple(values + [const(0, dtype)] * (size - len(values)))

    def _known(self, node: Any, scopes: _Scopes, what: str) -> int:
        found = self.value(node, scopes)
        if not isinstance(found, Const) or found.dtype.kind == "f":
            self.source.fail(f"{what} must not depend on an argument", node)
        return int(real_number(found.value))

    def _assign(self, target: Any, value: Expr, scopes: _Scopes) -> None:
        base = target.name if isinstance(target, c_ast.ArrayRef) else target
        if not isinstance(base, c_ast.ID):
            self.source.fail("only variables are assigned to", target)
        variable = scopes.find(base.name)
        if variable is None:
            self.source.fail(f"{base.name} is not declared", base)
        if variable.fixed:
            self.source.fail(f"{base.name} is const", target)
        value = _cast(value, variable.dtype)
        if isinstance(target, c_ast.ArrayRef):
            place = self._place(target, variable, scopes)
            assert isinstance(variable.value, tuple)
            variable.value = (*variable.value[:place], value, *variable.value[place + 1 :])
        elif isinstance(variable.value, tuple):
            self.source.fail(f"{base.name} is an array", target)
        else:
            variable.value = value

    def _place(self, node: c_ast.ArrayRef, variable: _Variable, scopes: _Scopes) -> int:
        if not isinstance(variable.value, tuple):
            self.source.fail("only a local array has elements", node)
        place = self._known(node.subscript, scopes, "the index")
        if not 0 <= place < len(variable.value):
            what = f"index {place} of an array of {len(variable.value)} elements"
            self.source.fail(what, node)
        return place

    # --------------------------------------------------------- expressions

    def value(self, node: Any, scopes: _Scopes) -> Expr:
        """An expression over the arguments."""
        if isinstance(node, c_ast.Constant):
            value, dtype = self.types.literal(node, generic=True)
            if dtype is float32:
                value = types.nearest_float(value)
            return const(value, dtype)
        if isinstance(node, c_ast.ID):
            return self._name(node, scopes)
        if isinstance(node, c_ast.BinaryOp):
            left, right = self.value(node.left, scopes), self.value(node.right, scopes)
            return self.binary(node, node.op, left, right)
        if isinstance(node, c_ast.UnaryOp):
            return self._unary(node, scopes)
        if isinstance(node, c_ast.TernaryOp):
            condition = _truth(self.value(node.cond, scopes))
            yes, no = self.value(node.iftrue, scopes), self.value(node.iffalse, scopes)
            dtype = common(yes.dtype, no.dtype)
            yes, no = _cast(yes, dtype), _cast(no, dtype)
            if isinstance(condition, Const):
                return yes if condition.value else no
            return call("where", condition, yes, no)
        if isinstance(node, c_ast.Cast):
            dtype = self.types.scalar(node.to_type.type, "what is cast")
            return _cast(self.value(node.expr, scopes), dtype)
        if isinstance(node, c_ast.FuncCall):
            return self._call(node, scopes)
        if isinstance(node, c_ast.ArrayRef) and isinstance(node.name, c_ast.ID):
            variable = scopes.find(node.name.name)
            if variable is None:
                self.source.fail(f"{node.name.name} is not declared", node.name)
            place = self._place(node, variable, scopes)
            assert isinstance(variable.value, tuple)
            return variable.value[place]
        if isinstance(node, c_ast.Assignment):
            self.source.fail("an assignment is a statement of its own", node)
        self.source.refuse(node, "it has no meaning in a function of numbers")

    def _name(self, node: c_ast.ID, scopes: _Scopes) -> Expr:
        variable = scopes.find(node.name)
        if variable is None:
            if node.name not in types.CONSTANTS:
                self.source.fail(f"{node.name} is not declared", node)
            value, dtype = types.CONSTANTS[node.name]
            if dtype is float64 and self.real is not None:
                dtype = self.real
            return _cast(const(value, float64), dtype) if dtype is float32 else const(value, dtype)
        if isinstance(variable.value, tuple):
            self.source.fail(f"{node.name} is an array: it has no value itself", node)
        return variable.value

    def _unary(self, node: c_ast.UnaryOp, scopes: _Scopes) -> Expr:
        if node.op in ("++", "--", "p++", "p--"):
            self.source.fail(f"{node.op[-2:]} is a statement of its own", node)
        if node.op in ("*", "&"):
            self.source.fail("there are no pointers in a function of numbers", node)
        if node.op == "sizeof":
            self.source.fail("sizeof has no meaning here", node)
        value = self.value(node.expr, scopes)
        if node.op == "!":
            value = _truth(value)
            if isinstance(value, Const):
                return const(not value.value, bool_)
            return call("logical_not", value)
        value = _cast(value, promoted(value.dtype))
        if node.op == "+":
            return value
        if node.op == "-":
            if isinstance(value, Const):
                wrapped = -real_number(value.value)
                if value.dtype.kind != "f":
                    wrapped = _wrapped(int(wrapped), value.dtype)
                return const(wrapped, value.dtype)
            return call("neg", value)
        if value.dtype.kind == "f":
            self.source.fail(f"{node.op} of a float", node)
        if isinstance(value, Const):
            return const(_wrapped(~int(real_number(value.value)), value.dtype), value.dtype)
        return call("bitwise_not", value)

    def binary(self, node: Any, op: str, left: Expr, right: Expr) -> Expr:
        """``left op right`` by C's rules."""
        if op in ("&&", "||"):
            return _logical(op, _truth(left), _truth(right))
        if op in ("<<", ">>"):
            if "f" in (left.dtype.kind, right.dtype.kind):
                self.source.fail(f"{op} of a float", node)
            dtype = promoted(left.dtype)
        else:
            dtype = common(left.dtype, right.dtype)
        left, right = _cast(left, dtype), _cast(right, dtype)
        if isinstance(left, Const) and isinstance(right, Const) and dtype.kind != "f":
            return self._folded(
                node, op, int(real_number(left.value)), int(real_number(right.value)), dtype
            )
        if op in _COMPARISONS:
            return call(_COMPARISONS[op], left, right)
        if op in _ARITHMETIC:
            return call(_ARITHMETIC[op], left, right)
        if dtype.kind == "f":
            if op != "/":
                self.source.fail(f"{op} of a float", node)
            return call("div", left, right)
        if op in _BITS:
            return call(_BITS[op], left, right)
        if op in ("<<", ">>"):
            return call("shift_left" if op == "<<" else "shift_right", left, right)
        rest = call("fmod", left, right)  # as C, both round towards zero
        if op == "%":
            return rest
        return call("floordiv", call("sub", left, rest), right)

    def _folded(self, node: Any, op: str, a: int, b: int, dtype: DType) -> Expr:
        """An operation on whole numbers that are known."""
        if op in _COMPARISONS:
            tests = {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b}
            return const(tests.get(op, a >= b), bool_)
        if op in ("/", "%"):
            if b == 0:
                self.source.fail("division by zero", node)
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return const(_wrapped(quotient if op == "/" else a - quotient * b, dtype), dtype)
        if op in ("<<", ">>"):
            if not 0 <= b < 8 * dtype.itemsize:
                self.source.fail(f"a shift by {b} bits", node)
            return const(_wrapped(a << b if op == "<<" else a >> b, dtype), dtype)
        results = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}
        return const(_wrapped(results[op], dtype), dtype)

    # ------------------------------------------------------------ functions

    def _call(self, node: c_ast.FuncCall, scopes: _Scopes) -> Expr:
        if not isinstance(node.name, c_ast.ID):
            self.source.fail("functions are called by their names", node)
        name = node.name.name
        given = [self.value(item, scopes) for item in (node.args.exprs if node.args else ())]
        own = self.source.functions.get(name)
        if own is not None:
            parameters = self.source.parameters(own)
            self._count(node, name, given, len(parameters))
            kinds = [self.types.scalar(p.type, f"parameter {p.name}") for p in parameters]
            return self.function(own, [_cast(v, k) for v, k in zip(given, kinds)])
        if name in types.TESTS:
            self._count(node, name, given, 1)
            value = given[0]
            return call(name, value if value.dtype.kind == "f" else _cast(value, float64))
        if name in ("abs", "labs", "llabs"):
            self._count(node, name, given, 1)
            return call("abs", _cast(given[0], int32 if name == "abs" else int64))
        base, dtype = self._base(name, given)
        if base in _COMPOSED:
            arity, build = _COMPOSED[base]
            self._count(node, name, given, arity)
            made: Expr = build(*[_cast(value, dtype) for value in given])
            return made
        if base not in types.FUNCTIONS:
            what = f"{name} is no function of the text, and none of math.h that lazyt has"
            self.source.fail(what, node)
        own_name, arity = types.FUNCTIONS[base]
        self._count(node, name, given, arity)
        return call(own_name, *[_cast(value, dtype) for value in given])

    def _base(self, name: str, given: Sequence[Expr]) -> tuple[str, DType]:
        """A function's name for double, and the type in which it is computed."""
        known = (*types.FUNCTIONS, *_COMPOSED)
        if name not in known and name.endswith("f") and name[:-1] in known:
            return name[:-1], float32
        if self.real is not None:  # as tgmath.h has them
            floats = [value.dtype for value in given if value.dtype.kind == "f"]
            return name, float64 if float64 in floats else self.real
        return name, float64

    def _count(self, node: Any, name: str, given: Sequence[Expr], wanted: int) -> None:
        if len(given) != wanted:
            what = "argument" if wanted == 1 else "arguments"
            self.source.fail(f"{name} takes {wanted} {what}, not {len(given)}", node)


def _place_of(node: Any) -> Any:
    """The node of the text that a piece of work is about; None for the end of a block."""
    if not isinstance(node, tuple):
        return node
    return node[1] if isinstance(node[1], c_ast.Node) else None


def _chosen(
    condition: Expr, yes: Expr | tuple[Expr, ...], no: Expr | tuple[Expr, ...]
) -> Expr | tuple[Expr, ...]:
    if isinstance(yes, tuple) and isinstance(no, tuple):
        pairs = zip(yes, no, strict=True)
        return tuple([y if y is n else call("where", condition, y, n) for y, n in pairs])
    assert isinstance(yes, Expr) and isinstance(no, Expr)
    return yes if yes is no else call("where", condition, yes, no)


def _logical(op: str, left: Expr, right: Expr) -> Expr:
    decides = op == "||"  # the value that needs no other
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Const):
            return const(decides, bool_) if bool(one.value) == decides else other
    return call("logical_or" if decides else "logical_and", left, right)


def _round_away(x: Expr) -> Expr:
    """``round``: halves away from zero."""
    whole = call("trunc", x)
    away = call("add", whole, call("copysign", const(1, x.dtype), x))
    is_far = call("ge", call("abs", call("sub", x, whole)), const(0.5, x.dtype))
    return call("where", is_far, away, whole)


def _fdim(x: Expr, y: Expr) -> Expr:
    return call("where", call("le", x, y), const(0, x.dtype), call("sub", x, y))


#: Functions of math.h that are made of others.
_COMPOSED: dict[str, tuple[int, Any]] = {"round": (1, _round_away), "fdim": (2, _fdim)}


def derivative_of(translated: Translated, number: int, given: Translated) -> Translated:
    """``given`` as the derivative of a function by one parameter; raises SourceError where their
    parameters differ."""
    if given.dtypes != translated.dtypes:
        raise SourceError(
            f"{given.name} is the derivative of {translated.name} by "
            f"{translated.names[number]}, and takes the same parameters: "
            f"({_listed(translated)}), not ({_listed(given)})"
        )
    return replace(given, names=translated.names)


def _listed(item: Translated) -> str:
    return ", ".join(f"{types.NAMES.get(d, d.name)} {n}" for n, d in zip(item.names, item.dtypes))
