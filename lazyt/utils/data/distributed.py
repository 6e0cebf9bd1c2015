"""The sampler of several processes by PyTorch's longer name."""

from lazyt.utils.data.sampler import DistributedSampler

__all__ = ["DistributedSampler"]
