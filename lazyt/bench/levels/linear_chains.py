"""Level 2: a linear layer and what follows it, first half."""

import torch
from torch import nn

from lazyt.bench.levels import problem


class LinearChain(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=bias)


@problem(
    2,
    9,
    "matmul_subtract_multiply_relu",
    "n i",
    init=("i", "o", 0.5, 1.5),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulSubtractMultiplyRelu(LinearChain):
    def __init__(self, inputs, outputs, shift, factor):
        super().__init__(inputs, outputs)
        self.shift = shift
        self.factor = factor

    def forward(self, x):
        return torch.relu((self.linear(x) - self.shift) * self.factor)


@problem(
    2,
    12,
    "gemm_multiply_leaky_relu",
    "n i",
    init=("i", "o", 2.0, 0.1),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmMultiplyLeakyRelu(LinearChain):
    def __init__(self, inputs, outputs, factor, slope):
        super().__init__(inputs, outputs)
        self.factor = factor
        self.slope = slope

    def forward(self, x):
        return nn.functional.leaky_relu(self.linear(x) * self.factor, self.slope)


@problem(
    2,
    14,
    "gemm_divide_sum_scaling",
    "n i",
    init=("i", "o", 1.5),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmDivideSumScaling(LinearChain):
    def __init__(self, inputs, outputs, factor):
        super().__init__(inputs, outputs, bias=False)
        self.factor = factor

    def forward(self, x):
        sums = torch.sum(self.linear(x) / 2, dim=1, keepdim=True)
        return sums * self.factor


@problem(
    2,
    18,
    "matmul_sum_max_avgpool_logsumexp_logsumexp",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulSumMaxAvgpoolLogsumexpLogsumexp(LinearChain):
    """Sums of groups of columns, the larger of each two, down to one number."""

    def forward(self, x):
        sums = self.linear(x).unflatten(1, (4, 2, -1)).sum(-1)
        tops = torch.amax(sums, dim=2)
        means = nn.functional.avg_pool1d(tops.unsqueeze(1), 2).squeeze(1)
        return torch.logsumexp(torch.logsumexp(means, dim=1), dim=0)


@problem(
    2,
    22,
    "matmul_scale_residual_clamp_logsumexp_mish",
    "n i",
    init=("i", "o", 2.0, 10.0),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulScaleResidualClampLogsumexpMish(LinearChain):
    def __init__(self, inputs, outputs, factor, limit):
        super().__init__(inputs, outputs)
        self.factor = factor
        self.limit = limit

    def forward(self, x):
        y = self.linear(x) * self.factor
        y = torch.clamp(y + y, -self.limit, self.limit)
        total = torch.logsumexp(y, dim=1, keepdim=True)
        return total * nn.functional.mish(total)


@problem(
    2,
    28,
    "bmm_instance_norm_sum_residual_multiply",
    "n i, n o",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class BmmInstanceNormSumResidualMultiply(LinearChain):
    def forward(self, x, residual):
        y = nn.functional.instance_norm(self.linear(x).unsqueeze(1)).squeeze(1)
        return (y + residual) * residual


@problem(
    2,
    29,
    "matmul_mish_mish",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulMishMish(LinearChain):
    def forward(self, x):
        return nn.functional.mish(nn.functional.mish(self.linear(x)))


@problem(
    2,
    30,
    "gemm_group_norm_hardtanh",
    "n i",
    init=("i", "o", "g"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
    g=(4, 8, 8),
)
class GemmGroupNormHardtanh(LinearChain):
    def __init__(self, inputs, outputs, groups):
        super().__init__(inputs, outputs)
        self.norm = nn.GroupNorm(groups, outputs)

    def forward(self, x):
        return nn.functional.hardtanh(self.norm(self.linear(x)), -1.5, 1.5)


@problem(
    2,
    33,
    "gemm_scale_batch_norm",
    "n i, positive n 1",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmScaleBatchNorm(LinearChain):
    """Each row has its own factor, as normalization undoes those of columns."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x, scale):
        return self.norm(self.linear(x) * scale)


@problem(
    2,
    37,
    "matmul_swish_sum_group_norm",
    "n i",
    init=("i", "o", "g"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
    g=(4, 8, 8),
)
class MatmulSwishSumGroupNorm(LinearChain):
    def __init__(self, inputs, outputs, groups):
        super().__init__(inputs, outputs)
        self.bias = nn.Parameter(torch.randn(outputs))
        self.norm = nn.GroupNorm(groups, outputs)

    def forward(self, x):
        y = self.linear(x)
        return self.norm(y * torch.sigmoid(y) + self.bias)


@problem(
    2,
    39,
    "gemm_scale_batch_norm_inference",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmScaleBatchNormInference(LinearChain):
    """By the running statistics."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.scale = nn.Parameter(torch.randn(outputs))
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x):
        y = self.linear(x) * self.scale
        norm = self.norm
        mean, variance = norm.running_mean, norm.running_var
        return nn.functional.batch_norm(y, mean, variance, norm.weight, norm.bias)


@problem(
    2,
    40,
    "matmul_scaling_residual",
    "n i",
    init=("i", "o", 0.5),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulScalingResidual(LinearChain):
    def __init__(self, inputs, outputs, factor):
        super().__init__(inputs, outputs)
        self.factor = factor

    def forward(self, x):
        y = self.linear(x)
        return y * self.factor + y


@problem(
    2,
    41,
    "gemm_batch_norm_gelu_relu",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmBatchNormGeluRelu(LinearChain):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x):
        return torch.relu(nn.functional.gelu(self.norm(self.linear(x))))


@problem(
    2,
    45,
    "gemm_sigmoid_logsumexp",
    "n i",
    init=("i", "o", "l"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
    l=(10, 512, 1024),
)
class GemmSigmoidLogsumexp(LinearChain):
    def __init__(self, inputs, outputs, last):
        super().__init__(inputs, outputs)
        self.second = nn.Linear(outputs, last)

    def forward(self, x):
        y = self.second(torch.sigmoid(self.linear(x)))
        return torch.logsumexp(y, dim=1)


@problem(
    2,
    51,
    "gemm_subtract_avgpool_logsumexp_gelu_residual",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmSubtractAvgpoolLogsumexpGeluResidual(LinearChain):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.shift = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        y = self.linear(x) - self.shift
        means = y.unflatten(1, (8, -1)).mean(-1)
        total = torch.logsumexp(means, dim=1, keepdim=True)
        return nn.functional.gelu(total) + x


@problem(
    2,
    53,
    "gemm_scaling_hardtanh_gelu",
    "n i",
    init=("i", "o", 0.5),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class GemmScalingHardtanhGelu(LinearChain):
    def __init__(self, inputs, outputs, factor):
        super().__init__(inputs, outputs)
        self.factor = factor

    def forward(self, x):
        y = nn.functional.hardtanh(self.linear(x) * self.factor, -2.0, 2.0)
        return nn.functional.gelu(y)


@problem(
    2,
    55,
    "matmul_maxpool_sum_scale",
    "n i",
    init=("i", "o", 0.5),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulMaxpoolSumScale(LinearChain):
    def __init__(self, inputs, outputs, factor):
        super().__init__(inputs, outputs)
        self.factor = factor

    def forward(self, x):
        y = nn.functional.max_pool1d(self.linear(x).unsqueeze(1), 2).squeeze(1)
        return torch.sum(y, dim=1) * self.factor


@problem(
    2,
    56,
    "matmul_sigmoid_sum",
    "n i",
    init=("i", "o"),
    n=(6, 256, 1024),
    i=(12, 1024, 8192),
    o=(16, 1024, 8192),
)
class MatmulSigmoidSum(LinearChain):
    def forward(self, x):
        return torch.sum(torch.sigmoid(self.linear(x)), dim=1, keepdim=True)
