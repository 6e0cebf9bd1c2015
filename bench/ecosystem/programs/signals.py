"""Packages of sounds, wavelets and what pictures look like."""

from __future__ import annotations

from typing import Any

from bench.ecosystem.entries import Case, Steps, program
from bench.ecosystem.stages import fill, normal, uniform


@program("nnAudio", package="nnaudio", modules=("nnAudio.features",))
def nnaudio() -> Case:
    import torch
    from nnAudio.features import STFT, MelSpectrogram

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mel = MelSpectrogram(
                sr=8000, n_fft=128, hop_length=64, n_mels=12, verbose=False, trainable_STFT=True
            )
            self.stft = STFT(n_fft=64, hop_length=32, output_format="Magnitude", verbose=False)
            self.line = torch.nn.Conv1d(12, 4, 3)

        def forward(self, x: Any) -> Any:
            return self.line(torch.log1p(self.mel(x))), self.stft(x)

    return Case(Net(), (normal(2, 800),), loss=lambda f: f[0].pow(2).mean() + f[1].mean())


@program("asteroid-filterbanks")
def asteroid() -> Case:
    import torch
    from asteroid_filterbanks import Decoder, Encoder, FreeFB, ParamSincFB
    from asteroid_filterbanks.transforms import mag

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = Encoder(FreeFB(n_filters=16, kernel_size=16, stride=8))
            self.decoder = Decoder(FreeFB(n_filters=16, kernel_size=16, stride=8))
            self.sinc = Encoder(ParamSincFB(n_filters=8, kernel_size=17, stride=8))

        def forward(self, x: Any) -> Any:
            found = self.encoder(x)
            return self.decoder(found * torch.sigmoid(found)), mag(self.sinc(x))

    net = Net()
    fill(net.encoder)
    fill(net.decoder)
    return Case(
        net, (normal(2, 1, 200),), loss=lambda f: f[0].pow(2).mean() + f[1].mean(), fill=False
    )


@program("pytorch_wavelets", package="pytorch-wavelets")
def wavelets() -> Case:
    import torch
    from pytorch_wavelets import DWTForward, DWTInverse

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(2, 3, 3, padding=1)
            self.forth, self.back = DWTForward(J=2, wave="db2"), DWTInverse(wave="db2")

        def forward(self, x: Any) -> Any:
            low, high = self.forth(self.conv(x))
            return self.back((low * 1.5, [h.tanh() for h in high]))

    net = Net()
    fill(net.conv)  # what is not learned are the wavelets
    return Case(net, (normal(2, 2, 16, 16),), fill=False)


@program("torch-dct", modules=("torch_dct",))
def dct() -> Steps:
    import torch_dct

    x = normal(3, 8, 8).requires_grad_()

    def values() -> Any:
        return {
            "dct": torch_dct.dct(x),
            "idct": torch_dct.idct(x),
            "dct_2d": torch_dct.dct_2d(x, norm="ortho"),
            "back": torch_dct.idct_3d(torch_dct.dct_3d(x)),
        }

    def backward() -> Any:
        x.grad = None
        found = values()
        (found["dct"].pow(2).mean() + found["dct_2d"].tanh().mean()).backward()
        return x.grad

    return {"forward": values, "backward": backward}


@program("piq")
def piq() -> Steps:
    import piq as package

    a, b = uniform(2, 3, 48, 48), uniform(2, 3, 48, 48, seed=1)

    def values() -> Any:
        return {
            "psnr": package.psnr(a, b),
            "ssim": package.ssim(a, b, kernel_size=7),
            "tv": package.total_variation(a),
            "gmsd": package.gmsd(a, b),
            "haarpsi": package.haarpsi(a, b),
            "vsi": package.vsi(a, b),
            "fsim": package.fsim(a, b),
            "mdsi": package.mdsi(a, b),
            "vif": package.vif_p(a, b),
        }

    def backward() -> Any:
        x = a.clone().requires_grad_()
        (package.SSIMLoss(kernel_size=7)(x, b) + package.GMSDLoss()(x, b)).backward()
        return x.grad

    return {"forward": values, "backward": backward}
