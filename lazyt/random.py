"""The random number generator that functions use when none is given, as ``torch.random``.

There is one generator for the CPU; devices have none of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.functional.random.generators import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed",
    "seed", "set_rng_state",
]  # fmt: skip


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, _caller: str = "fork_rng",
    _devices_kw: str = "devices", device_type: str = "cuda",
) -> Iterator[None]:  # fmt: skip
    """Put the default generator back afterwards to where it was before.

    ``devices`` and ``device_type`` are taken for programs that have devices with generators.
    """
    if not enabled:
        yield
        return
    before = default_generator.clone_state()
    try:
        yield
    finally:
        default_generator.graphsafe_set_state(before)


_explain_absence(__name__)
