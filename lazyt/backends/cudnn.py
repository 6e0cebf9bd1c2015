"""cuDNN is not used. Its switches can be set, as many programs do, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

enabled = False
benchmark = False
deterministic = True  # results are the same from run to run
allow_tf32 = False


def is_available() -> bool:
    """Whether cuDNN is used."""
    return False


@contextmanager
def flags(**switches: object) -> Iterator[None]:
    """A block in which switches (``enabled``, ``benchmark``) would be set: nothing changes."""
    yield


def version() -> None:
    """The version of cuDNN: none."""
    return None
