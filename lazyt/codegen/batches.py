"""Which groups share a launch: finds those that are the same program, and makes one kernel of them.

Fusion puts results that read a common value into one kernel. Where that value is a single number (a
learning rate), nothing is gained by it, and what many parameters have in common is hidden: such
groups are taken apart again where all their pieces are programs that other groups are, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lazyt.codegen.alike import Alike
from lazyt.codegen.flat import Flat, flatten, unite
from lazyt.codegen.lower import Lowered, facts
from lazyt.codegen.schedule import schedule
from lazyt.codegen.sketch import Sketch, components, sketch
from lazyt.ir.graph import Node
from lazyt.ir.group import Group


@dataclass(frozen=True)
class Batch:
    """What one launch computes.

    Attributes:
        groups: a group, or several that are one program and independent of each other.
        lowered: the kernel of several, or of one where it is known already.
    """

    groups: tuple[Group, ...]
    lowered: Lowered | None = None


@dataclass(frozen=True)
class _Piece:
    """A group and what is known about it.

    Attributes:
        sketch: what it computes, when it is of that kind.
        lowered: its kernel, or that of another group of the same program.
        arguments: the nodes in the buffers of ``lowered``.
        flat: ``lowered`` without shapes, for this group's extent; None when it is not flat, or has
            no partner.
    """

    group: Group
    sketch: Sketch | None = None
    lowered: Lowered | None = None
    arguments: tuple[Node | None, ...] = ()
    flat: Flat | None = None


def make_batches(groups: Sequence[Group], alike: Alike, kept: set[Node]) -> list[Batch]:
    """All launches of a plan, in an order in which they can run.

    ``alike`` lowers groups; ``kept`` are values that stay in memory anyway.
    """
    kinds = [group.kind for group in groups]
    if kinds.count("map") < 2 and kinds.count("row") < 2:
        return [Batch((group,)) for group in groups]
    pieces = _looked_at(_taken_apart([_piece(g) for g in groups]), alike)
    # What an update overwrites in place has to be read before: it must not wait.
    bases = {p.group.head.inputs[0] for p in pieces if p.group.head and p.group.head.inputs}
    programs = [
        None if p.group.reads & bases else program
        for p, program in zip(pieces, _programs(pieces), strict=True)
    ]
    launches = schedule([p.group for p in pieces], programs, kept)
    return [_batch([pieces[number] for number in launch]) for launch in launches]


def take_apart(groups: Sequence[Group]) -> list[Group]:
    """The groups, those that compute values which have nothing but numbers in common as several.

    On a GPU a kernel that does different things one after the other leaves most of it idle.
    """
    found: list[Group] = []
    for group in groups:
        alone = group.kind in ("map", "row") and len(group.parts) == 1 and not group.again
        if alone and len(group.members) > 1:
            found += components(group, {node for node in group.reads if node.size == 1})
        else:
            found.append(group)
    return found


def _piece(group: Group) -> _Piece:
    """The group; what is computed again, to save memory, is so where it is: it has no partners."""
    return _Piece(group, None if group.again else sketch(group))


def _taken_apart(pieces: Sequence[_Piece]) -> list[_Piece]:
    """The pieces, with groups taken apart where all that they consist of occurs elsewhere."""
    # What larger groups read as one number is one in groups of single elements, too.
    larger = [p.sketch for p in pieces if p.sketch is not None and p.sketch.extent > 1]
    numbers = {node for s in larger for node in s.reads if node.size == 1}
    several = [_parts_of(piece, numbers) for piece in pieces]
    known = Counter(key for parts in several for key in {p.sketch.key for p in parts if p.sketch})
    found: list[_Piece] = []
    for piece, parts in zip(pieces, several, strict=True):
        apart = len(parts) > 1 and all(p.sketch and known[p.sketch.key] > 1 for p in parts)
        found += parts if apart else [piece]
    return found


def _parts_of(piece: _Piece, numbers: set[Node]) -> list[_Piece]:
    """What a group falls into when common numbers do not hold it together."""
    if piece.sketch is None or piece.group.kind != "map" or len(piece.group.members) < 2:
        return [piece]
    parts = components(piece.group, numbers)
    return [piece] if len(parts) < 2 else [_Piece(part, sketch(part)) for part in parts]


# -------------------------------------------------------------- programs


def _looked_at(pieces: Sequence[_Piece], alike: Alike) -> list[_Piece]:
    """The pieces with kernels, where they may have partners."""
    families: dict[Hashable, list[int]] = {}
    for number, piece in enumerate(pieces):
        if piece.sketch is not None:
            families.setdefault(piece.sketch.key, []).append(number)
        elif piece.group.kind == "map" and not piece.group.again:
            families.setdefault(_outline(piece.group), []).append(number)
    found = list(pieces)
    for members in families.values():
        if len(members) == 1:
            continue
        examples: dict[tuple[bool, ...], _Piece] = {}
        for number in sorted(members, key=lambda n: -_extent(pieces[n])):
            piece = pieces[number]
            if piece.sketch is None:
                found[number] = _lowered(piece, alike)
                continue
            forms = piece.sketch.forms or next(iter(examples), ())
            if forms not in examples:
                examples[forms] = piece = _lowered(piece, alike)
            found[number] = _like(examples[forms], piece)
    return found


def _outline(group: Group) -> Hashable:
    """What is certainly equal for groups that are one program."""
    return len(group.reads), group.weight, tuple(m.dtype for m in group.stored)


def _extent(piece: _Piece) -> int:
    return piece.sketch.extent if piece.sketch is not None else 0


def _lowered(piece: _Piece, alike: Alike) -> _Piece:
    made = alike.lower(piece.group, whole=piece.group.kind == "row")
    return replace(piece, lowered=made, arguments=made.arguments, flat=flatten(made.kernel))


def _like(example: _Piece, piece: _Piece) -> _Piece:
    """A piece with the kernel of another that has an equal sketch."""
    theirs, mine = example.sketch, piece.sketch
    if piece is example or theirs is None or mine is None or example.flat is None:
        return piece
    place = dict(zip((*theirs.reads, *theirs.stored), (*mine.reads, *mine.stored), strict=True))
    arguments = tuple(place[n] for n in example.arguments if n is not None)
    forms = example.flat.forms if mine.extent > 1 else ()
    flat = replace(example.flat, extent=mine.extent, forms=forms)
    return replace(piece, lowered=example.lowered, arguments=arguments, flat=flat)


def _programs(pieces: Iterable[_Piece]) -> list[Hashable | None]:
    """What the pieces are, equal for those that can share a launch; None for what is not flat.

    A kernel of one element goes with those of any form that have the same key.
    """
    flats = [piece.flat for piece in pieces]
    forms: dict[str, Counter[tuple[int, ...]]] = {}
    for flat in flats:
        if flat is not None and flat.forms:
            forms.setdefault(flat.key, Counter())[flat.forms] += 1
    found: list[Hashable | None] = []
    for flat in flats:
        if flat is None:
            found.append(None)
        elif flat.forms or flat.key not in forms:
            found.append((flat.key, flat.forms))
        else:
            found.append((flat.key, forms[flat.key].most_common(1)[0][0]))
    return found


# -------------------------------------------------------------- launches


def _batch(pieces: Sequence[_Piece]) -> Batch:
    """One launch for pieces of one program."""
    groups = tuple(p.group for p in pieces)
    if len(pieces) == 1:
        made = pieces[0].lowered
        own = made is not None and made.arguments == pieces[0].arguments
        return Batch(groups, made if own and groups[0].kind == "map" else None)
    flats = [p.flat for p in pieces if p.flat is not None]
    kernel = replace(unite(flats), notes=_notes(pieces, flats))
    offsets = tuple(
        first * buffer.dtype.itemsize
        for flat in flats
        for first, buffer in zip(flat.origins, kernel.buffers, strict=True)
    )
    arguments = tuple(node for piece in pieces for node in piece.arguments)
    return Batch(groups, Lowered(kernel, arguments, offsets))


def _notes(pieces: Sequence[_Piece], flats: Sequence[Flat]) -> dict[str, object]:
    """What ``explain()`` says about groups that share a launch."""
    extents = [flat.extent for flat in flats]
    every: list[dict[str, Any]] = [facts(piece.group) for piece in pieces]
    sizes = f"{min(extents)} to {max(extents)}" if len(set(extents)) > 1 else f"{extents[0]}"
    reason = f"one launch: {len(pieces)} independent runs of one program, over {sizes} elements"
    return every[0] | {
        "phases": 1,
        "segments": len(pieces),
        "reasons": [reason, *every[0]["reasons"]],
        "sources": list(dict.fromkeys(s for note in every for s in note["sources"])),
        "bytes_read": sum(note["bytes_read"] for note in every),
        "bytes_written": sum(note["bytes_written"] for note in every),
        "flops": sum(flat.flops for flat in flats),
    }
