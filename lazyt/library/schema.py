"""Schemas of custom operators: inferred from annotations, read from text, compared with calls."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from lazyt.errors import ArgumentError, LazytError
from lazyt.handle.device import device
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType

Number = int | float | bool

#: Annotations of one value, and what schemas call them.
_PLAIN: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
    DType: "ScalarType", device: "Device",
}  # fmt: skip
#: What may stand in a list, and what a function may return.
_LISTED = ("Tensor", "SymInt", "float", "bool", "Scalar")
_RETURNED = ("Tensor", "SymInt", "float", "bool", "Scalar")
_KNOWN = ("Tensor", "SymInt", "int", "float", "bool", "str", "Scalar", "ScalarType", "Device",
          "Layout", "MemoryFormat", "Generator", "Dimname", "Any")  # fmt: skip
_TOKEN = re.compile(r"\s*(->|[A-Za-z_][\w]*|\d+\.?\d*(?:[eE][-+]?\d+)?|'[^']*'|\"[^\"]*\"|\S)")
#: How messages name types.
_SAID = {"SymInt": "int", "Scalar": "number", "ScalarType": "int", "Device": "Device"}


class AliasInfo:
    """With what an argument or a result shares memory.

    Attributes:
        is_write: whether the operator writes to it.
        before_set, after_set: names of memory, before and after the call.
    """

    def __init__(self, text: str) -> None:
        before, arrow, after = text.rstrip("!").partition("->")
        self.is_write = "!" in text
        self.before_set = {part.strip(" !") for part in before.split("|")}
        self.after_set = {part.strip(" !") for part in after.split("|")} if arrow else set()
        self.after_set = self.after_set or set(self.before_set)

    def __repr__(self) -> str:
        return f"AliasInfo({'|'.join(sorted(self.before_set))}{'!' if self.is_write else ''})"


class SchemaType:
    """The type of an argument or a result, which prints as PyTorch has it: ``List[Tensor]``."""

    def __init__(self, argument: Argument) -> None:
        self._argument = argument

    def kind(self) -> str:
        """What sort of type it is: ``TensorType``, ``ListType``, ``OptionalType``, ..."""
        item = self._argument
        if item.is_optional:
            return "OptionalType"
        if item.is_list:
            return "ListType"
        return _KINDS.get(item.kind, f"{item.kind}Type")

    def getElementType(self) -> SchemaType:
        """Of a list, or of what may be None, the type inside; raises AttributeError for others."""
        item = self._argument
        if item.is_optional:
            return SchemaType(replace(item, is_optional=False))
        if item.is_list:
            inside = replace(item, is_list=False, is_optional=item.holds_optional)
            return SchemaType(replace(inside, holds_optional=False))
        raise AttributeError(f"{self} has no elements")

    def isSubtypeOf(self, other: SchemaType) -> bool:
        """Whether values of this type are of the other."""
        if self == other:
            return True
        item = other._argument
        return item.is_optional and self.isSubtypeOf(other.getElementType())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaType) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return self._argument.said()

    __repr__ = __str__

    @property
    def annotation_str(self) -> str:
        """The type as an annotation."""
        return str(self)


_KINDS = {"SymInt": "IntType", "int": "IntType", "float": "FloatType", "bool": "BoolType",
          "str": "StringType", "Scalar": "NumberType", "ScalarType": "IntType",
          "Device": "DeviceObjType", "Generator": "GeneratorType"}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """One argument of an operator, or one result.

    Attributes:
        name: what it is called; empty for most results.
        kind: the type of one value, such as ``Tensor``.
        is_list, is_optional, holds_optional: whether it is a list, may be None, or holds None.
        size: the length of a list for which one number stands, too.
        alias: what it shares memory with, such as ``a!``, with ``!`` for what is written to.
        default: its value where it is not given; ``inspect.Parameter.empty`` where it has to be.
        is_keyword: whether it is given by name only.
    """

    name: str
    kind: str
    is_list: bool = False
    is_optional: bool = False
    holds_optional: bool = False
    size: int | None = None
    alias: str = ""
    default: Any = inspect.Parameter.empty
    is_keyword: bool = False

    @property
    def type(self) -> SchemaType:
        """Its type."""
        return SchemaType(self)

    real_type = type

    @property
    def alias_info(self) -> AliasInfo | None:
        """What it shares memory with; None where that is nothing."""
        return AliasInfo(self.alias) if self.alias else None

    @property
    def kwarg_only(self) -> bool:
        """Whether it is given by name only."""
        return self.is_keyword

    @property
    def default_value(self) -> Any:
        """Its value where it is not given; None, too, where it has to be."""
        return self.default if self.has_default else None

    def has_default_value(self) -> bool:
        """Whether a call may leave it out."""
        return self.has_default

    @property
    def is_out(self) -> bool:
        """Whether results are written to it, which is given by name."""
        return self.is_keyword and self.is_written

    @property
    def N(self) -> int | None:
        """The length of a list for which one number stands, too."""
        return self.size

    @property
    def is_written(self) -> bool:
        """Whether the operator writes to it."""
        return self.alias.endswith("!")

    @property
    def has_default(self) -> bool:
        """Whether a call may leave it out."""
        return self.default is not inspect.Parameter.empty

    @property
    def type_text(self) -> str:
        """Its type, as schemas write it."""
        text = self.kind + (f"({self.alias.replace('->', ' -> ')})" if self.alias else "")
        if self.is_list:
            inside = "?" if self.holds_optional else ""
            text += f"{inside}[{'' if self.size is None else self.size}]"
        return text + ("?" if self.is_optional else "")

    def text(self, exact: bool = False) -> str:
        """It as schemas write it; ``exact``: numbers as Python writes them."""
        text = f"{self.type_text} {self.name}".rstrip()
        return f"{text}={_default_text(self.default, exact)}" if self.has_default else text

    def said(self) -> str:
        """Its type in messages."""
        text = _SAID.get(self.kind, self.kind)
        if self.is_list:
            text = f"List[Optional[{text}]]" if self.holds_optional else f"List[{text}]"
        return f"Optional[{text}]" if self.is_optional else text


def _default_text(value: Any, exact: bool) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, DType):
        return value.name
    if isinstance(value, float) and value.is_integer() and not exact:
        return f"{int(value)}."
    if isinstance(value, list):
        return f"[{', '.join(_default_text(item, exact) for item in value)}]"
    return str(value)


@dataclass(frozen=True, repr=False)
class Schema:
    """What an operator takes and gives.

    Attributes:
        full_name: its name with namespace, and of its overload behind a dot.
        arguments, returns: in order.
        grouped: whether the results come in a tuple, even a single one.
    """

    full_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    grouped: bool = False

    @property
    def qualified_name(self) -> str:
        """The name without that of the overload."""
        return self.full_name.partition(".")[0]

    @property
    def name(self) -> str:
        """The same, as PyTorch calls it."""
        return self.qualified_name

    @property
    def overload_name(self) -> str:
        """The name of the overload; empty for the only one."""
        return self.full_name.partition(".")[2]

    @property
    def is_mutable(self) -> bool:
        """Whether it writes to one of its arguments."""
        return not self.is_functional

    @property
    def is_functional(self) -> bool:
        """Whether it writes to none of its arguments."""
        return not any(item.is_written for item in self.arguments)

    def text(self, name: str, exact: bool = False) -> str:
        """The schema under a name."""
        parts: list[str] = []
        for item in self.arguments:
            if item.is_keyword and "*" not in parts:
                parts.append("*")
            parts.append(item.text(exact))
        given = [item.text(exact) for item in self.returns]
        plain = len(given) == 1 and not self.grouped
        result = given[0] if plain else f"({', '.join(given)})"
        return f"{name}({', '.join(parts)}) -> {result}"

    def __str__(self) -> str:
        return self.text(self.full_name)

    __repr__ = __str__

    # -------------------------------------------------------------- calls

    def bind(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, defaults filled in; raises LazytError, in PyTorch's
        words, for a call that does not fit."""
        title = f"{self.qualified_name}()"
        by_place = [item for item in self.arguments if not item.is_keyword]
        if len(args) > len(by_place):
            raise LazytError(
                f"{title} expected at most {len(by_place)} argument(s) but received {len(args)} "
                f"argument(s). Declaration: {self}"
            )
        found = {item.name: value for item, value in zip(by_place, args)}
        for name, value in named.items():
            if name not in [item.name for item in self.arguments]:
                raise LazytError(
                    f"Unknown keyword argument '{name}' for operator '{self.qualified_name}'. "
                    f"Schema: {self}"
                )
            if name in found:
                raise LazytError(
                    f"{title} got multiple values for argument '{name}'. Declaration: {self}"
                )
            found[name] = value
        bound: dict[str, Any] = {}
        for place, item in enumerate(self.arguments):
            if item.name not in found and not item.has_default:
                raise LazytError(
                    f"{title} is missing value for argument '{item.name}'. Declaration: {self}"
                )
            if item.name in found:
                bound[item.name] = self._checked(item, place, found[item.name])
            else:
                bound[item.name] = item.default
        return bound

    def _checked(self, item: Argument, place: int, value: Any) -> Any:
        """A value as the argument's type."""
        if value is None and (item.is_optional or item.kind == "Tensor"):
            return None
        if not item.is_list:
            fits, made = _as_kind(item.kind, value)
        elif isinstance(value, (list, tuple)):
            pairs = [
                (True, None) if v is None and item.holds_optional else _as_kind(item.kind, v)
                for v in value
            ]
            fits, made = all(fit for fit, _ in pairs), [v for _, v in pairs]
        else:
            fits, made = _as_kind(item.kind, value)
            fits, made = fits and item.size is not None, [made] * (item.size or 1)
        if not fits:
            raise LazytError(
                f"{self.qualified_name}() Expected a value of type '{item.said()}' for argument "
                f"'{item.name}' but instead found type '{type(value).__name__}'.\n"
                f"Position: {place}\nValue: {value}\nDeclaration: {self}"
            )
        return made


