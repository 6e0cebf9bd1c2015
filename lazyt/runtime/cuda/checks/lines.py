"""Lines and columns of addresses in an executable, as its compiler noted them (DWARF 2 to 4)."""

from __future__ import annotations

import bisect
import struct
from dataclasses import dataclass, field


class _Reader:
    """Numbers of a section, one after another."""

    def __init__(self, data: bytes, place: int = 0) -> None:
        self.data, self.place = data, place

    def take(self, kind: str) -> int:
        """A number of a fixed size."""
        value: int = struct.unpack_from(f"<{kind}", self.data, self.place)[0]
        self.place += struct.calcsize(kind)
        return value

    def unsigned(self) -> int:
        """A number of as many bytes as it needs."""
        value = shift = 0
        while True:
            byte = self.data[self.place]
            self.place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self) -> int:
        """As ``unsigned``, with a sign."""
        start = self.place
        value = self.unsigned()
        bits = 7 * (self.place - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def word(self) -> str:
        """A string."""
        end = self.data.index(0, self.place)
        text = self.data[self.place : end].decode(errors="replace")
        self.place = end + 1
        return text


@dataclass
class LineTable:
    """Which line and column of one file the code at an address was made from.

    Args:
        image: an ELF executable with ``.debug_line``.
        file: the name of the file, as ``#line`` gave it.
    """

    image: bytes
    file: str
    starts: list[int] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rows: list[tuple[int, int, int]] = []
        data = section(self.image, ".debug_line")
        reader = _Reader(data)
        while reader.place < len(data):
            _read_unit(reader, self.file, rows)
        rows.sort(key=lambda row: row[0])
        self.starts = [row[0] for row in rows]
        self.places = [row[1:] for row in rows]
        self.image = b""

    def find(self, address: int) -> tuple[int, int]:
        """Line and column of an address, 0 and 0 where the file has no code there."""
        at = bisect.bisect_right(self.starts, address) - 1
        return self.places[at] if at >= 0 else (0, 0)


def section(image: bytes, name: str) -> bytes:
    """A section of an ELF file with 64-bit addresses, empty where it has none of that name."""
    if image[:5] != b"\x7fELF\x02":
        return b""
    table, size, count, names = (
        struct.unpack_from(kind, image, place)[0]
        for kind, place in (("<Q", 40), ("<H", 58), ("<H", 60), ("<H", 62))
    )
    heads = [struct.unpack_from("<IIQQQQ", image, table + size * n) for n in range(count)]
    words = heads[names][4]
    for head in heads:
        start = words + head[0]
        if image[start : image.index(0, start)].decode() == name:
            return image[head[4] : head[4] + head[5]]
    return b""


@dataclass
class _Row:
    address: int = 0
    file: int = 1
    line: int = 1
    column: int = 0


def _read_unit(r: _Reader, wanted: str, rows: list[tuple[int, int, int]]) -> None:
    length = r.take("I")
    end = r.place + length
    version = r.take("H")
    if version not in (2, 3, 4):
        r.place = end
        return
    program = r.take("I")
    program += r.place
    least = r.take("B")
    if version == 4:
        r.take("B")
    r.take("B")
    base, span, first = r.take("b"), r.take("B"), r.take("B")
    lengths = [r.take("B") for _ in range(first - 1)]
    while r.word():
        pass
    files: set[int] = set()
    number = 1
    while name := r.word():
        if name == wanted:
            files.add(number)
        for _ in range(3):
            r.unsigned()
        number += 1
    r.place = program
    _run(r, end, (least, base, span, first, lengths), files, rows)
    r.place = end


def _run(
    r: _Reader, end: int, facts: tuple[int, int, int, int, list[int]], files: set[int],
    rows: list[tuple[int, int, int]],
) -> None:  # fmt: skip
    least, base, span, first, lengths = facts
    row = _Row()

    def note(ends: bool = False) -> None:
        known = row.file in files and not ends
        rows.append((row.address, *((row.line, row.column) if known else (0, 0))))

    while r.place < end:
        code = r.take("B")
        if code >= first:
            code -= first
            row.address += code // span * least
            row.line += base + code % span
            note()
        elif code == 0:
            size = r.unsigned()
            after, what = r.place + size, r.take("B")
            if what == 1:
                note(True)
                row = _Row()
            elif what == 2:
                row.address = r.take("Q")
            r.place = after
        elif code == 1:
            note()
        elif code == 2:
            row.address += r.unsigned() * least
        elif code == 3:
            row.line += r.signed()
        elif code == 4:
            row.file = r.unsigned()
        elif code == 5:
            row.column = r.unsigned()
        elif code == 8:
            row.address += (255 - first) // span * least
        elif code == 9:
            row.address += r.take("H")
        else:
            for _ in range(lengths[code - 1]):
                r.unsigned()
