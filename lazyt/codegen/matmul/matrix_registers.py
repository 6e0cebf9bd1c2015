"""Contractions in matrix registers: AMX of x86-64, for bfloat16 and int8.

Eight registers hold 16 rows of 64 bytes each. One instruction adds to the 16 by 16 sums of one the
product of two others: of 16 rows of A and 16 columns of B, over 16 groups of neighbouring k, each
32 bits wide (two bfloat16 or four int8). A register tile here is up to 2 by 2 of these.

Panels of B are those of other contractions of groups, ``[k][columns of a tile]``; those of A are
squares of 16 rows by 16 groups, one behind the other. k is filled up with zeros to whole squares.

int8 is summed exactly, modulo 2^32. For bfloat16 the instruction sums the products of the first
members of its 16 groups, and those of the second ones, each in the order of k, adds the two and
then that to the sum so far; subnormal numbers are zero (Intel 64 and IA-32 Architectures Software
Developer's Manual, TDPBF16PS). All forms do so from k = 0 on in pieces of 32, so bits depend
neither on blocks nor on threads, but are not those of single steps.

Instructions are written as bytes: no compiler has to know them, and no header is needed.
"""

from __future__ import annotations

from lazyt.codegen.matmul.micro_kernels import CText
from lazyt.codegen.matmul.panels import lay_name
from lazyt.codegen.matmul.spec import ContractSpec, Place, ceil_div, round_up

#: Rows of a matrix register, and groups of k in each.
SQUARE = 16
#: Pointer and row distance of loads and stores are in these: rax and rdx.
_PLACE = '"a"({place}), "d"({pitch})'
# Groups of three bytes that begin an instruction, by the prefix that it has in the manual.
_PREFIX = {"NP": 0x78, "66": 0x79, "F3": 0x7A, "F2": 0x7B}
# Prefix and opcode of multiplications, by the kind of group.
_MULTIPLY = {"bf16x2": ("tdpbf16ps", "F3", 0x5C), "i8x4": ("tdpbssd", "F2", 0x5E)}
_LEFT, _RIGHT = (4, 5), (6, 7)

#: ``lz_mat_begin()`` gives all registers 16 rows of 64 bytes, ``lz_mat_end()`` gives them back,
#: each for the thread that calls it.
SETTING_SECTION = (
    "lz_mat_setting",
    """static const unsigned char lz_mat_setting[64] __attribute__((aligned(64))) = {
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0,
};
static inline void lz_mat_begin(void) {
    /* ldtilecfg (%rax) */
    __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x00" : : "a"(lz_mat_setting) : "memory");
}
static inline void lz_mat_end(void) {
    /* tilerelease */
    __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0" : : : "memory");
}
""",
)


def _instruction(name: str, code: tuple[int, ...], inputs: str = "") -> str:
    """A statement for an instruction; ``name`` is what an assembler calls it."""
    text = ", ".join(f"0x{byte:02x}" for byte in code)
    return f'__asm__ volatile(".byte {text}" : : {inputs} : "memory"); /* {name} */'


def _vex(prefix: str, opcode: int, other: int = 0) -> tuple[int, int, int, int]:
    """The first bytes of an instruction; ``other`` is its register that the last byte lacks."""
    return 0xC4, 0xE2, _PREFIX[prefix] ^ other << 3, opcode


def _move(name: str, prefix: str, register: int, place: str, pitch: str) -> str:
    code = (*_vex(prefix, 0x4B), 0x04 | register << 3, 0x10)
    return _instruction(f"{name} {register}", code, _PLACE.format(place=place, pitch=pitch))


def load(register: int, place: str, pitch: str) -> str:
    """A statement that fills a matrix register from rows ``pitch`` bytes apart."""
    return _move("tileloadd", "F2", register, place, pitch)


def store(register: int, place: str, pitch: str) -> str:
    """A statement that writes a matrix register to rows ``pitch`` bytes apart."""
    return _move("tilestored", "F3", register, place, pitch)