def _as_kind(kind: str, value: Any) -> tuple[bool, Any]:
    """Whether a value is of a schema's type, and the value as such."""
    if kind in ("int", "SymInt", "float", "bool", "Scalar") and isinstance(value, Tensor):
        if value.numel() != 1:
            return False, value
        value = value.item()
    if kind in ("int", "SymInt"):
        return isinstance(value, int) or hasattr(value, "__index__"), value
    if kind == "float":
        fits = isinstance(value, (int, float))
        return fits, float(value) if fits and not isinstance(value, float) else value
    if kind == "bool":
        return isinstance(value, bool), value
    if kind == "Scalar":
        return isinstance(value, (int, float)), value
    if kind == "str":
        return isinstance(value, str), value
    if kind == "Tensor":
        return isinstance(value, Tensor), value
    if kind == "ScalarType":
        return isinstance(value, DType), value
    if kind == "Device":
        fits = isinstance(value, (str, device))
        return fits, device(value) if isinstance(value, str) else value
    return True, value


# Schemas read from text.


class _Text:
    """A schema's text, token by token."""

    def __init__(self, text: str) -> None:
        self.whole = text
        self.tokens = _TOKEN.findall(text)
        self.place = 0

    @property
    def next(self) -> str:
        """The current token, empty at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        """The current token; goes on to the next."""
        token = self.next
        self.place += 1
        return token

    def accept(self, token: str) -> bool:
        """Whether the current token is this one, which is taken then."""
        found = self.next == token
        self.place += found
        return found

    def expect(self, token: str) -> None:
        """Takes a token; raises LazytError for another one."""
        if not self.accept(token):
            self.fail(f"expected {token} but found '{self.next}' here")

    def fail(self, what: str) -> NoReturn:
        """Raises LazytError with the text."""
        raise LazytError(f"{what}: {self.whole}")

    def argument(self, is_keyword: bool) -> Argument:
        """``Tensor(a!)? name=None``."""
        kind = self.take()
        if kind not in _KNOWN:
            self.fail(f"unknown type specifier '{kind}'")
        alias = self._alias()
        made = Argument("", kind, alias=alias, is_keyword=is_keyword)
        optional = self.accept("?")
        if self.accept("["):
            size = int(self.take()) if self.next.isdigit() else None
            self.expect("]")
            made = replace(made, is_list=True, holds_optional=optional, size=size)
            alias = self._alias()
            made = replace(made, alias=alias or made.alias)
            optional = self.accept("?")
        return replace(made, is_optional=optional)

    def _alias(self) -> str:
        if not self.accept("("):
            return ""
        words = ""
        while not self.accept(")"):
            if not self.next:
                self.fail("expected ) but found the end here")
            words += self.take()
        return words

    def default(self) -> Any:
        """A default value."""
        if self.accept("["):
            items: list[Any] = []
            while not self.accept("]"):
                if items:
                    self.expect(",")
                items.append(self.default())
            return items
        sign = -1 if self.accept("-") else 1
        token = self.take()
        if token in ("None", "True", "False"):
            return {"None": None, "True": True, "False": False}[token]
        if token[:1] in "'\"" and token:
            return token[1:-1]
        if re.fullmatch(r"\d+", token):
            return sign * int(token)
        if re.fullmatch(r"\d+\.?\d*(?:[eE][-+]?\d+)?", token):
            return sign * float(token)
        return token


def parse_schema(text: str, namespace: str) -> Schema:
    """The schema of ``name.overload(...) -> ...``; raises LazytError for what is none."""
    reader = _Text(text)
    name = reader.take()
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        reader.fail("expected the name of an operator")
    if reader.accept("."):
        name += f".{reader.take()}"
    if not reader.next:
        raise LazytError(
            f"Tried to parse a function schema but only the operator name was given: {text}"
        )
    reader.expect("(")
    arguments: list[Argument] = []
    is_keyword = False
    while not reader.accept(")"):
        if arguments or is_keyword:
            reader.expect(",")
        if reader.accept("*"):
            is_keyword = True
            continue
        made = replace(reader.argument(is_keyword), name=reader.take())
        if not made.name.isidentifier():
            reader.fail(f"expected the name of an argument but found '{made.name}' here")
        if reader.accept("="):
            made = replace(made, default=reader.default())
        arguments.append(made)
    reader.expect("->")
    returns: list[Argument] = []
    grouped = reader.accept("(")
    while not (grouped and reader.accept(")")):
        if returns:
            reader.expect(",")
        made = reader.argument(False)
        if reader.next.isidentifier():
            made = replace(made, name=reader.take())
        returns.append(made)
        if not grouped:
            break
    if reader.next:
        reader.fail(f"expected eof but found '{reader.next}' here")
    return Schema(f"{namespace}::{name}", tuple(arguments), tuple(returns), grouped)


# Schemas inferred from annotations.


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
) -> str:
    """The schema of a function, from its annotations.

    Args:
        prototype_function: a function with an annotation for every parameter and for the result.
        mutates_args: names of the tensors that it writes to, or ``"unknown"`` for all of them.
        op_name: stands in front of the schema.

    Raises ArgumentError, in PyTorch's words, for a function without a schema.

    Example:
        >>> def scale(x: lazyt.Tensor, by: float = 2.0) -> lazyt.Tensor: ...
        >>> lazyt.library.infer_schema(scale, mutates_args=())
        '(Tensor x, float by=2.0) -> Tensor'
    """
    return schema_of(prototype_function, mutates_args).text(op_name or "", exact=True)


def schema_of(function: Callable[..., Any], mutates_args: str | Iterable[str]) -> Schema:
    """The schema of a function, without a name."""
    signature = inspect.signature(function)

    def fail(what: str) -> NoReturn:
        raise ArgumentError(f"infer_schema(func): {what} Got func with signature {signature})")

    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError) as error:
        fail(f"the annotations cannot be read: {error}.")
    written = mutates_args if mutates_args == "unknown" else set(mutates_args)
    found: list[Argument] = []
    for place, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if name not in hints:
            fail(f"Parameter {name} must have a type annotation.")
        made = _annotated(hints[name])
        if made is None:
            fail(
                f"Parameter {name} has unsupported type {hints[name]}. Valid are Tensor, int, "
                "float, bool, str, numbers, dtypes and devices, optional ones, and lists of them."
            )
        is_tensor = made.kind == "Tensor"
        if written != "unknown" and name in written and not is_tensor:
            fail(
                f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors "
                "can be mutated"
            )
        if is_tensor and (written == "unknown" or name in written):
            made = replace(made, alias=f"a{place}!")
        keyword = parameter.kind == parameter.KEYWORD_ONLY
        made = replace(made, name=name, is_keyword=keyword, default=parameter.default)
        if made.has_default and not _is_default(made.default):
            fail(
                f"Parameter {name} has an unsupported default value type {type(made.default)}. "
                "Numbers, strings, None, dtypes and devices are supported."
            )
        found.append(made)
    if written != "unknown":
        strange = set(written) - set(signature.parameters)
        if strange:
            fail(
                f"{strange} in mutates_args were not found in the custom op's signature. "
                "mutates_args should contain the names of all args that the custom op mutates, or "
                "just the string 'unknown' if you don't know."
            )
    if signature.return_annotation is inspect.Signature.empty:
        fail("No return type annotation was provided. Please add one.")
    returns, grouped = _returned(hints["return"], fail)
    return Schema("", tuple(found), returns, grouped)


def _is_default(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, DType, device))


def _parts(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, the annotation itself where it is none."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _annotated(annotation: Any) -> Argument | None:
    """An annotation as a type of schemas; None where there is none."""
    parts = [part for part in _parts(annotation) if part is not type(None)]
    optional = len(parts) < len(_parts(annotation))
    if set(parts) == {int, float, bool}:
        return Argument("", "Scalar", is_optional=optional)
    if len(parts) != 1:
        return None
    (inner,) = parts
    if inner in _PLAIN:
        return Argument("", _PLAIN[inner], is_optional=optional)
    if typing.get_origin(inner) in (list, Sequence, typing.get_origin(typing.Sequence[int])):
        item = _annotated(typing.get_args(inner)[0])
        if item is None or item.is_list or item.kind not in _LISTED:
            return None
        if item.is_optional and (item.kind != "Tensor" or optional):
            return None
        return Argument(
            "", item.kind, is_list=True, is_optional=optional, holds_optional=item.is_optional
        )
    return None


def _returned(
    annotation: Any, fail: Callable[[str], NoReturn]
) -> tuple[tuple[Argument, ...], bool]:
    """The results of a function, and whether they come as a tuple."""
    if annotation in (None, type(None)):
        return (), True
    several = typing.get_origin(annotation) is tuple
    kinds = typing.get_args(annotation) if several else (annotation,)
    found: list[Argument] = []
    for kind in kinds:
        made = _annotated(kind)
        if made is None or made.kind not in _RETURNED or made.is_optional:
            fail(
                f"Return has unsupported type {annotation}. Valid are Tensor, List[Tensor], int, "
                "float, bool, numbers, and tuples of them."
            )
        found.append(made)
    return tuple(found), several
