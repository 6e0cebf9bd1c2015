"""Networks of images."""

from __future__ import annotations

from typing import Any

from bench.ecosystem.entries import Case, program
from bench.ecosystem.stages import integers, normal

#: Of timm: a model's name, and the arguments that make it tiny.
_TIMM = {
    "resnet": ("resnet18", {"layers": (1, 1, 1, 1), "channels": (8, 16, 16, 32)}, 32),
    "vit": ("vit_tiny_patch16_224", {"embed_dim": 32, "depth": 2, "num_heads": 4}, 32),
    "convnext": ("convnext_atto", {"depths": (1, 1, 1, 1), "dims": (8, 16, 16, 32)}, 32),
    "efficientnet": ("efficientnet_lite0", {}, 64),
    "mobilenetv3": ("mobilenetv3_small_050", {}, 64),
    "swin": (
        "swin_tiny_patch4_window7_224",
        {"embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4), "window_size": 4},
        32,
    ),
    "mlp-mixer": ("mixer_s32_224", {}, 64),
    "regnet": ("regnetx_002", {}, 64),
    "densenet": ("densenet121", {"growth_rate": 8, "block_config": (2, 2)}, 64),
    "deit": ("deit3_small_patch16_224", {"embed_dim": 32, "depth": 2, "num_heads": 4}, 32),
}


def _of_timm(kind: str) -> Case:
    import timm

    name, small, side = _TIMM[kind]
    sized = {"img_size": side} if kind in ("vit", "swin", "mlp-mixer", "deit") else {}
    module = timm.create_model(name, pretrained=False, num_classes=5, **small, **sized)
    return Case(module, (normal(2, 3, side, side),), double=kind in ("efficientnet", "regnet"))


for _kind in _TIMM:
    program(f"timm: {_kind}", package="timm", modules=("timm",))(
        lambda kind=_kind: _of_timm(kind)  # type: ignore[misc]
    )


@program("torchvision: resnet18", package="torchvision")
def resnet() -> Case:
    import torchvision

    return Case(torchvision.models.resnet18(num_classes=5), (normal(2, 3, 48, 48),))


@program("torchvision: mobilenet_v3_small", package="torchvision")
def mobilenet() -> Case:
    import torchvision

    module = torchvision.models.mobilenet_v3_small(num_classes=5)
    return Case(module, (normal(2, 3, 48, 48),))


@program("torchvision: vit", package="torchvision")
def vision_transformer() -> Case:
    from torchvision.models import VisionTransformer

    module = VisionTransformer(
        image_size=16, patch_size=4, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64,
        num_classes=5,
    )  # fmt: skip
    return Case(module, (normal(2, 3, 16, 16),))


@program("torchvision: transforms", package="torchvision")
def transforms() -> Any:
    import numpy as np
    from PIL import Image
    from torchvision.transforms import v2

    picture = Image.fromarray(integers(20, 24, 3, below=256).numpy().astype(np.uint8))

    def forward() -> Any:
        import torch

        change = v2.Compose(
            [
                v2.PILToTensor(),
                v2.Resize((16, 16), antialias=True),
                v2.CenterCrop(12),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.5] * 3, [0.25] * 3),
            ]
        )
        return {"picture": change(picture)}

    return {"forward": forward}


@program("torchvision: nms and roi_align", package="torchvision")
def boxes() -> Any:
    import torch
    from torchvision import ops

    corner = normal(12, 2).abs() * 5
    found = torch.cat([corner, corner + 1 + normal(12, 2, seed=1).abs() * 5], 1).clamp(max=22)
    scores = normal(12, seed=2)

    def forward() -> Any:
        return {
            "nms": ops.nms(found, scores, 0.3),
            "iou": ops.box_iou(found, found),
            "aligned": ops.roi_align(normal(1, 4, 24, 24), [found], 3, 1.0, 2),
        }

    return {"forward": forward}


@program("segmentation-models-pytorch", modules=("segmentation_models_pytorch",))
def segmentation() -> Case:
    import segmentation_models_pytorch as smp

    module = smp.Unet(
        "resnet18", encoder_weights=None, classes=2, decoder_channels=(16, 8, 8, 4, 4)
    )
    return Case(module, (normal(2, 3, 32, 32),), double=True)


@program("efficientnet-pytorch", modules=("efficientnet_pytorch",))
def efficientnet() -> Case:
    from efficientnet_pytorch import EfficientNet

    module = EfficientNet.from_name("efficientnet-b0", num_classes=5, drop_connect_rate=0.0)
    return Case(module, (normal(2, 3, 48, 48),), double=True)


@program("vit-pytorch")
def vit() -> Case:
    from vit_pytorch import ViT

    module = ViT(image_size=16, patch_size=4, num_classes=5, dim=32, depth=2, heads=4, mlp_dim=64)
    return Case(module, (normal(2, 3, 16, 16),))
