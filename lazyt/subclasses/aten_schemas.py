"""The schemas of the operators of ``torch.ops.aten``, and which overload a call means."""

from __future__ import annotations

import functools
import lzma
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from lazyt.errors import LazytError
from lazyt.handle.device import device
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.library.schema import Argument, Schema, parse_schema

__all__ = ["bind", "choose", "names_of_operators", "schema_of", "schemas_of"]

#: Other names of arguments, as functions have them.
_OTHER_NAMES = {
    "self": ("input", "tensor", "data"),
    "dim": ("axis", "dims"),
    "dim0": ("axis0",),
    "dim1": ("axis1",),
    "keepdim": ("keepdims",),
    "other": ("mat2", "vec2"),
    "size": ("shape",),
    "tensors": ("arrays",),
    "correction": ("ddof",),
    "exponent": ("other",),
}
#: Operators that take numbers in the place of tensors.
_TAKE_NUMBERS = frozenset({
    "add", "add_", "sub", "sub_", "subtract", "mul", "mul_", "multiply", "div", "div_", "divide",
    "true_divide", "floor_divide", "floor_divide_", "copysign", "rsub",
})  # fmt: skip


@functools.cache
def _texts() -> dict[str, list[str]]:
    data = (resources.files("lazyt.subclasses") / "aten_schemas.xz").read_bytes()
    found: dict[str, list[str]] = {}
    for line in lzma.decompress(data).decode().splitlines():
        found.setdefault(line.partition("(")[0].partition(".")[0], []).append(line)
    return found


def names_of_operators() -> list[str]:
    """The names of all operators that have schemas here."""
    return [*_texts()]


@functools.cache
def schemas_of(name: str) -> Mapping[str, Schema]:
    """The schemas of an operator's overloads, in the order in which calls try them; none for one
    that PyTorch does not have."""
    parsed = [parse_schema(text, "aten") for text in _texts().get(name, ())]
    return {schema.overload_name or "default": schema for schema in parsed}


def schema_of(name: str, overload: str) -> Schema:
    """The schema of an overload; raises LazytError where it is not known."""
    found = schemas_of(name).get(overload or "default")
    if found is None:
        raise LazytError(f"the schema of aten::{name}.{overload} is not known")
    return found


def choose(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[str, tuple[Any, ...], dict[str, Any]] | None:
    """The overload that a call of a function means, with the arguments as its schema has them:
    without those that are defaults, at the end. None where there is none."""
    numbers = name in _TAKE_NUMBERS
    for overload, schema in schemas_of(name).items():
        if any(item.is_out for item in schema.arguments) != ("out" in kwargs):
            continue
        found = bind(schema, args, kwargs, numbers)
        if found is not None:
            return (overload, *found)
    return None


def bind(
    schema: Schema, args: Sequence[Any], kwargs: Mapping[str, Any], numbers: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of a call of a function as a schema has them; None where they do not fit.

    Args:
        numbers: whether numbers stand for tensors.
    """
    given, named = list(args), dict(kwargs)
    places: list[Any] = []
    keywords: dict[str, Any] = {}
    kept = 0
    for item in schema.arguments:
        value: Any = _MISSING
        if given and not item.is_keyword:
            value = _rest(item, given)
        else:
            key = next((k for k in (item.name, *_OTHER_NAMES.get(item.name, ())) if k in named), "")
            if key:
                value = named.pop(key)
        if value is _MISSING:
            if not item.has_default:
                return None
            value = item.default
        else:
            fits, value = _fitted(item, value, numbers)
            if not fits:
                return None
        is_default = item.has_default and value is not _MISSING and _equal(value, item.default)
        if item.is_keyword:
            if not is_default:
                keywords[item.name] = value
            continue
        places.append(value)
        if not is_default:
            kept = len(places)
    if given or any(value is not None for value in named.values()):
        return None
    return tuple(places[:kept]), keywords


_MISSING = object()


def _rest(item: Argument, given: list[Any]) -> Any:
    """The next argument; for a list of sizes all numbers that follow."""
    value = given.pop(0)
    if item.is_list and item.kind in ("int", "SymInt") and isinstance(value, int):
        sizes = [value]
        while given and isinstance(given[0], int) and not isinstance(given[0], bool):
            sizes.append(given.pop(0))
        return sizes if len(sizes) > 1 or item.size is None else value
    return value


def _equal(value: Any, default: Any) -> bool:
    if isinstance(value, Tensor) or isinstance(default, Tensor):
        return False
    return type(value) is type(default) and bool(value == default)


def _fitted(item: Argument, value: Any, numbers: bool) -> tuple[bool, Any]:
    """Whether a value is of an argument's type, and the value as such."""
    if value is None:
        return item.is_optional or (item.kind == "Tensor" and item.is_optional), None
    if item.is_list:
        if isinstance(value, (list, tuple)):
            pairs = [
                (True, None) if v is None and item.holds_optional else _single(item, v, False)
                for v in value
            ]
            return all(fit for fit, _ in pairs), [v for _, v in pairs]
        fits, value = _single(item, value, False)
        return fits and item.size is not None and item.kind != "Tensor", [value]
    return _single(item, value, numbers)


def _single(item: Argument, value: Any, numbers: bool) -> tuple[bool, Any]:
    kind = item.kind
    is_number = isinstance(value, (int, float, complex)) and not isinstance(value, Tensor)
    if kind == "Tensor":
        return isinstance(value, Tensor) or (numbers and is_number), value
    if kind == "Scalar":
        return is_number, value
    if kind in ("int", "SymInt"):
        return isinstance(value, int) and not isinstance(value, bool), value
    if kind == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool), value
    if kind == "bool":
        return isinstance(value, bool), value
    if kind == "str":
        return isinstance(value, str), value
    if kind == "ScalarType":
        return isinstance(value, DType), value
    if kind == "Device":
        return isinstance(value, (str, device)), value
    return not isinstance(value, (Tensor, int, float, str)), value
