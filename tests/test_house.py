"""The rules of the house: who imports whom, sizes, names, docstrings, the cost of importing."""

from __future__ import annotations

import ast
import functools
import importlib
import math
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import house

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "lazyt"
SOURCES = sorted(PACKAGE.rglob("*.py"))
#: Programs as users write them, under either framework.
NETWORKS = PACKAGE / "bench" / "levels"
TESTED_SOURCES = sorted([*SOURCES, *ROOT.glob("tests/**/*.py"), *ROOT.glob("bench/**/*.py")])
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md")])

CORE = frozenset({"errors", "config", "ir", "ops", "transforms", "passes", "codegen", "runtime"})
API = CORE | {"frontend", "compiler", "api"}

#: Who may import whom, besides itself. Packages that are not named here hold what is built on the
#: user's API (nn, optim, ...), and see nothing else.
ROOMS: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "config": frozenset(),
    "ir": frozenset({"errors"}),
    "ops": frozenset({"ir", "errors"}),
    "transforms": frozenset({"ops", "ir", "errors"}),
    "passes": frozenset({"ops", "ir", "errors", "config"}),
    "codegen": frozenset({"ops", "ir", "errors"}),
    "runtime": frozenset({"ir", "errors", "config"}),
    "frontend": frozenset({"ops", "ir", "errors"}),
    "compiler": CORE | {"frontend"},
    "api": API,
    "serialization": API | {"nn"},  # files hold parameters
    "optim": frozenset({"nn", "api", "errors", "config"}),  # averages of modules
    "library": API | {"testing"},  # operators are attributes of ops; opcheck compares values
    "kernels": API,  # users' texts become nodes, plans and tensors
    "fx": frozenset(
        {"nn", "utils", "serialization", "api", "errors", "config"}
    ),  # graphs of modules
    "functorch": API | {"func", "nn", "utils"},  # transforms, and modules as functions
    # the flop counter's modules, and the ranks of DistributedSampler
    "utils": frozenset({"distributed", "nn", "api", "errors", "config", "linalg"}),
    "export": frozenset(
        {"fx", "nn", "utils", "serialization", "api", "errors", "ir"}
    ),  # graphs of modules, and files of them
    "bench": API | {"front"},  # asks the machine, and times the user's API
    # makes graphs and programs, and checks what each stage of the compiler makes of them
    "testing": API | {"front", "nn", "optim", "quasirandom"},
    "distributed": API,  # values move between ranks as nodes of graphs
    "nn": frozenset(
        {"distributed", "api", "errors", "config", "linalg"}
    ),  # DistributedDataParallel
    # modules, optimizers and files of them, on several ranks
    "sharding": API | {"amp", "distributed", "linalg", "nn", "optim", "serialization", "utils"},
    "masked": frozenset({"nn", "linalg", "api", "errors", "config"}),
    "ao": frozenset({"nn", "api", "errors", "config"}),  # observers are modules
    # parameters and graphs have fake tensors; masked tensors have functions of masks
    "subclasses": frozenset(
        {
            "fx",
            "masked",
            "nn",
            "utils",
            "api",
            "errors",
            "config",
            "library",
            "ir",
        }
    ),
    "distributions": frozenset({"nn", "linalg", "special", "api", "errors", "config"}),
    # cuda.amp is amp on a GPU, cuda.nvtx names what the profiler shows, and graphs hold modules
    "cuda": frozenset({"amp", "nn", "profiler", "api", "errors", "config"}),
}
ABOVE = frozenset({"api", "errors", "config", "linalg"})
FRONT = frozenset({"__init__", "__main__"})
#: How many methods a class has at most, and why some have more.
MOST_METHODS = 25
LARGE = {
    "bench/names.py: _Arrays": "one method for each function that is measured",
    "codegen/c/loops.py: PhasePrinter": "the frame of every phase on a CPU",
    "codegen/generic/encode.py: Encoder": "one method for each op",
    "codegen/handwritten/kernel.py: _Rewriter": "one method for each kind of C",
    "codegen/proof/values.py: Values": "one method for each kind of C expression",
    "distributed/device_mesh.py: DeviceMesh": "PyTorch's interface",
    "distributions/distribution.py: Distribution": "PyTorch's interface",
    "fx/graph.py: Graph": "PyTorch's interface",
    "fx/graph_module.py: GraphModule": "PyTorch's interface",
    "fx/node.py: Node": "PyTorch's interface",
    "handle/storage.py: Storage": "memory with all that may be done to it",
    "ir/parser.py: _KernelReader": "one method for each part of the grammar",
    "optim/optimizer.py: Optimizer": "PyTorch's interface",
    "runtime/cuda/bound.py: BoundDriver": "one method for each call of the driver",
    "runtime/cuda/driver.py: Driver": "one method for each call of the driver",
    "runtime/cuda/emulated.py: EmulatedDriver": "one method for each call of the driver",
    "sharding/fully_shard.py: FSDPModule": "PyTorch's interface",
    "serialization/safe_pickle.py: Machine": "one method for each opcode",
    "utils/tensorboard/writer.py: SummaryWriter": "PyTorch's interface",
}
#: Words of this project alone, for which the field has its own (the design's glossary).
PRIVATE = frozenset(
    {
        "abreast", "ahead", "apart", "keeping", "kept", "lies", "lifted", "places", "placing",
        "sightings", "standin", "steady", "turned", "waiting",
    }
)  # fmt: skip
#: The same of sentences, as far as the words are not English words for something else, too.
PRIVATE_PROSE = re.compile(
    r"\b(abreast|but for|found well|lifted|lifting|placing|sightings?|stand-?ins?|steady)\b", re.I
)
#: Rooms that know no function of the API: names there are those of ops and scalar functions. What
#: ``bench`` measures and ``testing`` draws are programs.
OF_OPS = CORE | {"transforms", "compiler"}
#: With how many names of functions a literal is a table of facts, and those that are none.
MOST_NAMES = 6
TABLES = {
    "array_api/elementwise.py: _BINARY": "the standard's names, and ours for the same",
    "array_api/elementwise.py: _UNARY": "the standard's names, and ours for the same",
    "compat/names/overloads.py: _TABLE": "PyTorch's operators by the names of their overloads",
    "compat/private_functions.py: _SEGMENTS": "values of the argument reduce=",
    "compat/served/foreach.py: _OF_ONE": "the functions that PyTorch has of lists of tensors",
    "compat/served/foreach.py: _OF_TWO": "the functions that PyTorch has of lists of tensors",
    "compat/exports.py: _TABLE": "where names are found whose modules are not loaded yet",
    "distributions/homes.py: CLASSES": "classes that happen to be called as functions",
    "fx/codegen.py: MAGIC": "functions of Python's module operator",
    "functional/__init__.py: _THEIRS": "what PyTorch has in its module of that name",
    "functional/indexing/picking.py: _RULES": "scalar functions",
    "functional/indexing/writes.py: _KINDS": "values of the argument reduce=, and scalar functions",
    "functional/overriding.py: _IN_PYTHON": "which of PyTorch's functions are written in Python",
    "functional/overriding.py: _NN_NOT_IN_PYTHON": "those of nn.functional that are not",
    "functional/overriding.py: _OPERATORS": "how PyTorch calls operators that it asks about",
    "functional/sparse/dispatch.py: _LINEAR": "the functions that PyTorch has of sparse tensors",
    "functional/sparse/dispatch.py: _THROUGH": "the functions that PyTorch has of sparse tensors",
    "functional/sparse/dispatch.py: _UNARY": "the functions that PyTorch has of sparse tensors",
    "subclasses/aten_calls.py: COMPOSITES": "PyTorch's operators that functions are made of",
    "subclasses/aten_calls.py: RENAMED": "PyTorch's operators of other names than functions",
    "subclasses/aten_schemas.py: _TAKE_NUMBERS": "PyTorch's operators that take numbers",
    "subclasses/dispatch_modes.py: _FACTORIES": "what takes requires_grad=, which is no operator's",
    "subclasses/fake_tensors.py: _FACTORIES": "what makes tensors of sizes",
    "subclasses/fake_tensors.py: _SIZED_BY_VALUES": "what PyTorch calls their operators",
    "subclasses/masked_tensors.py: _REDUCTIONS": "the functions that PyTorch has of masked tensors",
    "utils/flop_counter.py: _FORMULAS": "what PyTorch counts, and how",
    "handle/interop/numpy_calls.py: _OPERATORS": "NumPy's functions",
}
#: How many modules a folder has at most.
MOST_MODULES = 16
#: From pending graphs to plans that run.
RECIPE = frozenset({"compiler", "extensions", "plan", "tuning"})
#: Tensors, the functions on them, gradients and captures: together, what users know as ``Tensor``.
TENSORS = frozenset({"autograd", "compat", "functional", "handle", "tracing"})
#: Above the API, but for developers: they look into every room.
OPEN = frozenset({"tools", "front"})

