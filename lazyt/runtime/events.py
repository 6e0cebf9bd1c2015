"""A bounded record of what the runtime did and why, for ``why_compiled()`` and ``why_realized()``.

Nothing here prints: recording costs less than a microsecond, and whoever wants a reason asks.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from lazyt.ir.source_lines import Source, source_text


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Attributes:
        kind: ``compile``, ``load``, ``realize``, ``cache`` or ``fallback``.
        time: ``time.time()`` of the event.
        reason: why it happened, one sentence.
        where: the user's ``file:line``, empty where it is not known.
        details: further facts, by name.
    """

    kind: str
    time: float
    reason: str
    where: str = ""
    details: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        facts = ", ".join(f"{name}={value}" for name, value in self.details.items())
        return f"{place}{self.kind}: {self.reason}" + (f" ({facts})" if facts else "")


@dataclass(frozen=True, slots=True)
class Timing:
    """One launch of a kernel, or the whole run of a plan, while somebody watches.

    Attributes:
        note: the facts that code generation left about it; a plan's ``kind`` is ``plan``.
        begin, end: ``time.monotonic()`` seconds.
        in_use: bytes of all tensors at that time.
        scratch: bytes of values that live between the plan's kernels, while it ran.
        thread: ``threading.get_ident()`` of who ran it.
    """

    note: dict[str, object]
    begin: float
    end: float
    in_use: int = 0
    scratch: int = 0
    thread: int = 0


_KEPT = 1024  # enough for a session at the prompt; a training loop must not grow
#: Those that happen often are put into words when somebody asks.
_events: deque[Event | tuple[str, float, str, Source | None]] = deque(maxlen=_KEPT)


def record(kind: str, reason: str, where: str = "", **details: object) -> None:
    """Remember one event; the oldest is forgotten past the bound."""
    _events.append(Event(kind, time.time(), reason, where, details))


def record_at(kind: str, reason: str, position: Source | None) -> None:
    """Remember one event that happens often, with the user's code position."""
    _events.append((kind, time.time(), reason, position))


def recorded(kind: str | None = None) -> list[Event]:
    """The remembered events, oldest first, all or those of one kind."""
    found = [
        Event(*item[:3], source_text(item[3])) if isinstance(item, tuple) else item
        for item in _events.copy()
    ]
    return [event for event in found if kind is None or event.kind == kind]


def forget() -> None:
    """Drop all remembered events."""
    _events.clear()


#: Lists that every launch is written to while a profiler is on; plans then run with clocks.
watching: list[list[Timing]] = []
