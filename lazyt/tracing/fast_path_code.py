"""Writes the fast path of a captured function: one Python function for calls like the last one.

In the order of the text it writes: ``Tests`` (is everything as it was: modes of the thread,
arguments, Python's state, captured tensors), ``Launch`` (what Python computes at every call, the
buffers, the plan) and ``Results`` (writes, gradients and the function's result). After the tests
nothing can be missed any more. All three write into one ``Text``, which holds what is known of the
call.

``fast_path`` says what becomes of memory.

Where anything is otherwise the function returns ``MISSED``, with nothing changed, and
``Replay.run`` does the call in general.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, cast

from lazyt.config import config
from lazyt.functional import type_promotion
from lazyt.handle import autocast, grad_mode
from lazyt.handle.pytree import Opening, structures
from lazyt.handle.storage import Storage
from lazyt.handle.tape import AccumulateGrad, anomaly
from lazyt.handle.tensor import Tensor
from lazyt.ir.forms import PLACED
from lazyt.ir.graph import Node
from lazyt.ops.leaves import INPUT
from lazyt.plan.tiers import Heat
from lazyt.runtime import events
from lazyt.runtime.cpython import dict_tags, direct
from lazyt.runtime.memory import Buffer
from lazyt.tracing import fast_path
from lazyt.tracing.capture import Interrupted
from lazyt.tracing.fast_path import (
    MOST_IN_TRAY,
    Admission,
    Cell,
    FastPath,
    Part,
    Snapshot,
    Text,
    is_ours,
)
from lazyt.tracing.guards import (
    CannotWrite,
    conditions,
    dict_below,
    leaf_of_grad,
    tagged_dicts,
    tensor_condition,
)
from lazyt.tracing.outcomes import Outcome
from lazyt.tracing.replay import Computed, ComputedChecks, Made, Replay, has_failed
from lazyt.tracing.reuse import MOST_BYTES, lone_counts, own_buffer
from lazyt.tracing.sources import GradSource, GuardedTensor, ItemSource, is_plain, same_plain
from lazyt.tracing.symbolic_numbers import PythonNumber
from lazyt.tracing.templates import Origin

if TYPE_CHECKING:
    from lazyt.plan.device_plans import Launcher


def refuse(what: str) -> NoReturn:
    """Raises CannotWrite."""
    raise CannotWrite(what)


class Tests(Part):
    """Writes the tests. Locals of the text: ``a0`` ... leaves of the arguments; ``s3``, ``n3``,
    ``d3`` storage, node and buffer of the tensor that was given with number 3; ``e0`` ... reusable
    tensors of fresh storages, with ``f0`` whether they are free.

    Attributes:
        tagged: dicts that the tags tell of.

    Args:
        opening, shape: as of ``write_fast_path``.
        polled, moving: likewise.
    """

    def __init__(
        self, text: Text, opening: Opening, shape: Any, polled: set[int], moving: Sequence[int]
    ) -> None:
        super().__init__(text)
        self._opening, self._shape = opening, shape
        self._moving = list(moving)
        replay = text.replay
        written = [w.table for w, _ in replay.effects if isinstance(w, ItemSource)]
        own = {id(dict_below(table)) for table in written}
        self.tagged = tagged_dicts(replay.guards, polled | own) if dict_tags.available() else {}
        self._used = {replay.holders[i] for i in replay.used}
        self._head: list[str] = []  # tests of modes, arguments and state
        self._known: set[Storage] = set()
        self._seen: dict[int, tuple[int, str, Tensor]] = {}  # arguments by their storages
        self._admitted: tuple[int, int, Sequence[Any]] | None = None
        self._late: list[str] = []  # lines about arguments, once all else is known to be right
        text.names.table["KNOWN"] = self._known

    def write(self, tags: dict_tags.Tags | None) -> None:
        """Writes everything up to the point where the function has to go through."""
        self._write_modes()
        self._write_arguments()
        tests = self._place_tests()
        tests += conditions(self.replay.guards, self.bind, self.tagged)
        for names, tables in self.replay.counted:
            tests.append(f"equal_counts({self.bind(tables)}, {names!r})")
        if tests:
            self.add("try:", f"    if not ({' and '.join(tests)}): return MISSED")
            self.add("except (LookupError, ValueError, AttributeError): return MISSED")
        if tags is not None and self.tagged:
            self.names.table["unchanged"] = tags.hold
            self.add("if not unchanged(): return MISSED")
        self._head = self.lines[:]
        self.lines.clear()
        self._twins = self._find_twins()
        self._write_tensors()
        self._write_gradients()
        self._write_aliasing()
        self._write_reusable()
        self.both(*self._late)
        for origin, bounds in self.replay.checks.inputs:
            holder, never = self._holder(origin)
            test = f"if not in_range({self.nodes[holder]}, {self.bind(bounds)}): return MISSED"
            (self.add if never else self.both)(test)
            self.text.is_quick &= never or holder in self.arguments
        if self.replay.checks.computed is not None:
            self._check_computed(self.replay.checks.computed)

    def _holder(self, origin: Origin) -> tuple[int, bool]:
        """The number of the tensor that an input is, and whether it never changes while the words
        hold, so that it stays within its bounds."""
        kind, number = origin
        holder = number if kind == "part" else self.replay.holders[number]
        never = kind == "source" and holder in self.captured and number not in self.replay.written
        return holder, never

    def _check_computed(self, checks: ComputedChecks) -> None:
        """Writes the test of what is computed from inputs to be checked."""
        holders = [self._holder(origin) for origin in checks.inputs or ()]
        nodes = [
            f"{self.stores[holder]}.node" if never else self.nodes[holder]
            for holder, never in holders
        ]
        self.both(f"if not {self.bind(checks.hold_of)}({', '.join(nodes)}): return MISSED")
        self.text.is_quick &= all(never or holder in self.arguments for holder, never in holders)

    def _write_modes(self) -> None:
        """What decides, beside arguments and state, what a function does."""
        bind, mode = self.bind, grad_mode.mode
        default = type_promotion.get_default_dtype()
        self.require(
            f"{bind(mode)}.enabled is {mode.enabled}",
            f"{bind(mode)}.inference is {mode.inference}",
            f"{bind(autocast.mode)}.dtype is {bind(autocast.mode.dtype)}",
            f"{bind(vars(type_promotion))}['_default'] is {bind(default)}",
            f"{bind(config)}._of_plans == {bind(config.of_plans)}",
            f"not {bind(events.watching)}",
        )  # fmt: skip
        if self.replay.alive:
            joint = bind(self.replay.joint)
            self.require(f"not {bind(anomaly)}.enabled", f"not {joint}.is_graph_wanted")

    # ------------------------------------------------------------------ arguments

    def _write_arguments(self) -> None:
        self._count = 0
        before = len(self.lines)
        if any(structures(self._shape)) or self.text.needs_holders:
            self.names.table["open"] = functools.partial(
                fast_path.opened, self._shape, self._opening
            )
            self.add("flat = open(args, kwargs)", "if flat is None: return MISSED")
            self.add("opened = flat.leaves")
            for number in range(len(self.leaves)):
                self._leaf(f"opened[{number}]")
        else:
            for part, text in zip(self._shape[1], ("args", "kwargs"), strict=True):
                self._take(part, text)
        plain = dict.fromkeys(self.stores[n] for n in self.stores if n not in self.replay.parts)
        if len(plain) > 1:
            self.require(f"is_other(({', '.join(plain)}))")
        self._admit(before)
        if self._moving:
            numbers = "".join(f"a{number}, " for number in self._moving)
            self.require(f"{self.bind(self.replay.numbers.hold)}(({numbers}))")

    def _admit(self, before: int) -> None:
        """Notes where the tests of arguments are, if all are tensors that C can look at."""
        (_, given), (_, named) = self._shape[1]
        names = [f"a{n}" for n in range(len(given))]
        if self.text.needs_holders:
            return
        if not (named or any(given) or self.replay.parts) and [*self.given.values()] == names:
            self._admitted = (before, len(self.lines), self.leaves)

    def first_lines(self) -> list[str]:
        """The head, where compiled C looks at arguments first; all captured tensors are known."""
        if self._admitted is None:
            return self._head
        before, after, examples = self._admitted
        try:
            admission = Admission(examples, self._known)
        except LookupError:
            return self._head
        self.names.table.update(admission=admission, admit=admission.admit)
        taken = [f"    a{n} = args[{n}]; s{n} = a{n}._storage" for n in range(len(examples))]
        taken += ["else:", *("    " + line for line in self._head[before:after])]
        start = [*self._head[:before], "if not kwargs and admit(args):"]
        return [*start, *taken, *self._head[after:]]

    def _write_aliasing(self) -> None:
        """What is written must not be what another argument or a gradient is, or is a part of: the
        function may read that after it wrote."""
        gradients = {number for number, _ in self._numbered(True)}
        written = {self.replay.holders[source] for source in self.replay.written}
        tests: dict[str, None] = {}
        for holder in sorted(written & (gradients | self.arguments)):
            read = gradients & self.stores.keys() | set(self.replay.parts)
            for number in sorted(self.arguments if holder in gradients else read):
                tests[f"{self.stores[number]} is not {self.stores[holder]}"] = None
        if tests:
            self.both(f"if not ({' and '.join(tests)}): return MISSED")

    def _take(self, shape: Any, text: str) -> None:
        if shape is None:
            self._leaf(text)
            return
        kind, parts = shape
        self.require(f"type({text}) is {self.bind(kind)}", f"len({text}) == {len(parts)}")
        if kind is dict:
            keys = tuple(key for key, _ in parts)
            if not all(map(is_plain, keys)):
                refuse("keys of a dict")
            if keys:
                self.require(f"tuple({text}) == {self.bind(keys)}")
            for key, part in parts:
                self._take(part, f"{text}[{self.bind(key)}]")
            return
        for number, part in enumerate(parts):
            self._take(part, f"{text}[{number}]")

    def _leaf(self, text: str) -> None:
        value, name = self.leaves[self._count], f"a{self._count}"
        self._count += 1
        if isinstance(value, Tensor):
            self._argument(name, text, value, len(self.given))
        elif self._count - 1 in self._moving:
            self.add(f"{name} = {text}")
            self.require(f"type({name}) is {self.bind(type(value))}")
        elif is_plain(value) and value is not None:
            self.add(f"{name} = {text}")
            same = f"{self.bind(same_plain)}({name}, {self.bind(value)})"
            self.require(f"({name} is {self.bind(value)} or {same})")
        else:
            self._object(name, text, value)

    def _object(self, name: str, text: str, value: Any) -> None:
        """An object that is the same at every call, which the fast path does not keep alive."""
        try:
            refer = weakref.ref(value)
        except TypeError:
            self.require(f"{text} is {self.bind(value)}")
            return
        self.add(f"{name} = {text}")
        self.require(f"{name} is not None", f"{name} is {self.bind(refer)}()")

    def _argument(self, name: str, text: str, value: Tensor, number: int) -> None:
        """A tensor that is an argument: any that looks like this will do, the same where it was
        given before."""
        storage, bind, part = value._storage, self.bind, number in self.replay.parts
        seen = self._seen.setdefault(id(storage), (number, name, value))
        if seen[0] != number and not part:
            if seen[2] is not value:
                refuse("arguments that are views of one memory")
            self.require(f"{text} is {seen[1]}")
            self.given[number], self.stores[number] = seen[1], f"s{seen[0]}"
            self.nodes[number] = f"n{seen[0]}"
            return
        if storage.share is not None or storage.fn is not None or value.__dict__:
            refuse("an argument that shares memory, or has history or attributes")
        if value._view is not None and not part:
            refuse("an argument that is a view")
        store, looks = f"s{number}", name if part else f"s{number}.node"
        form = (
            f"{looks}.shape == {bind(tuple(value.shape))}", f"{looks}.dtype is {bind(value.dtype)}",
            f"{looks}.device is {bind(value.device)}",
        )  # fmt: skip
        own = f"is_part({name})" if part else f"{name}._view is None"
        self.add(f"{name} = {text}")
        self.require(f"type({name}) is {bind(type(value))}", own, f"not {name}.__dict__")
        self.add(f"{store} = {name}._storage")
        self.require(
            f"{store}.share is None", f"{store}.fn is None", f"{store} not in KNOWN",
            *(form if part else (f"{looks}.form == {storage.node.form}",)),
        )  # fmt: skip
        self.given[number], self.stores[number] = name, store
        self.nodes[number] = f"n{number}"
        if part:
            self._late.append(f"n{number} = value_of_part({name})")
        elif number in self._used:
            self._late.append(f"n{number} = {store}.node")
            self._late.append(f"if n{number}.data is None or n{number}.inputs:")
            self._late.append(f"    n{number} = computed({store})")

    # ------------------------------------------------------------------ captured tensors

    def _place_tests(self) -> list[str]:
        tests: list[str] = []
        for place in self.replay.captured:
            if not isinstance(place.source, GradSource):
                tensor = place.source.get(())
                if not isinstance(tensor, Tensor):
                    refuse(place.path)
                test = tensor_condition(place, tensor, self.bind, self.tagged)
                tests += [] if test is None else [test]
        return tests

    def _numbered(self, gradients: bool) -> list[tuple[int, GuardedTensor]]:
        start = sum(isinstance(leaf, Tensor) for leaf in self.leaves)
        numbered = enumerate(self.replay.captured, start)
        return [(n, p) for n, p in numbered if isinstance(p.source, GradSource) is gradients]

    def _write_tensors(self) -> None:
        """Looks at the captured tensors, which are the same at every call."""
        seen: dict[int, int] = {}
        for number, place in self._numbered(False):
            tensor = place.source.get(())
            first = self.first[number] = seen.setdefault(id(tensor), number)
            self.given[number] = self.bind(tensor)
            if first == number:
                self._tensor(tensor, number)
            self.stores[number], self.nodes[number] = (
                self.stores[first],
                self.nodes[first],
            )
            self.captured[number] = self.captured[first]

    def _tensor(self, tensor: Tensor, number: int) -> None:
        storage, bind = tensor._storage, self.bind
        fn = storage.fn
        if storage.share is not None or tensor._view is not None or storage in self._known:
            refuse("a tensor that shares memory")
        if id(storage) in self._seen:
            refuse("an argument that is captured, too")
        if tensor.__dict__ or not (fn is None or type(fn) is AccumulateGrad):
            refuse("a tensor with attributes or with history")
        self._known.add(storage)
        self.checked.append((tensor, storage))
        t, s, n, f = bind(tensor), bind(storage), f"n{number}", bind(fn)
        self.stores[number], self.nodes[number], self.captured[number] = (
            s,
            n,
            storage,
        )
        tests = [
            f"{t}._storage is {s}", f"{t}._view is None", f"{s}.fn is {f}",
            f"type({t}) is {bind(type(tensor))}", f"not {t}.__dict__",
            f"{n}.form == {storage.node.form}",
        ]  # fmt: skip
        if isinstance(fn, AccumulateGrad):
            if fn._extra is not None or fn.post_hooks:
                refuse("hooks")
            tests += [f"{f}._extra is None", f"not {f}.post_hooks"]
        self.add(f"if {s}.share is not None and not alone({s}): return MISSED", f"{n} = {s}.node")
        self.require(*tests)
        if number in self._used:
            self.add(f"d{number} = {n}.data", f"if d{number} is None: return MISSED")

    def _find_twins(self) -> dict[int, int]:
        """Gradients that are captured tensors, too, with their numbers there: a caller
        who assigned them can reach them by names of its own."""
        numbers: dict[int, int] = {}
        found: dict[int, int] = {}
        for number, place in self._numbered(False):
            numbers.setdefault(id(place.source.get(())), number)
        for number, place in self._numbered(True):
            leaf = leaf_of_grad(place.source)
            twin = numbers.get(id(leaf.grad))
            if twin is not None and id(leaf) not in self.gradients:
                found[number] = twin
                if number in self._used:
                    self._used.add(twin)
        return found

    def _twin(self, number: int, twin: int, leaf: str) -> None:
        """A gradient that is a captured tensor, too."""
        first = self.first[number] = self.first[twin]
        self.given[number] = self.given[twin]
        self.stores[number], self.nodes[number] = (
            self.stores[first],
            self.nodes[first],
        )
        self.captured[number] = self.captured[first]
        self.require(f"{leaf}.grad is {self.given[twin]}")

    def _write_gradients(self) -> None:
        """Looks at gradients, and finds out which reusable ones are free."""
        used: list[str] = []
        for number, place in self._numbered(True):
            leaf = leaf_of_grad(place.source)
            f, looks = self.bind(leaf), self.bind(place.signature)
            if number in self._twins:
                self._twin(number, self._twins[number], f)
                continue
            self.first[number] = number
            self.given[number] = f"{f}.grad"
            fresh = self.gradients.get(id(leaf))
            if isinstance(leaf.grad, Tensor) and id(leaf.grad._storage) in self._seen:
                refuse("an argument that is a gradient, too")
            line = f"s{number} = gradient_of({f}, {looks}, KNOWN)"
            test = f"if s{number} is None: return MISSED"
            if number in self._used or fresh is None:
                s, n = self.stores[number], self.nodes[number] = (
                    f"s{number}",
                    f"n{number}",
                )
                self.add(line, test, f"{n} = {s}.node")
                if number in self._used:
                    used.append(s)
                    self.add(f"d{number} = n{number}.data", f"if d{number} is None: return MISSED")
            else:
                self.attached[fresh] = leaf
                e = f"e{fresh}"
                self.add(f"{e} = reusable[{2 * fresh}]")
                free = f"{e} is not None and {f}.grad is {e}.tensor and {e}.is_free(1)"
                self.add(f"f{fresh} = {free}")
                self.add(f"if not f{fresh}:", f"    {line}", f"    {test}", f"    del s{number}")
        if len(used) > 1:
            self.require(f"is_other(({', '.join(used)}))")
        self.text.is_quick &= len(self.attached) == len(self._numbered(True))

    def _write_reusable(self) -> None:
        """Finds out which reusable tensors are free, except those that are gradients now."""
        turns = False
        for fresh in self.makers:
            if fresh not in self.attached:
                place = str(2 * fresh)
                if fresh not in self.gradients.values():  # the last result is still in use
                    place += " + turn[0]"
                    if not turns:
                        self.both("turn[0] = 1 - turn[0]")
                    turns = True
                e = f"e{fresh}"
                free = f"{e} is not None and ({e}.holds() or {e}.is_free(0))"
                self.both(f"{e} = reusable[{place}]", f"f{fresh} = {free}")


class Launch(Part):
    """Writes what Python computes at every call, the buffers, and the plan. Locals: ``c0`` ... what
    Python gave anew, ``b0`` ... buffers of the plan's outputs, ``l3`` the leaf below the gradient
    mark of tensor 3.

    Attributes:
        launcher: of a plan on a device; None on the CPU.
        roots: what becomes of each fresh and written storage: the number of an output of the plan,
            or the origin of a buffer that comes in.
        own: expressions of the buffers that the plan overwrites, by their sources.
        in_place: those sources whose new value is there.
    """

    def __init__(self, text: Text) -> None:
        super().__init__(text)
        assert self.replay.plan is not None
        prepared, inputs, outputs = self.replay.plan
        assert prepared is not None and prepared.plan is not None
        self.launcher = prepared.plan.launcher
        self._plan = prepared.plan
        self._plan_code = prepared.plan.code  # once: another thread may replace it
        self._fixed, self._sources, self._outputs = [*prepared.fixed], inputs, outputs
        self.roots: list[Any] = []
        self.own: dict[int, str] = {}
        self.in_place: set[int] = set()
        self._cells: dict[int, Cell] = {}

    def find_outputs(self) -> None:
        """Where the plan's results go, and which fresh storages are one plain tensor each.

        Raises CannotWrite for plans that a fast path does not launch.
        """
        code, sources = self._plan_code, self._sources
        if code.heat is not None:
            self.names.table.update(hot=self._plan, hot_code=code)
            self.require("hot.code is hot_code")
        if self.launcher is None and code.executable is None:
            refuse("a plan without kernels")
        if code.heat is not None and type(code.heat) is not Heat:
            refuse("a plan that may get other kernels soon")
        if self.launcher is not None and not self.launcher.is_direct:
            refuse("a plan without kernels, with results on the host, or of a registered target")
        if code.table is not None:
            self._fixed.append(code.table)
        self.own = {sources[n][1]: "" for n in code.program.overwritten}
        for kind, value in self._outputs:
            if kind == "output":
                found = code.program.results[value]
                if -1 - found in code.program.overwritten:
                    self.in_place.add(sources[-1 - found][1])
                self.roots.append(found if found >= 0 else self._input(-1 - found))
            else:
                self.roots.append((kind, value))
        self._cells = self._find_cells()
        self._find_makers()

    def _find_makers(self) -> None:
        if self.replay.alive:  # results have histories
            return
        made: dict[int, set[Made]] = {}
        for part in self.parts():
            if isinstance(part, Made) and part.source < 0:
                made.setdefault(part.number, set()).add(part)
        for number in range(len(self.replay.flags)):
            root = self.roots[number]
            own = isinstance(root, int) and self.roots.count(root) == 1
            first, *others = made.get(number, {None})
            if own and first is not None and not others and first.view is None:
                self.makers[number] = first
        for where, part in self.replay.effects:
            if isinstance(where, GradSource) and isinstance(part, Made):
                once = sum(other is part for other in self.parts()) == 1
                if self.makers.get(part.number) is part and once and part.kind is Tensor:
                    self.gradients[id(leaf_of_grad(where))] = part.number

    def _input(self, number: int) -> Any:
        if number >= len(self._sources):
            return ("constant", self._fixed[number - len(self._sources)])
        return self._sources[number]

    # ------------------------------------------------------------------ the plan

    def buffer(self, origin: Any) -> str:
        """The expression of a buffer: output, or what comes in from an origin."""
        if isinstance(origin, int):
            return f"b{origin}"
        kind, value = origin
        if kind == "constant":
            return self.bind(value if isinstance(value, Buffer) else value.data)
        if kind == "call":
            cell = self._cells.get(value)
            return f"c{value}.data" if cell is None else self.bind(cell.buffer)
        if kind == "source" and self.own.get(value):
            return f"{self.own[value]}"
        holder = value if kind == "part" else self.replay.holders[value]
        if kind == "part" or holder in self.arguments:
            return f"{self.nodes[holder]}.data"
        return f"d{self.first[holder]}"

    def write(self) -> None:
        """What Python does at every call, the buffers, and the plan."""
        if any(map(self._is_shared, range(len(self.roots)))):
            self.text.is_quick = False  # the memory is looked up where tensors are looked at
        self._write_calls()
        for number, size in enumerate(self._plan_code.sizes):
            add = self.add if self._is_unchanged(number) else self.both
            add(f"b{number} = {self._target(number, size)}")
        for source in self.own:
            self._take_over(source)
        self.names.table.update(
            Buffer=Buffer, INPUT=INPUT, refs=sys.getrefcount,
            own_buffer=own_buffer, spares=[None] * len(self.replay.written),
        )  # fmt: skip
        if self.launcher is not None:  # of a device: others are refused
            if self.replay.verifies:
                refuse("a plan on a device, of which a result is looked at")
            self._write_launch(cast("Launcher", self.launcher))
            return
        pointers = [f"{self.buffer(origin)}.ptr" for origin in self._sources]
        pointers += [f"{self.bind(buffer)}.ptr" for buffer in self._fixed]
        outputs = range(len(self._plan_code.sizes))
        pointers += [f"b{number}.ptr" for number in outputs]
        moving = [not self._is_unchanged(origin) for origin in self._sources]
        moving += [False] * len(self._fixed) + [not self._is_unchanged(n) for n in outputs]
        executable = self._plan_code.executable
        assert executable is not None
        if len(pointers) != executable.inputs + executable.outputs:
            refuse("a plan of other outputs")
        size = self._plan_code.program.arena_bytes
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
            slots=slots, run=direct.bound_launch(executable, ctypes.addressof(slots)),
            pack=struct.Struct(f"{len(order)}P").pack_into,
        )  # fmt: skip
        self.add(f"pack(slots, 0, {', '.join(order)})")
        heat = self._plan_code.heat
        if heat is None:
            self.both("run()")
        else:  # it counts runs, and has the plan get kernels for its sizes
            self.names.table.update(clock_now=perf_counter, note=heat.note)
            self.both("begin = clock_now()", "run()", "note(hot, clock_now() - begin)")
        self._write_verification()

    def _write_verification(self) -> None:
        """Whether factorizations have come to an end, before anything is written."""
        first = len(self.replay.flags) + len(self.replay.written)
        done = "done(locals(), names, leaves)" if self.replay.calls else "[]"
        for place in range(first, first + self.replay.verifies):
            self.names.table.update(Interrupted=Interrupted, calls=self.replay.calls)
            failed = self.bind(functools.partial(has_failed, self.replay.types[place]))
            test = f"if {failed}({self.buffer(self.roots[place])})"
            self.both(f"{test}: raise Interrupted(calls, {done}, None)")

    def _is_shared(self, number: int) -> bool:
        """Whether a root is the memory of a captured tensor, which another one is to have, too."""
        root, fresh = self.roots[number], len(self.replay.flags)
        if isinstance(root, int) or root[0] != "source":
            return False
        if number >= fresh + len(self.replay.written):
            return False  # that of a factorization
        own = number >= fresh and self.replay.written[number - fresh] in self.in_place
        return self.replay.holders[root[1]] in self.captured and not own

    def _write_launch(self, launcher: Launcher) -> None:
        """The plan on a device. What never changes is there already."""
        self.names.table.update(
            Buffer=launcher.device.allocate, run=launcher.launch, run_at=launcher.launch_at,
            brought=launcher.brought, device=launcher.device,
        )  # fmt: skip
        given = [self.buffer(origin) for origin in self._sources]
        numbers = [n for n, origin in enumerate(self._sources) if origin[0] == "call"]
        sizes = [self._sizes_of_inputs()[n] for n in numbers]
        if numbers and max(sizes) <= MOST_IN_TRAY:  # to the same place at every call
            self.names.table["fill"] = launcher.tray(sizes).fill
            self.both(f"h = fill(({', '.join(given[n] for n in numbers)},))")
            for place, number in enumerate(numbers):
                given[number] = f"h[{place}]"
        host = [
            n for n, origin in enumerate(self._sources)
            if not self._is_placed(origin) and not given[n].startswith("h[")
        ]  # fmt: skip
        if host:
            self.both(f"g = brought(({', '.join(given[n] for n in host)},))")
        for place, number in enumerate(host):
            given[number] = f"g[{place}]"
        moving = [n for n, origin in enumerate(self._sources) if not self._is_unchanged(origin)]
        given += [self.bind(buffer) for buffer in launcher.brought(self._fixed)]
        moving += [
            len(given) + n for n in range(len(self._plan_code.sizes)) if not self._is_unchanged(n)
        ]
        outputs = [f"b{number}" for number in range(len(self._plan_code.sizes))]
        self.add(f"run([{', '.join(given)}], [{', '.join(outputs)}])")
        self.add(f"found = [b.ptr for b in ({', '.join((*given, *outputs))},)]")
        everything = (*given, *outputs)
        self.quick.append("found = snapshot.pointers")
        self.quick += [f"found[{n}] = {everything[n]}.ptr" for n in moving]
        self.quick.append("run_at(tuple(found))")

    def _sizes_of_inputs(self) -> dict[int, int]:
        return {s.index: s.nbytes for s in self._plan_code.program.slots if s.kind == "input"}

    def _is_placed(self, origin: Any) -> bool:
        """Whether a buffer is on the device at every call, as far as is known."""
        kind, value = origin
        holder = self.replay.holders[value] if kind == "source" else -1
        if holder in self.arguments and holder not in self.replay.parts:
            given = [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]
            return given[holder]._storage.node.form < PLACED
        return holder in self.captured and self.captured[holder].node.form < PLACED

    def _is_unchanged(self, origin: Any) -> bool:
        """Whether a buffer, that of an output by its number or one that comes in, is the same at
        every call as long as the ``Snapshot`` holds."""
        if isinstance(origin, int):
            users = [r for r, root in enumerate(self.roots) if root == origin]
            return len(users) == 1 and users[0] in self.attached
        kind, value = origin
        if kind == "call":
            return value in self._cells and self.launcher is None
        return kind == "constant" or (
            kind == "source" and self.replay.holders[value] in self.captured
        )

    def _write_calls(self) -> None:
        """What Python does at every call; where that raises, ``resuming`` has to know how far it
        came."""
        names: list[str] = []
        made = [f.compute if isinstance(f, PythonNumber) else f for f, _ in self.replay.calls]
        self.text.is_quick &= all(map(is_ours, made))
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
                done=fast_path.done,
            )  # fmt: skip
            self.both(
                "except Exception as error:",
                "    raise Interrupted(calls, done(locals(), names, leaves), error) from None",
            )
        for count, cell in self._cells.items():
            self.both(f"{self.bind(cell.number)}.value = c{count}")

    def _find_cells(self) -> dict[int, Cell]:
        """Memory of the numbers that Python computes at every call and the plan alone reads."""
        if self.replay.alive:  # the backward plan reads them, too
            return {}
        fills = [function for function, fills in self.replay.calls if fills]
        return {
            number: Cell(function.dtype)
            for number, function in enumerate(fills)
            if isinstance(function, PythonNumber) and ("call", number) not in self.roots
        }

    def _take_over(self, source: int) -> None:
        """Finds memory of a written tensor that may be written over: its own, where nobody else
        can see that, else a copy. ``o3`` is the memory, ``u3`` whether it is the tensor's."""
        if source not in self.replay.written:
            refuse("memory that is written to and belongs to another tensor")
        holder, own = self.replay.holders[source], f"o{source}"
        if holder in self.captured:
            number = self.first[holder]
            n, d, leaf = f"n{number}", f"d{number}", f"l{number}"
            marked = isinstance(self.captured[holder].fn, AccumulateGrad)
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
        self.own[source] = own

    def _target(self, number: int, size: int) -> str:
        """Where the plan writes an output: to memory of an earlier call, or to new memory."""
        users = [r for r, root in enumerate(self.roots) if root == number]
        if len(users) == 1:
            fresh = len(self.replay.flags)
            if users[0] in self.makers:
                return f"e{users[0]}.buffer if f{users[0]} else Buffer({size})"
            if 0 <= users[0] - fresh < len(self.replay.written) and self.swaps(users[0] - fresh):
                return f"spares[{users[0] - fresh}] or Buffer({size})"
        return f"Buffer({size})"

    def swaps(self, place: int) -> bool:
        """Whether a written tensor may change between two buffers: no result shares the old one."""
        source = self.replay.written[place]
        root = self.roots[len(self.replay.flags) + place]
        holder = self.replay.holders[source]
        # What is known of integers by their nodes (ranges of indices) is thought never to change.
        floats = self.replay.types[len(self.replay.flags) + place].dtype.kind == "f"
        unshared = ("source", source) not in self.roots
        return floats and unshared and isinstance(root, int) and holder in self.captured


