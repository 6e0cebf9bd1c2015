"""What users decide of a backward: anomaly mode, and what becomes of saved tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazyt.storage import Storage
    from lazyt.tape import GradFn


class Anomaly:
    """Whether gradients are looked at as they are computed (``autograd.detect_anomaly``)."""

    __slots__ = ("check_nan", "enabled")

    def __init__(self) -> None:
        self.enabled = False
        self.check_nan = True


anomaly = Anomaly()


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return anomaly.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether NaN raises in anomaly mode."""
    return anomaly.check_nan


class Checks:
    """What users decide of saved tensors.

    Attributes:
        versions: whether backward refuses those that were written to.
        packer: called with each grad_fn that saves, its operands and its result's storage, while
            ``saved_tensors_hooks`` are active.
    """

    __slots__ = ("packer", "versions")

    def __init__(self) -> None:
        self.versions = True
        self.packer: Callable[[GradFn, Sequence[Any], Storage], None] | None = None


checks = Checks()
