"""What the helpers of contraction kernels read and write, for the proof in
``codegen/proof/c_bounds.py``.

Kernels proper are parsed back; their register tiles are written with vector extensions, and what
each call of one touches is told here from its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lazyt.codegen.matmul.matrix_registers import SQUARE
from lazyt.codegen.matmul.spec import ITEM_BYTES
from lazyt.codegen.proof.facts import Form, Memory, Pointer
from lazyt.ir.dtypes import float32, float64
from lazyt.ir.factorizations.sizes import Sizes
from lazyt.ir.factorizations.sizes import work_size as room_for_matrices
from lazyt.ir.fourier.tables import KINDS, plan_of, row_sizes, table_size, work_size

_TILE = re.compile(
    r"lz_(gemm|slide|along|broad|lines)_[a-z0-9]+?_(\d+)x(\d+)v\d+(?:ahead)?(apart)?$"
)
_MAT = re.compile(r"lz_mat_[a-z0-9]+_(\d+)x(\d+)v64(?:ahead)?$")
_SUMS = re.compile(r"lz_(?:gemm|lines|mat)_([a-z0-9]+)_")
_LAY = re.compile(r"lz_lay_[a-z0-9]+?_(\d+)x\d+(_apart)?$")
_DOTS = re.compile(r"lz_dots_[a-z0-9]+?_(\d+)x(\d+)v\d+(?:apart|cached)?$")
_ROWS = re.compile(r"lz_(rows|finite|reach)_[a-z]+\d+(?:_(\d+)x(\d+)v\d+p\d+)?$")
_MOVE = re.compile(r"lz_(turn|panel|spread)_[a-z]+\d+_v(\d+)$")
_FOURIER = re.compile(r"lz_fourier_f(?:32|64)$")
_LINALG = re.compile(r"lz_l(a|w)_batch_f(?:32|64)$")
_BESIDE = re.compile(r"lz_beside_[a-z]+\d+_(\d+)x(\d+)g(\d+)v(\d+)$")


class Access(NamedTuple):
    """``size`` bytes from ``offset`` on."""

    memory: Memory
    offset: Form
    size: int


def tile_accesses(name: str, arguments: Sequence[Any]) -> list[Access] | None:
    """The accesses of a call; None for other functions, none at all where it is not understood."""
    if _FOURIER.match(name):
        return _transform(arguments)
    factorized = _LINALG.match(name)
    if factorized:
        return _matrices(arguments, alone=factorized[1] == "w")
    tile, move, lay = _TILE.match(name), _MOVE.match(name), _LAY.match(name)
    dots, lines, mat = _DOTS.match(name), _ROWS.match(name), _MAT.match(name)
    beside = _BESIDE.match(name)
    if not any((tile, move, lay, dots, lines, mat, beside)):
        return None
    pointers = [a for a in arguments if isinstance(a, Pointer)]
    forms = [a for a in arguments if isinstance(a, Form)]
    sums = _SUMS.match(name)
    try:
        if sums is not None and pointers[2].item != ITEM_BYTES[sums[1]]:
            return []
        if tile is not None:
            kind, rows, columns = tile[1], int(tile[2]), int(tile[3])
            made = {
                "gemm": _gemm, "slide": _slide, "along": _along, "broad": _broad,
                "lines": _straight,
            }[kind]  # fmt: skip
            if tile[4]:
                made = {"gemm": _gemm_strided, "lines": _straight_strided}[kind]
            return made(pointers, forms, rows, columns)
        if mat is not None:
            return _squares(pointers, forms, int(mat[1]), int(mat[2]))
        if lay is not None:
            return (_lay_scattered if lay[2] else _lay)(pointers, forms, int(lay[1]))
        if dots is not None:
            return _dots(pointers, forms, int(dots[1]), int(dots[2]))
        if lines is not None and lines[1] == "rows":
            return _in_rows(pointers, forms, int(lines[2]), int(lines[3]))
        if lines is not None and lines[1] == "reach":
            return _block_of(pointers[0], forms[0], _fixed(forms[1]), forms[2])
        if lines is not None:
            return [_whole(pointers[0], _fixed(forms[0]))]
        if beside is not None:
            return _beside(pointers, forms, *(int(beside[n]) for n in (1, 2, 4)))
        assert move is not None
        return {"turn": _turn, "panel": _panel, "spread": _spread}[move[1]](
            pointers, forms, int(move[2])
        )
    except (IndexError, ValueError):
        return []


def _transform(arguments: Sequence[Any]) -> list[Access]:
    """``(rows, n, a, b, first, second, sign, kind, whole, x, table, y, work, threads)``."""
    places = [a for a in arguments if isinstance(a, Pointer)]
    forms = [a for a in arguments if isinstance(a, Form)]
    try:
        rows, n, a, b, _, _, _, kind, whole = map(_fixed, forms[:9])
        x, table, y, work = places
        name = KINDS[kind]
        dtype = {4: float32, 8: float64}[x.item]
    except (IndexError, KeyError, ValueError):
        return []
    plan = plan_of(name, n)
    if plan is None or (plan.a, plan.b, plan.whole) != (a, b, bool(whole)):
        return []
    before, after = row_sizes(name, n)
    sizes = (
        rows * before, table_size(name, n, dtype), rows * after, work_size(name, rows, n, dtype),
    )  # fmt: skip
    return [_whole(place, size) for place, size in zip((x, table, y, work), sizes)]


def _matrices(arguments: Sequence[Any], alone: bool) -> list[Access]:
    """``(routine, batch, m, n, k, mode, results, scratch, a, b, y, work, threads)``; with ``alone``
    of matrices one at a time."""
    places = [a for a in arguments if isinstance(a, Pointer)]
    forms = [a for a in arguments if isinstance(a, Form)]
    try:
        batch, m, n, k, _, results, scratch = map(_fixed, forms[:7])
        dtype = {4: float32, 8: float64}[places[0].item]
    except (IndexError, KeyError, ValueError):
        return []
    sizes = Sizes(m * n, m * k, results, scratch, alone)
    counts = (
        batch * m * n, batch * m * k, batch * results, room_for_matrices(sizes, batch, dtype),
    )  # fmt: skip
    return [_whole(place, count) for place, count in zip(places, counts, strict=True) if count]


def _fixed(form: Form) -> int:
    if form.terms:
        raise ValueError
    return form.const


def _whole(place: Pointer, count: int) -> Access:
    """``count`` elements."""
    return Access(place.memory, place.offset, count * place.item)


def _rows_of(place: Pointer, steps: Form, width: int) -> list[Access]:
    """``steps`` times ``width`` elements."""
    last = place.offset + steps.times(width * place.item).shifted(-place.item)
    return [_whole(place, 1), Access(place.memory, last, place.item)]


def _tile_of(place: Pointer, stride: Form, rows: int, columns: int) -> Access:
    return _whole(place, (rows - 1) * _fixed(stride) + columns)


def _gemm(places: list[Pointer], forms: list[Form], rows: int, columns: int) -> list[Access]:
    """``(kc, a, b, c, ldc, first)``: panels of ``kc`` steps, a tile of row stride ldc. Of what
    follows nothing is read, only prefetched."""
    a, b, c, *_ = places
    panels = [*_rows_of(a, forms[0], rows), *_rows_of(b, forms[0], columns)]
    return [*panels, _tile_of(c, forms[1], rows, columns)]


def _squares(places: list[Pointer], forms: list[Form], rows: int, columns: int) -> list[Access]:
    """``(kc, a, far, b, c, ldc, first)``: squares of 16 rows, the next ones ``far`` further on, a
    panel of B, a tile. ``kc`` is filled up to whole squares."""
    a, b, c, *_ = places
    kc, far, stride = forms[:3]
    read = [*_rows_of(b, kc, columns), _tile_of(c, stride, rows, columns)]
    for start in range(0, rows // SQUARE):
        square = replace(a, offset=a.offset.shifted(start * _fixed(far) * a.item))
        read += _rows_of(square, kc, SQUARE)
    return read


def _gemm_strided(
    places: list[Pointer], forms: list[Form], rows: int, columns: int
) -> list[Access]:
    """``(kc, a, b, pitch_b, c, ldc, first)``: a panel, rows of b where they lie, a tile."""
    a, b, c, *_ = places
    read = [*_rows_of(a, forms[0], rows), *_strided_rows(b, forms[0], forms[1], columns)]
    return [*read, _tile_of(c, forms[2], rows, columns)]


def _straight_strided(
    places: list[Pointer], forms: list[Form], rows: int, columns: int
) -> list[Access]:
    """``(kc, a, pitch, count, b, pitch_b, c, ldc, first)``: lines, rows of b, a tile."""
    a, b, c = places
    read = [*_lines_of(a, forms), *_strided_rows(b, forms[0], forms[3], columns)]
    return [*read, _tile_of(c, forms[4], rows, columns)]


def _strided_rows(place: Pointer, steps: Form, pitch: Form, width: int) -> list[Access]:
    """``steps`` rows of ``width`` elements."""
    last = place.offset + steps.shifted(-1).times(_fixed(pitch) * place.item)
    return [_whole(place, 1), Access(place.memory, last, width * place.item)]


def _in_rows(places: list[Pointer], forms: list[Form], rows: int, columns: int) -> list[Access]:
    """``(kc, a, lda, b, c, ldc, first, end)``: of each row of a, kc elements."""
    a, b, c = places
    read = [*_block_of(a, forms[0], rows, forms[1]), *_rows_of(b, forms[0], columns)]
    return [*read, _tile_of(c, forms[2], rows, columns)]


def _block_of(a: Pointer, steps: Form, rows: int, pitch: Form) -> list[Access]:
    """``steps`` elements of each row."""
    last = a.offset + steps.times(a.item)
    last = last.shifted(((rows - 1) * _fixed(pitch) - 1) * a.item)
    return [_whole(a, 1), Access(a.memory, last, a.item)]


def _straight(places: list[Pointer], forms: list[Form], rows: int, columns: int) -> list[Access]:
    """``(kc, a, pitch, count, b, c, ldc, first)``: lines, a panel, a tile."""
    a, b, c = places
    read = [*_lines_of(a, forms), *_rows_of(b, forms[0], columns)]
    return [*read, _tile_of(c, forms[3], rows, columns)]


def _slide(places: list[Pointer], forms: list[Form], rows: int, columns: int) -> list[Access]:
    """``(kc, a, b, reach, steps, c, ldc, first)``: no step goes further into b than reach."""
    a, b, steps, c = places
    read = [*_rows_of(a, forms[0], rows), *_rows_of(steps, forms[0], 1)]
    read.append(_whole(b, _fixed(forms[1]) + columns))
    return [*read, _tile_of(c, forms[2], rows, columns)]


def _along(places: list[Pointer], forms: list[Form], rows: int, columns: int) -> list[Access]:
    """``(kc, a, pitch, count, b, reach, steps, c, ldc, first)``: lines, and as for ``_slide``."""
    a, b, steps, c = places
    read = [*_lines_of(a, forms), *_rows_of(steps, forms[0], 1)]
    read.append(_whole(b, _fixed(forms[3]) + columns))
    return [*read, _tile_of(c, forms[4], rows, columns)]


def _broad(places: list[Pointer], forms: list[Form], rows: int, columns: int) -> list[Access]:
    """``(kc, a, reach, steps, places, b, c, ldc, first)``: nothing that is read of a is further."""
    a, steps, lines, b, c = places
    read = [_whole(a, _fixed(forms[1]) + 1), _whole(lines, rows)]
    read += [*_rows_of(steps, forms[0], 1), *_rows_of(b, forms[0], columns)]
    return [*read, _tile_of(c, forms[2], rows, columns)]


def _beside(
    places: list[Pointer], forms: list[Form], rows: int, line: int, width: int
) -> list[Access]:
    """``(kc, a, reach, steps, places, b, c, ldc, first)``: vectors at the lines' places, a
    panel, and the sums of all taps."""
    a, steps, lines, b, c = places
    lanes = width // a.item
    read = [_whole(a, _fixed(forms[1]) + lanes), *_rows_of(steps, forms[0], 1)]
    read += [_whole(lines, rows), *_rows_of(b, forms[0], lanes)]
    return [*read, _tile_of(c, forms[2], rows * line, lanes)]


def _spread(places: list[Pointer], forms: list[Form], width: int) -> list[Access]:
    """``(n, from, pitch, to, reach, at, places)``: lines read in whole vectors, columns that go no
    further than reach."""
    source, target, table = places
    count, pitch, reach, *_ = forms
    lanes = width // source.item
    last = source.offset + count.times(source.item)
    last = last.shifted((lanes - 1) * (_fixed(pitch) + 1) * source.item - source.item)
    return [
        _whole(source, 1), Access(source.memory, last, source.item),
        _whole(target, _fixed(reach) + lanes), *_rows_of(table, count, 1),
    ]  # fmt: skip


def _turn(places: list[Pointer], forms: list[Form], width: int) -> list[Access]:
    """``(n, from, pitch, to, width)``: as many rows as a vector has lanes, as columns."""
    source, target = places
    count, pitch, stride = (_fixed(f) for f in forms)
    lanes = width // source.item
    read = _whole(source, (lanes - 1) * pitch + count)
    return [read, _whole(target, (count - 1) * stride + lanes)]


def _lay(places: list[Pointer], forms: list[Form], width: int) -> list[Access]:
    """``(kc, from, pitch, count, to)``: rows of ``kc`` elements, as columns of a panel."""
    source, target = places
    return [*_lines_of(source, forms), *_rows_of(target, forms[0], width)]


def _lay_scattered(places: list[Pointer], forms: list[Form], width: int) -> list[Access]:
    """``(kc, from, reach, at, count, to)``: rows of ``kc`` elements, none further than reach."""
    source, distances, target = places
    kc, reach, count = forms
    last = source.offset + kc.shifted(_fixed(reach) - 1).times(source.item)
    read = [_whole(source, 1), Access(source.memory, last, source.item)]
    return [*read, *_rows_of(distances, count, 1), *_rows_of(target, kc, width)]


def _lines_of(source: Pointer, forms: list[Form]) -> list[Access]:
    """``kc, pitch, count``: lines of ``kc`` elements."""
    kc, pitch, count = forms[:3]
    last = source.offset + count.shifted(-1).times(_fixed(pitch) * source.item)
    last = last + kc.shifted(-1).times(source.item)
    return [_whole(source, 1), Access(source.memory, last, source.item)]


def _dots(places: list[Pointer], forms: list[Form], rows: int, columns: int) -> list[Access]:
    """``(kc, a, pitch, count, x, c, first)``: lines, a panel, and the sums."""
    a, x, c = places
    return [*_lines_of(a, forms), *_rows_of(x, forms[0], columns), _whole(c, rows * columns)]


def _panel(places: list[Pointer], forms: list[Form], width: int) -> list[Access]:
    """``(kc, from, reach, steps, count, lines, line, to, width)``, in whole vectors."""
    source, steps, lines, target = places
    kc, reach, count, line, stride = forms
    lanes = width // source.item
    whole = -(-_fixed(line) // lanes) * lanes
    last = target.offset + kc.times(_fixed(stride) * target.item)
    last = last + count.times(_fixed(line) * target.item)
    less = (_fixed(stride) + _fixed(line)) * target.item
    return [
        _whole(source, _fixed(reach) + whole),
        *_rows_of(steps, kc, 1),
        *_rows_of(lines, count, 1),
        Access(target.memory, last.shifted(-less), whole * target.item),
    ]
