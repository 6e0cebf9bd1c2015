"""The handwritten digits that come with scikit-learn, for the examples that need images."""

from __future__ import annotations

import sys

import torch
from torch import Tensor


def load(seed: int = 2026) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images [n, 1, 8, 8] between 0 and 1 with labels [n]: 1437 to train with, 360 to test with."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("the images come with scikit-learn: pip install scikit-learn")
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    train, test = order[:1437], order[1437:]
    return images[train], labels[train], images[test], labels[test]
