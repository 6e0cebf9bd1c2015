"""Level 3: networks whose layers see the results of earlier ones, with batch normalization."""

import torch
from torch import nn

from lazyt.bench.levels import problem

# Residual networks.


@problem(
    3, 8, "resnet_basic_block", "b c s s", init=("c", "o", 1), tolerance=1e-3,
    b=(2, 4, 10), c=(3, 16, 3), o=(4, 32, 64), s=(7, 56, 224),
)  # fmt: skip
class BasicBlock(nn.Module):
    """Two convolutions beside the input, or beside one convolution where shapes differ."""

    EXPANSION = 1

    def __init__(self, channels, width, stride):
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)
        self.side = nn.Identity()
        if stride != 1 or channels != width:
            self.side = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x):
        y = torch.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        return torch.relu(y + self.side(x))


class Bottleneck(nn.Module):
    """A convolution of few channels between two of single pixels."""

    EXPANSION = 4

    def __init__(self, channels, width, stride):
        super().__init__()
        out = width * self.EXPANSION
        self.first = nn.Conv2d(channels, width, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)
        self.third = nn.Conv2d(width, out, 1, bias=False)
        self.third_norm = nn.BatchNorm2d(out)
        self.side = nn.Identity()
        if stride != 1 or channels != out:
            self.side = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x):
        y = torch.relu(self.first_norm(self.first(x)))
        y = torch.relu(self.second_norm(self.second(y)))
        return torch.relu(self.third_norm(self.third(y)) + self.side(x))


class ResNet(nn.Module):
    """Four stages of blocks."""

    def __init__(self, block, counts, width, classes):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        blocks, channels = [], width
        for stage, count in enumerate(counts):
            for number in range(count):
                stride = 2 if stage and not number else 1
                blocks.append(block(channels, width << stage, stride))
                channels = (width << stage) * block.EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


@problem(
    3, 9, "resnet18", "b 3 s s", init=("w", "o", "n"), tolerance=2e-3,
    b=(2, 4, 2), s=(64, 96, 224), w=(4, 16, 64), n=(1, 2, 2), o=(7, 100, 1000),
)  # fmt: skip
class ResNet18(ResNet):
    def __init__(self, width, classes, count):
        super().__init__(BasicBlock, (count, count, count, count), width, classes)


@problem(
    3, 10, "resnet101", "b 3 s s", init=("w", "o", "p", "q", "r", "p"), tolerance=5e-3,
    b=(2, 4, 10), s=(64, 96, 224), w=(4, 16, 64), p=(1, 3, 3), q=(1, 4, 4), r=(2, 23, 23),
    o=(7, 100, 1000),
)  # fmt: skip
class ResNet101(ResNet):
    def __init__(self, width, classes, *counts):
        super().__init__(Bottleneck, counts, width, classes)


# Dense networks: each layer adds channels to all before it.


@problem(
    3, 13, "densenet_transition_layer", "b c s s", init=("c", "o"), tolerance=1e-3,
    b=(2, 8, 128), c=(4, 32, 32), o=(6, 64, 64), s=(6, 64, 256),
)  # fmt: skip
class Transition(nn.Module):
    """Half as many pixels."""

    def __init__(self, channels, out):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, out, 1, bias=False)

    def forward(self, x):
        return nn.functional.avg_pool2d(self.conv(torch.relu(self.norm(x))), 2)


@problem(
    3, 14, "densenet_dense_block", "b c s s", init=("c", "g", "n"), tolerance=1e-3,
    b=(2, 2, 10), c=(3, 32, 32), g=(2, 16, 32), n=(3, 6, 6), s=(6, 48, 224),
)  # fmt: skip
class DenseBlock(nn.Module):
    def __init__(self, channels, growth, layers):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(channels + number * growth),
                nn.ReLU(),
                nn.Conv2d(channels + number * growth, growth, 3, padding=1, bias=False),
            )
            for number in range(layers)
        )

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=1)
        return x


class DenseLayer(nn.Module):
    """A layer of a whole network, where a convolution of single pixels comes first."""

    def __init__(self, channels, growth):
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x):
        return torch.cat([x, self.layers(x)], dim=1)


@problem(
    3, 15, "densenet121", "b 3 s s", init=("g", "o", "p", "q", "r", "t"), tolerance=5e-3,
    b=(2, 2, 10), s=(64, 96, 224), g=(2, 8, 32), o=(7, 100, 10), p=(2, 6, 6), q=(2, 12, 12),
    r=(2, 24, 24), t=(2, 16, 16),
)  # fmt: skip
@problem(
    3, 16, "densenet201", "b 3 s s", init=("g", "o", "p", "q", "r", "t"), tolerance=5e-3,
    b=(2, 2, 10), s=(64, 64, 224), g=(2, 8, 32), o=(7, 100, 10), p=(2, 6, 6), q=(2, 12, 12),
    r=(3, 48, 48), t=(2, 32, 32),
)  # fmt: skip
class DenseNet(nn.Module):
    def __init__(self, growth, classes, *counts):
        super().__init__()
        channels = 2 * growth
        layers = [
            nn.Conv2d(3, channels, 7, 2, 3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        for block, count in enumerate(counts):
            if block:
                layers.append(Transition(channels, channels // 2))
                channels //= 2
            for _ in range(count):
                layers.append(DenseLayer(channels, growth))
                channels += growth
        layers += [nn.BatchNorm2d(channels), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(torch.mean(self.features(x), dim=(2, 3)))


# Networks of a regular design.


class RegularBlock(nn.Module):
    """A grouped convolution between two of single pixels."""

    def __init__(self, channels, out, stride, group):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, out, 1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, stride, 1, groups=out // group, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(),
            nn.Conv2d(out, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.side = nn.Identity()
        if stride != 1 or channels != out:
            self.side = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x):
        return torch.relu(self.layers(x) + self.side(x))


@problem(
    3, 27, "regnet", "b 3 s s", init=("w", "g", "n", "o"), tolerance=2e-3,
    b=(2, 4, 8), s=(32, 96, 224), w=(4, 24, 64), g=(2, 8, 16), n=(1, 2, 2), o=(7, 100, 10),
)  # fmt: skip
class RegNet(nn.Module):
    """Three stages, each of twice the width."""

    def __init__(self, width, group, count, classes):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        blocks, channels = [], width
        for stage in range(3):
            for number in range(count):
                out = width << stage
                blocks.append(RegularBlock(channels, out, 1 if number else 2, group))
                channels = out
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(torch.mean(self.blocks(self.stem(x)), dim=(2, 3)))
