"""Programs after reports.

pytorch/pytorch#59822 (cache_size), #34859 PR 5547 (KL of transformed), #7857 (logistic),
numpyro#1489 (mixtures), pyro#685 #2149 #2174 (gradients of scale_tril), #35649
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    D = torch.distributions

    def cache(c):
        power = torch.tensor(2.0, requires_grad=True)
        d = D.TransformedDistribution(
            D.LogNormal(0.0, 1.0), D.transforms.PowerTransform(power, cache_size=c)
        )
        d.log_prob(torch.tensor(1.7)).backward()
        return power.grad

    log.run("cache", lambda: [cache(0), cache(1)], rtol=1e-5)
    n = lambda: D.Independent(D.Normal(torch.zeros(2, 3), torch.ones(2, 3)), 1)
    t = lambda s: D.TransformedDistribution(n(), D.AffineTransform(0.0, s))
    log.run(
        "kl-transformed",
        lambda: [
            D.kl_divergence(t(2.0), t(2.0)),
            D.kl_divergence(n(), n()),
            D.kl_divergence(D.LogNormal(torch.zeros(3), 1.0), D.LogNormal(torch.ones(3), 2.0)),
        ],
    )
    log.run("kl-mismatch", lambda: D.kl_divergence(t(2.0), t(3.0)))
    lg = D.TransformedDistribution(
        D.Uniform(torch.zeros(()), torch.ones(())),
        [D.SigmoidTransform().inv, D.AffineTransform(1.0, 2.0)],
    )
    log.run(
        "logistic",
        lambda: [
            lg.log_prob(torch.tensor([0.0, 1.0, 5.0])),
            lg.cdf(torch.tensor([0.0, 1.0, 5.0])),
            lg.icdf(torch.tensor([0.1, 0.5])),
            lg.support,
            lg.event_shape,
        ],
        rtol=1e-4,
    )
    mix = D.MixtureSameFamily(
        D.Categorical(logits=torch.ones(5, 2)), D.Normal(torch.zeros(5, 2), torch.ones(5, 2))
    )
    log.run(
        "mixture",
        lambda: [
            mix.log_prob(torch.zeros(5)),
            D.Normal(0.0, 1.0).log_prob(torch.zeros(5)),
            mix.mean,
            mix.variance,
            mix.cdf(torch.zeros(5)),
            mix.sample((3,)).shape,
            D.MixtureSameFamily(
                D.Categorical(torch.tensor([0.2, 0.8])),
                D.Independent(D.Normal(torch.arange(6.0).reshape(2, 3), 1.0), 1),
            ).log_prob(torch.ones(4, 3)),
        ],
        rtol=1e-5,
    )

    def mvn(kind):
        L = torch.tensor([[1.0, 0.0], [0.5, 2.0]], requires_grad=True)
        loc = torch.tensor([0.1, -0.2], requires_grad=True)
        x = torch.tensor([[1.0, 2.0], [-0.3, 0.4]])
        d = (
            D.MultivariateNormal(loc, scale_tril=L)
            if kind == 0
            else D.MultivariateNormal(loc, L @ L.t())
            if kind == 1
            else D.MultivariateNormal(loc, precision_matrix=L @ L.t())
        )
        lp = d.log_prob(x)
        g = torch.autograd.grad(lp.sum() + d.entropy(), [L, loc])
        return lp, g[0].tril(), g[1], d.covariance_matrix, d.variance

    for k in range(3):
        log.run(f"mvn-{k}", lambda: mvn(k), rtol=1e-4, atol=1e-5)
    log.run(
        "lowrank",
        lambda: [
            (
                d := D.LowRankMultivariateNormal(torch.zeros(3), torch.ones(3, 1), torch.ones(3))
            ).log_prob(torch.ones(3)),
            d.covariance_matrix,
            d.entropy(),
            D.kl_divergence(d, d),
        ],
        rtol=1e-4,
        atol=1e-5,
    )
    ds = {
        "Beta": lambda: D.Beta(torch.tensor([0.5, 2.0]), torch.tensor([1.5, 3.0])),
        "Bernoulli": lambda: D.Bernoulli(logits=torch.tensor([0.3, -1.0])),
        "Binomial": lambda: D.Binomial(5, torch.tensor([0.3, 0.9])),
        "Categorical": lambda: D.Categorical(torch.tensor([[0.1, 0.2], [3.0, 1.0]])),
        "Cauchy": lambda: D.Cauchy(0.0, torch.tensor([1.0, 2.0])),
        "Chi2": lambda: D.Chi2(torch.tensor([1.0, 4.0])),
        "ContinuousBernoulli": lambda: D.ContinuousBernoulli(torch.tensor([0.3, 0.5])),
        "Dirichlet": lambda: D.Dirichlet(torch.tensor([0.5, 1.0, 2.0])),
        "Exponential": lambda: D.Exponential(torch.tensor([0.5, 2.0])),
        "Gamma": lambda: D.Gamma(torch.tensor([0.5, 2.0]), torch.tensor([1.0, 3.0])),
        "Geometric": lambda: D.Geometric(torch.tensor([0.3, 0.9])),
        "Gumbel": lambda: D.Gumbel(0.5, torch.tensor([1.0, 2.0])),
        "HalfCauchy": lambda: D.HalfCauchy(torch.tensor([1.0, 2.0])),
        "HalfNormal": lambda: D.HalfNormal(torch.tensor([1.0, 2.0])),
        "InverseGamma": lambda: D.InverseGamma(torch.tensor([2.5, 3.0]), 1.0),
        "Kumaraswamy": lambda: D.Kumaraswamy(torch.tensor([0.5, 2.0]), torch.tensor([1.5, 3.0])),
        "Laplace": lambda: D.Laplace(0.1, torch.tensor([1.0, 2.0])),
        "LogNormal": lambda: D.LogNormal(0.1, torch.tensor([1.0, 0.5])),
        "Multinomial": lambda: D.Multinomial(4, torch.tensor([0.2, 0.3, 0.5])),
        "NegativeBinomial": lambda: D.NegativeBinomial(3.0, torch.tensor([0.3, 0.8])),
        "Normal": lambda: D.Normal(0.1, torch.tensor([1.0, 2.0])),
        "OneHotCategorical": lambda: D.OneHotCategorical(torch.tensor([0.2, 0.8])),
        "Pareto": lambda: D.Pareto(1.0, torch.tensor([2.5, 3.0])),
        "Poisson": lambda: D.Poisson(torch.tensor([0.5, 4.0])),
        "RelaxedBernoulli": lambda: D.RelaxedBernoulli(0.5, torch.tensor([0.3, 0.8])),
        "RelaxedOneHot": lambda: D.RelaxedOneHotCategorical(0.5, torch.tensor([0.3, 0.7])),
        "StudentT": lambda: D.StudentT(torch.tensor([3.0, 5.0])),
        "Uniform": lambda: D.Uniform(torch.tensor([0.0, 1.0]), 2.0),
        "VonMises": lambda: D.VonMises(0.3, torch.tensor([1.0, 4.0])),
        "Weibull": lambda: D.Weibull(1.0, torch.tensor([1.5, 2.0])),
        "FisherSnedecor": lambda: D.FisherSnedecor(
            torch.tensor([3.0, 5.0]), torch.tensor([6.0, 8.0])
        ),
        "LogisticNormal": lambda: D.LogisticNormal(torch.zeros(2), torch.ones(2)),
    }
    vals = {
        "Dirichlet": [0.2, 0.3, 0.5],
        "LogisticNormal": [0.2, 0.3, 0.5],
        "Multinomial": [1.0, 2.0, 1.0],
        "OneHotCategorical": [0.0, 1.0],
        "RelaxedOneHot": [0.4, 0.6],
        "Categorical": [1, 0],
        "Pareto": [1.5, 2.0],
        "Uniform": [0.5, 1.5],
        "Bernoulli": [1.0, 0.0],
        "Geometric": [0.0, 3.0],
        "Binomial": [2.0, 5.0],
        "Poisson": [0.0, 3.0],
        "NegativeBinomial": [0.0, 2.0],
    }
    for nm, mk in ds.items():
        v = torch.tensor(vals.get(nm, [0.3, 0.7]))
        for a in (
            "log_prob",
            "cdf",
            "icdf",
            "entropy",
            "mean",
            "variance",
            "mode",
            "stddev",
            "support",
            "batch_shape",
            "event_shape",
            "enumerate_support",
            "perplexity",
            "expand",
            "repr",
            "sample",
            "rsample",
        ):

            def run():
                d = mk()
                if a in ("log_prob", "cdf"):
                    return getattr(d, a)(v)
                if a == "icdf":
                    return d.icdf(torch.tensor([0.2, 0.7]))
                if a in ("entropy", "enumerate_support", "perplexity"):
                    return getattr(d, a)()
                if a == "expand":
                    return d.expand((3,) + tuple(d.batch_shape)).log_prob(v)
                if a == "repr":
                    return repr(d)
                if a in ("sample", "rsample"):
                    s = getattr(d, a)((7,))
                    return s.shape, s.dtype, bool(d.support.check(s).all())
                r = getattr(d, a)
                return str(r) if a in ("support", "batch_shape", "event_shape") else r

            log.run(f"{nm}-{a}", run, rtol=1e-4, atol=1e-5)
    for nm, f in {
        "validate": lambda: D.Normal(0.0, -1.0),
        "validate-val": lambda: D.Bernoulli(0.5).log_prob(torch.tensor(2.0)),
        "no-kl": lambda: D.kl_divergence(D.Poisson(1.0), D.Normal(0.0, 1.0)),
        "cat-neg": lambda: D.Categorical(torch.tensor([-1.0, 2.0])),
        "simplex": lambda: D.Dirichlet(torch.ones(2)).log_prob(torch.tensor([0.5, 0.6])),
        "nan": lambda: D.Normal(torch.tensor(float("nan")), 1.0),
        "both": lambda: D.Bernoulli(0.5, 0.5),
        "mvn-npd": lambda: D.MultivariateNormal(torch.zeros(2), torch.ones(2, 2) * -1),
        "cov-shape": lambda: D.MultivariateNormal(torch.zeros(2), torch.ones(3)),
    }.items():
        log.run("x-" + nm, f)
    tr = D.transforms
    for nm, (f, xs) in {
        "Exp": (lambda: tr.ExpTransform(), [0.3, -1.0]),
        "Sigmoid": (lambda: tr.SigmoidTransform(), [0.3, -1.0]),
        "Tanh": (lambda: tr.TanhTransform(), [0.3, -1.0]),
        "Softplus": (lambda: tr.SoftplusTransform(), [0.3, -1.0]),
        "Affine": (lambda: tr.AffineTransform(1.0, -2.0), [0.3, -1.0]),
        "StickBreaking": (lambda: tr.StickBreakingTransform(), [0.3, -1.0]),
        "Compose": (
            lambda: tr.ComposeTransform(
                [
                    tr.AffineTransform(1.0, 2.0),
                    tr.ExpTransform(),
                    tr.PowerTransform(torch.tensor(0.5)),
                ]
            ),
            [0.3, -1.0],
        ),
        "Softmax": (lambda: tr.SoftmaxTransform(), [0.3, -1.0]),
        "Abs": (lambda: tr.AbsTransform(), [0.3, -1.0]),
        "LowerCholesky": (lambda: tr.LowerCholeskyTransform(), [[0.3, 0.0], [1.0, -0.5]]),
        "Reshape": (lambda: tr.ReshapeTransform((2,), (2, 1)), [0.3, -1.0]),
        "CumDist": (lambda: tr.CumulativeDistributionTransform(D.Normal(0.0, 1.0)), [0.3, -1.0]),
        "Independent": (lambda: tr.IndependentTransform(tr.ExpTransform(), 1), [0.3, -1.0]),
    }.items():

        def run():
            q = f()
            x = torch.tensor(xs)
            y = q(x)
            out = [y, q.bijective, str(q.domain), str(q.codomain), repr(q)]
            for g in (
                lambda: q.inv(y),
                lambda: q.log_abs_det_jacobian(x, y),
                lambda: q.sign,
                lambda: q.forward_shape((2,)),
            ):
                try:
                    out.append(g())
                except Exception as e:
                    out.append(type(e).__name__)
            return out

        log.run("t-" + nm, run, rtol=1e-4, atol=1e-5)
    return log.items
