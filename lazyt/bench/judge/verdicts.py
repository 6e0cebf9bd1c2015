"""What the judge says of a submission."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

#: Why a submission is refused.
KINDS = {
    "compile": "it does not compile, or has not the parameters that the task has",
    "wrong": "values outside of the error budget",
    "stale": "the result of another call",
    "unwritten": "elements that were not written",
    "nan": "NaN or infinities where numbers belong, or the other way round",
    "precision": "errors of a narrower dtype than the declared one",
    "bounds": "reads or writes outside of its arrays",
    "inputs": "changed its inputs",
    "late": "results that change after the call is over",
    "background": "threads or processes that go on computing when the call is over",
    "impossible": "faster than the machine can move the bytes or do the operations",
    "tampered": "puts something of its own in the place of timers, libraries or the framework",
    "forbidden": "looks where it has no business: files of the reference, other processes",
    "fallback": "calls the framework's own operation where a kernel was wanted",
    "type": "no plain tensor of the right shape and dtype",
    "race": "races, divergent barriers or shared memory that nobody wrote",
    "crash": "the process died",
    "exit": "it ended its process",
    "timeout": "a call took too long",
    "memory": "more memory than allowed",
    "error": "it raised an exception",
}


class Refusal(Exception):
    """A reason to refuse a submission: one of ``KINDS``, and the evidence in a sentence."""

    def __init__(self, kind: str, evidence: str) -> None:
        super().__init__(f"{kind}: {evidence}")
        self.kind, self.evidence = kind, evidence


@dataclass
class Times:
    """Seconds of a call, one for each round.

    Attributes:
        warm: where the judge had just written the arrays.
        cold: where no cache held them.
    """

    warm: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)


@dataclass
class Verdict:
    """The judgement of one submission.

    Attributes:
        submission: its name.
        task: the task's name.
        kind: ``"accepted"``, or why it is refused, one of ``KINDS``.
        evidence: in one sentence.
        calls: how many calls were looked at; all of them were.
        times: of the submission; empty where it is refused, or was not timed.
        baseline: times in the same rounds.
        baseline_name: what the baseline is.
        speedup: the baseline's time divided by the submission's, warm; with its interval.
        speedup_cold: the same where no cache held the arrays.
        floor: the least seconds that the machine needs.
        share: the floor divided by the time with cold caches: 1 is as fast as can be.
        worst: the largest share of the error budget that was used.
        seed: of the inputs; fresh at every call of the judge, told only now.
        notes: what else a reader should know.
    """

    submission: str
    task: str
    kind: str = "accepted"
    evidence: str = ""
    calls: int = 0
    times: Times = field(default_factory=Times)
    baseline: Times = field(default_factory=Times)
    baseline_name: str = ""
    speedup: tuple[float, float, float] | None = None
    speedup_cold: tuple[float, float, float] | None = None
    floor: float | None = None
    share: float | None = None
    worst: float | None = None
    seed: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        """Whether nothing speaks against it."""
        return self.kind == "accepted"

    def facts(self) -> dict[str, Any]:
        """All of it as JSON has it; the seed as text, as it has 128 bits."""
        return {**asdict(self), "accepted": self.accepted, "seed": hex(self.seed)}


def fast(verdicts: list[Verdict], p: float) -> float:
    """``fast_p``: the share of submissions that are accepted and more than ``p`` times as fast as
    the baseline; ``fast_0`` is the share of accepted ones. 0 of none.

    A submission that was not timed counts for ``fast_0`` alone.
    """
    ratios = [v.speedup[0] if v.speedup else 0.0 for v in verdicts if v.accepted]
    good = sum(p == 0 or ratio > p for ratio in ratios)
    return good / len(verdicts) if verdicts else 0.0
