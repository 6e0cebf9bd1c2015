"""Attention with functions of scores, and masks of blocks by their functions."""

from __future__ import annotations

import math
from typing import Any

import pytest

import lazyt
from lazyt.errors import LazytError
from lazyt.nn import functional as F
from lazyt.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    or_masks,
)  # fmt: skip

Q = lazyt.linspace(-1, 1, 384).reshape(2, 4, 6, 8)
K, V = Q.flip(0).sin(), Q.cos()
BIAS = lazyt.linspace(0, 1, 144).reshape(4, 6, 6)
PART = lazyt.tensor([0, 0, 1, 1, 1, 2])


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def by_hand(q: Any, k: Any, v: Any, bias: Any, mask: Any) -> Any:
    """Softmax of the scores with a bias, zeros where nothing is left."""
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + bias
    weights = lazyt.where(mask, scores, -math.inf).softmax(-1)
    return lazyt.where(mask.any(-1, keepdim=True), weights, 0.0) @ v


def close(a: Any, b: Any) -> bool:
    return bool(lazyt.allclose(a, b, rtol=1e-5, atol=1e-6))


def test_without_functions_it_is_attention() -> None:
    assert close(flex_attention(Q, K, V), F.scaled_dot_product_attention(Q, K, V))
    grouped = flex_attention(Q, K[:, :2], V[:, :2], enable_gqa=True, scale=0.5)
    wanted = F.scaled_dot_product_attention(Q, K[:, :2], V[:, :2], enable_gqa=True, scale=0.5)
    assert close(grouped, wanted)
    half = flex_attention(Q.bfloat16(), K.bfloat16(), V.bfloat16())
    assert half.dtype == lazyt.bfloat16
    assert lazyt.allclose(half.float(), flex_attention(Q, K, V), atol=0.02)


