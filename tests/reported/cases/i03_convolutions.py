"""Programs after reports.

pytorch/pytorch#19912 (groups), #1246 #55781 #16018 (weights that do not lie in order), #77299
(channels_last), #115940 (group_norm strides), PR 187504 (attention, inner stride), PR 100679 (mm +
mm that broadcast)
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    F = torch.nn.functional

    def one_hot_groups():
        x = torch.zeros(1, 4, 1, 1)
        x[0, 3] = 1
        return F.conv2d(x, torch.ones(16, 2, 1, 1), groups=2)

    log.run("groups", one_hot_groups)
    weights = {
        "strided": lambda k: T(torch, rnd(k, 6, 4, 6, 6))[:, :, ::2, ::2],
        "turned": lambda k: T(torch, rnd(k, 3, 3, 4, 6)).permute(3, 2, 0, 1),
        "cl": lambda k: T(torch, rnd(k, 6, 4, 3, 3)).contiguous(memory_format=torch.channels_last),
        "expand": lambda k: T(torch, rnd(k, 6, 4, 1, 1)).expand(6, 4, 3, 3),
        "swap": lambda k: T(torch, rnd(k, 4, 6, 3, 3)).transpose(0, 1),
        "flip": lambda k: T(torch, rnd(k, 6, 4, 3, 3)).flip(2),
        "offset": lambda k: T(torch, rnd(k, 8, 4, 3, 4))[2:, :, :, 1:],
    }
    inputs = {
        "plain": lambda k: T(torch, rnd(k, 2, 4, 8, 9)),
        "cl": lambda k: T(torch, rnd(k, 2, 4, 8, 9)).contiguous(memory_format=torch.channels_last),
        "strided": lambda k: T(torch, rnd(k, 2, 8, 8, 18))[:, ::2, :, ::2],
        "turned": lambda k: T(torch, rnd(k, 9, 8, 4, 2)).permute(3, 2, 1, 0),
        "expand": lambda k: T(torch, rnd(k, 1, 4, 8, 1)).expand(2, 4, 8, 9),
    }
    for wn, w in weights.items():
        for xn, x in inputs.items():
            log.jit(
                f"conv-{wn}-{xn}",
                lambda x, w: [F.conv2d(x, w), F.conv2d(x, w, stride=2, padding=1, dilation=2)],
                lambda k: [x(k), w(k + 5)],
                calls=2,
                rtol=1e-4,
                state=False,
            )
        log.grads(
            f"grad-{wn}",
            lambda x, w: F.conv2d(x, w, padding=1),
            lambda k: [
                inputs["turned"](k).detach().requires_grad_(),
                w(k).detach().requires_grad_(),
            ],
            calls=1,
            rtol=1e-4,
        )
        log.run(
            f"trans-{wn}",
            lambda: F.conv_transpose2d(
                T(torch, rnd(1, 2, 6, 4, 5)), w(3), stride=2, padding=1, output_padding=1
            ),
            rtol=1e-4,
        )
    for g in (1, 2, 4):
        for s, p, d in ((1, 0, 1), (2, 1, 1), (3, 2, 2), (2, "valid", 1), (1, "same", 2)):
            x, w, b = (
                T(torch, rnd(1, 2, 4, 7, 6)),
                T(torch, rnd(2, 8, 4 // g, 3, 2)),
                T(torch, rnd(3, 8)),
            )
            log.run(f"c2-{g}-{s}-{p}-{d}", lambda: F.conv2d(x, w, b, s, p, d, g), rtol=1e-4)
            if not isinstance(p, str):
                log.run(
                    f"t2-{g}-{s}-{p}-{d}",
                    lambda: F.conv_transpose2d(
                        x, T(torch, rnd(2, 4, 8 // g, 3, 2)), b, s, p, s - 1, g, d
                    ),
                    rtol=1e-4,
                )
            log.run(
                f"c1-{g}-{s}-{p}-{d}",
                lambda: F.conv1d(x[:, :, 0], w[:, :, 0], b, s, p, d, g),
                rtol=1e-4,
            )
    log.run(
        "unbatched",
        lambda: [
            F.conv2d(T(torch, rnd(1, 4, 7, 6)), T(torch, rnd(2, 8, 4, 3, 2))),
            F.conv1d(T(torch, rnd(1, 4, 7)), T(torch, rnd(2, 8, 4, 3))),
        ],
        rtol=1e-4,
    )
    log.run(
        "ints",
        lambda: F.conv2d(
            torch.ones(1, 1, 3, 3, dtype=torch.int64), torch.ones(1, 1, 2, 2, dtype=torch.int64)
        ),
    )
    for pm in ("zeros", "reflect", "replicate", "circular"):

        def conv():
            torch.manual_seed(0)
            m = torch.nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=pm)
            with torch.no_grad():
                m.weight.copy_(T(torch, rnd(3, 3, 2, 3, 3)))
                m.bias.copy_(T(torch, rnd(4, 3)))
            return m(T(torch, rnd(5, 1, 2, 5, 6)))

        log.run("pad-" + pm, conv, rtol=1e-4)

    def gn(x, g):
        y = F.group_norm(x, 3)
        return y, torch.autograd.grad(y, x, g)[0]

    for sh in ((8, 6, 1, 1), (2, 6, 4, 5)):
        n, c, h, w = sh
        log.run(
            f"gn-{sh}",
            lambda: gn(
                T(torch, rnd(1, h, n, c, w)).permute(1, 2, 0, 3).detach().requires_grad_(),
                T(torch, rnd(2, *sh)).contiguous(memory_format=torch.channels_last),
            ),
            rtol=1e-3,
            atol=1e-4,
        )
    log.run(
        "gn-cl",
        lambda: [
            (
                y := F.group_norm(
                    T(torch, rnd(1, 2, 6, 4, 5)).contiguous(memory_format=torch.channels_last), 3
                )
            ),
            y.stride(),
            F.instance_norm(
                T(torch, rnd(1, 2, 6, 4, 5)).contiguous(memory_format=torch.channels_last)
            ).stride(),
            F.batch_norm(
                T(torch, rnd(1, 2, 6, 4, 5)).contiguous(memory_format=torch.channels_last),
                None,
                None,
                training=True,
            ).stride(),
        ],
        rtol=1e-4,
    )
    q = lambda k: T(torch, rnd(k, 2, 3, 8, 5)).transpose(2, 3)
    for causal in (False, True):
        log.jit(
            f"sdpa-{causal}",
            lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=causal),
            lambda k: [q(k), q(k + 1), q(k + 2)],
            calls=2,
            rtol=1e-4,
        )
    log.jit(
        "sdpa-mask",
        lambda a, b, c: [
            F.scaled_dot_product_attention(a, b, c, attn_mask=torch.ones(5, 5).tril() > 0),
            F.scaled_dot_product_attention(
                a, b, c, attn_mask=torch.arange(25.0).reshape(5, 5), scale=0.3
            ),
            F.scaled_dot_product_attention(a[..., ::2], b[..., ::2], c[..., 1:4]),
        ],
        lambda k: [q(k), q(k + 1), q(k + 2)],
        calls=2,
        rtol=1e-4,
    )
    log.run(
        "sdpa-allmasked",
        lambda: F.scaled_dot_product_attention(q(1), q(2), q(3), attn_mask=torch.zeros(5, 5) > 0),
    )
    log.run(
        "sdpa-infmask",
        lambda: F.scaled_dot_product_attention(
            q(1), q(2), q(3), attn_mask=torch.full((5, 5), -float("inf"))
        ),
    )

    def hand(x, wq, kk):  # attention by hand with another permutation (PR 195383)
        s = torch.matmul(wq, kk.permute(0, 2, 3, 1)) if kk.dim() == 4 else wq @ kk
        return (s / 3).softmax(-1) @ x

    log.jit(
        "hand-attention",
        hand,
        lambda k: [
            T(torch, rnd(k, 2, 3, 4, 5)),
            T(torch, rnd(k + 1, 2, 3, 6, 5)),
            T(torch, rnd(k + 2, 2, 4, 3, 5)),
        ],
        calls=3,
        rtol=1e-4,
    )
    log.jit(
        "mm-plus-mm",
        lambda a, b, c, d: [
            a @ b + c @ d,
            (c @ d) + (a @ b),
            a @ b + (c @ d)[:1],
            (a @ b)[:, :1] + c @ d,
            torch.addmm(a @ b, c, d, beta=0.5, alpha=2),
            (a @ b).addmm_(c, d),
        ],
        lambda k: [
            T(torch, rnd(k, 4, 5)),
            T(torch, rnd(k + 1, 5, 6)),
            T(torch, rnd(k + 2, 4, 3)),
            T(torch, rnd(k + 3, 3, 6)),
        ],
        calls=3,
        rtol=1e-4,
    )
    log.jit(
        "einsum",
        lambda a, b: [
            torch.einsum("ij,jk->ki", a, b),
            torch.einsum("ij,jk", a, b),
            torch.einsum("ij,kj->i", a, b.t()),
            torch.einsum("ii->i", a[:4, :4]),
            torch.einsum("ii", a[:4, :4]),
            torch.einsum("i...,...j->...ij", a[0], b[0]),
            torch.einsum("ij,ij,ij->j", a, a, a),
            torch.einsum("ij->", a),
            torch.einsum("i,j->ij", a[0], b[0]),
            torch.einsum("...ij,...jk->...ik", a[None], b),
            torch.einsum("ab,cd->abcd", a[:2, :2], b[:2, :2]),
            torch.einsum("ij,jk,kl->il", a, b, b.t()),
            torch.einsum(a, [0, 1], b, [1, 2], [2, 0]),
            torch.einsum("Ab,bC->AC", a, b),
            torch.einsum(" i j , j k -> i k ", a, b),
            torch.einsum("ij,jk->ik", a[:, :1], b),
            torch.einsum("iij->ij", a[:4, :4, None].expand(4, 4, 3)),
            torch.einsum("ijj->", a[0][:4, None, None].expand(4, 3, 3)),
        ],
        lambda k: [T(torch, rnd(k, 4, 5)), T(torch, rnd(k + 1, 5, 6))],
        calls=2,
        rtol=1e-4,
    )
    for e in (
        "ij,jk->iz",
        "ij,jk->ii",
        "ij",
        "ij,jk,->ik",
        "i.j,jk->ik",
        "ij,jk->ik->",
        "ijk,jk",
        "..i..,j",
        "1j,jk",
    ):
        log.run("einsum-" + e, lambda: torch.einsum(e, torch.ones(2, 3), torch.ones(3, 4)))
    return log.items
