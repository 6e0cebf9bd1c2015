"""Level 2: a linear layer and what follows it, second half."""

import torch
from torch import nn

from lazyt.bench.levels import problem


class LinearChain(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=bias)


@problem(
    2,
    59,
    "matmul_swish_scaling",
    "n i",
    init=("i", "o", 2.0),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulSwishScaling(LinearChain):
    def __init__(self, inputs, outputs, factor):
        super().__init__(inputs, outputs)
        self.factor = factor

    def forward(self, x):
        y = self.linear(x)
        return y * torch.sigmoid(y) * self.factor


@problem(
    2,
    62,
    "matmul_group_norm_leaky_relu_sum",
    "n i",
    init=("i", "o", "g"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
    g=(4, 8, 8),
)
class MatmulGroupNormLeakyReluSum(LinearChain):
    def __init__(self, inputs, outputs, groups):
        super().__init__(inputs, outputs)
        self.norm = nn.GroupNorm(groups, outputs)

    def forward(self, x):
        y = nn.functional.leaky_relu(self.norm(self.linear(x)), 0.01)
        return y + y


@problem(
    2,
    63,
    "gemm_relu_divide",
    "n i",
    init=("i", "o", 2.0),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmReluDivide(LinearChain):
    def __init__(self, inputs, outputs, divisor):
        super().__init__(inputs, outputs)
        self.divisor = divisor

    def forward(self, x):
        return torch.relu(self.linear(x)) / self.divisor


@problem(
    2,
    64,
    "gemm_logsumexp_leaky_relu_gelu",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmLogsumexpLeakyReluGelu(LinearChain):
    def forward(self, x):
        y = torch.logsumexp(self.linear(x), dim=1, keepdim=True)
        y = nn.functional.leaky_relu(nn.functional.leaky_relu(y, 0.01), 0.01)
        return nn.functional.gelu(nn.functional.gelu(y))


@problem(
    2,
    66,
    "matmul_dropout_softmax",
    "n i, mask n o",
    init=("i", "o", 0.5),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulDropoutSoftmax(LinearChain):
    """What is dropped is given, as random numbers are each framework's own."""

    def __init__(self, inputs, outputs, share):
        super().__init__(inputs, outputs)
        self.share = share

    def forward(self, x, kept):
        y = self.linear(x) * kept / (1 - self.share)
        return torch.softmax(y, dim=1)


@problem(
    2,
    68,
    "matmul_min_subtract",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulMinSubtract(LinearChain):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.limit = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return torch.minimum(self.linear(x), self.limit) - self.limit


@problem(
    2,
    70,
    "gemm_sigmoid_scaling_residual",
    "n i",
    init=("i", "o", 2.0),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmSigmoidScalingResidual(LinearChain):
    def __init__(self, inputs, outputs, factor):
        super().__init__(inputs, outputs)
        self.factor = factor

    def forward(self, x):
        y = self.linear(x)
        return y + torch.sigmoid(y) * self.factor


@problem(
    2,
    75,
    "gemm_group_norm_min_bias",
    "n i",
    init=("i", "o", "g"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
    g=(4, 8, 8),
)
class GemmGroupNormMinBias(LinearChain):
    def __init__(self, inputs, outputs, groups):
        super().__init__(inputs, outputs)
        self.norm = nn.GroupNorm(groups, outputs)
        self.bias = nn.Parameter(torch.randn(1, outputs))

    def forward(self, x):
        y = torch.amin(self.norm(self.linear(x)), dim=1, keepdim=True)
        return y + self.bias


@problem(
    2,
    76,
    "gemm_add_relu",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmAddRelu(LinearChain):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return torch.relu(self.linear(x) + self.bias)


@problem(
    2,
    80,
    "gemm_max_subtract_gelu",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmMaxSubtractGelu(LinearChain):
    """The largest of each group of columns, as one alone, less the mean, is nothing."""

    def forward(self, x):
        tops = self.linear(x).unflatten(1, (4, -1)).amax(-1)
        return nn.functional.gelu(tops - tops.mean(dim=1, keepdim=True))


@problem(
    2,
    81,
    "gemm_swish_divide_clamp_tanh_clamp",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmSwishDivideClampTanhClamp(LinearChain):
    def forward(self, x):
        y = self.linear(x)
        y = torch.clamp(y * torch.sigmoid(y) / 2, -1.0, 1.0)
        return torch.clamp(torch.tanh(y), -0.5, 0.5)


@problem(
    2,
    84,
    "gemm_batch_norm_scaling_softmax",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmBatchNormScalingSoftmax(LinearChain):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)
        self.norm = nn.BatchNorm1d(outputs)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return torch.softmax(self.scale * self.norm(self.linear(x)), dim=1)


@problem(
    2,
    86,
    "matmul_divide_gelu",
    "n i",
    init=("i", "o", 10.0),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulDivideGelu(LinearChain):
    def __init__(self, inputs, outputs, divisor):
        super().__init__(inputs, outputs)
        self.divisor = divisor

    def forward(self, x):
        return nn.functional.gelu(self.linear(x) / self.divisor)


@problem(
    2,
    88,
    "gemm_group_norm_swish_multiply_swish",
    "n i",
    init=("i", "o", "g"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
    g=(4, 8, 8),
)
class GemmGroupNormSwishMultiplySwish(LinearChain):
    def __init__(self, inputs, outputs, groups):
        super().__init__(inputs, outputs)
        self.norm = nn.GroupNorm(groups, outputs)
        self.factor = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        y = nn.functional.silu(self.norm(self.linear(x))) * self.factor
        return nn.functional.silu(y)


@problem(
    2,
    94,
    "gemm_bias_hardtanh_mish_group_norm",
    "n i",
    init=("i", "o", "g"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
    g=(4, 8, 8),
)
class GemmBiasHardtanhMishGroupNorm(LinearChain):
    def __init__(self, inputs, outputs, groups):
        super().__init__(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.randn(outputs))
        self.norm = nn.GroupNorm(groups, outputs)

    def forward(self, x):
        y = nn.functional.hardtanh(self.linear(x) + self.bias)
        return self.norm(nn.functional.mish(y))


@problem(
    2,
    95,
    "matmul_add_swish_tanh_gelu_hardtanh",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulAddSwishTanhGeluHardtanh(LinearChain):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.shift = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        y = self.linear(x) + self.shift
        y = torch.tanh(y * torch.sigmoid(y))
        return nn.functional.hardtanh(nn.functional.gelu(y), -0.1, 0.5)


@problem(
    2,
    97,
    "matmul_batch_norm_bias_divide_swish",
    "n i",
    init=("i", "o", 2.0),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulBatchNormBiasDivideSwish(LinearChain):
    def __init__(self, inputs, outputs, divisor):
        super().__init__(inputs, outputs, bias=False)
        self.divisor = divisor
        self.norm = nn.BatchNorm1d(outputs)
        self.bias = nn.Parameter(torch.randn(1))

    def forward(self, x):
        y = (self.norm(self.linear(x)) + self.bias) / self.divisor
        return y * torch.sigmoid(y)


@problem(
    2,
    98,
    "matmul_avgpool_gelu_scale_max",
    "n i",
    init=("i", "o", 2.0),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulAvgpoolGeluScaleMax(LinearChain):
    def __init__(self, inputs, outputs, factor):
        super().__init__(inputs, outputs)
        self.factor = factor

    def forward(self, x):
        y = nn.functional.avg_pool1d(self.linear(x).unsqueeze(1), 4).squeeze(1)
        return torch.max(nn.functional.gelu(y) * self.factor, dim=1).values


@problem(
    2,
    99,
    "matmul_gelu_softmax",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulGeluSoftmax(LinearChain):
    def forward(self, x):
        return torch.softmax(nn.functional.gelu(self.linear(x)), dim=1)
