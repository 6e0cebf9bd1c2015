"""Differential equations."""

from __future__ import annotations

from typing import Any

from bench.ecosystem.entries import Case, program
from bench.ecosystem.stages import normal


@program("torchdiffeq")
def torchdiffeq() -> Case:
    import torch
    from torchdiffeq import odeint, odeint_adjoint

    class Flow(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)
            )

        def forward(self, t: Any, y: Any) -> Any:
            return self.net(y) * torch.cos(t)

    class Solution(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flow = Flow()

        def forward(self, y: Any) -> Any:
            times = torch.linspace(0.0, 1.0, 4)
            fixed = odeint(self.flow, y, times, method="rk4")
            return fixed, odeint_adjoint(self.flow, y, times, rtol=1e-5, atol=1e-6)

    return Case(Solution(), (normal(5, 3),), loss=lambda found: (found[0] + found[1]).pow(2).mean())


@program("torchsde")
def torchsde() -> Case:
    import torch
    from torchsde import sdeint

    class Motion(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self) -> None:
            super().__init__()
            self.drift, self.spread = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def f(self, t: Any, y: Any) -> Any:
            return self.drift(y)

        def g(self, t: Any, y: Any) -> Any:
            return torch.sigmoid(self.spread(y))

    class Path:
        """Brownian motion that is the same in both frameworks."""

        dtype, device, shape, levy_area_approximation = torch.float32, "cpu", (4, 3), "none"

        def __call__(self, ta: Any, tb: Any, return_U: bool = False, return_A: bool = False) -> Any:
            seed = round(float(ta) * 1000)
            return normal(4, 3, seed=seed) * float(tb - ta) ** 0.5

    class Solution(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.motion = Motion()

        def forward(self, y: Any) -> Any:
            times = torch.tensor([0.0, 0.5, 1.0])
            return sdeint(self.motion, y, times, dt=0.25, method="euler", bm=Path())

    return Case(Solution(), (normal(4, 3),), compiled=False)
