"""Level 2: a transposed convolution of images, which doubles their size, and what follows it."""

import torch
from torch import nn

from lazyt.bench.levels import problem


class ConvTranspose2dChain(nn.Module):
    def __init__(self, channels, out, bias=True):
        super().__init__()
        self.conv = nn.ConvTranspose2d(channels, out, 3, 2, 1, 1, bias=bias)


@problem(
    2,
    2,
    "conv_transpose2d_bias_clamp_scaling_clamp_divide",
    "b c s s",
    init=("c", "o", 2.0),
    b=(2, 8, 64),
    c=(4, 32, 64),
    o=(8, 32, 64),
    s=(5, 24, 128),
)
class ConvTranspose2dBiasClampScalingClampDivide(ConvTranspose2dChain):
    def __init__(self, channels, out, factor):
        super().__init__(channels, out)
        self.factor = factor
        self.bias = nn.Parameter(torch.randn(out, 1, 1))

    def forward(self, x):
        y = torch.clamp(self.conv(x) + self.bias, 0.0, 1.0) * self.factor
        return torch.clamp(y, 0.0, 1.0) / self.factor


@problem(
    2,
    5,
    "conv_transpose2d_subtract_tanh",
    "b c s s",
    init=("c", "o"),
    b=(2, 8, 64),
    c=(4, 32, 64),
    o=(8, 32, 64),
    s=(5, 24, 128),
)
class ConvTranspose2dSubtractTanh(ConvTranspose2dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.shift = nn.Parameter(torch.randn(out, 1, 1))

    def forward(self, x):
        return torch.tanh(self.conv(x) - self.shift)


@problem(
    2,
    10,
    "conv_transpose2d_maxpool_hardtanh_mean_tanh",
    "b c s s",
    init=("c", "o"),
    b=(2, 8, 64),
    c=(4, 32, 64),
    o=(8, 32, 64),
    s=(5, 24, 128),
)
class ConvTranspose2dMaxpoolHardtanhMeanTanh(ConvTranspose2dChain):
    def forward(self, x):
        y = nn.functional.hardtanh(nn.functional.max_pool2d(self.conv(x), 2))
        return torch.tanh(torch.mean(y, dim=(2, 3), keepdim=True))


@problem(
    2,
    11,
    "conv_transpose2d_batch_norm_tanh_maxpool_group_norm",
    "b c s s",
    init=("c", "o", "g"),
    b=(2, 8, 64),
    c=(4, 32, 64),
    o=(8, 32, 64),
    s=(5, 24, 128),
    g=(4, 8, 8),
)
class ConvTranspose2dBatchNormTanhMaxpoolGroupNorm(ConvTranspose2dChain):
    def __init__(self, channels, out, groups):
        super().__init__(channels, out, bias=False)
        self.first = nn.BatchNorm2d(out)
        self.second = nn.GroupNorm(groups, out)

    def forward(self, x):
        y = torch.tanh(self.first(self.conv(x)))
        return self.second(nn.functional.max_pool2d(y, 2))


@problem(
    2,
    16,
    "conv_transpose2d_mish_add_hardtanh_scaling",
    "b c s s",
    init=("c", "o", 0.5, 2.0),
    b=(2, 8, 64),
    c=(4, 32, 64),
    o=(8, 32, 64),
    s=(5, 24, 128),
)
class ConvTranspose2dMishAddHardtanhScaling(ConvTranspose2dChain):
    def __init__(self, channels, out, shift, factor):
        super().__init__(channels, out)
        self.shift = shift
        self.factor = factor

    def forward(self, x):
        y = nn.functional.hardtanh(nn.functional.mish(self.conv(x)) + self.shift)
        return y * self.factor


@problem(
    2,
    19,
    "conv_transpose2d_gelu_group_norm",
    "b c s s",
    init=("c", "o", "g"),
    b=(2, 8, 64),
    c=(4, 32, 64),
    o=(8, 32, 64),
    s=(5, 24, 128),
    g=(4, 8, 8),
)
class ConvTranspose2dGeluGroupNorm(ConvTranspose2dChain):
    def __init__(self, channels, out, groups):
        super().__init__(channels, out)
        self.norm = nn.GroupNorm(groups, out)

    def forward(self, x):
        return self.norm(nn.functional.gelu(self.conv(x)))


@problem(
    2,
    36,
    "conv_transpose2d_min_sum_gelu_add",
    "b c s s",
    init=("c", "o", 16.0),
    b=(2, 8, 64),
    c=(4, 32, 64),
    o=(8, 32, 64),
    s=(5, 24, 128),
)
class ConvTranspose2dMinSumGeluAdd(ConvTranspose2dChain):
    """Divided, as else gelu rounds to zero what are large negative sums."""

    def __init__(self, channels, out, divisor):
        super().__init__(channels, out)
        self.divisor = divisor
        self.bias = nn.Parameter(torch.randn(out, 1, 1))

    def forward(self, x):
        y = torch.min(self.conv(x), dim=1, keepdim=True)[0]
        y = torch.sum(y, dim=2, keepdim=True) / self.divisor
        return nn.functional.gelu(y) + self.bias


@problem(
    2,
    42,
    "conv_transpose2d_globalavgpool_bias_logsumexp_sum_multiply",
    "b c s s",
    init=("c", "o", 10.0),
    b=(2, 8, 64),
    c=(4, 32, 64),
    o=(8, 32, 64),
    s=(5, 24, 128),
)
class ConvTranspose2dGlobalavgpoolBiasLogsumexpSumMultiply(ConvTranspose2dChain):
    def __init__(self, channels, out, factor):
        super().__init__(channels, out)
        self.factor = factor
        self.bias = nn.Parameter(torch.randn(out, 1, 1))

    def forward(self, x):
        y = torch.mean(self.conv(x), dim=(2, 3), keepdim=True) + self.bias
        y = torch.logsumexp(y, dim=1, keepdim=True)
        return torch.sum(y, dim=(2, 3)) * self.factor


@problem(
    2,
    44,
    "conv_transpose2d_multiply_globalavgpool_mean",
    "b c s s",
    init=("c", "o", 0.5),
    b=(2, 8, 64),
    c=(4, 32, 64),
    o=(8, 32, 64),
    s=(5, 24, 128),
)
class ConvTranspose2dMultiplyGlobalavgpoolMean(ConvTranspose2dChain):
    """Over one axis after the other."""

    def __init__(self, channels, out, factor):
        super().__init__(channels, out)
        self.factor = factor

    def forward(self, x):
        y = (self.conv(x) * self.factor).mean(dim=3).mean(dim=2)
        return torch.mean(y, dim=1)


@problem(
    2,
    91,
    "conv_transpose2d_softmax_bias_scaling_sigmoid",
    "b c s s",
    init=("c", "o", 2.0),
    b=(2, 8, 64),
    c=(4, 32, 64),
    o=(8, 32, 64),
    s=(5, 24, 128),
)
class ConvTranspose2dSoftmaxBiasScalingSigmoid(ConvTranspose2dChain):
    def __init__(self, channels, out, factor):
        super().__init__(channels, out)
        self.factor = factor
        self.bias = nn.Parameter(torch.randn(out, 1, 1))

    def forward(self, x):
        y = torch.softmax(self.conv(x), dim=1) + self.bias
        return torch.sigmoid(y * self.factor)


@problem(
    2,
    93,
    "conv_transpose2d_add_min_gelu_multiply",
    "b c s s",
    init=("c", "o", 0.1, 2.0),
    b=(2, 8, 64),
    c=(4, 32, 64),
    o=(8, 32, 64),
    s=(5, 24, 128),
)
class ConvTranspose2dAddMinGeluMultiply(ConvTranspose2dChain):
    def __init__(self, channels, out, shift, factor):
        super().__init__(channels, out)
        self.shift = shift
        self.factor = factor

    def forward(self, x):
        y = torch.clamp(self.conv(x) + self.shift, max=0.0)
        return nn.functional.gelu(y) * self.factor
