"""Contractions of narrow numbers: several neighbouring k of a panel share the 32 bits of one sum.

* ``bf16x2``: two bfloat16, multiplied into a float32. AVX-512-BF16 has an instruction for it, which
  takes the upper half first and rounds after each product. The earlier k is therefore the upper
  half, and the sum is the one that single steps give: a product of two bfloat16 is exact in
  float32, so fusing it changes nothing. The instruction takes subnormal numbers as zero.
* ``i8x2``: two int8 as int16, multiplied and added into an int32 by an instruction of AVX2: what
  fours become with 32-byte registers.
* ``i8x4``: four int8, multiplied into an int32. The instruction of AVX-512-VNNI multiplies unsigned
  by signed bytes, so A is stored 128 larger, and 128 times the sum of B is taken away.

Without the instructions the same panels are taken apart in registers, for the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lazyt.codegen.matmul.matrix_registers import filled_up, in_groups, mat_sections
from lazyt.codegen.matmul.micro_kernels import ASK_NEXT, splat, tile_name, vector_section
from lazyt.codegen.matmul.spec import ContractSpec, Load, Place, ceil_div

#: Numbers that share a lane, by the kind of group.
SIZES = {"bf16x2": 2, "i8x2": 2, "i8x4": 4}
#: The type of a group that begins anywhere.
LOOSE = "lz_loose32"
LOOSE_SECTION = (LOOSE, f"typedef lz_u32 {LOOSE} __attribute__((aligned(1), may_alias));\n")


def group_of(spec: ContractSpec) -> str | None:
    """The kind of group that is worth it with these registers."""
    if spec.vector_bytes == 64:
        return spec.group
    return "i8x2" if spec.group == "i8x4" and spec.vector_bytes == 32 else None


def grouped(spec: ContractSpec) -> ContractSpec:
    """The contraction over groups of k; its panels hold 32 bits a group."""
    kind = group_of(spec)
    assert kind is not None
    size = SIZES[kind]
    groups = ceil_div(spec.k, size)
    k = filled_up(groups) if spec.tiles else groups
    left, right = in_groups(spec.a_narrow, size), in_groups(spec.b_narrow, size)
    loads = _Groups(spec, kind, 2, spec.load_a, left), _Groups(spec, kind, 1, spec.load_b, right)
    ragged = spec.k % size != 0 and not (spec.tiles or spec.any_size)
    return replace(
        spec,
        k=k,
        filled=k - groups,
        acc=kind,
        load_a=loads[0].whole(),
        load_b=loads[1].whole(),
        ends=(loads[0].joined(spec.k % size), loads[1].joined(spec.k % size)) if ragged else None,
        a_place=left if spec.tiles else None,
        b_place=right if spec.tiles else None,
        # Sums of 32 bits do not fit where int8 goes.
        c_place=spec.c_place if spec.item == 4 else None,
    )


@dataclass(frozen=True)
class _Groups:
    """An operand of ``spec`` in groups of ``kind``.

    Attributes:
        place: where k stands among the indices.
        single: how one number is loaded.
        lies: where groups lie, if they are whole and each begins at a multiple of its size.
    """

    spec: ContractSpec
    kind: str
    place: int
    single: Load
    lies: Place | None

    def whole(self) -> Load:
        """How a group is loaded; of groups that serve all sizes, or go to matrix registers, also
        the last, with zeros past its end."""
        spec, size = self.spec, SIZES[self.kind]
        narrow = spec.a_narrow if self.place == 2 else spec.b_narrow
        if self.kind == "i8x2" or spec.any_size:  # int8 two by two fill 16 bits
            return self.joined(size)
        if self.lies is not None:
            lies = self.lies
            return self._at_once(lambda b, k, side: f"({lies.at(b, side, k)})[0]")
        if spec.tiles or narrow is None or [walk[2] for walk in narrow.steps] != [1]:
            return self.joined(size)
        return self._at_once(
            lambda b, k, side: f"((const {LOOSE} *)({narrow.at(b, side, f'({k}) * {size}')}))[0]"
        )

    def _at_once(self, at: Callable[[str, str, str], str]) -> Load:
        def load(*indices: str) -> tuple[list[str], str]:
            group = at(indices[0], indices[self.place], indices[3 - self.place])
            if self.kind == "bf16x2" and not self.spec.tiles:  # see above
                return [f"const lz_u32 g_pair = {group};"], "g_pair << 16 | g_pair >> 16"
            return [], self._shifted(group)

        return load

    def _shifted(self, group: str) -> str:
        signed = self.kind == "i8x4" and self.place == 2 and not self.spec.tiles
        return f"{group} ^ 0x80808080u" if signed else group

    def joined(self, count: int) -> Load:
        """How a group is put together of its first ``count`` numbers and zeros."""
        spec, size = self.spec, SIZES[self.kind]
        guarded = spec.any_size or (spec.tiles and spec.k % size != 0)

        def load(*indices: str) -> tuple[list[str], str]:
            lines: list[str] = ["lz_u32 g_group = 0;"]
            for step in range(count):
                position = f"({indices[self.place]}) * {size} + {step}"
                here = [*indices]
                here[self.place] = position
                statements, value = self.single(here[0], here[1], here[2])
                guard = f"if ({position} < {spec.k}) " if guarded and step else ""
                if self.kind == "bf16x2":
                    bits = f"lz_bits_f32({value})"
                    upper = step == (1 if spec.tiles else 0)  # as they lie in memory, or see above
                    part = f"{bits} & 0xffff0000u" if upper else f"{bits} >> 16"
                elif self.kind == "i8x2":
                    part = f"((lz_u32)({value}) & 65535u) << {16 * step}"
                else:
                    part = f"((lz_u32)({value}) & 255u) << {8 * step}"
                lines.append(f"{guard}{{")
                lines += [f"    {line}" for line in statements]
                lines += [f"    g_group |= {part};", "}"]
            return lines, self._shifted("g_group")

        return load


def group_sections(
    spec: ContractSpec, rows: int, vectors: int, ahead: bool
) -> tuple[tuple[str, str], ...]:
    """Sections of the micro-kernel over groups of ``grouped`` ``spec``; its arguments are those of
    ``tile_sections``, or, in matrix registers, of ``mat_sections``."""
    kind, vector_bytes = spec.acc, spec.vector_bytes
    if spec.tiles:
        return mat_sections(kind, rows, vectors, ahead)
    item, lanes = ("f32" if kind == "bf16x2" else "i32"), vector_bytes // 4
    single = vector_section(item, vector_bytes)
    tile = _tile(kind, item, rows, vectors, lanes, ahead)
    return (LOOSE_SECTION, single, _dot_section(kind, item, vector_bytes), tile)


def _dot_section(kind: str, item: str, vector_bytes: int) -> tuple[str, str]:
    """``lz_dot_<kind>(a, b, c)``: the products of each lane's group added to c."""
    tag, name = f"{item}_v{vector_bytes}", f"lz_dot_{kind}_v{vector_bytes}"
    vec, pack = f"lz_vec_{tag}", f"lz_pack_{kind}_v{vector_bytes}"
    signed = f"lz_signed_{kind}_v{vector_bytes}"
    plain = f"    typedef lz_i32 {signed} __attribute__((vector_size({vector_bytes})));\n"
    if kind == "bf16x2":
        feature, width = "__AVX512BF16__", 64
        call = '__asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));'
        plain = (
            f"    c = lz_vfma_{tag}(({vec})(a & 0xffff0000u), ({vec})(b & 0xffff0000u), c);\n"
            f"    return lz_vfma_{tag}(({vec})(a << 16), ({vec})(b << 16), c);\n"
        )
    elif kind == "i8x2":
        feature, width = "__AVX2__", 32
        call = f'{vec} t; __asm__("vpmaddwd %2, %1, %0" : "=x"(t) : "x"(a), "x"(b)); c += t;'
        plain += (
            f"    c += ({vec})((({signed})(a << 16) >> 16) * (({signed})(b << 16) >> 16));\n"
            f"    return c + ({vec})((({signed})a >> 16) * (({signed})b >> 16));\n"
        )
    else:
        feature, width = "__AVX512VNNI__", 64
        call = '__asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));'
        for start in range(0, 32, 8):
            byte = f"(({signed})(b << {24 - start}) >> 24)"
            plain += f"    c += ({vec})(({signed})((a >> {start}) & 255u) * {byte});\n"
        plain += "    return c;\n"
    feature = f"defined({feature})" if vector_bytes == width else "0"
    text = (
        f"typedef lz_u32 {pack} __attribute__((vector_size({vector_bytes}), may_alias));\n"
        f"typedef lz_u32 {pack}_ref __attribute__((vector_size({vector_bytes}), aligned(4), "
        "may_alias));\n"
        f"static inline __attribute__((always_inline)) {vec} {name}"
        f"({pack} a, {pack} b, {vec} c) {{\n"
        f"#if {feature}\n"
        f"    {call}\n    return c;\n"
        f"#else\n{plain}#endif\n}}\n"
    )
    return name, text


