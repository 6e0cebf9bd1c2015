"""Level 1: convolutions of one to three axes: plain, transposed, grouped and separable."""

from torch import nn

from lazyt.bench.levels import problem


@problem(
    1,
    67,
    "conv_1d",
    "b c s",
    init=("c", "o", 3),
    b=(2, 16, 32),
    c=(4, 32, 64),
    o=(6, 64, 128),
    s=(17, 1024, 131072),
)
@problem(
    1,
    76,
    "conv_1d_dilated_strided",
    "b c s",
    init=("c", "o", 3, 3, 0, 4),
    b=(2, 16, 64),
    c=(4, 32, 64),
    o=(6, 64, 128),
    s=(33, 2048, 524280),
)
class Conv1d(nn.Module):
    def __init__(self, channels, out, kernel, stride=1, padding=0, dilation=1):
        super().__init__()
        self.conv = nn.Conv1d(channels, out, kernel, stride, padding, dilation, bias=False)

    def forward(self, x):
        return self.conv(x)


@problem(
    1,
    50,
    "conv_2d_alexnet_first",
    "b 3 s s",
    init=(3, "o", 11, 4, 2),
    b=(2, 4, 256),
    o=(6, 96, 96),
    s=(23, 112, 224),
)
@problem(
    1,
    55,
    "conv_2d_asymmetric_input",
    "b c h w",
    init=("c", "o", 3),
    b=(2, 4, 8),
    c=(4, 32, 64),
    o=(6, 64, 128),
    h=(7, 32, 512),
    w=(11, 64, 1024),
)
@problem(
    1,
    56,
    "conv_2d_asymmetric_both",
    "b c h w",
    init=("c", "o", (5, 7)),
    b=(2, 4, 8),
    c=(4, 16, 64),
    o=(6, 32, 128),
    h=(9, 32, 512),
    w=(13, 48, 256),
)
@problem(
    1,
    62,
    "conv_2d_asymmetric_kernel",
    "b c s s",
    init=("c", "o", (5, 9)),
    b=(2, 4, 8),
    c=(4, 16, 32),
    o=(6, 32, 64),
    s=(12, 48, 512),
)
@problem(
    1,
    63,
    "conv_2d_square",
    "b c s s",
    init=("c", "o", 3),
    b=(2, 4, 16),
    c=(4, 16, 16),
    o=(6, 64, 128),
    s=(9, 64, 1024),
)
@problem(
    1,
    80,
    "conv_2d_dilated_padded",
    "b c s s",
    init=("c", "o", (5, 9), 1, (2, 4), (2, 3)),
    b=(2, 4, 8),
    c=(4, 16, 32),
    o=(6, 32, 64),
    s=(22, 48, 512),
)
@problem(
    1,
    82,
    "conv_2d_depthwise",
    "b c s s",
    init=("c", "c", 3, 1, 0, 1, "c"),
    b=(2, 8, 16),
    c=(4, 64, 64),
    s=(9, 64, 512),
)
@problem(
    1,
    83,
    "conv_2d_depthwise_asymmetric_kernel",
    "b c s s",
    init=("c", "c", (3, 1), 1, 0, 1, "c"),
    b=(2, 8, 64),
    c=(4, 64, 8),
    s=(9, 64, 512),
)
@problem(
    1,
    84,
    "conv_2d_depthwise_asymmetric_input",
    "b c h w",
    init=("c", "c", 3, 1, 0, 1, "c"),
    b=(2, 8, 64),
    c=(4, 64, 128),
    h=(7, 48, 256),
    w=(12, 96, 512),
)
@problem(
    1,
    85,
    "conv_2d_depthwise_asymmetric_both",
    "b c h w",
    init=("c", "c", (3, 7), 1, 0, 1, "c"),
    b=(2, 8, 32),
    c=(4, 64, 128),
    h=(7, 32, 128),
    w=(12, 64, 256),
)
@problem(
    1,
    87,
    "conv_2d_pointwise",
    "b c s s",
    init=("c", "o", 1),
    b=(2, 8, 16),
    c=(4, 64, 64),
    o=(6, 128, 128),
    s=(7, 48, 1024),
)
class Conv2d(nn.Module):
    def __init__(self, channels, out, kernel, stride=1, padding=0, dilation=1, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel, stride, padding, dilation, groups, bias=False)

    def forward(self, x):
        return self.conv(x)


