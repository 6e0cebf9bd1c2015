"""Fused multiply-adds of vectors on x86 without the instruction, for ``config.exact``.

A step of float32 is a product in float64, which is exact, and a sum there, which is rounded to odd
before it is rounded to float32 (``LZ_EMULATED`` in ``prelude/base.h``). That takes 15 instructions
for two lanes. In a register tile most steps get by with seven: sums stay in float64, each rounded
once to 53 bits and then, by integer arithmetic, to 24. This gives other bits only where 53 bits lie
halfway between two float32, which a comparison finds, or where a float32 has fewer than 24 bits or
overflows, which the sizes of the factors exclude. Blocks of steps in which either happens are
computed again by steps of the first kind.

Vectors have 16 bytes whatever the processor has: integers of AVX have no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: What all of it stands behind. Other machines without the instruction get one lane after another.
CONDITION = "defined(LZ_EMULATED) && defined(__SSE2__)"
#: Steps in a block; rows, and columns in halves of vectors, of which sums are in registers.
_BLOCK, _ROWS, _HALVES = 64, 2, 4

_TYPES = """typedef lz_f32 lz_pair_f32 __attribute__((vector_size(8), aligned(4), may_alias));
typedef lz_f32 lz_four_f32 __attribute__((vector_size(16), aligned(4), may_alias));
typedef lz_f64 lz_pair_f64 __attribute__((vector_size(16), may_alias));
typedef lz_u64 lz_pair_u64 __attribute__((vector_size(16), may_alias));
typedef lz_i32 lz_four_i32 __attribute__((vector_size(16), may_alias));
"""
_INLINE = "static inline __attribute__((always_inline))"
_TO_ODD = f"""{_INLINE} lz_pair_f64 lz_pair_to_odd(lz_pair_f64 a, lz_pair_f64 b) {{
    lz_pair_f64 s = a + b, v = s - a, e = (a - (s - v)) + (b - v);
    lz_pair_u64 below = (lz_pair_u64)(e < 0), above = (lz_pair_u64)(e > 0);
    lz_pair_u64 negative = (lz_pair_u64)(s < 0);
    lz_pair_u64 beyond = (negative & above) | (~negative & below);
    return (lz_pair_f64)(((lz_pair_u64)s + beyond) | ((below | above) & 1));
}}
"""
_PAIR_F32 = f"""{_INLINE} lz_pair_f32
lz_pair_fused_f32(lz_pair_f64 a, lz_pair_f64 b, lz_pair_f64 c) {{
    return __builtin_convertvector(lz_pair_to_odd(a * b, c), lz_pair_f32);
}}
"""
_PAIR_F64 = f"""{_INLINE} lz_pair_f64 lz_pair_size(lz_pair_f64 x) {{
    const lz_pair_u64 magnitude = {{0x7fffffffffffffffull, 0x7fffffffffffffffull}};
    return (lz_pair_f64)((lz_pair_u64)x & magnitude);
}}
{_INLINE} lz_pair_f64
lz_pair_fused_f64(lz_pair_f64 a, lz_pair_f64 b, lz_pair_f64 c) {{
    lz_pair_f64 p = a * b, size = lz_pair_size(p);
    lz_pair_u64 near = (lz_pair_u64)(size > 1.0261342003245941e-289);  /* as lz_fused_f64 */
    near &= (lz_pair_u64)(size < 1.1235582092889474e307);
    near &= (lz_pair_u64)(lz_pair_size(c) < 1.1235582092889474e307);
    near &= (lz_pair_u64)(lz_pair_size(a) < 1.0463951242053392e298);
    near &= (lz_pair_u64)(lz_pair_size(b) < 1.0463951242053392e298);
    if (!(near[0] & near[1]))
        return (lz_pair_f64){{lz_fused_f64(a[0], b[0], c[0]), lz_fused_f64(a[1], b[1], c[1])}};
    lz_pair_f64 u = a * 134217729.0, v = b * 134217729.0;
    lz_pair_f64 ah = u - (u - a), al = a - ah, bh = v - (v - b), bl = b - bh;
    lz_pair_f64 low = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    lz_pair_f64 x = c + low, w = x - c, small = (c - (x - w)) + (low - w);
    lz_pair_f64 s = p + x, y = s - p, rest = (p - (s - y)) + (x - y);
    return s + lz_pair_to_odd(rest, small);
}}
"""

#: Types and functions of pairs of lanes.
SECTION = (
    "lz_pair_fused",
    "".join(
        [
            f"#if {CONDITION} && !defined(LZ_PAIRS)\n#define LZ_PAIRS\n",
            *(_TYPES, _TO_ODD, _PAIR_F32, _PAIR_F64),
            "#endif\n",
        ]
    ),
)


def lanes_body(acc: str, vector_bytes: int) -> str:
    """Statements of ``lz_vfma_*``: the step of each lane of ``a``, ``b`` and ``c``."""
    lanes = vector_bytes // (4 if acc == "f32" else 8)
    lines = [f"#if {CONDITION}"]
    if acc == "f32":
        lines += [
            f"    for (int i = 0; i < {lanes}; i += 2) {{",
            *(
                f"        const lz_pair_f64 {wide} = {{{name}[i], {name}[i + 1]}};"
                for wide, name in (("x", "a"), ("y", "b"), ("z", "c"))
            ),
            "        const lz_pair_f32 r = lz_pair_fused_f32(x, y, z);",
            "        c[i] = r[0]; c[i + 1] = r[1];",
            "    }",
        ]
        if vector_bytes == 16:  # as it may be written by hand: compilers do less well
            lines = [lines[0], *_four_lanes()]
    else:
        lines += [
            f"    for (int i = 0; i < {lanes}; i += 2) {{",
            "        const lz_pair_f64 x = {a[i], a[i + 1]}, y = {b[i], b[i + 1]};",
            "        const lz_pair_f64 r = lz_pair_fused_f64(x, y, (lz_pair_f64){c[i], c[i + 1]});",
            "        c[i] = r[0]; c[i + 1] = r[1];",
            "    }",
        ]
    lines += [
        "#else",
        f"    for (int i = 0; i < {lanes}; i++) c[i] = lz_fused_{acc}(a[i], b[i], c[i]);",
        "#endif",
        "    return c;",
    ]
    return "\n".join(lines) + "\n"


def _four_lanes() -> list[str]:
    lines = []
    for half, lanes in (("l", "0, 1"), ("h", "2, 3")):
        wide = [
            f"__builtin_convertvector((lz_pair_f32)__builtin_shufflevector({n}, {n}, {lanes}), "
            "lz_pair_f64)"
            for n in "abc"
        ]
        lines.append(f"    const lz_pair_f32 {half} = lz_pair_fused_f32({wide[0]},")
        lines.append(f"        {wide[1]}, {wide[2]});")
    lines.append("    c = __builtin_shufflevector(l, h, 0, 1, 2, 3);")
    return lines


def tile_lines(
    rows: int, columns: int, element: Callable[[int], str], step: Sequence[str],
    before: Sequence[str], row: str,
) -> list[str]:  # fmt: skip
    """Statements of a register tile of float32, with the arguments of ``tile_body``; ``row`` points
    to the factors of the ``columns``."""
    fours = range(0, columns, 4)
    out = [
        f"    _Alignas(64) lz_f32 e_rows[{_BLOCK * rows + 4}];",
        f"    _Alignas(64) lz_f64 e_a[{_BLOCK * rows * 2 + 8}], e_b[{_BLOCK * columns}];",
        "    const lz_four_i32 e_sizes = {0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff};",
        f"    for (lz_i64 e_k0 = 0; e_k0 < kc || (first && !e_k0); e_k0 += {_BLOCK}) {{",
        f"        const lz_i64 e_k1 = e_k0 + {_BLOCK} < kc ? e_k0 + {_BLOCK} : kc;",
        "        const lz_i64 e_n = e_k1 - e_k0;",
        "        const int e_fresh = first && e_k0 == 0;",
        "        lz_four_f32 e_least = {1e30f, 1e30f, 1e30f, 1e30f}, e_most = {0, 0, 0, 0};",
        "        for (lz_i64 k = e_k0; k < e_k1; k++) {",
        "            const lz_i64 e_k = k - e_k0;",
        *(f"            {line}" for line in before),
        *(f"            e_rows[e_k * {rows} + {r}] = {element(r)};" for r in range(rows)),
    ]
    for at in fours:
        place = f"e_b + e_k * {columns} + {at}"
        out.append(f"            {{ const lz_four_f32 x = *(const lz_four_f32 *)({row} + {at});")
        out += [f"                {line}" for line in _note_sizes()]
        out += [f"                {line}" for line in _widened("x", place)]
        out.append("            }")
    out += [
        *(f"            {line}" for line in step),
        "        }",
        f"        for (int i = 0; i < 4; i++) e_rows[e_n * {rows} + i] = 0;",
        f"        for (lz_i64 i = 0; i < e_n * {rows}; i += 4) {{",
        "            const lz_four_f32 x = *(const lz_four_f32 *)(e_rows + i);",
        *(f"            {line}" for line in _note_sizes()),
        *(
            f"            *(lz_pair_f64 *)(e_a + 2 * i + {2 * n}) = "
            f"(lz_pair_f64){{x[{n}], x[{n}]}};"
            for n in range(4)
        ),
        "        }",
        # Products are at least 2^-100 or zero: multiples of the smallest float32, as all sums are.
        "        int e_far = 0;",
        "        for (int i = 0; i < 4; i++)",
        "            e_far |= !(e_least[i] > 8.8817842e-16f && e_most[i] < 1.1258999e15f);",
    ]
    for r in range(0, rows, _ROWS):
        for at in range(0, columns, 2 * _HALVES):
            halves = range(at, min(at + 2 * _HALVES, columns), 2)
            grid = [(i, half) for i in range(r, min(r + _ROWS, rows)) for half in halves]
            out += [f"        {line}" for line in _part(rows, columns, grid)]
    return [*out, "    }"]


def _note_sizes() -> list[str]:
    """Notes the sizes of four numbers. As bits, less one: zero, which is then NaN, is no least."""
    return [
        "const lz_four_i32 y = (lz_four_i32)x & e_sizes;",
        "e_least = __builtin_ia32_minps((lz_four_f32)(y - 1), e_least);",
        "e_most = __builtin_ia32_maxps((lz_four_f32)y, e_most);",
    ]


def _widened(name: str, place: str) -> list[str]:
    return [
        f"*(lz_pair_f64 *)({place} + {at}) = __builtin_convertvector((lz_pair_f32)"
        f"__builtin_shufflevector({name}, {name}, {at}, {at + 1}), lz_pair_f64);"
        for at in (0, 2)
    ]


def _part(rows: int, columns: int, grid: Sequence[tuple[int, int]]) -> list[str]:
    """Statements for some sums, pairs of them by row and first column: a block of steps."""
    sums = {key: f"e_c{key[0]}_{key[1]}" for key in grid}
    places = {(i, at): f"*(lz_pair_f32 *)(c + {i} * ldc + {at})" for i, at in grid}
    load = [
        f"{name} = e_fresh ? (lz_pair_f64){{0, 0}} : "
        f"__builtin_convertvector({places[key]}, lz_pair_f64);"
        for key, name in sums.items()
    ]
    factors = {
        (i, at): (
            f"*(const lz_pair_f64 *)(e_a + (k * {rows} + {i}) * 2)",
            f"*(const lz_pair_f64 *)(e_b + k * {columns} + {at})",
        )
        for i, at in grid
    }
    out = ["{", *(f"    lz_pair_f64 {name};" for name in sums.values())]
    out += ["    int e_again = e_far;", "    if (!e_again) {"]
    out += ["        lz_four_i32 e_ties = {0, 0, 0, 0};", *(f"        {line}" for line in load)]
    out.append("        for (lz_i64 k = 0; k < e_n; k++) {")
    for key, name in sums.items():
        a, b = factors[key]
        out += [
            f"            {{ const lz_pair_f64 t = {a} * {b} + {name};",
            "                const lz_pair_u64 u = (lz_pair_u64)t + 0x10000000ull;",
            "                const lz_pair_u64 w = u & ~0x1fffffffull;",
            "                e_ties |= (lz_four_i32)u == (lz_four_i32)w;",
            f"                {name} = (lz_pair_f64)w; }}",
        ]
    out += [
        "        }",
        "        e_again = e_ties[0] | e_ties[2];",
        "    }",
        "    if (e_again) {",
        *(f"        {line}" for line in load),
        "        for (lz_i64 k = 0; k < e_n; k++) {",
    ]
    for key, name in sums.items():
        a, b = factors[key]
        fused = f"lz_pair_fused_f32({a}, {b}, {name})"
        out.append(f"            {name} = __builtin_convertvector({fused}, lz_pair_f64);")
    out += ["        }", "    }"]
    out += [
        f"    {places[key]} = __builtin_convertvector({name}, lz_pair_f32);"
        for key, name in sums.items()
    ]
    return [*out, "}"]
