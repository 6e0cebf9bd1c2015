"""Helpers of contraction kernels that turn rows, adjacent along k, in registers.

Squares of as many rows as a vector has lanes are loaded along k, and shuffled until a vector holds
one k of all rows. No sum is involved, or each lane is one sum in the order of k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import NamedTuple

from lazyt.codegen.matmul.micro_kernels import CText, splat, vector_section
from lazyt.codegen.matmul.spec import ITEM_BYTES, ContractSpec, Place, run_of

# Bytes of a long row between what is transposed and what is prefetched; of shorter ones, it is the
# next block of rows, or one further on, as the memory would not have the next one in time.
_AHEAD = 512
# Bytes of a row by which half of the rows are behind the others where all share sets of a cache.
_BEHIND = 512


def turning(
    vec: str,
    lanes: int,
    item: int,
    place: Callable[[int, int], str],
    tag: str = "t",
    whole: bool = False,
) -> list[tuple[list[str], list[str]]]:
    """Statements that turn a square, and the names of the columns that they leave, in one part or
    two, each of which needs registers for its own columns only.

    ``place(row, part)`` is what a row has of a part. Of two rows at a time, as far apart as 16
    bytes are long, parts are loaded into one vector, which saves a step of shuffles; then these are
    transposed inside of the 16 bytes that machines interleave fastest, and moved as wholes. With
    ``whole``, ``place`` is all that a row has of the square: half the loads, for that step more.
    """
    inside = min(16 // item, lanes)
    pieces = lanes // inside
    low = [n // inside * inside + n % inside // 2 + n % 2 * lanes for n in range(lanes)]
    high = [n + inside // 2 for n in low]
    even = [n + n // inside * inside for n in range(lanes)]
    odd = [n + inside for n in even]
    parts = []
    number = count()
    for part in range(min(pieces, 2)):
        out: list[str] = []

        def mixed(one: str, two: str, order: list[int], out: list[str] = out) -> str:
            name, places = f"{tag}{next(number)}", ", ".join(map(str, order))
            out.append(f"{vec} {name} = __builtin_shufflevector({one}, {two}, {places});")
            return name

        now = []
        for row in (r for r in range(lanes) if pieces == 1 or r // inside % 2 == 0):
            if pieces > 1:
                both = place(row, part), place(row + inside, part)
                half = [part * (lanes // 2) + n for n in range(lanes // 2)]
                order = [*half, *(n + lanes for n in half)] if whole else list(range(lanes))
                now.append(mixed(*both, order))
                continue
            now.append(f"{tag}{next(number)}")
            out.append(f"{vec} {now[-1]} = {place(row, part)};")
        for _ in range(inside.bit_length() - 1):
            made: list[str] = []
            for start in range(0, len(now), inside):
                for r in range(start, start + inside // 2):
                    pair = now[r], now[r + inside // 2]
                    made += [mixed(*pair, low), mixed(*pair, high)]
            now = made
        for _ in range((pieces // 2).bit_length() - 1):
            couples = [
                (now[g + j], now[g + inside + j])
                for g in range(0, len(now), 2 * inside)
                for j in range(inside)
            ]
            now = [mixed(*pair, even) for pair in couples] + [mixed(*pair, odd) for pair in couples]
        parts.append((out, now))
    return parts


def lay_name(item: str, width: int, vector_bytes: int, apart: bool = False) -> str:
    """Name of the copy of ``width`` rows, adjacent along k, into a panel [k][width]; ``apart`` is
    that of rows at any distances."""
    name = f"lz_lay_{item}_{width}x{_lay_lanes(item, width, vector_bytes)}"
    return f"{name}_apart" if apart else name


def _lay_lanes(item: str, width: int, vector_bytes: int) -> int:
    """Elements that are transposed at a time: not many more than the panel is wide, and no more
    than a register holds, as compilers shuffle what is wider one by one."""
    return min(16, vector_bytes // ITEM_BYTES[item], max(2, 1 << (width - 1).bit_length()))


def lay_section(item: str, width: int, vector_bytes: int, apart: bool = False) -> tuple[str, str]:
    """``name(kc, from, pitch, count, to)``: ``count`` rows of ``kc`` elements, ``pitch`` apart,
    become the columns of the panel ``to``; the first row also fills the columns from ``count`` on.
    With ``apart``, it is ``name(kc, from, reach, at, count, to)``: ``at`` are the distances of the
    rows, none above ``reach``.

    Squares are transposed in registers, and the last one overlaps the one before it.
    """
    name, lanes = lay_name(item, width, vector_bytes, apart), _lay_lanes(item, width, vector_bytes)
    kind, size = f"lz_{item}", ITEM_BYTES[item]
    vec, ref, part = f"{name}_vec", f"{name}_ref", f"{name}_part"
    bytes_ = lanes * size
    out = [
        f"typedef {kind} {vec} __attribute__((vector_size({bytes_})));",
        f"typedef {kind} {ref} __attribute__((vector_size({bytes_}), aligned({size}), may_alias));",
        part_type(kind, part, lanes, size),
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const {kind} *restrict from,",
        f"    {'lz_i64 reach, const lz_i64 *at' if apart else 'lz_i64 pitch'}, lz_i64 count,",
        f"    {kind} *restrict to) {{",
    ]
    for start in range(0, width, lanes):
        used = min(lanes, width - start)
        out += _lay_square(kind, width, lanes, start, used, (vec, ref, part), used * size, apart)
    out.append("}")
    return name, "\n".join(out) + "\n"


def part_type(kind: str, name: str, lanes: int, size: int) -> str:
    """The type of what ``turning`` loads of a row at a time."""
    bytes_ = part_width(lanes, size) * size
    return (
        f"typedef {kind} {name} __attribute__((vector_size({bytes_}), aligned({size}), may_alias));"
    )


def part_width(lanes: int, size: int) -> int:
    """Elements of it."""
    return lanes // 2 if lanes * size > 16 else lanes


def _lay_square(
    kind: str,
    width: int,
    lanes: int,
    start: int,
    used: int,
    types: tuple[str, str, str],
    stored: int,
    apart: bool,
) -> list[str]:
    """Columns ``start .. start + used`` of a panel."""
    vec, ref, part = types
    wide = part_width(lanes, stored // used)
    out = ["    {"]
    for r in range(used):
        row = start + r
        begin = f"({row} < count ? {row} * pitch : 0)" if row else "0"
        if apart:
            begin = f"at[{row} < count ? {row} : 0]"
        out.append(f"        const {kind} *const r{r} = from + {begin};")
    out += [
        f"        for (lz_i64 k = 0; k < kc && kc >= {lanes}; k += {lanes}) {{",
        f"            const lz_i64 i = k < kc - {lanes} ? k : kc - {lanes};",
    ]
    if not apart:
        # The rows of the next panel; what is behind the last one is never loaded.
        out += [f"            __builtin_prefetch(r{r} + {width} * pitch + i);" for r in range(used)]

    def place(row: int, at: int) -> str:
        return f"*(const {part} *)(r{row if row < used else 0} + i + {at * wide})"

    for at, (lines, turned) in enumerate(turning(vec, lanes, stored // used, place)):
        out += [f"            {line}" for line in lines]
        for r, column in enumerate(turned):
            target = f"to + (i + {at * wide + r}) * {width} + {start}"
            # What a store has too much is overwritten by the next step's, except the last one's.
            spills = width < lanes and at * wide + r < lanes - 1
            if used == lanes or spills:
                out.append(f"            *({ref} *)({target}) = {column};")
            else:
                out.append(f"            __builtin_memcpy({target}, &{column}, {stored});")
    out += ["        }", f"        for (lz_i64 k = 0; k < kc && kc < {lanes}; k++) {{"]
    out += [f"            to[k * {width} + {start + r}] = r{r}[k];" for r in range(used)]
    out += ["        }", "    }"]
    return out


class Dots(NamedTuple):
    """Sums of a few columns over rows that are adjacent along k.

    Attributes:
        acc, columns: type of the sums; how many columns there are.
        groups: vectors of rows that are summed side by side, each lane a row.
        vector_bytes: how long a vector is.
        apart: each group is some steps behind the one before it: rows that share sets of the
            first-level cache then do so at other times.
        cached: the rows are in a cache already, so that nothing is prefetched.
    """

    acc: str
    columns: int
    groups: int
    vector_bytes: int
    apart: bool
    cached: bool

    @property
    def lanes(self) -> int:
        """Rows of a group."""
        return self.vector_bytes // ITEM_BYTES[self.acc]

    @property
    def name(self) -> str:
        """Name of the C function."""
        how = "apart" if self.apart else "cached" if self.cached else ""
        shape = f"{self.groups * self.lanes}x{self.columns}"
        return f"lz_dots_{self.acc}_{shape}v{self.vector_bytes}{how}"


def dots_sections(dots: Dots) -> tuple[tuple[str, str], ...]:
    """Sections of ``name(kc, a, pitch, count, x, c, first)``.

    ``a`` is ``count`` rows of ``kc`` elements, ``pitch`` apart, ``x`` a panel [kc][columns]. Sum
    r of column j is ``c[j][r]``, overwritten when ``first`` and continued otherwise; those from
    ``count`` on are nobody's. Each sum is in the order of k.
    """
    name, acc, lanes, groups = dots.name, dots.acc, dots.lanes, dots.groups
    size, kind, tag = ITEM_BYTES[acc], f"lz_{acc}", f"{acc}_v{dots.vector_bytes}"
    rows, vec, ref = groups * lanes, f"lz_vec_{tag}", f"lz_ref_{tag}"
    sums = [(g, j) for g in range(groups) for j in range(dots.columns)]
    place = {(g, j): f"*({ref} *)(c + {j * rows + g * lanes})" for g, j in sums}
    out = [
        part_type(f"lz_{acc.replace('i', 'u')}", f"{name}_part", lanes, size),
        f"static __attribute__((noinline)) void {name}(lz_i64 kc, const {kind} *restrict a,",
        f"    lz_i64 pitch, lz_i64 count, const {kind} *restrict x, {kind} *restrict c, "
        "int first) {",
        *(f"    {vec} c{g}_{j} = {{0}};" for g, j in sums),
        "    if (!first) {",
        *(f"        c{g}_{j} = {here};" for (g, j), here in place.items()),
        "    }",
        f"    const {kind} *row[{rows}];",
        f"    for (int r = 0; r < {rows}; r++) row[r] = a + (r < count ? r : 0) * pitch;",
        # The rest of the rows is a square that overlaps the last one, unless it is too short.
        f"    const lz_i64 rest = kc % {lanes};",
        f"    const lz_i64 whole = kc < {lanes} ? 0 : rest < 3 ? kc - rest : kc;",
        *_prefetch_next(dots),
    ]
    behind = _BEHIND // size if dots.apart else 0
    team = 1 if dots.apart else groups
    last = behind * (groups // team - 1)
    end = f"whole + {last}" if last else "whole"
    out.append(f"    for (lz_i64 at = 0; at < {end}; at += {lanes}) {{")
    for first in range(0, groups, team):
        late = behind * (first // team)
        tests = [f"at >= {late}"] * (late > 0) + [f"at < whole + {late}"] * (late < last)
        block = [
            f"const lz_i64 n = at - {late};",
            f"const lz_i64 k = n < kc - {lanes} ? n : kc - {lanes};",
            *_prefetches(dots, range(first * lanes, (first + team) * lanes)),
        ]
        for start in range(first, first + team, 2):
            block += _dots_square(dots, range(start, min(start + 2, first + team)))
        out.append(f"        if ({' && '.join(tests)}) {{" if tests else "        {")
        out += [*(f"            {line}" for line in block), "        }"]
    out += ["    }", "    for (lz_i64 k = whole; k < kc; k++) {"]
    for g in range(groups):
        ends = ", ".join(f"row[{g * lanes + r}][k]" for r in range(lanes))
        out.append(f"        const {vec} s{g} = {{{ends}}};")
    ends_of = {g: f"s{g}" for g in range(groups)}
    out += [f"        {line}" for line in _dots_step(dots, "k", ends_of)]
    out += ["    }", *(f"    {here} = c{g}_{j};" for (g, j), here in place.items()), "}"]
    return (vector_section(acc, dots.vector_bytes), (name, "\n".join(out) + "\n"))


def _prefetch_next(dots: Dots) -> list[str]:
    """How many elements further on the next ones are prefetched."""
    if dots.cached:
        return []
    rows, near = dots.groups * dots.lanes, _AHEAD // ITEM_BYTES[dots.acc]
    if dots.apart:
        return [f"    const lz_i64 ahead = kc < {4 * near} ? {rows} * pitch : {4 * near};"]
    return [
        f"    const lz_i64 ahead = kc < {near // 2} ? {8 * rows} * pitch",
        f"        : kc < {4 * near} ? {rows} * pitch : {near};",
    ]


def _prefetches(dots: Dots, rows: Sequence[int]) -> list[str]:
    """Asks for what comes later: into the second level, as rows that lie a power of two apart share
    sets of the first; once a line where rows are apart."""
    if dots.cached:
        return []
    asked = [f"__builtin_prefetch(row[{r}] + k + ahead, 0, 2);" for r in rows]
    line = 64 // ITEM_BYTES[dots.acc]
    if not dots.apart or dots.lanes >= line:
        return asked
    return [f"if (!(n & {line - dots.lanes})) {{", *(f"    {text}" for text in asked), "}"]


def _dots_square(dots: Dots, pair: Sequence[int]) -> list[str]:
    """One square of each of some groups: those of its steps that are still to be added."""
    size, vec = ITEM_BYTES[dots.acc], f"lz_vec_{dots.acc}_v{dots.vector_bytes}"
    lanes, wide = dots.lanes, part_width(dots.lanes, size)
    # Rows that share sets are less often in the first level: half the loads wait half as long.
    at_once = dots.apart and wide < lanes
    kind = f"lz_ref_{dots.acc}_v{dots.vector_bytes}" if at_once else f"{dots.name}_part"

    def loads(group: int) -> Callable[[int, int], str]:
        return lambda row, part: (
            f"*(const {kind} *)(row[{group * lanes + row}] + k + {0 if at_once else part * wide})"
        )

    turned = [turning(vec, lanes, size, loads(g), f"t{g}_", at_once) for g in pair]
    out = []
    for part, both in enumerate(zip(*turned, strict=True)):
        for lines, _ in both:
            out += lines
        steps = []
        for r in range(wide):
            values = {g: names[r] for g, (_, names) in zip(pair, both, strict=True)}
            steps.append(_dots_step(dots, f"(k + {part * wide + r})", values))
        out.append("if (k == n) {")
        out += [f"    {line}" for step in steps for line in step]
        out.append("} else {")
        for r, step in enumerate(steps):
            out += [f"    if (k + {part * wide + r} >= n) {{"]
            out += [*(f"        {line}" for line in step), "    }"]
        out.append("}")
    return out


def _dots_step(dots: Dots, k: str, values: Mapping[int, str]) -> list[str]:
    """One multiply-add of every column, for each group's vector of rows."""
    tag = f"{dots.acc}_v{dots.vector_bytes}"
    out = []
    for j in range(dots.columns):
        factor = splat(f"lz_vec_{tag}", f"x[{k} * {dots.columns} + {j}]", dots.lanes)
        for g, value in values.items():
            out.append(f"c{g}_{j} = lz_vfma_{tag}({value}, {factor}, c{g}_{j});")
    return out


