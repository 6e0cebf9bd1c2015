"""Two runs of the same workloads: which became slower, which faster, and how sure that is.

What is compared are rounds (``statistics``). Two kinds of runs are:

* **side by side**: both took turns in one session, so that round i of both belongs together. What
  the machine did at that moment cancels out.
* **of different times**: two files. A machine is seldom as fast twice, so a change counts only if
  it is also seen beside a control: peers of the same version that took turns with lazyt in both
  runs, or, without any, what the machine itself could do just before and after each turn.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lazyt.bench.frameworks import OWN
from lazyt.bench.results import Result, Run
from lazyt.bench.statistics import (
    Alternative,
    Interval,
    bootstrap_ratio,
    holm,
    mann_whitney,
    round_leasts,
    round_medians,
    signed_rank,
)

#: What is said of a change.
SLOWER, FASTER, SAME, NOISY = "slower", "faster", "no difference", "too noisy"
#: Numbers the form of a comparison's JSON.
SCHEMA = 1
#: The slow-down that an interval has to exclude before "no difference" is said.
THRESHOLD = 1.05


@dataclass(frozen=True)
class Rules:
    """How changes are judged.

    Attributes:
        confidence: of intervals, and 1 minus it the share of false alarms of all tests together.
        threshold: a slow-down by less is not worth an alarm.
        paired: whether the runs were measured side by side.
        looks: how often it may be looked whether more rounds are needed. Each look has its share of
            the false alarms (Bonferroni), so that looking often makes none likelier.
    """

    confidence: float = 0.95
    threshold: float = THRESHOLD
    paired: bool = False
    looks: int = 1

    @property
    def allowed(self) -> float:
        """The probability of a false alarm in one look."""
        return (1 - self.confidence) / self.looks


@dataclass(frozen=True)
class Change:
    """One workload in one framework, before and after.

    Attributes:
        before, after: seconds, as the runs say them; None where there are none.
        rounds: of the run that has fewer.
        ratio: after divided by before, with its interval; None with fewer than two rounds.
        beside: the same in multiples of the control's time; None side by side, and without one.
        control: what that control is.
        p: the probability of such ranks without a difference, corrected for all workloads.
        p_above: the same for a slow-down up to the threshold.
        verdict: ``SLOWER``, ``FASTER``, ``SAME``, ``NOISY``, or what keeps the two from being
            compared.
        fails: whether lazyt is surely slower by more than the threshold, or not right any more.
    """

    workload: str
    framework: str
    before: float | None = None
    after: float | None = None
    rounds: int = 0
    ratio: Interval | None = None
    beside: Interval | None = None
    control: str = ""
    p: float | None = None
    p_above: float | None = None
    verdict: str = ""
    fails: bool = False

    def intervals(self) -> list[Interval]:
        """Those that have to agree."""
        return [found for found in (self.ratio, self.beside) if found is not None]


def compare(before: Run, after: Run, rules: Rules) -> list[Change]:
    """Every workload and framework that both runs have, the largest change first.

    lazyt's own are corrected together for how many they are; peers, which did not change, are
    controls and can fail nothing.
    """
    old, new = before.found(), after.found()
    found = [_change(old[key], new[key], before, after, rules) for key in new if key in old]
    own = [change for change in found if change.framework in OWN and change.p is not None]
    both = holm([change.p for change in own if change.p is not None])
    above = holm([change.p_above for change in own if change.p_above is not None])
    corrected = {
        (change.workload, change.framework): replace(change, p=p, p_above=p_above)
        for change, p, p_above in zip(own, both, above, strict=True)
    }
    judged = [
        _judged(corrected.get((change.workload, change.framework), change), rules)
        for change in found
    ]
    return sorted(judged, key=lambda change: -change.ratio.ratio if change.ratio else 0.0)


def _change(old: Result, new: Result, before: Run, after: Run, rules: Rules) -> Change:
    made = Change(new.workload, new.framework, before.seconds(old), after.seconds(new))
    if old.problem or new.problem:
        fails = new.framework in OWN and bool(new.problem and not old.problem)
        return replace(made, verdict=_broken(old, new), fails=fails)
    if old.absent or new.absent:
        return replace(made, verdict="absent")
    if (old.dims, old.nbytes) != (new.dims, new.nbytes):
        return replace(made, verdict="other sizes")
    # Other processes only ever make a call slower, and seldom all calls of a turn alike.
    summary = round_leasts if rules.paired else round_medians
    first, second = summary(old.rounds), summary(new.rounds)
    if rules.paired:
        count = min(len(first), len(second))  # a side may have died on the way
        first, second = first[:count], second[:count]
    made = replace(made, rounds=min(len(first), len(second)))
    if made.rounds < 2:
        return replace(made, verdict="too few rounds")
    interval = bootstrap_ratio(first, second, confidence=1 - rules.allowed, paired=rules.paired)
    test = signed_rank if rules.paired else mann_whitney
    made = replace(made, ratio=interval)
    pairs = [(first, second)]
    if not rules.paired and new.framework in OWN:
        name, controls = _control(old, new, before, after)
        if controls is not None:
            beside = _divided(first, controls[0]), _divided(second, controls[1])
            found = bootstrap_ratio(*beside, confidence=1 - rules.allowed)
            made = replace(made, control=name, beside=found)
            pairs.append(beside)
    # Where two ways of looking have to agree, the less sure of them counts.
    p = max(test(*pair) for pair in pairs)
    return replace(made, p=p, p_above=max(_p_above(test, *pair, rules) for pair in pairs))


def _p_above(
    test: Callable[[Sequence[float], Sequence[float], Alternative], float],
    first: Sequence[float],
    second: Sequence[float],
    rules: Rules,
) -> float:
    return test([seconds * rules.threshold for seconds in first], second, "greater")


def _broken(old: Result, new: Result) -> str:
    if new.problem and not old.problem:
        return f"failed: {new.problem}"
    return "failed before" if not new.problem else f"failed in both: {new.problem}"


def _divided(times: Sequence[float], controls: Sequence[float]) -> list[float]:
    return [seconds / control for seconds, control in zip(times, controls)]


def _control(
    old: Result, new: Result, before: Run, after: Run
) -> tuple[str, tuple[list[float], list[float]] | None]:
    """What is known to be the same in both runs, by its time in each round: peers, or the machine.

    Of several peers the geometric mean is taken, so that none of them decides alone.
    """
    sides = (before, old), (after, new)
    peers = []
    for framework in before.frameworks():
        theirs = [run.found().get((old.workload, framework)) for run, _ in sides]
        if framework in OWN or not all(result is not None and result.rounds for result in theirs):
            continue
        first, second = [result for result in theirs if result is not None]
        fit = len(first.rounds) == len(old.rounds) and len(second.rounds) == len(new.rounds)
        if fit and not first.problem and not second.problem and first.version == second.version:
            peers.append((framework, round_medians(first.rounds), round_medians(second.rounds)))
    if peers:
        means = [
            [statistics.geometric_mean(moment) for moment in zip(*[peer[side] for peer in peers])]
            for side in (1, 2)
        ]
        return ", ".join(peer[0] for peer in peers), (means[0], means[1])
    least = []
    for _, result in sides:
        found = [limit.seconds(result.nbytes, result.flops) for limit in result.limits]
        known = [seconds for seconds in found if seconds]
        if len(known) != len(result.rounds):
            return "", None
        least.append(known)
    return "the machine", (least[0], least[1])


def _judged(change: Change, rules: Rules) -> Change:
    """The change with its verdict, from probabilities that are corrected by now."""
    if change.verdict or change.p is None or change.p_above is None:
        return change
    found, allowed = change.intervals(), rules.allowed
    fails = change.framework in OWN and change.p_above <= allowed
    fails = fails and all(interval.low > rules.threshold for interval in found)
    if change.p <= allowed and all(interval.low > 1 for interval in found):
        return replace(change, verdict=SLOWER, fails=fails)
    if change.p <= allowed and all(interval.high < 1 for interval in found):
        return replace(change, verdict=FASTER)
    within = all(
        interval.high <= rules.threshold and interval.low >= 1 / rules.threshold
        for interval in found
    )
    return replace(change, verdict=SAME if within else NOISY)


def undecided(change: Change, rules: Rules) -> bool:
    """Whether more rounds may tell more: it is too noisy, or surely slower, but nobody knows yet
    whether by more than the threshold."""
    if change.verdict != SLOWER or change.fails:
        return change.verdict == NOISY
    return all(interval.high > rules.threshold for interval in change.intervals())


def needed_rounds(tests: int, rules: Rules) -> int:
    """The fewest rounds of which so many tests together can call anything different: with fewer,
    even rounds that are all slower are not rare enough."""
    rounds = 2
    allowed = rules.allowed / max(tests, 1)
    while True:
        least = 2.0**-rounds if rules.paired else 1 / math.comb(2 * rounds, rounds)
        if 2 * least <= allowed:
            return rounds
        rounds += 1


def compared(changes: Sequence[Change]) -> bool:
    """Whether anything of lazyt was compared at all."""
    return any(change.framework in OWN and change.ratio is not None for change in changes)


def conclusion(changes: Sequence[Change], rules: Rules) -> list[str]:
    """What all changes come to, in lines."""
    own = [change for change in changes if change.framework in OWN]
    if not changes:
        return ["No workload and framework was timed in both."]
    lines = [f"{change.workload}, {change.framework}: {change.verdict}" for change in changes
             if change.verdict.startswith("failed")]  # fmt: skip
    counted = [sum(change.verdict == verdict for change in own) for verdict in _VERDICTS]
    words = ", ".join(f"{count} {name}" for count, name in zip(counted, _VERDICTS))
    by = "pairs of rounds" if rules.paired else "rounds"
    if rules.looks > 1:
        by += f", looked at {rules.looks} times at most"
    lines.append(
        f"of {len(own)} in lazyt: {words} ({100 * rules.confidence:g} % sure of all together, by "
        f"{by}; a difference below {100 * (rules.threshold - 1):.3g} % counts as none)"
    )
    tests = [change for change in own if change.p is not None]
    needed = needed_rounds(len(tests), rules)
    if few := [change for change in own if change.rounds < needed and not change.fails]:
        lines.append(
            f"{len(few)} have fewer than the {needed} rounds that it takes to tell anything of "
            f"{len(tests)} workloads (--rounds {needed}, or fewer workloads)"
        )
    if not rules.paired and any(change.p is not None and not change.beside for change in own):
        lines.append(
            "Some have no control: that the machine was slower cannot be told from slower code. "
            "`lazyt bench ab` measures two versions side by side."
        )
    return lines


_VERDICTS = (SLOWER, FASTER, SAME, NOISY)


def to_json(before: Run, after: Run, changes: Sequence[Change], rules: Rules) -> dict[str, Any]:
    """The comparison in the form that files have."""
    return {
        "comparison": SCHEMA,
        "rules": asdict(rules),
        "before": {"machine": before.machine, "settings": before.settings},
        "after": {"machine": after.machine, "settings": after.settings},
        "fails": any(change.fails for change in changes),
        "changes": [asdict(change) for change in changes],
    }


def to_csv(changes: Sequence[Change]) -> str:
    """A line for each change, with names of columns in the first one."""
    text = io.StringIO()
    head = ["workload", "framework", "before_s", "after_s", "rounds"]
    head += ["ratio", "low", "high", "beside", "beside_low", "beside_high", "control"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*head, "p", "p_above", "verdict", "fails"])
    for change in changes:
        row: list[object] = [change.workload, change.framework, change.before, change.after]
        row.append(change.rounds)
        for found in (change.ratio, change.beside):
            row += [found.ratio, found.low, found.high] if found else [None] * 3
        row += [change.control, change.p, change.p_above, change.verdict, int(change.fails)]
        writer.writerow(row)
    return text.getvalue()