@problem(
    1,
    86,
    "conv_2d_depthwise_separable",
    "b c s s",
    init=("c", "o", 3, 1, 1),
    b=(2, 8, 16),
    c=(4, 32, 64),
    o=(6, 64, 128),
    s=(9, 64, 512),
)
class SeparableConv2d(nn.Module):
    def __init__(self, channels, out, kernel, stride, padding):
        super().__init__()
        self.depthwise = nn.Conv2d(
            channels, channels, kernel, stride, padding, groups=channels, bias=False
        )
        self.pointwise = nn.Conv2d(channels, out, 1, bias=False)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


@problem(
    1,
    54,
    "conv_3d_square",
    "b c s s s",
    init=("c", "o", 3),
    b=(1, 2, 16),
    c=(3, 3, 3),
    o=(4, 32, 64),
    s=(6, 32, 64),
)
@problem(
    1,
    59,
    "conv_3d_flat_kernel",
    "b c h w d",
    init=("c", "o", (3, 3, 1)),
    b=(1, 2, 16),
    c=(3, 3, 3),
    o=(4, 32, 64),
    h=(6, 48, 256),
    w=(7, 48, 256),
    d=(3, 8, 10),
)
@problem(
    1,
    60,
    "conv_3d_asymmetric_kernel",
    "b c s s s",
    init=("c", "o", (3, 5, 7)),
    b=(1, 2, 16),
    c=(3, 3, 3),
    o=(4, 16, 64),
    s=(9, 24, 64),
)
@problem(
    1,
    66,
    "conv_3d_asymmetric_both",
    "b c d h w",
    init=("c", "o", (3, 5, 7)),
    b=(1, 2, 8),
    c=(3, 3, 3),
    o=(4, 16, 64),
    d=(5, 12, 16),
    h=(7, 24, 128),
    w=(9, 32, 128),
)
class Conv3d(nn.Module):
    def __init__(self, channels, out, kernel, stride=1, padding=0, dilation=1, groups=1):
        super().__init__()
        self.conv = nn.Conv3d(channels, out, kernel, stride, padding, dilation, groups, bias=False)

    def forward(self, x):
        return self.conv(x)


@problem(
    1,
    64,
    "conv_transpose_1d",
    "b c s",
    init=("c", "o", 3),
    b=(2, 16, 64),
    c=(4, 64, 128),
    o=(6, 32, 128),
    s=(17, 1024, 65536),
)
@problem(
    1,
    74,
    "conv_transpose_1d_dilated",
    "b c s",
    init=("c", "o", 5, 1, 0, 3),
    b=(2, 16, 32),
    c=(4, 32, 32),
    o=(6, 32, 64),
    s=(17, 1024, 131072),
)
@problem(
    1,
    79,
    "conv_transpose_1d_strided_dilated",
    "b c s",
    init=("c", "o", 3, 3, 1, 2),
    b=(2, 16, 16),
    c=(4, 32, 32),
    o=(6, 64, 64),
    s=(17, 1024, 131072),
)
class ConvTranspose1d(nn.Module):
    def __init__(self, channels, out, kernel, stride=1, padding=0, dilation=1):
        super().__init__()
        self.conv = nn.ConvTranspose1d(
            channels, out, kernel, stride, padding, bias=False, dilation=dilation
        )

    def forward(self, x):
        return self.conv(x)


