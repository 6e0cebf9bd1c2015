"""Scalar functions as loops over vectors: what maps for any shape are made of.

Each function in each dtype is one primitive, ``out[i] = f(a[i], b[i], c[i])`` for a piece of some
hundred elements that fits a first-level cache. Values are in their compute type there: 16-bit
floats are loaded, stored and rounded by primitives of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from lazyt.ir.dtypes import ALL, DType, bfloat16, bool_, float16, float32, int64, uint32
from lazyt.ir.scalar import FUNCTIONS, HOMES, Call, ScalarFunction

#: Types in which kernels compute.
COMPUTED = tuple(t for t in ALL if not t.is_half)
#: What is done with 16-bit floats: from memory, to memory, and as if to memory and back.
HALVES = ("load16", "store16", "round16")
_MOST_ELEMENTS = 1 << 30
_NAMES = ("a", "b", "c")
#: Costs of functions that most programs use, at most, and of those whose text is long, at least.
_PLAIN_COST, _LONG_COST = 3, 30


class Primitive(NamedTuple):
    """One function in one dtype.

    Attributes:
        name: the scalar function, or one of ``HALVES``.
        kind: the compute type of its arguments; of ``HALVES`` the type stored.
        result: the type of its result where the function leaves it free, else the same as ``kind``.
    """

    name: str
    kind: DType
    result: DType

    @property
    def symbol(self) -> str:
        """What C calls it."""
        return f"lz_generic_{self.name}_{self.kind.suffix}_{self.result.suffix}"


@cache
def primitives() -> tuple[Primitive, ...]:
    """All of them: for every scalar function that is registered by the package itself."""
    return tuple(_primitives())


def _primitives() -> Iterator[Primitive]:
    for half in (float16, bfloat16):
        yield Primitive("load16", half, float32)
        yield Primitive("store16", half, float32)
        yield Primitive("round16", half, float32)
    for name, fn in FUNCTIONS.items():
        if not HOMES[name].startswith("lazyt.") or fn.result in ("part", "pair"):
            continue  # not in the prelude: a user's own, and those of complex numbers
        if name == "threefry":
            yield Primitive(name, uint32, uint32)
        elif name == "cast":
            for source in COMPUTED:
                for target in COMPUTED:
                    if source is not target:
                        yield Primitive(name, source, target)
        elif name == "bitcast":
            yield from _bitcasts()
        else:
            for kind in COMPUTED:
                if kind.kind in fn.kinds:
                    yield Primitive(name, kind, kind)


def _bitcasts() -> Iterator[Primitive]:
    for source in ALL:
        for target in ALL:
            if source is not target and source.itemsize == target.itemsize:
                yield Primitive("bitcast", source, target)


def group_of(primitive: Primitive) -> str:
    """Which primitives it is compiled together with: those of its type that are about as often
    used, and as long."""
    name, kind, result = primitive
    if name == "cast":
        common = {kind, result} <= {bool_, int64, float32}
        return "casts" if common else f"casts_{kind.suffix}"
    if name in (*HALVES, "bitcast"):
        return f"halves_{kind.suffix}" if kind.is_half else "bitcasts"
    fn = FUNCTIONS[name]
    if name == "threefry":
        return "random"
    if fn.cost >= _LONG_COST and name not in ("sin", "cos"):
        return f"long_{kind.suffix}"
    exact = name in ("exp", "log", "tanh", "sigmoid", "rsqrt", "sqrt", "reciprocal", "div")
    plain = exact or fn.cost <= _PLAIN_COST
    return f"maps_{kind.suffix}" if plain else f"functions_{kind.suffix}"


def primitive_c(primitive: Primitive) -> tuple[str, set[str]]:
    """The C function, and the prelude functions that it calls."""
    # Not for programs whose library is on disk: these print no C.
    from lazyt.codegen.c import tree as ct
    from lazyt.codegen.c.family import Expressions
    from lazyt.ir.index import Axis, Load, variable
    from lazyt.ir.kernel import Buffer

    name, kind, result = primitive
    if name in HALVES:
        called = f"lz_{name.removesuffix('16')}_{kind.suffix}"
        source = f"lz_{kind.suffix}" if name == "load16" else "lz_f32"
        target = f"lz_{kind.suffix}" if name == "store16" else "lz_f32"
        return _function(primitive, target, {"a": source}, f"{called}(a[i])"), {called}
    fn = FUNCTIONS[name]
    types = _argument_types(fn, kind)
    expressions = Expressions([Buffer(n, t.compute, (_MOST_ELEMENTS,), "in") for n, t in types])
    at = (variable(Axis("i", _MOST_ELEMENTS)),)
    loads = tuple(Load(n, at, t) for n, t in types)
    made = bool_ if fn.result == "bool" else result
    value = ct.text(expressions.value(Call(fn, loads, made)))
    used = {n: f"lz_{t.compute.suffix}" for n, t in types}
    return _function(primitive, f"lz_{made.compute.suffix}", used, value), set(expressions.used)


def _argument_types(fn: ScalarFunction, kind: DType) -> list[tuple[str, DType]]:
    names = _NAMES[: fn.arity]
    if fn.name == "where":
        return [("a", bool_), ("b", kind), ("c", kind)]
    if fn.name == "threefry":
        return [("a", uint32), ("b", uint32), ("c", int64)]
    return [(n, kind) for n in names]


def _function(primitive: Primitive, target: str, sources: dict[str, str], value: str) -> str:
    parameters = ", ".join(f"const void *{n}_" for n in _NAMES)
    lines = [f"static void {primitive.symbol}(lz_i64 count, void *out_, {parameters})", "{"]
    lines.append(f"  {target} *restrict out = ({target} *) out_;")
    lines += [f"  const {t} *restrict {n} = (const {t} *) {n}_;" for n, t in sources.items()]
    lines.append("  for (lz_i64 i = 0; i < count; i++)")
    lines += [f"    out[i] = {value};", "}", ""]
    return "\n".join(lines)