NO_NUMPY = ("codegen", "passes")
MAX_FILE, MAX_FUNCTION = 1000, 60
#: What is longer for a reason.
LONG = {"lazyt/nn/module.py": 1400}  # one class, whole, as PyTorch's is


@pytest.fixture(scope="module", autouse=True)
def trees_are_forgotten() -> Iterator[None]:
    """The collector would look at millions of nodes in the tests that follow, and at the end."""
    yield
    house.parsed.cache_clear()


@dataclass(frozen=True)
class Import:
    """One import of a module of lazyt, by the room it is in."""

    path: Path
    line: int
    room: str
    target: str


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a module, given its path below ``lazyt``."""
    first = parts[0].removesuffix(".py") if parts else "__init__"
    if first in FRONT:
        return "front"
    if first in ("errors", "config"):
        return first
    if first in RECIPE:
        return "compiler"
    if not (PACKAGE / first).is_dir() or first in TENSORS:
        return "api"
    return first


def imported_names(node: ast.stmt) -> Iterator[str]:
    """Dotted names of lazyt's modules that an import statement may load."""
    if isinstance(node, ast.Import):
        yield from (a.name for a in node.names if a.name.split(".")[0] == "lazyt")
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lazyt":
        for alias in node.names:
            inner = PACKAGE.joinpath(*str(node.module).split(".")[1:], alias.name)
            is_module = inner.with_suffix(".py").exists() or (inner / "__init__.py").exists()
            yield f"{node.module}.{alias.name}" if is_module else str(node.module)


