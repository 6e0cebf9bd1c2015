"""The text of shortcuts, first part: is everything as it was?

Modes of the thread, arguments, Python's state, and the tensors that places hold. After that nothing
can be missed any more, and ``shortcut_launch`` goes on.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

from lazyt import cast_mode, grad_mode, shortcut, steady
from lazyt.admission import Admission
from lazyt.arguments import is_part, value_of_part
from lazyt.config import config
from lazyt.counts import equal_counts
from lazyt.functional import promotion
from lazyt.guard_text import (
    CannotWrite,
    Names,
    conditions,
    dict_below,
    leaf_of_grad,
    tagged_dicts,
    tensor_condition,
)
from lazyt.index_checks import ComputedChecks
from lazyt.places import GradOf, InTable, TensorPlace, is_plain, same_plain
from lazyt.replay import Made, Replay
from lazyt.runtime import dict_tags, events
from lazyt.shortcut import MISSED
from lazyt.storage import Storage
from lazyt.tape import AccumulateGrad
from lazyt.templates import Origin
from lazyt.tensor import Tensor
from lazyt.trees import Flat, Opening, Tree

#: Functions that the text calls by these names.
_HELPERS = ("alone", "computed", "fresh", "gradient_of", "in_range", "is_other", "keep", "write")


def refuse(what: str) -> NoReturn:
    """Raises CannotWrite."""
    raise CannotWrite(what)


def _leaves_of(shape: Any, opening: Opening, args: Any, kwargs: Any) -> list[Any] | None:
    """The leaves of a call's arguments, None where these have another shape."""
    flat = Flat((args, kwargs), opening)
    return flat.leaves if flat.shape == shape else None


