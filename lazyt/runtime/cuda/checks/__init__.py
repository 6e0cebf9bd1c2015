"""Checks of handwritten CUDA C text without a GPU: see ``check``."""

from lazyt.runtime.cuda.checks.check import check_cuda
from lazyt.runtime.cuda.checks.findings import Finding

__all__ = ["Finding", "check_cuda"]
