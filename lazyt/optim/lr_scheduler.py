"""Learning rates that change over time, by PyTorch's names. ``step()`` is called after every epoch
(or batch)."""

from lazyt.absent import explain_absence as _explain_absence
from lazyt.optim.cycle_schedules import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from lazyt.optim.factor_schedules import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from lazyt.optim.schedule import LRScheduler, ScheduleError
from lazyt.optim.schedule_chains import ChainedScheduler, ReduceLROnPlateau, SequentialLR


class _LRScheduler(LRScheduler):
    """The base by its old name."""


__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "ScheduleError",
    "SequentialLR", "StepLR",
]  # fmt: skip

_explain_absence(__name__)
