"""Programs after reports.

pytorch/pytorch#118628 #90534 #81077 #127055 #64525 #107084 PR 190486 #24816 PR 42323: masks of
attention, fully masked rows, padding; packed sequences of length one and mixed order
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, T, encode, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    nn, F = torch.nn, torch.nn.functional
    inf = float("inf")

    def fill(m):
        with torch.no_grad():
            for i, p in enumerate(m.parameters()):
                p.copy_(T(torch, rnd(i, *p.shape)) * 0.3)
        return m

    x = T(torch, rnd(1, 3, 5, 8))
    pad = torch.tensor([[False] * 5, [False, False, False, True, True], [True] * 5])
    causal = torch.ones(5, 5).triu(1) > 0
    fl = torch.zeros(5, 5).masked_fill(causal, -inf)
    bias = T(torch, rnd(2, 5, 5))
    band = (torch.arange(5)[:, None] - torch.arange(5)[None]).abs() > 1
    for tr in (False, True):
        for nw in (True, False):
            mha = fill(nn.MultiheadAttention(8, 2, batch_first=True)).train(tr)
            for n, kw in {
                "none": {},
                "causal": {"attn_mask": causal},
                "float": {"attn_mask": fl},
                "bias": {"attn_mask": bias},
                "pad": {"key_padding_mask": pad[:2]},
                "both": {"attn_mask": causal, "key_padding_mask": pad[:2]},
                "band": {"attn_mask": band, "key_padding_mask": pad[:2]},
                "allpad": {"key_padding_mask": pad},
                "floatpad": {"key_padding_mask": torch.zeros(3, 5).masked_fill(pad, -1e9)},
                "3d": {"attn_mask": causal.expand(6, 5, 5)},
                "iscausal": {"attn_mask": fl, "is_causal": True},
                "avg": {"average_attn_weights": False},
            }.items():
                xx = x[:2] if n in ("pad", "both", "band") else x

                def run():
                    with torch.no_grad() if not tr else torch.enable_grad():
                        o, w = mha(xx, xx, xx, need_weights=nw, **kw)
                    return o, w

                log.run(f"mha-{tr}-{nw}-{n}", run, rtol=1e-4, atol=1e-5)
        for nf in (True, False):
            enc = fill(
                nn.TransformerEncoder(
                    nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=nf),
                    2,
                    enable_nested_tensor=False,
                )
            ).train(tr)
            for n, kw in {
                "none": {},
                "mask": {"mask": fl},
                "boolmask": {"mask": causal},
                "bias": {"mask": bias},
                "pad": {"src_key_padding_mask": pad[:2]},
                "floatpad": {"src_key_padding_mask": torch.zeros(2, 5).masked_fill(pad[:2], -inf)},
                "both": {"mask": causal, "src_key_padding_mask": pad[:2]},
            }.items():

                def enc_run():
                    y = encode(x[:2], **kw)
                    return y if "pad" not in n and n != "both" else torch.cat([y[0], y[1, :3]])

                log.run(f"enc-{tr}-{nf}-{n}", enc_run, rtol=1e-3, atol=1e-4)

        def pad_same():
            enc = fill(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)).eval()
            m = torch.zeros(3, 5)
            m[:, -1] = 1
            a, b = encode(x, src_key_padding_mask=m > 0), encode(x[:, :-1])
            return bool(torch.allclose(a[:, :-1], b, atol=1e-5)), encode(x, src_key_padding_mask=m)

        log.run(f"pad-same-{tr}", pad_same, rtol=1e-3, atol=1e-4)
    dec = fill(
        nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True), 2)
    ).eval()
    log.run(
        "decoder",
        lambda: dec(
            x,
            x.flip(1),
            tgt_mask=fl,
            memory_key_padding_mask=pad & False,
            tgt_key_padding_mask=pad & False,
        ),
        rtol=1e-3,
        atol=1e-4,
    )
    tf = fill(nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True))
    log.run(
        "transformer",
        lambda: [
            tf(x, x.flip(2), tgt_mask=nn.Transformer.generate_square_subsequent_mask(5)),
            nn.Transformer.generate_square_subsequent_mask(3),
        ],
        rtol=1e-3,
        atol=1e-4,
    )

    def old_tokens(nw):
        m = fill(nn.MultiheadAttention(4, 1))
        full = torch.full((64, 64), -inf)
        mask = torch.triu(full, 1) + torch.tril(full, -10)
        return m(
            torch.ones(64, 4), torch.ones(64, 4), torch.ones(64, 4), attn_mask=mask, need_weights=nw
        )[0]

    log.run("old-tokens", lambda: [old_tokens(True), old_tokens(False)], rtol=1e-4, atol=1e-5)
    log.run(
        "softmax-inf",
        lambda: [
            torch.full((2,), -inf).softmax(0),
            torch.tensor([-inf, 0.0]).softmax(0),
            torch.tensor([inf, 0.0]).softmax(0),
            torch.tensor([inf, inf]).log_softmax(0),
            torch.full((3,), -1e9).softmax(0),
            torch.tensor([3.4e38, -3.4e38]).softmax(0),
        ],
    )
    log.grads(
        "sdpa-grad-masked",
        lambda q, k, v: [
            F.scaled_dot_product_attention(q, k, v, attn_mask=causal.logical_not()),
            F.scaled_dot_product_attention(
                q, k, v, attn_mask=(~band) & (torch.arange(5) != 2)[:, None]
            ),
            F.scaled_dot_product_attention(q, k, v, attn_mask=bias),
        ],
        lambda k: [T(torch, rnd(k + i, 1, 2, 5, 4), grad=True) for i in range(3)],
        calls=2,
        rtol=1e-3,
        atol=1e-5,
    )
    log.run(
        "gqa",
        lambda: F.scaled_dot_product_attention(
            T(torch, rnd(1, 1, 4, 5, 4)),
            T(torch, rnd(2, 1, 2, 5, 4)),
            T(torch, rnd(3, 1, 2, 5, 4)),
            enable_gqa=True,
        ),
        rtol=1e-4,
    )
    rn = nn.utils.rnn
    for cls in ("LSTM", "GRU", "RNN"):
        for bi in (False, True):
            for bf in (False, True):
                r = fill(getattr(nn, cls)(3, 4, 2, batch_first=bf, bidirectional=bi))

                def packed(lens, enf):
                    y = T(torch, rnd(5, len(lens), max(lens), 3))
                    y = y if bf else y.transpose(0, 1)
                    y.requires_grad_()
                    p = rn.pack_padded_sequence(y, torch.tensor(lens), bf, enf)
                    o, h = r(p)
                    q, l = rn.pad_packed_sequence(o, bf, padding_value=-7.0)
                    h = h[0] if isinstance(h, tuple) else h
                    (g,) = torch.autograd.grad(q.sum() + h.sum(), y)
                    return (
                        q.detach(),
                        l,
                        h.detach(),
                        g,
                        p.data.detach(),
                        p.batch_sizes,
                        p.sorted_indices,
                    )

                log.run(
                    f"{cls}-{bi}-{bf}",
                    lambda: [
                        packed([4, 2, 1], True),
                        packed([1, 4, 2], False),
                        packed([1, 1], True),
                        packed([3], True),
                    ],
                    rtol=1e-4,
                    atol=1e-5,
                )
    for n, f in {
        "unsorted": lambda: rn.pack_padded_sequence(torch.zeros(3, 2, 1), [1, 3]),
        "zero": lambda: rn.pack_padded_sequence(torch.zeros(3, 2, 1), [3, 0]),
        "long": lambda: rn.pack_padded_sequence(torch.zeros(3, 2, 1), [5, 1]),
        "pad": lambda: [
            rn.pad_sequence([torch.ones(2), torch.ones(4)], True, -1.0),
            rn.pad_sequence([torch.ones(2, 3), torch.ones(1, 3)], padding_side="left"),
            rn.unpad_sequence(torch.arange(6.0).reshape(3, 2), torch.tensor([3, 1])),
        ],
        "pack_seq": lambda: (
            rn.pack_sequence([torch.ones(1), torch.ones(3)], enforce_sorted=False).data
        ),
        "emb-pad": lambda: [
            e := nn.Embedding(4, 3, padding_idx=1),
            (e.weight[1] == 0).all(),
            F.embedding(torch.tensor([1, 2]), torch.ones(4, 3), padding_idx=1),
        ][1:],
        "maxnorm": lambda: F.embedding(
            torch.tensor([0, 1, 0]), torch.arange(6.0).reshape(2, 3), max_norm=1.0
        ),
        "bag": lambda: [
            F.embedding_bag(
                torch.tensor([0, 1, 2, 0]),
                torch.arange(9.0).reshape(3, 3),
                torch.tensor([0, 2, 2]),
                mode=m,
            )
            for m in ("sum", "mean", "max")
        ],
        "bag-pad": lambda: F.embedding_bag(
            torch.tensor([[0, 1], [1, 1]]),
            torch.arange(9.0).reshape(3, 3),
            padding_idx=1,
            mode="mean",
        ),
        "bag-w": lambda: F.embedding_bag(
            torch.tensor([[0, 1], [1, 2]]),
            torch.arange(9.0).reshape(3, 3),
            per_sample_weights=torch.tensor([[1.0, 2.0], [0.5, 0.0]]),
            mode="sum",
        ),
    }.items():
        log.run("x-" + n, f)

    def emb_grad():
        w = torch.arange(12.0).reshape(4, 3).requires_grad_()
        y = F.embedding(torch.tensor([[1, 2], [2, 2]]), w, padding_idx=1, scale_grad_by_freq=True)
        (g,) = torch.autograd.grad((y * torch.arange(12.0).reshape(2, 2, 3)).sum(), w)
        return g

    log.run("emb-grad", emb_grad)
    return log.items
