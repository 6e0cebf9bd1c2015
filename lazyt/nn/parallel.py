"""Programs that were written for several GPUs, on one device."""

from __future__ import annotations

from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import LazytError
from lazyt.nn.module import Module


class DataParallel(Module):
    """Calls ``module``. PyTorch would split the batch over the GPUs in ``device_ids``; lazyt runs
    on one device, like PyTorch on a machine without GPUs. State has the prefix ``module.``."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What ``module`` gives."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """``module(*inputs, **module_kwargs)``, on one device; ``inputs`` is one input or a tuple."""
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """For ``isinstance`` and annotations: making one raises LazytError, as PyTorch does where no
    group of processes is there. Programs for one process use ``module`` itself."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise LazytError(
            "DistributedDataParallel needs a group of processes, and lazyt trains in one process "
            "(torch.distributed.is_available() is False): use the module itself"
        )


__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]

_explain_absence(__name__)