def clear(register: int) -> str:
    """A statement that fills a matrix register with zeros."""
    return _instruction(f"tilezero {register}", (*_vex("F2", 0x49), 0xC0 | register << 3))


def multiply(kind: str, total: int, left: int, right: int) -> str:
    """A statement that adds the product of two matrix registers to a third one."""
    name, prefix, opcode = _MULTIPLY[kind]
    code = (*_vex(prefix, opcode, right), 0xC0 | total << 3 | left)
    return _instruction(f"{name} {total}, {left}, {right}", code)


def mat_name(kind: str, rows: int, vectors: int, ahead: bool) -> str:
    """Name of the micro-kernel for a tile of ``rows`` by ``16 * vectors`` sums."""
    return f"lz_mat_{kind}_{rows}x{SQUARE * vectors}v64" + "ahead" * ahead


def mat_sections(kind: str, rows: int, vectors: int, ahead: bool) -> tuple[tuple[str, str], ...]:
    """Sections of ``name(kc, a, far, b, c, ldc, first)``.

    ``kc`` is a multiple of 16. ``a`` are squares [kc / 16][16][16], those of the next 16 rows
    ``far`` elements further on; ``b`` is a panel [kc][columns]. ``c``, ``first`` and what follows
    with ``ahead`` are as for ``tile_sections``.
    """
    name, width, down = mat_name(kind, rows, vectors, ahead), SQUARE * vectors, rows // SQUARE
    item = "f32" if kind == "bf16x2" else "i32"
    sums = {(r, v): r * vectors + v for r in range(down) for v in range(vectors)}
    place = {(r, v): f"c + {r * SQUARE} * ldc + {v * SQUARE}" for r, v in sums}
    out = [
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const lz_u32 *restrict a,",
        f"    lz_i64 far, const lz_u32 *restrict b, lz_{item} *restrict c, lz_i64 ldc, int first"
        + (", const lz_u32 *next, lz_i64 pace" * ahead)
        + ") {",
        "    if (first) {",
        *(f"        {clear(at)}" for at in sums.values()),
        "    } else {",
        *(f"        {load(at, place[here], 'ldc * 4')}" for here, at in sums.items()),
        "    }",
        f"    for (lz_i64 k = 0; k < kc; k += {SQUARE}) {{",
    ]
    if ahead:
        out += [
            "        for (lz_i64 i = 0; i < pace; i++)",
            f"            __builtin_prefetch(next + (k * pace + i * {SQUARE}), 0, 2);",
        ]
    out += [
        f"        {load(_LEFT[r], f'a + {r} * far + k * {SQUARE}', f'{SQUARE * 4}ll')}"
        for r in range(down)
    ]
    for v in range(vectors):
        right = _RIGHT[v % 2]
        out.append(f"        {load(right, f'b + k * {width} + {v * SQUARE}', f'{width * 4}ll')}")
        out += [f"        {multiply(kind, sums[r, v], _LEFT[r], right)}" for r in range(down)]
    out += [
        "    }",
        *(f"    {store(at, place[here], 'ldc * 4')}" for here, at in sums.items()),
        "}",
    ]
    return SETTING_SECTION, (name, "\n".join(out) + "\n")


def mat_tile(spec: ContractSpec) -> tuple[int, int]:
    """Rows of a register tile, and matrix registers across it: four sums at most."""
    if spec.any_size:
        return 2 * SQUARE, 2
    rows = SQUARE if spec.m <= SQUARE else 2 * SQUARE
    most = 4 if rows == SQUARE else 2
    return rows, min(most, ceil_div(spec.n, SQUARE))


