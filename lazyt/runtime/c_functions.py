"""C functions of numbers, run on arrays: every element takes the steps that the text says.

So functions have the bits in NumPy that a compiler gives them, from the one text that there is.
An array holds a variable's value for each element. Where a condition differs between elements,
statements run for some of them: a set of elements is None for all, or their numbers in order.
Results of both sides of ``?:`` are chosen from, so that only what a loop or a table costs is run
for those elements alone that take it.

The text is that of functions of numbers: declarations, assignments, ``if``, ``for``, ``while``,
``return``, tables of constants, and pointers to variables that a function gives values to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from pycparser import c_ast, c_parser
from pycparser.c_parser import ParseError

from lazyt.errors import SourceError
from lazyt.ir.arithmetic.fused import fused_multiply_add

Array = np.ndarray[Any, Any]
#: Sections of C text by name, those of the functions with these names and of all that they call.
Sections = Callable[[Sequence[str]], Sequence[tuple[str, str]]]

_TYPES: dict[str, Any] = {
    "int": np.int32, "lz_b8": np.uint8,
    "lz_i8": np.int8, "lz_i16": np.int16, "lz_i32": np.int32, "lz_i64": np.int64,
    "lz_u8": np.uint8, "lz_u16": np.uint16, "lz_u32": np.uint32, "lz_u64": np.uint64,
    "lz_f32": np.float32, "lz_f64": np.float64,
}  # fmt: skip
_DTYPES = {name: np.dtype(kind) for name, kind in _TYPES.items()}
_TYPEDEFS = " ".join(f"typedef int {name};" for name in _TYPES if name != "int")
_INT = np.dtype(np.int32)
#: What the text may ask for with ``#ifdef``: one rounding of a product and a sum, and rounding to
#: whole numbers in one instruction.
_DEFINED = frozenset(
    ["LZ_FUSED"]
    + [f"LZ_{name}_F{bits}" for name in ("FLOOR", "CEIL", "TRUNC", "RINT") for bits in (32, 64)]
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_IGNORED = re.compile(r"\b(?:LZ_FN|LZ_LONG_FN|LZ_STEPS_FN|LZ_ORDERED)\b")
_PATHS = re.compile(r"lz_paths(2?)_(f32|f64)\(\s*(\w+),\s*(\w+),\s*(\w+),\s*(\w+)\s*\)")
_SUFFIX = re.compile(r"[uUlL]+$")


def _from_bits(x: Any, kind: Any) -> Array:
    return np.asarray(np.ascontiguousarray(x).view(kind).reshape(np.shape(x)))


#: What the text calls and nothing defines: builtins of the compiler, and bits of floats.
_BUILTINS: dict[str, Callable[..., Any]] = {
    "lz_bits_f32": lambda x: _from_bits(x, np.uint32),
    "lz_bits_f64": lambda x: _from_bits(x, np.uint64),
    "lz_from_bits_f32": lambda x: _from_bits(x, np.float32),
    "lz_from_bits_f64": lambda x: _from_bits(x, np.float64),
    "__builtin_isunordered": lambda x, y: (x != x) | (y != y),
}
_ROUNDED: dict[str, Callable[..., Any]] = {
    "ABS": np.abs, "SQRT": np.sqrt, "FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc,
    "RINT": np.rint, "FMA": fused_multiply_add,
}  # fmt: skip
#: Of these the arguments are floats of that width.
_OF_FLOATS = {
    f"LZ_{name}_{suffix}": (_DTYPES["lz_" + suffix.lower()], function)
    for suffix in ("F32", "F64")
    for name, function in _ROUNDED.items()
}
_ARGUMENTS = {
    "lz_bits_f32": np.float32, "lz_bits_f64": np.float64, "lz_from_bits_f32": np.uint32,
    "lz_from_bits_f64": np.uint64,
}  # fmt: skip
_CONSTANTS: dict[str, Any] = {
    "LZ_INF_F32": np.float32(np.inf), "LZ_INF_F64": np.float64(np.inf),
    "LZ_NAN_F32": np.float32(np.nan), "LZ_NAN_F64": np.float64(np.nan), "lz_one": np.int32(1),
}  # fmt: skip
_COMPARED: dict[str, Any] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal,
    ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_COMPUTED: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or,
    "^": np.bitwise_xor,
}  # fmt: skip


# ------------------------------------------------------------------------------- text


def _without_directives(text: str) -> str:
    """A section as a compiler sees it that has fused multiply-adds, without its macros."""
    lines: list[str] = []
    taken: list[bool] = []
    continued = False
    for line in _COMMENT.sub(" ", text).split("\n"):
        word = line.split()
        if continued or not word or not word[0].startswith("#"):
            if all(taken) and not continued:
                lines.append(line)
            continued = continued and line.endswith("\\")
            continue
        continued = line.endswith("\\")
        if word[0] in ("#ifdef", "#ifndef"):
            taken.append((word[1] in _DEFINED) == (word[0] == "#ifdef"))
        elif word[0] == "#if":
            taken.append(False)
        elif word[0] == "#else":
            taken[-1] = not taken[-1]
        elif word[0] == "#endif":
            taken.pop()
    return _PATHS.sub(_choice, _IGNORED.sub(" ", "\n".join(lines)))


def _choice(found: re.Match[str]) -> str:
    """A function of two texts (``codegen/prelude/paths.h``) as the plain choice."""
    two, kind, name, meets, usual, rare = found.groups()
    if two:
        body = f"return {meets}(x, y) ? {usual}(x, y) : {rare}(x, y);"
        return f"lz_{kind} {name}(lz_{kind} x, lz_{kind} y) {{ {body} }}"
    body = f"lz_{kind} first = {usual}(x); return {meets}(x) ? first : {rare}(x, first);"
    return f"lz_{kind} {name}(lz_{kind} x) {{ {body} }}"


class _Function:
    """A function of the text.

    Attributes:
        name, body, result: what it is called, what it does, and the type of what it returns.
        parameters: names and types; of those in ``pointers`` it gives the values back.
    """

    def __init__(self, node: c_ast.FuncDef) -> None:
        self.name: str = node.decl.name
        self.body = node.body
        self.result = _type_of(node.decl.type.type)
        self.parameters: list[tuple[str, np.dtype[Any]]] = []
        self.pointers: list[int] = []
        arguments = node.decl.type.args
        for number, item in enumerate(arguments.params if arguments is not None else ()):
            kind = item.type
            if isinstance(kind, c_ast.PtrDecl):
                self.pointers.append(number)
                kind = kind.type
            found = _type_of(kind)
            if found is None:
                raise SourceError(f"{self.name}: a function of numbers takes numbers")
            self.parameters.append((item.name, found))


def _type_of(node: Any) -> np.dtype[Any] | None:
    """The dtype of a declared type, None for void."""
    names = getattr(getattr(node, "type", None), "names", None)
    if names == ["void"]:
        return None
    if names is None or names[-1] not in _DTYPES or len(names) > 1:
        raise SourceError(
            f"a function of numbers has no type {' '.join(names or ['of this kind'])}"
        )
    found: np.dtype[Any] = _DTYPES[names[-1]]
    return found


@cache
def _parsed(text: str) -> dict[str, _Function]:
    """The functions of a section."""
    try:
        tree = c_parser.CParser().parse(f"{_TYPEDEFS}\n{_without_directives(text)}")
    except ParseError as error:
        raise SourceError(f"functions of numbers cannot be read: {error}") from None
    made = [_Function(item) for item in tree.ext if isinstance(item, c_ast.FuncDef)]
    return {function.name: function for function in made}


class Library:
    """The functions of some text.

    Args:
        sections: gives the text of a function, and of what it calls.
    """

    def __init__(self, sections: Sections) -> None:
        self._sections = sections
        self._functions: dict[str, tuple[_Function, dict[str, _Function]]] = {}

    def call(self, name: str, *arrays: Any) -> Array:
        """What the function ``name`` is of arrays that broadcast, element by element.

        Raises SourceError where its text is not that of a function of numbers.
        """
        known = self._functions.get(name)
        if known is None:
            functions: dict[str, _Function] = {}
            for section, text in self._sections([name]):
                if section != "base":
                    functions |= _parsed(text)
            known = self._functions[name] = functions[name], functions
        function, functions = known
        shape = np.broadcast_shapes(*map(np.shape, arrays))
        given = [
            np.broadcast_to(item, shape).astype(kind, copy=False).reshape(-1)
            for item, (_, kind) in zip(arrays, function.parameters, strict=True)
        ]
        result, _ = _Run(functions, function, given, given[0].size).run()
        return np.array(np.broadcast_to(result, given[0].shape)).reshape(shape)


# -------------------------------------------------------------------------------- runs


def _promoted(x: Any) -> Any:
    """A value in the type in which C computes with it: numbers of less bits are ``int``."""
    kind = x.dtype
    return x.astype(_INT) if kind.kind in "bui" and kind.itemsize < 4 else x


def _common(x: Any, y: Any) -> tuple[Any, Any]:
    """Two values in the type that they have in common."""
    x, y = _promoted(x), _promoted(y)
    a, b = x.dtype, y.dtype
    if a == b:
        return x, y
    if a.kind == "f" or b.kind == "f":
        floats = [kind for kind in (a, b) if kind.kind == "f"]
        wanted = max(floats, key=lambda kind: kind.itemsize)
    else:
        wanted = max(a, b, key=lambda kind: (kind.itemsize, kind.kind == "u"))
    return x.astype(wanted, copy=False), y.astype(wanted, copy=False)


def _is_true(x: Any) -> Any:
    return x if x.dtype == np.bool_ else x != 0


def _quotient(op: str, x: Any, y: Any) -> Any:
    """``/`` and ``%`` of integers, cut towards zero; what divides by 0 is not used."""
    y = np.where(y == 0, 1, y).astype(y.dtype)
    rest = np.fmod(x, y)
    return rest if op == "%" else (x - rest) // y


class _Run:
    """One call of a function on arrays of one length.

    Attributes:
        values: what variables hold: an array, or a number for all elements.
        kinds: their types.
        owned: variables whose arrays nobody else has.
        tables: arrays of constants.
        leaving: for each loop that is entered, the elements that break and those that continue.
    """

    def __init__(
        self, functions: dict[str, _Function], function: _Function, given: Sequence[Any], size: int
    ) -> None:
        self.functions = functions
        self.function = function
        self.size = size
        self.values: dict[str, Any] = {}
        self.kinds: dict[str, np.dtype[Any]] = {}
        self.owned: set[str] = set()
        self.tables: dict[str, Array] = {}
        self.leaving: list[tuple[list[Array], list[Array]]] = []
        self.result: Any = None
        for (name, kind), value in zip(function.parameters, given, strict=True):
            self.kinds[name] = kind
            self.values[name] = value.astype(kind, copy=False)

    def run(self) -> tuple[Any, list[Any]]:
        """The result, and the values of the variables that pointers point to."""
        self.statement(self.function.body, None)
        names = [self.function.parameters[number][0] for number in self.function.pointers]
        return self.result, [self.values[name] for name in names]

    # ------------------------------------------------------ sets of elements

    def split(self, condition: Any, at: Any) -> tuple[Any, Any]:
        """Those of some elements for which a condition holds, and the others."""
        nothing = np.empty(0, np.intp)
        if condition.ndim == 0:
            return (at, nothing) if condition else (nothing, at)
        if condition.all():
            return at, nothing
        if not condition.any():
            return nothing, at
        if at is None:
            return np.flatnonzero(condition), np.flatnonzero(~condition)
        return at[condition], at[~condition]

    def joined(self, *sets: Any) -> Any:
        """All elements of disjoint sets."""
        if any(item is None for item in sets):
            return None
        filled = [item for item in sets if len(item)]
        if len(filled) == 1:
            return filled[0]
        found = np.sort(np.concatenate(filled)) if filled else np.empty(0, np.intp)
        return None if len(found) == self.size and self.size else found

    @staticmethod
    def is_empty(at: Any) -> bool:
        """Whether a set has no element."""
        return at is not None and not len(at)

    # ------------------------------------------------------------- variables

    def load(self, name: str, at: Any) -> Any:
        """What a variable holds, of some elements."""
        if name in self.values:
            value = self.values[name]
            if value.ndim == 0:
                return value
            if at is None:
                self.owned.discard(name)
                return value
            return value[at]
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        raise SourceError(f"{self.function.name}: {name} is not declared")

    def assign(self, name: str, value: Any, at: Any) -> None:
        """Gives a variable a value, for some elements."""
        value = value.astype(self.kinds[name], copy=False)
        if at is None:
            self.values[name] = value
            self.owned.discard(name)
            return
        if name not in self.owned:
            self.values[name] = np.array(np.broadcast_to(self.values[name], (self.size,)))
            self.owned.add(name)
        self.values[name][at] = value

    def declare(self, node: c_ast.Decl, at: Any) -> None:
        """A declaration, with its value."""
        if isinstance(node.type, c_ast.ArrayDecl):
            kind = _type_of(node.type.type)
            if not isinstance(node.init, c_ast.InitList):
                raise SourceError(f"{self.function.name}: arrays are tables of constants")
            numbers = [self.value(item, None) for item in node.init.exprs]
            self.tables[node.name] = np.array(numbers).astype(kind)
            return
        found = _type_of(node.type)
        assert found is not None
        self.kinds[node.name] = found
        if node.init is None:
            self.values[node.name] = found.type(0)
        else:
            value = self.value(node.init, at)
            if at is not None and node.name not in self.values:
                self.values[node.name] = found.type(0)
            self.assign(node.name, value, at)

    # ------------------------------------------------------------ statements

    def statement(self, node: Any, at: Any) -> Any:
        """Runs a statement for some elements; returns those that go on behind it."""
        if node is None or isinstance(node, c_ast.EmptyStatement) or self.is_empty(at):
            return at
        if isinstance(node, c_ast.Compound):
            for item in node.block_items or ():
                at = self.statement(item, at)
                if self.is_empty(at):
                    break
            return at
        if isinstance(node, c_ast.DeclList):
            for item in node.decls:
                self.declare(item, at)
        elif isinstance(node, c_ast.Decl):
            self.declare(node, at)
        elif isinstance(node, c_ast.Return):
            return self.leave(node, at)
        elif isinstance(node, c_ast.If):
            yes, no = self.split(_is_true(self.value(node.cond, at)), at)
            return self.joined(self.statement(node.iftrue, yes), self.statement(node.iffalse, no))
        elif isinstance(node, (c_ast.For, c_ast.While)):
            return self.loop(node, at)
        elif isinstance(node, (c_ast.Break, c_ast.Continue)):
            everything = np.arange(self.size) if at is None else at
            self.leaving[-1][isinstance(node, c_ast.Continue)].append(everything)
            return np.empty(0, np.intp)
        else:
            self.value(node, at)
        return at

    def leave(self, node: c_ast.Return, at: Any) -> Array:
        """``return``, for some elements."""
        value = self.value(node.expr, at).astype(self.function.result, copy=False)
        if at is None:
            self.result = value
        else:
            if self.result is None:
                self.result = np.empty(self.size, self.function.result)
            self.result[at] = value
        return np.empty(0, np.intp)

    def loop(self, node: Any, at: Any) -> Any:
        """``for`` and ``while``: turns until no element wants one more."""
        if isinstance(node, c_ast.For):
            self.statement(node.init, at)
        done: list[Any] = []
        while True:
            if node.cond is not None:
                at, out = self.split(_is_true(self.value(node.cond, at)), at)
                done.append(out)
            if self.is_empty(at):
                break
            self.leaving.append(([], []))
            at = self.statement(node.stmt, at)
            breaking, continuing = self.leaving.pop()
            done += breaking
            at = self.joined(at, *continuing)
            if self.is_empty(at):
                break
            if isinstance(node, c_ast.For):
                self.statement(node.next, at)
        return self.joined(*done)

    # ----------------------------------------------------------- expressions

    def value(self, node: Any, at: Any) -> Any:
        """An expression, of some elements: an array, or a number for all of them."""
        if isinstance(node, c_ast.ID):
            return self.load(node.name, at)
        if isinstance(node, c_ast.Constant):
            return _number(node.type, node.value)
        if isinstance(node, c_ast.BinaryOp):
            return _binary(node.op, self.value(node.left, at), self.value(node.right, at))
        if isinstance(node, c_ast.FuncCall):
            return self.call(node, at)
        if isinstance(node, c_ast.UnaryOp):
            return self.unary(node, at)
        if isinstance(node, c_ast.TernaryOp):
            return self.choice(node, at)
        if isinstance(node, c_ast.Cast):
            found, kind = self.value(node.expr, at), _type_of(node.to_type.type)
            return found if kind is None else found.astype(kind, copy=False)
        if isinstance(node, c_ast.Assignment):
            value = self.value(node.rvalue, at)
            target = node.lvalue.expr if isinstance(node.lvalue, c_ast.UnaryOp) else node.lvalue
            if not isinstance(target, c_ast.ID):
                raise SourceError(f"{self.function.name}: only variables are assigned to")
            if node.op != "=":
                value = _binary(node.op[:-1], self.load(target.name, at), value)
            self.assign(target.name, value, at)
            return value
        if isinstance(node, c_ast.ExprList):
            values = [self.value(item, at) for item in node.exprs]
            return values[-1]
        if isinstance(node, c_ast.ArrayRef):
            table = self.tables.get(getattr(node.name, "name", ""))
            if table is None:
                raise SourceError(f"{self.function.name}: arrays are tables of constants")
            return np.take(table, self.value(node.subscript, at), mode="clip")
        raise SourceError(f"{self.function.name}: {type(node).__name__} in a function of numbers")

    def unary(self, node: c_ast.UnaryOp, at: Any) -> Any:
        """An operator of one operand."""
        if node.op == "sizeof":
            kind = _type_of(node.expr.type)
            assert kind is not None
            return np.int32(kind.itemsize)
        value = self.value(node.expr, at)
        if node.op in ("++", "--", "p++", "p--"):
            self.assign(node.expr.name, _binary(node.op[-1], value, np.int32(1)), at)
            return value
        if node.op in ("*", "+"):  # a pointer stands for what it points at
            return value
        if node.op == "!":
            return np.logical_not(_is_true(value))
        if node.op == "-":
            return np.negative(_promoted(value))
        if node.op == "~":
            return np.invert(_promoted(value))
        raise SourceError(f"{self.function.name}: {node.op} in a function of numbers")

    def choice(self, node: c_ast.TernaryOp, at: Any) -> Any:
        """``?:``. What calls functions is run for the elements that need it."""
        condition = _is_true(self.value(node.cond, at))
        if condition.ndim and (_calls(node.iftrue) or _calls(node.iffalse)):
            yes, no = self.split(condition, at)
            first = None if self.is_empty(yes) else self.value(node.iftrue, yes)
            second = None if self.is_empty(no) else self.value(node.iffalse, no)
            if first is None or second is None:
                found = second if first is None else first
                other = self.kind(node.iftrue if first is None else node.iffalse)
                return found if other is None else _common(found, other.type(0))[0]
            first, second = _common(first, second)
            merged = np.empty(condition.shape, first.dtype)
            merged[condition], merged[~condition] = first, second
            return merged
        first, second = _common(self.value(node.iftrue, at), self.value(node.iffalse, at))
        return np.where(condition, first, second)

    def kind(self, node: Any) -> np.dtype[Any] | None:
        """The type of an expression that is not run, None where it is that of the other side."""
        if isinstance(node, c_ast.FuncCall) and node.name.name in self.functions:
            return self.functions[node.name.name].result
        if isinstance(node, c_ast.ID) and node.name in self.kinds:
            return self.kinds[node.name]
        return None

    def call(self, node: c_ast.FuncCall, at: Any) -> Any:
        """A call, which may give variables their values."""
        name, written = node.name.name, node.args.exprs if node.args else []
        function = self.functions.get(name)
        if function is None:
            given = [self.value(item, at) for item in written]
            if name in _OF_FLOATS:
                kind, builtin = _OF_FLOATS[name]
                return builtin(*[item.astype(kind, copy=False) for item in given])
            if name not in _BUILTINS:
                raise SourceError(f"{self.function.name}: there is no function {name}")
            if name in _ARGUMENTS:
                given = [item.astype(_ARGUMENTS[name], copy=False) for item in given]
            return _BUILTINS[name](*given)
        targets = {number: _target(written[number]) for number in function.pointers}
        given = [
            self.load(targets[n], at) if n in targets else self.value(item, at)
            for n, item in enumerate(written)
        ]
        size = self.size if at is None else len(at)
        result, values = _Run(self.functions, function, given, size).run()
        for number, value in zip(function.pointers, values, strict=True):
            self.assign(targets[number], value, at)
        return result


def _target(node: Any) -> str:
    """The variable that an argument points at."""
    found = node.expr if isinstance(node, c_ast.UnaryOp) and node.op == "&" else node
    name: str = found.name
    return name


@cache
def _number(kind: str, text: str) -> Any:
    """A literal."""
    if kind in ("float", "double", "long double"):
        digits = text.rstrip("fFlL") if "x" not in text.lower() else text.rstrip("lL")
        number = float.fromhex(digits.rstrip("fF")) if "x" in text.lower() else float(digits)
        return np.float32(number) if kind == "float" else np.float64(number)
    digits = _SUFFIX.sub("", text)
    suffix = text[len(digits) :].lower()
    number = int(digits, 16 if digits.lower().startswith("0x") else 10)
    wide = number >> 32 or "ll" in suffix or (not digits.startswith("0x") and number >> 31)
    if "u" in suffix or number >> 63 or (digits.startswith("0x") and not wide and number >> 31):
        return np.uint64(number) if wide else np.uint32(number)
    return np.int64(number) if wide else np.int32(number)


def _binary(op: str, x: Any, y: Any) -> Any:
    """``x op y`` by C's rules."""
    if op in ("&&", "||"):
        function = np.logical_and if op == "&&" else np.logical_or
        return function(_is_true(x), _is_true(y))
    if op in ("&", "|", "^") and x.dtype == y.dtype == np.bool_:
        return _COMPUTED[op](x, y)
    if op in ("<<", ">>"):
        x = _promoted(x)
        shift = np.left_shift if op == "<<" else np.right_shift
        return shift(x, y.astype(x.dtype, copy=False))
    x, y = _common(x, y)
    if op in _COMPARED:
        return _COMPARED[op](x, y)
    if op in _COMPUTED:
        return _COMPUTED[op](x, y)
    return np.divide(x, y) if x.dtype.kind == "f" else _quotient(op, x, y)


@cache
def _calls(node: Any) -> bool:
    """Whether an expression calls a function of the text."""
    found, stack = False, [node]
    while stack and not found:
        item = stack.pop()
        found = isinstance(item, c_ast.FuncCall) and item.name.name.startswith("lz_")
        found = found and item.name.name not in _BUILTINS
        stack.extend(child for _, child in item.children())
    return found
