"""A network that needs no package: what fails here is no package's affair."""

from __future__ import annotations

from bench.ecosystem.entries import Case, program
from bench.ecosystem.stages import normal


@program("torch itself", package="torch")
def plain() -> Case:
    import torch

    module = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU(), torch.nn.Dropout(0.5),
        torch.nn.Linear(8, 3),
    )  # fmt: skip
    return Case(module, (normal(4, 6),))