# How an operand becomes a panel [k][columns of a tile]: copied, or transposed in registers.


# Elements of a row that are computed before they are transposed into a panel.
_LINE = 64
# Elements side by side from which on they are copied as they lie, run by run.
_RUN = 16


@dataclass(frozen=True)
class Side:
    """An operand as it is packed.

    Attributes:
        name: the axis along the panel.
        width: columns of the panel.
        stop: extent of the axis.
        ragged: whether its last panel is incomplete.
        load: element at the axis' and k's variables.
        unit_is_k: whether elements are neighbours along k, or nearly so.
        place: where it lies, if nothing is computed.
        steps: variables of the first step along k, and of the one behind the last; the first one is
            ``g_p0`` where elements are neighbours along k.
        end: step along k, the last, that has a load of its own, and that load.
    """

    name: str
    width: int
    stop: int
    ragged: bool
    load: tuple[list[str], str]
    unit_is_k: bool
    place: Place | None
    steps: tuple[str, str] = ("g_p0", "g_p1")
    end: tuple[int, tuple[list[str], str]] | None = None


def _copy_panel(out: CText, dest: str, side: Side) -> None:
    """Fill ``dest[g_k - g_p0][axis - axis0]`` for the part of the panel that exists."""
    axis = side.name
    target = f"{dest}[(g_k - g_p0) * {side.width} + ({axis} - {axis}0)]"

    def step(load: tuple[list[str], str]) -> None:
        out.pragma("omp simd")
        with out.loop(axis, f"{axis}0", f"{axis}1"):
            out.assign(target, load)

    _over_steps(out, side, side.steps, step)


