"""Representative uses of PyTorch's classes, written for any module with PyTorch's API.

Each use makes an object of a class and works with it in phases. What the phases call of the class
is what subclasses can override; see ``handle/hooks.py``.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Phase = Callable[[Any], Any]


@dataclass
class Use:
    """How a class is used.

    Attributes:
        path: the class, from the framework on.
        make: an object of the class or of a subclass of it.
        phases: what is done with an object, by name.
    """

    path: str
    make: Callable[[type], Any]
    phases: dict[str, Phase] = field(default_factory=dict)


def find(torch: Any, path: str) -> Any:
    """What a dotted path names."""
    found = torch
    for name in path.split("."):
        found = getattr(found, name)
    return found


def module_uses(torch: Any) -> Iterator[Use]:
    """Every layer of ``torch.nn``."""
    yield from _layers(torch)
    yield from _losses(torch)
    yield from _recurrent(torch)
    yield from _attention(torch)


def _calls(*args: Any, **kwargs: Any) -> dict[str, Phase]:
    """A forward pass in training, one outside of it, and the text."""

    def evaluate(module: Any) -> Any:
        module.train(False)
        return module(*args, **kwargs)

    return {"train": lambda m: m(*args, **kwargs), "eval": evaluate, "text": repr}


def _layer(path: str, *made: Any, on: Any, **settings: Any) -> Use:
    inputs = on if isinstance(on, tuple) else (on,)
    return Use(f"nn.{path}", lambda cls: cls(*made, **settings), _calls(*inputs))


def _layers(torch: Any) -> Iterator[Use]:
    def ones(*size: int) -> Any:
        return torch.ones(*size)

    row, lines, images = ones(2, 4), ones(1, 2, 6), ones(1, 2, 6, 6)
    volumes = ones(1, 2, 4, 4, 4)
    for name in (
        "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
        "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "RReLU", "SELU",
        "Sigmoid", "SiLU", "Softmax", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh",
        "Tanhshrink", "Identity", "Dropout", "AlphaDropout", "FeatureAlphaDropout", "Flatten",
    ):  # fmt: skip
        settings = {"dim": -1} if name.endswith(("Softmax", "Softmin")) else {}
        yield _layer(name, on=row, **settings)
    yield _layer("Threshold", 0.5, 2.0, on=row)
    yield _layer("Softmax2d", on=images)
    yield _layer("Unflatten", 1, (2, 2), on=row)
    yield _layer("Linear", 4, 3, on=row)
    yield _layer("LazyLinear", 3, on=row)
    yield _layer("Bilinear", 4, 4, 3, on=(row, row))
    numbers = torch.tensor([[0, 1], [2, 0]])
    yield _layer("Embedding", 4, 3, padding_idx=1, on=numbers)
    yield _layer("EmbeddingBag", 4, 3, on=numbers)
    for rank, x in ((1, lines), (2, images), (3, volumes)):
        yield from _of_rank(rank, x)
    yield _layer("Conv2d", 2, 3, 3, padding=1, padding_mode="circular", on=images)
    yield _layer("LayerNorm", 4, on=row)
    yield _layer("RMSNorm", 4, on=row)
    yield _layer("GroupNorm", 2, 2, on=images)
    yield _layer("LocalResponseNorm", 2, on=images)
    yield _layer("CrossMapLRN2d", 3, on=images)
    yield _layer("ReflectionPad2d", 1, on=images)
    yield _layer("PixelShuffle", 1, on=images)
    yield _layer("PixelUnshuffle", 2, on=images)
    yield _layer("ChannelShuffle", 2, on=images)
    yield _layer("Unfold", 2, on=images)
    yield _layer("Fold", (3, 3), 2, on=ones(1, 4, 4))
    yield _layer("Upsample", scale_factor=2, on=images)
    yield _layer("UpsamplingNearest2d", scale_factor=2, on=images)
    yield _layer("UpsamplingBilinear2d", scale_factor=2, on=images)
    yield _layer("CosineSimilarity", on=(row, row))
    yield _layer("PairwiseDistance", on=(row, row))


def _of_rank(rank: int, x: Any) -> Iterator[Use]:
    """Layers that exist for lines, images and volumes."""
    end = f"{rank}d"
    yield _layer(f"Conv{end}", 2, 3, 3, on=x)
    yield _layer(f"ConvTranspose{end}", 2, 3, 3, on=x)
    yield _layer(f"LazyConv{end}", 3, 3, on=x)
    yield _layer(f"LazyConvTranspose{end}", 3, 3, on=x)
    yield _layer(f"BatchNorm{end}", 2, on=x)
    yield _layer(f"InstanceNorm{end}", 2, on=x)
    yield _layer(f"LazyBatchNorm{end}", on=x)
    yield _layer(f"LazyInstanceNorm{end}", on=x)
    yield _layer(f"Dropout{end}", on=x)
    for name in ("MaxPool", "AvgPool"):
        yield _layer(f"{name}{end}", 2, on=x)
    yield _layer(f"LPPool{end}", 2, 2, on=x)
    for name in ("AdaptiveAvgPool", "AdaptiveMaxPool"):
        yield _layer(f"{name}{end}", 2, on=x)
    for name in ("ReflectionPad", "ReplicationPad", "ZeroPad", "CircularPad"):
        yield _layer(f"{name}{end}", 1, on=x)
    yield _layer(f"ConstantPad{end}", 1, 2.0, on=x)
    if rank > 1:
        yield _layer(f"FractionalMaxPool{end}", 2, output_size=2, on=x)
    places = x.new_zeros((1, 2) + (2,) * rank).long()
    yield _layer(f"MaxUnpool{end}", 2, on=(places.float(), places))


def _losses(torch: Any) -> Iterator[Use]:
    row = torch.full((2, 4), 0.5)
    classes, signs = torch.tensor([0, 1]), torch.tensor([1.0, -1.0])
    for name in (
        "L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "KLDivLoss", "BCELoss",
        "BCEWithLogitsLoss", "PoissonNLLLoss", "SoftMarginLoss", "HingeEmbeddingLoss",
        "MultiLabelSoftMarginLoss",
    ):  # fmt: skip
        settings = {"reduction": "sum"} if name == "KLDivLoss" else {}
        yield _layer(name, on=(row, row), **settings)
    for name in ("NLLLoss", "CrossEntropyLoss", "MultiMarginLoss"):
        yield _layer(name, on=(row, classes))
    yield _layer("MultiLabelMarginLoss", on=(row, torch.tensor([[1, 0, -1, 0], [3, -1, 0, 0]])))
    yield _layer("MarginRankingLoss", on=(row[:, 0], row[:, 1], signs))
    yield _layer("CosineEmbeddingLoss", on=(row, row, signs))
    yield _layer("TripletMarginLoss", on=(row, row, row))
    yield _layer("TripletMarginWithDistanceLoss", on=(row, row, row))
    yield _layer("GaussianNLLLoss", on=(row, row, row))
    lengths = (torch.tensor([3]), torch.tensor([2]))
    scores = torch.zeros(3, 1, 4)
    yield _layer("CTCLoss", on=(scores, torch.tensor([[1, 2]]), *lengths))
    yield _layer("AdaptiveLogSoftmaxWithLoss", 4, 6, [2, 4], on=(row, classes))
    yield _layer("LinearCrossEntropyLoss", 4, 3, on=(row, classes))


def _recurrent(torch: Any) -> Iterator[Use]:
    x, row = torch.ones(3, 2, 4), torch.ones(2, 4)
    for name in ("RNN", "GRU", "LSTM"):
        yield _layer(name, 4, 3, 2, on=x)
        yield _layer(f"{name}Cell", 4, 3, on=row)


def _attention(torch: Any) -> Iterator[Use]:
    x = torch.ones(2, 3, 4)
    yield _layer("MultiheadAttention", 4, 2, on=(x, x, x))
    yield _layer("MultiheadAttention", 4, 2, kdim=4, vdim=4, add_bias_kv=True, on=(x, x, x))
    for first in (False, True):
        kind = {"norm_first": first}
        yield _layer("TransformerEncoderLayer", 4, 2, 8, on=x, **kind)
        yield _layer("TransformerDecoderLayer", 4, 2, 8, on=(x, x), **kind)
    yield _layer("TransformerEncoder", torch.nn.TransformerEncoderLayer(4, 2, 8), 2, on=x)
    yield _layer("TransformerDecoder", torch.nn.TransformerDecoderLayer(4, 2, 8), 1, on=(x, x))
    yield _layer("Transformer", 4, 2, 1, 1, 8, on=(x, x))


# ------------------------------------------------------------------ nn.Module itself


def tree_uses(torch: Any) -> Iterator[Use]:
    """A module with a child, a parameter and a buffer: what the base class calls of itself."""

    def make(cls: type) -> Any:
        module = cls()
        module.child = cls()
        module.child.child = torch.nn.Linear(2, 2)
        module.weight = torch.nn.Parameter(torch.ones(2))
        module.register_buffer("count", torch.zeros(2))
        module.forward = lambda x: x * module.weight
        return module

    yield Use("nn.Module", make, _tree_phases(torch) | _looks_at_trees(torch))
    yield from _containers(torch)


def _tree_phases(torch: Any) -> dict[str, Phase]:
    def saved(module: Any) -> Any:
        return module.load_state_dict(module.state_dict())

    return {
        "call": lambda m: m(torch.ones(2)),
        "state_dict": lambda m: m.state_dict(),
        "load_state_dict": saved,
        "to": lambda m: m.to(torch.float64),
        "double": lambda m: m.double(),
        "float": lambda m: m.float(),
        "half": lambda m: m.half(),
        "bfloat16": lambda m: m.bfloat16(),
        "type": lambda m: m.type(torch.float32),
        "cpu": lambda m: m.cpu(),
        "to_empty": lambda m: m.to_empty(device="cpu"),
        "share_memory": lambda m: m.share_memory(),
        "train": lambda m: m.train(),
        "eval": lambda m: m.eval(),
        "zero_grad": lambda m: m.zero_grad(),
        "requires_grad_": lambda m: m.requires_grad_(False),
        "apply": lambda m: m.apply(lambda inner: None),
    }


def _looks_at_trees(torch: Any) -> dict[str, Phase]:
    return {
        "parameters": lambda m: list(m.parameters()),
        "named_parameters": lambda m: list(m.named_parameters()),
        "buffers": lambda m: list(m.buffers()),
        "named_buffers": lambda m: list(m.named_buffers()),
        "modules": lambda m: list(m.modules()),
        "children": lambda m: list(m.children()),
        "get_submodule": lambda m: m.get_submodule("child"),
        "get_parameter": lambda m: m.get_parameter("child.child.weight"),
        "get_buffer": lambda m: m.get_buffer("count"),
        "add_module": lambda m: m.add_module("other", torch.nn.Identity()),
        "register_module": lambda m: m.register_module("third", torch.nn.Identity()),
        "set attribute": lambda m: setattr(m, "fourth", torch.nn.Parameter(torch.ones(1))),
        "get attribute": lambda m: m.weight,
        "text": repr,
        "dir": dir,
        "clip": lambda m: torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0),
        "in a Sequential": lambda m: torch.nn.Sequential(m)(torch.ones(2)),
        "Sequential.state_dict": lambda m: torch.nn.Sequential(m).state_dict(),
        "Sequential.to": lambda m: torch.nn.Sequential(m).to(torch.float32),
        "Sequential.train": lambda m: torch.nn.Sequential(m).eval(),
        "Sequential text": lambda m: repr(torch.nn.Sequential(m)),
    }


def _containers(torch: Any) -> Iterator[Use]:
    nn = torch.nn
    more: dict[str, Phase] = {
        "append": lambda m: m.append(nn.Identity()),
        "extend": lambda m: m.extend([nn.Identity()]),
        "insert": lambda m: m.insert(0, nn.Identity()),
        "get": lambda m: m[0],
        "slice": lambda m: m[:1],
        "set": lambda m: m.__setitem__(0, nn.Identity()),
        "add": lambda m: m + type(m)(),
        "iadd": lambda m: m.__iadd__(nn.ModuleList([nn.Identity()])),
        "len": len,
        "iterate": list,
        "pop": lambda m: m.pop(-1),
        "delete": lambda m: m.__delitem__(0),
        "text": repr,
    }
    calls = _calls(torch.ones(2, 4))
    yield Use("nn.Sequential", lambda cls: cls(nn.Linear(4, 4), nn.ReLU()), calls)
    yield Use("nn.ModuleList", lambda cls: cls([nn.Linear(4, 4), nn.ReLU()]), more)
    named: dict[str, Phase] = {
        "set": lambda m: m.__setitem__("b", nn.ReLU()),
        "update": lambda m: m.update({"c": nn.ReLU()}),
        "get": lambda m: m["a"],
        "items": lambda m: (list(m), list(m.keys()), list(m.values()), list(m.items())),
        "pop": lambda m: m.pop("a"),
        "delete": lambda m: m.__delitem__("b"),
        "clear": lambda m: m.clear(),
        "text": repr,
    }
    yield Use("nn.ModuleDict", lambda cls: cls({"a": nn.Linear(4, 4)}), named)
    weights = {k: v for k, v in more.items() if k not in ("insert", "add", "iadd", "pop", "delete")}
    weights["append"] = lambda m: m.append(torch.ones(1))
    weights["extend"] = lambda m: m.extend([torch.ones(1)])
    weights["set"] = lambda m: m.__setitem__(0, torch.ones(1))
    weights["iadd"] = lambda m: m.__iadd__([torch.ones(1)])
    yield Use("nn.ParameterList", lambda cls: cls([torch.ones(2)]), weights)
    table: dict[str, Phase] = {
        "set": lambda m: m.__setitem__("b", torch.ones(1)),
        "update": lambda m: m.update({"c": torch.ones(1)}),
        "get": lambda m: (m["a"], m.get("a"), "a" in m, len(m)),
        "items": lambda m: (list(m), list(m.keys()), list(m.values()), list(m.items())),
        "default": lambda m: m.setdefault("d", torch.ones(1)),
        "copy": lambda m: m.copy(),
        "or": lambda m: m | m,
        "pop": lambda m: m.pop("a"),
        "clear": lambda m: m.clear(),
        "text": repr,
    }
    yield Use("nn.ParameterDict", lambda cls: cls({"a": torch.ones(2)}), table)


# ------------------------------------------------------------------ optimizers and schedules


def optimizer_uses(torch: Any) -> Iterator[Use]:
    """Every optimizer, through two steps, its state and another group."""
    names = (
        "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS", "Muon",
        "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
    )  # fmt: skip
    for name in names:
        yield Use(f"optim.{name}", _optimizer(torch), _optimizer_phases(torch, name))


def _weight(torch: Any) -> Any:
    weight = torch.nn.Parameter(torch.ones(2, 2))
    weight.grad = torch.full((2, 2), 0.5)
    return weight


def _optimizer(torch: Any) -> Callable[[type], Any]:
    return lambda cls: cls([_weight(torch)], lr=0.1)


def _maker(optimizer: Callable[[], Any], *args: Any, **named: Any) -> Callable[[Any], Any]:
    """Makes a schedule of a class, for a new optimizer."""
    return lambda kind: kind(optimizer(), *args, **named)


def _optimizer_phases(torch: Any, name: str) -> dict[str, Phase]:
    def closure(optimizer: Any) -> Any:
        def loss() -> Any:
            return (optimizer.param_groups[0]["params"][0] ** 2).sum()

        return optimizer.step(loss)

    def reload(optimizer: Any) -> Any:
        return optimizer.load_state_dict(optimizer.state_dict())

    phases: dict[str, Phase] = {
        "step": lambda o: o.step(),
        "closure": closure,
        "zero_grad": lambda o: o.zero_grad(),
        "state_dict": lambda o: o.state_dict(),
        "load_state_dict": reload,
        "add_param_group": lambda o: o.add_param_group({"params": [_weight(torch)]}),
        "text": repr,
        "pickle": lambda o: o.__setstate__(o.__getstate__()),
    }
    if name == "LBFGS":
        del phases["step"], phases["add_param_group"]
    return phases


def schedule_uses(torch: Any) -> Iterator[Use]:
    """Every schedule of learning rates, through three steps and its state."""
    given: dict[str, tuple[Any, ...]] = {
        "LambdaLR": (lambda step: 0.5**step,),
        "MultiplicativeLR": (lambda step: 0.5,),
        "StepLR": (1,),
        "MultiStepLR": ([1, 2],),
        "ConstantLR": (),
        "LinearLR": (),
        "ExponentialLR": (0.5,),
        "PolynomialLR": (),
        "CosineAnnealingLR": (3,),
        "CosineAnnealingWarmRestarts": (3,),
        "CyclicLR": (0.1, 0.2),
        "OneCycleLR": (0.1, 10),
    }

    def optimizer() -> Any:
        return torch.optim.SGD([_weight(torch)], 0.1, momentum=0.9)

    phases: dict[str, Phase] = {
        "step": lambda s: s.step(),
        "step again": lambda s: s.step(),
        "step to": lambda s: s.step(2),
        "get_last_lr": lambda s: s.get_last_lr(),
        "state_dict": lambda s: s.state_dict(),
        "load_state_dict": lambda s: s.load_state_dict(s.state_dict()),
    }
    for name, args in given.items():
        path = f"optim.lr_scheduler.{name}"
        yield Use(path, _maker(optimizer, *args), dict(phases))
    plateau: dict[str, Phase] = {"step": lambda s: s.step(1.0), "worse": lambda s: s.step(2.0)}
    plateau |= {name: phases[name] for name in ("get_last_lr", "state_dict", "load_state_dict")}
    made = _maker(optimizer, patience=0)
    yield Use("optim.lr_scheduler.ReduceLROnPlateau", made, plateau)
    chained = {k: v for k, v in phases.items() if k != "step to"}

    def chain(cls: type) -> Any:
        over = optimizer()
        inner = torch.optim.lr_scheduler
        return cls([inner.StepLR(over, 1), inner.ExponentialLR(over, 0.5)], over)

    def sequence(cls: type) -> Any:
        over = optimizer()
        inner = torch.optim.lr_scheduler
        return cls(over, [inner.StepLR(over, 1), inner.ExponentialLR(over, 0.5)], [1])

    yield Use("optim.lr_scheduler.ChainedScheduler", chain, dict(chained))
    yield Use("optim.lr_scheduler.SequentialLR", sequence, dict(chained))


# ------------------------------------------------------------------ data


def data_uses(torch: Any) -> Iterator[Use]:
    """Datasets, samplers and loaders."""
    data = torch.utils.data
    numbers = torch.arange(4.0)
    tensors = data.TensorDataset(numbers)
    looks: dict[str, Phase] = {
        "item": lambda d: d[0],
        "length": len,
        "loaded": lambda d: list(data.DataLoader(d, batch_size=2)),
        "sampled": lambda d: list(data.DataLoader(d, batch_size=2, shuffle=True)),
        "split": lambda d: list(data.DataLoader(data.random_split(d, [2, 2])[0])),
    }
    yield Use("utils.data.TensorDataset", lambda cls: cls(numbers), dict(looks))
    yield Use("utils.data.Subset", lambda cls: cls(tensors, [0, 1, 2, 3]), dict(looks))
    yield Use("utils.data.ConcatDataset", lambda cls: cls([tensors]), dict(looks))
    yield Use("utils.data.StackDataset", lambda cls: cls(numbers), dict(looks))
    turns: dict[str, Phase] = {
        "iterate": list,
        "length": len,
        "loaded": lambda s: list(data.DataLoader(tensors, sampler=s, batch_size=2)),
    }
    yield Use("utils.data.SequentialSampler", lambda cls: cls(tensors), dict(turns))
    yield Use("utils.data.RandomSampler", lambda cls: cls(tensors), dict(turns))
    yield Use("utils.data.SubsetRandomSampler", lambda cls: cls([0, 2]), dict(turns))
    yield Use(
        "utils.data.WeightedRandomSampler", lambda cls: cls([0.5] * 4, num_samples=4), dict(turns)
    )
    yield Use(
        "utils.data.distributed.DistributedSampler",
        lambda cls: cls(tensors, num_replicas=2, rank=0),
        dict(turns),
    )
    batches: dict[str, Phase] = {
        "iterate": list,
        "length": len,
        "loaded": lambda s: list(data.DataLoader(tensors, batch_sampler=s)),
    }
    made = lambda cls: cls(data.SequentialSampler(tensors), 2, False)  # noqa: E731
    yield Use("utils.data.BatchSampler", made, batches)
    loads: dict[str, Phase] = {"iterate": list, "again": list, "length": len}
    yield Use("utils.data.DataLoader", lambda cls: cls(tensors, batch_size=2), loads)


# ------------------------------------------------------------------ distributions


def distribution_uses(torch: Any) -> Iterator[Use]:
    """Every distribution and transform."""
    half, d = torch.tensor([0.5, 0.25]), torch.distributions

    def scored(dist: Any) -> Any:
        return dist.log_prob(dist.sample())

    phases: dict[str, Phase] = {
        "sample": lambda x: x.sample((2,)),
        "sample_n": lambda x: x.sample_n(2),
        "rsample": lambda x: x.rsample((2,)),
        "log_prob": scored,
        "cdf": lambda x: x.cdf(x.sample()),
        "icdf": lambda x: x.icdf(half),
        "entropy": lambda x: x.entropy(),
        "perplexity": lambda x: x.perplexity(),
        "mean": lambda x: x.mean,
        "mode": lambda x: x.mode,
        "variance": lambda x: x.variance,
        "stddev": lambda x: x.stddev,
        "support": lambda x: x.support,
        "enumerate_support": lambda x: x.enumerate_support(),
        "expand": lambda x: x.expand((2, *x.batch_shape)),
        "independent": lambda x: d.Independent(x, 0).sample(),
        "kl": lambda x: d.kl_divergence(x, x),
        "text": repr,
    }
    for name, make in _made_distributions(torch).items():
        yield Use(f"distributions.{name}", make, dict(phases))
    yield from _transforms(torch, half)


def _made_distributions(torch: Any) -> dict[str, Any]:
    half, both = torch.tensor([0.5, 0.25]), torch.tensor([0.5, 0.5])
    eye, d = torch.eye(2), torch.distributions
    return {
        "Bernoulli": lambda c: c(half),
        "Beta": lambda c: c(half, half),
        "Binomial": lambda c: c(3, half),
        "Categorical": lambda c: c(both),
        "Cauchy": lambda c: c(half, half),
        "Chi2": lambda c: c(half),
        "ContinuousBernoulli": lambda c: c(half),
        "Dirichlet": lambda c: c(half),
        "Exponential": lambda c: c(half),
        "FisherSnedecor": lambda c: c(half + 4, half + 4),
        "Gamma": lambda c: c(half, half),
        "GeneralizedPareto": lambda c: c(half, half, half),
        "Geometric": lambda c: c(half),
        "Gumbel": lambda c: c(half, half),
        "HalfCauchy": lambda c: c(half),
        "HalfNormal": lambda c: c(half),
        "Independent": lambda c: c(d.Normal(half, half), 1),
        "InverseGamma": lambda c: c(half + 4, half),
        "Kumaraswamy": lambda c: c(half, half),
        "Laplace": lambda c: c(half, half),
        "LKJCholesky": lambda c: c(2, 0.5),
        "LogNormal": lambda c: c(half, half),
        "LogisticNormal": lambda c: c(half, half),
        "LowRankMultivariateNormal": lambda c: c(half, half.reshape(2, 1), half),
        "MixtureSameFamily": lambda c: c(d.Categorical(both), d.Normal(half, half)),
        "Multinomial": lambda c: c(3, both),
        "MultivariateNormal": lambda c: c(half, eye),
        "NegativeBinomial": lambda c: c(3.0, half),
        "Normal": lambda c: c(half, half),
        "OneHotCategorical": lambda c: c(both),
        "OneHotCategoricalStraightThrough": lambda c: c(both),
        "Pareto": lambda c: c(half, half + 4),
        "Poisson": lambda c: c(half),
        "RelaxedBernoulli": lambda c: c(half[0], both),
        "RelaxedOneHotCategorical": lambda c: c(half[0], both),
        "StudentT": lambda c: c(half + 4, half, half),
        "TransformedDistribution": lambda c: c(d.Normal(half, half), [d.transforms.ExpTransform()]),
        "Uniform": lambda c: c(half, half + 1),
        "VonMises": lambda c: c(half, half),
        "Weibull": lambda c: c(half, half),
        "Wishart": lambda c: c(half[0] + 4, eye),
    }


def _transforms(torch: Any, half: Any) -> Iterator[Use]:
    t = torch.distributions.transforms
    given: dict[str, Any] = {
        "ExpTransform": lambda c: c(),
        "AffineTransform": lambda c: c(1.0, 2.0),
        "PowerTransform": lambda c: c(half),
        "SigmoidTransform": lambda c: c(),
        "TanhTransform": lambda c: c(),
        "AbsTransform": lambda c: c(),
        "SoftplusTransform": lambda c: c(),
        "SoftmaxTransform": lambda c: c(),
        "StickBreakingTransform": lambda c: c(),
        "ComposeTransform": lambda c: c([t.ExpTransform()]),
        "IndependentTransform": lambda c: c(t.ExpTransform(), 1),
        "ReshapeTransform": lambda c: c((2,), (2, 1)),
        "StackTransform": lambda c: c([t.ExpTransform(), t.ExpTransform()]),
        "CatTransform": lambda c: c([t.ExpTransform(), t.ExpTransform()], lengths=[1, 1]),
    }
    normal = torch.distributions.Normal(half, half)
    phases: dict[str, Phase] = {
        "call": lambda x: x(half),
        "inverse": lambda x: x.inv(x(half)),
        "jacobian": lambda x: x.log_abs_det_jacobian(half, x(half)),
        "domain": lambda x: (x.domain, x.codomain, x.sign),
        "shape": lambda x: (x.forward_shape((2,)), x.inverse_shape((2,))),
        "cache": lambda x: x.with_cache(),
        "distribution": lambda x: torch.distributions.TransformedDistribution(normal, [x]).sample(),
    }
    for name, make in given.items():
        yield Use(f"distributions.transforms.{name}", make, dict(phases))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without warnings and printed text."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def pickled(value: Any) -> Any:
    """A copy by way of bytes."""
    return pickle.loads(pickle.dumps(value))