def test_scores_and_masks() -> None:
    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s + BIAS[h, i, j] + 0.1 * (i - j) * (b + 1)

    def mask(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (PART[i] == PART[j]) & (h < 3) & (i >= j)

    blocks = create_block_mask(mask, None, 4, 6, 6)
    b, i, j = lazyt.arange(2)[:, None, None, None], lazyt.arange(6)[:, None], lazyt.arange(6)
    kept = (PART[i] == PART[j]) & (lazyt.arange(4)[:, None, None] < 3) & (i >= j)
    bias = BIAS + 0.1 * (i - j) * (b + 1)
    leaves: Any = [x.clone().requires_grad_() for x in (Q, K, V)]
    q, k, v = leaves
    found = flex_attention(q, k, v, score_mod=score, block_mask=blocks)
    wanted = by_hand(q, k, v, bias, kept.expand(2, 4, 6, 6))
    assert close(found, wanted) and found[:, 3].abs().max() == 0
    mine: Any = lazyt.autograd.grad(found.pow(2).sum(), leaves)
    theirs: Any = lazyt.autograd.grad(wanted.nan_to_num().pow(2)[:, :3].sum(), leaves)
    assert all(close(x, y.nan_to_num()) for x, y in zip(mine, theirs))


def test_gradients_go_to_what_the_functions_use() -> None:
    bias = BIAS.clone().requires_grad_()
    flex_attention(Q, K, V, score_mod=lambda s, b, h, i, j: s + bias[h, i, j]).sum().backward()
    assert bias.grad is not None and bool(bias.grad.abs().sum() > 0)


def test_logarithms_of_sums_and_largest_scores() -> None:
    blocks = create_block_mask(lambda b, h, i, j: (i >= j) & (i > 2), None, None, 6, 6)
    scores = (Q @ K.mT / math.sqrt(8)).masked_fill(~create_mask(blocks.mask_mod, 1, 1, 6, 6), -1e30)
    _, aux = flex_attention(Q, K, V, block_mask=blocks, return_aux=AuxRequest(True, True))
    assert aux.lse[..., :3].isneginf().all() and aux.max_scores[..., :3].isneginf().all()
    assert close(aux.lse[..., 3:], scores.logsumexp(-1)[..., 3:])
    assert close(aux.max_scores[..., 3:], scores.amax(-1)[..., 3:])
    result, lse = flex_attention(Q, K, V, block_mask=blocks, return_lse=True)
    assert lazyt.equal(lse, aux.lse) and result[..., :3, :].abs().max() == 0


@pytest.mark.lazy
def test_it_is_captured_and_stays_in_the_cache() -> None:
    q = lazyt.randn(2, 8, 512, 64)
    blocks = create_block_mask(causal, None, None, 512, 512)
    kinds = [kernel.kind for kernel in lazyt.explain(flex_attention(q, q, q, None, blocks)).kernels]
    assert kinds.count("band") == 1
    q = lazyt.ones(1, 2, 6, 8)
    blocks = create_block_mask(causal, None, None, 6, 6)
    function = lazyt.jit(lambda q: flex_attention(q, q, q, block_mask=blocks))
    wanted = flex_attention(q, q, q, block_mask=blocks)
    assert all(lazyt.equal(function(q), wanted) for _ in range(4))
    assert function.why() == ["captured"]


def test_masks_of_functions() -> None:
    near = and_masks(causal, lambda b, h, i, j: i - j < 2)
    assert create_mask(near, 1, 1, 3, 3)[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    edge = or_masks(lambda b, h, i, j: i == 0, lambda b, h, i, j: j == 0)
    assert create_mask(edge, None, None, 2, 2)[0, 0].int().tolist() == [[1, 1], [1, 0]]
    scores = lambda s, b, h, i, j: lazyt.where(i >= j, s, -math.inf)  # noqa: E731
    assert lazyt.equal(create_mask(scores, 1, 1, 3, 3), create_mask(causal, 1, 1, 3, 3))
    with pytest.raises(LazytError, match="should be callable mask_mods"):
        and_masks(causal, 3)  # type: ignore[arg-type]


def test_blocks_are_counted() -> None:
    """The numbers are those that PyTorch 2.13 gives."""
    blocks = create_block_mask(causal, 2, 3, 600, 600)
    assert (blocks.shape, blocks.numel()) == ((2, 3, 600, 600), 2160000)
    assert blocks.sparsity() == pytest.approx(31.7333, abs=1e-3)
    assert blocks.kv_num_blocks[1, 2].tolist() == [1, 1, 1, 1, 5]
    assert blocks.kv_indices[0, 0, 2].tolist() == [2, 0, 1, 3, 4]
    assert blocks.full_kv_num_blocks[0, 0].tolist() == [0, 1, 2, 3, 0]
    assert blocks.full_kv_indices[0, 0, 3].tolist() == [0, 1, 2, 3, 4]
    assert blocks.q_num_blocks[0, 0].tolist() == [2, 2, 2, 2, 1]
    assert blocks.q_indices[0, 0, 1].tolist() == [1, 4, 0, 2, 3]
    assert blocks.full_q_num_blocks[0, 0].tolist() == [3, 2, 1, 0, 0]
    assert blocks.to_dense()[0, 0].tolist() == lazyt.ones(5, 5).tril().int().tolist()
    assert repr(create_block_mask(causal, None, None, 512, 512)).splitlines()[1:3] == [
        "(0, 0)", "▒▒      ",
    ]  # fmt: skip


def test_parts_of_masks() -> None:
    blocks = create_block_mask(lambda b, h, i, j: i >= j + b + 10 * h, 3, 2, 20, 20)
    picked = blocks[1:, 1]
    assert isinstance(picked, BlockMask) and picked.shape == (2, 1, 20, 20)
    wanted = create_mask(blocks.mask_mod, 3, 2, 20, 20)[1:, 1:]
    assert lazyt.equal(create_mask(picked.mask_mod, 2, 1, 20, 20), wanted)
    assert blocks[0].shape == (1, 2, 20, 20) and blocks._adjust(5, 7).shape == (3, 2, 5, 7)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((Q, K[:, :2], V[:, :2]), "Try setting enable_gqa=True"),
        ((Q[0], K, V), "query to be 4D"),
        ((Q, K.double(), V), "same dtype"),
        ((Q, K[:, :3], V[:, :3], None, None, None, True), "multiple of kv heads"),
        ((Q, lazyt.cat([K, K]), lazyt.cat([V, V])), "same batch size"),
        ((Q[:, :, :5], K, V, None, create_block_mask(causal, None, None, 6, 6)), "was created for"),
        ((Q, K, V, None, create_block_mask(causal, 3, None, 6, 6)), "3 batches"),
        ((Q, K, V, None, lazyt.ones(6, 6)), "has to be a BlockMask"),
    ],
)
def test_what_does_not_fit(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        flex_attention(*arguments)


def test_functions_of_other_arguments() -> None:
    with pytest.raises(ValueError, match="mask_mod function of"):
        create_block_mask(lambda s, b, h, i, j: i >= j, None, None, 6, 6)  # type: ignore[misc,arg-type]
