"""Gaussian processes, flows, probabilistic programs."""

from __future__ import annotations

from typing import Any

from bench.ecosystem.entries import Case, Steps, program
from bench.ecosystem.stages import normal, uniform


@program("gpytorch", seconds=400)
def gpytorch() -> Case:
    import gpytorch
    import torch

    x = torch.linspace(0, 1, 20)
    y = torch.sin(x * 6) + 0.1 * normal(20)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()

    class Process(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, at: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(at), self.covar_module(at)
            )

    process = Process()
    likelihood_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, process)

    def predict(module: Any) -> Any:
        module.eval()
        with torch.no_grad():
            found = likelihood(module(torch.linspace(0, 1, 7)))
        module.train()
        return {"mean": found.mean, "variance": found.variance}

    return Case(
        process, (x,), loss=lambda found: -likelihood_of(found, y),
        outputs=lambda found: {"mean": found.mean, "covariance": found.covariance_matrix},
        more=predict, compiled=False,
    )  # fmt: skip


@program("linear_operator")
def linear_operator() -> Steps:
    import torch
    from linear_operator.operators import DenseLinearOperator, DiagLinearOperator

    a = normal(6, 6, dtype="float64")
    square = (a @ a.mT + 6 * torch.eye(6, dtype=torch.float64)).requires_grad_()

    def forward() -> Any:
        operator = DenseLinearOperator(square) + DiagLinearOperator(torch.ones(6).double())
        right = normal(6, 2, seed=1, dtype="float64")
        return {
            "solve": operator.solve(right),
            "logdet": operator.logdet(),
            "cholesky": operator.cholesky().to_dense(),
            "product": operator @ right,
        }

    def backward() -> Any:
        square.grad = None
        found = forward()
        (found["solve"].sum() + found["logdet"]).backward()
        return square.grad

    return {"forward": forward, "backward": backward}


@program("botorch", seconds=400)
def botorch() -> Steps:
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize

    x = uniform(12, 2, dtype="float64")
    y = (torch.sin(4 * x[:, :1]) + x[:, 1:]) * 2
    model = SingleTaskGP(x, y, outcome_transform=Standardize(1))
    at = uniform(5, 1, 2, seed=1, dtype="float64").requires_grad_()
    acquisition = LogExpectedImprovement(model, best_f=y.max())

    def forward() -> Any:
        found = model.posterior(at)
        return {"mean": found.mean, "variance": found.variance, "value": acquisition(at)}

    def backward() -> Any:
        at.grad = None
        acquisition(at).sum().backward()
        return at.grad

    return {"forward": forward, "backward": backward}


@program("pyro-ppl", modules=("pyro",), seconds=400)
def pyro() -> Steps:
    import pyro
    import pyro.distributions as dist
    import torch
    from pyro.infer import SVI, TraceMeanField_ELBO

    data = normal(30) * 0.5 + 2

    def model(values: Any) -> None:
        centre = pyro.sample("centre", dist.Normal(0.0, 5.0))
        with pyro.plate("data", len(values)):
            pyro.sample("value", dist.Normal(centre, 1.0), obs=values)

    def guide(values: Any) -> None:
        place = pyro.param("place", torch.tensor(0.5))
        pyro.sample("centre", dist.Delta(place))

    def forward() -> Any:
        trace = pyro.poutine.trace(pyro.condition(model, {"centre": torch.tensor(1.5)}))
        return {"log": trace.get_trace(data).log_prob_sum()}

    def step() -> Any:
        pyro.clear_param_store()
        from pyro.infer import Trace_ELBO

        assert TraceMeanField_ELBO is not None
        svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
        losses = [svi.step(data) for _ in range(5)]
        return {"losses": losses, "place": pyro.param("place")}

    return {"forward": forward, "step": step}


@program("pyro-ppl: LKJ and Wishart", modules=("pyro",))
def pyro_matrices() -> Steps:
    import pyro.distributions as dist
    import torch

    root = torch.linalg.cholesky(torch.tensor([[1.0, 0.3], [0.3, 1.0]]))

    def forward() -> Any:
        return {
            "lkj": dist.LKJCholesky(2, 0.5).log_prob(root),
            "wishart": dist.Wishart(torch.tensor(3.0), torch.eye(2)).log_prob(torch.eye(2) * 2),
        }

    return {"forward": forward}


@program("nflows")
def nflows() -> Case:
    import torch
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms import (
        CompositeTransform,
        MaskedAffineAutoregressiveTransform,
        ReversePermutation,
    )

    parts = []
    for _ in range(2):
        parts += [ReversePermutation(4), MaskedAffineAutoregressiveTransform(4, 16)]

    class Density(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flow = Flow(CompositeTransform(parts), StandardNormal([4]))

        def forward(self, x: Any) -> Any:
            return self.flow.log_prob(x)

    return Case(Density(), (normal(8, 4),), loss=lambda found: -found.mean())


@program("normflows")
def normflows() -> Case:
    import normflows as nf
    import torch

    flows: list[Any] = []
    for _ in range(2):
        flows.append(nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 16, 2], init_zeros=False)))
        flows.append(nf.flows.Permute(2, mode="swap"))

    class Density(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), flows)

        def forward(self, x: Any) -> Any:
            return self.model.log_prob(x)

    return Case(Density(), (normal(8, 2),), loss=lambda found: -found.mean())


@program("zuko")
def zuko() -> Case:
    import torch
    import zuko

    class Density(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flow = zuko.flows.NSF(3, 2, transforms=2, hidden_features=(16,))

        def forward(self, x: Any, c: Any) -> Any:
            return self.flow(c).log_prob(x)

    return Case(Density(), (normal(8, 3), normal(8, 2, seed=1)), loss=lambda found: -found.mean())
