"""Level 3: transformers and mixers of images, a U-Net, and pooling by clusters."""

import torch
from torch import nn

from lazyt.bench.levels import problem


class SelfAttention(nn.Module):
    """Of several heads, over the second axis."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        parts = self.mix(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        return self.out(mixed.transpose(1, 2).flatten(2))


class Perceptron(nn.Sequential):
    """Two layers, the inner one wider."""

    def __init__(self, width, inner, bias=True):
        super().__init__(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width, bias=bias))


class TransformerBlock(nn.Module):
    """Attention, then a perceptron, each normalized before and added to what it is given."""

    def __init__(self, width, heads):
        super().__init__()
        self.first_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.second_norm = nn.LayerNorm(width)
        self.perceptron = Perceptron(width, 4 * width)

    def forward(self, x):
        x = x + self.attention(self.first_norm(x))
        return x + self.perceptron(self.second_norm(x))


@problem(
    3, 28, "vision_transformer", "b 3 s s", init=("s", "p", "d", "h", "n", "o"), tolerance=1e-3,
    b=(2, 4, 2), s=(8, 64, 224), p=(4, 8, 16), d=(8, 192, 512), h=(2, 3, 8), n=(2, 4, 6),
    o=(5, 10, 10),
)  # fmt: skip
class VisionTransformer(nn.Module):
    def __init__(self, size, patch, width, heads, layers, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.mark = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.mark.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


# Windows that shift from block to block.


def windows(x, size):
    """[batch * windows, places, channels] of [batch, height, width, channels]."""
    batch, height, width, channels = x.shape
    x = x.view(batch, height // size, size, width // size, size, channels)
    return x.transpose(2, 3).reshape(-1, size * size, channels)


def joined(parts, size, shape):
    """The image of which the parts are ``windows``."""
    batch, height, width, channels = shape
    x = parts.view(batch, height // size, width // size, size, size, channels)
    return x.transpose(2, 3).reshape(shape)


class PatchMerging(nn.Module):
    """Four neighbours become one of twice the channels."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        corners = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.reduction(self.norm(torch.cat(corners, dim=-1)))


class MixedWindows(nn.Module):
    """Places of a window are mixed by a matrix of each head, which is a grouped convolution."""

    def __init__(self, width, heads, size, shift):
        super().__init__()
        self.heads, self.size, self.shift = heads, size, shift
        self.first_norm = nn.LayerNorm(width)
        self.mix = nn.Conv1d(heads * size * size, heads * size * size, 1, groups=heads)
        self.second_norm = nn.LayerNorm(width)
        self.perceptron = Perceptron(width, 4 * width)

    def forward(self, x):
        y = torch.roll(self.first_norm(x), (-self.shift, -self.shift), dims=(1, 2))
        parts = windows(y, self.size).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        mixed = self.mix(parts.flatten(1, 2)).view(parts.shape).transpose(1, 2).flatten(2)
        y = joined(mixed, self.size, x.shape)
        x = x + torch.roll(y, (self.shift, self.shift), dims=(1, 2))
        return x + self.perceptron(self.second_norm(x))