@problem(
    1,
    57,
    "conv_transpose_2d_square",
    "b c s s",
    init=("c", "o", 3),
    b=(2, 4, 8),
    c=(4, 32, 64),
    o=(6, 32, 64),
    s=(7, 48, 1024),
)
@problem(
    1,
    65,
    "conv_transpose_2d_asymmetric_kernel",
    "b c s s",
    init=("c", "o", (3, 7)),
    b=(2, 4, 8),
    c=(4, 16, 64),
    o=(6, 32, 64),
    s=(7, 48, 512),
)
@problem(
    1,
    69,
    "conv_transpose_2d_asymmetric_both",
    "b c h w",
    init=("c", "o", (3, 5)),
    b=(2, 4, 64),
    c=(4, 32, 64),
    o=(6, 32, 128),
    h=(5, 32, 128),
    w=(8, 64, 256),
)
@problem(
    1,
    71,
    "conv_transpose_2d_asymmetric_input",
    "b c h w",
    init=("c", "o", 3),
    b=(2, 4, 8),
    c=(4, 32, 32),
    o=(6, 32, 32),
    h=(5, 32, 512),
    w=(8, 64, 1024),
)
@problem(
    1,
    75,
    "conv_transpose_2d_grouped_dilated",
    "b c h w",
    init=("c", "o", (3, 5), (2, 3), (1, 2), (2, 1), 4),
    b=(2, 4, 16),
    c=(4, 32, 32),
    o=(8, 64, 64),
    h=(5, 24, 128),
    w=(8, 48, 256),
)
@problem(
    1,
    78,
    "conv_transpose_2d_padded",
    "b c h w",
    init=("c", "o", (3, 7), 1, (1, 3)),
    b=(2, 4, 8),
    c=(4, 16, 32),
    o=(6, 32, 32),
    h=(5, 32, 512),
    w=(8, 64, 1024),
)
@problem(
    1,
    81,
    "conv_transpose_2d_dilated_strided",
    "b c h w",
    init=("c", "o", 3, 3, 1, 2),
    b=(2, 4, 16),
    c=(4, 32, 32),
    o=(6, 32, 64),
    h=(5, 16, 64),
    w=(8, 32, 128),
)
class ConvTranspose2d(nn.Module):
    def __init__(self, channels, out, kernel, stride=1, padding=0, dilation=1, groups=1):
        super().__init__()
        self.conv = nn.ConvTranspose2d(
            channels, out, kernel, stride, padding, 0, groups, bias=False, dilation=dilation
        )

    def forward(self, x):
        return self.conv(x)


@problem(
    1,
    58,
    "conv_transpose_3d_asymmetric_both",
    "b c d h w",
    init=("c", "o", (3, 5, 7)),
    b=(1, 2, 16),
    c=(3, 8, 32),
    o=(4, 8, 16),
    d=(4, 8, 16),
    h=(5, 16, 32),
    w=(6, 24, 64),
)
@problem(
    1,
    61,
    "conv_transpose_3d_square",
    "b c s s s",
    init=("c", "o", 3),
    b=(1, 2, 8),
    c=(3, 16, 48),
    o=(4, 16, 48),
    s=(4, 16, 64),
)
@problem(
    1,
    68,
    "conv_transpose_3d_asymmetric_kernel",
    "b c s s s",
    init=("c", "o", (3, 5, 5)),
    b=(1, 2, 16),
    c=(3, 8, 32),
    o=(4, 16, 64),
    s=(4, 16, 64),
)
@problem(
    1,
    70,
    "conv_transpose_3d_asymmetric_input",
    "b c d h w",
    init=("c", "o", 3),
    b=(1, 2, 8),
    c=(3, 16, 48),
    o=(4, 16, 24),
    d=(4, 12, 96),
    h=(5, 16, 96),
    w=(6, 24, 96),
)
@problem(
    1,
    72,
    "conv_transpose_3d_grouped_asymmetric",
    "b c d h w",
    init=("c", "o", (3, 5, 7), 2, (1, 2, 3), 1, "g", 1),
    b=(1, 2, 8),
    c=(4, 16, 32),
    o=(4, 16, 32),
    g=(2, 4, 4),
    d=(3, 8, 12),
    h=(4, 12, 24),
    w=(5, 16, 48),
)
@problem(
    1,
    73,
    "conv_transpose_3d_grouped",
    "b c d h w",
    init=("c", "o", 3, 2, 1, 1, "g"),
    b=(1, 2, 4),
    c=(4, 16, 32),
    o=(4, 16, 32),
    g=(2, 4, 4),
    d=(3, 8, 32),
    h=(4, 16, 64),
    w=(5, 24, 128),
)
@problem(
    1,
    77,
    "conv_transpose_3d_dilated",
    "b c d h w",
    init=("c", "o", 3, 3, 1, 2),
    b=(1, 2, 16),
    c=(3, 16, 32),
    o=(4, 16, 64),
    d=(3, 8, 16),
    h=(4, 12, 32),
    w=(5, 12, 32),
)
class ConvTranspose3d(nn.Module):
    def __init__(
        self, channels, out, kernel, stride=1, padding=0, dilation=1, groups=1, output_padding=0
    ):
        super().__init__()
        self.conv = nn.ConvTranspose3d(
            channels, out, kernel, stride, padding, output_padding, groups, False, dilation
        )

    def forward(self, x):
        return self.conv(x)
