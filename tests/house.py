"""How the package is laid out, in numbers: ``make house``, or ``python -m tests.house``.

What the house tests (``test_house.py``) hold it to is measured here: modules, lines, folders,
imports in circles, classes that a second file completes, and how many modules one call visits.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import io
import os
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "lazyt"

#: Packages that mirror one of PyTorch's have the modules that programs import from there.
MIRRORS = frozenset(
    {
        "amp", "array_api", "autograd", "backends", "cuda", "distributions", "nn", "nn/utils",
        "fx", "fx/passes", "optim", "utils", "utils/data",
    }
)  # fmt: skip


class Layout(NamedTuple):
    """The figures, and what is behind each.

    Attributes:
        modules: how many modules there are.
        lines: how many lines they have together.
        folders: modules of each folder, by its path below the package.
        circles: modules that import each other, imports inside of functions included, the largest
            circle first.
        completed: classes that are no user's, with one subclass, in another file.
    """

    modules: int
    lines: int
    folders: dict[str, int]
    circles: list[list[str]]
    completed: list[str]


@functools.cache
def sources() -> dict[str, Path]:
    """The package's files by the names of their modules."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The tree of one of the package's files, parsed once."""
    return tree_of(path.read_text(encoding="utf-8"))


def tree_of(text: str) -> ast.Module:
    """The tree of a text. Millions of new nodes, none of them in a circle, would have the collector
    look at all others again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if was_on:
            gc.enable()


#: Where statements stand in other statements.
_INSIDE = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(tree: ast.AST, for_checkers: bool = True) -> Iterator[ast.AST]:
    """All statements of a tree, exception handlers among them: a tenth of its nodes.

    Args:
        tree: a module, a class or a function.
        for_checkers: also those that only type checkers read.
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        skipped = not for_checkers and (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        )
        for field in ("orelse",) if skipped else _INSIDE:
            inner = getattr(node, field, ())
            yield from inner
            waiting += inner


def imported_modules(module: str) -> set[str]:
    """The package's modules that a module imports, somewhere, when it runs."""
    known, found = sources(), set()
    for node in statements(parsed(known[module]), for_checkers=False):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else str(node.module))
    return found - {module}


@functools.cache
def import_graph() -> nx.DiGraph[str]:
    """Which module imports which."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module in sources():
        graph.add_node(module)
        graph.add_edges_from((module, other) for other in imported_modules(module))
    return graph


def circles() -> list[list[str]]:
    """Modules that import each other, the largest circle first."""
    found = [sorted(c) for c in nx.strongly_connected_components(import_graph()) if len(c) > 1]
    return sorted(found, key=len, reverse=True)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page, or of a module's docstrings and comments, without code: their numbers
    and texts."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if path.suffix == ".md":
        fenced = False
        for number, line in enumerate(lines, 1):
            fenced ^= line.lstrip().startswith("```")
            if not fenced:
                yield number, _CODE.sub("", line)
        return
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(
            node
        ):
            body = node.body[0]
            for number in range(body.lineno, (body.end_lineno or body.lineno) + 1):
                yield number, _ARGUMENTS.sub("", _CODE.sub("", lines[number - 1]))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], _CODE.sub("", token.string)


#: Code in prose, and the names of arguments and attributes before what is said of them.
_CODE = re.compile(r"``[^`]*``|`[^`]*`")
_ARGUMENTS = re.compile(r"^\s*\w+(, \w+)*:")


@functools.cache
def function_names() -> frozenset[str]:
    """The names of all declared functions and of their grad_fns, but for those of dtypes."""
    from lazyt.handle import function_table

    for module in sources():
        if module.startswith("lazyt.functional."):
            importlib.import_module(module)
    dtypes = {"bfloat16", "bool", "byte", "char", "double", "float", "half", "int", "long", "short"}
    names = {entry.name for entry in function_table.entries} - dtypes
    titles = {function_table.grad_name_of(name) for name in names}
    return frozenset(names | titles | {n.partition("Backward")[0] for n in function_table.grad_fns})


def names_of_functions(path: Path) -> Iterator[tuple[str, set[str]]]:
    """The values of a module's names, but for ``__all__``, with the names of functions in them."""
    known = function_names()
    for node in parsed(path).body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        found = set()
        for part in ast.walk(node.value):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                words = {word.partition("Backward")[0] for word in part.value.split()}
                found |= words if words <= known else set()
        if found and target != "__all__":
            yield target, found


