"""Level 1: products of matrices of many forms."""

import torch
from torch import nn

from lazyt.bench.levels import problem


@problem(1, 1, "square_matmul", "n n, n n", n=(16, 512, 4096))
@problem(
    1, 2, "standard_matmul", "m k, k n", m=(8, 384, 2048), k=(24, 512, 8192), n=(16, 768, 4096)
)
@problem(1, 6, "matmul_large_k", "n k, k n", n=(8, 128, 256), k=(512, 32768, 524288))
@problem(1, 7, "matmul_small_k", "n k, k n", n=(48, 1536, 32768), k=(4, 32, 64))
@problem(
    1, 8, "matmul_irregular", "m k, k n", m=(13, 411, 8205), k=(17, 597, 2949), n=(11, 739, 5921)
)
@problem(1, 9, "matmul_tall_skinny", "n k, k n", n=(50, 2048, 32768), k=(3, 16, 32))
@problem(
    1,
    10,
    "matmul_3d",
    "b m k, k n",
    b=(2, 8, 16),
    m=(8, 128, 1024),
    k=(12, 256, 2048),
    n=(10, 384, 768),
)
@problem(
    1,
    11,
    "matmul_4d",
    "b m n k, k l",
    b=(2, 4, 8),
    m=(3, 16, 256),
    n=(4, 32, 512),
    k=(8, 128, 256),
    l=(6, 256, 768),
)
@problem(1, 13, "matmul_symmetric", "symmetric n n, symmetric n n", n=(16, 512, 4096))
class Matmul(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


@problem(
    1,
    3,
    "batched_matmul",
    "b m k, b k n",
    b=(2, 16, 128),
    m=(6, 128, 512),
    k=(10, 192, 1024),
    n=(8, 256, 2048),
)
class BatchedMatmul(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


@problem(1, 4, "matrix_vector", "m k, k 1", m=(8, 1024, 2048), k=(32, 4096, 1048576))
class MatrixVector(nn.Module):
    def forward(self, matrix, vector):
        return matrix @ vector


@problem(1, 5, "matrix_scalar", "m n", init=(3.14,), m=(8, 1024, 65536), n=(12, 2048, 16384))
class MatrixScalar(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, matrix):
        return matrix * self.factor


@problem(1, 12, "matmul_diagonal", "n, n m", n=(12, 512, 4096), m=(10, 768, 4096))
class DiagonalMatmul(nn.Module):
    def forward(self, diagonal, matrix):
        return torch.diag(diagonal) @ matrix


@problem(1, 14, "matmul_upper_triangular", "upper n n, upper n n", n=(16, 512, 4096))
class UpperMatmul(nn.Module):
    def forward(self, a, b):
        return torch.triu(a @ b)


@problem(1, 15, "matmul_lower_triangular", "lower n n, lower n n", n=(16, 512, 4096))
class LowerMatmul(nn.Module):
    def forward(self, a, b):
        return torch.tril(a @ b)


@problem(
    1, 16, "matmul_transposed_a", "k m, k n", m=(8, 384, 2048), k=(24, 512, 8192), n=(16, 768, 4096)
)
class MatmulTransposedA(nn.Module):
    def forward(self, a, b):
        return a.T @ b


@problem(
    1, 17, "matmul_transposed_b", "m k, n k", m=(8, 384, 2048), k=(24, 512, 8192), n=(16, 768, 4096)
)
class MatmulTransposedB(nn.Module):
    def forward(self, a, b):
        return a @ b.T


@problem(
    1,
    18,
    "matmul_transposed_both",
    "k m, n k",
    m=(8, 384, 2048),
    k=(24, 512, 8192),
    n=(16, 768, 4096),
)
class MatmulTransposedBoth(nn.Module):
    def forward(self, a, b):
        return a.T @ b.T
