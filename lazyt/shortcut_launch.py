"""The text of shortcuts, second part: what Python does at every call, and the plan."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lazyt.guard_text import leaf_of_grad
from lazyt.ir.dtypes import DType, float64
from lazyt.ir.forms import PLACED
from lazyt.ir.graph import Node
from lazyt.kept import MOST_BYTES, lone_counts, own_buffer
from lazyt.lifted import PythonNumber
from lazyt.ops.leaves import INPUT
from lazyt.places import GradOf
from lazyt.replay import Made
from lazyt.resuming import Interrupted
from lazyt.runtime.memory import Buffer
from lazyt.shortcut_text import Inlet, refuse
from lazyt.steady import is_ours
from lazyt.tape import AccumulateGrad
from lazyt.tensor import Tensor

if TYPE_CHECKING:
    from lazyt.placed_plans import Launcher

#: Bytes of the largest number from Python that goes to a device with others.
MOST_IN_TRAY = 4096


class Cell:
    """Memory of one number, written again and again.

    Attributes:
        buffer: the memory.
        number: its ``value`` is the number, rounded as C rounds.
    """

    __slots__ = ("buffer", "number")

    def __init__(self, dtype: DType) -> None:
        kind = ctypes.c_double if dtype is float64 else ctypes.c_float
        self.buffer = Buffer(dtype.itemsize)
        self.number = kind.from_address(self.buffer.ptr)


class Midway(Inlet):
    """Writes the second part. Locals: ``c0`` ... what Python gave anew, ``b0`` ... buffers of the
    plan's outputs, ``l3`` the leaf below the gradient mark of tensor 3."""

    def find_outputs(self) -> None:
        """Where the plan's results go, and which fresh storages are one plain tensor each."""
        assert self.replay.prepared is not None and self.replay.prepared[0] is not None
        prepared, inputs, outputs = self.replay.prepared
        assert prepared is not None
        self._launcher = prepared.plan.launcher
        self._code = prepared.plan.code  # once: another thread may replace it
        if self._launcher is None and self._code.executable is None:
            refuse("a plan without kernels")
        if self._code.heat is not None:
            refuse("a plan that may get other kernels soon")
        if self._launcher is not None and not self._launcher.is_direct:
            refuse("a plan of a device without kernels, or with results on the host")
        self._fixed, self._inputs = prepared.fixed, inputs
        if self._code.table is not None:
            self._fixed = [*self._fixed, self._code.table]
        self._roots: list[Any] = []  # the number of an output, or an origin
        # Memory of written sources that the plan writes over, and those whose new value is there.
        self._own: dict[int, str] = {inputs[n][1]: "" for n in self._code.program.overwritten}
        self._in_place: set[int] = set()
        for kind, value in outputs:
            if kind == "output":
                found = self._code.program.results[value]
                if -1 - found in self._code.program.overwritten:
                    self._in_place.add(inputs[-1 - found][1])
                self._roots.append(found if found >= 0 else self._input(-1 - found))
            else:
                self._roots.append((kind, value))
        self._cells = self._find_cells()
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
            cell = self._cells.get(value)
            return f"c{value}.data" if cell is None else self.bind(cell.buffer)
        if kind == "source" and self._own.get(value):
            return f"{self._own[value]}"
        holder = value if kind == "part" else self.replay.holders[value]
        if kind == "part" or holder in self.arguments:
            return f"{self.nodes[holder]}.data"
        return f"d{self.first[holder]}"

    def write_plan(self) -> None:
        """What Python does at every call, the buffers, and the plan."""
        if any(map(self._is_shared, range(len(self._roots)))):
            self.is_quick = False  # the memory is looked up where tensors are looked at
        self._write_calls()
        for number, size in enumerate(self._code.sizes):
            add = self.add if self._is_steady(number) else self.both
            add(f"b{number} = {self._target(number, size)}")
        for source in self._own:
            self._take_over(source)
        self.names.table.update(
            Buffer=Buffer, INPUT=INPUT, refs=sys.getrefcount,
            own_buffer=own_buffer, spares=[None] * len(self.replay.written),
        )  # fmt: skip
        if self._launcher is not None:
            self._write_launch(self._launcher)
            return
        pointers = [f"{self._buffer(origin)}.ptr" for origin in self._inputs]
        pointers += [f"{self.bind(buffer)}.ptr" for buffer in self._fixed]
        outputs = range(len(self._code.sizes))
        pointers += [f"b{number}.ptr" for number in outputs]
        moving = [not self._is_steady(origin) for origin in self._inputs]
        moving += [False] * len(self._fixed) + [not self._is_steady(n) for n in outputs]
        executable = self._code.executable
        assert executable is not None
        if len(pointers) != executable.inputs + executable.outputs:
            refuse("a plan of other outputs")
        size = self._code.program.arena_bytes
        if size > MOST_BYTES:
            self.both(f"arena = Buffer({size})")
        elif size:
            self.names.table["arena"] = Buffer(size)
        pointers += [f"arena.ptr + {offset}" for offset in executable.scratch]
        moving += [size > MOST_BYTES] * len(executable.scratch)
        order = [pointers[place] for place in executable.places]
        changed = [n for n, place in enumerate(executable.places) if moving[place]]
        self.quick += [f"slots[{n}] = {order[n]}" for n in changed]
        slots = (ctypes.c_void_p * max(len(order), 1))()
        self.names.table.update(
            slots=slots, run=executable.bound(ctypes.addressof(slots)),
            pack=struct.Struct(f"{len(order)}P").pack_into,
        )  # fmt: skip
        self.add(f"pack(slots, 0, {', '.join(order)})")
        self.both("run()")

    def _is_shared(self, number: int) -> bool:
        """Whether a root is the memory of a tensor in places, which another one is to have, too."""
        root, fresh = self._roots[number], len(self.replay.flags)
        if isinstance(root, int) or root[0] != "source":
            return False
        own = number >= fresh and self.replay.written[number - fresh] in self._in_place
        return self.replay.holders[root[1]] in self.steady and not own

    def _write_launch(self, launcher: Launcher) -> None:
        """The plan on a device. What never changes is there already."""
        self.names.table.update(
            Buffer=launcher.device.allocate, run=launcher.launch, run_at=launcher.launch_at,
            brought=launcher.brought, device=launcher.device,
        )  # fmt: skip
        given = [self._buffer(origin) for origin in self._inputs]
        numbers = [n for n, origin in enumerate(self._inputs) if origin[0] == "call"]
        sizes = [self._sizes_of_inputs()[n] for n in numbers]
        if numbers and max(sizes) <= MOST_IN_TRAY:  # to the same place at every call
            self.names.table["fill"] = launcher.tray(sizes).fill
            self.both(f"h = fill(({', '.join(given[n] for n in numbers)},))")
            for place, number in enumerate(numbers):
                given[number] = f"h[{place}]"
        host = [
            n for n, origin in enumerate(self._inputs)
            if not self._is_placed(origin) and not given[n].startswith("h[")
        ]  # fmt: skip
        if host:
            self.both(f"g = brought(({', '.join(given[n] for n in host)},))")
        for place, number in enumerate(host):
            given[number] = f"g[{place}]"
        moving = [n for n, origin in enumerate(self._inputs) if not self._is_steady(origin)]
        given += [self.bind(buffer) for buffer in launcher.brought(self._fixed)]
        moving += [len(given) + n for n in range(len(self._code.sizes)) if not self._is_steady(n)]
        outputs = [f"b{number}" for number in range(len(self._code.sizes))]
        self.add(f"run([{', '.join(given)}], [{', '.join(outputs)}])")
        self.add(f"found = [b.ptr for b in ({', '.join((*given, *outputs))},)]")
        everything = (*given, *outputs)
        self.quick.append("found = steady.pointers")
        self.quick += [f"found[{n}] = {everything[n]}.ptr" for n in moving]
        self.quick.append("run_at(tuple(found))")

    def _sizes_of_inputs(self) -> dict[int, int]:
        return {s.index: s.nbytes for s in self._code.program.slots if s.kind == "input"}

    def _is_placed(self, origin: Any) -> bool:
        """Whether a buffer is on the device at every call, as far as is known."""
        kind, value = origin
        holder = self.replay.holders[value] if kind == "source" else -1
        if holder in self.arguments and holder not in self.replay.parts:
            given = [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]
            return given[holder]._storage.node.form < PLACED
        return holder in self.steady and self.steady[holder].node.form < PLACED

    def _is_steady(self, origin: Any) -> bool:
        """Whether a buffer, that of an output by its number or one that comes in, is the same at
        every call as long as ``Steady`` finds all well."""
        if isinstance(origin, int):
            users = [r for r, root in enumerate(self._roots) if root == origin]
            return len(users) == 1 and users[0] in self._attached
        kind, value = origin
        if kind == "call":
            return value in self._cells and self._launcher is None
        return kind == "constant" or (
            kind == "source" and self.replay.holders[value] in self.steady
        )

    def _write_calls(self) -> None:
        """What Python does at every call; where that raises, ``resuming`` has to know how far it
        came."""
        names: list[str] = []
        made = [f.compute if isinstance(f, PythonNumber) else f for f, _ in self.replay.calls]
        self.is_quick = self.is_quick and all(map(is_ours, made))
        leaves: dict[str, Callable[[float], Node]] = {}
        for place, (function, fills) in enumerate(self.replay.calls):
            count = sum(filled for _, filled in self.replay.calls[:place])
            names.append(f"c{count}" if fills else f"q{place}")
            if fills and count in self._cells and isinstance(function, PythonNumber):
                leaves[names[-1]], function = function.leaf, function.compute
            line = f"    {names[-1]} = {self.bind(function)}()"
            self.both(*(() if place else ("try:",)), line)
        if names:
            self.names.table.update(
                names=names, leaves=leaves, Interrupted=Interrupted, calls=self.replay.calls,
                done=_done,
            )  # fmt: skip
            self.both(
                "except Exception as error:",
                "    raise Interrupted(calls, done(locals(), names, leaves), error) from None",
            )
        for count, cell in self._cells.items():
            self.both(f"{self.bind(cell.number)}.value = c{count}")

    def _find_cells(self) -> dict[int, Cell]:
        """Memory of the numbers that Python computes at every call and the plan alone reads."""
        fills = [function for function, fills in self.replay.calls if fills]
        return {
            number: Cell(function.dtype)
            for number, function in enumerate(fills)
            if isinstance(function, PythonNumber) and ("call", number) not in self._roots
        }

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
                f"u{source} = {test} and not {d}.is_foreign",
                f"{own} = {d} if u{source} else {d}.copy()",
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


def _done(
    found: dict[str, Any], names: Sequence[str], leaves: dict[str, Callable[[float], Node]]
) -> list[Any]:
    """What the calls gave that came before an exception; leaves where only numbers were made."""
    return [
        leaves[name](found[name]) if name in leaves else found[name]
        for name in names
        if name in found
    ]
