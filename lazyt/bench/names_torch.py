"""PyTorch's functions in PyTorch, and in whatever else has its API."""

from __future__ import annotations

from typing import Any


class _Torch:
    """A module's functions and those of its ``nn.functional``, with a few turned to plainer
    arguments. Nothing is looked up twice, as a user would have written the function itself."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        functional = torch.nn.functional
        #: Written by ``torch.`` where it has the function, else by ``torch.nn.functional``.
        self._homes = (torch, functional)
        self.softmax, self.layer_norm = torch.softmax, functional.layer_norm
        self.gelu, self.max_pool1d = functional.gelu, functional.max_pool1d
        self.max_pool2d = functional.max_pool2d
        self.cast = lambda x, dtype: x.to(getattr(torch, dtype))
        self.sort = lambda x: torch.sort(x).values
        self.group_norm = functional.group_norm
        self.instance_norm = functional.instance_norm
        self.rms_norm = functional.rms_norm
        self.embedding = functional.embedding
        self.triplet_margin_loss = functional.triplet_margin_loss
        self.kl_div = lambda logs, target: functional.kl_div(logs, target, reduction="batchmean")
        self.causal_mask = lambda length: torch.ones(length, length, dtype=torch.bool).tril()
        if hasattr(torch, "_int_mm"):
            self.int_matmul = torch._int_mm
        else:
            self.int_matmul = lambda a, b: a.to(torch.int32) @ b.to(torch.int32)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        for home in self._homes:
            if hasattr(home, name):
                setattr(self, name, getattr(home, name))
                return getattr(home, name)
        raise AttributeError(name)

    def batch_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        functional = self._torch.nn.functional
        return functional.batch_norm(x, None, None, weight, bias, training=True)


def torch_names(torch: Any) -> Any:
    """What a module with PyTorch's API offers."""
    return _Torch(torch)