def _over_steps(
    out: CText, side: Side, steps: tuple[str, str], step: Callable[[tuple[list[str], str]], None],
    pragma: str = "",
) -> None:  # fmt: skip
    """A loop over steps of k, and the last one apart where it is loaded in a way of its own."""
    first, stop = steps
    if side.end is not None:
        last, load = side.end
        with out.block(f"if ({first} <= {last} && {last} < {stop})"):
            out.add(f"const lz_i64 g_k = {last};")
            step(load)
        stop = f"({stop} < {last} ? {stop} : {last})"
    if pragma:
        out.pragma(pragma)
    with out.loop("g_k", first, stop):
        step(side.load)


def fill_panel(out: CText, spec: ContractSpec, dest: str, side: Side) -> None:
    """Pack columns (or rows) from ``<axis>0`` on; where fewer than a panel has exist, it is filled
    up with anything.

    Complete panels get a loop of constant length, which compilers vectorise better.
    """
    if side.unit_is_k:
        _transpose_panel(out, spec, dest, side)
        return
    name, width = side.name, side.width
    with out.block(f"if ({name}0 + {width} <= {side.stop})" if side.ragged else ""):
        out.add(f"const lz_i64 {name}1 = {name}0 + {width};")
        _copy_whole_panel(out, spec, dest, side)
    if side.ragged:
        with out.block("else"):
            out.clip(f"{name}1", f"{name}0", width, side.stop)
            _copy_panel(out, dest, side)
            with out.loop("g_k", *side.steps), out.loop("g_i", f"{name}1 - {name}0", width):
                out.add(f"{dest}[(g_k - g_p0) * {width} + g_i] = 0;")


