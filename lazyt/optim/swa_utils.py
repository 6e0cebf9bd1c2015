"""Averages of a model's weights over training: equally weighted (SWA) and exponential (EMA)."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.nn.normalization import _BatchNorm
from lazyt.optim.optimizer import Optimizer
from lazyt.optim.schedule import Formula, Rates, ScheduleError, per_group

Tensors = Sequence[Tensor]
Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[Tensors, Tensors, Any], None]

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ScheduleError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """``decay`` of the average and the rest of the new value. Raises ScheduleError (a ValueError)
    for a decay out of [0, 1]."""
    _check_decay(decay)

    def ema_update(averaged: Tensor, current: Tensor, number: Any) -> Tensor:
        with lazyt.no_grad():
            mixed: Tensor = decay * averaged + (1 - decay) * current
            return mixed

    return ema_update


def get_swa_avg_fn() -> Average:
    """The mean of ``number`` values so far and a new one."""
    return _mean


def _mean(averaged: Tensor, current: Tensor, number: Any) -> Tensor:
    with lazyt.no_grad():
        mean: Tensor = averaged + (current - averaged) / (number + 1)
        return mean


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """As ``get_ema_avg_fn`` for lists of tensors, written into the first."""
    return _in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """As ``get_swa_avg_fn`` for lists of tensors, written into the first."""
    return _in_place(_mean)


def _in_place(average: Average) -> Averages:
    def update(averaged: Tensors, current: Tensors, number: Any) -> None:
        with lazyt.no_grad():
            for old, new in zip(averaged, current, strict=True):
                old.copy_(average(old, new, number))

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's (Izmailov et al. 2018).

    Args:
        model: copied as it is now.
        device: where the copy is kept.
        avg_fn: ``avg_fn(averaged, current, number)`` gives the new average of one parameter, after
            ``number`` values; the mean when there is none.
        multi_avg_fn: the same for lists of all parameters, written into the first.
        use_buffers: average buffers too; otherwise they are the model's.

    Attributes:
        module: the copy.
        n_averaged: how many values went into it, an int64 tensor.

    Raises AssertionError for both functions at once.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", lazyt.tensor(0, dtype=lazyt.int64, device=device))
        self.avg_fn, self.multi_avg_fn = avg_fn, multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged copy computes."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's values of now into the averages; the first time, copy them."""
        averaged, current = self._pairs(self.module), self._pairs(model)
        with lazyt.no_grad():
            if self.avg_fn is None and self.multi_avg_fn is None:
                # The first value comes from the same formula: no look at the number.
                for old, new in zip(averaged, current, strict=True):
                    first = self.n_averaged == 0
                    old.copy_(lazyt.where(first, new, _mean(old, new, self.n_averaged)))
            elif self.n_averaged == 0:
                for old, new in zip(averaged, current, strict=True):
                    old.copy_(new)
            elif self.multi_avg_fn is not None:
                self.multi_avg_fn(averaged, current, self.n_averaged)
            elif self.avg_fn is not None:
                for old, new in zip(averaged, current, strict=True):
                    old.copy_(self.avg_fn(old, new, self.n_averaged))
            if not self.use_buffers:
                for old, new in zip(self.module.buffers(), model.buffers(), strict=True):
                    old.copy_(new)
            self.n_averaged += 1

    def _pairs(self, module: Module) -> list[Tensor]:
        found: Iterable[Tensor] = module.parameters()
        if self.use_buffers:
            found = itertools.chain(found, module.buffers())
        return [tensor.detach() for tensor in found]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the statistics of batch norms anew, as means over one pass over ``loader``.

    Args:
        loader: batches: tensors, or lists and tuples that begin with one.
        model: called with each batch, in training mode; its mode is as before afterwards.
        device: where batches are moved to.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    training, momenta = model.training, [norm.momentum for norm in norms]
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    with lazyt.no_grad():
        for batch in loader:
            first = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(first if device is None else first.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(training)


class SWALR(Formula):
    """From the rates as they are to ``swa_lr``, over ``anneal_epochs`` steps, and no further.

    Args:
        swa_lr: the last rate; one for all groups or one for each.
        anneal_strategy: ``"cos"`` or ``"linear"``.

    Raises ScheduleError (a ValueError) for settings out of range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = per_group("swa_lr", optimizer, swa_lr)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ScheduleError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ScheduleError(
                f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}"
            )
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: float) -> float:
        """How much of ``swa_lr`` is in the rate at a step."""
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * done)) / 2 if self._anneal_strategy == "cos" else done

    def _next_rates(self) -> Rates:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            goal = group["swa_lr"]
            first = goal if before == 1 else (rate - before * goal) / (1 - before)
            rates.append(goal * now + first * (1 - now))
        return rates


_explain_absence(__name__)
