"""In which order forms of a kernel are tried: strategies that propose, and hear what came of it.

A strategy is any object with ``propose`` and ``observe``; what makes one is given the space, the
trial of the form that the search begins with, forms that are known to be good, and random numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lazyt.codegen.plan.choices import Tuned
from lazyt.errors import LazytError
from lazyt.tuning.space import Space

#: How much faster a form has to look for a climb to go on from it.
PROGRESS = 0.01
#: Forms of which the children of an evolution are made.
POPULATION = 8


@dataclass(frozen=True)
class Trial:
    """What came of a form.

    Attributes:
        form: it.
        status: ``timed``; ``other bits``; or ``not compiled``: no compiler takes it, or its text is
            that of another form.
        seconds: the best of its runs, infinity where it was not timed.
        samples: seconds of a run, each time that it was timed.
    """

    form: Tuned
    status: str = "timed"
    seconds: float = float("inf")
    samples: tuple[float, ...] = ()


class Strategy(Protocol):
    """Decides which forms are tried.

    ``propose`` gives up to ``most`` forms that were not proposed before, none to end the search.
    ``observe`` hears what came of all forms of the last proposal.
    """

    def propose(self, most: int) -> list[Tuned]: ...

    def observe(self, trials: Sequence[Trial]) -> None: ...


#: Makes a strategy of a space, the trial that the search begins with, forms that are known to be
#: good, and random numbers.
StrategyFactory = Callable[[Space, Trial, Sequence[Tuned], random.Random], Strategy]


class Climb:
    """From the best form so far to those that differ from it in one thing, in random order, so that
    each batch has some of every sort; ends where none of them is better."""

    def __init__(
        self, space: Space, start: Trial, known: Sequence[Tuned], rng: random.Random
    ) -> None:
        self.space, self.rng = space, rng
        self.best = start
        self.seen = {start.form}
        self.left = [form for form in known if form != start.form]
        self.left += self._next(start.form)

    def _next(self, form: Tuned) -> list[Tuned]:
        """Neighbours that were not tried, mixed."""
        found = [other for other in self.space.neighbours(form) if other not in self.seen]
        self.rng.shuffle(found)
        return found

    def propose(self, most: int) -> list[Tuned]:
        """The next neighbours of the best form."""
        batch, self.left = self.left[:most], self.left[most:]
        self.seen.update(batch)
        return batch

    def observe(self, trials: Sequence[Trial]) -> None:
        """Goes on from the best of them, where it is better."""
        winner = min(trials, key=lambda t: t.seconds, default=self.best)
        if winner.seconds < (1.0 - PROGRESS) * self.best.seconds:
            self.best = winner
            self.left = self._next(winner.form)


class RandomSearch:
    """Random forms, one after the other: what other strategies have to be better than."""

    #: Forms that were there already in a row, from which on there are no others.
    REPEATS = 50

    def __init__(
        self, space: Space, start: Trial, known: Sequence[Tuned], rng: random.Random
    ) -> None:
        self.space, self.rng = space, rng
        self.seen = {start.form}
        self.first = [form for form in known if form != start.form]

    def propose(self, most: int) -> list[Tuned]:
        """Forms of the space that were not tried."""
        found, self.first = self.first[:most], self.first[most:]
        self.seen.update(found)
        misses = 0
        while len(found) < most and misses < self.REPEATS:
            form = self.space.sample(self.rng)
            misses += 1
            if form not in self.seen:
                self.seen.add(form)
                found.append(form)
                misses = 0
        return found

    def observe(self, trials: Sequence[Trial]) -> None:
        """Nothing is learned."""


class Evolution:
    """Children of the best forms: what two of them have, mixed, and changed in a thing or two."""

    REPEATS = 50

    def __init__(
        self, space: Space, start: Trial, known: Sequence[Tuned], rng: random.Random
    ) -> None:
        self.space, self.rng = space, rng
        self.best = [start]
        self.seen = {start.form}
        self.first = [form for form in known if form != start.form]
        self.first += [form for form in space.neighbours(start.form) if form not in self.first]
        head = len(known)
        rest = self.first[head:]
        rng.shuffle(rest)
        self.first[head:] = rest[:POPULATION]

    def propose(self, most: int) -> list[Tuned]:
        """The first generation, then children."""
        found: list[Tuned] = []
        misses = 0
        while len(found) < most and misses < self.REPEATS:
            form = self.first.pop(0) if self.first else self._child()
            misses += 1
            if form not in self.seen:
                self.seen.add(form)
                found.append(form)
                misses = 0
        return found

    def _child(self) -> Tuned:
        one, other = (self.rng.choice(self.best).form for _ in range(2))
        child = self.space.mix(one, other, self.rng)
        for _ in range(self.rng.choice((0, 1, 1, 2)) if child != one else 1):
            near = self.space.neighbours(child)
            child = self.rng.choice(near) if near else child
        return child

    def observe(self, trials: Sequence[Trial]) -> None:
        """The best live on."""
        timed = [trial for trial in trials if trial.seconds < float("inf")]
        self.best = sorted([*self.best, *timed], key=lambda t: t.seconds)[:POPULATION]


STRATEGIES: dict[str, StrategyFactory] = {
    "climb": Climb, "random": RandomSearch, "evolution": Evolution,
}  # fmt: skip


def strategy_called(name: str | StrategyFactory) -> StrategyFactory:
    """A strategy by its name, or one of one's own. Raises LazytError for an unknown name."""
    if not isinstance(name, str):
        return name
    if name not in STRATEGIES:
        raise LazytError(f"no strategy is called {name!r}; there are {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
