"""Level 2: a convolution of images and what follows it."""

import torch
from torch import nn

from lazyt.bench.levels import problem


class Conv2dChain(nn.Module):
    def __init__(self, channels, out, bias=True):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 3, bias=bias)


@problem(
    2,
    1,
    "conv2d_relu_bias",
    "b c s s",
    init=("c", "o"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dReluBias(Conv2dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.bias = nn.Parameter(torch.randn(out, 1, 1))

    def forward(self, x):
        return torch.relu(self.conv(x)) + self.bias


@problem(
    2,
    4,
    "conv2d_mish_mish",
    "b c s s",
    init=("c", "o"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dMishMish(Conv2dChain):
    def forward(self, x):
        return nn.functional.mish(nn.functional.mish(self.conv(x)))


@problem(
    2,
    17,
    "conv2d_instance_norm_divide",
    "b c s s",
    init=("c", "o", 2.0),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dInstanceNormDivide(Conv2dChain):
    def __init__(self, channels, out, divisor):
        super().__init__(channels, out, bias=False)
        self.divisor = divisor

    def forward(self, x):
        return nn.functional.instance_norm(self.conv(x)) / self.divisor


@problem(
    2,
    21,
    "conv2d_add_scale_sigmoid_group_norm",
    "b c s s",
    init=("c", "o", "g"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
    g=(4, 8, 8),
)
class Conv2dAddScaleSigmoidGroupNorm(Conv2dChain):
    def __init__(self, channels, out, groups):
        super().__init__(channels, out)
        self.bias = nn.Parameter(torch.randn(out, 1, 1))
        self.scale = nn.Parameter(torch.randn(out, 1, 1))
        self.norm = nn.GroupNorm(groups, out)

    def forward(self, x):
        y = (self.conv(x) + self.bias) * self.scale
        return self.norm(torch.sigmoid(y))


@problem(
    2,
    25,
    "conv2d_min_tanh_tanh",
    "b c s s",
    init=("c", "o"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dMinTanhTanh(Conv2dChain):
    def forward(self, x):
        y = torch.min(self.conv(x), dim=1, keepdim=True)[0]
        return torch.tanh(torch.tanh(y))


@problem(
    2,
    31,
    "conv2d_min_add_multiply",
    "b c s s",
    init=("c", "o", 0.5, 2.0),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dMinAddMultiply(Conv2dChain):
    def __init__(self, channels, out, limit, factor):
        super().__init__(channels, out)
        self.limit = limit
        self.factor = factor
        self.bias = nn.Parameter(torch.randn(out, 1, 1))

    def forward(self, x):
        y = torch.clamp(self.conv(x), max=self.limit)
        return (y + self.bias) * self.factor


@problem(
    2,
    32,
    "conv2d_scaling_min",
    "b c s s",
    init=("c", "o", 2.0),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dScalingMin(Conv2dChain):
    def __init__(self, channels, out, factor):
        super().__init__(channels, out)
        self.factor = factor

    def forward(self, x):
        return torch.min(self.conv(x) * self.factor, dim=1, keepdim=True)[0]


@problem(
    2,
    35,
    "conv2d_subtract_hardswish_maxpool_mish",
    "b c s s",
    init=("c", "o", 0.5),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dSubtractHardswishMaxpoolMish(Conv2dChain):
    def __init__(self, channels, out, shift):
        super().__init__(channels, out)
        self.shift = shift

    def forward(self, x):
        y = nn.functional.hardswish(self.conv(x) - self.shift)
        return nn.functional.mish(nn.functional.max_pool2d(y, 2))


@problem(
    2,
    46,
    "conv2d_subtract_tanh_subtract_avgpool",
    "b c s s",
    init=("c", "o", 0.5, 0.2),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dSubtractTanhSubtractAvgpool(Conv2dChain):
    def __init__(self, channels, out, first, second):
        super().__init__(channels, out)
        self.first = first
        self.second = second

    def forward(self, x):
        y = torch.tanh(self.conv(x) - self.first) - self.second
        return nn.functional.avg_pool2d(y, 2)


@problem(
    2,
    52,
    "conv2d_activation_batch_norm",
    "b c s s",
    init=("c", "o"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dActivationBatchNorm(Conv2dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.norm = nn.BatchNorm2d(out)

    def forward(self, x):
        y = self.conv(x)
        return self.norm(y * torch.tanh(nn.functional.softplus(y)))


@problem(
    2,
    54,
    "conv2d_multiply_leaky_relu_gelu",
    "b c s s",
    init=("c", "o"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dMultiplyLeakyReluGelu(Conv2dChain):
    def __init__(self, channels, out):
        super().__init__(channels, out)
        self.factor = nn.Parameter(torch.randn(out, 1, 1))

    def forward(self, x):
        y = nn.functional.leaky_relu(self.conv(x) * self.factor)
        return nn.functional.gelu(y)


@problem(
    2,
    57,
    "conv2d_relu_hardswish",
    "b c s s",
    init=("c", "o"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dReluHardswish(Conv2dChain):
    def forward(self, x):
        return nn.functional.hardswish(torch.relu(self.conv(x)))


@problem(
    2,
    65,
    "conv2d_avgpool_sigmoid_sum",
    "b c s s",
    init=("c", "o"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dAvgpoolSigmoidSum(Conv2dChain):
    def forward(self, x):
        y = nn.functional.avg_pool2d(self.conv(x), 4)
        return torch.sum(torch.sigmoid(y), dim=(1, 2, 3))


@problem(
    2,
    67,
    "conv2d_gelu_globalavgpool",
    "b c s s",
    init=("c", "o"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dGeluGlobalavgpool(Conv2dChain):
    def forward(self, x):
        y = nn.functional.gelu(self.conv(x))
        return nn.functional.adaptive_avg_pool2d(y, 1).squeeze(-1).squeeze(-1)


@problem(
    2,
    69,
    "conv2d_hardswish_relu",
    "b c s s",
    init=("c", "o"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dHardswishRelu(Conv2dChain):
    def forward(self, x):
        return torch.relu(nn.functional.hardswish(self.conv(x)))


@problem(
    2,
    71,
    "conv2d_divide_leaky_relu",
    "b c s s",
    init=("c", "o", 2.0),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dDivideLeakyRelu(Conv2dChain):
    def __init__(self, channels, out, divisor):
        super().__init__(channels, out)
        self.divisor = divisor

    def forward(self, x):
        return nn.functional.leaky_relu(self.conv(x) / self.divisor, 0.01)


@problem(
    2,
    73,
    "conv2d_batch_norm_scaling",
    "b c s s",
    init=("c", "o", 2.0),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dBatchNormScaling(Conv2dChain):
    def __init__(self, channels, out, factor):
        super().__init__(channels, out, bias=False)
        self.factor = factor
        self.norm = nn.BatchNorm2d(out)

    def forward(self, x):
        return self.norm(self.conv(x)) * self.factor


@problem(
    2,
    82,
    "conv2d_tanh_scaling_bias_max",
    "b c s s",
    init=("c", "o", 2.0),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dTanhScalingBiasMax(Conv2dChain):
    def __init__(self, channels, out, factor):
        super().__init__(channels, out)
        self.factor = factor
        self.bias = nn.Parameter(torch.randn(out, 1, 1))

    def forward(self, x):
        y = torch.tanh(self.conv(x)) * self.factor + self.bias
        return nn.functional.max_pool2d(y, 4)


@problem(
    2,
    85,
    "conv2d_group_norm_scale_maxpool_clamp",
    "b c s s",
    init=("c", "o", "g"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
    g=(4, 8, 8),
)
class Conv2dGroupNormScaleMaxpoolClamp(Conv2dChain):
    def __init__(self, channels, out, groups):
        super().__init__(channels, out)
        self.norm = nn.GroupNorm(groups, out)
        self.scale = nn.Parameter(torch.randn(out, 1, 1))

    def forward(self, x):
        y = self.norm(self.conv(x)) * self.scale
        return torch.clamp(nn.functional.max_pool2d(y, 4), 0.0, 1.0)


@problem(
    2,
    87,
    "conv2d_subtract_subtract_mish",
    "b c s s",
    init=("c", "o", 0.5, 0.2),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
)
class Conv2dSubtractSubtractMish(Conv2dChain):
    def __init__(self, channels, out, first, second):
        super().__init__(channels, out)
        self.first = first
        self.second = second

    def forward(self, x):
        return nn.functional.mish(self.conv(x) - self.first - self.second)


@problem(
    2,
    92,
    "conv2d_group_norm_tanh_hardswish_residual_logsumexp",
    "b c s s",
    init=("c", "o", "g"),
    b=(2, 8, 128),
    c=(3, 16, 64),
    o=(8, 32, 128),
    s=(10, 48, 128),
    g=(4, 8, 8),
)
class Conv2dGroupNormTanhHardswishResidualLogsumexp(Conv2dChain):
    def __init__(self, channels, out, groups):
        super().__init__(channels, out)
        self.norm = nn.GroupNorm(groups, out)

    def forward(self, x):
        y = self.conv(x)
        z = nn.functional.hardswish(torch.tanh(self.norm(y)))
        return torch.logsumexp(y + z, dim=1, keepdim=True)