def completed_classes() -> list[str]:
    """Classes with one subclass, which stands in another file: one class in two places."""
    defined: dict[str, set[Path]] = defaultdict(set)
    subclasses: dict[str, list[tuple[str, Path]]] = defaultdict(list)
    for path in sources().values():
        for node in statements(parsed(path)):
            if isinstance(node, ast.ClassDef):
                defined[node.name].add(path)
                for base in node.bases:
                    module, _, name = ast.unparse(base).split("[")[0].rpartition(".")
                    if module != "pickle":  # whose classes have names that ours have, too
                        subclasses[name].append((node.name, path))
    return sorted(
        f"{name} ({_place(next(iter(defined[name])))}) by {child} ({_place(path)})"
        for name, made in subclasses.items()
        if len(made) == 1
        for child, path in made
        if len(defined[name]) == 1 and path not in defined[name] and not _is_public(name)
    )


def _is_public(name: str) -> bool:
    """Whether users see a class, and may make classes of it."""
    import lazyt
    from lazyt.subclasses import dispatch_modes

    rooms = (
        lazyt, lazyt.nn, lazyt.optim, lazyt.autograd, lazyt.errors, lazyt.distributions, lazyt.fx,
        dispatch_modes,
    )  # fmt: skip
    return any(isinstance(getattr(room, name, None), type) for room in rooms)


def _place(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def names() -> list[tuple[str, frozenset[str]]]:
    """Every module, class and function of the package, with the words that its name is made of."""
    found = []
    for path in sources().values():
        where = _place(path)
        found.append((where, frozenset(re.findall("[a-z]+", where.removesuffix(".py")))))
        for node in statements(parsed(path)):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                words = re.findall("[A-Z]?[a-z]+", node.name)
                found.append((f"{where}: {node.name}", frozenset(word.lower() for word in words)))
    return found


def layout() -> Layout:
    """The figures of the package as it is."""
    files = sources().values()
    folders = Counter(str(path.parent.relative_to(PACKAGE)) for path in files)
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    return Layout(len(files), lines, dict(folders), circles(), completed_classes())


# ---------------------------------------------------------------------- state of the process

#: Methods that change containers.
_CHANGING = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop",
        "popitem", "popleft", "remove", "setdefault", "update",
    }
)  # fmt: skip
#: What makes state of another kind than instances of the package's own classes.
_CONTAINERS = frozenset(
    {
        "ContextVar", "Counter", "OrderedDict", "WeakKeyDictionary", "WeakSet",
        "WeakValueDictionary", "array", "count", "defaultdict", "deque", "dict", "list", "local",
        "set",
    }
)  # fmt: skip


def module_values(module: str) -> dict[str, ast.expr]:
    """What a module binds names to when it is imported, functions and classes left out."""
    found: dict[str, ast.expr] = {}
    for node in parsed(sources()[module]).body:
        targets = node.targets if isinstance(node, ast.Assign) else ()
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        elif isinstance(node, ast.Assign):
            value = node.value
        found.update((t.id, value) for t in targets if isinstance(t, ast.Name))
    return found


def _changed(node: ast.AST) -> ast.expr | None:
    """The object that a statement or a call changes: whose item, attribute or content it sets."""
    if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value if node.func.attr in _CHANGING else None
    return None


def _changes_itself(kind: ast.ClassDef) -> bool:
    """Whether methods of a class, once an object is made, change it or what it holds."""
    for method in kind.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("__"):
            for node in ast.walk(method):
                owner = _changed(node)
                while isinstance(owner, (ast.Attribute, ast.Subscript)):
                    owner = owner.value
                if isinstance(owner, ast.Name) and owner.id == "self":
                    return True
    return False


