"""Neural networks, by PyTorch's names."""

from lazyt.nn import functional as functional