@functools.cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """All imports of a file, those inside of functions too."""
    found = house.statements(house.parsed(path))
    return [node for node in found if isinstance(node, (ast.Import, ast.ImportFrom))]


@functools.cache
def imports() -> list[Import]:
    """All imports within lazyt from one room of another."""
    found = []
    for path in SOURCES:
        room = room_of(path.relative_to(PACKAGE).parts)
        for node in import_statements(path):
            for name in imported_names(node):
                target = room_of(tuple(name.split(".")[1:]))
                if target != room:
                    found.append(Import(path, node.lineno, room, target))
    return found


def test_rooms_import_only_what_they_may() -> None:
    wrong = [
        f"{i.path.relative_to(ROOT)}:{i.line}: {i.room} must not import {i.target}"
        for i in imports()
        if i.room not in OPEN and i.target not in ROOMS.get(i.room, ABOVE)
    ]
    assert not wrong, "\n".join(wrong)


def test_imported_modules_exist() -> None:
    """Those of imports inside of functions too, which nothing runs until somebody needs them."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
        for path in TESTED_SOURCES
        for node in import_statements(path)
        for name in imported_names(node)
        if not any(
            ROOT.joinpath(*name.split(".")).with_suffix(suffix).exists()
            for suffix in ("", ".py", ".pyi")
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_relative_imports_are_not_used() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in import_statements(path)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not wrong, wrong


def test_rooms_form_no_cycle() -> None:
    edges: dict[str, set[str]] = {}
    for item in imports():
        if item.room not in OPEN:
            edges.setdefault(item.room, set()).add(item.target)
    free: set[str] = set()
    waiting = set(edges)
    while waiting:
        ready = {room for room in waiting if not (edges[room] - {room}) & waiting}
        assert ready, f"these rooms import each other in a circle: {sorted(waiting)}"
        free |= ready
        waiting -= ready
    assert free == set(edges)


def test_modules_import_in_one_direction() -> None:
    """Imports inside of functions count, those that only type checkers read do not."""
    assert not house.circles(), house.circles()


def test_folders_are_small() -> None:
    """A stranger reads a folder's list and finds the module; PyTorch's modules are as they are."""
    full = {
        name: count
        for name, count in house.layout().folders.items()
        if count > MOST_MODULES and name not in house.MIRRORS
    }
    assert not full, full


def test_classes_are_whole_and_of_a_size_to_read() -> None:
    """An alarm: a class that is longer has a reason here; a class that a single subclass in another
    file completes is one class in two places."""
    assert not house.completed_classes(), house.completed_classes()
    large = {
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in SOURCES
        for node in house.statements(house.parsed(path))
        if isinstance(node, ast.ClassDef)
        and sum(isinstance(part, ast.FunctionDef) for part in node.body) > MOST_METHODS
    }
    assert large <= LARGE.keys(), large - LARGE.keys()


def test_names_use_the_words_of_the_field() -> None:
    """Modules, classes and functions are called by terms that a reader of papers knows."""
    private = {place: words & PRIVATE for place, words in house.names() if words & PRIVATE}
    wrong = [
        f"{place}: {', '.join(sorted(words))} is a word of this project alone (PRIVATE in "
        "tests/test_house.py): use the field's term"
        for place, words in sorted(private.items())
    ]
    assert not wrong, "\n".join(wrong)


def test_prose_uses_the_words_of_the_field(tmp_path: Path) -> None:
    """What docstrings, comments and pages say is said in words that a reader knows."""
    documents = [path for path in DOCUMENTS if not path.is_relative_to(ROOT / "bench")]
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {found[0]} is a word of this project alone "
        "(PRIVATE_PROSE in tests/test_house.py): say who does what to which thing"
        for path in [*SOURCES, *documents]
        for number, line in house.prose(path)
        if (found := PRIVATE_PROSE.search(line)) is not None
    ]
    assert not wrong, "\n".join(wrong)
    module, page = tmp_path / "module.py", tmp_path / "page.md"
    module.write_text(
        '"""Lifted.\n\n    lifted: numbers, ``lifted``.\n"""\nlifted = "lifted"  # steady\n',
        encoding="utf-8",
    )
    page.write_text("a sighting\n```\nabreast\n```\n`standin`, placing\n", encoding="utf-8")
    for path in (module, page):
        assert [n for n, text in house.prose(path) if PRIVATE_PROSE.search(text)] == [1, 5]


def test_facts_about_functions_stand_with_the_functions() -> None:
    """A literal with several names of functions, or of their grad_fns, is a table of facts that
    belong into the declarations of those functions (``lazyt/handle/function_table.py``)."""
    wrong = {
        f"{path.relative_to(PACKAGE)}: {target}": sorted(names)
        for path in SOURCES
        if room_of(path.relative_to(PACKAGE).parts) not in OF_OPS | {"bench", "testing"}
        for target, names in house.names_of_functions(path)
        if len(names) >= MOST_NAMES
    }
    assert wrong.keys() <= TABLES.keys(), {k: v for k, v in wrong.items() if k not in TABLES}
    assert TABLES.keys() <= wrong.keys(), f"gone: {sorted(TABLES.keys() - wrong.keys())}"


def test_a_table_of_names_is_found(tmp_path: Path) -> None:
    path = tmp_path / "tables.py"
    path.write_text(
        "A: set[str] = {'exp', 'LogSoftmax', 'NativeLayerNormBackward0'}\n"
        "B = {rule: names.split() for rule, names in {'exp': 'Sin Cos words'}.items()}\n"
        "C = dict(one='Sin Cos Tan')\n"
        "__all__ = ['exp', 'sin']\n"
        "def f(): return ['exp', 'sin']\n",
        encoding="utf-8",
    )
    assert dict(house.names_of_functions(path)) == {
        "A": {"exp", "LogSoftmax", "NativeLayerNorm"}, "B": {"exp"}, "C": {"Sin", "Cos", "Tan"},
    }  # fmt: skip


def test_table_names_existing_rooms() -> None:
    optional = {"frontend"}
    for room in set(ROOMS) - {"api", "compiler"} - optional:
        assert (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").exists(), room


@dataclass(frozen=True)
class Outline:
    """What the rules ask of every file, tests and benchmarks among them."""

    lines: int
    functions: dict[str, int]  # names, and how many lines they have at the most
    swallowing: list[int]  # lines that catch everything


@functools.cache
def outline(path: Path) -> Outline:
    """Of one file; its tree is not kept."""
    text = path.read_text(encoding="utf-8")
    found = Outline(len(text.splitlines()), {}, [])
    tree = house.parsed(path) if path.is_relative_to(PACKAGE) else house.tree_of(text)
    for node in house.statements(tree):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            found.functions[node.name] = max(length, found.functions.get(node.name, 0))
        elif isinstance(node, ast.ExceptHandler) and is_swallowing(node):
            found.swallowing.append(node.lineno)
    return found


def is_swallowing(node: ast.ExceptHandler) -> bool:
    """Whether a handler catches all that there is, or every Exception and does nothing."""
    broad = isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
    silent = all(isinstance(s, (ast.Pass, ast.Continue)) for s in node.body)
    return node.type is None or (broad and silent)


def test_files_and_functions_are_small() -> None:
    wrong = []
    for path in TESTED_SOURCES:
        where, found = path.relative_to(ROOT).as_posix(), outline(path)
        if found.lines > (most := LONG.get(where, MAX_FILE)):
            wrong.append(f"{where} has {found.lines} lines, over {most}")
        if path.parent == ROOT / "tests" / "reported" / "cases":
            continue  # a case is one function, as long as the report that it follows
        wrong += [
            f"{where}: {name} has {length} lines, over {MAX_FUNCTION}"
            for name, length in found.functions.items()
            if length > MAX_FUNCTION
        ]
    assert not wrong, "\n".join(wrong)


def test_no_room_is_called_utils() -> None:
    vague = {"utils", "util", "helpers", "misc", "common"}
    assert not [p for p in TESTED_SOURCES if p.stem in vague]


def test_test_modules_have_names_of_their_own() -> None:
    # pytest and mypy know test modules by name alone.
    names = [
        p.name for p in ROOT.glob("tests/**/*.py") if p.name not in ("conftest.py", "__init__.py")
    ]
    twice = sorted({name for name in names if names.count(name) > 1})
    assert not twice, f"rename one of each: {twice}"


def test_tensors_autograd_and_tracing_import_in_one_direction() -> None:
    rooms = ("lazyt.autograd.", "lazyt.handle.", "lazyt.tracing.")
    wrong = [circle for circle in house.circles() if any(m.startswith(rooms) for m in circle)]
    assert not wrong, "\n".join(" ".join(circle) for circle in wrong)


def test_all_state_of_the_process_is_named() -> None:
    from lazyt.tools import state

    named = {f"{item.module}.{item.name}" for item in state.all_state()}
    found = set(house.mutable_state())
    assert not found - named, f"name in lazyt/tools/state.py: {sorted(found - named)}"
    assert not named - found, f"nothing changes these: {sorted(named - found)}"
    lines = state.report().splitlines()
    assert any(line.startswith("lazyt.ir.op.living ") for line in lines)
    for item in state.all_state():
        if "." in item.guard:  # a lock
            path = item.guard.split(".")
            cut = next(n for n in range(len(path), 0, -1) if known_module(path[:n]))
            held = importlib.import_module(".".join(["lazyt", *path[:cut]]))
            for part in path[cut:]:
                held = getattr(held, part)
            assert hasattr(held, "acquire"), item.guard


def known_module(path: list[str]) -> bool:
    """Whether the package has a module of this path."""
    return ".".join(["lazyt", *path]) in house.sources()


def test_no_exception_is_swallowed_whole() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in TESTED_SOURCES
        for line in outline(path).swallowing
    ]
    assert not wrong, wrong


def public_definitions(path: Path) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Public functions and classes of a module, and the public methods of those classes."""
    for node in house.parsed(path).body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        yield node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                    yield inner