@functools.cache
def mutable_state() -> frozenset[str]:
    """Names of what modules hold and functions change: the state of the process."""
    values = {module: module_values(module) for module in sources()}
    classes = {
        node.name: node
        for path in sources().values()
        for node in statements(parsed(path))
        if isinstance(node, ast.ClassDef)
    }
    found: set[str] = set()
    for module in sources():
        for name, value in values[module].items():
            made = ast.unparse(value.func).split(".")[-1] if isinstance(value, ast.Call) else ""
            kind = classes.get(made)
            own = kind is not None and _changes_itself(kind) and module != "lazyt.errors"
            if made in ("ContextVar", "Event", "count", "local") or own:
                found.add(f"{module}.{name}")
        for owner, name, called in _written_names(module, values):
            value = values[owner][name]
            made = ast.unparse(value.func).split(".")[-1] if isinstance(value, ast.Call) else ""
            alias = isinstance(value, (ast.Name, ast.Attribute)) and name != "_default"
            of_class = made in classes and not called  # methods of classes are looked at above
            if not alias and (made in _CONTAINERS or of_class or not made):
                found.add(f"{owner}.{name}")
    return frozenset(found)


def _written_names(
    module: str, values: dict[str, dict[str, ast.expr]]
) -> Iterator[tuple[str, str, bool]]:
    """Which names of which modules the functions of ``module`` change or bind again, and whether
    that is a call of a method."""
    tree = parsed(sources()[module])
    names = {name: (module, name) for name in values[module]}
    for node in statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module in values:
            for alias in node.names:
                if alias.name in values[node.module]:
                    names[alias.asname or alias.name] = (node.module, alias.name)
    for function in statements(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        inside = list(ast.walk(function))
        globals_ = {name for n in inside if isinstance(n, ast.Global) for name in n.names}
        stored = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        arguments = {n.arg for n in inside if isinstance(n, ast.arg)}
        yield from ((*names[name], False) for name in globals_ & stored & names.keys())
        local = (stored - globals_) | arguments
        for node in inside:
            owner = _changed(node)
            if isinstance(owner, ast.Name) and owner.id in names and owner.id not in local:
                yield (*names[owner.id], isinstance(node, ast.Call))


def visited(call: Callable[[], Any]) -> set[str]:
    """The package's files whose code runs during a call, imports left out."""
    files: set[str] = set()
    prefix = str(PACKAGE) + os.sep

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix) and code.co_name != "<module>":
            files.add(code.co_filename[len(prefix) :])

    outer = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(outer)
    return files


def visits() -> dict[str, set[str]]:
    """Which files ``(x + 1).realize()`` visits, the first time and later, and a captured call."""
    import lazyt

    x = lazyt.ones(3).realize()

    def look() -> None:
        (x + 1).realize()

    found = {"cold": visited(look)}
    for _ in range(20):
        look()
    found["warm"] = visited(look)
    with lazyt.config.override(tier=1):  # while a plan may get other kernels there is no fast path
        captured = lazyt.jit(lambda value: value * 2 + 1)
        for _ in range(20):
            captured(x).realize()
        found["captured"] = visited(lambda: captured(x))
    return found


def main() -> None:
    """Prints the figures."""
    found = layout()
    print(f"modules            {found.modules:6}   (at most 430)")
    print(f"lines              {found.lines:6}   (at most 100,000)")
    full = {name: n for name, n in found.folders.items() if n > 16}
    for name, count in sorted(full.items(), key=lambda pair: -pair[1]):
        mirror = "   mirrors one of PyTorch's" if name in MIRRORS else ""
        print(f"folder             {count:6}   lazyt/{name}{mirror}")
    print(f"circles            {len(found.circles):6}   of modules that import each other")
    for circle in found.circles:
        print(f"    {len(circle)}: {' '.join(name.removeprefix('lazyt.') for name in circle)}")
    print(f"completed classes  {len(found.completed):6}   by a single subclass in another file")
    for line in found.completed:
        print(f"    {line}")
    for name, files in visits().items():
        print(f"visited, {name:9} {len(files):6}   {' '.join(sorted(files))}")


if __name__ == "__main__":
    main()