def _tile(
    kind: str, item: str, rows: int, vectors: int, lanes: int, ahead: bool
) -> tuple[str, str]:
    """The micro-kernel: a tile of sums in registers."""
    size = 4 * lanes
    name, tag = tile_name(kind, rows, vectors, size, ahead), f"{item}_v{size}"
    vec, ref, pack = f"lz_vec_{tag}", f"lz_ref_{tag}", f"lz_pack_{kind}_v{size}"
    dot, shifted = f"lz_dot_{kind}_v{size}", kind == "i8x4"
    out = [
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const lz_u32 *restrict a,",
        f"    const lz_u32 *restrict b, lz_{item} *restrict c, lz_i64 ldc, int first"
        + (", const lz_u32 *next, lz_i64 pace" * ahead)
        + ") {",
    ]
    grid = [(r, v) for r in range(rows) for v in range(vectors)]
    place = {(r, v): f"*({ref} *)(c + {r} * ldc + {v * lanes})" for r, v in grid}
    out += [f"    {vec} c{r}_{v} = {{0}};" for r, v in grid]
    out.append("    if (!first) {")
    out += [f"        c{r}_{v} = {place[r, v]};" for r, v in grid]
    out.append("    }")
    if shifted:
        out += [f"    {vec} t{v} = {{0}};" for v in range(vectors)]
        out.append(f"    const {pack} shift = {splat(pack, '0x80808080u', lanes)};")
    out += ["    for (lz_i64 k = 0; k < kc; k++) {", f"        {pack} s;"]
    out += [f"        {ASK_NEXT}"] * ahead
    out += [
        f"        {pack} b{v} = *(const {pack}_ref *)(b + {v * lanes});" for v in range(vectors)
    ]
    if shifted:
        out += [f"        t{v} = {dot}(shift, b{v}, t{v});" for v in range(vectors)]
    for r in range(rows):
        out.append(f"        s = {splat(pack, f'a[{r}]', lanes)};")
        out += [f"        c{r}_{v} = {dot}(s, b{v}, c{r}_{v});" for v in range(vectors)]
    out += [f"        a += {rows};", f"        b += {vectors * lanes};", "    }"]
    less = {v: f" - t{v}" if shifted else "" for v in range(vectors)}
    out += [f"    {place[r, v]} = c{r}_{v}{less[v]};" for r, v in grid]
    out.append("}")
    return name, "\n".join(out) + "\n"
