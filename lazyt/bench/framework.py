"""What every framework has to offer to be timed."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyt.bench.names_arrays import NotOffered
from lazyt.bench.problems import Array, Function, Problem

#: Computes; on the CPU it waits, too. The arguments are tensors.
Call = Callable[..., Any]


def tensors_of(result: Any) -> list[Any]:
    """The tensors of a result, which is one or several."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Framework(ABC):
    """What a framework has to offer.

    Attributes:
        version: as its package says.
        names: PyTorch's functions, by whatever the framework has for them.
        keeps: whether it keeps what it compiled on disk, for the next process.
        prepares: whether it also keeps there what every first call needs: this is then made once
            in a run, and not counted against all but the first workload.
    """

    version: str
    names: Any
    keeps = False
    prepares = False
    device = ""

    def use(self, device: str) -> None:
        """Tensors are to be on this device. Raises NotOffered where that cannot be."""
        if device:
            raise NotOffered(f"the device {device}")

    def clock(self, call: Callable[[], Any], repeats: int) -> float:
        """Seconds of so many calls; a device's are waited for once, by its own clock."""
        begun = time.perf_counter()
        for _ in range(repeats):
            result = call()
        seconds = time.perf_counter() - begun
        del result  # freeing the last one is not timed
        return seconds

    @abstractmethod
    def tensor(self, array: Array, dtype: str) -> Any:
        """A tensor with the array's values. Raises NotOffered for a dtype that it lacks."""

    @abstractmethod
    def prepare(self, function: Function) -> Call:
        """A call of the function with the names and the call's arguments."""

    def training(self, problem: Problem, tensors: Sequence[Any]) -> Call:
        """A call without arguments that makes a step and returns the loss."""
        raise NotOffered("training")

    def values(self, result: Any) -> list[Array]:
        """A result's tensors as arrays."""
        return [np.asarray(tensor) for tensor in tensors_of(result)]

    def kernels(self, function: Function, tensors: Sequence[Any]) -> int | None:
        """How many kernels a call launches, where the framework can say."""
        return None

    def note(self) -> str:
        """What a user should know about how the last computation ran; empty if all is well."""
        return ""
