"""Register tiles of contractions with a sliding operand: its elements are found through tables.

The bits are those of ``contract_micro.py``: one accumulator per element, one fused multiply-add per
step, in the order of the steps.
"""

from __future__ import annotations

from lazyt.codegen.contract_micro import splat, vector_section
from lazyt.codegen.contract_spec import ITEM_BYTES


def slide_name(acc: str, rows: int, vectors: int, vector_bytes: int) -> str:
    """Name of the tile whose columns slide."""
    return f"lz_slide_{acc}_{rows}x{vectors * vector_bytes // ITEM_BYTES[acc]}v{vector_bytes}"


def slide_sections(
    acc: str, rows: int, vectors: int, vector_bytes: int
) -> tuple[tuple[str, str], ...]:
    """Sections of ``name(kc, a, b, reach, steps, c, ldc)``, which overwrites the tile ``c``.

    ``a`` is a panel [kc][rows]; the columns of step k begin at ``b + steps[k]``, and no step is
    larger than ``reach``.
    """
    name = slide_name(acc, rows, vectors, vector_bytes)
    tag = f"{acc}_v{vector_bytes}"
    lanes = vector_bytes // ITEM_BYTES[acc]
    vec, ref = f"lz_vec_{tag}", f"lz_ref_{tag}"
    grid = [(r, v) for r in range(rows) for v in range(vectors)]
    out = [
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const lz_{acc} *restrict a,",
        f"    const lz_{acc} *restrict b, lz_i64 reach, const lz_i32 *restrict steps,",
        f"    lz_{acc} *restrict c, lz_i64 ldc) {{",
        "    (void)reach;",
    ]
    out += [f"    {vec} c{r}_{v} = {{0}};" for r, v in grid]
    out += [
        "    for (lz_i64 k = 0; k < kc; k++) {",
        f"        const lz_{acc} *from = b + steps[k];",
        f"        {vec} s;",
    ]
    out += [f"        {vec} b{v} = *(const {ref} *)(from + {v * lanes});" for v in range(vectors)]
    for r in range(rows):
        out.append(f"        s = {splat(vec, f'a[{r}]', lanes)};")
        out += [f"        c{r}_{v} = lz_vfma_{tag}(s, b{v}, c{r}_{v});" for v in range(vectors)]
    out += [f"        a += {rows};", "    }"]
    out += [f"    *({ref} *)(c + {r} * ldc + {v * lanes}) = c{r}_{v};" for r, v in grid]
    out.append("}")
    return (vector_section(acc, vector_bytes), (name, "\n".join(out) + "\n"))
