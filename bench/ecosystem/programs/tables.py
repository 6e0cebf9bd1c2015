"""Packages of tables, of neurons that spike, of geometry and of second derivatives."""

from __future__ import annotations

from typing import Any

from bench.ecosystem.entries import Case, Steps, program
from bench.ecosystem.stages import fill, integers, normal


@program("pytorch-tabnet", modules=("pytorch_tabnet.tab_network",))
def tabnet() -> Case:
    import torch
    from pytorch_tabnet.tab_network import TabNet

    module = TabNet(
        6, 3, n_d=4, n_a=4, n_steps=2, cat_idxs=[0], cat_dims=[5], cat_emb_dim=[2],
        virtual_batch_size=8, group_attention_matrix=torch.eye(6),
    )  # fmt: skip
    x = torch.cat([integers(16, 1, below=5).float(), normal(16, 5)], 1)
    return Case(
        module, (x,), loss=lambda f: f[0].pow(2).mean() - 1e-3 * f[1],
        optimizer=lambda p: torch.optim.SGD(p, 1e-2), double=False,
    )  # fmt: skip


@program("tab-transformer-pytorch")
def tab_transformer() -> Case:
    from tab_transformer_pytorch import FTTransformer

    module = FTTransformer(
        categories=(5, 4), num_continuous=3, dim=16, dim_out=2, depth=1, heads=2, dim_head=8
    )
    return Case(module, (integers(6, 2, below=4), normal(6, 3)))


@program("rtdl_revisiting_models")
def rtdl() -> Case:
    import torch
    from rtdl_revisiting_models import MLP, ResNet

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.resnet = ResNet(
                d_in=5, d_out=2, n_blocks=2, d_block=8, d_hidden=None, d_hidden_multiplier=2.0,
                dropout1=0.0, dropout2=0.0,
            )  # fmt: skip
            self.mlp = MLP(d_in=5, d_out=2, n_blocks=2, d_block=8, dropout=0.0)

        def forward(self, x: Any) -> Any:
            return self.resnet(x), self.mlp(x)

    return Case(
        Net(), (normal(12, 5),), loss=lambda f: f[0].pow(2).mean() + f[1].pow(2).mean(), double=True
    )


@program("snntorch")
def snntorch() -> Case:
    import snntorch as snn
    import torch
    from snntorch import surrogate

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            slope = surrogate.fast_sigmoid(slope=5)
            self.first, self.second = torch.nn.Linear(6, 10), torch.nn.Linear(10, 3)
            self.leaky = snn.Leaky(beta=0.9, spike_grad=slope, threshold=0.3)
            self.synaptic = snn.Synaptic(alpha=0.8, beta=0.7, spike_grad=slope, threshold=0.2)

        def forward(self, x: Any) -> Any:
            one, (current, two) = self.leaky.reset_mem(), self.synaptic.reset_mem()
            spikes, levels = [], []
            for _ in range(4):
                out, one = self.leaky(self.first(x), one)
                out, current, two = self.synaptic(self.second(out), current, two)
                spikes.append(out)
                levels.append(two)
            return torch.stack(spikes), torch.stack(levels)

    return Case(Net(), (normal(5, 6),), loss=lambda f: f[0].mean() + f[1].pow(2).mean())


