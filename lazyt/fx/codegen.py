"""Graphs as Python functions: names that do not clash, and the text of ``forward``."""

from __future__ import annotations

import builtins
import enum
import inspect
import keyword
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lazyt.fx import _pytree as fx_pytree
from lazyt.fx.node import ABBREVIATIONS, Argument, Node, known_as_module, qualified_name, type_repr
from lazyt.fx.targets import place_of
from lazyt.fx.wrapping import wrap
from lazyt.handle.device import device
from lazyt.handle.tensor import Tensor
from lazyt.utils import _pytree as pytree

__all__ = ["CodeGen", "PythonCode"]

#: How operators are written, by the names of their functions in the module operator.
REFLECTABLE = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}",
    "truediv": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}",
    "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}",
    "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
MAGIC = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}",
    "ge": "{} >= {}", "pos": "+{}", "neg": "-{}", "invert": "~{}", **REFLECTABLE,
}  # fmt: skip
INPLACE = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}",
    "imod": "{} %= {}", "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}",
    "ipow": "{} **= {}", "irshift": "{} >>= {}", "isub": "{} -= {}", "itruediv": "{} /= {}",
    "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip

#: Names that generated code may use without importing them, with what imports them.
_IMPORTS = {
    "inf": "from math import inf",
    "nan": "from math import nan",
    "NoneType": "NoneType = type(None)",
    "torch": "import {package}",
    "device": "from {package} import device",
    "fx_pytree": "import {package}.fx._pytree as fx_pytree",
    "pytree": "import {package}.utils._pytree as pytree",
}

_NAME = re.compile(r"([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?")


def registered_names() -> dict[str, tuple[str, object]]:
    """Names that are there in all generated code, with the line that imports each and its value."""
    package = known_as_module("lazyt")
    values: dict[str, object] = {
        "inf": math.inf, "nan": math.nan, "NoneType": type(None),
        "torch": sys.modules.get(package, sys.modules["lazyt"]), "device": device,
        "fx_pytree": fx_pytree, "pytree": pytree,
    }  # fmt: skip
    return {
        (package if name == "torch" else name): (line.format(package=package), values[name])
        for name, line in _IMPORTS.items()
    }


