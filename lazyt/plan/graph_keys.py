"""The structure of a graph that has to be computed: what does not change from call to call.

A graph is numbered in order of first visit, and its key is a list of numbers: for a node that has
to be computed the number of its op and parameters and those of its inputs, for a leaf the number of
its type. Constants, starts of slices and the marks of variables stay open. Graphs with equal keys
have one Structure, which remembers everything that the key decides, so that a graph that is met
again costs one walk and a look at the reference counts.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from lazyt import ops
from lazyt.config import config
from lazyt.ir.dtypes import float32
from lazyt.ir.forms import place_of
from lazyt.ir.graph import Head, Node, clock
from lazyt.ops.leaves import CONST, INPUT, VARIABLE
from lazyt.plan.constant_lifting import SLICING, structure
from lazyt.plan.retention import depends_on_pending, find_retained
from lazyt.runtime.cpu.execute import libraries, on_many
from lazyt.runtime.definitions import are_ours

Key = tuple[Any, ...]
Numbers = tuple[int, ...]

#: Leaves up to this size are keys of random numbers.
_KEY_BYTES = 64
#: Of heads: beyond the number of any node.
_numbers = itertools.count(1 << 40)
_open: dict[tuple[Any, ...], int] = {}


def key_of(head: Head) -> int:
    """The number that stands for op and parameters in keys."""
    if head.key is not None:
        return head.key
    op = head.op
    if op is VARIABLE:
        parts: tuple[Any, ...] = (op,)
    elif op is CONST or op.name in SLICING:
        parts = (op, *structure(op, head.params))
    else:
        head.key = next(_numbers)
        return head.key
    number = _open.get(parts)
    if number is None:
        number = _open.setdefault(parts, next(_numbers))
    head.key = number
    return number


#: What stands between two plans, by how it is lowered: it is called.
BETWEEN_PLANS = frozenset({
    "library", "transfer", "loop", "branch", "while", "collective", "distribution",
    "python",
})  # fmt: skip

#: How far down a graph ``trail_of`` goes.
_DEPTH = 12


def trail_of(node: Node) -> Numbers:
    """What is met going down from ``node``, itself included, by the first inputs: numbers of heads,
    and the form of what is computed. It tells most graphs apart that end alike."""
    head = node.head
    found = [head.key or key_of(head)]
    for _ in range(_DEPTH):
        inputs = node.inputs
        if not inputs:
            break
        node = inputs[0]
        if node.data is not None:
            found.append(node.form)
            break
        head = node.head
        found.append(head.key or key_of(head))
    return tuple(found)


def number_graph(roots: Sequence[Node]) -> tuple[dict[Node, int], list[Any]]:
    """Numbers of all nodes that have to be computed and of their leaves, inputs first, and the key
    without the roots.

    All calls pay for it: an input is looked up once, by an iterator that waits on the stack while
    what it came upon is numbered. The key is in postfix order; forms are below zero and the numbers
    of heads beyond those of nodes, which tells the three apart.
    """
    numbers: dict[Node, int] = {}
    key: list[Any] = []
    add, known = key.append, numbers.get
    stack: list[Any] = []
    push, pop = stack.append, stack.pop
    for root in roots:
        if root in numbers:
            continue
        node, inputs = root, iter(root.inputs if root.data is None else ())
        while True:
            for item in inputs:
                number = known(item)
                if number is None:
                    if item.data is None or item.op is CONST:
                        push(node)
                        push(inputs)
                        node, inputs = item, iter(item.inputs)
                        break
                    numbers[item] = number = len(numbers)
                    add(item.form)
                add(number)
            else:
                op = node.op
                if op is INPUT or (node.data is not None and op is not CONST):
                    add(node.form)
                else:
                    head = node.head
                    add(head.key or key_of(head))
                numbers[node] = number = len(numbers)
                if not stack:
                    break
                inputs, node = pop(), pop()
                add(number)
    return numbers, key


def waits(node: Node) -> bool:
    """Whether a node is computed in a graph that contains it. A constant always is: equal ones are
    one node, and when somebody looks at it, plans of graphs with that number stay what they were.
    """
    return node.op is CONST or (node.data is None and node.op is not INPUT)


class Plans:
    """What was made for graphs of a structure that compute the same values into the same memory.

    Attributes:
        made: the plans.
        trial: how they began in tier 0; None where they have not begun.
    """

    __slots__ = ("made", "trial")

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.trial: Any = None


class Choice:
    """Which values a structure keeps and which memory it writes into, for one pattern of what is
    in use outside of the graph.

    Attributes:
        roots: numbers of the nodes to compute, the retained ones behind the requested ones.
        donated: places, among the leaves, of those whose memory may be taken over, each with the
            place, among the roots, of the one that may, -1 for any.
        pattern: numbers of the nodes that are in use outside, and of those among them that hang on
            what was pending when the last graph was computed.
        plans: what was made for it, which other patterns may share.
        met: how often a graph was computed by it since guards were written for it.
    """

    __slots__ = ("donated", "met", "pattern", "plans", "roots")

    def __init__(
        self,
        roots: list[int],
        donated: tuple[tuple[int, int], ...] = (),
        pattern: tuple[Numbers, Numbers] = ((), ()),
    ) -> None:
        self.roots = roots
        self.donated = donated
        self.pattern = pattern
        self.plans = Plans()
        self.met = 0


class Structure:
    """What graphs with one key have in common; numbers are those of the key.

    Attributes:
        leaves: the leaves.
        open: constants, slices and updates, whose numbers the key leaves open.
        parameters: leaves of autograd that are drawn in the graph. They are computed on their own
            before it, so that the first step of training is the same graph as those that follow:
            one group of them after the other, each with those that it is made from before it.
        calls: whether there are library calls or copies between devices, or roots on several.
        place: where the roots are.
        plain: the choice that computes only what was requested, and takes over nothing.
        spare: leaves that only one write, into them, reads: number, number of the write, and how
            many references there are to one that may be written over.
        used: the time on the ``clock`` when a graph had it last.
    """

    __slots__ = (
        "_choices", "_heads", "_watched", "calls", "leaves", "open", "parameters", "place", "plain",
        "spare", "used",
    )  # fmt: skip

    def __init__(self, order: Sequence[Node], numbers: dict[Node, int], roots: list[int]) -> None:
        self.used = 0
        pending = [waits(node) for node in order]
        self.leaves = [i for i, yet in enumerate(pending) if not yet]
        named = [(i, order[i].op) for i, yet in enumerate(pending) if yet]
        self.open = [i for i, op in named if op is CONST or op.name in SLICING]
        self.calls = any(op.lower in BETWEEN_PLANS for _, op in named)
        places = {place_of(order[i].form) for i in roots}
        self.place = max(places, default="")
        self.calls = self.calls or len(places) > 1
        self._heads = {order[i].head for i, _ in named}  # they keep their numbers
        self.plain = Choice(roots)
        self._choices: dict[Any, Choice] = {}
        uses = [0] * len(order)
        for i, _ in named:
            for item in order[i].inputs:
                uses[numbers[item]] += 1
        # Roots are computed anyway; and repeated constants are never kept, though other graphs that
        # have them in common often refer to them.
        idle = {*roots, *self._find_spread(order, numbers)}
        self._watched = [
            (i, uses[i] + _baseline()) for i, _ in named if order[i].inputs and i not in idle
        ]
        self.spare = self._find_spare(order, numbers, uses)
        self.parameters = self._find_parameters(order, numbers)

    @property
    def is_ours(self) -> bool:
        """Whether the package defines all that it is made of."""
        return are_ours(self._heads)

    @property
    def watched(self) -> list[tuple[int, int]]:
        """Numbers of the nodes that others may refer to, with how often their graph does."""
        return [(number, expected - _baseline()) for number, expected in self._watched]

    def _find_spread(self, order: Sequence[Node], numbers: dict[Node, int]) -> set[int]:
        """Constants, repeated or not."""
        found: set[int] = set()
        for i, node in enumerate(order):
            # Where the value is there, the inputs are no part of the graph.
            spreads = node.op.movement == "ordered" and node.data is None
            if node.op is CONST or (spreads and numbers[node.inputs[0]] in found):
                found.add(i)
        return found

    def _find_parameters(self, order: Sequence[Node], numbers: dict[Node, int]) -> list[list[int]]:
        """Leaves of autograd that are made of nothing but numbers and a key of random ones. One
        alone is no model, and not worth a plan.

        A loop of updates that nobody looks at makes one of another as often as it goes round, so
        they come in groups: those with the longest chain of others above them first.
        """
        leaves = set(self.leaves)
        made: list[bool] = []
        found: list[int] = []
        for i, node in enumerate(order):
            if i in leaves:
                made.append(node.nbytes <= _KEY_BYTES)
                continue
            made.append(not node.op.heavy and all(made[numbers[item]] for item in node.inputs))
            if node.op is VARIABLE and made[i] and numbers[node.inputs[0]] not in leaves:
                found.append(i)
        if len(found) < 2:
            return []
        above, inside = [0] * len(order), set(found)
        groups: list[list[int]] = []
        for i in range(len(order) - 1, -1, -1):
            depth = above[i]
            if i in inside:
                if depth == len(groups):
                    groups.append([])
                groups[depth].append(i)
                depth += 1
            if i not in leaves:
                for item in order[i].inputs:
                    number = numbers[item]
                    above[number] = max(above[number], depth)
        if len(groups) > 1 and len(groups[-1]) == 1:
            single = groups.pop()
            groups[-1] += single
        return [sorted(group) for group in reversed(groups)]

    def _find_spare(
        self, order: Sequence[Node], numbers: dict[Node, int], uses: list[int]
    ) -> list[tuple[int, int, int]]:
        """What ``spare`` is."""
        found = []
        leaves = set(self.leaves)
        for i, node in enumerate(order):
            if i not in leaves and node.op.name in ("update", "scatter"):
                base = numbers[node.inputs[0]]
                if base in leaves and uses[base] == 1:
                    found.append((base, i, 1 + _baseline()))
        return found

    def choose(self, order: list[Node]) -> Choice:
        """The choice for a graph of this structure, by who refers to its nodes. ``order`` and the
        dict of numbers are all that may refer to them on behalf of the caller."""
        count = sys.getrefcount
        used = tuple([i for i, expected in self._watched if count(order[i]) > expected])
        spare: tuple[int, ...] = ()
        if self.spare:
            spare = tuple([
                base for base, write, expected in self.spare
                if count(order[base]) <= expected and _is_free(order[base], order[write])
            ])  # fmt: skip
        if not used and not spare:
            return self.plain
        old = tuple([i for i in used if depends_on_pending(order[i], clock.now)])
        key = (used, spare, old)
        return self._choices.get(key) or self._new_choice(order, *key)

    def giving(self, donated: tuple[tuple[int, int], ...]) -> Choice:
        """The choice that keeps nothing, and may take over this memory, whoever refers to it."""
        if not donated:
            return self.plain
        found: Choice | None = self._choices.get(donated)
        if found is None:
            found = self._choices[donated] = Choice(self.plain.roots, donated)
        return found

    def _new_choice(self, order: list[Node], used: Numbers, spare: Numbers, old: Numbers) -> Choice:
        roots = self.plain.roots
        if used:
            outside = {order[i]: i in used for i, _ in self._watched}
            numbers = {node: number for number, node in enumerate(order)}
            asked = {order[i] for i in roots}
            kept = find_retained(order, outside, asked, {order[i] for i in old})
            roots = [*roots, *[numbers[node] for node in kept]]
        donated = [(place, -1) for place, number in enumerate(self.leaves) if number in spare]
        choice = Choice(roots, tuple(donated), (used, old))
        for other in (self.plain, *self._choices.values()):
            if other.roots == choice.roots and other.donated == choice.donated:
                choice.plans = other.plans
                break
        self._choices[used, spare, old] = choice
        return choice


def _is_free(leaf: Node, write: Node) -> bool:
    """Whether a leaf's memory belongs to it alone. Only inputs: another node of equal meaning
    would be found again, with the new value."""
    data = leaf.data
    return (
        leaf.op is INPUT
        and data is not None
        and not write.needs_grad
        and not data.is_foreign
        and sys.getrefcount(data) == ALONE
    )


def _held_once() -> int:
    """What is counted for an object that a slot and a local name hold."""
    slot = [object()]
    held = slot[0]
    return sys.getrefcount(held)


#: What is counted for an object that one other object and a local name hold.
ALONE = _held_once()


@functools.cache
def _baseline() -> int:
    """What is counted for a node that nothing else refers to, not even its graph."""
    numbers, _ = number_graph([ops.apply("neg", ops.apply("neg", ops.input_((), float32)))])
    order, count = list(numbers), sys.getrefcount
    (inner,) = [count(order[i]) for i in (order.index(order[-1].inputs[0]),)]
    return inner - 1


#: Functions that let go of what is known of structures beside them.
on_forget: list[Callable[[], None]] = []
#: Structures that were met, by key.
known: dict[Key, Structure] = {}
#: How many are remembered. A graph that was forgotten finds its plan on disk, in a millisecond.
MOST = 4096
#: And how many stay however many libraries there are: a loop would load its plans each time round.
FEWEST = 64


def forget_unused(most: int) -> None:
    """Forgets structures, and with them their plans, until ``most`` are left: those that have not
    been met for the longest time go. Who runs a plan, or has captured one, goes on with it."""
    for function in on_forget:
        function()
    listed = sorted(known.copy().items(), key=lambda pair: pair[1].used)
    for key, _ in listed[: max(0, len(listed) - most)]:
        known.pop(key, None)


def forget_libraries(most: int) -> None:
    """Forgets structures until few more than ``most`` libraries are loaded."""
    share = most / max(1, libraries.loaded)  # the others belong to captured functions
    forget_unused(max(FEWEST, int(len(known) * min(1.0, share))))


on_many.append(forget_libraries)


def structure_of(numbers: dict[Node, int], key: list[Any], roots: Sequence[Node]) -> Structure:
    """The structure of a numbered graph; ``roots`` are among its nodes. ``key`` is completed."""
    wanted = [numbers[root] for root in roots]
    key.append(config.of_plans)
    key += wanted
    whole = tuple(key)
    found = known.get(whole)
    if found is None:
        if len(known) >= MOST:
            forget_unused(MOST * 3 // 4)
        found = known.setdefault(whole, Structure(list(numbers), numbers, wanted))
    found.used = clock.now
    return found