class Results(Part):
    """Writes what the function leaves behind. Locals: ``r0`` ... fresh storages, ``t0`` ... tensors
    of the result.

    Args:
        outcome: what the function leaves behind.
    """

    def __init__(self, text: Text, launch: Launch, outcome: Outcome) -> None:
        super().__init__(text)
        self.launch, self._outcome = launch, outcome
        self._certificate = ""

    def attach(self) -> None:
        """Fresh results whose gradients go on outside, before what they need is written over."""
        replay, launch = self.replay, self.launch
        fresh = len(replay.flags)
        unread = range(fresh, fresh + len(replay.written))
        roots = enumerate(launch.roots)
        buffers = ["None" if n in unread else launch.buffer(root) for n, root in roots]
        if any(holder not in self.stores for holder in replay.holders):
            refuse("a gradient that is replaced")
        stores = [self.stores[holder] for holder in replay.holders]
        calls = [f"c{n}" for n in range(sum(fills for _, fills in replay.calls))]
        names = "".join([f"r{n}, " for n in range(fresh)])
        given = ", ".join(f"({''.join(f'{x}, ' for x in xs)})" for xs in (buffers, stores, calls))
        self.both(f"{names}= {self.bind(replay.attach)}({given})")

    def write_back(self) -> None:
        """New values of written tensors, and counts of writes."""
        fresh = len(self.replay.flags)
        for place, source in enumerate(self.replay.written):
            holder = self.replay.holders[source]
            shape, dtype = self.replay.types[fresh + place]
            data = self.launch.buffer(self.launch.roots[fresh + place])
            form = f"{self.bind(shape)}, {self.bind(dtype)}"
            write = f"write({self.stores[holder]}, {form}, {data})"
            if source in self.launch.in_place:
                floats = dtype.kind == "f"  # see ``_swaps``
                self.add(f"if not u{source}: {write}" if floats else write)
                self.text.is_quick &= floats and holder in self.captured
            elif self.launch.swaps(place):
                self._swap(self.first[holder], place, data, write)
                self.text.is_quick = False
            elif source in self.launch.own:  # its old memory was written over on the way
                self.add(write)
                self.text.is_quick = False
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
        marked = isinstance(self.captured[holder].fn, AccumulateGrad)
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
        numbers = range(len(replay.flags))
        fresh = [f"r{n}" if replay.alive else self._fresh(n) for n in numbers]
        for part in self.parts():
            if isinstance(part, Made) and id(part) not in names:
                names[id(part)] = self._tensor_text(part, fresh, len(names))
        texts = [
            names[id(p)] if isinstance(p, Made)
            else f"{bind(p.recipe)}()" if isinstance(p, Computed) else bind(p)
            for p in self.parts()
        ]  # fmt: skip
        for (where, _), text in zip(replay.effects, texts):
            if isinstance(where, GradSource):
                leaf = leaf_of_grad(where)
                self.add(f"{bind(leaf)}.grad = {text}")
                self.text.is_quick &= leaf in self.attached.values()
            else:
                self.both(f"{bind(where)}.put((), {text})")
        self._certify()
        for function in replay.late:
            self.both(f"{bind(function)}()")
        left = texts[len(replay.effects) :]
        if self._outcome.needs_objects:
            holders = "flat.values" if self.text.needs_holders else "tuple"
            parts = "".join([f"{part}, " for part in left])
            self.both(f"return {bind(self._outcome.finish)}(({parts}), {holders})")
        else:
            self.both(f"return {self._built(self._outcome.shape, iter(left))}")

    def _certify(self) -> None:
        """Where all was as it has to be, the words that were taken down before stand for that."""
        tests = ["recorded", *(f"u{n}" for n in self.launch.own), *(f"f{n}" for n in self.attached)]
        found = "found" if self.launch.launcher is not None else "()"
        self._certificate = f"if {' and '.join(tests)}: snapshot.confirm({found})"
        self.add(self._certificate)

    def joined(self, tests: Tests) -> list[str]:
        """The lines of the function, those of the tests first."""
        if not (self.text.is_quick and self.checked):
            rest = [line for line in self.lines if line != self._certificate]
            return [*tests.first_lines(), *rest]
        own = [self.replay.holders[source] for source in self.launch.own]
        written = {id(self.captured[holder]) for holder in own}
        watched = Snapshot(
            [(tensor, storage, id(storage) in written) for tensor, storage in self.checked],
            [(leaf, 2 * fresh) for fresh, leaf in self.attached.items()],
            self.names.table["reusable"],
        )
        self.names.table.update(snapshot=watched)
        device = " and not device.branched" if self.launch.launcher is not None else ""
        return [
            *tests.first_lines(),
            f"if snapshot.is_valid{device}:",
            "    if snapshot.words.hold():",
            "        snapshot.uses += 1",
            *("        " + line for line in self.quick),
            "recorded = snapshot.record()",
            *self.lines,
        ]

    def _fresh(self, number: int) -> str:
        """Makes a fresh storage; returns its name."""
        replay, bind = self.replay, self.bind
        shape, dtype = replay.types[number]
        facts = f"{bind(shape)}, {bind(dtype)}, {self.launch.buffer(self.launch.roots[number])}, "
        facts += f"{replay.flags[number]!r}, {replay.ages[number]}"
        maker = self.makers.get(number)
        if maker is None:
            self.both(f"r{number} = fresh({facts})")
            return f"r{number}"
        place = str(2 * number)
        if number not in self.gradients.values():
            place += " + turn[0]"
        made = f"make_reusable(reusable, {place}, {bind(maker.kind)}, {facts})"
        line = f"if not f{number}: e{number} = {made}"
        (self.add if number in self.attached else self.both)(line)
        return "None"

    def _tensor_text(self, part: Made, fresh: list[str], number: int) -> str:
        if part.source >= 0:
            if part.number < 0 or part.number not in self.given:
                refuse("a new tensor over memory that was given")
            if part.number >= len(self.arguments) and part.number not in self.captured:
                refuse("a gradient that was given")
            return self.given[part.number]
        if self.makers.get(part.number) is part:
            return f"e{part.number}.tensor"
        self.both(f"t{number} = {self.bind(part)}.make((), (), ({', '.join(fresh)},))")
        return f"t{number}"

    def _built(self, shape: Any, texts: Iterator[str]) -> str:
        """The expression of a value of this shape, see ``Flat``."""
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