@program("spikingjelly", modules=("spikingjelly.activation_based.neuron",))
def spikingjelly() -> Case:
    import torch
    from spikingjelly.activation_based import functional, layer, neuron, surrogate

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(
                layer.Linear(6, 8), neuron.LIFNode(surrogate_function=surrogate.ATan()),
                layer.Linear(8, 3), neuron.IFNode(surrogate_function=surrogate.Sigmoid()),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            functional.reset_net(self.net)
            return torch.stack([self.net(x * (1 + 0.5 * t)) for t in range(4)]).mean(0)

    return Case(Net(), (normal(5, 6) * 3,), compiled=False)


@program("geoopt")
def geoopt() -> Steps:
    import geoopt as package
    import torch

    ball, sphere = package.PoincareBall(), package.Sphere()
    x, y = normal(4, 5) * 0.1, normal(4, 5, seed=1) * 0.1

    def values() -> Any:
        return {
            "sum": ball.mobius_add(x, y),
            "distance": ball.dist(x, y),
            "exp": ball.expmap(x, y),
            "log": ball.logmap(x, y),
            "transport": ball.transp(x, y, x),
            "projected": sphere.projx(x),
            "great circle": sphere.dist(sphere.projx(x), sphere.projx(y)),
        }

    def step() -> Any:
        point = package.ManifoldParameter(normal(6, 3, seed=2), manifold=package.Stiefel())
        with torch.no_grad():
            point.proj_()
        optimizer = package.optim.RiemannianAdam([point], lr=0.05)
        target, losses = normal(6, 3, seed=3), []
        for _ in range(4):
            optimizer.zero_grad()
            loss = (point - target).pow(2).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return {"losses": torch.stack(losses), "gram": point.T @ point}

    return {"forward": values, "step": step}


@program("backpack-for-pytorch", modules=("backpack",))
def backpack() -> Steps:
    import backpack as package
    import torch
    from backpack.extensions import BatchGrad, DiagGGNExact, Variance

    model = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Sigmoid(), torch.nn.Linear(6, 3))
    fill(model)
    model, loss = package.extend(model), package.extend(torch.nn.CrossEntropyLoss())

    def values() -> Any:
        model.zero_grad()
        with package.backpack(BatchGrad(), Variance(), DiagGGNExact()):
            loss(model(normal(7, 5)), integers(7, below=3)).backward()
        return {
            f"{name} {what}": getattr(parameter, what)
            for name, parameter in model.named_parameters()
            for what in ("grad", "grad_batch", "variance", "diag_ggn_exact")
        }

    return {"forward": values}


@program("torchjd")
def torchjd() -> Steps:
    import torch
    from torchjd.aggregation import UPGrad
    from torchjd.autojac import backward as descend

    try:
        from torchjd.autojac import jac_to_grad
    except ImportError:
        jac_to_grad = None
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    fill(model)

    def values() -> Any:
        losses = model(normal(6, 4)).pow(2).mean(0)
        assert jac_to_grad is not None
        descend([losses[0], losses[1]])
        jac_to_grad(list(model.parameters()), UPGrad())
        return {name: p.grad for name, p in model.named_parameters()}

    return {"forward": values}


@program("torch-ema", modules=("torch_ema",))
def ema() -> Steps:
    import torch
    from torch_ema import ExponentialMovingAverage

    def step() -> Any:
        model = torch.nn.Linear(4, 2)
        fill(model)
        average = ExponentialMovingAverage(model.parameters(), decay=0.9)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for number in range(4):
            optimizer.zero_grad()
            model(normal(5, 4, seed=number)).pow(2).mean().backward()
            optimizer.step()
            average.update()
        with average.average_parameters():
            return {"weight": model.weight.detach().clone(), "bias": model.bias.detach().clone()}

    return {"forward": step}


@program("tensorly")
def tensorly() -> Steps:
    import tensorly as package
    from tensorly.decomposition import tensor_train

    x = normal(4, 5, 6)

    def values() -> Any:
        package.set_backend("pytorch")
        train = tensor_train(x, rank=[1, 4, 6, 1])
        return {
            "unfolded": package.unfold(x, 1),
            "train": package.tt_to_tensor(train),
            "kronecker": package.tenalg.kronecker([x[0, :2, :2], x[1, :2, :2]]),
            "product": package.tenalg.multi_mode_dot(x, [normal(3, 4), normal(2, 5)], modes=[0, 1]),
            "khatri-rao": package.tenalg.khatri_rao([normal(3, 2), normal(4, 2)]),
            "norm": package.norm(x, 2),
        }

    return {"forward": values}


