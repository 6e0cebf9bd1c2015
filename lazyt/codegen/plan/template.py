"""Programs of one graph at several sizes, made one text that takes its sizes as arguments.

Each size is lowered and printed by itself, in a form that does not depend on sizes (``any_size`` of
the printers). Where the texts differ in numbers only, the numbers that differ become
arguments. What a size computes is decided by its own lowering and never guessed: a program belongs
to a template only where each number that is not an argument is the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lazyt.codegen.c.target import print_entry_c, segment_facts
from lazyt.ir.program import KernelSource, Launch, Program, Slot

_NUMBER = re.compile(
    r"(?<![\w.])(0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[a-zA-Z]*)"
)
#: Where C wants a number that is known when it is compiled.
_FIXED = re.compile(r"(_Alignas\(|collapse\(|vector_size\()$")
#: What depends on sizes, but is the same at most of them: how many threads find work, how many
#: tiles there are, and how many one takes at a time.
_OPEN = re.compile(r"(\bthreads [<:] |\bt\d+ [<%/] |schedule\(dynamic, )$")


class _Call(NamedTuple):
    """A launch without its numbers: what has to be the same at every size.

    Attributes:
        text: the kernel between its numbers, its name left out.
        facts: of the kernel source: all but name, text and prelude.
        pointers: kind and index of the memory behind each argument.
        offsets: of the launch; with segments, these are numbers.
        segments: how many there are.
    """

    text: tuple[str, ...]
    facts: tuple[object, ...]
    prelude: tuple[str, ...]
    pointers: tuple[tuple[str, int], ...]
    offsets: tuple[int, ...]
    segments: int


class Sample(NamedTuple):
    """A program taken apart.

    Attributes:
        program: the program.
        calls: its launches without numbers.
        rest: what else has to be the same.
        numbers: the numbers of all kernels' texts, launch by launch.
    """

    program: Program
    calls: tuple[_Call, ...]
    rest: tuple[object, ...]
    numbers: tuple[str, ...]

    @property
    def form(self) -> tuple[object, ...]:
        """What programs of one template have in common."""
        return (self.calls, self.rest)


def sample_of(program: Program) -> Sample:
    """The form and the numbers of a program."""
    sources = {k.name: k for k in program.kernels}
    calls: list[_Call] = []
    numbers: list[str] = []
    for launch in program.launches:
        source = sources[launch.kernel]
        pieces = _NUMBER.split(source.text.replace(f"{source.name}(", "lz_kernel("))
        numbers += pieces[1::2]
        places = [program.slots[s] for s in launch.slots]
        calls.append(
            _Call(
                text=tuple(pieces[::2]),
                facts=(source.arity, source.numbers, source.unit, source.grids, launch.numbers),
                prelude=source.prelude,
                pointers=tuple((p.kind, p.index) for p in places),
                offsets=() if launch.extents else launch.offsets,
                segments=len(launch.extents),
            )
        )
    rest = (program.target, program.sections, program.results)
    return Sample(program, tuple(calls), rest, tuple(numbers))


@dataclass(frozen=True)
class Template:
    """What several programs have in common.

    Attributes:
        samples: the programs that it was made from.
        columns: for each number of the texts, that of the argument it is, or -1.
        kinds: C type of each argument.
        kernels: the kernels, which take arguments behind their pointers.
        calls: for each launch, its kernel and which arguments it gets.
    """

    samples: tuple[Sample, ...]
    columns: tuple[int, ...]
    kinds: tuple[str, ...]
    kernels: tuple[KernelSource, ...]
    calls: tuple[tuple[str, tuple[int, ...]], ...]

    @staticmethod
    def of(samples: Sequence[Sample]) -> Template | None:
        """The template of programs of one form, at least two; None where a number differs that C
        has to know."""
        first = samples[0]
        found = _find_columns(samples)
        if found is None:
            return None
        columns, kinds = found
        kernels: dict[str, KernelSource] = {}
        calls: list[tuple[str, tuple[int, ...]]] = []
        sources = {k.name: k for k in first.program.kernels}
        begin = 0
        for call, launch in zip(first.calls, first.program.launches, strict=True):
            end = begin + len(call.text) - 1
            open_ = columns[begin:end]
            if _needs_known(call.text, open_):
                return None
            used = tuple(dict.fromkeys(c for c in open_ if c >= 0))
            text = _written(call.text, first.numbers[begin:end], open_, used, kinds)
            name = f"lz_any_{hashlib.sha256(text.encode()).hexdigest()[:10]}"
            source = sources[launch.kernel]
            types = (*source.numbers, *(kinds[c] for c in used))
            text = text.replace("lz_kernel(", f"{name}(")
            kernels[name] = replace(source, name=name, text=text, numbers=types)
            calls.append((name, used))
            begin = end
        return Template(tuple(samples), columns, kinds, tuple(kernels.values()), tuple(calls))

    def instance(self, sample: Sample, inputs: int) -> Program:
        """The template's program for a sample that ``fits``. It reads its arguments, ``values``,
        from an input behind its ``inputs`` others."""
        values: list[int | float] = [0] * len(self.kinds)
        for column, number in zip(self.columns, sample.numbers, strict=True):
            if column >= 0:
                values[column] = _value(number)
        units = {k.name: k.unit for k in self.kernels}
        for launch, (name, _) in zip(sample.program.launches, self.calls, strict=True):
            if launch.extents:
                values += [n for fact in segment_facts(launch, units[name]) for n in fact]
        values = values or [0]  # sizes that no number of the text depends on: the slot is there
        slots = [Slot("input", inputs, 0, 8 * len(values))]
        known: dict[Slot, int] = {}
        launches: list[Launch] = []
        for launch, (name, used) in zip(sample.program.launches, self.calls, strict=True):
            places = []
            for place in launch.slots:
                slot = sample.program.slots[place]
                # Pieces of scratch memory coincide at one size and differ at another.
                if slot.kind == "arena" or slot not in known:
                    known[slot] = len(slots)
                    slots.append(slot)
                places.append(known[slot])
            numbers = (*launch.numbers, *(_read(self.kinds[c], c) for c in used))
            launches.append(replace(launch, kernel=name, slots=tuple(places), numbers=numbers))
        entry = print_entry_c(
            self.kernels, launches, len(self.kinds),
            listening=0 if sample.program.donated else len(launches),
        )  # fmt: skip
        notes = tuple(
            {**note, "name": name}
            for note, (name, _) in zip(sample.program.notes, self.calls, strict=True)
        )
        return replace(
            sample.program,
            notes=notes,
            values=tuple(values),
            kernels=self.kernels,
            entry=entry,
            slots=tuple(slots),
            launches=tuple(launches),
        )

    def fits(self, sample: Sample) -> bool:
        """Whether a program is this template at some size."""
        first = self.samples[0]
        if sample.form != first.form:
            return False
        found: dict[int, str] = {}
        for column, number, mine in zip(self.columns, sample.numbers, first.numbers, strict=True):
            if column < 0:
                if number != mine:
                    return False
            elif found.setdefault(column, number) != number or (
                _type(number) != self.kinds[column]
            ):
                return False
        return True


def _find_columns(samples: Sequence[Sample]) -> tuple[tuple[int, ...], tuple[str, ...]] | None:
    """Which numbers differ between samples, by the argument that they become, and the arguments'
    types; numbers that are equal in every sample are one."""
    known: dict[tuple[str, ...], int] = {}
    columns: list[int] = []
    kinds: list[str] = []
    before = [piece for call in samples[0].calls for piece in call.text[:-1]]
    for place, values in enumerate(zip(*(s.numbers for s in samples), strict=True)):
        same = all(v == values[0] for v in values)
        if same and not _OPEN.search(before[place]):
            columns.append(-1)
            continue
        types = {_type(v) for v in values}
        if len(types) > 1:
            return None
        key = (*values, str(place)) if same else values  # others may differ at further sizes
        if key not in known:
            known[key] = len(kinds)
            kinds.append(types.pop())
        columns.append(known[key])
    return tuple(columns), tuple(kinds)


def _type(number: str) -> str:
    """The type that C gives a number."""
    body = number.lower()
    if not body.startswith("0x") and any(c in body for c in ".ef"):
        return "float" if body.endswith("f") else "double"
    if "u" in body:
        return "unsigned long long"
    return "int" if body.isdecimal() and int(body) < 1 << 31 else "long long"


def _value(number: str) -> int | float:
    body = number.lower()
    if _type(number) in ("float", "double"):
        return float(body.rstrip("fl"))
    return int(body.rstrip("ul"), 0)


def _read(kind: str, column: int) -> str:
    """How the entry function finds an argument: the table of them is in its first slot."""
    stored = "double" if kind in ("float", "double") else "long long"
    return f"({kind})((const {stored} *)slots[0])[{column}]"


def _needs_known(pieces: Sequence[str], columns: Sequence[int]) -> bool:
    """Whether C has to know a number that differs."""
    return any(c >= 0 and _FIXED.search(p) for p, c in zip(pieces, columns, strict=False))


def _written(
    pieces: Sequence[str],
    numbers: Sequence[str],
    columns: Sequence[int],
    used: Sequence[int],
    kinds: Sequence[str],
) -> str:
    """The kernel's text with arguments for its numbers that differ."""
    names = {column: f"n{place}_" for place, column in enumerate(used)}
    parts = [pieces[0]]
    for number, column, piece in zip(numbers, columns, pieces[1:], strict=True):
        parts += [names.get(column, number), piece]
    taken = "".join(f"{kinds[c]} {names[c]}, " for c in used)
    return "".join(parts).replace("int threads)", f"{taken}int threads)", 1)