class AttentiveWindows(nn.Module):
    """Attention by cosines within windows, with a bias that a small network derives from how far
    apart two places are; normalized after each part."""

    def __init__(self, width, heads, size, shift, extent):
        super().__init__()
        self.heads, self.size, self.shift = heads, size, shift
        self.mix = nn.Linear(width, 3 * width, bias=False)
        self.scale = nn.Parameter(torch.zeros(heads, 1, 1))
        self.bias = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, heads, bias=False))
        self.out = nn.Linear(width, width)
        self.first_norm = nn.LayerNorm(width)
        self.perceptron = Perceptron(width, 4 * width)
        self.second_norm = nn.LayerNorm(width)
        steps = torch.arange(size)
        places = torch.stack(torch.meshgrid(steps, steps, indexing="ij")).flatten(1)
        apart = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0)
        self.register_buffer("apart", torch.sign(apart) * torch.log2(1.0 + torch.abs(apart)))
        self.register_buffer("hidden", self._hidden(extent) if shift else None)

    def _hidden(self, extent):
        """-100 between places that are neighbours only because the image was rolled."""
        rolled = torch.arange(extent)
        zones = (rolled >= extent - self.size).long() + (rolled >= extent - self.shift).long()
        image = (zones[:, None] * 3 + zones[None, :])[None, :, :, None]
        parts = windows(image, self.size).squeeze(-1)
        return (parts[:, :, None] != parts[:, None, :]) * -100.0

    def attention(self, x):
        """Within windows [n, places, channels]."""
        parts = self.mix(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key = (nn.functional.normalize(part, dim=-1) for part in (parts[0], parts[1]))
        scores = query @ key.transpose(-2, -1) * torch.exp(torch.clamp(self.scale, max=4.6))
        scores = scores + 16 * torch.sigmoid(self.bias(self.apart)).permute(2, 0, 1)
        if self.hidden is not None:
            count = self.hidden.shape[0]
            scores = scores.unflatten(0, (-1, count)) + self.hidden[:, None]
            scores = scores.flatten(0, 1)
        return self.out((torch.softmax(scores, dim=-1) @ parts[2]).transpose(1, 2).flatten(2))

    def forward(self, x):
        y = torch.roll(x, (-self.shift, -self.shift), dims=(1, 2))
        y = joined(self.attention(windows(y, self.size)), self.size, x.shape)
        x = x + self.first_norm(torch.roll(y, (self.shift, self.shift), dims=(1, 2)))
        return x + self.second_norm(self.perceptron(x))


class Swin(nn.Module):
    """Stages of blocks on half as many places each; every other block shifts its windows."""

    def __init__(self, patch, width, classes, stages):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.norm = nn.LayerNorm(width)
        self.stages = nn.Sequential(*stages)
        last = width << (len(stages) // 3)
        self.last_norm = nn.LayerNorm(last)
        self.head = nn.Linear(last, classes)

    def forward(self, x):
        x = self.norm(self.patches(x).permute(0, 2, 3, 1))
        x = self.last_norm(self.stages(x))
        return self.head(torch.mean(x, dim=(1, 2)))


@problem(
    3, 29, "swin_mlp", "b 3 s s", init=("p", "d", "h", "w", "o"), tolerance=1e-3,
    b=(2, 2, 10), s=(16, 112, 224), p=(2, 4, 4), d=(4, 48, 96), h=(2, 3, 3), w=(4, 7, 7),
    o=(5, 100, 1000),
)  # fmt: skip
class SwinMlp(Swin):
    def __init__(self, patch, width, heads, size, classes):
        wide = 2 * width
        stages = [
            MixedWindows(width, heads, size, 0),
            MixedWindows(width, heads, size, size // 2),
            PatchMerging(width),
            MixedWindows(wide, 2 * heads, size, 0),
            MixedWindows(wide, 2 * heads, size, size // 2),
        ]
        super().__init__(patch, width, classes, stages)


@problem(
    3, 30, "swin_transformer_v2", "b 3 s s", init=("s", "p", "d", "h", "w", "o"), tolerance=1e-3,
    b=(2, 2, 10), s=(16, 112, 224), p=(2, 4, 4), d=(4, 48, 96), h=(2, 3, 3), w=(4, 7, 7),
    o=(5, 100, 1000),
)  # fmt: skip
class SwinTransformerV2(Swin):
    def __init__(self, image, patch, width, heads, size, classes):
        side, wide = image // patch, 2 * width
        stages = [
            AttentiveWindows(width, heads, size, 0, side),
            AttentiveWindows(width, heads, size, size // 2, side),
            PatchMerging(width),
            AttentiveWindows(wide, 2 * heads, size, 0, side // 2),
            AttentiveWindows(wide, 2 * heads, size, 0, side // 2),
        ]
        super().__init__(patch, width, classes, stages)


@problem(
    3, 31, "vision_attention", "b c s s", init=("c", "h"), tolerance=1e-3,
    b=(2, 2, 2), c=(8, 64, 128), h=(2, 4, 4), s=(4, 24, 128),
)  # fmt: skip
class VisionAttention(nn.Module):
    """Every pixel sees all others."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        pixels = x.flatten(2).permute(2, 0, 1)
        mixed, _ = self.attention(pixels, pixels, pixels, need_weights=False)
        return self.norm(mixed + pixels).permute(1, 2, 0).reshape(x.shape)


class ConvolutionalBlock(nn.Module):
    """A transformer's block whose queries, keys and values are depthwise convolutions."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first_norm = nn.LayerNorm(width)
        self.query, self.key, self.value = (
            nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False) for stride in (1, 2, 2)
        )
        self.out = nn.Linear(width, width)
        self.second_norm = nn.LayerNorm(width)
        self.perceptron = Perceptron(width, 4 * width)

    def _split(self, x):
        return x.flatten(2).unflatten(1, (self.heads, -1)).transpose(2, 3)

    def forward(self, x):
        image = self.first_norm(x).permute(0, 3, 1, 2)
        parts = [self._split(layer(image)) for layer in (self.query, self.key, self.value)]
        mixed = nn.functional.scaled_dot_product_attention(*parts)
        x = x + self.out(mixed.transpose(1, 2).flatten(2)).view(x.shape)
        return x + self.perceptron(self.second_norm(x))


@problem(
    3, 32, "convolutional_vision_transformer", "b 3 s s", init=("p", "d", "h", "n", "o"),
    tolerance=1e-3, b=(2, 4, 10), s=(16, 64, 224), p=(4, 4, 4), d=(8, 64, 128), h=(2, 4, 4),
    n=(2, 4, 6), o=(5, 100, 1000),
)  # fmt: skip
class ConvolutionalVisionTransformer(nn.Module):
    def __init__(self, patch, width, heads, layers, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 2 * patch - 1, patch, patch - 1)
        self.blocks = nn.Sequential(*(ConvolutionalBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.blocks(self.patches(x).permute(0, 2, 3, 1))
        return self.head(torch.mean(self.norm(x), dim=(1, 2)))


# Mixers.


@problem(
    3, 51, "conv_mixer", "b 3 s s", init=("p", "d", "k", "n", "o"), tolerance=2e-3,
    b=(2, 2, 8), s=(16, 64, 224), p=(4, 4, 7), d=(4, 96, 768), k=(3, 7, 7), n=(2, 4, 12),
    o=(5, 100, 1000),
)  # fmt: skip
class ConvMixer(nn.Module):
    """Depthwise convolutions of large kernels and those of single pixels by turns."""

    def __init__(self, patch, width, kernel, layers, classes):
        super().__init__()
        self.patches = nn.Sequential(
            nn.Conv2d(3, width, patch, patch), nn.GELU(), nn.BatchNorm2d(width)
        )
        self.spatial = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width),
                nn.GELU(),
                nn.BatchNorm2d(width),
            )
            for _ in range(layers)
        )
        self.pointwise = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width))
            for _ in range(layers)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x)
        for spatial, pointwise in zip(self.spatial, self.pointwise):
            x = pointwise(x + spatial(x))
        return self.head(torch.mean(x, dim=(2, 3)))


class MixerBlock(nn.Module):
    """A perceptron over the places, then one over the channels. The first adds nothing of its own,
    as it would be the same in all channels, which normalization undoes."""

    def __init__(self, places, width):
        super().__init__()
        self.first_norm = nn.LayerNorm(width)
        self.places = Perceptron(places, 2 * places, bias=False)
        self.second_norm = nn.LayerNorm(width)
        self.channels = Perceptron(width, 4 * width)

    def forward(self, x):
        x = x + self.places(self.first_norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.second_norm(x))


@problem(
    3, 52, "mlp_mixer", "b 3 s s", init=("s", "p", "d", "n", "o"), tolerance=1e-3,
    b=(2, 4, 16), s=(16, 64, 224), p=(4, 8, 16), d=(8, 192, 768), n=(2, 4, 12), o=(5, 100, 1000),
)  # fmt: skip
class MlpMixer(nn.Module):
    def __init__(self, size, patch, width, layers, classes):
        super().__init__()
        places = (size // patch) ** 2
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*(MixerBlock(places, width) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.blocks(self.patches(x).flatten(2).transpose(1, 2))
        return self.head(torch.mean(self.norm(x), dim=1))


# A U-Net.


class SoftmaxConvolutions(nn.Module):
    """Two convolutions, each normalized and then a softmax along the rows, which would undo a
    shift of its channel."""

    def __init__(self, channels, out):
        super().__init__()
        norms = [nn.BatchNorm2d(out) for _ in range(2)]
        for norm in norms:
            norm.register_parameter("bias", None)
        self.layers = nn.Sequential(
            nn.Conv2d(channels, out, 3, padding=1, bias=False),
            norms[0],
            nn.Softmax(dim=-1),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            norms[1],
            nn.Softmax(dim=-1),
        )

    def forward(self, x):
        return self.layers(x)


@problem(
    3, 45, "unet_softmax", "b c s 2*s", init=("c", "o", "w"), tolerance=5e-3,
    b=(2, 2, 8), c=(2, 4, 8), s=(32, 32, 64), o=(3, 4, 4), w=(2, 16, 64),
)  # fmt: skip
class UNet(nn.Module):
    """Down four times, and up again beside what was on the way."""

    def __init__(self, channels, out, width):
        super().__init__()
        widths = [width << level for level in range(5)]
        before = [channels, *widths[:-1]]
        self.down = nn.ModuleList(SoftmaxConvolutions(c, o) for c, o in zip(before, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[:-1])
        self.merge = nn.ModuleList(SoftmaxConvolutions(2 * w, w) for w in widths[:-1])
        self.last = nn.Conv2d(width, out, 1)

    def forward(self, x):
        passed = []
        for layer in self.down[:-1]:
            x = layer(x)
            passed.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.down[-1](x)
        for up, merge in zip(list(self.up)[::-1], list(self.merge)[::-1]):
            x = merge(torch.cat([up(x), passed.pop()], dim=1))
        return self.last(x)


# Pooling by clusters.


@problem(
    3, 46, "netvlad_with_ghost_clusters", "b n d", init=("d", "k", "g"), tolerance=1e-3,
    b=(2, 16, 2048), n=(9, 100, 100), d=(6, 256, 512), k=(4, 32, 32), g=(2, 16, 16),
)  # fmt: skip
@problem(
    3, 47, "netvlad_without_ghost_clusters", "b n d", init=("d", "k", 0), tolerance=1e-3,
    b=(2, 16, 2048), n=(9, 100, 100), d=(6, 256, 512), k=(4, 32, 32),
)  # fmt: skip
class NetVlad(nn.Module):
    """What is left of features beside the centres of clusters, which they belong to by shares;
    what belongs to ghosts counts for nothing."""

    def __init__(self, width, clusters, ghosts):
        super().__init__()
        self.clusters = clusters
        self.assign = nn.Linear(width, clusters + ghosts, bias=False)
        self.norm = nn.BatchNorm1d(clusters + ghosts)
        self.centres = nn.Parameter(torch.randn(width, clusters))

    def forward(self, x):
        scores = self.norm(self.assign(x).flatten(0, 1)).unflatten(0, (x.shape[0], -1))
        shares = torch.softmax(scores, dim=-1)[:, :, : self.clusters]
        found = x.transpose(1, 2) @ shares - torch.sum(shares, dim=1, keepdim=True) * self.centres
        found = nn.functional.normalize(found, dim=1)
        return nn.functional.normalize(found.flatten(1), dim=1)
