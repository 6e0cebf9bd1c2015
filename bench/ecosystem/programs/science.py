"""Graphs, symmetries, differential equations, images of medicine."""

from __future__ import annotations

from typing import Any

from bench.ecosystem.entries import Case, Steps, program
from bench.ecosystem.stages import integers, normal, uniform


def _graph() -> Any:
    """Twelve nodes in a ring, with some chords, in both directions."""
    import torch

    one = torch.arange(12)
    pairs = torch.cat(
        [torch.stack([one, (one + 1) % 12]), torch.stack([one[::3], (one[::3] + 5) % 12])], 1
    )
    return torch.cat([pairs, pairs.flip(0)], 1)


@program("torch_geometric: GCN", package="torch-geometric", modules=("torch_geometric",))
def gcn() -> Case:
    import torch
    from torch_geometric.nn import GCNConv, global_mean_pool

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = GCNConv(5, 16), GCNConv(16, 4)

        def forward(self, x: Any, edges: Any, batch: Any) -> Any:
            found = self.two(torch.relu(self.one(x, edges)), edges)
            return global_mean_pool(found, batch)

    return Case(Net(), (normal(12, 5), _graph(), integers(12, below=3).sort().values))


@program("torch_geometric: GAT", package="torch-geometric", modules=("torch_geometric",))
def gat() -> Case:
    import torch
    from torch_geometric.nn import GATConv, SAGEConv

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = GATConv(5, 4, heads=2), SAGEConv(8, 3)

        def forward(self, x: Any, edges: Any) -> Any:
            return self.two(torch.relu(self.one(x, edges)), edges)

    return Case(Net(), (normal(12, 5), _graph()))


@program("torch_geometric: loader", package="torch-geometric", modules=("torch_geometric",))
def batches() -> Steps:
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader

    graphs = [
        Data(x=normal(12, 5, seed=i), edge_index=_graph(), y=integers(1, below=2, seed=i))
        for i in range(6)
    ]

    def forward() -> Any:
        found = list(DataLoader(graphs, batch_size=3))
        return {"edges": found[1].edge_index, "batch": found[0].batch, "y": [b.y for b in found]}

    return {"forward": forward}


@program("e3nn", seconds=400)
def e3nn() -> Case:
    import torch
    from e3nn import o3

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first, second = o3.Irreps("2x0e + 2x1o"), o3.Irreps("0e + 1o")
            self.product = o3.FullyConnectedTensorProduct(first, second, "3x0e + 1x1o")
            self.line = o3.Linear("3x0e + 1x1o", "1x0e + 1x1o")

        def forward(self, x: Any, v: Any) -> Any:
            edges = o3.spherical_harmonics("0e + 1o", v, normalize=True)
            return self.line(self.product(x, edges))

    return Case(Net(), (normal(6, 8), normal(6, 3, seed=1)))


@program("torchcde")
def torchcde() -> Case:
    import torch
    import torchcde

    class Field(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = torch.nn.Linear(4, 8)

        def forward(self, t: Any, z: Any) -> Any:
            return torch.tanh(self.line(z)).view(-1, 4, 2)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.field, self.start = Field(), torch.nn.Linear(2, 4)

        def forward(self, coefficients: Any) -> Any:
            path = torchcde.CubicSpline(coefficients)
            z0 = self.start(path.evaluate(path.interval[0]))
            times = torch.linspace(0.0, 4.0, 3)
            return torchcde.cdeint(
                path, self.field, z0, times, method="rk4", adjoint=False,
                options={"step_size": 0.5},
            )  # fmt: skip

    points = torchcde.natural_cubic_coeffs(normal(3, 5, 2))
    return Case(Net(), (points,))


@program("torchode")
def torchode() -> Case:
    import torch
    import torchode as to

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = torch.nn.Linear(3, 3)

        def forward(self, y: Any) -> Any:
            term = to.ODETerm(lambda t, state: torch.tanh(self.line(state)))
            method = to.Dopri5(term=term)
            control = to.IntegralController(atol=1e-6, rtol=1e-4, term=term)
            solver = to.AutoDiffAdjoint(method, control)
            times = torch.linspace(0.0, 1.0, 4).repeat(y.shape[0], 1)
            return solver.solve(to.InitialValueProblem(y0=y, t_eval=times)).ys

    return Case(Net(), (normal(4, 3),), compiled=False)


@program("monai", seconds=400)
def monai() -> Case:
    from monai.losses import DiceLoss
    from monai.networks.nets import UNet

    module = UNet(
        spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 8), strides=(2, 2),
        num_res_units=1, norm="instance",
    )  # fmt: skip
    loss, target = DiceLoss(softmax=True, to_onehot_y=True), integers(1, 1, 16, 16, 16, below=2)
    return Case(module, (normal(1, 1, 16, 16, 16),), loss=lambda found: loss(found, target))


@program("monai: transforms", package="monai")
def monai_transforms() -> Steps:
    from monai.metrics import DiceMetric
    from monai.transforms import Compose, Resize, ScaleIntensity, Spacing

    assert Spacing is not None

    def forward() -> Any:
        change = Compose([ScaleIntensity(), Resize((8, 8, 8), mode="trilinear")])
        metric = DiceMetric(include_background=True)
        metric(uniform(2, 1, 6, 6) > 0.5, uniform(2, 1, 6, 6, seed=1) > 0.5)
        return {"image": change(normal(1, 12, 10, 9)), "dice": metric.aggregate()}

    return {"forward": forward}


@program("kornia", seconds=400)
def kornia() -> Steps:
    import kornia
    import torch

    x = uniform(2, 3, 16, 16).requires_grad_()

    def forward() -> Any:
        gray = kornia.color.rgb_to_grayscale(x)
        turn = torch.tensor([20.0, -35.0])
        return {
            "hsv": kornia.color.rgb_to_hsv(x),
            "blur": kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)),
            "sobel": kornia.filters.sobel(gray),
            "canny": kornia.filters.canny(gray)[0],
            "turned": kornia.geometry.transform.rotate(x, turn),
            "ssim": kornia.metrics.ssim(x, x.flip(-1), 5),
        }

    def backward() -> Any:
        x.grad = None
        found = forward()
        sum(found[k].mean() for k in ("blur", "sobel", "turned", "ssim")).backward()
        return x.grad

    return {"forward": forward, "backward": backward}


@program("opt_einsum", package="opt_einsum")
def opt_einsum() -> Steps:
    import opt_einsum

    parts = [normal(4, 5, seed=i) for i in range(3)]
    parts[0].requires_grad_()

    def forward() -> Any:
        return opt_einsum.contract("ab,cb,cd->ad", *parts)

    def backward() -> Any:
        parts[0].grad = None
        forward().pow(2).sum().backward()
        return parts[0].grad

    return {"forward": forward, "backward": backward}
