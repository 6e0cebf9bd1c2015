"""Arguments of a checked launch: arrays, descriptions of arrays, numbers, structs."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lazyt.errors import ArgumentError
from lazyt.runtime.cuda.checks.build import Signature

_MOST_BYTES = 1 << 30
#: Names of element types in descriptions of arguments, with their sizes and ``struct`` letters.
TYPES = {
    "bool": (1, "?"), "char": (1, "b"), "int8": (1, "b"), "uchar": (1, "B"), "uint8": (1, "B"),
    "short": (2, "h"), "int16": (2, "h"), "ushort": (2, "H"), "uint16": (2, "H"),
    "half": (2, "e"), "float16": (2, "e"), "bfloat16": (2, ""), "int": (4, "i"), "int32": (4, "i"),
    "unsigned": (4, "I"), "uint": (4, "I"), "uint32": (4, "I"), "float": (4, "f"),
    "float32": (4, "f"), "long": (8, "q"), "int64": (8, "q"), "ulong": (8, "Q"),
    "uint64": (8, "Q"), "double": (8, "d"), "float64": (8, "d"),
    **{f"{name}{n}": (size * n, "") for name, size in (("half", 2), ("char", 1),
       ("uchar", 1), ("short", 2), ("int", 4), ("uint", 4), ("float", 4), ("double", 8))
       for n in (2, 4)},
}  # fmt: skip
_DESCRIPTION = re.compile(r"\s*(\w+)\s*\[\s*(\d+)\s*\]\s*(?:=\s*(\S+))?\s*$")
_LETTERS = {("i", 1): "b", ("i", 2): "h", ("i", 4): "i", ("i", 8): "q", ("u", 1): "B",
            ("u", 2): "H", ("u", 4): "I", ("u", 8): "Q", ("f", 4): "f", ("f", 8): "d",
            ("h", 2): "e", ("b", 1): "?"}  # fmt: skip


@dataclass
class Buffer:
    """Memory of a kernel: its bytes, or None where nobody has written them at first."""

    nbytes: int
    data: bytes | None
    required: bool
    name: str = ""
    item: int = 1
    code: str = "u"


def arguments_of(
    signature: Signature, kernel: str, given: Sequence[Any], outputs: Sequence[int | str]
) -> tuple[list[Buffer], list[str]]:
    """Buffers, and for each parameter the number of its buffer or its value."""
    names, kinds = signature.text.parameters, signature.kinds
    if len(given) != len(kinds):
        listed = ", ".join(names) or "none"
        raise ArgumentError(f"{kernel} takes {len(kinds)} arguments ({listed}), not {len(given)}")
    wanted = {_output(item, names, kernel) for item in outputs}
    buffers: list[Buffer] = []
    places: dict[int, int] = {}
    values: list[str] = []
    for number, (item, kind) in enumerate(zip(given, kinds, strict=True)):
        name = names[number] if number < len(names) else f"argument{number}"
        if kind[0] != "p":
            if number in wanted:
                raise ArgumentError(f"{kernel}: {name} is no pointer, so it is no output")
            values.append(f"v {_value(item, kind, name)}")
        elif item is None:
            values.append("b -1")
        elif id(item) in places and not isinstance(item, str):
            values.append(f"b {places[id(item)]}")
        else:
            buffer = _buffer(item, kind, name, number in wanted)
            places[id(item)] = len(buffers)
            values.append(f"b {len(buffers)}")
            buffers.append(buffer)
    return buffers, values


def _output(item: int | str, names: tuple[str, ...], kernel: str) -> int:
    if isinstance(item, str) and item in names:
        return names.index(item)
    if isinstance(item, int) and -len(names) <= item < len(names):
        return item % len(names)
    raise ArgumentError(f"{kernel} has no parameter {item!r}; it has {', '.join(names)}")


def _buffer(item: Any, kind: tuple[str, int, str, int], name: str, required: bool) -> Buffer:
    each, code = max(kind[3], 1), kind[2]
    if isinstance(item, str):
        nbytes, data = _described(item, name)
        required = required or data is None
    else:
        try:
            data = memoryview(item).tobytes()
        except (TypeError, ValueError, BufferError):
            what = f"{name} is a pointer: give an array, None, or a text such as 'float[8]'"
            raise ArgumentError(f"{what}, not {type(item).__name__}") from None
        nbytes = len(data)
    if nbytes > _MOST_BYTES:
        raise ArgumentError(f"{name}: {nbytes} bytes are too many to check")
    return Buffer(nbytes, None if required else data, required, name, each, code)


def _described(text: str, name: str) -> tuple[int, bytes | None]:
    """Bytes and values of an array that a text describes."""
    found = _DESCRIPTION.match(text)
    if found is None or found[1] not in TYPES:
        known = "float, double, int, unsigned, half, float4 ..."
        raise ArgumentError(f"{name}: {text!r} is no array such as 'float[8]' ({known})")
    size, letter = TYPES[found[1]]
    count, value = int(found[2]), found[3]
    if size * count > _MOST_BYTES:
        raise ArgumentError(f"{name}: {size * count} bytes are too many to check")
    if value is None:
        return size * count, None
    if value == "0":
        return size * count, bytes(size * count)
    if not letter:
        base = re.match(r"[a-z]+", found[1])
        letter = TYPES[base[0]][1] if base and found[1] != "bfloat16" else ""
        if not letter:
            raise ArgumentError(f"{name}: values of {found[1]} cannot be described; give an array")
        count *= size // struct.calcsize(letter)
    try:
        return size * int(found[2]), struct.pack(
            f"={count}{letter}", *_values(value, count, letter)
        )
    except (ValueError, struct.error, OverflowError) as error:
        raise ArgumentError(f"{name}: {text!r}: {error}") from None


def _values(value: str, count: int, letter: str) -> list[Any]:
    turn: Any = float if letter in "efd" else int
    most = 100 if letter in "bB" else 2000 if letter == "e" else 1 << 15
    if value == "range":
        return [turn(n if letter in "iIqQfd" else n % most) for n in range(count)]
    if value == "random":
        state, made = 12345, []
        for _ in range(count):
            state = (state * 1103515245 + 12345) % (1 << 31)
            made.append(state / (1 << 30) - 1 if turn is float else (state >> 8) % most)
        return made
    return [turn(value)] * count


def _value(item: Any, kind: tuple[str, int, str, int], name: str) -> str:
    code, size = kind[0], kind[1]
    if code == "s":
        try:
            data = memoryview(item).tobytes()
        except TypeError:
            raise ArgumentError(f"{name} is a struct: give its {size} bytes") from None
        if len(data) != size or size > 256:
            raise ArgumentError(
                f"{name} is a struct of {size} bytes (256 at most), not {len(data)}"
            )
        return data.hex()
    try:
        if code in "iub":
            item = bool(item) if code == "b" else item.__index__()
        else:
            item = float(item)
        return struct.pack(f"<{_LETTERS[code, size]}", item).hex()
    except (AttributeError, TypeError, ValueError, OverflowError, struct.error):
        what = "a whole number" if code in "iub" else "a number"
        raise ArgumentError(f"{name} takes {what} of {size} bytes, not {item!r}") from None


def write_launch(
    path: str, numbers: Sequence[Any], buffers: Sequence[Buffer], values: Sequence[str]
) -> None:
    """Writes the file that an executable reads: a launch, its buffers and its arguments."""
    lines = [" ".join(map(str, [*numbers, len(buffers)]))]
    for buffer in buffers:
        grain = 4 if buffer.item % 4 == 0 else 2 if buffer.item % 2 == 0 else 1
        code = {"h": "u", "p": "u"}.get(buffer.code, buffer.code)
        given = int(buffer.data is not None)
        facts = (buffer.nbytes, grain, buffer.item, code, given, int(buffer.required), buffer.name)
        lines.append(" ".join(map(str, facts)))
    lines.append(str(len(values)))
    with open(path, "wb") as file:
        file.write("\n".join([*lines, *values]).encode() + b"\n")
        for buffer in buffers:
            if buffer.data is not None:
                file.write(buffer.data)
