"""Level 1: normalization, pooling, and reductions over an axis."""

import torch
from torch import nn

from lazyt.bench.levels import problem

# Normalization.


@problem(1, 33, "batch_norm", "b c s s", init=("c",), b=(4, 8, 64), c=(3, 32, 64), s=(6, 64, 512))
class BatchNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return self.norm(x)


@problem(
    1, 34, "instance_norm", "b c s s", init=("c",), b=(2, 8, 112), c=(3, 32, 64), s=(6, 64, 512)
)
class InstanceNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels)

    def forward(self, x):
        return self.norm(x)


@problem(
    1,
    35,
    "group_norm",
    "b c s s",
    init=("c", "g"),
    b=(2, 8, 112),
    c=(8, 32, 64),
    g=(4, 8, 8),
    s=(6, 64, 512),
)
class GroupNorm(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)


@problem(1, 36, "rms_norm", "b c s s", init=(1e-5,), b=(2, 8, 112), c=(5, 32, 64), s=(6, 64, 512))
class RmsNorm(nn.Module):
    """Over the channels."""

    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x / torch.sqrt(torch.mean(x * x, dim=1, keepdim=True) + self.eps)


@problem(1, 37, "frobenius_norm", "b c s s", b=(2, 8, 112), c=(5, 32, 64), s=(6, 64, 512))
class FrobeniusNorm(nn.Module):
    """The whole tensor has length 1."""

    def forward(self, x):
        return x / torch.norm(x, p="fro")


@problem(1, 38, "l1_norm", "n d", n=(6, 1024, 32768), d=(33, 4096, 65535))
class L1Norm(nn.Module):
    def forward(self, x):
        return x / torch.mean(torch.abs(x), dim=1, keepdim=True)


@problem(1, 39, "l2_norm", "n d", n=(6, 1024, 32768), d=(33, 4096, 65535))
class L2Norm(nn.Module):
    def forward(self, x):
        return x / torch.norm(x, p=2, dim=1, keepdim=True)


@problem(
    1, 40, "layer_norm", "b c s s", init=("c", "s"), b=(2, 8, 16), c=(3, 32, 64), s=(6, 64, 256)
)
class LayerNorm(nn.Module):
    def __init__(self, channels, size):
        super().__init__()
        self.norm = nn.LayerNorm((channels, size, size))

    def forward(self, x):
        return self.norm(x)


# Pooling.


@problem(
    1,
    41,
    "max_pool_1d",
    "b c s",
    init=(8, 1, 4, 3),
    b=(2, 16, 64),
    c=(3, 32, 192),
    s=(40, 4096, 65536),
)
class MaxPool1d(nn.Module):
    def __init__(self, kernel, stride, padding, dilation):
        super().__init__()
        self.pool = nn.MaxPool1d(kernel, stride, padding, dilation)

    def forward(self, x):
        return self.pool(x)


@problem(
    1,
    42,
    "max_pool_2d",
    "b c s s",
    init=(4, 1, 1, 1),
    b=(2, 4, 32),
    c=(3, 32, 64),
    s=(12, 96, 512),
)
class MaxPool2d(nn.Module):
    def __init__(self, kernel, stride, padding, dilation):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel, stride, padding, dilation)

    def forward(self, x):
        return self.pool(x)


@problem(
    1,
    43,
    "max_pool_3d",
    "b c s s s",
    init=(3, 2, 1, 3),
    b=(2, 2, 16),
    c=(2, 16, 32),
    s=(10, 32, 128),
)
class MaxPool3d(nn.Module):
    def __init__(self, kernel, stride, padding, dilation):
        super().__init__()
        self.pool = nn.MaxPool3d(kernel, stride, padding, dilation)

    def forward(self, x):
        return self.pool(x)


@problem(
    1,
    44,
    "avg_pool_1d",
    "b c s",
    init=(8, 1, 4),
    b=(2, 16, 64),
    c=(3, 32, 128),
    s=(40, 4096, 65536),
)
class AvgPool1d(nn.Module):
    def __init__(self, kernel, stride, padding):
        super().__init__()
        self.pool = nn.AvgPool1d(kernel, stride, padding)

    def forward(self, x):
        return self.pool(x)


@problem(
    1, 45, "avg_pool_2d", "b c s s", init=(11,), b=(2, 4, 16), c=(3, 32, 64), s=(24, 176, 2048)
)
class AvgPool2d(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel)

    def forward(self, x):
        return self.pool(x)


@problem(
    1,
    46,
    "avg_pool_3d",
    "b c d h w",
    init=(3, 2, 1),
    b=(2, 2, 16),
    c=(2, 16, 32),
    d=(8, 32, 128),
    h=(7, 32, 128),
    w=(9, 48, 256),
)
class AvgPool3d(nn.Module):
    def __init__(self, kernel, stride, padding):
        super().__init__()
        self.pool = nn.AvgPool3d(kernel, stride, padding)

    def forward(self, x):
        return self.pool(x)


# Reductions over an axis of three.


@problem(
    1, 47, "sum_reduction", "b n d", init=(1,), b=(2, 16, 128), n=(9, 512, 4096), d=(7, 512, 4095)
)
class SumReduction(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.sum(x, dim=self.dim, keepdim=True)


@problem(
    1, 48, "mean_reduction", "b n d", init=(1,), b=(2, 16, 128), n=(9, 512, 4096), d=(7, 512, 4095)
)
class MeanReduction(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.mean(x, dim=self.dim)


@problem(
    1, 49, "max_reduction", "b n d", init=(1,), b=(2, 16, 128), n=(9, 512, 4096), d=(7, 512, 4095)
)
class MaxReduction(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.max(x, dim=self.dim)[0]


@problem(1, 51, "argmax", "b n d", init=(1,), b=(2, 16, 128), n=(9, 512, 4096), d=(7, 512, 4095))
class Argmax(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.argmax(x, dim=self.dim)


@problem(1, 52, "argmin", "b n d", init=(1,), b=(2, 16, 128), n=(9, 512, 4096), d=(7, 512, 4095))
class Argmin(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.argmin(x, dim=self.dim)


@problem(
    1, 53, "min_reduction", "b n d", init=(1,), b=(2, 16, 128), n=(9, 512, 4096), d=(7, 512, 4095)
)
class MinReduction(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.min(x, dim=self.dim)[0]
