"""Intervals hold what they should as often as they say, and tests' p values are counted right."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from lazyt.bench.statistics import (
    bootstrap_ratio,
    holm,
    mann_whitney,
    round_medians,
    signed_rank,
    student_quantile,
)


def midranks(values: Sequence[float]) -> list[float]:
    """Ranks by counting, apart from the module's way."""
    return [sum(w < v for w in values) + (1 + sum(w == v for w in values)) / 2 for v in values]


@pytest.mark.parametrize("ties", [False, True])
def test_ranks_are_counted_out_as_by_trying_every_choice(ties: bool) -> None:
    source = np.random.default_rng(3)
    for before, after in ((3, 4), (5, 2), (1, 6), (4, 4)):
        both = source.integers(1, 4, before + after) if ties else source.random(before + after)
        ranks = midranks(list(map(float, both)))
        sums = [sum(some) for some in itertools.combinations(ranks, after)]
        seen = sum(ranks[before:])
        above = np.mean([s >= seen - 1e-9 for s in sums])
        below = np.mean([s <= seen + 1e-9 for s in sums])
        first, second = both[:before].tolist(), both[before:].tolist()
        assert mann_whitney(first, second, "greater") == pytest.approx(above)
        assert mann_whitney(first, second) == pytest.approx(min(1, 2 * min(above, below)))


def test_signs_are_counted_out_as_by_trying_every_choice() -> None:
    source = np.random.default_rng(4)
    before, after = source.random(7) + 1, source.random(7) + 1.2
    after[2] = before[2]  # says nothing
    logs = np.delete(np.log(after / before), 2)
    ranks = midranks(list(map(float, np.abs(logs))))
    seen = sum(rank for rank, value in zip(ranks, logs) if value > 0)
    sums = [sum(r for r, s in zip(ranks, signs) if s) for signs in np.ndindex(*[2] * 6)]
    above = np.mean([s >= seen - 1e-9 for s in sums])
    assert signed_rank(before.tolist(), after.tolist(), "greater") == pytest.approx(above)
    assert signed_rank([1.0, 2.0], [1.0, 2.0]) == 1.0


def test_many_rounds_are_approximated_by_nearly_the_same() -> None:
    source = np.random.default_rng(5)
    before, after = source.random(30).tolist(), (source.random(30) + 0.15).tolist()
    exact, near = mann_whitney(before, after), mann_whitney([*before, 0.5], after)
    assert 0 < exact < 1 and near == pytest.approx(exact, rel=0.5)
    pairs = source.random(61) + 1, source.random(61) + 1.1
    counted = signed_rank(pairs[0][:60].tolist(), pairs[1][:60].tolist())
    assert signed_rank(pairs[0].tolist(), pairs[1].tolist()) == pytest.approx(counted, rel=0.8)
    assert mann_whitney([1.0] * 40, [1.0] * 40) == 1.0


def test_quantiles_of_students_distribution() -> None:
    # from printed tables
    for freedom, quantile in ((1, 12.706), (2, 4.303), (8, 2.306), (30, 2.042)):
        assert student_quantile(0.975, freedom) == pytest.approx(quantile, abs=5e-4)


def test_probabilities_of_several_tests_are_corrected() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0] and holm([]) == []


def times(source: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Times around 1: even noise, or a machine that is now and then busy with something else."""
    even = np.exp(source.normal(0, 0.03, count))
    return even if kind == "even" else even * np.exp(source.exponential(0.15, count))


@pytest.mark.parametrize("kind", ["even", "busy"])
@pytest.mark.parametrize("paired", [False, True])
def test_intervals_hold_the_ratio_and_false_alarms_are_rare(kind: str, paired: bool) -> None:
    source, holds, alarms, found, trials = np.random.default_rng(6), 0, 0, 0, 200
    for trial in range(trials):
        before, after = times(source, kind, 9), times(source, kind, 9)
        if paired:  # a machine whose speed drifts by far more than the noise
            drift = np.exp(np.cumsum(source.normal(0, 0.2, 9)))
            before, after = before * drift, after * drift
        given = {"paired": paired, "resamples": 500, "seed": trial}
        made = bootstrap_ratio(before.tolist(), after.tolist(), **given)  # type: ignore[arg-type]
        holds += made.holds(1.0)
        test = signed_rank if paired else mann_whitney
        alarms += test(before.tolist(), after.tolist()) <= 0.05
        slow = (after * 1.2).tolist()
        found += test((before * 1.05).tolist(), slow, "greater") <= 0.05
    # 95 %, and three standard deviations of such a count
    assert holds >= 0.95 * trials - 3 * (trials * 0.05 * 0.95) ** 0.5
    assert alarms <= 0.05 * trials + 3 * (trials * 0.05 * 0.95) ** 0.5
    assert found >= (0.97 if kind == "even" else 0.4) * trials


def test_pairs_take_out_what_slows_both_down() -> None:
    drift = [1.0, 3.0, 1.5, 2.0, 5.0, 1.0, 2.5, 1.2, 4.0]
    after = [1.2 * d for d in drift]
    together, apart = (bootstrap_ratio(drift, after, paired=paired) for paired in (True, False))
    assert together.ratio == pytest.approx(1.2) and together.width < 1e-9
    assert apart.holds(1.0) and apart.holds(1.2) and apart.width > 0.5


def test_a_few_disturbed_rounds_do_not_move_the_ratio() -> None:
    before = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01, 0.99]
    after = [t * 1.1 for t in before[:7]] + [9.0, 20.0]
    assert bootstrap_ratio(before, after).ratio == pytest.approx(1.1, abs=0.03)
    # the same numbers, the same interval
    assert bootstrap_ratio(before, after) == bootstrap_ratio(before, after)
    narrow = bootstrap_ratio(before, after, confidence=0.5)
    assert narrow.width < bootstrap_ratio(before, after, confidence=0.99).width


def test_what_makes_no_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="two rounds"):
        bootstrap_ratio([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="positive"):
        bootstrap_ratio([1.0, 0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="paired"):
        bootstrap_ratio([1.0, 2.0], [1.0, 2.0, 3.0], paired=True)
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_ratio([1.0, 2.0], [1.0, 2.0], confidence=95)
    with pytest.raises(ValueError, match="rounds of both"):
        mann_whitney([], [1.0])
    with pytest.raises(ValueError, match="paired"):
        signed_rank([1.0], [1.0, 2.0])
    assert round_medians([[3.0, 1.0, 2.0], [], [4.0]]) == [2.0, 4.0]
