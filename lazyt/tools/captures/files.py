"""What a capture's folder holds, read back; whatever is wrong with a file is said with its path.

manifest.json            machine, settings, versions
times.json               the machine's bounds: bytes and operations per second
sources/                 the user's files that nodes come from
000_train_12/            one folder for each plan, in the order of first runs
    graph.ir             the requested graph, with what else its plan depends on
    passes/1_simplify.ir the graph after each pass
    groups.json          fusion's decisions, with reasons
    kernels.ir           kernel IR in the order of launches, each with the form that was chosen
    plan.c, plan.cu      the text that was compiled
    launches.json        slots, arena, launches, arguments
    program.json         the program as the disk cache keeps it
    results.json         digests of inputs, results and of what each launch writes
    times.json           seconds: passes, compiler, launches
    inputs.safetensors   where --inputs asks for it
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazyt.errors import LazytError, ParseError

if TYPE_CHECKING:
    from lazyt.ir.graph import Node
    from lazyt.ir.kernel import Kernel
    from lazyt.ir.program import Program

#: Of the layout above; a capture of another one is refused.
FORMAT = 1
MANIFEST = "manifest.json"
#: What a line of IR ends in where the user's position is known.
_POSITION = re.compile(r"  # (.*:\d+)$")
_PLAN_FOLDER = re.compile(r"\d{3,}_\w+")
#: Settings that decide what becomes of a graph.
SETTINGS = ("bands", "exact", "inline_reduce", "matrix_registers", "memory_budget")
#: How the first line of ``graph.ir`` begins.
FACTS = "# plan: "


class CaptureError(LazytError):
    """A capture that is not whole, or damaged: says which file, and what is wrong there."""


def read_text(path: str) -> str:
    """A file of a capture. Raises CaptureError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise CaptureError(f"{path} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise CaptureError(f"cannot read {path}: {os.strerror(error.errno or 0)}") from None


def read_json(path: str, kind: type) -> Any:
    """The JSON value of a file, of this type. Raises CaptureError."""
    text = read_text(path)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CaptureError(f"{path} is not JSON: {error}") from None
    except RecursionError:
        raise CaptureError(f"{path} is not JSON of a capture: it is nested too deeply") from None
    if not isinstance(found, kind):
        word = {"dict": "an object", "list": "a list"}[kind.__name__]
        raise CaptureError(f"{path} has to hold {word}, not {type(found).__name__}")
    return found


def field(raw: Any, name: str, kind: type | tuple[type, ...], where: str) -> Any:
    """An entry of an object of JSON. Raises CaptureError where it is missing or something else."""
    if not isinstance(raw, dict):
        raise CaptureError(f"{where}: an object should stand here, not {raw!r:.60}")
    if name not in raw:
        raise CaptureError(f"{where}: {name!r} is missing")
    found = raw[name]
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is int):
        raise CaptureError(f"{where}: {name!r} cannot be {found!r:.60}")
    return found


def dumped(value: object) -> str:
    """JSON for people: each entry of the outer levels on a line of its own."""
    return _lines(value, 0) + "\n"


def _lines(value: object, depth: int) -> str:
    flat = json.dumps(value)
    if len(flat) + depth <= 100 or not isinstance(value, (dict, list, tuple)) or not value:
        return flat
    inner = " " * (depth + 1)
    if isinstance(value, dict):
        body = [f"{inner}{json.dumps(k)}: {_lines(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(body) + "\n" + " " * depth + "}"
    body = [inner + _lines(v, depth + 1) for v in value]
    return "[\n" + ",\n".join(body) + "\n" + " " * depth + "]"


@dataclass(frozen=True)
class GraphText:
    """Graph text without positions, and these: the user's ``file:line`` of each line but the first,
    empty where it is not known."""

    text: str
    positions: tuple[str, ...]

    @staticmethod
    def of(text: str) -> GraphText:
        """Takes text apart that may have positions and comments."""
        lines: list[str] = []
        positions: list[str] = []
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            found = _POSITION.search(line)
            lines.append(line[: found.start()] if found else line)
            positions.append(found[1] if found else "")
        return GraphText("".join(f"{line}\n" for line in lines), tuple(positions[1:]))

    @functools.cached_property
    def lines(self) -> list[str]:
        """The header, and a line for each node that is computed."""
        return self.text.splitlines()

    @functools.cached_property
    def first(self) -> int:
        """The number of the first node that is computed."""
        found = re.match(r"%(\d+) ", self.lines[1]) if len(self.lines) > 1 else None
        return int(found[1]) if found else 0


