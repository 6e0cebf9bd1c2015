"""The text of shortcuts, second half: the plan, and what the function leaves behind."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lazyt.guard_text import CannotWrite, leaf_of_grad
from lazyt.ir.forms import PLACED
from lazyt.kept import MOST_BYTES, copied, lone_counts, own_buffer
from lazyt.ops.leaves import INPUT
from lazyt.places import GradOf
from lazyt.replay import Computed, Made, Replay
from lazyt.resuming import Interrupted
from lazyt.runtime import dict_tags
from lazyt.runtime.execute import held
from lazyt.runtime.memory import Buffer
from lazyt.shortcut import Shortcut
from lazyt.shortcut_text import Inlet, refuse
from lazyt.tape import AccumulateGrad
from lazyt.tensor import Tensor

if TYPE_CHECKING:
    from lazyt.placed_plans import Launcher


def shorten(
    replay: Replay, shape: Any, leaves: Sequence[Any], result: Any, polled: set[int],
    moving: Sequence[int],
) -> Shortcut | None:  # fmt: skip
    """The shortcut of a replay that has just been run; None where there is none.

    Args:
        shape: the shape of the call's (args, kwargs), see ``Tree``.
        leaves: its leaves, with the tensors of the call.
        result: the shape of the function's result.
        polled: identities of dicts whose tags change though nothing that matters does.
        moving: which leaves are numbers that are followed.
    """
    if replay.alive or replay.prepared is None or replay.prepared[0] is None:
        return None
    if replay.checks.are_computed:
        return None
    writer = _Outlet(replay, shape, leaves, result, polled, moving)
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
    text = "\n".join(["def call(args, kwargs):", *("    " + line for line in writer.lines)])
    exec(compile(text, "<shortcut>", "exec"), writer.names.table)
    return Shortcut(writer.names.table["call"], tags, text)


class _Outlet(Inlet):
    """Writes the second half. Locals: ``c0`` ... what Python gave anew, ``b0`` ... buffers of the
    plan's outputs, ``l3`` the leaf below the gradient mark of tensor 3, ``r0`` ... fresh storages,
    ``t0`` ... tensors of the result."""

    def find_outputs(self) -> None:
        """Where the plan's results go, and which fresh storages are one plain tensor each."""
        assert self.replay.prepared is not None and self.replay.prepared[0] is not None
        prepared, inputs, outputs = self.replay.prepared
        assert prepared is not None
        self._launcher = prepared.plan.launcher
        if self._launcher is None and prepared.plan.executable is None:
            refuse("a plan without kernels")
        if self._launcher is not None and not self._launcher.is_direct:
            refuse("a plan of a device without kernels, or with results on the host")
        self._plan, self._fixed, self._inputs = prepared.plan, prepared.fixed, inputs
        self._roots: list[Any] = []  # the number of an output, or an origin
        self._own: dict[int, str] = {}  # memory of written sources that is written over
        for kind, value in outputs:
            if kind == "output":
                found = self._plan.program.results[value]
                if -1 - found in self._plan.program.overwritten:
                    self._own[inputs[-1 - found][1]] = ""
                self._roots.append(found if found >= 0 else self._input(-1 - found))
            else:
                self._roots.append((kind, value))
        self._find_makers()

    def _find_makers(self) -> None:
        made: dict[int, set[Made]] = {}
        for part in self._parts():
            if isinstance(part, Made) and part.source < 0:
                made.setdefault(part.number, set()).add(part)
        for number in range(len(self.replay.flags)):
            root = self._roots[number]
            own = isinstance(root, int) and self._roots.count(root) == 1
            first, *others = made.get(number, {None})
            if own and first is not None and not others and first.view is None:
                self.makers[number] = first
        for where, part in self.replay.effects:
            if isinstance(where, GradOf) and isinstance(part, Made):
                once = sum(other is part for other in self._parts()) == 1
                if self.makers.get(part.number) is part and once and part.kind is Tensor:
                    self.gradients[id(leaf_of_grad(where))] = part.number

    def _input(self, number: int) -> Any:
        if number >= len(self._inputs):
            return ("constant", self._fixed[number - len(self._inputs)])
        return self._inputs[number]

    def _parts(self) -> Iterator[Any]:
        yield from (part for _, part in self.replay.effects)
        yield from self.replay.results

    # ------------------------------------------------------------------ the plan

    def _buffer(self, origin: Any) -> str:
        """The expression of a buffer: output, or what comes in from an origin."""
        if isinstance(origin, int):
            return f"b{origin}"
        kind, value = origin
        if kind == "constant":
            return self.bind(value if isinstance(value, Buffer) else value.data)
        if kind == "call":
            return f"c{value}.data"
        if kind == "source" and self._own.get(value):
            return f"{self._own[value]}"
        holder = value if kind == "part" else self.replay.holders[value]
        if kind == "part" or holder in self.arguments:
            return f"{self.nodes[holder]}.data"
        return f"d{self.first[holder]}"

    def write_plan(self) -> None:
        """What Python does at every call, the buffers, and the plan."""
        self._write_calls()
        for number, size in enumerate(self._plan.sizes):
            self.add(f"b{number} = {self._target(number, size)}")
        for source in self._own:
            self._take_over(source)
        self.names.table.update(
            Buffer=Buffer, INPUT=INPUT, refs=sys.getrefcount, copied=copied,
            own_buffer=own_buffer, spares=[None] * len(self.replay.written),
        )  # fmt: skip
        if self._launcher is not None:
            self._write_launch(self._launcher)
            return
        pointers = [f"{self._buffer(origin)}.ptr" for origin in self._inputs]
        pointers += [f"{self.bind(buffer)}.ptr" for buffer in self._fixed]
        pointers += [f"b{number}.ptr" for number in range(len(self._plan.sizes))]
        executable = self._plan.executable
        assert executable is not None
        if len(pointers) != executable.inputs + executable.outputs:
            refuse("a plan of other outputs")
        size = self._plan.program.arena_bytes
        if size > MOST_BYTES:
            self.add(f"arena = Buffer({size})")
        elif size:
            self.names.table["arena"] = Buffer(size)
        pointers += [f"arena.ptr + {offset}" for offset in executable.scratch]
        order = [pointers[place] for place in executable.places]
        slots = (ctypes.c_void_p * max(len(order), 1))()
        run = held(executable.entry) if executable.serial else executable.launch
        self.names.table.update(
            slots=slots, run=run, pack=struct.Struct(f"{len(order)}P").pack_into
        )
        self.add(f"pack(slots, 0, {', '.join(order)})")
        address = ctypes.addressof(slots)
        self.add(f"run({address}, 1)" if executable.serial else f"run({address})")

    def _write_launch(self, launcher: Launcher) -> None:
        """The plan on a device. What never changes is there already."""
        self.names.table.update(
            Buffer=launcher.device.allocate, run=launcher.launch, brought=launcher.brought
        )
        given = [self._buffer(origin) for origin in self._inputs]
        given += [self.bind(buffer) for buffer in launcher.brought(self._fixed)]
        host = [n for n, origin in enumerate(self._inputs) if not self._is_placed(origin)]
        if host:
            self.add(f"h = brought(({', '.join(given[n] for n in host)},))")
        for place, number in enumerate(host):
            given[number] = f"h[{place}]"
        outputs = [f"b{number}" for number in range(len(self._plan.sizes))]
        self.add(f"run([{', '.join(given)}], [{', '.join(outputs)}])")

    def _is_placed(self, origin: Any) -> bool:
        """Whether a buffer is on the device at every call, as far as is known."""
        kind, value = origin
        holder = self.replay.holders[value] if kind == "source" else -1
        return holder in self.steady and self.steady[holder].node.form < PLACED

    def _write_calls(self) -> None:
        """What Python does at every call; where that raises, ``resuming`` has to know how far it
        came."""
        names: list[str] = []
        for place, (function, fills) in enumerate(self.replay.calls):
            count = sum(filled for _, filled in self.replay.calls[:place])
            names.append(f"c{count}" if fills else f"q{place}")
            line = f"    {names[-1]} = {self.bind(function)}()"
            self.add(*(() if place else ("try:",)), line)
        if names:
            self.names.table.update(names=names, Interrupted=Interrupted, calls=self.replay.calls)
            self.add(
                "except Exception as error:",
                "    found = locals()",
                "    done = [found[name] for name in names if name in found]",
                "    raise Interrupted(calls, done, error) from None",
            )

    def _take_over(self, source: int) -> None:
        """Finds memory of a written tensor that may be written over: its own, where nobody else
        can see that, else a copy. ``o3`` is the memory, ``u3`` whether it is the tensor's."""
        if source not in self.replay.written:
            refuse("memory that is written to and belongs to another tensor")
        holder, own = self.replay.holders[source], f"o{source}"
        if holder in self.steady:
            number = self.first[holder]
            n, d, leaf = f"n{number}", f"d{number}", f"l{number}"
            marked = isinstance(self.steady[holder].fn, AccumulateGrad)
            counts = lone_counts(marked)
            test = f"{n}.op is INPUT"
            if marked:
                self.add(f"{leaf} = {n}.inputs[0]")
                test = f"{leaf}.op is INPUT and refs({leaf}) == {counts[1]} and {leaf}.data is {d}"
            test += f" and refs({n}) == {counts[0]} and refs({d}) == {counts[2]}"
            self.add(
                f"u{source} = {test} and {d}._home is not None",
                f"{own} = {d} if u{source} else copied({d})",
            )
        else:
            held = (1, 0, int(holder not in self.arguments))
            self.add(f"{own}, u{source} = own_buffer({self.stores[holder]}, {held})")
        self._own[source] = own

    def _target(self, number: int, size: int) -> str:
        """Where the plan writes an output: to memory of an earlier call, or to new memory."""
        users = [r for r, root in enumerate(self._roots) if root == number]
        if len(users) == 1:
            fresh = len(self.replay.flags)
            if users[0] in self.makers:
                return f"e{users[0]}.buffer if f{users[0]} else Buffer({size})"
            if users[0] >= fresh and self._swaps(users[0] - fresh):
                return f"spares[{users[0] - fresh}] or Buffer({size})"
        return f"Buffer({size})"

    def _swaps(self, place: int) -> bool:
        """Whether a written tensor may change between two buffers: no result shares the old one."""
        source = self.replay.written[place]
        root = self._roots[len(self.replay.flags) + place]
        holder = self.replay.holders[source]
        # What is known of integers by their nodes (ranges of indices) is thought never to change.
        floats = self.replay.types[len(self.replay.flags) + place].dtype.kind == "f"
        kept = ("source", source) not in self._roots
        return floats and kept and isinstance(root, int) and holder in self.steady

    # ------------------------------------------------------------------ what is left behind

    def write_back(self) -> None:
        """New values of written tensors, and counts of writes."""
        fresh = len(self.replay.flags)
        for place, source in enumerate(self.replay.written):
            holder = self.replay.holders[source]
            shape, dtype = self.replay.types[fresh + place]
            data = self._buffer(self._roots[fresh + place])
            write = f"write({self.stores[holder]}, {self.bind(shape)}, {self.bind(dtype)}, {data})"
            if source in self._own:
                floats = dtype.kind == "f"  # see ``_swaps``
                self.add(f"if not u{source}: {write}" if floats else write)
            elif self._swaps(place):
                self._swap(self.first[holder], place, data, write)
            else:
                self.add(write)
        for source, count in enumerate(self.replay.counts):
            if count:
                holder = self.replay.holders[source]
                if holder not in self.stores:
                    refuse("writes to a gradient that is replaced")
                self.add(f"{self.stores[holder]}.version += {count}")

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
                self.add(f"{bind(leaf_of_grad(where))}.grad = {text}")
            else:
                self.add(f"{bind(where)}.put((), {text})")
        for function in replay.late:
            self.add(f"{bind(function)}()")
        self.add(f"return {self._built(self.result, iter(texts[len(replay.effects) :]))}")

    def _fresh(self, number: int) -> str:
        """Makes a fresh storage; returns its name."""
        replay, bind = self.replay, self.bind
        shape, dtype = replay.types[number]
        facts = f"{bind(shape)}, {bind(dtype)}, {self._buffer(self._roots[number])}, "
        facts += f"{replay.flags[number]!r}, {replay.ages[number]}"
        maker = self.makers.get(number)
        if maker is None:
            self.add(f"r{number} = fresh({facts})")
            return f"r{number}"
        place = str(2 * number)
        if number not in self.gradients.values():
            place += " + turn[0]"
        self.add(f"if not f{number}: e{number} = keep(kept, {place}, {bind(maker.kind)}, {facts})")
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
        self.add(f"t{number} = {self.bind(part)}.make((), (), ({', '.join(fresh)},))")
        return f"t{number}"

    def _built(self, shape: Any, texts: Iterator[str]) -> str:
        """The expression of a value of this shape, see ``Tree``."""
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
