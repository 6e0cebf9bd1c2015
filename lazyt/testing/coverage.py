"""What graphs have reached in the compiler: lines, rewrites of passes, what fusion joins.

``lazyt fuzz`` goes on from graphs that reach something new, and says at the end which passes never
changed a graph and which of their lines never ran.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from lazyt.compiler import Pass
from lazyt.ir.graph import Node
from lazyt.ir.group import Group

_PACKAGE = Path(__file__).resolve().parents[1]
#: What is watched of the package: folders, by the target that kernels are printed for.
_ROOMS = {
    "": ("passes", "codegen/lower"),
    "c": (
        "passes", "codegen/lower", "codegen/c", "codegen/loops", "codegen/matmul", "codegen/conv",
    ),
    "cuda": ("passes", "codegen/lower", "codegen/cuda"),
}  # fmt: skip

#: Something that a graph has reached: a kind, and what it is about.
Feature = tuple[object, ...]


def files_of(target: str, passes: Iterable[Pass] = ()) -> list[str]:
    """The files whose lines are watched: of the package's passes, lowering, and printers for a
    target (``""``, ``c``, ``cuda``), and those that the functions of ``passes`` are in."""
    found = [
        str(path) for room in _ROOMS[target] for path in sorted((_PACKAGE / room).glob("*.py"))
    ]
    for step in passes:
        code = getattr(step.run, "__code__", None)
        if code is not None and Path(code.co_filename).exists():
            found.append(code.co_filename)
    return list(dict.fromkeys(found))


def lines_of(file: str) -> dict[int, str]:
    """The lines of a file's functions that can run, each with the function's name, without those
    that only raise an error."""
    text = Path(file).read_text(encoding="utf-8")
    raising: set[int] = set()
    for item in ast.walk(ast.parse(text)):
        if isinstance(item, ast.Raise):
            raising.update(range(item.lineno, (item.end_lineno or item.lineno) + 1))
    found: dict[int, str] = {}
    work = [c for c in compile(text, file, "exec").co_consts if isinstance(c, CodeType)]
    while work:
        code = work.pop()
        inner = [c for c in code.co_consts if isinstance(c, CodeType)]
        work += inner
        if code.co_flags & 1:  # a function, whose body is no class's
            for line in _body_lines(code) - raising:
                found[line] = code.co_qualname.replace(".<locals>", "")
    return found


def _body_lines(code: CodeType) -> set[int]:
    """The lines of a function's own statements, without the one that it begins with."""
    return {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}


class Lines:
    """A context that notes which lines of some files run for the first time.

    Attributes:
        reached: the lines of each file.
        new: those that ran first since ``new`` was emptied last.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self.reached: dict[str, set[int]] = {file: set() for file in files}
        self.new: list[tuple[str, int]] = []
        # By identity: the hash of a code object takes longer than the call that is looked at.
        self._left: dict[int, tuple[CodeType, set[int]]] = {}
        self._before: list[Any] = []

    def __enter__(self) -> Lines:
        self._before.append(sys.gettrace())
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before.pop())

    def _called(self, frame: FrameType, event: str, arg: object) -> Any:
        code = frame.f_code
        known = self._left.get(id(code))
        if known is None:
            watched = code.co_filename in self.reached
            known = self._left[id(code)] = (code, _body_lines(code) if watched else set())
        return self._stepped if known[1] else None  # no step of what has run in full is looked at

    def _stepped(self, frame: FrameType, event: str, arg: object) -> Any:
        left = self._left[id(frame.f_code)][1]
        line = frame.f_lineno
        if line in left:
            left.discard(line)
            file = frame.f_code.co_filename
            if line not in self.reached[file]:
                self.reached[file].add(line)
                self.new.append((file, line))
        return self._stepped


class Coverage:
    """What all graphs so far have reached.

    Attributes:
        lines: of the watched files.
        features: rewrites of passes, with the ops that stood below what was replaced, and what was
            joined in groups, each with how many graphs had it.
        fired: how many graphs each pass has changed.
    """

    def __init__(self, target: str, passes: Sequence[Pass]) -> None:
        self.lines = Lines(files_of(target, passes))
        self.features: Counter[Feature] = Counter()
        self.fired: Counter[str] = Counter({step.name: 0 for step in passes})
        self._here: set[Feature] = set()

    # A graph on its way tells of itself, see ``stages.Watch``.

    def passed(self, name: str, changed: bool, replaced: Sequence[Node]) -> None:
        """A pass has run."""
        self.fired[name] += changed
        for node in replaced:
            self._here.update((name, *chain) for chain in chains_below(node))

    def grouped(self, groups: Sequence[Group]) -> None:
        """Fusion has made groups."""
        for group in groups:
            head = "" if group.head is None else group.head.op.name
            self._here.add(("group", group.kind, head, len(group.parts), min(len(group.stored), 3)))
            for member, inside in group.inside.items():
                below = {item.op.name for item in inside}
                self._here.update(("joined", group.kind, member.op.name, name) for name in below)

    def take(self) -> list[Feature]:
        """What the graph that was looked at last has reached as the first, or one of few."""
        found: list[Feature] = [("line", *place) for place in self.lines.new]
        self.lines.new.clear()
        for feature in sorted(self._here, key=repr):
            self.features[feature] += 1
            if self.features[feature] <= 2:
                found.append(feature)
        self._here.clear()
        return found


def chains_below(node: Node) -> Iterator[tuple[str, ...]]:
    """The ops of a node and of what it is made of, two and three deep."""
    for item in node.inputs:
        yield (node.op.name, item.op.name)
        for below in item.inputs:
            yield (node.op.name, item.op.name, below.op.name)


# ---------------------------------------------------------------------------------- reports


def unreached(reached: dict[str, set[int]]) -> dict[str, list[str]]:
    """For each file, the functions with lines that never ran, and these: ``name: 12-14, 20``."""
    found: dict[str, list[str]] = {}
    for file, lines in reached.items():
        possible = lines_of(file)
        missing: dict[str, list[int]] = {}
        for line in sorted(possible.keys() - lines):
            missing.setdefault(possible[line], []).append(line)
        if missing:
            found[file] = [f"{name}: {_ranges(rows)}" for name, rows in missing.items()]
    return found


def _ranges(lines: Sequence[int]) -> str:
    """Ascending numbers in words, neighbours as one."""
    parts: list[list[int]] = []
    for line in lines:
        if parts and line == parts[-1][-1] + 1:
            parts[-1].append(line)
        else:
            parts.append([line])
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else f"{p[0]}" for p in parts)


def report(fired: dict[str, int], reached: dict[str, set[int]]) -> tuple[str, str]:
    """In one line or a few: which passes never changed a graph, and in how many lines of each file
    nothing ran; and the whole list of these lines."""
    never = [name for name, count in fired.items() if not count]
    short = [f"passes that never changed a graph: {', '.join(never)}"] if never else []
    missing = unreached(reached)
    long = []
    total = run = 0
    for file in reached:
        possible = lines_of(file)
        total += len(possible)
        run += len(possible.keys() & reached[file])
        name = str(Path(file).relative_to(_PACKAGE)) if file.startswith(str(_PACKAGE)) else file
        long += [f"{name}: {text}" for text in missing.get(file, ())]
        own = not file.startswith(str(_PACKAGE))
        short += [f"never reached in {name}: {text}" for text in missing.get(file, ()) if own]
    if total:
        short.append(f"{run} of {total} lines of passes, lowering and printers were reached")
    return "\n".join(short), "\n".join(long)