def write_fast_path(
    replay: Replay, opening: Opening, shape: Any, leaves: Sequence[Any], outcome: Outcome,
    polled: set[int], moving: Sequence[int],
) -> FastPath | None:  # fmt: skip
    """The fast path of a replay that has just been run; None where there is none.

    Args:
        opening: which objects among the arguments are flattened.
        shape: the shape of the call's (args, kwargs), see ``Flat``.
        leaves: its leaves, with the tensors of the call.
        outcome: what the function leaves behind.
        polled: identities of dicts whose tags change though nothing that matters does.
        moving: which leaves are numbers that are followed.
    """
    if replay.plan is None or replay.plan[0] is None or (replay.alive and replay.parts):
        return None
    if replay.plan[0].plan is None:  # several, with transfers between them
        return None
    checks = replay.checks.computed
    if checks is not None and checks.inputs is None:
        return None
    text = Text(replay, leaves)
    text.needs_holders = not outcome.is_plain
    tests = Tests(text, opening, shape, polled, moving)
    tags = dict_tags.Tags([*tests.tagged.values()]) if tests.tagged else None
    if replay.guards.broken([leaf for leaf in leaves if isinstance(leaf, Tensor)]) is not None:
        return None
    launch = Launch(text)
    results = Results(text, launch, outcome)
    try:
        launch.find_outputs()
        tests.write(tags)
        launch.write()
        if replay.alive:
            results.attach()
        results.write_back()
        results.hand_out()
    except CannotWrite:
        return None
    lines = results.joined(tests)
    source = "\n".join(["def call(args, kwargs):", *("    " + line for line in lines)])
    exec(compile(source, "<fast path>", "exec"), text.names.table)
    return FastPath(text.names.table["call"], tags, source)
