"""Level 3: perceptrons and the first deep convolutional networks, without normalization."""

import itertools

import torch
from torch import nn

from lazyt.bench.levels import problem


@problem(
    3, 1, "mlp", "b i", init=("i", "h", "h", "o"), tolerance=1e-3,
    b=(3, 64, 128), i=(12, 1024, 16384), h=(10, 1024, 16384), o=(7, 512, 8192),
)  # fmt: skip
@problem(
    3, 2, "shallow_wide_mlp", "b i", init=("i", "h", "h", "o"), tolerance=1e-3,
    b=(3, 32, 128), i=(8, 1024, 16384), h=(24, 2048, 32768), o=(7, 1024, 16384),
)  # fmt: skip
class Mlp(nn.Module):
    def __init__(self, *widths):
        super().__init__()
        layers = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x):
        return self.layers(x)


@problem(
    3, 3, "deep_narrow_mlp", "b i", init=("i", "h", "o", "n"), tolerance=1e-3,
    b=(3, 64, 1024), i=(12, 1024, 8192), h=(10, 256, 1024), o=(7, 512, 8192), n=(4, 16, 16),
)  # fmt: skip
class DeepMlp(nn.Module):
    def __init__(self, inputs, hidden, outputs, layers):
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.middle = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 1))
        self.last = nn.Linear(hidden, outputs)

    def forward(self, x):
        x = torch.relu(self.first(x))
        for layer in self.middle:
            x = torch.relu(layer(x))
        return self.last(x)


