"""Schedules: graphs with collectives, calls of Python or of matrix routines, as captured functions
run them.

A schedule is a list of steps: a plan is run, a collective is started, a collective is waited for,
Python or a routine is called. It is made once and run again and again on other leaves. Passes make
it:

``gather_again`` (``resharding.py``) gathers parameters that ranks divide once for forward and once
for backward.

``coalesce`` (``coalescing.py``) makes one collective of several small ones, where programs let it.

``place_collectives`` keeps every collective that the function made, also those whose value this
rank does not use, as all ranks run the same ones, and puts them in an order: each as soon as its
operand can be computed, those of one lane in the order of the program.

``overlap_transfers`` puts what does not depend on a collective between its start and its wait, and
the wait as late as possible.

``release_buffers`` lets go of values after the last step that reads them; a transfer holds on to
its operand by itself. Parameters are written over by the last step that reads them.

No pass changes what is computed, nor the order of any sum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from lazyt import ops
from lazyt.config import config
from lazyt.ir.forms import PLACED, place_of
from lazyt.ir.graph import Node, rebuild, remake, topological
from lazyt.ops import LIBRARY
from lazyt.ops.leaves import CONST
from lazyt.plan.control import collectives, python_calls
from lazyt.plan.control.coalescing import Coalesced, coalesce
from lazyt.plan.control.collectives import COLLECTIVE, Call, Realize, Started
from lazyt.plan.control.library_calls import LibraryCall
from lazyt.plan.control.resharding import gather_again, parts_of, windows
from lazyt.plan.graph_keys import BETWEEN_PLANS
from lazyt.plan.retention import find_retained
from lazyt.runtime.memory import Buffer
from lazyt.runtime.ranks.groups import named

if TYPE_CHECKING:
    from lazyt.ops.control.python_calls import PythonCall
    from lazyt.plan.explain import Explanation
    from lazyt.plan.planning import Prepared
    from lazyt.plan.steps import Planner


class Compute(NamedTuple):
    """A plan is run.

    Attributes:
        plan: what runs it.
        inputs, outputs: slots of its leaves and of its roots.
    """

    plan: Prepared
    inputs: list[int]
    outputs: list[int]


class Start(NamedTuple):
    """A collective is started: its number in the schedule, and the slot of its operand."""

    call: int
    operand: int


class Wait(NamedTuple):
    """A collective is waited for: its number in the schedule, and the slot of its value."""

    call: int
    result: int


class Invoke(NamedTuple):
    """Python or a matrix routine is called.

    Attributes:
        call: what is called.
        operands: slots of its operands; -1 for one without elements.
        results: slots of its results; -1 for one that nobody reads.
        fact: what the plan's notes say of it.
    """

    call: PythonCall | LibraryCall
    operands: list[int]
    results: list[int]
    fact: dict[str, Any]


Step = Compute | Start | Wait | Invoke
#: Of collectives that stand for several, what these are, and their lines.
Members = Mapping[Node, Sequence[tuple[str, str]]]


class _Segment(NamedTuple):
    """What one plan is to compute: some nodes, and all that is computed on the way."""

    roots: list[Node]
    cone: list[Node]


class Schedule:
    """A graph with collectives, to be run again on other leaves. It stands for a ``Prepared``.

    Attributes:
        plan: None, as there are several.
        leaves: the leaves, in the order in which ``run`` takes their buffers.
        calls: the collectives, in the order in which the program made them.
        steps: what is done, in order.
    """

    plan = None
    fixed: Sequence[Buffer] = ()

    def __init__(
        self,
        leaves: list[Node],
        calls: Sequence[Node],
        steps: Sequence[Step],
        results: Sequence[int],
        count: int,
        realize: Realize,
        members: Members = MappingProxyType({}),
    ) -> None:
        self._realize = realize
        self.leaves, self.steps, self._results, self._count = leaves, list(steps), results, count
        self._leaf_count = len(leaves)
        self.calls = [Call.of(call) for call in calls]
        self._facts = [_note(call, members.get(call, ())) for call in calls]
        self._forms = _Forms(self.calls)
        self._dropped = _release_buffers(self.steps, results)
        # What was computed while the function was captured is there for the first run.
        self._ready = [s.call.ready if isinstance(s, Invoke) else None for s in self.steps]
        self._agreed = False
        self._times: dict[int, tuple[float, float, float]] = {}

    @property
    def overwritten(self) -> list[int]:
        """Numbers of the leaves whose buffers ``run`` may write to."""
        found: dict[int, None] = {}
        for step in self.steps:
            if isinstance(step, Compute):
                slots = [step.inputs[place] for place in step.plan.overwritten]
                found.update(dict.fromkeys(s for s in slots if s < self._leaf_count))
        return list(found)

    def run(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        """The buffers of the roots, in their order, for these buffers of the leaves. Raises
        RankFailure, the first time also where the ranks' collectives differ."""
        values: list[Any] = [*inputs, *[None] * (self._count - len(inputs))]
        numbers: list[int] = []
        if self.calls:
            collectives.start_made(self._realize)  # which the program made before
            numbers = self._forms.come_to(ask=not self._agreed)
            self._agreed = True
        under_way: dict[int, Started] = {}
        for place, (step, dropped) in enumerate(zip(self.steps, self._dropped, strict=True)):
            if isinstance(step, Compute):
                found = step.plan.run([values[slot] for slot in step.inputs])
                for slot, buffer in zip(step.outputs, found, strict=True):
                    values[slot] = buffer
                for started in under_way.values():
                    started.transfer.test()  # engines move what is under way while somebody looks
            elif isinstance(step, Invoke):
                ready, self._ready[place] = self._ready[place], None
                if ready is None:
                    ready = step.call.function(
                        [Buffer(0) if slot < 0 else values[slot] for slot in step.operands]
                    )
                for slot, buffer in zip(step.results, ready, strict=True):
                    if slot >= 0:
                        values[slot] = buffer
            elif isinstance(step, Start):
                call, operand = self.calls[step.call], values[step.operand]
                under_way[step.call] = collectives.begin(
                    call, named(call.group), numbers[step.call], operand
                )
            else:
                ended = under_way.pop(step.call)
                waiting = time.monotonic()
                values[step.result] = ended.wait()
                self._times[step.call] = ended.begin, waiting, time.monotonic()
            for slot in dropped:
                values[slot] = None
        return [values[slot] for slot in self._results]

    def explain(self, explain_plan: Callable[[Any], Explanation]) -> Explanation:
        """The kernels, transfers and calls, in the order of the steps; of each collective its
        bytes, group and line, between which kernels it is under way, and how much of that was
        hidden when it ran last."""
        from lazyt.plan.explain import Explanation

        parts = [
            explain_plan(step.plan.plan) if isinstance(step, Compute) else None
            for step in self.steps
        ]
        rows = [1 if part is None else len(part.kernels) for part in parts]
        notes = iter(self._notes(rows))
        whole = Explanation((), 0)
        for part in parts:
            whole = whole.followed_by(Explanation([next(notes)], 0) if part is None else part)
        return whole

    def _notes(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """What is said of each start and wait; ``rows``: lines of the table of each step."""
        first = [sum(rows[:number]) for number in range(len(rows))]
        starts = {s.call: first[n] for n, s in enumerate(self.steps) if isinstance(s, Start)}
        waits = {s.call: first[n] for n, s in enumerate(self.steps) if isinstance(s, Wait)}
        notes = []
        for step in self.steps:
            if isinstance(step, Compute):
                continue
            if isinstance(step, Invoke):
                notes.append(step.fact)
                continue
            base = dict(self._facts[step.call])
            if isinstance(step, Wait):
                base |= {"kind": "wait", "bytes_read": 0, "bytes_written": 0}
                base["reasons"] = [f"of what line {starts[step.call] + 1} starts"]
            else:
                call = self.calls[step.call]
                begin, end = starts[step.call], waits[step.call]
                before = f"after line {begin}" if begin else "at once"
                base["reasons"] = [
                    f"{call.sent} bytes of group {call.group!r}, started "
                    f"{before}, waited for at line {end + 1}",
                    self._hidden(step.call, end - begin - 1),
                    *base["reasons"][1:],
                ]
            notes.append(base)
        return notes

    def _hidden(self, number: int, lines: int) -> str:
        times, call = self._times.get(number), self.calls[number]
        if call.place and named(call.group).devices is not None:
            return f"{lines} lines run between: the device waits where it has to, the host nowhere"
        if times is None:
            return f"{lines} lines run between: the transfer is hidden as far as they last"
        begin, waiting, end = times
        share = (waiting - begin) / max(end - begin, 1e-9)
        return (
            f"when it ran last it took {(end - begin) * 1e3:.3g} ms, of which this rank waited "
            f"{(end - waiting) * 1e3:.3g} ms: {share:.0%} are hidden"
        )

    def __str__(self) -> str:
        lines = []
        for number, step in enumerate(self.steps, 1):
            if isinstance(step, Compute):
                made = ", ".join(f"%{slot}" for slot in step.outputs)
                read = ", ".join(f"%{slot}" for slot in step.inputs)
                lines.append(f"{number:3}  {made} = compute({read})")
                continue
            if isinstance(step, Invoke):
                made = ", ".join("_" if slot < 0 else f"%{slot}" for slot in step.results)
                read = ", ".join("_" if slot < 0 else f"%{slot}" for slot in step.operands)
                lines.append(f"{number:3}  {made} = {step.fact['name']}({read})")
                continue
            call = self.calls[step.call]
            text = f"{call.text} over {call.group!r}"
            if isinstance(step, Start):
                lines.append(f"{number:3}  start {step.call}: {text} of %{step.operand}")
            else:
                lines.append(f"{number:3}  %{step.result} = wait {step.call}")
        return "\n".join(lines)


def _note(call: Node, members: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The note of a collective, with those that it stands for."""
    fact = collectives.note(call)
    if members:
        text = ", ".join(f"{what} at {line}" for what, line in members)
        fact["reasons"] = [*fact["reasons"], f"several small collectives are one: {text}"]
        fact["sources"] = list(dict.fromkeys(line for _, line in members))
    return fact


class _Forms:
    """What the collectives of a schedule are, as other ranks are told."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._lanes: dict[tuple[str, int], list[int]] = {}
        for number, call in enumerate(calls):
            self._lanes.setdefault((call.group, call.lane), []).append(number)
        self._texts = [(call.text, call.line, call.written) for call in calls]
        self._key = sha256(repr(self._texts).encode()).hexdigest()[:16]

    def come_to(self, ask: bool) -> list[int]:
        """Tells the other ranks that this one comes to all of them; the number of each."""
        found = [0] * len(self._texts)
        for (group, lane), some in self._lanes.items():
            texts = [self._texts[number] for number in some]
            first = named(group).come_to_all(texts, lane, self._key, ask)
            for place, number in enumerate(some):
                found[number] = first + place
        return found


def collectives_of(roots: Iterable[Node], noted: Sequence[Node]) -> list[Node]:
    """The collectives that a function made and others of its graph that have no value, in order."""
    order = topological([*noted, *roots], lambda node: node.data is not None)
    inside = [node for node in order if node.op is COLLECTIVE and node.data is None]
    known = dict.fromkeys(node for node in noted if node.data is None)
    return [*known, *[node for node in inside if node not in known]]


def schedule(
    roots: Sequence[Node],
    calls: Sequence[Node],
    owners: Mapping[Node, int],
    planner: Planner,
) -> Schedule | None:
    """How to compute ``roots``, different pending nodes of some size, and to run ``calls``, all
    collectives that they depend on, in an order that all ranks have; None where other calls between
    plans stand in the way.

    ``owners``: leaves whose memory a root may take over, with the root's number.
    """
    order = topological([*calls, *roots], lambda node: node.data is not None)
    for node in order:
        if node.data is None and node.op.lower in BETWEEN_PLANS and node.op is not COLLECTIVE:
            return None
    found = Coalesced(*gather_again(roots, calls), {})
    if config.coalesce_collectives:
        found = coalesce(found.roots, found.calls)
    order = topological([*found.calls, *found.roots], lambda node: node.data is not None)
    graph = _Graph(order, found.roots, found.calls)
    actions = overlap_transfers(graph, place_collectives(graph))
    return _Builder(graph, owners, planner, found.members).build(actions)


def schedule_python(
    roots: Sequence[Node], noted: Sequence[Node], planner: Planner
) -> Schedule | None:
    """How to compute ``roots``, different pending nodes of some size, of which Python computes
    some, and to make all calls of Python that they depend on or that are ``noted``, in the order of
    the program; None where other calls between plans stand in the way.

    No leaf is written over, as a call may raise.
    """
    order = topological([*noted, *roots], lambda node: node.data is not None)
    groups: dict[PythonCall, list[Node]] = {}
    for node in order:
        if node.data is None and node.op.lower == "python":
            groups.setdefault(node.params.call, []).append(node)
        elif node.data is None and node.op.lower in BETWEEN_PLANS:
            return None
    graph = _Graph(order, roots, ())
    actions: list[Action] = []

    def compute(wanted: Iterable[Node]) -> None:
        segment = graph.segment([node for node in wanted if 0 not in node.shape])
        if segment is not None:
            actions.append(("compute", segment))

    for call in sorted(groups, key=lambda item: item.number):
        compute(groups[call][0].inputs)
        actions.append(("invoke", groups[call]))
        graph.known.update(groups[call])
    compute(graph.roots)
    return _Builder(graph, {}, planner).build(actions)


def schedule_library(
    roots: Sequence[Node], levels: Sequence[Sequence[Node]], planner: Planner
) -> Schedule | None:
    """How to compute ``roots``, different pending nodes of some size, on the host; None where other
    calls between plans than of matrix routines stand in the way.

    ``levels``: the calls that they depend on, those first that depend on no other (``call_levels``
    of ``lazyt/plan/steps.py``). No leaf is written over, as a call may raise.
    """
    order = topological(roots, lambda node: node.data is not None)
    calls = [call for level in levels for call in level]
    if any(call.op is not LIBRARY for call in calls) or any(n.form < PLACED for n in order):
        return None
    graph = _Graph(order, roots, ())
    actions: list[Action] = []

    def compute(wanted: Iterable[Node]) -> None:
        segment = graph.segment([node for node in wanted if 0 not in node.shape])
        if segment is not None:
            actions.append(("compute", segment))

    for level in levels:
        compute(item for call in level for item in call.inputs)
        actions += [("routine", [call]) for call in level]
        graph.known.update(level)
    compute(graph.roots)
    return _Builder(graph, {}, planner).build(actions)


class _Graph:
    """A graph with collectives.

    Attributes:
        order: all nodes, inputs before users.
        roots: what is wanted, as the nodes that have the memory.
        calls: the collectives, in order.
        needs: of each node, the collectives that it depends on, as bits.
        users: of each node, those that read it.
        readers: what computes with parameters that are divided again, and is kept, so that they are
            not read once more.
        done: the collectives that have been waited for, as bits.
        known: what has been computed so far, in the order of the actions.
    """

    def __init__(self, order: Sequence[Node], roots: Sequence[Node], calls: Sequence[Node]) -> None:
        self.order, self.calls = list(order), list(calls)
        self.roots = [bottom(node) for node in roots]
        self.finals = set(self.roots)
        self.number = {call: number for number, call in enumerate(calls)}
        parts = parts_of(order)
        self.readers = {n for n in order if n not in parts and any(i in parts for i in n.inputs)}
        self.needs: dict[Node, int] = {}
        self.users: dict[Node, list[Node]] = {node: [] for node in order}
        for node in order:
            if node.data is not None:
                self.needs[node] = 0
                continue
            found = 0
            for item in node.inputs:
                found |= self.needs[item]
                self.users[item].append(node)
            if node.op is COLLECTIVE:
                found |= 1 << self.number[node]
            self.needs[node] = found
        self.done = 0
        self.known: set[Node] = set()

    def is_there(self, node: Node) -> bool:
        """Whether a node has its value at this point."""
        return node.data is not None or node in self.known

    def segment(self, wanted: Iterable[Node]) -> _Segment | None:
        """What computes some nodes, and keeps what is costly and used later."""
        roots = [n for n in dict.fromkeys(map(bottom, wanted)) if not self.is_there(n)]
        roots = [n for n in roots if n.op is not COLLECTIVE]
        if not roots:
            return None
        cone = [n for n in topological(roots, self.is_there) if not self.is_there(n)]
        inside, asked = set(cone), set(roots)
        outside = {
            node: node in self.finals or any(user not in inside for user in self.users[node])
            for node in cone
        }
        kept = [n for n in find_retained(cone, outside, asked, set()) if n in inside]
        kept += [n for n in cone if outside[n] and n in self.readers]
        roots += [n for n in dict.fromkeys(map(bottom, kept)) if n not in asked and n in inside]
        self.known.update(roots)
        return _Segment(list(dict.fromkeys(roots)), cone)

    def ready(self) -> list[Node]:
        """What can be computed now, and is costly or wanted in the end, among what is used only
        together with what is still under way."""
        costly: set[Node] = set()
        found = []
        for node in self.order:
            if self.is_there(node) or self.needs[node] & ~self.done or node.op is COLLECTIVE:
                continue
            heavy = node.op.heavy or node in self.readers
            if heavy or any(item in costly for item in node.inputs):
                costly.add(node)
            if not node.inputs:
                continue
            later = any(self.needs[user] & ~self.done for user in self.users[node])
            if node in self.finals or (later and node in costly):
                found.append(node)
        return found


def bottom(node: Node) -> Node:
    """The node that has the memory of a value: below what only gives it a name or a shape."""
    while node.data is None and (node.op.is_identity or node.op.name == "reshape"):
        if node.inputs[0].op is CONST:
            break
        node = node.inputs[0]
    return node


class _Placed(NamedTuple):
    """A collective in the order of starts, and those that have to be waited for before it."""

    call: int
    waits: list[int]
    is_forced: bool


def place_collectives(graph: _Graph) -> list[_Placed]:
    """The order in which collectives are started.

    One that waits for nothing comes first, unless another waits for one that has been under way
    while something was computed: the second half of a sum follows when the first half of the next
    has been started. Parameters are gathered when those before have come in (``windows``). A rank
    waits for none before it has started all that the program made earlier (else two ranks could
    wait for each other).
    """
    found: list[_Placed] = []
    remaining = list(range(len(graph.calls)))
    done, started, aged = 0, 0, 0
    held = windows(graph.calls)
    while remaining:
        heads: dict[tuple[str, int], int] = {}
        for number in remaining:
            params = graph.calls[number].params
            heads.setdefault((params.group, params.lane), number)
        needs = {
            n: (graph.needs[graph.calls[n].inputs[0]] | held[n]) & ~done for n in heads.values()
        }
        free = [n for n in heads.values() if not needs[n]]
        old = [
            n for n in heads.values()
            if needs[n] and not needs[n] & ~(started & aged) and needs[n] < 1 << (remaining[0])
        ]  # fmt: skip
        chosen = min(old or free or [remaining[0]])
        waits = [n for n in range(len(graph.calls)) if needs[chosen] >> n & 1]
        is_forced = bool(waits) and (not old or held[chosen] & needs[chosen] != 0)
        found.append(_Placed(chosen, waits, is_forced))
        done |= needs[chosen]
        if not waits:
            aged |= started
        started |= 1 << chosen
        remaining.remove(chosen)
    return found


#: What is done: a segment is computed, a collective started or waited for, by its number.
Action = tuple[str, Any]


def overlap_transfers(graph: _Graph, placed: Sequence[_Placed]) -> list[Action]:
    """The steps: before a rank has to wait, it computes what does not depend on what is under way
    and is needed later. What is wanted in the end is computed as the collectives that it depends on
    come in."""
    actions: list[Action] = []

    def compute(wanted: Iterable[Node]) -> None:
        segment = graph.segment(wanted)
        if segment is not None:
            actions.append(("compute", segment))

    def wait(number: int) -> None:
        if not graph.done >> number & 1:
            actions.append(("wait", number))
            graph.done |= 1 << number
            graph.known.add(graph.calls[number])

    for number, waits, is_forced in placed:
        if is_forced:
            compute(graph.ready())
        for other in waits:
            wait(other)
        compute([graph.calls[number].inputs[0]])
        actions.append(("start", number))
    used = 0
    for root in graph.roots:
        used |= graph.needs[root]
    numbers = range(len(graph.calls))
    for number in sorted(numbers, key=lambda n: not used >> n & 1):
        if not graph.done >> number & 1:
            compute(graph.ready())
            wait(number)
    compute(graph.roots)
    return actions


class _Builder:
    """Makes a schedule of actions: gives values their slots, and finds the plans."""

    def __init__(
        self,
        graph: _Graph,
        owners: Mapping[Node, int],
        planner: Planner,
        members: Members = MappingProxyType({}),
    ) -> None:
        self._graph, self._owners, self._planner, self._members = graph, owners, planner, members
        self._leaves: list[Node] = []
        self._slots: dict[Node, int] = {}
        self._stand_ins: dict[Node, Node] = {}

    def build(self, actions: Sequence[Action]) -> Schedule | None:
        """The schedule; None where a segment has no plan."""
        graph = self._graph
        reads = [_leaves_of(what) if kind == "compute" else set() for kind, what in actions]
        last = {leaf: place for place, leaves in enumerate(reads) for leaf in leaves}
        bases = [bottom(call.inputs[0]) for call in graph.calls]
        invoked = [what[0] for kind, what in actions if kind in ("invoke", "routine")]
        bases += [bottom(item) for call in invoked for item in call.inputs]
        for node in [leaf for some in reads for leaf in some] + bases + graph.roots:
            if node.data is not None and node not in self._slots:
                self._slots[node] = len(self._leaves)
                self._leaves.append(node)
        count = len(self._leaves)
        held = {*bases, *graph.roots}
        steps: list[Step] = []
        for place, (kind, what) in enumerate(actions):
            if kind == "start":
                steps.append(Start(what, self._slots[bases[what]]))
            elif kind == "wait":
                self._slots[graph.calls[what]] = count
                steps.append(Wait(what, count))
                count += 1
            elif kind == "invoke":
                steps.append(self._invoked(what, count))
                count += len(what[0].params.call.types)
            elif kind == "routine":
                steps.append(self._routine(what[0], count))
                count += 1
            else:
                segment: _Segment = what
                owners = {
                    leaf: segment.roots.index(root)
                    for leaf, number in self._owners.items()
                    if last.get(leaf) == place and leaf not in held
                    and (root := graph.roots[number]) in segment.roots
                }  # fmt: skip
                plan = self._plan(segment, owners)
                if plan is None:
                    return None
                outputs = list(range(count, count + len(segment.roots)))
                inputs = [self._slot_of(leaf) for leaf in plan.leaves]
                self._slots.update(zip(segment.roots, outputs, strict=True))
                count += len(outputs)
                plan.leaves = []  # they would hold on to values
                steps.append(Compute(plan, inputs, outputs))
        results = [self._slots[root] for root in graph.roots]
        rest = steps, results, count, self._planner.realize, self._members
        made = Schedule(self._leaves, graph.calls, *rest)
        if config.dump is not None:
            from lazyt.runtime.dumps import dumps

            dumps.write("schedule.txt", f"{made}\n")
        return made

    def _invoked(self, group: Sequence[Node], first: int) -> Invoke:
        """The call of nodes that are its results, whose slots begin with ``first``."""
        call, inputs = group[0].params.call, group[0].inputs
        results = [-1] * len(call.types)
        for node in group:
            results[node.params.result] = self._slots[node] = first + node.params.result
        operands = [-1 if 0 in i.shape else self._slots[bottom(i)] for i in inputs]
        return Invoke(call, operands, results, python_calls.note(call, inputs, group[0].source))

    def _routine(self, node: Node, slot: int) -> Invoke:
        """The call of a matrix routine, whose result gets a slot."""
        self._slots[node] = slot
        call = LibraryCall(node)
        operands = [-1 if 0 in i.shape else self._slots[bottom(i)] for i in node.inputs]
        return Invoke(call, operands, [slot], call.fact)

    def _slot_of(self, leaf: Node) -> int:
        return self._slots[self._stand_ins.get(leaf, leaf)]

    def _plan(self, segment: _Segment, owners: Mapping[Node, int]) -> Prepared | None:
        def is_leaf(node: Node) -> bool:
            return node.data is not None or node in self._slots

        def change(node: Node, inputs: tuple[Node, ...]) -> Node:
            if node.data is not None or not node.inputs:
                return node
            return self._stand_in(node) if node in self._slots else remake(node, inputs)

        return self._planner.prepare(rebuild(segment.roots, change, is_leaf), owners)

    def _stand_in(self, node: Node) -> Node:
        """A leaf that stands for what an earlier step gives."""
        for made, known in self._stand_ins.items():
            if known is node:
                return made
        made = ops.input_(node.shape, node.dtype, _Promised(node.nbytes, place_of(node.form)))
        self._stand_ins[made] = node
        return made


class _Promised(Buffer):
    """Memory of a value that an earlier step gives, which nobody looks at."""

    __slots__ = ("place",)

    place: str

    def __init__(self, nbytes: int, place: str) -> None:
        self.ptr, self.nbytes, self.place = 0, nbytes, place
        self._home = None


def _leaves_of(segment: _Segment) -> set[Node]:
    return {
        item for node in segment.cone for item in node.inputs
        if item.data is not None and item.op is not CONST
    }  # fmt: skip


def _release_buffers(steps: Sequence[Step], results: Sequence[int]) -> list[list[int]]:
    """After each step, the slots that no later one reads."""
    last: dict[int, int] = {}
    for place, step in enumerate(steps):
        if isinstance(step, Compute):
            last.update(dict.fromkeys([*step.inputs, *step.outputs], place))
        elif isinstance(step, Invoke):
            last.update(dict.fromkeys([*step.operands, *step.results], place))
        else:
            last[step.operand if isinstance(step, Start) else step.result] = place
    found: list[list[int]] = [[] for _ in steps]
    for slot, place in last.items():
        if slot >= 0 and slot not in results:
            found[place].append(slot)
    return found


__all__ = [
    "Compute", "Invoke", "Schedule", "Start", "Wait", "bottom", "collectives_of",
    "overlap_transfers", "place_collectives", "schedule", "schedule_library", "schedule_python",
]  # fmt: skip