def test_public_definitions_have_docstrings() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in SOURCES
        if path.parent != NETWORKS  # a declaration says what its class is
        for node in public_definitions(path)
        if not ast.get_docstring(node) and not is_declared_again(node)
    ]
    assert not wrong, "\n".join(wrong)


def is_declared_again(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Overloads, property setters and bodies of ``...`` say nothing of their own."""
    body = node.body[0]
    ellipsis = isinstance(body, ast.Expr) and (
        isinstance(body.value, ast.Constant) and body.value.value is ...
    )
    decorators = [ast.unparse(d) for d in node.decorator_list]
    return ellipsis or any(d == "overload" or d.endswith(".setter") for d in decorators)


def test_modules_have_docstrings() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.stat().st_size and not ast.get_docstring(house.parsed(path))
    ]
    assert not wrong, wrong


def test_exported_names_exist_and_are_documented() -> None:
    import lazyt

    exported = [name for name in dir(lazyt) if not name.startswith("_")]
    wrong = [n for n in exported if callable(v := getattr(lazyt, n)) and not v.__doc__]
    assert not wrong, wrong


def test_numpy_stays_out_of_the_compiler() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in NO_NUMPY
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for node in import_statements(path)
        if re.match(r"(import|from) numpy\b", ast.unparse(node))
    ]
    assert not wrong, wrong


def test_one_place_imports_cuda_python() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in import_statements(path)
        if re.match(r"(import|from) cuda\b", ast.unparse(node))
        and path.relative_to(PACKAGE).parts[0] != "runtime"
    ]
    assert not wrong, wrong


def test_documents_name_no_place_of_one_machine() -> None:
    place = re.compile(r"(?<![\w.])(/(home|root|work|tmp|Users|opt|mnt)/\w|[A-Z]:\\)")
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in DOCUMENTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if place.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def run_python(code: str) -> str:
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    settings["OPENBLAS_NUM_THREADS"] = "1"  # or its threads' waiting is counted as lazyt's time
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=settings
    )
    return done.stdout


def test_import_loads_nothing_heavy() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import lazyt;"
        "print(*sorted(m for m in set(sys.modules) - before if '.' not in m))"
    )
    loaded = set(run_python(code).split())
    assert "lazyt" in loaded
    heavy = {"networkx", "pycparser", "subprocess", "cuda", "multiprocessing", "asyncio"}
    assert not loaded & heavy


def test_import_is_quick() -> None:
    # The least processor time of several: what other processes cost is not lazyt's. NumPy's own
    # import is the yardstick where the whole machine is slow: some spend as much on NumPy's
    # libraries as on Python code, others (virtual ones, with slow file systems) a fifth less.
    code = (
        "import time; a = time.process_time(); import numpy; b = time.process_time();"
        "import lazyt; print(1000 * (b - a), 1000 * (time.process_time() - b))"
    )
    run_python(code)  # writes the bytecode
    cost, limit = math.inf, 0.0
    for _ in range(30):  # both of one run: processors change their speed within seconds
        yardstick, cost = map(float, run_python(code).split())
        limit = max(110, 1.6 * yardstick)
        if cost <= limit:
            break
    assert cost <= limit, f"import lazyt takes {cost:.0f} ms beyond numpy, not {limit:.0f}"


def test_import_starts_and_probes_nothing() -> None:
    # No process, no library but what is loaded already, no file but Python's own modules: what
    # the machine and its compiler are is asked when something is to be computed.
    code = (
        "import sys, numpy, ctypes; seen = []\n"
        "def listen(event, args):\n"
        "    kind = event.partition('.')[0]\n"
        "    if kind in ('subprocess', 'os', 'pty', 'socket', 'shutil', 'tempfile'):\n"
        "        seen.append(event)\n"
        "    if event == 'ctypes.dlopen' and args[0] is not None:\n"
        "        seen.append(f'{event} {args[0]}')\n"
        "    if event == 'open' and '.py' not in str(args[0]):\n"
        "        seen.append(f'{event} {args[0]}')\n"
        "sys.addaudithook(listen)\n"
        "import lazyt\n"
        "print(*(event for event in seen if event not in ('os.listdir', 'os.mkdir')), sep='; ')"
    )  # Python itself lists folders, and makes one for bytecode
    run_python(code)  # writes the bytecode
    assert not run_python(code).strip()


def test_package_holds_its_data() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["lazyt"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    data = {p for p in PACKAGE.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")}
    assert data <= packed, sorted(str(p.relative_to(ROOT)) for p in data - packed)
    for command in settings["project"].get("scripts", {}).values():
        module, _, name = command.partition(":")
        assert callable(getattr(importlib.import_module(module), name))


def test_names_that_are_read_later_are_those_of_their_modules() -> None:
    from lazyt.compat import exports

    for name, place in exports.NAMES.items():
        found = importlib.import_module(place)
        assert name in getattr(found, "__all__", [name])
        assert getattr(found, name) is not None
    places = {p for p in exports.NAMES.values() if p.startswith("lazyt.functional.")}
    listed = {name for place in places for name in importlib.import_module(place).__all__}
    assert listed <= exports.NAMES.keys()
