"""Helpers of contraction kernels that turn rows, adjacent along k, in registers.

Squares of as many rows as a vector has lanes are loaded along k, and shuffled until a vector holds
one k of all rows. No sum is involved, or each lane is one sum in the order of k.
"""

from __future__ import annotations

from lazyt.codegen.contract_micro import splat, vector_section
from lazyt.codegen.contract_spec import ITEM_BYTES

# Bytes of a long row between what is turned and what is asked for; of short ones, it is the next.
_AHEAD = 512


def turning(vec: str, lanes: int, item: int) -> tuple[list[str], list[str]]:
    """Statements that turn the square of vectors ``s0_<row>``, and the names of its columns.

    First inside of the 16 bytes that machines interleave fastest, then these as wholes.
    """
    inside = min(16 // item, lanes)
    groups = lanes // inside
    low = [n // inside * inside + n % inside // 2 + n % 2 * lanes for n in range(lanes)]
    high = [n + inside // 2 for n in low]
    even = [n + n // inside * inside for n in range(lanes)]
    odd = [n + inside for n in even]
    now = [f"s0_{r}" for r in range(lanes)]
    out: list[str] = []

    def mixed(one: str, two: str, order: list[int]) -> str:
        name = f"t{len(out)}"
        places = ", ".join(map(str, order))
        out.append(f"{vec} {name} = __builtin_shufflevector({one}, {two}, {places});")
        return name

    for _ in range(inside.bit_length() - 1):
        made: list[str] = []
        for start in range(0, lanes, inside):
            for r in range(start, start + inside // 2):
                pair = now[r], now[r + inside // 2]
                made += [mixed(*pair, low), mixed(*pair, high)]
        now = made
    for _ in range(groups.bit_length() - 1):
        pairs = [(g, j) for g in range(0, groups, 2) for j in range(inside)]
        couples = [(now[g * inside + j], now[(g + 1) * inside + j]) for g, j in pairs]
        now = [mixed(*pair, even) for pair in couples] + [mixed(*pair, odd) for pair in couples]
    return out, now


def lay_name(item: str, width: int, vector_bytes: int) -> str:
    """Name of the copy of ``width`` rows, adjacent along k, into a panel [k][width]."""
    return f"lz_lay_{item}_{width}x{_lay_lanes(item, width, vector_bytes)}"


def _lay_lanes(item: str, width: int, vector_bytes: int) -> int:
    """Elements that are turned at a time: not many more than the panel is wide, and no more than
    a register holds, as compilers shuffle what is wider one by one."""
    return min(16, vector_bytes // ITEM_BYTES[item], max(2, 1 << (width - 1).bit_length()))


def lay_section(item: str, width: int, vector_bytes: int) -> tuple[str, str]:
    """``name(kc, from, pitch, count, to)``: ``count`` rows of ``kc`` elements, ``pitch`` apart,
    become the columns of the panel ``to``; the first row also fills the columns from ``count`` on.

    Squares are turned in registers, and the last one overlaps the one before it.
    """
    name, lanes = lay_name(item, width, vector_bytes), _lay_lanes(item, width, vector_bytes)
    kind, size = f"lz_{item}", ITEM_BYTES[item]
    vec, ref = f"{name}_vec", f"{name}_ref"
    bytes_ = lanes * size
    out = [
        f"typedef {kind} {vec} __attribute__((vector_size({bytes_})));",
        f"typedef {kind} {ref} __attribute__((vector_size({bytes_}), aligned({size}), may_alias));",
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const {kind} *restrict from,",
        f"    lz_i64 pitch, lz_i64 count, {kind} *restrict to) {{",
    ]
    for start in range(0, width, lanes):
        used = min(lanes, width - start)
        out += _lay_square(kind, width, lanes, start, used, (vec, ref), used * size)
    out.append("}")
    return name, "\n".join(out) + "\n"


def _lay_square(
    kind: str, width: int, lanes: int, start: int, used: int, types: tuple[str, str], stored: int
) -> list[str]:
    """Columns ``start .. start + used`` of a panel."""
    vec, ref = types
    out = ["    {"]
    for r in range(used):
        row = start + r
        place = f"({row} < count ? {row} * pitch : 0)" if row else "0"
        out.append(f"        const {kind} *const r{r} = from + {place};")
    out += [
        f"        for (lz_i64 k = 0; k < kc && kc >= {lanes}; k += {lanes}) {{",
        f"            const lz_i64 i = k < kc - {lanes} ? k : kc - {lanes};",
    ]
    for r in range(lanes):
        out.append(f"            {vec} s0_{r} = *(const {ref} *)(r{r if r < used else 0} + i);")
    # The rows of the next panel; what is behind the last one is never loaded.
    out += [f"            __builtin_prefetch(r{r} + {width} * pitch + i);" for r in range(used)]
    lines, turned = turning(vec, lanes, stored // used)
    out += [f"            {line}" for line in lines]
    for r in range(lanes):
        place = f"to + (i + {r}) * {width} + {start}"
        if used == lanes:
            out.append(f"            *({ref} *)({place}) = {turned[r]};")
        else:
            out.append(f"            __builtin_memcpy({place}, &{turned[r]}, {stored});")
    out += ["        }", f"        for (lz_i64 k = 0; k < kc && kc < {lanes}; k++) {{"]
    out += [f"            to[k * {width} + {start + r}] = r{r}[k];" for r in range(used)]
    out += ["        }", "    }"]
    return out


def dots_name(acc: str, columns: int, vector_bytes: int) -> str:
    """Name of the sums of a few columns over rows that are adjacent along k."""
    return f"lz_dots_{acc}_{vector_bytes // ITEM_BYTES[acc]}x{columns}v{vector_bytes}"


def dots_sections(acc: str, columns: int, vector_bytes: int) -> tuple[tuple[str, str], ...]:
    """Sections of ``name(kc, a, pitch, count, x, c, first)``.

    ``a`` is ``count`` rows of ``kc`` elements, ``pitch`` apart, ``x`` a panel [kc][columns]. Sum
    r of column j is ``c[j][r]``, overwritten when ``first`` and continued otherwise; those from
    ``count`` on are nobody's. The lanes are rows, each a sum in the order of k.
    """
    name, tag = dots_name(acc, columns, vector_bytes), f"{acc}_v{vector_bytes}"
    size = ITEM_BYTES[acc]
    lanes, kind = vector_bytes // size, f"lz_{acc}"
    vec, ref = f"lz_vec_{tag}", f"lz_ref_{tag}"
    place = [f"*({ref} *)(c + {j * lanes})" for j in range(columns)]
    lines, turned = turning(vec, lanes, size)
    near = _AHEAD // size
    out = [
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const {kind} *restrict a,",
        f"    lz_i64 pitch, lz_i64 count, const {kind} *restrict x, {kind} *restrict c, "
        "int first) {",
        *(f"    {vec} c{j} = {{0}};" for j in range(columns)),
        "    if (!first) {",
        *(f"        c{j} = {place[j]};" for j in range(columns)),
        "    }",
        f"    const {kind} *row[{lanes}];",
        f"    for (int r = 0; r < {lanes}; r++) row[r] = a + (r < count ? r : 0) * pitch;",
        # Into the second level: rows that lie a power of two apart share sets of the first.
        f"    const lz_i64 ahead = kc < {4 * near} ? {lanes} * pitch : {near};",
        # The rest of the rows is a square that overlaps the last one, unless it is too short.
        f"    const lz_i64 rest = kc % {lanes};",
        f"    const lz_i64 whole = kc < {lanes} ? 0 : rest < 3 ? kc - rest : kc;",
        f"    for (lz_i64 n = 0; n < whole; n += {lanes}) {{",
        f"        const lz_i64 k = n < kc - {lanes} ? n : kc - {lanes};",
        *(f"        {vec} s0_{r} = *(const {ref} *)(row[{r}] + k);" for r in range(lanes)),
        *(f"        __builtin_prefetch(row[{r}] + k + ahead, 0, 2);" for r in range(lanes)),
        *(f"        {line}" for line in lines),
    ]
    out.append("        if (k == n) {")
    for r, column in enumerate(turned):
        for j in range(columns):
            value = splat(vec, f"x[(k + {r}) * {columns} + {j}]", lanes)
            out.append(f"            c{j} = lz_vfma_{tag}({column}, {value}, c{j});")
    out += ["        } else {", f"            {vec} s[{lanes}];"]
    out += [f"            s[{r}] = {column};" for r, column in enumerate(turned)]
    out.append(f"            for (lz_i64 r = n - k; r < {lanes}; r++) {{")
    for j in range(columns):
        value = splat(vec, f"x[(k + r) * {columns} + {j}]", lanes)
        out.append(f"                c{j} = lz_vfma_{tag}(s[r], {value}, c{j});")
    out += ["            }", "        }"]
    rest = ", ".join(f"row[{r}][k]" for r in range(lanes))
    out += ["    }", "    for (lz_i64 k = whole; k < kc; k++) {"]
    out.append(f"        const {vec} s = {{{rest}}};")
    for j in range(columns):
        value = splat(vec, f"x[k * {columns} + {j}]", lanes)
        out.append(f"        c{j} = lz_vfma_{tag}(s, {value}, c{j});")
    out += ["    }", *(f"    {place[j]} = c{j};" for j in range(columns)), "}"]
    return (vector_section(acc, vector_bytes), (name, "\n".join(out) + "\n"))