def snake_case(name: str) -> str:
    """``MaxPool`` as ``max_pool``."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


class Namespace:
    """Names for objects: one for each, none twice, none a keyword or a name of Python's own."""

    def __init__(self) -> None:
        self._names: dict[object, str] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def create_name(self, candidate: str, obj: object | None) -> str:
        """The name of an object: the one that it has, or ``candidate``, changed to a free name.

        Args:
            obj: None for a name that belongs to nothing.
        """
        if obj is not None and obj in self._names:
            return self._names[obj]
        match = _NAME.fullmatch(candidate)
        if match is None:
            candidate = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
            candidate = f"_{candidate}" if candidate[0].isdigit() else candidate
            match = _NAME.fullmatch(candidate)
            assert match is not None
        base, number = match.groups()
        if number is None or candidate in self._used:
            count = self._counts.get(base, 0)
            if _is_taken(candidate, obj):
                count += 1
                candidate = f"{base}_{count}"
        else:
            count = int(number)
        while candidate in self._used:
            count += 1
            candidate = f"{base}_{count}"
        self._used.add(candidate)
        self._counts[base] = count
        if obj is not None:
            self._names[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Give an object a name that was made for it. Raises AssertionError where it has one."""
        if self._names.setdefault(obj, name) is not name:
            raise AssertionError("obj is already associated")

    def rename(self, obj: object, name: str) -> None:
        """Give an object that has a name another one."""
        self._names[obj] = name
        self._used.add(name)


def _is_taken(name: str, obj: object) -> bool:
    """Whether a name means something else in generated code."""
    if keyword.iskeyword(name):
        return True
    if hasattr(builtins, name):
        return getattr(builtins, name) is not obj
    if name in _IMPORTS or name in ("torch", "lazyt"):
        named = registered_names().get(name)
        return named is None or named[1] is not obj
    return False


@dataclass
class PythonCode:
    """A graph as text.

    Attributes:
        src: the text of the function.
        globals: what it uses besides Python's own names.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


class PyTreeInfo(NamedTuple):
    """Of a graph whose arguments are the leaves of others: the names of those, and how they and the
    results are made of leaves."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class CodeGen:
    """Writes graphs as Python functions. Derive from it to write another first line
    (``gen_fn_def``) or another return (``generate_output``), and give it to
    ``Graph.set_codegen``."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The first line: ``def forward(self, x):`` for ``["x"]``."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(
        self, output_args: Argument, *, repr_fn: Callable[[object], str] = repr
    ) -> str:
        """The last line: ``return x``."""
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """The arguments of the graph for those of the function."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the function returns for what the graph does."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the text uses besides, with their values."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, namespace: Namespace, *,
        verbose: bool = False, include_stride: bool = False, include_device: bool = False,
        colored: bool = False,
    ) -> PythonCode:  # fmt: skip
        writer = _Writer(list(nodes), root_module, namespace)
        writer.verbose, writer.strides, writer.devices = verbose, include_stride, include_device
        body = writer.body(self) or ["pass\n"]
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        prologue = self.gen_fn_def(writer.free_vars, writer.return_annotation)
        lines, rows = _numbered(body, prologue.count("\n") + 1)
        text = "\n".join(lines).lstrip("\n")
        text = "\n".join("    " + line for line in text.split("\n"))
        called = writer.add_global("wrap", wrap) if writer.wrapped else ""
        wrapped = "\n".join(f'{called}("{name}")' for name in writer.wrapped)
        source = f"\n{wrapped}\n\n{prologue}\n{text}"
        return PythonCode(source, writer.globals, rows, wrapped.count("\n") + 4)


_COUNTER = re.compile(r"# COUNTER: (\d+)")


def _numbered(body: Sequence[str], start: int) -> tuple[list[str], dict[int, int | None]]:
    """The lines without the counters of nodes, and the number of the node of each line."""
    lines: list[str] = []
    rows: dict[int, int | None] = {}
    node = None
    for line in "".join(body).split("\n"):
        if (found := _COUNTER.search(line)) is not None:
            node = int(found[1])
        else:
            rows[len(lines) + start] = node
            lines.append(line)
    return lines, rows


class _Writer:
    """Writes the statements of one graph, and notes what they use."""

    def __init__(self, nodes: list[Node], root: str, namespace: Namespace) -> None:
        self.nodes, self.root, self.namespace = nodes, root, namespace
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.free_vars: list[str] = []
        self.return_annotation = ""
        self.verbose = self.strides = self.devices = False
        self._last_summary = ""
        for name, (_, value) in registered_names().items():
            self.add_global(name, value)

    def add_global(self, hint: str, value: Any) -> str:
        """The name by which the text refers to an object."""
        if value is not device and (place := place_of(value)):
            return f"{known_as_module(place[0])}.{place[1]}"
        name = self.namespace.create_name(hint, value)
        self.globals[name] = value
        return name

    def body(self, style: CodeGen) -> list[str]:
        """All statements, each behind a counter of its node, with what they free."""
        freed = self._last_uses()
        body: list[str] = []
        for number, node in enumerate(self.nodes):
            if self.verbose and (summary := self._summary(node)):
                body.append(summary)
            body.append(f"# COUNTER: {number}\n")
            statement = self._statement(node, style)
            if node.op == "placeholder":
                if statement:
                    body.append(statement + "\n")
                continue
            body.append(statement)
            names = [repr(n) for n in freed.get(node, ())]
            if node.op != "output" and not node.users:
                names.append(repr(node))
            ends = f";  {' = '.join([*names, 'None'])}\n" if names else "\n"
            body.append("\n" if node.op == "output" else ends)
        return body

    def _last_uses(self) -> dict[Node, list[Node]]:
        """The nodes whose values nobody needs any more, by the node that used them last."""
        seen: set[Node] = set()
        found: dict[Node, list[Node]] = {}
        for node in reversed(self.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    found.setdefault(node, []).append(used)
        return found

    def _statement(self, node: Node, style: CodeGen) -> str:
        annotation = self._annotation(node)
        result = f"{node!r}{annotation} = "
        if node.op == "placeholder":
            default = f" = {self.text(node.args[0])}" if node.args else ""
            self.free_vars.append(f"{node.target}{annotation}{default}")
            raw = node.target.replace("*", "")
            return "" if raw == repr(node) else f"{node!r} = {raw}"
        if node.op == "output":
            if node.type is not None:
                self.return_annotation = f" -> {self.type_text(node.type)}"
            if "repr_fn" in inspect.signature(style.generate_output).parameters:
                return style.generate_output(node.args[0], repr_fn=self.text)
            return style.generate_output(node.args[0])
        if node.op == "get_attr":
            return result + attribute_text(self.root, node.target)
        if node.op == "call_module":
            return result + f"{attribute_text(self.root, node.target)}({self._arguments(node)})"
        if node.op == "call_method":
            method = attribute_text(self.text(node.args[0]), node.target)
            return result + f"{method}({self._arguments(node, 1)})"
        return self._function_call(node, annotation)

    def _function_call(self, node: Node, annotation: str) -> str:
        result, target = f"{node!r}{annotation} = ", node.target
        name = getattr(target, "__name__", "")
        if getattr(target, "__module__", "") == "_operator" and not node.kwargs:
            parts = [self.text(a) for a in node.args]
            if name in MAGIC:
                return result + MAGIC[name].format(*parts)
            if name in INPLACE:
                return f"{INPLACE[name].format(*parts)};  {result}{parts[0]}"
        called = self.add_global(qualified_name(target), target)
        if target is getattr and len(node.args) == 2 and not node.kwargs:
            attribute = node.args[1]
            if isinstance(attribute, str) and attribute.isidentifier():
                return result + attribute_text(self.text(node.args[0]), attribute)
        if node.meta.get("is_wrapped", False):
            self.wrapped[called] = None
        return result + f"{called}({self._arguments(node)})"

    def _arguments(self, node: Node, first: int = 0) -> str:
        parts = [self.text(a) for a in node.args[first:]]
        parts += [f"{key} = {self.text(value)}" for key, value in node.kwargs.items()]
        return ", ".join(parts)

    def text(self, value: object) -> str:
        """An argument as an expression."""
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            name = self.add_global(qualified_name(type(value)), type(value))
            return f"{name}({', '.join(self.text(part) for part in value)})"
        if isinstance(value, Tensor):
            name = known_as_module("lazyt")
            dtype = str(value.dtype).rpartition(".")[2]
            return f"{name}.Tensor(size={list(value.shape)}, dtype={dtype})"
        if isinstance(value, enum.Enum):
            return f"{self.add_global(type(value).__name__, type(value))}.{value.name}"
        if isinstance(value, tuple):
            comma = "," if len(value) == 1 else ""
            return f"({', '.join(self.text(part) for part in value)}{comma})"
        if isinstance(value, list):
            return f"[{', '.join(self.text(part) for part in value)}]"
        if isinstance(value, dict):
            pairs = (f"{self.text(key)}: {self.text(part)}" for key, part in value.items())
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return f"slice({', '.join(self.text(part) for part in parts)})"
        if isinstance(value, type) or inspect.isroutine(value):
            return self.add_global(type_repr(value), value)
        return repr(value)

    # ------------------------------------------------------------------ annotations

    def type_text(self, kind: Any) -> str:
        """A type as an annotation, whose parts become globals."""
        if kind == ():
            return "()"
        if isinstance(kind, types.UnionType):
            return "|".join(self.type_text(part) for part in typing.get_args(kind))
        origin = getattr(kind, "__origin__", None)
        if origin is None:
            return self.add_global(type_repr(kind), kind)
        if isinstance(kind, typing._GenericAlias):  # type: ignore[attr-defined]
            origin = _SPELLED.get(origin, origin)
        name = self.add_global(type_repr(origin), origin)
        parts = [self.type_text(part) for part in typing.get_args(kind)]
        return f"{name}[{','.join(parts)}]" if parts else name

    def _annotation(self, node: Node) -> str:
        if self.verbose:
            meta = node.meta
            value = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
            shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
            if shape is not None and dtype is not None:
                text = f"{ABBREVIATIONS[dtype.name]}{list(shape)}"
                if isinstance(value, Tensor):
                    text += f"{list(value.stride())}" if self.strides else ""
                    text += f"{value.device}" if self.devices else ""
                return f': "{text}"'
        return "" if node.type is None else f" : {self.type_text(node.type)}"

    def _summary(self, node: Node) -> str:
        """A comment that says where the program made the call."""
        if node.op in ("placeholder", "output"):
            return ""
        where = "No stacktrace found for following nodes"
        lines = (node.stack_trace or "").strip().split("\n")
        for index in range(len(lines) - 2, -1, -1):
            found = re.match(r'File "(.+)", line (\d+), in (.+)$', lines[index].strip())
            if found:
                code = lines[index + 1].strip()
                where = f"File: {found[1]}:{found[2]} in {found[3]}, code: {code}"
                break
        summary = f"\n# {where}\n"
        if summary == self._last_summary:
            return ""
        self._last_summary = summary
        return summary


_SPELLED = {
    list: typing.List, dict: typing.Dict, set: typing.Set, tuple: typing.Tuple,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
}  # fmt: skip


def attribute_text(base: str, path: str) -> str:
    """``base.a.b`` for the path ``a.b``; parts that are no names by ``getattr``."""
    for part in path.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class PyTreeCodeGen(CodeGen):
    """Writes a function whose arguments are nested, around a graph of their leaves.

    Args:
        suffix: behind the names of the module's attributes that say how they are nested.
    """

    def __init__(self, pytree_info: PyTreeInfo, suffix: str = "") -> None:
        super().__init__()
        self.pytree_info = pytree_info
        self.suffix = suffix

    def process_inputs(self, *args: Any) -> Any:
        """The leaves of the arguments."""
        return pytree.tree_leaves(list(args))

    def process_outputs(self, outputs: Any) -> Any:
        """What the function returns, made of its leaves."""
        if self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The first lines, which take the arguments apart."""
        names = self.pytree_info.orig_args
        if names and names[0] == "self":
            free_vars.insert(0, "self")
        first = super().gen_fn_def(list(names), maybe_return_annotation)
        if not free_vars:
            return first
        plain = [re.split("[:=]", name)[0].strip() for name in free_vars]
        annotated = "".join(f"{name}; " for name in free_vars if ":" in name)
        annotated = f"\n    {annotated}\n" if annotated else ""
        leaves = f"fx_pytree.tree_flatten_spec([{', '.join(names)}], self._in_spec{self.suffix})"
        return f"{first}{annotated}\n    {', '.join(plain)}, = {leaves}"

    def generate_output(
        self, output_args: Argument, *, repr_fn: Callable[[object], str] = repr
    ) -> str:
        """The last line, which puts the results together."""
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, repr_fn=repr_fn)
        return f"return pytree.tree_unflatten({repr_fn(output_args)}, self._out_spec{self.suffix})"
