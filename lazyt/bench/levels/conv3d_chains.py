"""Level 2: a convolution of volumes and what follows it."""

import torch
from torch import nn

from lazyt.bench.levels import problem


class Conv3dChain(nn.Module):
    def __init__(self, channels, out, padding=0, bias=True):
        super().__init__()
        self.conv = nn.Conv3d(channels, out, 3, padding=padding, bias=bias)


@problem(
    2,
    6,
    "conv3d_softmax_maxpool_maxpool",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
)
class Conv3dSoftmaxMaxpoolMaxpool(Conv3dChain):
    def forward(self, x):
        y = torch.softmax(self.conv(x), dim=1)
        return nn.functional.max_pool3d(nn.functional.max_pool3d(y, 2), 2)


@problem(
    2,
    7,
    "conv3d_relu_leaky_relu_gelu_sigmoid_bias",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
)
class Conv3dReluLeakyReluGeluSigmoidBias(Conv3dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.bias = nn.Parameter(torch.randn(out, 1, 1, 1))

    def forward(self, x):
        y = nn.functional.leaky_relu(torch.relu(self.conv(x)), 0.01)
        return torch.sigmoid(nn.functional.gelu(y)) + self.bias


@problem(
    2,
    8,
    "conv3d_divide_max_globalavgpool_bias_sum",
    "b c d s s",
    init=("c", "o", 2.0),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
)
class Conv3dDivideMaxGlobalavgpoolBiasSum(Conv3dChain):
    def __init__(self, channels, out, divisor):
        super().__init__(channels, out)
        self.divisor = divisor
        self.bias = nn.Parameter(torch.randn(out, 1, 1, 1))

    def forward(self, x):
        y = nn.functional.max_pool3d(self.conv(x) / self.divisor, 2)
        y = nn.functional.adaptive_avg_pool3d(y, 1) + self.bias
        return torch.sum(y, dim=1)


@problem(
    2,
    23,
    "conv3d_group_norm_mean",
    "b c d s s",
    init=("c", "o", "g"),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
    g=(4, 8, 8),
)
class Conv3dGroupNormMean(Conv3dChain):
    """Over the channels: the mean of all that was normalized says nothing about the input."""

    def __init__(self, channels, out, groups):
        super().__init__(channels, out)
        self.norm = nn.GroupNorm(groups, out)

    def forward(self, x):
        return torch.mean(self.norm(self.conv(x)), dim=1)


@problem(
    2,
    24,
    "conv3d_min_softmax",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
)
class Conv3dMinSoftmax(Conv3dChain):
    def forward(self, x):
        return torch.softmax(torch.min(self.conv(x), dim=2)[0], dim=1)


@problem(
    2,
    27,
    "conv3d_hardswish_group_norm_mean",
    "b c d s s",
    init=("c", "o", "g"),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
    g=(4, 8, 8),
)
class Conv3dHardswishGroupNormMean(Conv3dChain):
    def __init__(self, channels, out, groups):
        super().__init__(channels, out)
        self.norm = nn.GroupNorm(groups, out)

    def forward(self, x):
        y = self.norm(nn.functional.hardswish(self.conv(x)))
        return torch.mean(y, dim=(2, 3, 4))


@problem(
    2,
    43,
    "conv3d_max_logsumexp_relu",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
)
class Conv3dMaxLogsumexpRelu(Conv3dChain):
    def forward(self, x):
        y = nn.functional.max_pool3d(self.conv(x), 2)
        return torch.relu(torch.logsumexp(y, dim=1, keepdim=True))


@problem(
    2,
    47,
    "conv3d_mish_tanh",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
)
class Conv3dMishTanh(Conv3dChain):
    def forward(self, x):
        return torch.tanh(nn.functional.mish(self.conv(x)))


@problem(
    2,
    48,
    "conv3d_scaling_tanh_multiply_sigmoid",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
)
class Conv3dScalingTanhMultiplySigmoid(Conv3dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.scale = nn.Parameter(torch.randn(out, 1, 1, 1))
        self.factor = nn.Parameter(torch.randn(out, 1, 1, 1))

    def forward(self, x):
        y = torch.tanh(self.conv(x) * self.scale)
        return torch.sigmoid(y * self.factor)


@problem(
    2,
    79,
    "conv3d_multiply_instance_norm_clamp_multiply_max",
    "b c d s s",
    init=("c", "o", "s"),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
)
class Conv3dMultiplyInstanceNormClampMultiplyMax(Conv3dChain):
    """The first factor depends on the place, as normalization undoes that of a channel."""

    def __init__(self, channels, out, size):
        super().__init__(channels, out, padding=1, bias=False)
        self.first = nn.Parameter(torch.randn(size, size))
        self.second = nn.Parameter(torch.randn(out, 1, 1, 1))

    def forward(self, x):
        y = nn.functional.instance_norm(self.conv(x) * self.first)
        y = torch.clamp(y, -1.0, 1.0) * self.second
        return torch.max(y, dim=1)[0]


@problem(
    2,
    83,
    "conv3d_group_norm_min_clamp_dropout",
    "b c d s s, mask b o d s s",
    init=("c", "o", "g", 0.5),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
    g=(4, 8, 8),
)
class Conv3dGroupNormMinClampDropout(Conv3dChain):
    def __init__(self, channels, out, groups, share):
        super().__init__(channels, out, padding=1)
        self.share = share
        self.norm = nn.GroupNorm(groups, out)
        self.limit = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, kept):
        y = torch.clamp(torch.minimum(self.norm(self.conv(x)), self.limit), min=-1.0)
        return y * kept / (1 - self.share)


@problem(
    2,
    90,
    "conv3d_leaky_relu_sum_clamp_gelu",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=3,
    o=(8, 16, 32),
    d=(7, 16, 32),
    s=(8, 32, 64),
)
class Conv3dLeakyReluSumClampGelu(Conv3dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.bias = nn.Parameter(torch.randn(out, 1, 1, 1))

    def forward(self, x):
        y = nn.functional.leaky_relu(self.conv(x), 0.2) + self.bias
        return nn.functional.gelu(torch.clamp(y, -1.0, 1.0))
