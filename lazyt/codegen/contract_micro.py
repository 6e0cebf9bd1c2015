"""The helper functions of contraction kernels: one multiply-add, and the register-blocked tile.

Both give the same bits: a fused multiply-add where the machine has one, else a product and a sum.
Vector extensions stay in here because kernels proper are parsed back by a C99 parser.
"""

from __future__ import annotations

from lazyt.codegen.contract_spec import ITEM_BYTES

WORKER_SECTION = (
    "lz_worker",
    """#ifdef _OPENMP
extern int omp_get_thread_num(void);
static inline int lz_worker(void) { return omp_get_thread_num(); }
#else
static inline int lz_worker(void) { return 0; }
#endif
""",
)

# Contraction is off for whole programs, so that fusing kernels never changes a bit; in the tile
# the fused form is the defined one. Compilers without either switch are covered by the pragma
# of the C standard.
_CONTRACT_SECTION = (
    "lz_contract_on",
    """#if defined(__clang__)
#define LZ_CONTRACT_FN
#define LZ_CONTRACT_ON _Pragma("clang fp contract(fast)")
#elif defined(__GNUC__)
#define LZ_CONTRACT_FN __attribute__((optimize("fp-contract=fast")))
#define LZ_CONTRACT_ON
#else
#define LZ_CONTRACT_FN
#define LZ_CONTRACT_ON _Pragma("STDC FP_CONTRACT ON")
#endif
""",
)


def mac_section(acc: str) -> tuple[str, str]:
    """``lz_mac_<acc>(a, b, c)``: ``a * b + c``, fused for floats where the machine can, wrapping
    for integers. Without the instruction ``fma`` would be a slow library call."""
    kind = f"lz_{acc}"
    if acc in ("f32", "f64"):
        builtin = "__builtin_fmaf" if acc == "f32" else "__builtin_fma"
        body = (
            "#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__AVX512F__)\n"
            f"    return {builtin}(a, b, c);\n#else\n    return a * b + c;\n#endif\n"
        )
    else:
        wide = "unsigned long long" if ITEM_BYTES[acc] == 8 else "unsigned int"
        body = f"    return ({kind})(({wide})a * ({wide})b + ({wide})c);\n"
    text = f"static inline {kind} lz_mac_{acc}({kind} a, {kind} b, {kind} c) {{\n{body}}}\n"
    return f"lz_mac_{acc}", text


def tile_name(acc: str, rows: int, vectors: int, vector_bytes: int) -> str:
    """Name of the micro-kernel for a tile of ``rows`` by ``vectors`` registers."""
    columns = vectors * vector_bytes // ITEM_BYTES[acc]
    return f"lz_gemm_{acc}_{rows}x{columns}v{vector_bytes}"


def tile_sections(
    acc: str, rows: int, vectors: int, vector_bytes: int
) -> tuple[tuple[str, str], ...]:
    """Sections of the micro-kernel ``name(kc, a, b, c, ldc, first)``.

    ``a`` is a panel [kc][rows], ``b`` a panel [kc][columns], ``c`` a tile of row stride ``ldc``
    which is overwritten when ``first`` and continued otherwise. Every accumulator is a named
    variable, so that the whole tile stays in registers at any optimisation level.
    """
    name = tile_name(acc, rows, vectors, vector_bytes)
    item = acc.replace("i", "u")  # unsigned, because signed overflow is undefined
    lanes = vector_bytes // ITEM_BYTES[acc]
    scalar, vec, ref = f"lz_{item}", f"{name}_v", f"{name}_r"
    out = [
        f"typedef {scalar} {vec} __attribute__((vector_size({vector_bytes})));",
        f"typedef {scalar} {ref} __attribute__((vector_size({vector_bytes}), "
        f"aligned({ITEM_BYTES[acc]}), may_alias));",
        f"static LZ_CONTRACT_FN __attribute__((noinline)) void {name}(lz_i64 kc, "
        f"const lz_{acc} *restrict a, const lz_{acc} *restrict b, lz_{acc} *restrict c, "
        "lz_i64 ldc, int first) {",
        "    LZ_CONTRACT_ON",
    ]
    grid = [(r, v) for r in range(rows) for v in range(vectors)]
    place = {(r, v): f"*({ref} *)(c + {r} * ldc + {v * lanes})" for r, v in grid}
    out += [f"    {vec} c{r}_{v} = {{0}};" for r, v in grid]
    out.append("    if (!first) {")
    out += [f"        c{r}_{v} = {place[r, v]};" for r, v in grid]
    out += ["    }", "    for (lz_i64 k = 0; k < kc; k++) {"]
    out += [f"        {vec} b{v} = *(const {ref} *)(b + {v * lanes});" for v in range(vectors)]
    for r in range(rows):
        out.append(f"        {{ {scalar} s = ({scalar})a[{r}];")
        out.append("          " + " ".join(f"c{r}_{v} += s * b{v};" for v in range(vectors)) + " }")
    out += [f"        a += {rows};", f"        b += {vectors * lanes};", "    }"]
    out += [f"    {place[r, v]} = c{r}_{v};" for r, v in grid]
    out.append("}")
    return (_CONTRACT_SECTION, (name, "\n".join(out) + "\n"))
