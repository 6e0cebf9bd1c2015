"""Level 1: activations, running sums and products, losses, and attention."""

import math

import torch
from torch import nn

from lazyt.bench.levels import problem

# Activations, a value or a row at a time.


@problem(1, 19, "relu", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class Relu(nn.Module):
    def forward(self, x):
        return torch.relu(x)


@problem(1, 20, "leaky_relu", "n d", init=(0.01,), n=(6, 1024, 4096), d=(33, 4096, 393216))
class LeakyRelu(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return nn.functional.leaky_relu(x, self.slope)


@problem(1, 21, "sigmoid", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class Sigmoid(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)


@problem(1, 22, "tanh", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class Tanh(nn.Module):
    def forward(self, x):
        return torch.tanh(x)


@problem(1, 23, "softmax", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class Softmax(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


@problem(1, 24, "log_softmax", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class LogSoftmax(nn.Module):
    def forward(self, x):
        return torch.log_softmax(x, dim=-1)


@problem(1, 25, "swish", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class Swish(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


@problem(1, 26, "gelu", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class Gelu(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)


@problem(1, 27, "selu", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class Selu(nn.Module):
    def forward(self, x):
        return nn.functional.selu(x)


@problem(1, 28, "hard_sigmoid", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class HardSigmoid(nn.Module):
    def forward(self, x):
        return nn.functional.hardsigmoid(x)


@problem(1, 29, "softplus", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class Softplus(nn.Module):
    def forward(self, x):
        return nn.functional.softplus(x)


@problem(1, 30, "softsign", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class Softsign(nn.Module):
    def forward(self, x):
        return x / (1 + torch.abs(x))


@problem(1, 31, "elu", "n d", init=(1.0,), n=(6, 1024, 4096), d=(33, 4096, 393216))
class Elu(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        return nn.functional.elu(x, self.alpha)


@problem(1, 32, "hard_tanh", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class HardTanh(nn.Module):
    def forward(self, x):
        return nn.functional.hardtanh(x, -1.0, 1.0)


@problem(1, 88, "gelu_tanh_formula", "n d", n=(6, 1024, 4096), d=(33, 4096, 393216))
class GeluFormula(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


# Running sums and products, losses, and attention.


@problem(1, 89, "cumsum", "n d", init=(1,), n=(5, 1024, 32768), d=(37, 4096, 32768))
class Cumsum(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.cumsum(x, dim=self.dim)


@problem(1, 90, "cumprod", "factors n d", init=(1,), n=(5, 1024, 32768), d=(37, 4096, 32768))
class Cumprod(nn.Module):
    """Of numbers about 1, as others soon give zeros alone."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.cumprod(x, dim=self.dim)


@problem(1, 91, "cumsum_reverse", "n d", init=(1,), n=(5, 1024, 32768), d=(37, 4096, 32768))
class CumsumReverse(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.cumsum(x.flip(self.dim), dim=self.dim).flip(self.dim)


@problem(1, 92, "cumsum_exclusive", "n d", init=(1,), n=(5, 1024, 32768), d=(37, 4096, 32768))
class CumsumExclusive(nn.Module):
    """Each sum leaves its own element out, so that the first is 0."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.cumsum(x, dim=self.dim) - x


@problem(
    1, 93, "masked_cumsum", "n d, mask n d", init=(1,), n=(5, 1024, 32768), d=(37, 4096, 32768)
)
class MaskedCumsum(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, mask):
        return torch.cumsum(x * mask, dim=self.dim)


@problem(1, 94, "mse_loss", "n d, n d", n=(6, 1024, 32768), d=(33, 4096, 32768))
class MseLoss(nn.Module):
    def forward(self, predictions, targets):
        return torch.mean((predictions - targets) ** 2)


@problem(1, 95, "cross_entropy_loss", "n v, labels:v n", n=(6, 1024, 32768), v=(11, 4096, 4096))
class CrossEntropyLoss(nn.Module):
    def forward(self, predictions, targets):
        return nn.functional.cross_entropy(predictions, targets)


@problem(1, 96, "huber_loss", "n d, n d", n=(6, 1024, 32768), d=(33, 4096, 32768))
class HuberLoss(nn.Module):
    def forward(self, predictions, targets):
        return nn.functional.smooth_l1_loss(predictions, targets)


@problem(
    1,
    97,
    "scaled_dot_product_attention",
    "b h s d, b h s d, b h s d",
    b=(1, 4, 32),
    h=(2, 8, 32),
    s=(9, 256, 512),
    d=(8, 64, 1024),
)
class Attention(nn.Module):
    def forward(self, query, key, value):
        return nn.functional.scaled_dot_product_attention(query, key, value)


@problem(1, 98, "kl_div_loss", "probs n d, probs n d", n=(6, 1024, 16384), d=(33, 4096, 16384))
class KlDivLoss(nn.Module):
    def forward(self, predictions, targets):
        return nn.functional.kl_div(torch.log(predictions), targets, reduction="batchmean")


@problem(
    1,
    99,
    "triplet_margin_loss",
    "n d, n d, n d",
    init=(1.0,),
    n=(6, 1024, 32768),
    d=(33, 2048, 8192),
)
class TripletMarginLoss(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.loss = nn.TripletMarginLoss(margin)

    def forward(self, anchor, positive, negative):
        return self.loss(anchor, positive, negative)


@problem(1, 100, "hinge_loss", "n d, signs n d", n=(6, 1024, 32768), d=(33, 4096, 32768))
class HingeLoss(nn.Module):
    def forward(self, predictions, targets):
        return torch.mean(torch.clamp(1 - predictions * targets, min=0))