def _copy_whole_panel(out: CText, spec: ContractSpec, dest: str, side: Side) -> None:
    """Fill a complete panel. Where elements lie side by side in runs, such as those of a head, a
    panel within a run has no divisions for each element."""
    place, name, width = side.place, side.name, side.width
    run = run_of(place.sides) if place is not None else 0
    if spec.any_size or place is None or place.plain is not None or run < max(width, _RUN):
        _copy_panel(out, dest, side)
        return
    parted = run % width != 0
    within = f"if ({name}0 % {run} + {width} <= {run})" if parted else ""
    with out.block(within), out.loop("g_k", *side.steps):
        out.add(f"const {spec.ctype} *const g_from = {place.at('g_b', f'{name}0', 'g_k')};")
        out.pragma("omp simd")
        with out.loop("g_i", 0, width):
            out.add(f"{dest}[(g_k - g_p0) * {width} + g_i] = g_from[g_i];")
    if parted:
        with out.block("else"):
            _copy_panel(out, dest, side)


def _transpose_panel(out: CText, spec: ContractSpec, dest: str, side: Side) -> None:
    """Rows along k become columns, straight from where they lie, or from a piece of each that is
    computed first."""
    name, width, place = side.name, side.width, side.place
    lay = lay_name(spec.panel_item, width, spec.vector_bytes)
    count, (_, end) = str(width), side.steps
    if side.ragged:
        out.clip(f"{name}1", f"{name}0", width, side.stop)
        count = f"{name}1 - {name}0"
    plain = place.plain if place is not None else None
    if plain is not None and plain.k == 1:
        here = plain.at("g_b", f"{name}0", "g_p0")
        out.add(f"{lay}({end} - g_p0, {here}, {plain.side}, {count}, {dest});")
        return
    if not side.ragged:
        out.add(f"const lz_i64 {name}1 = {name}0 + {width};")
    run = run_of(place.steps) if place is not None else 0
    if place is not None and run >= _RUN and not spec.any_size:
        _transpose_runs(out, spec, dest, side, place, count)
        return
    out.add(f"_Alignas(64) {spec.panel} g_line[{width * _LINE}];")
    with out.loop("g_q0", "g_p0", end, _LINE):
        out.clip("g_q1", "g_q0", _LINE, end)
        cell = f"g_line[({name} - {name}0) * {_LINE} + (g_k - g_q0)]"
        with out.loop(name, f"{name}0", f"{name}1"):
            _over_steps(out, side, ("g_q0", "g_q1"), partial(out.assign, cell), "omp simd")
        target = f"{dest} + (g_q0 - g_p0) * {width}"
        out.add(f"{lay}(g_q1 - g_q0, g_line, {_LINE}, {count}, {target});")


