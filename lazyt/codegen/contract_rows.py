"""Register tiles over rows that lie in a band's scratch: nothing is copied into panels.

What the first contraction of a band left is the second one's left operand, in cache already. Its
rows are read where they lie, a fixed pitch apart. Where a block of k ends with zeros in all rows of
a tile, as a mask leaves them, these are left out if that gives the same bits: the right operand is
finite, and no sum is -0, which adding +0 would change.
"""

from __future__ import annotations

from dataclasses import dataclass

from lazyt.codegen.contract_micro import tile_body, tile_name, vector_section
from lazyt.codegen.contract_spec import ITEM_BYTES

#: Steps of a row that are looked at together.
_SCAN = 16


@dataclass(frozen=True)
class Rows:
    """The left operand of contraction ``number`` of a band: ``pitch`` elements apart in the array
    ``name``. ``tile`` is the micro-kernel, of sums of type ``acc``."""

    name: str
    pitch: int
    number: int
    acc: str
    tile: str

    def reach(self, rows: int) -> str:
        """The steps of a block of k after which all rows of the tile at hand are zero, if that
        matters; the same for every tile of columns."""
        left = f"{self.name} + (g_row0 - g_r0) * {self.pitch} + g_p0, {self.pitch}"
        found = f"lz_reach_{self.acc}(g_p1 - g_p0, {rows}, {left})"
        return f"g_fine{self.number} ? {found} : g_p1 - g_p0;"

    def multiply(self, end: str, right: str, tile: str) -> list[str]:
        """Statements for the register tile at hand; ``end`` is its ``reach``, ``tile`` are the last
        arguments."""
        left = f"{self.name} + (g_row0 - g_r0) * {self.pitch} + g_p0, {self.pitch}"
        call = f"{self.tile}(g_p1 - g_p0, {left},"
        return [call, f"    {right},", f"    {tile}, {end});"]

    def test_panels(self, count: int) -> str:
        """The statement that finds out whether all of the packed right operand is finite."""
        return f"const int g_fine{self.number} = lz_finite_{self.acc}({count}, g_pb{self.number});"


def rows_tile(acc: str, rows: int, vectors: int, vector_bytes: int, pitch: int) -> str:
    """Name of the micro-kernel."""
    return tile_name(acc, rows, vectors, vector_bytes).replace("gemm", "rows") + f"p{pitch}"


def rows_sections(
    acc: str, rows: int, vectors: int, vector_bytes: int, pitch: int
) -> tuple[tuple[str, str], ...]:
    """Sections of ``name(kc, a, lda, b, c, ldc, first, end)``: as ``tile_sections``, but for ``a``,
    whose rows are ``lda`` apart, which is ``pitch``, and zero from step ``end`` on."""
    name = rows_tile(acc, rows, vectors, vector_bytes, pitch)
    columns = vectors * vector_bytes // ITEM_BYTES[acc]
    out = [
        f"static __attribute__((noinline)) void {name}_all(lz_i64 kc,",
        f"    const lz_{acc} *restrict a, const lz_{acc} *restrict b, lz_{acc} *restrict c,",
        "    lz_i64 ldc, int first) {",
        *tile_body(
            acc,
            rows,
            vectors,
            vector_bytes,
            lambda r: f"a[{r * pitch}]",
            ("a++;", f"b += {columns};"),
        ),
        "}",
    ]
    out += [
        f"static void {name}(lz_i64 kc, const lz_{acc} *a, lz_i64 lda, const lz_{acc} *b,",
        f"    lz_{acc} *c, lz_i64 ldc, int first, lz_i64 end) {{",
        f"    {name}_all(end, a, b, c, ldc, first);",
        f"    if (end < kc && lz_below_{acc}({rows}, {columns}, c, ldc))",
        f"        {name}_all(kc - end, a + end, b + end * {columns}, c, ldc, 0);",
        "}",
    ]
    return (vector_section(acc, vector_bytes), *_tests(acc), (name, "\n".join(out) + "\n"))


def _tests(acc: str) -> tuple[tuple[str, str], ...]:
    """``lz_finite``: no infinity and no NaN. ``lz_reach``: steps after which all rows are zero.
    ``lz_below``: whether a sum is -0."""
    size = 8 * ITEM_BYTES[acc]
    kind, bits = f"lz_u{size}", f"lz_bits_of_{acc}"
    most = "0x7f800000u" if size == 32 else "0x7ff0000000000000ull"
    finite = f"""typedef {kind} {bits} __attribute__((may_alias));
static __attribute__((noinline)) int lz_finite_{acc}(lz_i64 n, const lz_{acc} *a) {{
    const {bits} *x = (const {bits} *)a;
    {kind} found = 0;
    for (lz_i64 i = 0; i < n; i++) found |= ({kind})((x[i] & {most}) == {most});
    return !found;
}}
"""
    reach = f"""static __attribute__((noinline)) lz_i64 lz_reach_{acc}(lz_i64 kc, lz_i64 rows,
    const lz_{acc} *a, lz_i64 lda) {{
    const {bits} *x = (const {bits} *)a;
    lz_i64 end = 0;
    for (lz_i64 r = rows - 1; r >= 0; r--) {{
        lz_i64 stop = kc;
        while (stop > end) {{
            {kind} found = 0;
            if (stop >= end + {_SCAN}) {{
                const {bits} *y = x + r * lda + stop - {_SCAN};
                for (int k = 0; k < {_SCAN}; k++) found |= y[k];
                if (found << 1) end = stop;
                else stop -= {_SCAN};
            }} else {{
                stop--;
                found = x[r * lda + stop];
                if (found << 1) end = ++stop;
            }}
        }}
    }}
    return end;
}}
"""
    below = f"""static __attribute__((noinline)) int lz_below_{acc}(lz_i64 rows, lz_i64 columns,
    const lz_{acc} *c, lz_i64 ldc) {{
    const {bits} *y = (const {bits} *)c;
    {kind} found = 0;
    for (lz_i64 r = 0; r < rows; r++)
        for (lz_i64 i = 0; i < columns; i++)
            found |= ({kind})(y[r * ldc + i] == ({kind})1 << {size - 1});
    return found != 0;
}}
"""
    names = (f"lz_finite_{acc}", f"lz_reach_{acc}", f"lz_below_{acc}")
    return tuple(zip(names, (finite, reach, below), strict=True))
