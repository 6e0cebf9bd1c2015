"""Packages that have one network or one kind of attention."""

from __future__ import annotations

from typing import Any

from bench.ecosystem.entries import Case, program
from bench.ecosystem.stages import integers, normal


@program("perceiver-pytorch")
def perceiver() -> Case:
    from perceiver_pytorch import Perceiver

    module = Perceiver(
        input_channels=3, input_axis=2, num_freq_bands=2, max_freq=4.0, depth=2, num_latents=6,
        latent_dim=16, cross_heads=1, latent_heads=2, cross_dim_head=8, latent_dim_head=8,
        num_classes=5, self_per_cross_attn=1,
    )  # fmt: skip
    return Case(module, (normal(2, 6, 6, 3),))


@program("performer-pytorch")
def performer() -> Case:
    from performer_pytorch import PerformerLM

    module = PerformerLM(
        num_tokens=96, max_seq_len=16, dim=16, depth=1, heads=2, dim_head=8, causal=False,
        generalized_attention=True, nb_features=8, feature_redraw_interval=None,
    )  # fmt: skip
    for name, buffer in module.named_buffers():
        if "projection_matrix" in name:
            buffer.copy_(normal(*buffer.shape))
    return Case(module, (integers(2, 16, below=96),))


@program("linformer")
def linformer() -> Case:
    from linformer import Linformer

    return Case(Linformer(dim=16, seq_len=12, depth=2, heads=2, k=4), (normal(2, 12, 16),))


@program("axial-positional-embedding")
def axial() -> Case:
    import torch
    from axial_positional_embedding import AxialPositionalEmbedding

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.places, self.line = AxialPositionalEmbedding(16, (4, 4)), torch.nn.Linear(16, 3)

        def forward(self, x: Any) -> Any:
            return self.line(x + self.places(x))

    return Case(Net(), (normal(2, 16, 16),))


@program("mambapy", modules=("mambapy.mamba",))
def mamba() -> Case:
    from mambapy.mamba import Mamba, MambaConfig

    return Case(Mamba(MambaConfig(d_model=16, n_layers=2, d_state=4)), (normal(2, 9, 16),))


@program("siren-pytorch")
def siren() -> Case:
    from siren_pytorch import SirenNet

    module = SirenNet(dim_in=2, dim_hidden=16, dim_out=3, num_layers=3, w0_initial=3.0)
    return Case(module, (normal(20, 2),))


@program("denoising-diffusion-pytorch")
def unet() -> Case:
    import torch
    from denoising_diffusion_pytorch import Unet

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Unet(dim=8, dim_mults=(1, 2), channels=2, flash_attn=False)

        def forward(self, x: Any, at: Any) -> Any:
            return self.net(x, at)

    return Case(Net(), (normal(2, 2, 16, 16), integers(2, below=100)))


@program("open_clip", package="open_clip_torch", modules=("open_clip",))
def clip() -> Case:
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    module = CLIP(
        16, CLIPVisionCfg(layers=1, width=16, head_width=8, patch_size=8, image_size=16),
        CLIPTextCfg(context_length=8, vocab_size=96, width=16, heads=2, layers=1),
    )  # fmt: skip
    return Case(
        module, (normal(2, 3, 16, 16), integers(2, 8, below=96)),
        loss=lambda f: (f[0] @ f[1].T).pow(2).mean() * f[2], outputs=lambda f: tuple(f[:3]),
    )  # fmt: skip


@program("sentence-transformers")
def sentences() -> Case:
    import torch
    from sentence_transformers.models import Dense, Normalize, Pooling

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(
                [
                    Pooling(16, pooling_mode="mean"),
                    Dense(16, 8),
                    Normalize(),
                ]
            )

        def forward(self, tokens: Any, mask: Any) -> Any:
            found = {"token_embeddings": tokens, "attention_mask": mask}
            for part in self.parts:
                found = part(found)
            return found["sentence_embedding"]

    return Case(
        Net(), (normal(3, 7, 16), (integers(3, 7, below=4) > 0).long()),
        loss=lambda f: (f @ f.T).pow(2).mean() + f.pow(3).sum(),
    )  # fmt: skip


@program("segment-anything", seconds=400)
def segment_anything() -> Case:
    from functools import partial

    import torch
    from segment_anything.modeling import (
        ImageEncoderViT,
        MaskDecoder,
        PromptEncoder,
        TwoWayTransformer,
    )

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = ImageEncoderViT(
                img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, out_chans=16,
                use_rel_pos=True, window_size=2, global_attn_indexes=(1,),
                norm_layer=partial(torch.nn.LayerNorm, eps=1e-6),
            )  # fmt: skip
            self.prompts = PromptEncoder(16, (4, 4), (32, 32), 4)
            self.decoder = MaskDecoder(
                transformer_dim=16,
                iou_head_hidden_dim=8,
                num_multimask_outputs=3,
                transformer=TwoWayTransformer(depth=1, embedding_dim=16, mlp_dim=16, num_heads=2),
            )

        def forward(self, picture: Any, points: Any, labels: Any) -> Any:
            sparse, dense = self.prompts((points, labels), None, None)
            return self.decoder(
                self.encoder(picture), self.prompts.get_dense_pe(), sparse, dense, True
            )

    net = Net()
    gaussian = net.prompts.pe_layer.positional_encoding_gaussian_matrix
    gaussian.copy_(normal(*gaussian.shape))
    points = normal(1, 2, 2).abs() * 10
    return Case(net, (normal(1, 3, 32, 32), points, integers(1, 2, below=2)))
