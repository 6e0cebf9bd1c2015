"""Level 3: networks of depthwise and grouped convolutions, with batch normalization."""

import math

import torch
from torch import nn

from lazyt.bench.levels import problem


def convolution(channels, out, kernel, stride=1, groups=1, activation=nn.ReLU6):
    """A convolution, its normalization, and perhaps an activation. Without one, nothing is added,
    as the normalization that comes after the next convolution would undo it."""
    norm = nn.BatchNorm2d(out)
    if not activation:
        norm.register_parameter("bias", None)
    conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, norm, *([activation()] if activation else []))


@problem(
    3, 19, "mobilenet_v1", "b 3 s s", init=("w", "o"), tolerance=5e-3,
    b=(2, 4, 10), s=(64, 96, 224), w=(2, 8, 32), o=(7, 100, 1000),
)  # fmt: skip
class MobileNetV1(nn.Module):
    #: Channels, as multiples of the width, and strides.
    BLOCKS = ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *((16, 1),) * 5, (32, 2), (32, 1))

    def __init__(self, width, classes):
        super().__init__()
        layers, channels = [convolution(3, width, 3, 2, activation=nn.ReLU)], width
        for factor, stride in self.BLOCKS:
            layers += [
                convolution(channels, channels, 3, stride, channels, nn.ReLU),
                convolution(channels, factor * width, 1, activation=nn.ReLU),
            ]
            channels = factor * width
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(torch.mean(self.features(x), dim=(2, 3)))


class InvertedResidual(nn.Module):
    """Many channels of depthwise convolution between few."""

    def __init__(self, channels, out, stride, expansion):
        super().__init__()
        inner = channels * expansion
        self.is_residual = stride == 1 and channels == out
        self.layers = nn.Sequential(
            *([convolution(channels, inner, 1)] if expansion != 1 else []),
            convolution(inner, inner, 3, stride, inner),
            convolution(inner, out, 1, activation=None),
        )

    def forward(self, x):
        return x + self.layers(x) if self.is_residual else self.layers(x)


@problem(
    3, 20, "mobilenet_v2", "b 3 s s", init=("u", "n", "o"), tolerance=5e-3,
    b=(2, 4, 10), s=(64, 96, 224), u=(1, 2, 8), n=(1, 4, 4), o=(7, 100, 1000),
)  # fmt: skip
class MobileNetV2(nn.Module):
    #: Expansion, channels in units, how many blocks at most, and the stride of the first.
    STAGES = (
        (1, 2, 1, 1),
        (6, 3, 2, 2),
        (6, 4, 3, 2),
        (6, 8, 4, 2),
        (6, 12, 3, 1),
        (6, 20, 3, 2),
        (6, 40, 1, 1),
    )

    def __init__(self, unit, most, classes):
        super().__init__()
        layers, channels = [convolution(3, 4 * unit, 3, 2)], 4 * unit
        for expansion, width, count, stride in self.STAGES:
            for number in range(min(count, most)):
                out = width * unit
                layers.append(InvertedResidual(channels, out, 1 if number else stride, expansion))
                channels = out
        self.features = nn.Sequential(*layers, convolution(channels, 160 * unit, 1))
        self.head = nn.Linear(160 * unit, classes)

    def forward(self, x):
        return self.head(torch.mean(self.features(x), dim=(2, 3)))


