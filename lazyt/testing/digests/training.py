"""What texts of programs call: random calls with a seed, modules, optimizers and networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import lazyt
from lazyt.testing.digests.values import spread, unit, whole

__all__ = ["drawn_from", "flat", "optimized", "scheduled", "seeded", "slopes", "through", "trained"]

#: Modules and what they are called with. ``a`` makes numbers of a shape, ``u`` those from 0 to 1.
MODULES = """
    AdaptiveAvgPool1d(5)|a(2,3,16) AdaptiveAvgPool2d(3)|a(2,3,8,9) AdaptiveAvgPool3d(2)|a(1,2,5,5,5)
    AdaptiveMaxPool1d(5)|a(2,3,16) AdaptiveMaxPool2d(3)|a(2,3,8,9) AdaptiveMaxPool3d(2)|a(1,2,5,5,5)
    AdaptiveLogSoftmaxWithLoss(8,20,[5,12])|a(9,8),whole(9,below=20) AlphaDropout(0.3)|a(20,20)
    AvgPool1d(3)|a(2,3,16) AvgPool2d(3,2,1)|a(2,3,9,9) AvgPool3d(2)|a(1,2,6,6,6)
    BCELoss()|u(9,3),u(9,3,seed=1) BCEWithLogitsLoss()|a(9,3),u(9,3) BatchNorm1d(7)|a(30,7)
    BatchNorm2d(4)|a(6,4,5,5) BatchNorm3d(3)|a(2,3,4,4,4) Bilinear(4,5,6)|a(8,4),a(8,5) CELU()|a(99)
    ChannelShuffle(2)|a(1,6,4,4)
    CTCLoss()|a(20,3,9).log_softmax(-1),1+whole(3,5,below=8),whole(3,below=1)+20,whole(3,below=1)+4
    CircularPad1d(2)|a(2,3,9) CircularPad2d(1)|a(1,2,5,5) CircularPad3d(1)|a(1,1,4,4,4)
    ConstantPad1d(2,0.5)|a(2,3,9) ConstantPad2d(1,0.5)|a(1,2,5,5) ConstantPad3d(1,0.5)|a(1,1,4,4,4)
    Conv1d(3,5,3)|a(2,3,20) Conv2d(3,8,3,padding=1)|a(2,3,12,12) Conv3d(2,3,3)|a(1,2,6,6,6)
    ConvTranspose1d(3,4,3)|a(2,3,12) ConvTranspose2d(3,4,3,2)|a(2,3,7,7)
    ConvTranspose3d(2,3,2)|a(1,2,4,4,4) CosineEmbeddingLoss()|a(7,5),a(7,5,seed=1),a(7).sign()
    CosineSimilarity()|a(9,6),a(9,6,seed=1) CrossEntropyLoss()|a(30,8),whole(30,below=8)
    CrossMapLRN2d(3)|a(1,6,4,4) Dropout(0.4)|a(30,30) Dropout1d(0.4)|a(5,9,4)
    Dropout2d(0.4)|a(5,9,4,4) Dropout3d(0.4)|a(2,9,3,3,3) ELU()|a(99)
    Embedding(20,6)|whole(40,below=20) EmbeddingBag(20,6)|whole(12,4,below=20)
    FeatureAlphaDropout(0.4)|a(3,8,4,4) Flatten()|a(3,4,5) Fold((6,6),3)|a(1,18,16)
    FractionalMaxPool2d(2,output_size=4)|a(1,2,9,9)
    FractionalMaxPool3d(2,output_size=3)|a(1,2,7,7,7) GELU()|a(99) GLU()|a(7,8) GRU(5,7)|a(9,3,5)
    GRUCell(5,7)|a(4,5) GaussianNLLLoss()|a(9),a(9,seed=1),u(9) GroupNorm(3,6)|a(2,6,5,5)
    Hardshrink()|a(99) Hardsigmoid()|a(99) Hardswish()|a(99) Hardtanh()|a(99)
    HingeEmbeddingLoss()|a(20),a(20).sign() HuberLoss()|a(20),a(20,seed=1) Identity()|a(9)
    InstanceNorm1d(3,affine=True)|a(2,3,9) InstanceNorm2d(3)|a(2,3,5,5)
    InstanceNorm3d(2)|a(1,2,4,4,4) KLDivLoss(reduction='sum')|a(9).log_softmax(0),u(9)
    L1Loss()|a(20),a(20,seed=1) LPPool1d(2,3)|a(2,3,12) LPPool2d(2,2)|a(1,2,6,6)
    LPPool3d(2,2)|a(1,1,4,4,4) LSTM(5,7,2)|a(9,3,5) LSTMCell(5,7)|a(4,5) LayerNorm(60)|a(13,60)
    LazyBatchNorm1d()|a(30,7) LazyConv1d(5,3)|a(2,3,20) LazyBatchNorm2d()|a(3,4,5,5)
    LazyBatchNorm3d()|a(2,2,3,3,3) LazyConv2d(5,3)|a(2,3,9,9) LazyConv3d(2,2)|a(1,2,4,4,4)
    LazyConvTranspose1d(4,3)|a(2,3,12) LazyConvTranspose2d(4,3)|a(1,3,5,5)
    LazyConvTranspose3d(2,2)|a(1,2,3,3,3) LazyInstanceNorm1d()|a(2,3,9)
    LazyInstanceNorm2d()|a(1,2,5,5) LazyInstanceNorm3d()|a(1,2,3,3,3) LazyLinear(6)|a(9,8)
    LeakyReLU()|a(99) Linear(40,30)|a(20,40) LocalResponseNorm(3)|a(1,6,4,4) LogSigmoid()|a(99)
    LogSoftmax(1)|a(9,11) MSELoss()|a(30),a(30,seed=1)
    MarginRankingLoss()|a(20),a(20,seed=1),a(20,seed=2).sign() MaxPool1d(3)|a(2,3,16)
    MaxPool2d(3,2)|a(2,3,9,9) MaxPool3d(2)|a(1,2,6,6,6) MaxUnpool1d(2)|a(1,2,4),whole(1,2,4,below=8)
    MaxUnpool2d(2)|a(1,1,2,2),torch.tensor([[[[0,3],[9,14]]]])
    MaxUnpool3d(2)|a(1,1,1,1,2),torch.tensor([[[[[0,7]]]]]) Mish()|a(99)
    MultiLabelMarginLoss()|a(5,4),torch.tensor([[1,3,-1,0]]*5)
    MultiLabelSoftMarginLoss()|a(5,4),u(5,4).round() MultiMarginLoss()|a(20,6),whole(20,below=6)
    MultiheadAttention(12,3)|a(7,2,12),a(7,2,12,seed=1),a(7,2,12)
    NLLLoss()|a(20,6).log_softmax(1),whole(20,below=6) PReLU()|a(99)
    PairwiseDistance()|a(9,6),a(9,6,seed=1) PixelShuffle(2)|a(1,8,3,3) PixelUnshuffle(2)|a(1,2,6,6)
    PoissonNLLLoss()|a(20),u(20)*4 RMSNorm(60)|a(13,60) RNN(5,7,nonlinearity='tanh')|a(9,3,5)
    RNNCell(5,7)|a(4,5) RReLU()|a(99) ReLU()|a(99) ReLU6()|a(99) ReflectionPad1d(2)|a(2,3,9)
    ReflectionPad2d(1)|a(1,2,5,5) ReflectionPad3d(1)|a(1,1,4,4,4) ReplicationPad1d(2)|a(2,3,9)
    ReplicationPad2d(1)|a(1,2,5,5) ReplicationPad3d(1)|a(1,1,4,4,4) SELU()|a(99) SiLU()|a(99)
    Sigmoid()|a(99) SmoothL1Loss()|a(20),a(20,seed=1) SoftMarginLoss()|a(20),a(20,seed=1).sign()
    Softmax(1)|a(9,11) Softmax2d()|a(2,5,4,4) Softmin(1)|a(9,11) Softplus()|a(99) Softshrink()|a(99)
    Softsign()|a(99) SyncBatchNorm(4)|a(6,4,5,5) Tanh()|a(99) Tanhshrink()|a(99)
    Threshold(0.1,2)|a(99) Transformer(12,3,1,1,20,dropout=0.1)|a(5,2,12),a(4,2,12,seed=1)
    TransformerDecoderLayer(12,3,20)|a(5,2,12),a(4,2,12,seed=1)
    TransformerEncoderLayer(12,3,20)|a(5,2,12)
    TransformerEncoder(nn.TransformerEncoderLayer(12,3,20),2)|a(5,2,12)
    TransformerDecoder(nn.TransformerDecoderLayer(12,3,20),1)|a(5,2,12),a(4,2,12,seed=1)
    TripletMarginLoss()|a(9,6),a(9,6,seed=1),a(9,6,seed=2)
    TripletMarginWithDistanceLoss()|a(9,6),a(9,6,seed=1),a(9,6,seed=2) Unflatten(1,(2,3))|a(4,6)
    Unfold(3)|a(1,2,6,6) Upsample(scale_factor=2)|a(1,2,5,5)
    UpsamplingBilinear2d(scale_factor=2)|a(1,2,5,5) UpsamplingNearest2d(scale_factor=2)|a(1,2,5,5)
    ZeroPad1d(2)|a(2,3,9) ZeroPad2d(1)|a(1,2,5,5) ZeroPad3d(1)|a(1,1,4,4,4)
    Sequential(nn.Linear(9,8),nn.ReLU(),nn.Linear(8,3))|a(6,9)
    """
OPTIMIZERS = """
    ASGD(p,0.05) Adadelta(p) Adafactor(p,0.02) Adagrad(p,0.05) Adam(p,0.02)
    Adam(p,0.02,amsgrad=True) AdamW(p,0.02) Adamax(p,0.02) LBFGS(p,0.3) Lion(p,0.01) Muon(p[:1])
    NAdam(p,0.02) RAdam(p,0.02) RMSprop(p,0.01,momentum=0.5) Rprop(p,0.01) SGD(p,0.1)
    SGD(p,0.1,momentum=0.9,nesterov=True) SGD(p,0.1,weight_decay=0.01)
    """
SCHEDULES = """
    ConstantLR(o) CosineAnnealingLR(o,9) CosineAnnealingWarmRestarts(o,4) CyclicLR(o,0.01,0.1,3)
    ExponentialLR(o,0.9) LinearLR(o) MultiStepLR(o,[2,5]) OneCycleLR(o,0.2,total_steps=14)
    PolynomialLR(o,9) StepLR(o,3)
    """
#: A network, what it is given, how many classes it tells apart, and the optimizer.
NETWORKS = [
    "nn.Sequential(nn.Linear(20,40),nn.GELU(),nn.Linear(40,5))|a(64,20)|SGD(p,0.1,momentum=0.9)",
    "nn.Sequential(nn.Linear(20,40),nn.Tanh(),nn.LayerNorm(40),nn.Linear(40,5))|a(64,20)"
    "|AdamW(p,0.01)",
    "nn.Sequential(nn.Conv2d(3,8,3,padding=1),nn.BatchNorm2d(8),nn.ReLU(),nn.MaxPool2d(2),"
    "nn.Dropout(0.2),nn.Flatten(),nn.Linear(8*36,5))|a(16,3,12,12)|Adam(p,0.01)",
    "nn.Sequential(nn.Embedding(30,8),nn.Flatten(),nn.Linear(48,5))|whole(20,6,below=30)"
    "|Adagrad(p,0.1)",
    "nn.Sequential(nn.TransformerEncoderLayer(16,4,32,batch_first=True),nn.Flatten(),"
    "nn.Linear(9*16,5))|a(16,9,16)|NAdam(p,0.01)",
    "Last(nn.LSTM(6,12,batch_first=True),12)|a(16,9,6)|RMSprop(p,0.01)",
    "Last(nn.GRU(6,12,batch_first=True),12)|a(16,9,6)|Adam(p,0.01)",
]
_STEPS = 6


class _Last(lazyt.nn.Module):
    """A recurrent layer, and a linear one of its last step."""

    def __init__(self, layer: lazyt.nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.out = layer, lazyt.nn.Linear(width, 5)

    def forward(self, input: Any) -> Any:
        return self.out(self.layer(input)[0][:, -1])


def _names(**more: Any) -> dict[str, Any]:
    return {
        "torch": lazyt, "nn": lazyt.nn, "a": spread, "u": unit, "whole": whole, "Last": _Last,
        **more,
    }  # fmt: skip


def seeded(call: Callable[[], Any]) -> Any:
    """What a call gives after ``manual_seed``."""
    lazyt.manual_seed(7)
    return call()


def flat(value: Any) -> list[Any]:
    """The numbers of lists in lists."""
    if isinstance(value, Iterable):
        return [each for part in value for each in flat(part)]
    return [value]


def slopes(text: str, *operands: Any) -> list[Any]:
    """Gradients of the sum of what a text about ``x``, ``y`` and ``u`` gives, by each it reads."""
    names = dict(zip("xyu", [each.detach().requires_grad_() for each in operands], strict=True))
    result = eval(text, {"torch": lazyt, **names})
    if not result.requires_grad:
        return [result]
    found = lazyt.autograd.grad(result.sum(), [*names.values()], allow_unused=True)
    return [each for each in found if each is not None]


def drawn_from(made: Any) -> list[Any]:
    """Samples, their log-probabilities, and the mean and entropy that a distribution has."""
    value = seeded(lambda: made.sample((6,)))
    results = [value, made.log_prob(value)]
    for name in ("mean", "variance", "entropy"):
        try:
            found = getattr(made, name)
            results.append(found() if callable(found) else found)
        except NotImplementedError:
            continue  # not all have them
    return results


def through(text: str) -> list[Any]:
    """A module's results, and gradients of its parameters and of what it was given."""
    made, given = text.split("|")
    names = _names()
    module = seeded(lambda: eval(f"nn.{made}", names))
    inputs = eval(f"({given},)", names)
    for each in inputs:
        if each.is_floating_point():
            each.requires_grad_()
    found = seeded(lambda: module(*inputs))
    results = _tensors(found)
    loss = sum((each * each).sum() for each in results if each.is_floating_point())
    leaves = [*module.parameters(), *(each for each in inputs if each.requires_grad)]
    if not isinstance(loss, int) and loss.requires_grad and leaves:
        slopes = lazyt.autograd.grad(loss, leaves, allow_unused=True)
        results += [each for each in slopes if each is not None]
    return results


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, lazyt.Tensor):
        return [value]
    return [each for part in value for each in _tensors(part)] if isinstance(value, tuple) else []


