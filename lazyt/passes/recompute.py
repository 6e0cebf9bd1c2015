"""What is kept between launches, and what is computed again: the dial of memory against time.

A value that a step of training computes early and needs late takes memory all the while. This pass
makes plans that need less: it drops values and launches the kernels that made them once more, just
before they are needed. A launch is the same kernel on the same values, so no bit changes.

The search goes in rounds. Each looks at the moment of the most memory and asks, by a minimum cut
(see ``passes/splitting.py``), which of the values that wait there for a later launch to keep.
Trading memory for computing again goes back to Griewank ("Achieving logarithmic growth of temporal
and spatial complexity in reverse automatic differentiation", 1992) and Chen, Xu, Zhang and Guestrin
("Training deep nets with sublinear memory cost", 2016); Jain et al. ("Checkmate: breaking the
memory wall with optimal tensor rematerialization", 2020) put it as a schedule with several launches
of a kernel, as it is here. Cutting at the peak needs no notion of forward and backward: it works
for any graph, and may compute a value more than twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lazyt.ir.graph import Node
from lazyt.ir.group import Group
from lazyt.passes.lifetimes import WRITING, find_lives, memory_profile
from lazyt.passes.markers import Checkpoint
from lazyt.passes.ordering import order_groups
from lazyt.passes.recipes import Recipe, estimate_seconds, find_recipes, visited
from lazyt.passes.splitting import Cutter, split_groups

#: Rounds of the search, for large plans less: so many launches in all. Prices that each tries.
_ROUNDS, _LOOKED_AT, _PRICES = 40, 2500, 10
#: What a value that is needed at once weighs at the least in a cut, as a share of its bytes.
_SOON = (0.5, 0.02)
#: A round looks for the quickest plan that needs this share of the memory, and no less.
_STEP = 0.9
#: The smallest values are kept, as long as all of them take no more than this share of the peak.
_SMALL = 1 / 50
#: How the reason begins why a plan does not need less memory.
NOTHING_SAVED = "the memory budget saves nothing"
#: Savings below this share of the peak are none.
_WORTH = 1 / 100
#: The most time that computing again may add, as a share of the plan's own.
MOST_TIME = 1.0


def recompute(
    groups: Sequence[Group],
    roots: Sequence[Node],
    budget: float,
    checkpoints: Sequence[Checkpoint] = (),
) -> list[Group]:
    """The launches of a plan that needs less memory.

    Args:
        groups: the launches, in order.
        roots: the results.
        budget: how much of the memory that computing again could save is used nevertheless: 1 for
            the plan as it is, 0 for the least that is found within twice the time.
        checkpoints: their values are computed again whatever the budget.

    Kernels that only a small value holds together may become several. Other kernels stay as they
    are; those that run again may leave out values that nobody needs then. The plan is the quickest
    one of a fixed list that keeps within the budget; the first of the list is that of the whole
    budget. So less budget never takes more memory, and nothing is computed again that does not make
    the peak lower. Must run last, on the final order.
    """
    search = _Search(groups, set(roots))
    plan = search.drop_all(list(groups), checkpoints)
    if budget >= 1 or not plan:
        return tidy(plan, search.asked, everything=True) if checkpoints else plan
    first = search.look_at(plan)
    apart = split_groups(groups)
    if len(apart) > len(groups):
        search = _Search(order_groups(apart, roots), search.asked)
        plan = search.drop_all(search.groups, checkpoints)
    found = [first, *search.front(plan, first.seconds)]
    least = min(each.peak for each in found)
    if first.peak - least <= _WORTH * first.peak:
        highest = first.profile.index(max(first.profile))
        first.plan[highest].reasons.append(
            f"{NOTHING_SAVED}: at this launch, where the most memory is needed, computing values "
            f"again would free less than {_WORTH:.0%} of it"
        )
        return tidy(first.plan, search.asked, everything=True) if checkpoints else first.plan
    limit = least + int(budget * (first.peak - least))
    chosen = min((each for each in found if each.peak <= limit), key=lambda each: each.seconds)
    return tidy(search.relax(chosen.plan, limit), search.asked, everything=True)


@dataclass(frozen=True, eq=False)
class _Found:
    """A plan and what it takes.

    Attributes:
        plan: the launches.
        profile: bytes between kernels, during each.
        peak: the most of them.
        crowd: how many launches need as much.
        seconds: the estimate of its time.
    """

    plan: list[Group]
    profile: list[int]
    peak: int
    crowd: int
    seconds: float


class _Search:
    """The search for one plan's launches.

    Attributes:
        groups: the launches when nothing is computed again.
        asked: values with memory of their own.
        recipes: how each value can be computed again.
        members: all values that kernels compute on their own.
        stored: all stored values, numbered in the order of their first stores.
    """

    def __init__(self, groups: Sequence[Group], asked: set[Node]) -> None:
        self.groups = list(groups)
        self.asked = asked
        self.recipes = find_recipes(groups)
        self.members = {node for group in groups for node in group.members}
        self.stored = {n: i for i, n in enumerate(n for group in groups for n in group.stored)}
        self._seconds: dict[tuple[int, frozenset[Node], frozenset[Node]], float] = {}

    def look_at(self, plan: list[Group]) -> _Found:
        """The plan with what it takes."""
        profile = memory_profile(plan, self.asked)
        top = max(profile, default=0)
        return _Found(plan, profile, top, profile.count(top), sum(map(self._time, plan)))

    def _time(self, group: Group) -> float:
        """Seconds of a launch."""
        key = group.number, frozenset(group.members), frozenset(group.stored)
        if key not in self._seconds:
            self._seconds[key] = estimate_seconds(group)
        return self._seconds[key]

    def visited(self, node: Node) -> set[Node]:
        """What a value is computed from, down to what kernels compute on their own."""
        return set(visited(node, self.members))

    def drop_all(self, plan: list[Group], checkpoints: Sequence[Checkpoint]) -> list[Group]:
        """The plan in which the values of all checkpoints end with them."""
        for checkpoint in checkpoints:
            plan = self.drop(plan, checkpoint)
        return plan

    def drop(self, plan: list[Group], checkpoint: Checkpoint) -> list[Group]:
        """The plan in which the values of a checkpoint end with it, and are computed again for
        whoever needs them later. What kernels of the checkpoint compute for that later time, such
        as a derivative beside its function, counts as inside; what its results are read from, where
        they are not stored themselves, does not."""
        inside, ends = checkpoint.inside, set(checkpoint.results)
        for node in checkpoint.results:
            if node not in self.members:
                ends |= self.visited(node)
        lost = dict[Node, Recipe]()
        last = 0
        for step, group in enumerate(plan):
            if group.again or not any(node in inside for node in group.members):
                continue
            last = step
            for node in group.stored:
                if node in self.recipes and node not in self.asked | ends:
                    beside = any(n in inside for n in group.inside.get(node, ()))
                    after = beside and not checkpoint.results.isdisjoint(self.visited(node))
                    if node in inside or (beside and not after):
                        lost[node] = self.recipes[node]
        return tidy(insert(plan, last, lost), self.asked) if lost else plan

    def front(self, plan: list[Group], seconds: float) -> list[_Found]:
        """Plans that need ever less memory and take ever longer, by rounds of cuts, the given one
        first; ``seconds`` is the time that must not be exceeded by more than ``MOST_TIME``."""
        found = [self.look_at(plan)]
        for _ in range(min(_ROUNDS, _LOOKED_AT // max(len(plan), 1))):
            better = self._round(found[-1], (1 + MOST_TIME) * seconds)
            if better is None:
                break
            found.append(better)
        return found

    def _round(self, last: _Found, most: float) -> _Found | None:
        """The plan after one cut at the peak: the quickest that is a step lower, else the lowest.
        Where several launches need as much, one less of them is a step, too."""
        at = last.profile.index(last.peak)
        step = _STEP * last.peak
        best: _Found | None = None
        least: tuple[float, ...] = ()
        tried: set[frozenset[Node]] = set()
        for soon in _SOON:
            cutter = self._cutter(last.plan, at, last.peak, soon)
            for price in cutter.prices(_PRICES):
                lost = frozenset(cutter.lost(price))
                if not lost or lost in tried:
                    continue
                tried.add(lost)
                ranked = sorted(lost, key=self.stored.__getitem__)
                made = insert(last.plan, at, {n: self.recipes[n] for n in ranked})
                found = self.look_at(tidy(made, self.asked))
                if found.seconds > most:
                    break  # lower prices only add to what is computed again
                if (found.peak, found.crowd) >= (last.peak, last.crowd):
                    continue
                crowd = found.crowd if found.peak == last.peak else 0
                rank = max(found.peak, step), crowd, found.seconds
                if best is None or rank < least:
                    best, least = found, rank
                if found.peak <= step:
                    break
        return best

    def _cutter(self, plan: Sequence[Group], at: int, top: int, soon: float) -> Cutter:
        """The choice at launch ``at``. What is needed soonest is kept first, since it frees
        memory for the shortest time; how much so, ``soon`` says."""
        needed: dict[Node, int] = {}
        for life in find_lives(plan):
            if life.first <= at < life.last:
                needed[life.node] = next(step for step in life.reads if step > at)
        span = max(len(plan) - at, 1)
        least = small = 0
        for size in sorted(n.nbytes for n in needed if n not in self.asked):
            small += size
            least = size
            if small > top * _SMALL:
                break

        def weigh(node: Node) -> float:
            if node not in self.stored or node in self.asked or node.nbytes < least:
                return 0.0
            return node.nbytes * (soon + (needed.get(node, len(plan)) - at) / span)

        return Cutter(needed, self.recipes, weigh)

    def relax(self, plan: list[Group], limit: int) -> list[Group]:
        """The plan without those launches whose values can as well be kept below the limit, the
        longest first."""
        profile = memory_profile(plan, self.asked)
        waiting = sorted((g for g in plan if g.again), key=estimate_seconds, reverse=True)
        for group in waiting:
            if group not in plan or not _room(plan, profile, group, limit, self.asked):
                continue
            without = tidy([g for g in plan if g is not group], self.asked)
            changed = memory_profile(without, self.asked)
            if max(changed) <= limit:
                plan, profile = without, changed
        return plan


def _room(
    plan: Sequence[Group], profile: Sequence[int], group: Group, limit: int, asked: set[Node]
) -> bool:
    """Whether what the launch computes could have lived on since it was last there."""
    step = next(n for n, g in enumerate(plan) if g is group)
    more = [0] * step
    for node in group.stored:
        if node not in asked:
            last = max(n for n in range(step) if node in plan[n].reads or node in plan[n].stored)
            for between in range(last + 1, step):
                more[between] += node.nbytes
    return all(used + extra <= limit for used, extra in zip(profile, more) if extra)


def insert(plan: Sequence[Group], at: int, lost: Mapping[Node, Recipe]) -> list[Group]:
    """The plan in which the values of ``lost``, stored up to launch ``at``, end there: whoever
    reads one later finds it computed again, just before."""
    out = [*plan[: at + 1]]
    missing = dict(lost)
    for group in plan[at + 1 :]:
        _compute(group.reads, missing, out)
        for node in group.stored:
            missing.pop(node, None)
        out.append(group)
    return out


def _compute(reads: Iterable[Node], missing: dict[Node, Recipe], out: list[Group]) -> None:
    """Appends the launches that compute what is missing among ``reads``."""
    wanted = {node for node in reads if node in missing}
    if not wanted:
        return
    stack = [missing[node] for node in missing if node in wanted]
    while stack:
        recipe = stack[-1]
        stored = [n for n in recipe.group.stored if missing.get(n) is recipe]
        waiting = [missing[n] for n in recipe.reads if n in missing] if stored else []
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if stored:
            for node in stored:
                del missing[node]
            out.append(_again(recipe.group, stored))


def _again(group: Group, stored: list[Node]) -> Group:
    """The group to be launched once more, for some of its values."""
    names = ", ".join(f"{n.op.name} {list(n.shape)}" for n in stored)
    reasons = [*group.reasons, f"computed again, to save memory: {names}"]
    return replace(group, parts=list(group.parts), stored=stored, reasons=reasons, again=True)


def tidy(plan: Sequence[Group], asked: Collection[Node], everything: bool = False) -> list[Group]:
    """The plan without launches that compute again what nobody reads; where ``everything`` is
    looked at, first launches leave out what nobody reads before it is computed again, too."""
    wanted: set[Node] = set()
    out: list[Group] = []
    for group in reversed(plan):
        if group.again or (everything and group.kind not in WRITING):
            stored = [n for n in group.stored if n in wanted or (n in asked and not group.again)]
            if not stored:
                continue
            if len(stored) < len(group.stored):
                group = replace(group, parts=list(group.parts), stored=stored)
        wanted.difference_update(group.stored)
        wanted |= group.reads
        out.append(group)
    out.reverse()
    return out