def in_groups(place: Place | None, size: int) -> Place | None:
    """Where groups of ``size`` narrow numbers lie, neighbours along k, as numbers of 32 bits; None
    where they are no neighbours or not all lie as far apart as so many numbers."""
    if place is None or not place.steps:
        return None
    *outer, (divisor, extent, stride) = place.steps
    if divisor != 1 or stride != 1 or extent % size:
        return None
    strides = [*place.batch, *place.sides, *outer]
    if place.start % size or any(each % size for _, _, each in strides):
        return None

    def divided(walk: tuple[tuple[int, int, int], ...]) -> tuple[tuple[int, int, int], ...]:
        return tuple((d, e, s // size) for d, e, s in walk)

    steps = tuple((d // size, e, s // size) for d, e, s in outer)
    return Place(
        f"((const lz_u32 *){place.name})",
        place.start // size,
        divided(place.batch),
        divided(place.sides),
        (*steps, (1, extent // size, 1)),
    )


def pack_left(out: CText, spec: ContractSpec, k_block: int) -> None:
    """Statements that pack rows ``g_m0 .. g_m1`` of A, groups ``g_p0 .. g_p1``, as squares; rows
    that do not exist are left as they are, as nobody reads their sums."""
    with (
        out.loop("g_row0", "g_m0", "g_m1", SQUARE),
        out.loop("g_q0", "g_p0", "g_p1", SQUARE),
    ):
        out.clip("g_row1", "g_row0", SQUARE, "g_m1")
        to = f"g_pa + (g_row0 - g_m0) * {k_block} + (g_q0 - g_p0) * {SQUARE}"
        out.add(f"{spec.panel} *restrict g_to = {to};")
        groups = spec.k - spec.filled
        ragged = spec.any_size or groups % SQUARE != 0
        with out.block(f"if (g_q0 + {SQUARE} <= {groups})" if ragged else ""):
            out.add(f"const lz_i64 g_q1 = g_q0 + {SQUARE};")
            _square(out, spec)
        if ragged:
            with out.block("else"):
                out.add(f"const lz_i64 g_q1 = {groups};")
                _square(out, spec, True)


def _square(out: CText, spec: ContractSpec, short: bool = False) -> None:
    """Statements that fill one square, groups ``g_q0 .. g_q1``, the rest of a ``short`` one with
    zeros."""
    element = f"g_to[(g_row - g_row0) * {SQUARE} + (g_k - g_q0)]"
    place, value = spec.a_place, spec.load_a("g_b", "g_row", "g_k")
    if spec.a_unit == "k":
        if short:
            _clear(out, "g_to")
        whole = place is not None and place.steps[-1][1] % SQUARE == 0
        with out.loop("g_row", "g_row0", "g_row1"):
            if place is not None and (whole or place.plain is not None):
                out.add(f"const lz_u32 *const g_from = {place.at('g_b', 'g_row', 'g_q0')};")
                value = [], "g_from[g_k - g_q0]"
            out.pragma("omp simd")
            with out.loop("g_k", "g_q0", "g_q1"):
                out.assign(element, value)
        return
    # Rows are neighbours: what they have of a group goes side by side, and is then transposed.
    out.add(f"_Alignas(64) {spec.panel} g_beside[{SQUARE * SQUARE}];")
    if short:
        _clear(out, "g_beside")
    with out.loop("g_k", "g_q0", "g_q1"):
        out.pragma("omp simd")
        with out.loop("g_row", "g_row0", "g_row1"):
            out.assign(f"g_beside[(g_k - g_q0) * {SQUARE} + (g_row - g_row0)]", value)
    lay = lay_name(spec.panel_item, SQUARE, spec.vector_bytes)
    out.add(f"{lay}({SQUARE}, g_beside, {SQUARE}, {SQUARE}, g_to);")


def _clear(out: CText, square: str) -> None:
    with out.loop("g_i", 0, SQUARE * SQUARE):
        out.add(f"{square}[g_i] = 0;")


def filled_up(k: int) -> int:
    """Groups of k with the zeros that make whole squares of them."""
    return round_up(k, SQUARE)