class CapturedPlan:
    """A plan's folder. Files are read on first use; all raise CaptureError.

    Attributes:
        path: the folder.
        name: its name.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)

    def file(self, name: str) -> str:
        """The path of a file of the folder."""
        return os.path.join(self.path, name)

    @functools.cached_property
    def graph_source(self) -> str:
        """``graph.ir`` as it is."""
        return read_text(self.file("graph.ir"))

    @functools.cached_property
    def graph(self) -> GraphText:
        """The graph."""
        return GraphText.of(self.graph_source)

    @functools.cached_property
    def facts(self) -> dict[str, Any]:
        """What else the plan depends on."""
        found = facts_of(self.graph_source, self.file("graph.ir"))
        if found is None:
            raise CaptureError(f"{self.file('graph.ir')} does not begin with '{FACTS}'")
        return found

    def nodes(self) -> tuple[list[Node], list[Node]]:
        """The graph's leaves and roots."""
        from lazyt.ir.parser import parse_graph
        from lazyt.ops import OPS

        try:
            return parse_graph(self.graph_source, OPS)
        except ParseError as error:
            raise CaptureError(f"{self.file('graph.ir')}: {error}") from None

    @functools.cached_property
    def passes(self) -> list[tuple[str, GraphText]]:
        """The graph after each pass, by the pass's name."""
        folder = self.file("passes")
        try:
            names = os.listdir(folder)
        except OSError as error:
            raise CaptureError(f"cannot read {folder}: {os.strerror(error.errno or 0)}") from None
        found: list[tuple[int, str, str]] = []
        for name in names:
            match = re.fullmatch(r"(\d+)_(\w+)\.ir", name)
            if match:
                found.append((int(match[1]), match[2], name))
        return [
            (title, GraphText.of(read_text(os.path.join(folder, name))))
            for _, title, name in sorted(found)
        ]

    @functools.cached_property
    def groups(self) -> list[dict[str, Any]]:
        """Fusion's decisions, in the order of launches."""
        where = self.file("groups.json")
        found: list[dict[str, Any]] = read_json(where, list)
        for number, group in enumerate(found):
            place = f"{where}, group {number}"
            field(group, "kind", str, place)
            for name in ("nodes", "members", "reasons", "sources", "computes"):
                field(group, name, list, place)
            if not all(isinstance(n, int) for n in (*group["nodes"], *group["members"])):
                raise CaptureError(f"{place}: 'nodes' and 'members' have to be numbers")
            if not all(isinstance(s, str) for name in _WORDS for s in group[name]):
                raise CaptureError(f"{place}: {', '.join(_WORDS)} have to be text")
        return found

    @functools.cached_property
    def kernels(self) -> list[Kernel]:
        """The kernels, one for each launch."""
        from lazyt.ir.parser import parse_kernels

        path = self.file("kernels.ir")
        text = read_text(path)
        try:
            return parse_kernels(text) if text.strip() else []
        except ParseError as error:
            raise CaptureError(f"{path}: {error}") from None

    @functools.cached_property
    def program(self) -> Program:
        """The program that was run."""
        from lazyt.ir.program import Program

        path = self.file("program.json")
        try:
            found = Program.from_json(read_text(path).rstrip("\n"))
            found.fingerprint()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CaptureError(f"{path} is no program: {type(error).__name__}: {error}") from None
        self._check(found, path)
        return found

    def _check(self, program: Program, path: str) -> None:
        """Raises CaptureError for numbers that lead out of a program."""
        names = {kernel.name for kernel in program.kernels}
        for number, launch in enumerate(program.launches):
            if launch.kernel not in names:
                raise CaptureError(f"{path}: launch {number} is of no kernel {launch.kernel!r}")
            if not all(0 <= slot < len(program.slots) for slot in launch.slots):
                raise CaptureError(f"{path}: launch {number} has slots that are not there")
        for number, slot in enumerate(program.slots):
            if slot.kind not in ("input", "output", "arena"):
                raise CaptureError(f"{path}: slot {number} is of no kind {slot.kind!r}")
            inside = slot.kind != "arena" or slot.offset + slot.nbytes <= program.arena_bytes
            if min(slot.index, slot.offset, slot.nbytes) < 0 or not inside:
                raise CaptureError(f"{path}: slot {number} does not lie in its memory")
        if len(program.notes) != len(program.launches):
            raise CaptureError(f"{path}: {len(program.notes)} notes on {len(program.launches)} "
                               "launches")  # fmt: skip

    @functools.cached_property
    def launches(self) -> dict[str, Any]:
        """Slots, arena and launches for people."""
        where = self.file("launches.json")
        found: dict[str, Any] = read_json(where, dict)
        field(found, "arena_bytes", int, where)
        for number, launch in enumerate(field(found, "launches", list, where)):
            place = f"{where}, launch {number}"
            field(launch, "kernel", str, place)
            field(launch, "groups", list, place)
            for argument in field(launch, "arguments", list, place):
                for name in ("role", "place", "value"):
                    field(argument, name, str, place)
        return found

    @functools.cached_property
    def text(self) -> str:
        """The text that was compiled."""
        from lazyt.extensions import targets

        known = targets.known()
        target = self.program.target
        if target not in known:
            raise CaptureError(f"{self.path} is of a target '{target}' that nobody registered here")
        return read_text(self.file(f"plan.{targets.named(target).suffix}"))

    @functools.cached_property
    def results(self) -> dict[str, Any]:
        """Digests of values; empty where the plan ran on another device."""
        path = self.file("results.json")
        return read_json(path, dict) if os.path.exists(path) else {}

    @functools.cached_property
    def times(self) -> dict[str, Any]:
        """Seconds."""
        where = self.file("times.json")
        found: dict[str, Any] = read_json(where, dict)
        field(found, "passes", dict, where)
        field(found, "launches", list, where)
        return found


