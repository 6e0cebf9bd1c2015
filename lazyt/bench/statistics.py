"""What can be said of two sets of times: the interval of their ratio, and tests of it.

Times within a turn of a process are not independent: a busy moment of the machine slows all of them
down. So what is drawn and ranked here are whole rounds, by the median of each.

The ratio is Hodges' and Lehmann's: the median of the ratios of all pairs, which a few disturbed
rounds do not move. Its interval comes from drawing rounds anew (the bootstrap), with Hesterberg's
correction for few of them, without which intervals of nine rounds are too narrow.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
#: What the test looks for: any difference, or that the later times are longer.
Alternative = Literal["two-sided", "greater"]

#: Draws of a bootstrap, and the most numbers that are held at once for them.
RESAMPLES, _AT_ONCE = 4000, 1 << 20
#: Up to so many rounds in all the distribution of ranks is counted out.
EXACT = 60


@dataclass(frozen=True)
class Interval:
    """A ratio and the interval that it lies in with the wanted confidence."""

    ratio: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether the value is within the interval."""
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """How much larger the upper end is than the lower one, as a factor above 1."""
        return self.high / self.low - 1 if self.low > 0 else math.inf


def round_medians(rounds: Sequence[Sequence[float]]) -> list[float]:
    """The median of each round's samples; rounds without any are left out."""
    return [statistics.median(samples) for samples in rounds if samples]


def round_leasts(rounds: Sequence[Sequence[float]]) -> list[float]:
    """The least of each round's samples, the call that was disturbed least; rounds without any are
    left out."""
    return [min(samples) for samples in rounds if samples]


def bootstrap_ratio(
    before: Sequence[float],
    after: Sequence[float],
    *,
    confidence: float = 0.95,
    paired: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The ratio of the later times to the earlier ones, with its interval.

    Args:
        before, after: positive, one for each round.
        confidence: how often, of many such intervals, the true ratio is within.
        paired: whether round i of both was measured at the same moment. What slows both down at
            that moment then cancels out.
        resamples: draws.
        seed: of the draws; the same numbers give the same interval.

    Raises ValueError for fewer than two rounds, for times that are not positive, for pairs of
    different numbers, and for a confidence outside of 0 to 1.

    Example: ``bootstrap_ratio([1.0, 1.1, 1.0], [2.0, 2.1, 2.2]).ratio`` is 2.0.
    """
    first, second = _logs(before), _logs(after)
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence is between 0 and 1, not {confidence}")
    if paired and len(first) != len(second):
        raise ValueError(f"{len(first)} rounds cannot be paired with {len(second)}")
    source = np.random.default_rng(seed)
    if paired:
        rows = [second - first]
        width = len(first) * (len(first) + 1) // 2
    else:
        rows = [first, second]
        width = len(first) * len(second)
    exact = float(_location([row[np.newaxis] for row in rows])[0])
    drawn: list[Floats] = []
    step = max(1, min(resamples, _AT_ONCE // width))
    for begin in range(0, resamples, step):
        count = min(step, resamples - begin)
        picked = [row[source.integers(0, len(row), (count, len(row)))] for row in rows]
        drawn.append(_location(picked))
    tail = _tail(min(len(row) for row in rows), confidence)
    low, high = np.quantile(np.concatenate(drawn), [tail, 1 - tail])
    # The draws' own centre may miss the ratio; an interval always holds what it is about.
    return Interval(math.exp(exact), math.exp(min(low, exact)), math.exp(max(high, exact)))


def _logs(times: Sequence[float]) -> Floats:
    found = np.asarray(times, np.float64)
    if found.ndim != 1 or len(found) < 2:
        raise ValueError("an interval needs two rounds at least")
    if not (np.isfinite(found).all() and (found > 0).all()):
        raise ValueError("times are positive")
    return np.log(found)


def _location(rows: Sequence[Floats]) -> Floats:
    """Hodges' and Lehmann's estimate of each row: of one sample the median of the means of all
    pairs, of two the median of all differences."""
    if len(rows) == 1:
        (values,) = rows
        left, right = np.triu_indices(values.shape[1])
        pairs = (values[:, left] + values[:, right]) / 2
    else:
        first, second = rows
        pairs = (second[:, :, np.newaxis] - first[:, np.newaxis, :]).reshape(len(first), -1)
    found: Floats = np.median(pairs, axis=1)
    return found


def _tail(rounds: int, confidence: float) -> float:
    """The share of draws beyond each end: smaller than of many rounds, as draws of few vary less
    than the rounds do by sqrt((n - 1) / n), and as Student's quantile is larger than the normal."""
    reach = student_quantile((1 + confidence) / 2, rounds - 1) * math.sqrt(rounds / (rounds - 1))
    return statistics.NormalDist().cdf(-reach)


def student_quantile(share: float, freedom: int) -> float:
    """The number below which this share (from 0.5 on) of Student's distribution lies."""
    low, high = 0.0, 1.0
    while _student(high, freedom) < share:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _student(middle, freedom) < share else (low, middle)
    return high


def _student(t: float, freedom: int) -> float:
    """The share of Student's distribution below t; a finite sum for whole degrees of freedom."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, total = math.cos(angle), 0.0
    term = cosine if freedom % 2 else 1.0
    for power in range(freedom % 2, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    inside = math.sin(angle) * total
    return 0.5 + ((angle + inside) / math.pi if freedom % 2 else inside / 2)


def mann_whitney(
    before: Sequence[float], after: Sequence[float], alternative: Alternative = "two-sided"
) -> float:
    """How probable ranks as different as these are (p) if both were times of the same thing.

    Counted out for up to ``EXACT`` rounds in all, equal times included; approximated by the normal
    distribution beyond. Raises ValueError where one has no rounds.

    Example: ``mann_whitney([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], "greater")`` is 1 / 20.
    """
    if not len(before) or not len(after):
        raise ValueError("a test needs rounds of both")
    ranks = _doubled_ranks([*before, *after])
    count, total = len(after), len(ranks)
    seen = sum(ranks[len(before) :])
    if total <= EXACT:
        # ways[k][s]: subsets of k ranks that add up to s
        ways = [[0] * (sum(ranks) + 1) for _ in range(count + 1)]
        ways[0][0] = 1
        for used, rank in enumerate(ranks):
            for k in range(min(used + 1, count), 0, -1):
                source, target = ways[k - 1], ways[k]
                for s in range(len(target) - 1, rank - 1, -1):
                    if source[s - rank]:
                        target[s] += source[s - rank]
        return _p(ways[count], seen, alternative)
    ties = sum(n**3 - n for n in _counts([*before, *after]))
    variance = count * len(before) / 12 * (total + 1 - ties / (total * (total - 1)))
    return _normal_p(seen / 2, count * (total + 1) / 2, variance, alternative)


def signed_rank(
    before: Sequence[float], after: Sequence[float], alternative: Alternative = "two-sided"
) -> float:
    """Wilcoxon's test of pairs: how probable such ratios of pairs are (p) if either of a pair
    could as well have been the other. Equal pairs say nothing and are left out.

    Raises ValueError for different numbers of rounds.

    Example: ``signed_rank([1.0, 1.0, 1.0], [2.0, 3.0, 4.0], "greater")`` is 1 / 8.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} rounds cannot be paired with {len(after)}")
    logs = [math.log(b / a) for a, b in zip(before, after)]
    logs = [value for value in logs if value]
    ranks = _doubled_ranks([abs(value) for value in logs])
    seen = sum(rank for rank, value in zip(ranks, logs) if value > 0)
    if len(ranks) <= EXACT:
        ways = [1] + [0] * sum(ranks)
        for rank in ranks:
            for s in range(len(ways) - 1, rank - 1, -1):
                ways[s] += ways[s - rank]
        return _p(ways, seen, alternative)
    variance = sum((rank / 2) ** 2 for rank in ranks) / 4
    return _normal_p(seen / 2, sum(ranks) / 4, variance, alternative)