@problem(
    3, 21, "efficientnet_mbconv", "b c s s", init=("c", "o", 5, 2, 6), tolerance=1e-3,
    b=(2, 4, 10), c=(4, 24, 112), o=(6, 40, 192), s=(9, 48, 224),
)  # fmt: skip
class MbConv(nn.Module):
    """An inverted residual whose channels are weighted by what is in all pixels."""

    def __init__(self, channels, out, kernel, stride, expansion):
        super().__init__()
        inner = channels * expansion
        self.is_residual = stride == 1 and channels == out
        self.expand = nn.Identity()
        if expansion != 1:
            self.expand = convolution(channels, inner, 1, activation=nn.SiLU)
        self.depthwise = convolution(inner, inner, kernel, stride, inner, nn.SiLU)
        self.squeeze = nn.Conv2d(inner, max(1, channels // 4), 1)
        self.excite = nn.Conv2d(max(1, channels // 4), inner, 1)
        self.project = convolution(inner, out, 1, activation=None)

    def forward(self, x):
        y = self.depthwise(self.expand(x))
        share = nn.functional.adaptive_avg_pool2d(y, 1)
        share = torch.sigmoid(self.excite(nn.functional.silu(self.squeeze(share))))
        y = self.project(y * share)
        return x + y if self.is_residual else y


@problem(
    3, 22, "efficientnet_b0", "b 3 s s", init=("u", "n", 1.0, 1.0, "o"), tolerance=5e-3,
    b=(2, 4, 10), s=(64, 96, 224), u=(1, 3, 8), n=(1, 9, 9), o=(7, 100, 1000),
)  # fmt: skip
@problem(
    3, 23, "efficientnet_b1", "b 3 s s", init=("u", "n", 1.0, 1.1, "o"), tolerance=5e-3,
    b=(2, 2, 10), s=(64, 112, 240), u=(1, 3, 8), n=(1, 9, 9), o=(7, 100, 1000),
)  # fmt: skip
@problem(
    3, 24, "efficientnet_b2", "b 3 s s", init=("u", "n", 1.1, 1.2, "o"), tolerance=5e-3,
    b=(2, 2, 10), s=(64, 128, 260), u=(1, 3, 8), n=(1, 9, 9), o=(7, 100, 1000),
)  # fmt: skip
class EfficientNet(nn.Module):
    #: Expansion, channels in units, blocks, stride of the first, and width of kernels.
    STAGES = (
        (1, 2, 1, 1, 3),
        (6, 3, 2, 2, 3),
        (6, 5, 2, 2, 5),
        (6, 10, 3, 2, 3),
        (6, 14, 3, 1, 5),
        (6, 24, 4, 2, 5),
        (6, 40, 1, 1, 3),
    )

    def __init__(self, unit, most, width, depth, classes):
        super().__init__()
        channels = round(4 * unit * width)
        layers = [convolution(3, channels, 3, 2, activation=nn.SiLU)]
        for expansion, factor, count, stride, kernel in self.STAGES:
            for number in range(min(math.ceil(count * depth), most)):
                out = round(factor * unit * width)
                layers.append(MbConv(channels, out, kernel, 1 if number else stride, expansion))
                channels = out
        last = round(160 * unit * width)
        self.features = nn.Sequential(*layers, convolution(channels, last, 1, activation=nn.SiLU))
        self.head = nn.Linear(last, classes)

    def forward(self, x):
        return self.head(torch.mean(self.features(x), dim=(2, 3)))


class Shuffle(nn.Module):
    """Channels of each group go to all groups."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x):
        parts = x.unflatten(1, (self.groups, -1))
        return parts.transpose(1, 2).flatten(1, 2)


@problem(
    3, 25, "shufflenet_unit", "b c s s", init=("c", "o", "g"), tolerance=1e-3,
    b=(2, 4, 10), c=(6, 60, 240), o=(12, 120, 480), g=3, s=(6, 48, 224),
)  # fmt: skip
class ShuffleUnit(nn.Module):
    """Grouped convolutions of single pixels around a depthwise one, and a shuffle between."""

    def __init__(self, channels, out, groups):
        super().__init__()
        inner = out // 4
        self.layers = nn.Sequential(
            convolution(channels, inner, 1, groups=groups, activation=nn.ReLU),
            Shuffle(groups),
            convolution(inner, inner, 3, groups=inner, activation=None),
            convolution(inner, out, 1, groups=groups, activation=nn.ReLU),
        )
        self.side = nn.Identity()
        if channels != out:
            self.side = convolution(channels, out, 1, activation=None)

    def forward(self, x):
        return self.layers(x) + self.side(x)


@problem(
    3, 26, "shufflenet", "b 3 s s", init=("u", "g", "n", "o"), tolerance=5e-3,
    b=(2, 2, 10), s=(64, 96, 224), u=(1, 5, 20), g=3, n=(2, 8, 8), o=(7, 100, 1000),
)  # fmt: skip
class ShuffleNet(nn.Module):
    def __init__(self, unit, groups, most, classes):
        super().__init__()
        layers = [convolution(3, 24, 3, 2, activation=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
        channels = 24
        for factor, count in ((12, 4), (24, 8), (48, 4)):
            if channels != 24:
                layers.append(nn.AvgPool2d(3, 2, 1))
            for _ in range(min(count, most)):
                layers.append(ShuffleUnit(channels, factor * unit, groups))
                channels = factor * unit
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(torch.mean(self.features(x), dim=(2, 3)))