_WORDS = ("reasons", "sources", "computes")


def facts_of(text: str, where: str) -> dict[str, Any] | None:
    """What the first line of graph text says of its plan; None where it says nothing.

    Raises CaptureError where that is damaged.
    """
    line = text.partition("\n")[0]
    if not line.startswith(FACTS):
        return None
    try:
        found = json.loads(line.removeprefix(FACTS))
    except (ValueError, RecursionError) as error:
        raise CaptureError(
            f"{where}, line 1: what follows '{FACTS}' is not JSON: {error}"
        ) from None
    place = f"{where}, line 1"
    for name, kind in _FACT_KINDS.items():
        field(found, name, kind, place)
    numbers = [found["order"], *found["donated"]]
    if not all(_are_numbers(each) for each in numbers):
        raise CaptureError(f"{place}: 'order' and 'donated' have to be lists of numbers")
    if any(len(pair) != 2 for pair in found["donated"]):
        raise CaptureError(f"{place}: 'donated' has to be pairs of an input and a root")
    return dict(found)


_FACT_KINDS: dict[str, type] = {
    "order": list, "donated": list, "place": str, "settings": dict, "tuned": dict,
}  # fmt: skip


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(type(n) is int for n in value)


class Captured:
    """A capture. Raises CaptureError where there is none at the path.

    Attributes:
        path: its folder.
        manifest: machine, settings, versions.
        plans: its plans, in the order in which they first ran.
    """

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or path
        where = os.path.join(path, MANIFEST)
        if not os.path.isdir(path):
            raise CaptureError(f"there is no capture {path}: it is no folder")
        if not os.path.exists(where):
            raise CaptureError(f"{path} is no capture: it has no {MANIFEST}")
        self.manifest: dict[str, Any] = read_json(where, dict)
        found = self.manifest.get("format")
        if found != FORMAT:
            raise CaptureError(f"{where}: this is format {found!r}; this version reads {FORMAT}")
        for name in ("machine", "settings", "program"):
            field(self.manifest, name, dict, where)
        names = sorted(name for name in os.listdir(path) if _PLAN_FOLDER.fullmatch(name))
        self.plans = [CapturedPlan(os.path.join(path, name)) for name in names]

    def roofline(self) -> tuple[float, float] | None:
        """Bytes and operations per second that the machine of the capture has at best; None where
        they were not measured."""
        where = os.path.join(self.path, "times.json")
        if not os.path.exists(where):
            return None
        raw = read_json(where, dict)
        found = [field(raw, name, (int, float), where) for name in ("bandwidth", "peak")]
        if not all(0 < value < float("inf") for value in found):
            raise CaptureError(f"{where}: 'bandwidth' and 'peak' have to be positive")
        return float(found[0]), float(found[1])

    def sources(self) -> dict[str, str]:
        """The user's files, by their path."""
        where = os.path.join(self.path, "sources", "index.json")
        if not os.path.exists(where):
            return {}
        found: dict[str, str] = {}
        for path, name in read_json(where, dict).items():
            if not isinstance(name, str) or os.path.basename(name) != name:
                raise CaptureError(f"{where}: {name!r:.60} is no name of a file")
            found[path] = read_text(os.path.join(self.path, "sources", name))
        return found


def plans_at(path: str) -> list[CapturedPlan]:
    """The plans of a capture, or the one whose folder this is. Raises CaptureError."""
    if os.path.exists(os.path.join(path, "program.json")):
        return [CapturedPlan(path.rstrip("/"))]
    return Captured(path).plans


def numbers_in(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The nodes of graph text, header left out, with their numbers."""
    for line in lines[1:]:
        found = re.match(r"%(\d+) = ", line)
        if found:
            yield int(found[1]), line
