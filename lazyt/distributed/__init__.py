"""``torch.distributed`` as PyTorch has it where it was built without: it is not available.

Programs ask ``is_available()`` or ``is_initialized()`` and train in one process.
"""

from __future__ import annotations

from lazyt.compat.absent import AbsentName, reason

__all__ = ["is_available", "is_initialized"]


def is_available() -> bool:
    """False: lazyt trains on one machine, in one process."""
    return False


def is_initialized() -> bool:
    """False: there is no group of processes."""
    return False


def __getattr__(name: str) -> object:
    raise AbsentName.of(__name__, name, reason("distributed"))