def optimized(text: str) -> list[Any]:
    """Parameters after some steps on a sum of squares."""
    weights = [spread(6, 5, seed=1).requires_grad_(), spread(5, seed=2).requires_grad_()]
    x, y = spread(20, 6, seed=3), spread(20, 5, seed=4)
    optimizer = eval(f"torch.optim.{text}", {"torch": lazyt, "p": weights})

    def loss() -> Any:
        optimizer.zero_grad()
        error = ((x @ weights[0] + weights[1]).tanh() - y).square().mean()
        error.backward()
        return error

    for _ in range(_STEPS):
        optimizer.step(loss)
    return weights


def scheduled(text: str) -> Any:
    """Learning rates of a schedule, which Python computes."""
    optimizer = lazyt.optim.SGD([lazyt.zeros(1, requires_grad=True)], 0.1, momentum=0.9)
    schedule = eval(f"torch.optim.lr_scheduler.{text}", {"torch": lazyt, "o": optimizer})
    rates = []
    for _ in range(12):
        optimizer.step()
        schedule.step()
        rates.append(float(optimizer.param_groups[0]["lr"]))
    return lazyt.tensor(rates, dtype=lazyt.float64)


def trained(text: str) -> list[Any]:
    """Losses of some steps, and the parameters after them."""
    made, given, chosen = text.split("|")
    names = _names()
    network = seeded(lambda: eval(made, names))
    inputs = eval(given, names)
    labels = whole(inputs.shape[0], below=5, seed=9)
    names["p"] = [*network.parameters()]
    optimizer = eval(f"torch.optim.{chosen}", names)
    losses = []
    for _ in range(_STEPS):
        optimizer.zero_grad()
        loss = lazyt.nn.functional.cross_entropy(network(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [lazyt.stack(losses), *network.parameters(), *network.buffers()]