def _transpose_runs(
    out: CText, spec: ContractSpec, dest: str, side: Side, place: Place, count: str
) -> None:
    """Rows, at any distances, become columns where they lie, one run along k after the other."""
    name, width, run, (_, end) = side.name, side.width, run_of(place.steps), side.steps
    lay = lay_name(spec.panel_item, width, spec.vector_bytes, apart=True)
    out.add(f"lz_i64 g_at[{width}];")
    with out.loop(name, f"{name}0", f"{name}1"):
        out.add(f"g_at[{name} - {name}0] = {place.beside(name)};")
    with out.block(f"for (lz_i64 g_r = g_p0 / {run}; g_r * {run} < {end}; g_r++)"):
        out.add(f"const lz_i64 g_q0 = g_r * {run} > g_p0 ? g_r * {run} : g_p0;")
        out.clip("g_q1", f"g_r * {run}", run, end)
        here = f"{place.at('g_b', '0', f'g_r * {run}')} + (g_q0 - g_r * {run})"
        target = f"{dest} + (g_q0 - g_p0) * {width}"
        out.add(f"{lay}(g_q1 - g_q0, {here}, {place.reach}, g_at, {count}, {target});")


def panel_sections(
    spec: ContractSpec, widths: tuple[int, int], text: str
) -> tuple[tuple[str, str], ...]:
    """The helpers with which ``text`` fills panels of some widths."""
    item, size = spec.panel_item, spec.vector_bytes
    found = [
        lay_section(item, width, size, apart)
        for width in sorted(set(widths))
        for apart in (False, True)
    ]
    return tuple(section for section in found if f"{section[0]}(" in text)
