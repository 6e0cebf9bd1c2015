"""How many problems are right and fast: the share that is at least p times as fast as a peer.

This is how KernelBench sums up a set of problems. ``fast_0`` is the share of right results,
whatever their speed, and ``fast_1`` that of those which lose nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from lazyt.bench.problems import LEVELS

if TYPE_CHECKING:
    from lazyt.bench.results import Run

#: The factors that are shown.
FACTORS = (0.0, 1.0, 1.5, 2.0)
#: Lazyt's ways to run, and whom it is compared with.
OWN, PEERS = ("lazyt", "lazy"), ("torch", "compile")


@dataclass(frozen=True)
class Share:
    """One line: a level, a way to run, a peer.

    Attributes:
        level: a suite, or ``all levels``.
        framework: lazyt's, captured (``lazyt``) or not (``lazy``).
        peer: whom it is compared with.
        speedups: the peer's time divided by lazyt's for each problem that the peer has a time of,
            the slowest first; 0 where lazyt was wrong, failed or has no time.
    """

    level: str
    framework: str
    peer: str
    speedups: tuple[float, ...]

    def fast(self, factor: float) -> float:
        """The share of problems that are right and at least ``factor`` times as fast."""
        count = sum(s > 0 and s >= factor for s in self.speedups)
        return count / len(self.speedups)


def shares(run: Run) -> list[Share]:
    """Each level of a run, and all of them, against each peer that was timed; none where the run
    has no problems of levels."""
    found, suites = run.found(), {r.workload: r.suite for r in run.results}
    lines = []
    for framework in (name for name in OWN if name in run.frameworks()):
        for peer in PEERS:
            levels: dict[str, list[float]] = {}
            for name in run.workloads():
                theirs = run.seconds(found.get((name, peer)))
                if not suites[name].startswith(LEVELS) or theirs is None:
                    continue
                own = run.seconds(found.get((name, framework)))
                levels.setdefault(suites[name], []).append(theirs / own if own else 0.0)
            if len(levels) > 1:
                levels["all levels"] = [s for each in levels.values() for s in each]
            lines += [
                Share(level, framework, peer, tuple(sorted(speedups)))
                for level, speedups in levels.items()
            ]
    return sorted(lines, key=lambda line: (PEERS.index(line.peer), OWN.index(line.framework)))


def rows(lines: Sequence[Share]) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a table."""
    head = ["level", "lazyt", "peer", "problems", *(f"fast_{f:g}" for f in FACTORS), "median"]
    how = {"lazyt": "captured", "lazy": "lazy"}
    against = {"torch": "torch", "compile": "torch.compile"}
    made = []
    for line in lines:
        cells = [line.level, how[line.framework], against[line.peer], str(len(line.speedups))]
        cells += [f"{100 * line.fast(factor):.0f} %" for factor in FACTORS]
        made.append([*cells, f"{median(line.speedups):.2f}"])
    return head, made


def to_json(run: Run) -> list[dict[str, Any]]:
    """The same for a file."""
    return [
        {
            "level": line.level,
            "framework": line.framework,
            "peer": line.peer,
            "problems": len(line.speedups),
            **{f"fast_{factor:g}": line.fast(factor) for factor in FACTORS},
        }
        for line in shares(run)
    ]
