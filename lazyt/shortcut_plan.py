"""The text of shortcuts, last part: what the function leaves behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lazyt.guard_text import CannotWrite, leaf_of_grad
from lazyt.kept import MOST_BYTES, lone_counts
from lazyt.places import GradOf
from lazyt.replay import Computed, Made, Replay
from lazyt.runtime import dict_tags
from lazyt.shortcut import Shortcut
from lazyt.shortcut_launch import Midway
from lazyt.shortcut_text import refuse
from lazyt.steady import Steady
from lazyt.tape import AccumulateGrad
from lazyt.tensor import Tensor
from lazyt.trees import Opening, Tree


def shorten(
    replay: Replay, opening: Opening, shape: Any, leaves: Sequence[Any], result: Any,
    polled: set[int], moving: Sequence[int],
) -> Shortcut | None:  # fmt: skip
    """The shortcut of a replay that has just been run; None where there is none.

    Args:
        opening: what is taken apart of arguments.
        shape: the shape of the call's (args, kwargs), see ``Tree``.
        leaves: its leaves, with the tensors of the call.
        result: the shape of the function's result.
        polled: identities of dicts whose tags change though nothing that matters does.
        moving: which leaves are numbers that are followed.
    """
    if replay.alive or replay.prepared is None or replay.prepared[0] is None:
        return None
    checks = replay.checks.computed
    if checks is not None and checks.places is None:
        return None
    writer = _Outlet(replay, opening, shape, leaves, result, polled, moving)
    tags = dict_tags.Tags([*writer.tagged.values()]) if writer.tagged else None
    if replay.guards.broken([leaf for leaf in leaves if isinstance(leaf, Tensor)]) is not None:
        return None
    try:
        writer.find_outputs()
        writer.write_tests(tags)
        writer.write_plan()
        writer.write_back()
        writer.hand_out()
    except CannotWrite:
        return None
    text = "\n".join(["def call(args, kwargs):", *("    " + line for line in writer.joined())])
    exec(compile(text, "<shortcut>", "exec"), writer.names.table)
    return Shortcut(writer.names.table["call"], tags, text)


class _Outlet(Midway):
    """Writes the last part. Locals: ``r0`` ... fresh storages, ``t0`` ... tensors of the result."""

    def write_back(self) -> None:
        """New values of written tensors, and counts of writes."""
        fresh = len(self.replay.flags)
        for place, source in enumerate(self.replay.written):
            holder = self.replay.holders[source]
            shape, dtype = self.replay.types[fresh + place]
            data = self._buffer(self._roots[fresh + place])
            write = f"write({self.stores[holder]}, {self.bind(shape)}, {self.bind(dtype)}, {data})"
            if source in self._in_place:
                floats = dtype.kind == "f"  # see ``_swaps``
                self.add(f"if not u{source}: {write}" if floats else write)
                self.is_quick = self.is_quick and floats and holder in self.steady
            elif self._swaps(place):
                self._swap(self.first[holder], place, data, write)
                self.is_quick = False
            elif source in self._own:  # its old memory was written over on the way
                self.add(write)
                self.is_quick = False
            else:
                self.both(write)
        for source, count in enumerate(self.replay.counts):
            if count:
                holder = self.replay.holders[source]
                if holder not in self.stores:
                    refuse("writes to a gradient that is replaced")
                self.both(f"{self.stores[holder]}.version += {count}")

    def _swap(self, holder: int, place: int, data: str, write: str) -> None:
        n, d, leaf = f"n{holder}", f"d{holder}", f"l{holder}"
        marked = isinstance(self.steady[holder].fn, AccumulateGrad)
        counts = lone_counts(marked)
        test = f"refs({n}) == {counts[0]}"
        target = f"{n}.data = {data}"
        if marked:
            self.add(f"{leaf} = {n}.inputs[0]")
            test += f" and refs({leaf}) == {counts[1]} and {leaf}.data is {d}"
            target = f"{n}.data = {leaf}.data = {data}"
        self.add(
            f"if {leaf if marked else n}.op is INPUT and {test}:",
            f"    spares[{place}] = {d} if refs({d}) == {counts[2]} and {d}.nbytes <= {MOST_BYTES}"
            " else None",
            f"    {target}",
            "else:",
            f"    spares[{place}] = None",
            f"    {write}",
        )

    def hand_out(self) -> None:
        """Gradients, other effects, and the result."""
        replay, bind = self.replay, self.bind
        names: dict[int, str] = {}
        fresh = [self._fresh(number) for number in range(len(replay.flags))]
        for part in self._parts():
            if isinstance(part, Made) and id(part) not in names:
                names[id(part)] = self._tensor_text(part, fresh, len(names))
        texts = [
            names[id(p)] if isinstance(p, Made)
            else f"{bind(p.recipe)}()" if isinstance(p, Computed) else bind(p)
            for p in self._parts()
        ]  # fmt: skip
        for (where, _), text in zip(replay.effects, texts):
            if isinstance(where, GradOf):
                leaf = leaf_of_grad(where)
                self.add(f"{bind(leaf)}.grad = {text}")
                self.is_quick = self.is_quick and leaf in self._attached.values()
            else:
                self.both(f"{bind(where)}.put((), {text})")
        self._certify()
        for function in replay.late:
            self.both(f"{bind(function)}()")
        self.both(f"return {self._built(self.result, iter(texts[len(replay.effects) :]))}")

    def _certify(self) -> None:
        """Where all was as it has to be, the words that were taken down before stand for that."""
        tests = ["taken", *(f"u{n}" for n in self._own), *(f"f{n}" for n in self._attached)]
        found = "found" if self._launcher is not None else "()"
        self._certificate = f"if {' and '.join(tests)}: steady.find_well({found})"
        self.add(self._certificate)

    def joined(self) -> list[str]:
        """The lines of the function."""
        if not (self.is_quick and self.looked_at):
            rest = [line for line in self.lines if line != self._certificate]
            return [*self.first_lines(), *rest]
        own = [self.replay.holders[source] for source in self._own]
        written = {id(self.steady[holder]) for holder in own}
        watched = Steady(
            [(tensor, storage, id(storage) in written) for tensor, storage in self.looked_at],
            [(leaf, 2 * fresh) for fresh, leaf in self._attached.items()],
            self.names.table["kept"],
        )
        self.names.table.update(steady=watched)
        device = " and not device.branched" if self._launcher is not None else ""
        return [
            *self.first_lines(),
            f"if steady.holds{device}:",
            "    if steady.words.hold():",
            "        steady.uses += 1",
            *("        " + line for line in self.quick),
            "taken = steady.take()",
            *self.lines,
        ]

    def _fresh(self, number: int) -> str:
        """Makes a fresh storage; returns its name."""
        replay, bind = self.replay, self.bind
        shape, dtype = replay.types[number]
        facts = f"{bind(shape)}, {bind(dtype)}, {self._buffer(self._roots[number])}, "
        facts += f"{replay.flags[number]!r}, {replay.ages[number]}"
        maker = self.makers.get(number)
        if maker is None:
            self.both(f"r{number} = fresh({facts})")
            return f"r{number}"
        place = str(2 * number)
        if number not in self.gradients.values():
            place += " + turn[0]"
        line = f"if not f{number}: e{number} = keep(kept, {place}, {bind(maker.kind)}, {facts})"
        (self.add if number in self._attached else self.both)(line)
        return "None"

    def _tensor_text(self, part: Made, fresh: list[str], number: int) -> str:
        if part.source >= 0:
            if part.number < 0 or part.number not in self.given:
                refuse("a new tensor over memory that was given")
            if part.number >= len(self.arguments) and part.number not in self.steady:
                refuse("a gradient that was given")
            return self.given[part.number]
        if self.makers.get(part.number) is part:
            return f"e{part.number}.tensor"
        self.both(f"t{number} = {self.bind(part)}.make((), (), ({', '.join(fresh)},))")
        return f"t{number}"

    def _built(self, shape: Any, texts: Iterator[str]) -> str:
        """The expression of a value of this shape, see ``Tree``."""
        if any(Tree.structures(shape)):
            return f"{self.bind(Tree.build)}({self.bind(shape)}, iter(({', '.join(texts)},)))"
        if shape is None:
            return next(texts)
        kind, parts = shape
        if kind is dict:
            pairs = [f"{self.bind(key)}: {self._built(part, texts)}" for key, part in parts]
            return "{" + ", ".join(pairs) + "}"
        items = "".join(f"{self._built(part, texts)}, " for part in parts)
        if kind is list:
            return f"[{items}]"
        return f"({items})" if kind is tuple else f"{self.bind(kind)}({items})"
