"""How an operand becomes a panel [k][columns of a tile]: copied, or turned in registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lazyt.codegen.contract_spec import ContractSpec, Place, run_of
from lazyt.codegen.contract_text import CText
from lazyt.codegen.contract_turn import lay_name, lay_section

# Elements of a row that are computed before they are turned into a panel.
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
        _turn_panel(out, spec, dest, side)
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


def _turn_panel(out: CText, spec: ContractSpec, dest: str, side: Side) -> None:
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
        _turn_runs(out, spec, dest, side, place, count)
        return
    out.add(f"_Alignas(64) {spec.panel} g_line[{width * _LINE}];")
    with out.loop("g_q0", "g_p0", end, _LINE):
        out.clip("g_q1", "g_q0", _LINE, end)
        cell = f"g_line[({name} - {name}0) * {_LINE} + (g_k - g_q0)]"
        with out.loop(name, f"{name}0", f"{name}1"):
            _over_steps(out, side, ("g_q0", "g_q1"), partial(out.assign, cell), "omp simd")
        target = f"{dest} + (g_q0 - g_p0) * {width}"
        out.add(f"{lay}(g_q1 - g_q0, g_line, {_LINE}, {count}, {target});")


def _turn_runs(
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
