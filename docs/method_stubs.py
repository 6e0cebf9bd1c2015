"""Writes lazyt/tensor_methods.pyi: what type checkers and editors know of Tensor's methods.

Methods are attached to Tensor where they are written, which no checker follows. The stub says the
same in the way that they read: every method with its parameters, types and first sentence.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lazyt
import lazyt.nn  # attaches methods, too

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "lazyt" / "tensor_methods.pyi"
INPLACE = ROOT / "lazyt" / "inplace_functions.pyi"


def defining_module(kind: type) -> str:
    """The module whose file has the class, which may call itself ``lazyt``'s own."""
    if kind.__module__ != "lazyt":
        return kind.__module__
    found = (
        name
        for name, module in sorted(sys.modules.items())
        if name.startswith("lazyt.")
        and vars(module).get(kind.__name__) is kind
        and f"class {kind.__name__}" in inspect.getsource(module)
    )
    return next(found, kind.__module__)


#: Methods whose result depends on their arguments, with the forms that there are.
FORMS: dict[str, tuple[str, ...]] = {
    "size": ("(self, dim: None = None) -> Size", "(self, dim: int) -> int"),
    "stride": ("(self, dim: None = None) -> tuple[int, ...]", "(self, dim: int) -> int"),
    **{
        name: (
            "(self) -> Tensor",
            "(self, other: Tensor) -> Tensor",
            f"(self, dim: int, keepdim: bool = False) -> return_types.{name}",
        )
        for name in ("max", "min")
    },
    **{
        name: ("(self) -> Tensor",
               f"(self, dim: int, keepdim: bool = False) -> return_types.{name}")
        for name in ("median", "nanmedian")
    },
    "mode": ("(self, dim: int = -1, keepdim: bool = False) -> return_types.mode",),
    "kthvalue": ("(self, k: int, dim: int = -1, keepdim: bool = False) -> return_types.kthvalue",),
    "sort": ("(self, dim: int = -1, descending: bool = False, stable: bool = False) "
             "-> return_types.sort",),
    "topk": ("(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) "
             "-> return_types.topk",),
    "cummax": ("(self, dim: int) -> return_types.cummax",),
    "cummin": ("(self, dim: int) -> return_types.cummin",),
    "aminmax": ("(self, *, dim: int | None = None, keepdim: bool = False) "
                "-> return_types.aminmax",),
    "type": ("(self, dtype: None = None) -> str", "(self, dtype: DType | str) -> Tensor"),
    "nonzero": ("(self, *, as_tuple: typing.Literal[False] = False) -> Tensor",
                "(self, *, as_tuple: typing.Literal[True]) -> tuple[Tensor, ...]"),
    "__dlpack__": ("(self, *, stream: None = None, max_version: tuple[int, int] | None = None, "
                   "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any",),
    "numpy": ("(self, *, force: bool = False) -> numpy.ndarray[Any, Any]",),
}  # fmt: skip
#: Names with underscores that users may meet.
_HIDDEN = ("_version", "_base", "_is_view", "__array__", "__array_namespace__", "__contains__",
           "__dlpack__", "__dlpack_device__", "__format__")  # fmt: skip
#: Properties whose source says less than users know.
RESULTS = {"layout": "lazyt.handle.layout.layout",
           "name": "None", "output_nr": "int", "real": "Tensor", "volatile": "bool",
           "grad_dtype": "DType | None", "explain": "lazyt.plan.explain.Explanation"}  # fmt: skip
#: Methods are called like these, so the stub names the built-in ones in full.
_BARE = re.compile(r"(?<![\w.])(int|bool|float|str|tuple)\b")


class Names:
    """Renders types, and remembers what has to be imported for them."""

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def of(self, kind: Any) -> str:
        """The text of a type; ``Any`` for what a stub cannot say."""
        if kind is None or kind is type(None):
            return "None"
        if kind is Any:
            return "Any"
        if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
            parts = [self.of(k) for k in typing.get_args(kind)]
            return "Any" if "Any" in parts else " | ".join(dict.fromkeys(parts))
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Literal:
            return f"typing.Literal[{', '.join(map(repr, arguments))}]"
        if origin is not None:
            return self._generic(origin, arguments)
        if not isinstance(kind, type):
            return "Any"
        if kind is inspect.Parameter.empty:
            return "Any"
        if kind is types.ModuleType:
            return self.of(types.SimpleNamespace).replace("SimpleNamespace", "ModuleType")
        if kind.__module__ == "builtins":
            return f"builtins.{kind.__qualname__}"
        if kind is lazyt.Tensor:
            return "Tensor"
        if kind is lazyt.Size:
            return "Size"
        if kind is lazyt.dtype:
            return "DType"
        home = defining_module(kind)
        self.modules.add(home)
        return f"{home}.{kind.__qualname__}"

    def _generic(self, origin: Any, arguments: tuple[Any, ...]) -> str:
        inner = ["..." if a is Ellipsis else self._argument(a) for a in arguments]
        return f"{self.of(origin)}[{', '.join(inner)}]"

    def _argument(self, kind: Any) -> str:
        if isinstance(kind, list):
            return f"[{', '.join(self.of(k) for k in kind)}]"
        return self.of(kind)


def annotation(names: Names, function: Callable[..., Any], text: Any) -> str:
    """An annotation of ``function``'s as the stub says it."""
    if text is inspect.Parameter.empty:
        return "Any"
    if not isinstance(text, str):
        return names.of(text)
    try:
        return names.of(eval(text, inspect.unwrap(function).__globals__))
    except (NameError, TypeError, SyntaxError):  # known to type checkers alone
        return "Any"


