"""Packages of layers, attention and embeddings."""

from __future__ import annotations

from typing import Any

from bench.ecosystem.entries import Case, Steps, program
from bench.ecosystem.stages import integers, normal


@program("einops")
def einops() -> Case:
    import torch
    from einops import einsum, rearrange, reduce, repeat
    from einops.layers.torch import Rearrange, Reduce

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cut = Rearrange("b (h p) (w q) c -> b (h w) (p q c)", p=2, q=2)
            self.line, self.pool = torch.nn.Linear(12, 6), Reduce("b n d -> b d", "mean")

        def forward(self, x: Any) -> Any:
            y = self.line(self.cut(x))
            z = repeat(reduce(y, "b n d -> b d", "max"), "b d -> b n d", n=3)
            return (
                self.pool(y),
                einsum(y, z, "b n d, b m d -> b n m"),
                rearrange(z, "b n d -> (b n) d"),
            )

    return Case(Net(), (normal(2, 4, 6, 3),), loss=lambda f: f[0].pow(2).mean() + f[1].mean())


@program("x-transformers")
def x_transformers() -> Case:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True, attn_dim_head=8)
    module = TransformerWrapper(num_tokens=96, max_seq_len=32, attn_layers=layers)
    return Case(module, (integers(2, 12, below=96),))


@program("rotary-embedding-torch")
def rotary() -> Case:
    import torch
    from rotary_embedding_torch import RotaryEmbedding

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rotary, self.line = RotaryEmbedding(dim=8), torch.nn.Linear(16, 16)

        def forward(self, x: Any) -> Any:
            return self.rotary.rotate_queries_or_keys(self.line(x))

    return Case(Net(), (normal(2, 4, 6, 16),))


@program("local-attention")
def local_attention() -> Case:
    from local_attention import LocalTransformer

    module = LocalTransformer(
        num_tokens=96, dim=32, depth=2, max_seq_len=32, causal=True, local_attn_window_size=8,
        heads=4, dim_head=8,
    )  # fmt: skip
    return Case(module, (integers(2, 16, below=96),))


@program("entmax")
def entmax() -> Steps:
    import entmax

    x = normal(4, 7).requires_grad_()

    def values() -> Any:
        return {
            "sparsemax": entmax.sparsemax(x, dim=-1),
            "entmax15": entmax.entmax15(x, dim=-1),
            "bisect": entmax.entmax_bisect(x, alpha=1.3),
        }

    def backward() -> Any:
        x.grad = None
        loss = entmax.entmax15_loss(x, integers(4, below=7)).sum()
        (loss + sum(v.pow(2).sum() for v in values().values())).backward()
        return {"loss": loss, "grad": x.grad}

    return {"forward": values, "backward": backward}


@program("vector-quantize-pytorch")
def quantizer() -> Case:
    from vector_quantize_pytorch import FSQ

    return Case(FSQ(levels=[8, 5, 5], dim=16), (normal(2, 10, 16),))
