"""What a cubin says about its kernels, read from its bytes: ELF sections and SASS instructions.

From sm_70 on an instruction has 128 bits. Its low 12 bits are the opcode, and in those that access
memory bits 73 to 75 are the size; ``test_cubins.py`` holds this against kernels of known sizes.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator

#: Bytes by the size field of a load or store.
_BYTES = (1, 1, 2, 2, 4, 8, 16)
_OPCODES = {0x981: "load", 0x986: "store", 0xFAE: "copy"}
_INSTRUCTION = 16


def sections(image: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the sections of a 64-bit ELF file."""
    assert image[:5] == b"\x7fELF\x02"
    (start,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", image, start + n * size) for n in range(count)]
    for name, _, _, _, offset, length in rows:
        begin = rows[names][4] + name
        yield image[begin : image.index(b"\0", begin)].decode(), image[offset : offset + length]


def accesses(image: bytes) -> dict[str, Counter[tuple[str, int]]]:
    """How often each function loads from and stores to global memory, and copies from there into
    shared memory, by bytes at a time."""
    found: dict[str, Counter[tuple[str, int]]] = {}
    for name, code in sections(image):
        if not name.startswith(".text."):
            continue
        counts = found[name.removeprefix(".text.")] = Counter()
        for at in range(0, len(code) - _INSTRUCTION + 1, _INSTRUCTION):
            low, high = struct.unpack_from("<QQ", code, at)
            kind = _OPCODES.get(low & 0xFFF)
            if kind is not None:
                counts[kind, _BYTES[(high >> 9) & 7]] += 1
    return found