def default_text(value: Any) -> str:
    """A default where it is a plain value, else dots."""
    plain = value is None or isinstance(value, (bool, int, float, str))
    return repr(value) if plain and repr(value) not in ("inf", "nan", "-inf") else "..."


def parameters(names: Names, function: Callable[..., Any]) -> str:
    """The parameters of a method, without ``out``, which only functions take."""
    parts, star = ["self"], False
    given = [*inspect.signature(function).parameters.values()][1:]
    for p in given:
        if p.name == "out":
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        kind = annotation(names, function, p.annotation)
        if p.kind is p.VAR_POSITIONAL:
            parts.append(f"*{p.name}: {kind}")
            star = True
        elif p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: {kind}")
        elif p.default is not p.empty:
            parts.append(f"{p.name}: {kind} = {default_text(p.default)}")
        else:
            parts.append(f"{p.name}: {kind}")
    return ", ".join(parts)


def sentence(value: object) -> str:
    """The first sentence of a docstring."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    found = re.match(r"(.*?[.:])(\s|$)", text)
    return (found.group(1) if found else text).replace("\\", "\\\\").replace('"""', "'''")


def result_of(names: Names, name: str, function: Callable[..., Any], text: Any) -> str:
    """What a method or property gives, where its source says no more than Any."""
    said = annotation(names, function, text)
    if said != "Any":
        return said
    given = RESULTS.get(name) or ("bool" if name.startswith("is_") else "Any")
    return _BARE.sub(r"builtins.\1", given)


def method(names: Names, name: str, function: Callable[..., Any]) -> Iterator[str]:
    """The lines of one method."""
    told = f'        """{sentence(function)}"""'
    forms = tuple(_BARE.sub(r"builtins.\1", form) for form in FORMS.get(name, ()))
    if not forms:
        result = inspect.signature(function).return_annotation
        said = result_of(names, name, function, result)
        if name.endswith("_") and not name.startswith("__"):
            said = "Tensor"
        forms = (f"({parameters(names, function)}) -> {said}",)
    for form in forms:
        if len(forms) > 1:
            yield "    @typing.overload"
        yield f"    def {name}{form}:"
        yield told


def declared() -> set[str]:
    """The names that the class in lazyt/handle/tensor.py has itself, in text."""
    source = (ROOT / "lazyt" / "handle" / "tensor.py").read_text(encoding="utf-8")
    body = source.split("class Tensor")[1]
    return {*re.findall(r"^ +def (\w+)", body, re.M), *re.findall(r"^ +(\w+): ", body, re.M)}


def members() -> Iterator[tuple[str, Any]]:
    """Public methods and properties that are attached to Tensor elsewhere."""
    own = declared()
    for name, value in sorted(vars(lazyt.Tensor).items()):
        if name not in own and (not name.startswith("_") or name in _HIDDEN):
            yield name, value


def tensor_stub() -> str:
    """lazyt/tensor_methods.pyi."""
    names, lines = Names(), []
    for name, value in members():
        if isinstance(value, property):
            getter = value.fget
            text = getattr(getter, "__annotations__", {}).get("return", inspect.Parameter.empty)
            kind = result_of(names, name, getter, text)
            lines += ["    @property", f"    def {name}(self) -> {kind}:"]
            lines.append(f'        """{sentence(value)}"""')
            if value.fset is not None:
                lines += [f"    @{name}.setter", f"    def {name}(self, value: Any) -> None: ..."]
        elif callable(value):
            lines += method(names, name, value)
        else:
            lines.append(f"    {name}: {names.of(type(value))}")
    known = {"builtins", "typing", "numpy", "lazyt.plan.explain", "lazyt.handle.layout"}
    imports = sorted({*known, *names.modules})
    head = [
        '"""The methods of Tensor that are written elsewhere, for type checkers and editors.',
        "",
        "Written by docs/method_stubs.py; `make generate` writes it again.",
        '"""',
        "",
        *(f"import {module}" for module in imports),
        "from typing import Any",
        "",
        "from lazyt.functional import return_types",
        "from lazyt.ir.dtypes import DType",
        "from lazyt.handle.tensor import Size, Tensor",
        "",
        "class TensorMethods:",
        '    """What Tensor has besides its own class body."""',
    ]
    return "\n".join([*head, *lines]) + "\n"


def inplace_stub() -> str:
    """lazyt/inplace_functions.pyi: the in-place forms that are functions of the namespace."""
    from lazyt.functional.operators import INPLACE_FUNCTIONS

    names, lines = Names(), []
    for name, function in sorted(INPLACE_FUNCTIONS.items()):
        given = parameters(names, function).replace("self", "input: Tensor", 1)
        lines += [f"def {name}({given}) -> Tensor:", f'    """{sentence(function)}"""']
    imports = sorted({"builtins", "typing", *names.modules})
    head = [
        '"""Functions like ``exp_`` of the lazyt namespace, for type checkers and editors.',
        "",
        "Written by docs/method_stubs.py; `make generate` writes it again.",
        '"""',
        "",
        *(f"import {module}" for module in imports),
        "from typing import Any",
        "",
        "from lazyt.ir.dtypes import DType",
        "from lazyt.handle.tensor import Tensor",
        "",
    ]
    return "\n".join([*head, *lines]) + "\n"


def outputs() -> dict[Path, str]:
    """Both files and what they should hold."""
    return {TARGET: tensor_stub(), INPLACE: inplace_stub()}


if __name__ == "__main__":
    for path, text in outputs().items():
        path.write_text(text, encoding="utf-8")
        print(f"written: {path.relative_to(ROOT)}")