class Inlet:
    """Writes the function's first half. Locals of the text: ``a0`` ... leaves of the arguments;
    ``s3``, ``n3``, ``d3`` storage, node and buffer of the tensor that was given with number 3;
    ``e0`` ... kept tensors of fresh storages, with ``f0`` whether they are free.

    Attributes:
        names: objects that the text names.
        lines: the text so far; ``quick`` what is left of it where ``Steady`` has found all well,
            if ``is_quick``.
        tagged: dicts that the tags tell of.
        given, stores, nodes: expressions of tensors that come in, of their storages and nodes.
        steady: storages of those tensors that are the same at every call.
        arguments: numbers of the tensors that are arguments.
        first: the number that a tensor in places has the first time, by all its numbers.
        makers: fresh storages that are one plain tensor each, with the tensor.
        looked_at: the steady tensors, with their storages.
        gradients: those that become gradients, by the identity of the leaf.
    """

    def __init__(
        self, replay: Replay, opening: Opening, shape: Any, leaves: Sequence[Any], result: Any,
        polled: set[int], moving: Sequence[int],
    ) -> None:  # fmt: skip
        self.replay, self._opening = replay, opening
        self._moving = list(moving)
        self.shape, self.leaves, self.result = shape, leaves, result
        self.names = Names()
        self.bind = self.names.bind
        self.lines: list[str] = []
        self.quick: list[str] = []
        self.is_quick = dict_tags.available() and steady.available()
        written = [w.table for w, _ in replay.effects if isinstance(w, InTable)]
        own = {id(dict_below(table)) for table in written}
        self.tagged = tagged_dicts(replay.guards, polled | own) if dict_tags.available() else {}
        self.given: dict[int, str] = {}
        self.stores: dict[int, str] = {}
        self.nodes: dict[int, str] = {}
        self.steady: dict[int, Storage] = {}
        self.first: dict[int, int] = {}
        self.arguments = {n for n, leaf in enumerate(x for x in leaves if isinstance(x, Tensor))}
        self.used = {replay.holders[i] for i in replay.used}
        self.makers: dict[int, Made] = {}
        self.gradients: dict[int, int] = {}
        self.looked_at: list[tuple[Tensor, Storage]] = []
        self._known: set[Storage] = set()
        self._seen: dict[int, tuple[int, str, Tensor]] = {}  # arguments by their storages
        self._admitted: tuple[int, int, Sequence[Any]] | None = None
        self._late: list[str] = []  # lines about arguments, once all else is known to be right
        self.names.table.update(
            __name__=__name__,  # no code of the user's, to a capture that calls it
            MISSED=MISSED, KNOWN=self._known, kept=[None] * (2 * len(replay.flags)), turn=[0],
            is_part=is_part, value_of_part=value_of_part, equal_counts=equal_counts,
            **{name: getattr(shortcut, name) for name in _HELPERS},
        )  # fmt: skip

    def write_tests(self, tags: dict_tags.Tags | None) -> None:
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
        self.head, self.lines = self.lines, []
        self._twins = self._find_twins()
        self._write_tensors()
        self._write_gradients()
        self._part_ways()
        self._write_kept()
        self.both(*self._late)
        for origin, bounds in self.replay.checks.inputs:
            holder, never = self._holder(origin)
            test = f"if not in_range({self.nodes[holder]}, {self.bind(bounds)}): return MISSED"
            (self.add if never else self.both)(test)
            self.is_quick = self.is_quick and (never or holder in self.arguments)
        if self.replay.checks.computed is not None:
            self._check_computed(self.replay.checks.computed)

    def _holder(self, origin: Origin) -> tuple[int, bool]:
        """The number of the tensor that an input is, and whether it never changes while the words
        hold, so that it stays within its bounds."""
        kind, number = origin
        holder = number if kind == "part" else self.replay.holders[number]
        never = kind == "source" and holder in self.steady and number not in self.replay.written
        return holder, never

    def _check_computed(self, checks: ComputedChecks) -> None:
        """Writes the test of what is computed from inputs to be checked."""
        holders = [self._holder(origin) for origin in checks.places or ()]
        nodes = [
            f"{self.stores[holder]}.node" if never else self.nodes[holder]
            for holder, never in holders
        ]
        self.both(f"if not {self.bind(checks.hold_of)}({', '.join(nodes)}): return MISSED")
        self.is_quick = self.is_quick and all(
            never or holder in self.arguments for holder, never in holders
        )

    def _write_modes(self) -> None:
        """What decides, beside arguments and state, what a function does."""
        bind, mode = self.bind, grad_mode.mode
        default = promotion.get_default_dtype()
        self.require(
            f"{bind(mode)}.enabled is {mode.enabled}",
            f"{bind(mode)}.inference is {mode.inference}",
            f"{bind(cast_mode.mode)}.dtype is {bind(cast_mode.mode.dtype)}",
            f"{bind(vars(promotion))}['_default'] is {bind(default)}",
            f"{bind(config)}._of_plans == {bind(config.of_plans)}",
            f"not {bind(events.watching)}",
        )  # fmt: skip

    def add(self, *lines: str) -> None:
        """Appends lines of the text."""
        self.lines.extend(lines)

    def both(self, *lines: str) -> None:
        """Appends lines of the text that are needed where all was found well, too."""
        self.add(*lines)
        self.quick.extend(lines)

    def require(self, *tests: str) -> None:
        """All ``tests`` have to be true; else the function ends."""
        self.add(f"if not ({' and '.join(tests)}): return MISSED")

    # ------------------------------------------------------------------ arguments

    def _write_arguments(self) -> None:
        self._count = 0
        before = len(self.lines)
        if any(Tree.structures(self.shape)):
            leaves_of = functools.partial(_leaves_of, self.shape, self._opening)
            self.names.table["leaves_of"] = leaves_of
            self.add("opened = leaves_of(args, kwargs)", "if opened is None: return MISSED")
            for number in range(len(self.leaves)):
                self._leaf(f"opened[{number}]")
        else:
            for part, text in zip(self.shape[1], ("args", "kwargs"), strict=True):
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
        (_, given), (_, named) = self.shape[1]
        names = [f"a{n}" for n in range(len(given))]
        if not (named or any(given) or self.replay.parts) and [*self.given.values()] == names:
            self._admitted = (before, len(self.lines), self.leaves)

    def first_lines(self) -> list[str]:
        """The head, where compiled C looks at arguments first; all tensors in places are known."""
        if self._admitted is None:
            return self.head
        before, after, examples = self._admitted
        try:
            admission = Admission(examples, self._known)
        except LookupError:
            return self.head
        self.names.table.update(admission=admission, admit=admission.admit)
        taken = [f"    a{n} = args[{n}]; s{n} = a{n}._storage" for n in range(len(examples))]
        taken += ["else:", *("    " + line for line in self.head[before:after])]
        start = [*self.head[:before], "if not kwargs and admit(args):"]
        return [*start, *taken, *self.head[after:]]

    def _part_ways(self) -> None:
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
        """An object that is the same at every call, which the shortcut does not keep alive."""
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
        elif number in self.used:
            self._late.append(f"n{number} = {store}.node")
            self._late.append(f"if n{number}.data is None or n{number}.inputs:")
            self._late.append(f"    n{number} = computed({store})")

    # ------------------------------------------------------------------ tensors in places

    def _place_tests(self) -> list[str]:
        tests: list[str] = []
        for place in self.replay.places:
            if not isinstance(place.where, GradOf):
                tensor = place.where.get(())
                if not isinstance(tensor, Tensor):
                    refuse(place.path)
                test = tensor_condition(place, tensor, self.bind, self.tagged)
                tests += [] if test is None else [test]
        return tests

    def _numbered(self, gradients: bool) -> list[tuple[int, TensorPlace]]:
        start = sum(isinstance(leaf, Tensor) for leaf in self.leaves)
        places = enumerate(self.replay.places, start)
        return [(n, p) for n, p in places if isinstance(p.where, GradOf) is gradients]

    def _write_tensors(self) -> None:
        """Looks at the tensors that places hold, which are the same at every call."""
        seen: dict[int, int] = {}
        for number, place in self._numbered(False):
            tensor = place.where.get(())
            first = self.first[number] = seen.setdefault(id(tensor), number)
            self.given[number] = self.bind(tensor)
            if first == number:
                self._tensor(tensor, number)
            self.stores[number], self.nodes[number] = self.stores[first], self.nodes[first]
            self.steady[number] = self.steady[first]

    def _tensor(self, tensor: Tensor, number: int) -> None:
        storage, bind = tensor._storage, self.bind
        fn = storage.fn
        if storage.share is not None or tensor._view is not None or storage in self._known:
            refuse("a tensor that shares memory")
        if id(storage) in self._seen:
            refuse("an argument that a place holds, too")
        if tensor.__dict__ or not (fn is None or type(fn) is AccumulateGrad):
            refuse("a tensor with attributes or with history")
        self._known.add(storage)
        self.looked_at.append((tensor, storage))
        t, s, n, f = bind(tensor), bind(storage), f"n{number}", bind(fn)
        self.stores[number], self.nodes[number], self.steady[number] = s, n, storage
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
        if number in self.used:
            self.add(f"d{number} = {n}.data", f"if d{number} is None: return MISSED")

    def _find_twins(self) -> dict[int, int]:
        """Gradients that are tensors which other places hold, too, with the number there: a caller
        who assigned them can reach them by names of its own."""
        numbers: dict[int, int] = {}
        found: dict[int, int] = {}
        for number, place in self._numbered(False):
            numbers.setdefault(id(place.where.get(())), number)
        for number, place in self._numbered(True):
            leaf = leaf_of_grad(place.where)
            twin = numbers.get(id(leaf.grad))
            if twin is not None and id(leaf) not in self.gradients:
                found[number] = twin
                if number in self.used:
                    self.used.add(twin)
        return found

    def _twin(self, number: int, twin: int, leaf: str) -> None:
        """A gradient that is a tensor which another place holds."""
        first = self.first[number] = self.first[twin]
        self.given[number] = self.given[twin]
        self.stores[number], self.nodes[number] = self.stores[first], self.nodes[first]
        self.steady[number] = self.steady[first]
        self.require(f"{leaf}.grad is {self.given[twin]}")

    def _write_gradients(self) -> None:
        """Looks at gradients, and finds out which kept ones are free."""
        used: list[str] = []
        self._attached: dict[int, AccumulateGrad] = {}
        for number, place in self._numbered(True):
            leaf = leaf_of_grad(place.where)
            f, looks = self.bind(leaf), self.bind(place.looks)
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
            if number in self.used or fresh is None:
                s, n = self.stores[number], self.nodes[number] = f"s{number}", f"n{number}"
                self.add(line, test, f"{n} = {s}.node")
                if number in self.used:
                    used.append(s)
                    self.add(f"d{number} = n{number}.data", f"if d{number} is None: return MISSED")
            else:
                self._attached[fresh] = leaf
                e = f"e{fresh}"
                self.add(f"{e} = kept[{2 * fresh}]")
                free = f"{e} is not None and {f}.grad is {e}.tensor and {e}.is_free(1)"
                self.add(f"f{fresh} = {free}")
                self.add(f"if not f{fresh}:", f"    {line}", f"    {test}", f"    del s{number}")
        if len(used) > 1:
            self.require(f"is_other(({', '.join(used)}))")
        self.is_quick = self.is_quick and len(self._attached) == len(self._numbered(True))

    def _write_kept(self) -> None:
        """Finds out which kept tensors are free, but for those that are gradients now."""
        turns = False
        for fresh in self.makers:
            if fresh not in self._attached:
                place = str(2 * fresh)
                if fresh not in self.gradients.values():  # the last result is still in use
                    place += " + turn[0]"
                    if not turns:
                        self.both("turn[0] = 1 - turn[0]")
                    turns = True
                e = f"e{fresh}"
                free = f"{e} is not None and ({e}.holds() or {e}.is_free(0))"
                self.both(f"{e} = kept[{place}]", f"f{fresh} = {free}")