def _p(ways: Sequence[int], seen: int, alternative: Alternative) -> float:
    """The share of outcomes at least as far out, given how many ways lead to each sum."""
    everything = sum(ways)
    above = sum(ways[seen:]) / everything
    if alternative == "greater":
        return above
    return min(1.0, 2 * min(above, sum(ways[: seen + 1]) / everything))


def _normal_p(seen: float, mean: float, variance: float, alternative: Alternative) -> float:
    """The same of a normal distribution; half a rank corrects for the steps of sums."""
    normal = statistics.NormalDist()
    if variance <= 0:
        return 1.0
    scale = math.sqrt(variance)
    above = normal.cdf((mean - seen + 0.5) / scale)
    if alternative == "greater":
        return above
    return min(1.0, 2 * min(above, normal.cdf((seen - mean + 0.5) / scale)))


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, from 2 on; equal ones share the mean of theirs."""
    order = sorted(values)
    first: dict[float, int] = {}
    last: dict[float, int] = {}
    for place, value in enumerate(order, 1):
        first.setdefault(value, place)
        last[value] = place
    return [first[value] + last[value] for value in values]


def _counts(values: Sequence[float]) -> list[int]:
    found: dict[float, int] = {}
    for value in values:
        found[value] = found.get(value, 0) + 1
    return list(found.values())


def holm(probabilities: Sequence[float]) -> list[float]:
    """The probabilities of several tests, corrected so that all of them together give a false
    alarm no more often than one of them would (Holm's step-down).

    Example: ``holm([0.01, 0.04, 0.03])`` is [0.03, 0.06, 0.06].
    """
    order = sorted(range(len(probabilities)), key=lambda place: probabilities[place])
    found, most = [0.0] * len(probabilities), 0.0
    for done, place in enumerate(order):
        most = max(most, min(1.0, probabilities[place] * (len(probabilities) - done)))
        found[place] = most
    return found
