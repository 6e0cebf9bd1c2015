"""Pending work: when graphs are computed before anybody looks at them, and the record of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lazyt.config import config
from lazyt.errors import LazinessError, warn
from lazyt.handle.hooks import capturing, hook
from lazyt.ir.graph import Node, clock, source_text, topological, user_position
from lazyt.ops.leaves import CONST
from lazyt.plan import build, guarded_plans, planning
from lazyt.plan.graph_keys import Numbers, known
from lazyt.plan.repeats import (
    PART,
    Period,
    deepest,
    find_parts,
    is_periodic,
    known_parts,
    landmarks_of,
    sign,
)
from lazyt.plan.retention import find_long_pending, forget_origins, separate_constants
from lazyt.runtime import events
from lazyt.runtime.memory import Buffer

#: Long graphs that do not repeat themselves, one after the other, that are warned of.
_MANY = 8


class LongGraphWarning(UserWarning):
    """Graphs that nobody looked at grew over the budget again and again, each another one."""


class Budget:
    """How much may still be built before the pending graph is measured."""

    __slots__ = ("bytes", "nodes")

    def __init__(self) -> None:
        self.renew()
        config._on_limits.append(self.renew)

    def renew(self) -> None:
        """Start anew from the settings, which may have changed."""
        self.nodes = config.max_pending_nodes
        self.bytes = config.max_pending_bytes


budget = Budget()
#: How many graphs may be computed before what something hangs on.
PATIENCE = 4
#: For how many periods of a loop the operation at which it is cut is waited for.
_MOST_TRIES = 2
#: How often a graph that does not repeat itself is looked at behind one that did.
_MOST_MISSES = 8
#: Loops whose periods are remembered.
_MOST_PERIODS = 6
#: How often a graph is cut by a period before it is found anew, at first and at most.
_FEWEST_USES, _MOST_USES = 4, 64
#: Results from one cut at a landmark to where the next is looked for, at most and at least, and
#: among how many it is.
_STRIDE, _SHORTEST_STRIDE, _MOST_PASSED = 48, 3, 256
#: How many more cuts at landmarks make a new graph than a known one until they come at half the
#: distance: rounds that branch have as many forms together as those of each multiplied.
_MOST_NEW = 12
#: Of how many nodes a graph is at least that landmarks are looked for in, and how often behind one
#: that was too long.
_FEWEST_NODES, _MOST_SEARCHES = 8 * PART, 4


#: Called before anything is computed: collectives that the program has made are started.
before_realizing: list[Callable[[], None]] = []
#: Told of each node that ``config.eager`` has computed.
after_each: list[Callable[[Node], None]] = []


#: Tell graphs over whole values that ranks have parts of, which are computed as those.
of_ranks: list[Callable[[Node], bool]] = []


def realize_nodes(nodes: Sequence[Node]) -> None:
    """Compute ``nodes``; afterwards each has its buffer in ``data``.

    Identities are computed through, so that the value is kept at the node that made it and no
    other graph that contains it computes it again.
    """
    for node in nodes:
        if node.data is None:
            break
    else:  # most often: a captured call has computed its result
        return
    for function in before_realizing:
        function()
    if len(nodes) == 1 and hook.watcher is None and not config.eager:
        stored_bytes = guarded_plans.run_known(nodes)
        if stored_bytes >= 0:
            spend_bytes(stored_bytes)
            return
    with build.lock:
        chains = [_chain(node) for node in nodes]
    wanted = list(dict.fromkeys([chain[-1] for chain in chains if chain[-1].data is None]))
    stored: list[Node] = []
    stored_bytes = 0
    if wanted and hook.watcher is None and not config.eager:
        is_new = len(nodes) > 1 or wanted[0] is not nodes[0]
        stored_bytes = guarded_plans.run_known(wanted) if is_new else -1
    elif wanted:
        stored_bytes = -1
    if stored_bytes < 0:
        if config.eager:
            _realize_one_by_one(wanted)
        stored = planning.realize(wanted)
        stored_bytes = sum([node.nbytes for node in stored])
    # Pending graphs that read a result keep it alive.
    spend_bytes(stored_bytes)
    for chain in chains:
        for node in chain:
            if node.data is None:
                node.data = chain[-1].data
    if wanted and hook.watcher is None:  # a capture, which the hook tells of, sees how they came
        with build.lock:
            separate_constants([chain[0] for chain in chains])
            forget_origins(stored)


def keep_values(values: Mapping[Node, Buffer]) -> None:
    """Note what nodes were computed to, as ``realize_nodes`` does."""
    chains = {node: _chain(node) for node in values if node.data is None}
    for node, chain in chains.items():
        for item in chain:
            if item.data is None:
                item.data = values[node]
    stored = list(dict.fromkeys([chain[-1] for chain in chains.values()]))
    spend_bytes(sum([node.nbytes for node in stored]))
    forget_origins(stored)


def realize_result(node: Node) -> None:
    """Compute what an operation gave, under ``config.eager``; not a constant repeated, which has
    nothing to compute and stays one to whoever asks."""
    value = node
    while value.op.movement == "ordered":
        value = value.inputs[0]
    if value.op is not CONST:
        realize_nodes([node])


def _realize_one_by_one(nodes: Sequence[Node]) -> None:
    """Compute every node of the graph with a plan of its own: nothing fuses, not even the parts
    of one function. Constants stay in the text of their users."""
    for node in topological(nodes, lambda n: n.data is not None):
        if node.data is None and not (node.op.is_identity or node.op is CONST):
            planning.realize([node])
            for function in after_each:
                function(node)


#: Ops whose kernels store their results only as they are: another shape would be a copy.
_UNFUSED = frozenset({"scatter", "scan", "sort", "fourier", "linalg"})


def _chain(node: Node) -> list[Node]:
    """``node`` and what it is the same memory as: of identities, and of what is only given another
    shape and has been computed, or would be stored before it is."""
    chain = [node]
    while node.data is None and (
        node.op.is_identity or (node.op.name == "reshape" and _is_only_reshaped(node))
    ):
        node = node.inputs[0]
        chain.append(node)
    return chain


def _is_only_reshaped(node: Node) -> bool:
    """Whether below reshapes is what has been computed, or a result that has to be stored."""
    while node.data is None and node.op.name == "reshape":
        node = node.inputs[0]
    return node.data is not None or node.op.name in _UNFUSED


def realize_now(nodes: Sequence[Node], reason: str) -> None:
    """Compute ``nodes`` because the program looks at them; recorded for ``why_realized()``.

    Raises LazinessError under ``config.strict_laziness``.
    """
    watcher = capturing()
    if watcher is not None:
        watcher.looked(reason, source_text(user_position()), nodes)
    wanted = [node for node in nodes if node.data is None]
    if not wanted:
        return
    if config.strict_laziness:
        where = source_text(user_position())
        raise LazinessError(
            f"{where}: a value is needed that is not computed yet ({reason}), and "
            "config.strict_laziness is on. Call .realize() on the tensor before this line."
        )
    events.record_at("realize", reason, user_position())
    realize_nodes(wanted)
    period = _repeats.last
    if period is not None:  # what comes next is cut at the same places each time
        budget.nodes = period.built = period.margin
    elif _repeats.landmarks:
        budget.nodes = _repeats.stride


def spend_bytes(nbytes: int) -> None:
    """Count memory that pending graphs may keep alive."""
    budget.bytes -= nbytes
    if budget.bytes < 0:
        budget.nodes = -1  # the next result is measured


def settle_old(node: Node) -> None:
    """Compute what ``node`` hangs on that has waited while other graphs were computed: an average
    over steps, say, which would hold a value of each step. ``config.strict_laziness`` leaves it."""
    if config.strict_laziness or node.data is not None:
        return
    found = find_long_pending(node, clock.now - PATIENCE, clock.now)
    for is_whole in of_ranks:
        found = [item for item in found if not is_whole(item)]
    if found:
        where = source_text(user_position())
        events.record("realize", f"it had waited while {PATIENCE} graphs were computed", where)
        now = clock.now
        realize_nodes(found)
        clock.now = now  # what is being built is as new as before


def check_budget(node: Node) -> None:
    """Measure the pending graph of ``node``, and compute it when it is over the budget: where it
    repeats itself, in equal parts, up to the last whole one."""
    may_be_cut = budget.bytes >= 0 and not config.strict_laziness
    if _repeats.landmarks and may_be_cut and _compute_to_landmark(node):
        return
    if _repeats.periods and may_be_cut and _compute_known(node):
        return
    limit, byte_limit = config.max_pending_nodes, config.max_pending_bytes
    count, held = _measure(node, limit)
    budget.nodes = max(limit - count, limit // 8)
    budget.bytes = max(byte_limit - held, byte_limit // 8)
    over = count > limit or held > byte_limit
    if not (over or _repeats.last or _repeats.was_long) or config.strict_laziness:
        if over:
            _refuse_to_compute(count, held)
        return
    if held <= byte_limit and _compute_repeats(node):
        return
    if _repeats.was_long and _compute_to_first_landmark(node, count):
        return
    period = _repeats.last
    _repeats.misses += 1
    may_come = period is not None and _repeats.misses <= _MOST_MISSES
    if period is not None and may_come and count <= min(limit, 2 * period.margin):
        budget.nodes = period.margin  # it may be on its way
        return
    _repeats.last = None
    if over:
        what = _excess(count, held)
        where = source_text(user_position())
        events.record("realize", f"the graph had {what}, more than the budget", where)
        if count > limit and not node.needs_grad and not is_periodic(node):
            _repeats.note_long(where)
        realize_nodes([node])
        budget.nodes = min(limit, _FEWEST_NODES) if _repeats.was_long else limit
        budget.bytes = byte_limit


class _Repeats:
    """By which periods graphs were computed in parts.

    Attributes:
        last: the last one; None where what came after it does not repeat itself.
        periods: those of the loops that were met last, the latest first.
        tries: results since a graph was cut at which none could be.
        misses: how often a graph was looked at since then that does not repeat itself.
        landmarks: at which operations a graph is cut that only nearly repeats itself.
        passed: results since it was that were looked at and are none of them.
        stride: results from one cut at them to where the next is looked for.
        new: how many more cuts at that distance made a new graph than a known one.
        was_long: whether the last graph was too long, and did not repeat itself.
        searches: how often landmarks were looked for since then.
        long: how many graphs were too long since the last one that repeats itself.
    """

    def __init__(self) -> None:
        self.long = 0
        self.last: Period | None = None
        self.periods: list[Period] = []
        self.tries = self.misses = self.searches = 0
        self.was_long = False
        self.take_landmarks(frozenset())

    def take_landmarks(self, found: frozenset[Numbers]) -> None:
        """Takes what ``landmarks_of`` gives for a graph."""
        self.landmarks = found
        self.stride, self.new, self.passed = _STRIDE, 0, 0

    def note_cut(self, is_new: bool) -> None:
        """Notes that a graph was cut at a landmark, and whether none was like it before."""
        self.passed = 0
        self.new = max(0, self.new + (1 if is_new else -1))
        if self.new > _MOST_NEW:
            self.stride, self.new = max(self.stride // 2, _SHORTEST_STRIDE), 0

    def note_long(self, where: str) -> None:
        """Notes that a long graph was computed at the user's line though nobody looked; warns once
        if that goes on: each of such graphs is another one."""
        self.long += 1
        self.was_long, self.searches = True, 0
        if self.long == _MANY:
            warn(
                f"{where}: time after time there are more than {config.max_pending_nodes} "
                "operations whose results nobody has looked at, and they do not repeat "
                "themselves. They are computed here, as a graph that is met only once. Call "
                ".realize() on what a loop carries, each time round: then there are small graphs, "
                "which come back.",
                LongGraphWarning,
            )

    def take(self, period: Period) -> None:
        """Notes that a graph was cut by a period."""
        if self.last is not period:
            period.uses, period.most_uses = 0, _FEWEST_USES
        self.last = period
        self.tries = self.misses = 0
        self.was_long = False
        if self.long < _MANY:
            self.long = 0
        others = [item for item in self.periods if item is not period]
        self.periods = [period, *others[: _MOST_PERIODS - 1]]

    def is_to_be_found_anew(self, period: Period) -> bool:
        """Whether it is time to look at all that hangs together with a graph: the loop may have
        come to make more, below nothing at which it is cut."""
        if period is self.last:
            period.uses += 1
            if period.uses > period.most_uses:
                period.uses, period.most_uses = 0, min(2 * period.most_uses, _MOST_USES)
                return True
        return False


_repeats = _Repeats()


def _compute_to_first_landmark(node: Node, count: int) -> bool:
    """Look for landmarks in a graph of some nodes that follows one that was too long, and does not
    repeat itself either. Compute ``node`` where there are some; whether nothing else is to be done
    now."""
    if count < _FEWEST_NODES or node.needs_grad:
        # This one may hang on little of what is pending: not all of the budget until the next.
        budget.nodes = min(budget.nodes, max(_FEWEST_NODES - count, _STRIDE))
        return False
    _repeats.take_landmarks(landmarks_of(node))
    _repeats.searches += 1
    if _repeats.landmarks or _repeats.searches == _MOST_SEARCHES:
        _repeats.was_long = False
    else:  # most may hang on what is as old as the graph that was too long
        end = deepest(node)
        if end is not node and not end.needs_grad:
            what = f"a graph over {config.max_pending_nodes} nodes hangs together with it"
            events.record("realize", what, source_text(user_position()))
            realize_nodes([end])
        budget.nodes = min(budget.nodes, _FEWEST_NODES)
    if _repeats.landmarks:
        realize_nodes([node])
        budget.nodes, budget.bytes = _repeats.stride, config.max_pending_bytes
        return True
    return False


def _compute_to_landmark(node: Node) -> bool:
    """Compute ``node`` if it is one at which a graph is cut that nearly repeats itself; whether
    nothing else is to be done now."""
    if node.needs_grad or sign(node) not in _repeats.landmarks:
        _repeats.passed += 1
        if _repeats.passed <= _MOST_PASSED:
            budget.nodes = 0  # the next result is looked at
            return True
        _repeats.take_landmarks(frozenset())
        return False
    where = source_text(user_position())
    events.record(
        "realize", "the graph nearly repeats itself: up to one of equal operations", where
    )
    before = len(known)
    realize_nodes([node])
    _repeats.note_cut(len(known) > before)
    budget.nodes, budget.bytes = _repeats.stride, config.max_pending_bytes
    return True


def _compute_known(node: Node) -> bool:
    """Compute parts of a graph that repeats itself as others did, if ``node`` is one at which that
    takes little; whether nothing else is to be done now."""
    here, last = sign(node), _repeats.last
    if last is not None and last.triggers and here not in last.triggers:
        _repeats.tries += 1
        if _repeats.tries <= _MOST_TRIES * len(last.keys):
            budget.nodes = 0  # the next result is looked at
            return True
    for period in _repeats.periods:
        if here not in period.triggers:
            continue
        with build.lock:
            parts = known_parts(node, period)
        if parts and not _repeats.is_to_be_found_anew(period):
            if period is last:
                period.built = min(period.built + _repeats.tries, 2 * period.margin)
            _compute_parts(parts, period)
            return True
    return False


def _compute_repeats(node: Node) -> bool:
    """Compute a graph that repeats itself up to what follows its last whole part; whether it
    does."""
    with build.lock:
        found = find_parts(node, _repeats.periods)
    if found is None:
        return False
    parts, period = found
    del found
    _compute_parts(parts, period)
    return True


def _compute_parts(parts: list[list[Node]], period: Period) -> None:
    """Compute parts of a graph, one after the other, and expect more of the kind."""
    where = source_text(user_position())
    events.record("realize", f"the graph repeats itself: {len(parts)} equal parts of it", where)
    parts.reverse()
    now = clock.now
    while parts:
        realize_nodes(parts.pop())
        clock.now = now  # all of it is as new as before
    _repeats.take(period)
    budget.nodes, budget.bytes = period.built, config.max_pending_bytes


def _excess(count: int, held: int) -> str:
    limit = config.max_pending_nodes
    return f"over {limit} pending nodes" if count > limit else f"{held} bytes held by pending nodes"


def _refuse_to_compute(count: int, held: int) -> None:
    raise LazinessError(
        f"{source_text(user_position())}: {_excess(count, held)} are more than the budget, and "
        "config.strict_laziness is on. Call .realize() now and then, or raise "
        "config.max_pending_nodes or max_pending_bytes."
    )


def _measure(root: Node, limit: int) -> tuple[int, int]:
    """Pending nodes, counted to just past ``limit``, and bytes that they keep in memory."""
    count = held = 0
    seen = {root}
    stack = [root]
    while stack and count <= limit:
        node = stack.pop()
        if node.data is not None:
            held += node.nbytes
            continue
        count += 1
        for item in node.inputs:
            if item not in seen:
                seen.add(item)
                stack.append(item)
    return count, held
