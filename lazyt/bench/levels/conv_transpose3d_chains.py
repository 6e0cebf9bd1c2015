"""Level 2: a transposed convolution of volumes, which doubles their size, and what follows it."""

import torch
from torch import nn

from lazyt.bench.levels import problem


class ConvTranspose3dChain(nn.Module):
    def __init__(self, channels, out, bias=True):
        super().__init__()
        self.conv = nn.ConvTranspose3d(channels, out, 3, 2, 1, 1, bias=bias)


@problem(
    2,
    3,
    "conv_transpose3d_sum_layer_norm_avgpool_gelu",
    "b c d s s",
    init=("c", "o", "2*s"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dSumLayerNormAvgpoolGelu(ConvTranspose3dChain):
    """What is added depends on the place in a row, as normalization undoes a single number."""

    def __init__(self, channels, out, size):
        super().__init__(channels, out, bias=False)
        self.shift = nn.Parameter(torch.randn(size))
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        y = nn.functional.avg_pool3d(self.norm(self.conv(x) + self.shift), 2)
        return nn.functional.gelu(y)


@problem(
    2,
    13,
    "conv_transpose3d_mean_add_softmax_tanh_scaling",
    "b c d s s",
    init=("c", "o", 2.0),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dMeanAddSoftmaxTanhScaling(ConvTranspose3dChain):
    def __init__(self, channels, out, factor):
        super().__init__(channels, out)
        self.factor = factor
        self.bias = nn.Parameter(torch.randn(out, 1, 1, 1))

    def forward(self, x):
        y = torch.mean(self.conv(x), dim=2, keepdim=True) + self.bias
        return torch.tanh(torch.softmax(y, dim=1)) * self.factor


@problem(
    2,
    15,
    "conv_transpose3d_batch_norm_subtract",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dBatchNormSubtract(ConvTranspose3dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out, bias=False)
        self.norm = nn.BatchNorm3d(out, affine=False)

    def forward(self, x):
        y = self.norm(self.conv(x))
        return y - torch.mean(y, dim=(2, 3, 4), keepdim=True)


@problem(
    2,
    20,
    "conv_transpose3d_sum_residual_multiply_residual",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dSumResidualMultiplyResidual(ConvTranspose3dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.bias = nn.Parameter(torch.randn(out, 1, 1, 1))

    def forward(self, x):
        y = self.conv(x)
        return (y + self.bias + y) * y + y


@problem(
    2,
    26,
    "conv_transpose3d_add_hardswish",
    "b c d s s, b o 2*d 2*s 2*s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dAddHardswish(ConvTranspose3dChain):
    def forward(self, x, other):
        y = self.conv(x) + other
        return y * nn.functional.hardswish(y)


@problem(
    2,
    34,
    "conv_transpose3d_layer_norm_gelu_scaling",
    "b c d s s",
    init=("c", "o", "2*s", 2.0),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dLayerNormGeluScaling(ConvTranspose3dChain):
    def __init__(self, channels, out, size, factor):
        super().__init__(channels, out, bias=False)
        self.factor = factor
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        return nn.functional.gelu(self.norm(self.conv(x))) * self.factor


@problem(
    2,
    38,
    "conv_transpose3d_avgpool_clamp_softmax_multiply",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(4, 16, 32),
    s=(6, 32, 64),
)
class ConvTranspose3dAvgpoolClampSoftmaxMultiply(ConvTranspose3dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.scale = nn.Parameter(torch.randn(out, 1, 1, 1))

    def forward(self, x):
        y = torch.clamp(self.conv(nn.functional.avg_pool3d(x, 2)), 0.0, 1.0)
        return torch.softmax(y.flatten(2), dim=2).view(y.shape) * self.scale


@problem(
    2,
    49,
    "conv_transpose3d_softmax_sigmoid",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dSoftmaxSigmoid(ConvTranspose3dChain):
    def forward(self, x):
        return torch.sigmoid(torch.softmax(self.conv(x), dim=1))


@problem(
    2,
    50,
    "conv_transpose3d_scaling_avgpool_bias_scaling",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dScalingAvgpoolBiasScaling(ConvTranspose3dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.first = nn.Parameter(torch.tensor(0.5))
        self.bias = nn.Parameter(torch.randn(out, 1, 1, 1))
        self.second = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        y = nn.functional.avg_pool3d(self.conv(x) * self.first, 2)
        return (y + self.bias) * self.second


@problem(
    2,
    58,
    "conv_transpose3d_logsumexp_hardswish_subtract_clamp",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dLogsumexpHardswishSubtractClamp(ConvTranspose3dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.shift = nn.Parameter(torch.randn(1))

    def forward(self, x):
        y = torch.logsumexp(self.conv(x), dim=1, keepdim=True)
        y = y * torch.sigmoid(y + 3) / 6 - self.shift
        return torch.clamp(y, -1.0, 1.0)


@problem(
    2,
    60,
    "conv_transpose3d_swish_group_norm_hardswish",
    "b c d s s",
    init=("c", "o", "g"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
    g=(4, 8, 8),
)
class ConvTranspose3dSwishGroupNormHardswish(ConvTranspose3dChain):
    def __init__(self, channels, out, groups):
        super().__init__(channels, out)
        self.norm = nn.GroupNorm(groups, out)

    def forward(self, x):
        y = self.conv(x)
        return nn.functional.hardswish(self.norm(torch.sigmoid(y) * y))


@problem(
    2,
    61,
    "conv_transpose3d_relu_group_norm",
    "b c d s s",
    init=("c", "o", "g"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
    g=(4, 8, 8),
)
class ConvTranspose3dReluGroupNorm(ConvTranspose3dChain):
    def __init__(self, channels, out, groups):
        super().__init__(channels, out)
        self.norm = nn.GroupNorm(groups, out)

    def forward(self, x):
        return self.norm(torch.relu(self.conv(x)))


@problem(
    2,
    72,
    "conv_transpose3d_batch_norm_avgpool_avgpool",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dBatchNormAvgpoolAvgpool(ConvTranspose3dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out, bias=False)
        self.norm = nn.BatchNorm3d(out)

    def forward(self, x):
        y = nn.functional.avg_pool3d(self.norm(self.conv(x)), 2)
        return nn.functional.avg_pool3d(y, 2)


@problem(
    2,
    74,
    "conv_transpose3d_leaky_relu_multiply_leaky_relu_max",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dLeakyReluMultiplyLeakyReluMax(ConvTranspose3dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.factor = nn.Parameter(torch.randn(out, 1, 1, 1))

    def forward(self, x):
        y = nn.functional.leaky_relu(self.conv(x), 0.2) * self.factor
        return nn.functional.max_pool3d(nn.functional.leaky_relu(y, 0.2), 2)


@problem(
    2,
    77,
    "conv_transpose3d_scale_batch_norm_globalavgpool",
    "b c d s s",
    init=("c", "o", 2.0),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dScaleBatchNormGlobalavgpool(ConvTranspose3dChain):
    def __init__(self, channels, out, factor):
        super().__init__(channels, out, bias=False)
        self.factor = factor
        self.norm = nn.BatchNorm3d(out)

    def forward(self, x):
        y = self.norm(self.conv(x) * self.factor)
        return nn.functional.adaptive_avg_pool3d(y, 1)


@problem(
    2,
    78,
    "conv_transpose3d_max_max_sum",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dMaxMaxSum(ConvTranspose3dChain):
    def forward(self, x):
        y = nn.functional.max_pool3d(nn.functional.max_pool3d(self.conv(x), 2), 3)
        return torch.sum(y, dim=1, keepdim=True)


@problem(
    2,
    89,
    "conv_transpose3d_maxpool_softmax_subtract_swish_max",
    "b c d s s",
    init=("c", "o"),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dMaxpoolSoftmaxSubtractSwishMax(ConvTranspose3dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.shift = nn.Parameter(torch.randn(out, 1, 1, 1))

    def forward(self, x):
        y = torch.softmax(nn.functional.max_pool3d(self.conv(x), 2), dim=1)
        y = y - self.shift
        return torch.max(torch.sigmoid(y) * y, dim=1)[0]


@problem(
    2,
    96,
    "conv_transpose3d_multiply_max_globalavgpool_clamp",
    "b c d s s",
    init=("c", "o", 0.5),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dMultiplyMaxGlobalavgpoolClamp(ConvTranspose3dChain):
    def __init__(self, channels, out, factor):
        super().__init__(channels, out)
        self.factor = factor

    def forward(self, x):
        y = nn.functional.max_pool3d(self.conv(x) * self.factor, 2)
        return torch.clamp(nn.functional.adaptive_avg_pool3d(y, 1), 0.0, 1.0)


@problem(
    2,
    100,
    "conv_transpose3d_clamp_min_divide",
    "b c d s s",
    init=("c", "o", -1.0, 2.0),
    b=(2, 2, 16),
    c=(4, 16, 32),
    o=(8, 16, 64),
    d=(3, 8, 16),
    s=(4, 16, 32),
)
class ConvTranspose3dClampMinDivide(ConvTranspose3dChain):
    def __init__(self, channels, out, least, divisor):
        super().__init__(channels, out)
        self.least = least
        self.divisor = divisor

    def forward(self, x):
        return torch.clamp(self.conv(x), min=self.least) / self.divisor
