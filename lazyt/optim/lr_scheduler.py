"""Learning rates that change over time, by PyTorch's names. ``step()`` is called after every epoch
(or batch)."""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.optim.cycle_schedules import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from lazyt.optim.schedule import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    ReduceLROnPlateau,
    ScheduleError,
    SequentialLR,
    StepLR,
)


class _LRScheduler(LRScheduler):
    """The base by its old name."""


__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "ScheduleError",
    "SequentialLR", "StepLR",
]  # fmt: skip

_explain_absence(__name__)
