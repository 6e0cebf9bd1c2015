"""The tuner as a library: spaces of forms, numbers for models, strategies, the log of trials."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt import tuning
from lazyt.codegen.loops.forms import LoopForm
from lazyt.codegen.plan.choices import Tuned
from lazyt.config import config
from lazyt.errors import LazytError
from lazyt.ir.parser import parse_kernel
from lazyt.tuning import kernels, plans
from lazyt.tuning.space import Measurement, Space
from lazyt.tuning.strategies import (
    STRATEGIES,
    Climb,
    Evolution,
    RandomSearch,
    Strategy,
    StrategyFactory,
    Trial,
)
from lazyt.tuning.trial_log import TrialLog
from tests.codegen.kernel_corpus import CACHES, GRAPHS, VECTOR_BYTES
from tests.codegen.kernel_corpus import print_kernels as corpus_kernels

needs_plans = pytest.mark.skipif(config.eager or config.interpret, reason="needs plans")
COLUMNS = """kernel columns(in x: float32[64, 96], out y: float32[96]) {
  phase (j: 96) lanes grid work 64.0 {
    for i: 64 { reduce s: float32 = sum x[i, j] }
    once { store y[j] = %s }
  }
}
"""
PRODUCT = """kernel product(in a: float32[40, 60], in b: float32[60, 50], out c: float32[40, 50]) {
  contract acc: float32 batch () rows (i: 40) columns (j: 50) inner (k: 60) {
    left a[i, k]
    right b[k, j]
    store c[i, j] = %acc
  }
}
"""


def space_of(text: str) -> Space:
    return Space(parse_kernel(text), VECTOR_BYTES, CACHES)


def start_of(space: Space) -> Tuned:
    form = space.standard()
    assert form is not None
    return form


@pytest.mark.parametrize("name", GRAPHS)
def test_points_of_a_space_fit_and_have_numbers_of_one_length(name: str) -> None:
    rng = random.Random(name)
    for printed in corpus_kernels(GRAPHS[name]()):
        space = Space(printed.kernel, VECTOR_BYTES, CACHES)
        if space.standard() is None:
            with pytest.raises(LazytError, match="has one form only"):
                space.sample(rng)
            continue
        start = start_of(space)
        points = [start, *space.neighbours(start)[:4], space.sample(rng, 3)]
        assert all(map(space.fits, points))
        columns = space.columns
        assert len(set(columns)) == len(columns) > 0
        for form in points:
            numbers = space.encode(form)
            assert len(numbers) == len(columns) and all(map(math.isfinite, numbers))
            assert all(isinstance(v, float) for v in space.features(form).values())
        child = space.mix(points[-1], points[-2], rng)
        assert space.fits(child)


def test_different_forms_have_different_numbers() -> None:
    for text in (COLUMNS, PRODUCT):
        space = space_of(text)
        start = start_of(space)
        forms = [start, *space.neighbours(start)]
        assert len({space.encode(form) for form in forms}) == len(forms)


def test_what_features_say() -> None:
    space = space_of(PRODUCT)
    found = space.features(start_of(space))
    assert found["phase0.m"] == 40 and found["phase0.k"] == 60
    assert found["operations"] == 2 * 40 * 50 * 60
    assert found["bytes_in"] == 4 * (40 * 60 + 60 * 50) and found["bytes_out"] == 4 * 40 * 50
    assert found["machine.l1"] == CACHES[0]
    loops = space_of(COLUMNS)
    wide = Tuned(loops=(LoopForm(32, 1, "grid", 1),))
    narrow = Tuned(loops=(LoopForm(8, 1, "grid", 1),))
    assert (
        loops.features(wide)["phase0.tile_bytes"] == 4 * loops.features(narrow)["phase0.tile_bytes"]
    )
    assert loops.features(narrow)["phase0.tiles"] == 12


def test_forms_that_do_not_fit() -> None:
    space = space_of(COLUMNS)
    assert not space.fits(Tuned(loops=(LoopForm(4096, 1, "grid", 0),)))
    assert not space.fits(Tuned(loops=()))
    assert not space.fits(start_of(space_of(PRODUCT)))
    assert not space_of(PRODUCT).fits(start_of(space))


@needs_plans
def test_measuring_gives_all_samples() -> None:
    space = Space(parse_kernel(COLUMNS))
    start = start_of(space)
    for form in (start, space.neighbours(start)[0]):
        found = space.measure(form, 5)
        assert len(found.samples) == 5 and min(found.samples) > 0
        assert found.same_bits and found.seconds == sorted(found.samples)[2]
        assert found.compile_seconds > 0
    assert tuning.measure(parse_kernel(COLUMNS), start, 3).same_bits
    assert tuning.features(parse_kernel(COLUMNS), start)["phase0.points"] == 96
    wrong = Measurement(start, (1.0,), 0.1, False)
    assert wrong.seconds == math.inf


def landscape(space: Space) -> Any:
    """A time for every form that no machine has: smaller the farther the numbers are up."""
    return lambda form: 100.0 / (1.0 + sum(abs(x) for x in space.encode(form)))


def search(
    make: StrategyFactory, space: Space, trials: int, known: Sequence[Tuned] = ()
) -> list[Trial]:
    """What a strategy proposes, with the times of the landscape."""
    clock = landscape(space)
    start = start_of(space)
    begin = Trial(start, seconds=clock(start), samples=(clock(start),))
    strategy = make(space, begin, known, random.Random(5))
    found = [begin]
    while len(found) < trials:
        batch = strategy.propose(4)
        if not batch:
            break
        assert len(batch) <= 4
        made = [Trial(form, seconds=clock(form), samples=(clock(form),)) for form in batch]
        strategy.observe(made)
        found += made
    return found


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("text", [COLUMNS, PRODUCT])
def test_strategies_try_forms_once_that_fit(name: str, text: str) -> None:
    space = space_of(text)
    known = space.neighbours(start_of(space))[-1]
    found = search(STRATEGIES[name], space, 60, [known])
    forms = [trial.form for trial in found]
    assert len(set(forms)) == len(forms) > 12
    assert all(map(space.fits, forms))
    assert known in forms[1:5], "what is known to be good comes first"
    assert forms == [t.form for t in search(STRATEGIES[name], space, 60, [known])]


def test_climbs_and_evolutions_find_better_forms_than_chance() -> None:
    space = space_of(PRODUCT)
    best = {
        make: min(t.seconds for t in search(make, space, 60))
        for make in (Climb, Evolution, RandomSearch)
    }
    first = landscape(space)(start_of(space))
    assert best[Climb] < first and best[Evolution] < first
    assert min(best[Climb], best[Evolution]) <= best[RandomSearch]


@needs_plans
@pytest.mark.parametrize("strategy", ["climb", "random", "evolution"])
def test_every_trial_is_a_line(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "FUSINGS", ())
    monkeypatch.setattr(kernels.KernelSearch, "left", lambda self: 9.0 * (self.tried < 9))
    path = tmp_path / "trials.jsonl"
    x = lazyt.randn(60, 50).realize()
    report = lazyt.tune(lambda: (x * 2).sum(0), seconds=60, strategy=strategy, log=path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    (kernel,) = report.plans[0].kernels
    assert lines[0]["standard"] and not any(line["standard"] for line in lines[1:])
    assert {line["kernel"] for line in lines} == {kernel.name}
    assert {line["strategy"] for line in lines} == {strategy}
    timed = [line for line in lines if line["status"] == "timed"]
    assert len(timed) == kernel.tried >= 2
    for line in timed:
        assert line["seconds"] <= min(line["samples"]) and len(line["samples"]) >= 3
        assert len(line["encoded"]) > 3 and line["features"]["operations"] > 0
    again = list(TrialLog(path).read())
    assert [line["form"].to_dict() for line in again] == [line["form"] for line in lines]
    with config.override(tune_log=str(tmp_path / "other.jsonl"), tune_strategy=strategy):
        lazyt.tune(lambda: (x * 3).sum(0), seconds=60)
    assert next(TrialLog(tmp_path / "other.jsonl").read())["strategy"] == strategy


@needs_plans
def test_a_strategy_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "FUSINGS", ())
    heard: list[Trial] = []

    class FirstTwo:
        def __init__(self, space: Space, start: Trial, known: Any, rng: random.Random) -> None:
            self.left = space.neighbours(start.form)[:2]

        def propose(self, most: int) -> list[Tuned]:
            found, self.left = self.left[:1], self.left[1:]
            return found

        def observe(self, trials: Sequence[Trial]) -> None:
            heard.extend(trials)

    made: StrategyFactory = FirstTwo
    x = lazyt.randn(60, 50).realize()
    report = lazyt.tune(lambda: (x * 2).sum(0), seconds=60, strategy=made, log=tmp_path / "t.jsonl")
    assert report.plans[0].kernels[0].tried <= 3 and len(heard) == 2
    assert next(TrialLog(tmp_path / "t.jsonl").read())["strategy"] == "FirstTwo"


def test_wrong_names_and_files_say_so(tmp_path: Path) -> None:
    with pytest.raises(LazytError, match="no strategy is called 'annealing'; there are climb"):
        lazyt.tune(lambda: lazyt.ones(3), strategy="annealing")
    with pytest.raises(LazytError, match="cannot read trials"):
        list(TrialLog(tmp_path / "none").read())
    (tmp_path / "bad").write_text('{"form": {"kind": "tiles"}}\n')
    with pytest.raises(LazytError, match="line 1: no trial: no kind of form 'tiles'"):
        list(TrialLog(tmp_path / "bad").read())
    space = space_of(COLUMNS)
    with pytest.raises(LazytError, match="cannot write trials"):
        TrialLog(tmp_path).add(space, Trial(start_of(space)))


def test_the_package_has_what_it_says() -> None:
    for name in tuning.__all__:
        found = getattr(tuning, name)
        assert found is STRATEGIES if name == "STRATEGIES" else found.__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Annealing'"):
        tuning.Annealing  # noqa: B018
    space = space_of(COLUMNS)
    strategy: Strategy = Climb(space, Trial(start_of(space)), (), random.Random(1))
    assert strategy.propose(0) == []
