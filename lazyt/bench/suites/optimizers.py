"""Steps of optimizers over given gradients."""

from __future__ import annotations

from lazyt.bench.optimizers import RULES
from lazyt.bench.problems import Training, problem

_SIZES = {
    "small": {"n": 64},
    "middle": {"n": 512},
    "large": {"n": 2500},
    "prime": {"n": 509},
}
for _rule in RULES:
    problem(
        "optimizers",
        f"optimizer_{_rule}",
        _SIZES,
        "n n, 4*n n, n, n n, 4*n n, n",
        lambda t, *arrays: arrays[len(arrays) // 2],
        training=Training(_rule, 3, gradients=True),
    )
