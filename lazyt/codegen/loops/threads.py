"""How the threads of the CPU share a loop."""

from __future__ import annotations

#: Shares that the threads take turns at.
SHARES = 64
#: Estimated multiply-adds below which starting threads costs more than it saves.
SERIAL_WORK = 40_000


def parallel_clause(count: int, work: float, any_size: bool = False) -> str:
    """The pragma in front of a loop of ``count`` steps and so much ``work`` in all; empty where one
    thread does it. With ``any_size`` that is decided when the kernel runs."""
    begin = "omp parallel for num_threads(threads)"
    if any_size:
        enough = f"threads > 1 && {int(work)} >= {SERIAL_WORK}"
        return f"{begin} if({enough}) schedule(dynamic, {max(1, count // SHARES)})"
    if work < SERIAL_WORK:
        return ""
    # A thread that loses its core for a while loses one share.
    share = steps_in_turn(count)
    kind = f"dynamic, {share}" if share else "static"
    return f"{begin} if(threads > 1) schedule({kind})"


def steps_in_turn(count: int) -> int:
    """How many steps of ``count`` a thread takes before it asks for more; 0 where each takes its
    part at once."""
    return count // SHARES if count >= 2 * SHARES else 0
