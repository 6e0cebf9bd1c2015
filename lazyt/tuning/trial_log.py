"""Every trial of a search as a line of JSON, for studies of searches and models of speed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lazyt.codegen.plan.choices import ChoiceError, Tuned
from lazyt.config import config
from lazyt.errors import LazytError
from lazyt.tuning.space import Space
from lazyt.tuning.strategies import StrategyFactory, Trial, strategy_called


class TrialLog:
    """A file of trials, one line each; lines are added at its end.

    A line has ``time`` (seconds since 1970), ``machine`` (bytes of a vector, caches, threads),
    ``kernel`` (its signature), ``strategy``, ``standard`` (whether it is the heuristics' form),
    ``status``, ``form``, ``seconds``, ``samples``, ``repeats`` (runs that a sample is the mean of),
    ``compile_seconds``, ``encoded`` (the form as numbers) and ``features`` (by name).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def begin(self) -> None:
        """Makes the file, where there is none. Raises LazytError where it cannot be written."""
        self._append("")

    def _append(self, text: str) -> None:
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise LazytError(f"cannot write trials to {self.path}: {error}") from None

    def add(self, space: Space, trial: Trial, **facts: Any) -> None:
        """Adds a trial. Raises LazytError where the file cannot be written."""
        line = {
            "time": time.time(),
            "machine": [space.vector_bytes, list(space.caches), space.threads],
            **facts,
            "standard": trial.form == space.standard(),
            "status": trial.status,
            "form": trial.form.to_dict(),
            "seconds": trial.seconds if trial.samples else None,
            "samples": list(trial.samples),
            "encoded": list(space.encode(trial.form)),
            "features": space.features(trial.form),
        }
        self._append(json.dumps(line, separators=(",", ":")) + "\n")

    def read(self) -> Iterator[dict[str, Any]]:
        """The lines of the file, ``form`` as a ``Tuned``. Raises LazytError for a line that is no
        trial, and where the file cannot be read."""
        try:
            with open(self.path, encoding="utf-8") as file:
                lines = file.readlines()
        except OSError as error:
            raise LazytError(f"cannot read trials from {self.path}: {error}") from None
        for number, line in enumerate(lines, 1):
            try:
                found = json.loads(line)
                yield found | {"form": Tuned.from_dict(found["form"])}
            except (ValueError, KeyError, TypeError, ChoiceError) as error:
                raise LazytError(f"{self.path}, line {number}: no trial: {error}") from None


@dataclass(frozen=True)
class SearchOptions:
    """How searches go.

    Attributes:
        strategy: which forms are tried: ``climb``, ``random``, ``evolution``, or what makes a
            strategy of one's own; by default what ``config.tune_strategy`` says.
        log: the file that gets every trial; by default ``config.tune_log``.
    """

    strategy: str | StrategyFactory | None = None
    log: str | os.PathLike[str] | None = None

    @property
    def name(self) -> str:
        """The strategy's name."""
        wanted = self.strategy or config.tune_strategy
        if isinstance(wanted, str):
            return wanted
        return getattr(wanted, "__name__", type(wanted).__name__)

    def make(self) -> StrategyFactory:
        """What makes the strategy. Raises LazytError for an unknown name."""
        return strategy_called(self.strategy or config.tune_strategy)

    def trial_log(self) -> TrialLog | None:
        """Where trials are noted, if anywhere."""
        path = self.log if self.log is not None else config.tune_log
        return TrialLog(path) if path else None
