"""``torch.cuda.random``: all devices draw the CPU's random numbers, so its state is theirs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lazyt.functional import namespace as lazyt
from lazyt.handle.cuda_devices import device_count

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def manual_seed(seed: int) -> None:
    """Start the GPU's random numbers from ``seed``: they are the CPU's. Without one, nothing."""
    if device_count():
        lazyt.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """``manual_seed``: all devices have the same random numbers."""
    manual_seed(seed)


def seed() -> None:
    """Start the GPU's random numbers from any seed. Without one, nothing."""
    if device_count():
        lazyt.seed()


def seed_all() -> None:
    """``seed``: all devices have the same random numbers."""
    seed()


def initial_seed() -> int:
    """What the random numbers were started from."""
    return lazyt.initial_seed()


def get_rng_state(device: Any = "cuda") -> lazyt.Tensor:
    """The state of the random numbers, as a tensor on the CPU."""
    return lazyt.get_rng_state()


def set_rng_state(new_state: lazyt.Tensor, device: Any = "cuda") -> None:
    """Go on from a state that ``get_rng_state`` gave."""
    lazyt.set_rng_state(new_state)


def get_rng_state_all() -> list[lazyt.Tensor]:
    """The state, once for each GPU."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Iterable[lazyt.Tensor]) -> None:
    """Go on from the last of the states: all devices have one."""
    for state in new_states:
        set_rng_state(state)