@program("neuraloperator", modules=("neuralop",))
def fno() -> Case:
    import torch
    from neuralop.layers.channel_mlp import ChannelMLP
    from neuralop.layers.spectral_convolution import SpectralConv

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift, self.down = ChannelMLP(1, 6, 8), ChannelMLP(6, 1, 8)
            self.spectral = SpectralConv(6, 6, n_modes=(4, 4))

        def forward(self, x: Any) -> Any:
            lifted = self.lift(x)
            return self.down(torch.nn.functional.gelu(self.spectral(lifted) + lifted))

    net = Net()
    fill(net.lift)
    fill(net.down)
    with torch.no_grad():
        for parameter in net.spectral.parameters():
            real, imaginary = normal(*parameter.shape), normal(*parameter.shape, seed=1)
            values = torch.complex(real, imaginary) if parameter.is_complex() else real
            parameter.copy_(0.1 * values)
    return Case(net, (normal(2, 1, 8, 8),), fill=False)


@program("deepxde")
def deepxde() -> Steps:
    import os

    os.environ["DDE_BACKEND"] = "pytorch"
    import deepxde as package
    import torch

    net = package.nn.FNN([1, 12, 12, 1], "tanh", "Glorot uniform")
    fill(net)

    def values() -> Any:
        x = normal(9, 1).requires_grad_()
        y = net(x)
        slope = package.grad.jacobian(y, x)
        bend = package.grad.hessian(y, x)
        package.grad.clear()
        return {"y": y, "slope": slope, "bend": bend}

    def step() -> Any:
        optimizer, losses = torch.optim.Adam(net.parameters(), lr=1e-2), []
        for _ in range(4):
            optimizer.zero_grad()
            found = values()
            loss = (found["bend"] + found["y"]).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    return {"forward": values, "step": step}


@program("torchdyn", modules=("torchdyn.numerics",))
def torchdyn() -> Steps:
    import torch
    from torchdyn.numerics import odeint

    weight = normal(3, 3).requires_grad_()

    def values() -> Any:
        times = torch.linspace(0, 1, 5)
        found = {}
        for solver in ("euler", "rk4", "dopri5"):
            _, found[solver] = odeint(
                lambda t, x: torch.tanh(x @ weight), normal(4, 3), times, solver
            )
        return found

    def backward() -> Any:
        weight.grad = None
        values()["rk4"][-1].pow(2).mean().backward()
        return weight.grad

    return {"forward": values, "backward": backward}


@program("torchquad")
def torchquad() -> Steps:
    import torch
    from torchquad import Boole, Simpson, Trapezoid

    def values() -> Any:
        scale = torch.tensor(1.5, requires_grad=True)
        found = {}
        for rule in (Trapezoid(), Simpson(), Boole()):
            total = rule.integrate(
                lambda x: torch.sin(scale * x[:, 0]) + torch.exp(x[:, 1]), dim=2, N=625,
                integration_domain=[[0, 1], [-1, 1]], backend="torch",
            )  # fmt: skip
            found[type(rule).__name__] = total
            found[f"slope of {type(rule).__name__}"] = torch.autograd.grad(total, scale)[0]
        return found

    return {"forward": values}


@program("pytorch_optimizer")
def optimizers() -> Steps:
    import torch
    from pytorch_optimizer import load_optimizer

    def train(name: str) -> Any:
        model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
        fill(model)
        optimizer = load_optimizer(name)(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(normal(8, 4)).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    names = ("adan", "adabelief", "lamb", "lion", "madgrad", "radam", "ranger", "tiger")
    return {"forward": lambda: {name: train(name) for name in names}}


@program("unfoldNd", package="unfoldNd", modules=("unfoldNd",))
def unfold() -> Steps:
    import unfoldNd as package

    x = normal(2, 3, 6, 5, 4)

    def values() -> Any:
        columns = package.unfoldNd(x, (2, 3, 2), stride=1, padding=1)
        return {
            "1d": package.unfoldNd(x[:, :, :, 0, 0], 3, dilation=2),
            "3d": columns,
            "back": package.foldNd(columns, (6, 5, 4), (2, 3, 2), stride=1, padding=1),
        }

    return {"forward": values}