@problem(3, 4, "lenet5", "b 1 32 32", init=("o",), tolerance=1e-3, b=(2, 64, 4096), o=(10, 10, 20))
class LeNet5(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.first = nn.Conv2d(1, 6, 5)
        self.second = nn.Conv2d(6, 16, 5)
        self.third = nn.Linear(400, 120)
        self.fourth = nn.Linear(120, 84)
        self.last = nn.Linear(84, classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.first(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.second(x)), 2)
        x = torch.relu(self.third(torch.flatten(x, 1)))
        return self.last(torch.relu(self.fourth(x)))


@problem(
    3, 5, "alexnet", "b 3 s s", init=("w", "s", "h", "o"), tolerance=1e-3,
    b=(2, 4, 1024), s=(67, 131, 224), w=(1, 12, 32), h=(10, 512, 4096), o=(7, 100, 1000),
)  # fmt: skip
class AlexNet(nn.Module):
    def __init__(self, width, size, hidden, classes):
        super().__init__()
        chosen = [3 * width, 8 * width, 12 * width, 12 * width, 8 * width]
        self.features = nn.Sequential(
            nn.Conv2d(3, chosen[0], 11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(chosen[0], chosen[1], 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(chosen[1], chosen[2], 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(chosen[2], chosen[3], 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(chosen[3], chosen[4], 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
        )
        side = (size + 4 - 11) // 4 + 1
        for _ in range(3):
            side = (side - 3) // 2 + 1
        self.head = nn.Sequential(
            nn.Linear(chosen[4] * side * side, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x):
        return self.head(torch.flatten(self.features(x), 1))


class Inception(nn.Module):
    """Four branches, whose results are channels side by side."""

    def __init__(self, channels, one, before_three, three, before_five, five, pooled):
        super().__init__()
        self.one = nn.Conv2d(channels, one, 1)
        self.three = nn.Sequential(
            nn.Conv2d(channels, before_three, 1), nn.Conv2d(before_three, three, 3, padding=1)
        )
        self.five = nn.Sequential(
            nn.Conv2d(channels, before_five, 1), nn.Conv2d(before_five, five, 5, padding=2)
        )
        self.pooled = nn.Sequential(
            nn.MaxPool2d(3, stride=1, padding=1), nn.Conv2d(channels, pooled, 1)
        )

    def forward(self, x):
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(x)], dim=1)


@problem(
    3, 6, "googlenet_inception_module", "b 60*u s s",
    init=("60*u", "24*u", "12*u", "26*u", "2*u", "6*u", "8*u"), tolerance=1e-3,
    b=(2, 2, 10), s=(6, 28, 224), u=(1, 4, 8),
)  # fmt: skip
class InceptionModule(Inception):
    """The channels are those of GoogLeNet's block 4a, in eighths."""


@problem(
    3, 7, "googlenet", "b 3 s s", init=("u", "o"), tolerance=1e-3,
    b=(2, 2, 10), s=(40, 112, 224), u=(1, 4, 8), o=(7, 100, 1000),
)  # fmt: skip
class GoogLeNet(nn.Module):
    """The first version of Inception, without its further classifiers."""

    #: Channels of the blocks, in eighths; 0 is a step of pooling.
    BLOCKS = (
        (8, 12, 16, 2, 4, 4),
        (16, 16, 24, 4, 12, 8),
        0,
        (24, 12, 26, 2, 6, 8),
        (20, 14, 28, 3, 8, 8),
        (16, 16, 32, 3, 8, 8),
        (14, 18, 36, 4, 8, 8),
        (32, 20, 40, 4, 16, 16),
        0,
        (32, 20, 40, 4, 16, 16),
        (48, 24, 48, 6, 16, 16),
    )

    def __init__(self, unit, classes):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8 * unit, 7, stride=2, padding=3),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(8 * unit, 8 * unit, 1),
            nn.ReLU(),
            nn.Conv2d(8 * unit, 24 * unit, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        blocks, channels = [], 24 * unit
        for widths in self.BLOCKS:
            if not widths:
                blocks.append(nn.MaxPool2d(3, 2, 1))
                continue
            blocks += [Inception(channels, *(unit * width for width in widths)), nn.ReLU()]
            channels = unit * (widths[0] + widths[2] + widths[4] + widths[5])
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.head(torch.mean(x, dim=(2, 3)))


@problem(
    3, 11, "vgg16", "b 3 s s", init=("w", "s", "h", "o", "n", 3, 3), tolerance=1e-3,
    b=(2, 2, 10), s=(32, 64, 224), w=(2, 16, 64), h=(10, 512, 4096), o=(7, 100, 1000), n=3,
)  # fmt: skip
@problem(
    3, 12, "vgg19", "b 3 s s", init=("w", "s", "h", "o", "n", 4, 4), tolerance=1e-3,
    b=(2, 2, 10), s=(32, 64, 224), w=(2, 16, 64), h=(10, 512, 4096), o=(7, 100, 1000), n=4,
)  # fmt: skip
class Vgg(nn.Module):
    def __init__(self, width, size, hidden, classes, third, fourth, fifth):
        super().__init__()
        layers, channels = [], 3
        for count, factor in ((2, 1), (2, 2), (third, 4), (fourth, 8), (fifth, 8)):
            for _ in range(count):
                layers += [nn.Conv2d(channels, width * factor, 3, padding=1), nn.ReLU()]
                channels = width * factor
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.Linear(channels * (size // 32) ** 2, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x):
        return self.head(torch.flatten(self.features(x), 1))


@problem(
    3, 17, "squeezenet_fire_module", "b c s s", init=("c", "q", "e"), tolerance=1e-3,
    b=(2, 4, 128), c=(3, 16, 3), q=(2, 16, 6), e=(4, 64, 64), s=(7, 48, 256),
)  # fmt: skip
class Fire(nn.Module):
    """Few channels, then many of two widths of kernels."""

    def __init__(self, channels, squeezed, expanded):
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.one = nn.Conv2d(squeezed, expanded, 1)
        self.three = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.one(x)), torch.relu(self.three(x))], dim=1)


@problem(
    3, 18, "squeezenet", "b 3 s s", init=("u", "o"), tolerance=1e-3,
    b=(2, 2, 64), s=(47, 127, 512), u=(1, 8, 16), o=(7, 100, 1000),
)  # fmt: skip
class SqueezeNet(nn.Module):
    def __init__(self, unit, classes):
        super().__init__()
        layers = [nn.Conv2d(3, 6 * unit, 7, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2)]
        channels = 6 * unit
        for number, factor in enumerate((1, 1, 2, 2, 3, 3, 4, 4)):
            layers.append(Fire(channels, factor * unit, 4 * factor * unit))
            channels = 8 * factor * unit
            if number in (2, 6):
                layers.append(nn.MaxPool2d(3, 2))
        self.features = nn.Sequential(*layers)
        self.head = nn.Conv2d(channels, classes, 1)

    def forward(self, x):
        x = torch.relu(self.head(self.features(x)))
        return torch.mean(x, dim=(2, 3))
