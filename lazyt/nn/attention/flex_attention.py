"""Attention whose scores a program changes and masks by functions of positions.

The functions are written for one score and become part of the graph, as all other operations do
(Dong et al. 2024, "Flex Attention: A Programming Model for Generating Optimized Attention
Kernels"). A block mask remembers its function, and counts blocks when somebody asks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from lazyt.autograd.vectorizing import vmap
from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.device import device as as_device
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

#: ``mask_mod(batch, head, query index, key index)``, all tensors of one number, to a bool.
Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Any]
_BLOCK = 128


class FlexAttentionError(LazytError, ValueError):
    """Operands, functions or masks that do not fit each other."""


class AuxRequest(NamedTuple):
    """What ``flex_attention`` gives besides its result.

    Attributes:
        lse: the logarithm of the sum of the exponentials of each row of scores.
        max_scores: the largest score of each row.
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked by an AuxRequest; None for what was not."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


# ----------------------------------------------------------------------------- masks


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """True: every query attends to every key."""
    return lazyt.ones((), dtype=lazyt.bool, device=batch.device)


def _combined(mask_mods: tuple[Any, ...], function: Callable[[Any, Any], Any]) -> Mask:
    if not all(callable(mask) for mask in mask_mods):
        raise FlexAttentionError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Any:
        parts = [m(b, h, q_idx, kv_idx) for m in mask_mods]
        return functools.reduce(function, parts[1:], parts[0])

    return mask


def and_masks(*mask_mods: Mask) -> Mask:
    """The mask that is true where all are. Raises FlexAttentionError for what cannot be called."""
    return _combined((noop_mask, *mask_mods), lambda a, b: a & b)


def or_masks(*mask_mods: Mask) -> Mask:
    """The mask that is true where one is. Raises FlexAttentionError for what cannot be called."""
    return _combined((lambda b, h, i, j: ~noop_mask(b, h, i, j), *mask_mods), lambda a, b: a | b)


def _everywhere(function: Callable[..., Any], with_score: bool) -> Callable[..., Any]:
    """A function of one position, over all of them: [B], [H], [M], [N] to [B, H, M, N]."""
    score = (0,) if with_score else ()
    for place in (3, 2, 1, 0):  # the innermost first: keys
        dims = [None] * 4
        dims[place] = 0  # type: ignore[call-overload]
        function = vmap(function, in_dims=(*score, *dims))
    return function


def _positions(b: int, h: int, m: int, n: int, device: Any) -> list[Tensor]:
    return [lazyt.arange(size, device=device) for size in (b, h, m, n)]


def create_mask(
    mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """The bools of a mask, or of where a function of scores leaves a zero finite.

    >>> from lazyt.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, kv: q >= kv, 1, 1, 2, 3)
    tensor([[[[ True, False, False],
              [ True,  True, False]]]])

    Args:
        mod_fn: of four positions, or of a score and these.
        B, H: how many batches and heads there are; None for one that stands for all.

    Returns: [B, H, Q_LEN, KV_LEN].
    """
    b, h = B or 1, H or 1
    places = _positions(b, h, Q_LEN, KV_LEN, device)
    if _arguments(mod_fn) == 5:
        zeros = lazyt.zeros(b, h, Q_LEN, KV_LEN, device=device)
        scores = _everywhere(mod_fn, True)(zeros, *places)
        found = scores.isneginf().logical_not()
    else:
        found = _everywhere(mod_fn, False)(*places).bool()
    mask: Tensor = found.expand(b, h, Q_LEN, KV_LEN)
    return mask


def _arguments(function: Any) -> int:
    """How many positional arguments a function takes."""
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(
        parameter.kind in kinds and parameter.default is parameter.empty
        for parameter in inspect.signature(function).parameters.values()
    )


class BlockMask:
    """A mask by its function, for so many batches, heads, queries and keys.

    ``kv_num_blocks`` and ``kv_indices`` say of each row of blocks which have something to attend
    to, and ``full_kv_num_blocks`` and ``full_kv_indices`` which have nothing else; ``q_num_blocks``
    and so on the same of columns. They are computed when they are read; ``flex_attention`` asks
    the function.

    Attributes:
        mask_mod: the function.
        seq_lengths: how many queries and keys there are.
        BLOCK_SIZE: how many of both a block has.
    """

    def __init__(
        self, mask_mod: Mask, sizes: tuple[int, int, int, int], block: tuple[int, int], device: Any
    ) -> None:
        self.mask_mod, self._sizes, self.BLOCK_SIZE, self._device = mask_mod, sizes, block, device
        self.seq_lengths = sizes[2:]

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, queries and keys."""
        return self._sizes

    def numel(self) -> int:
        """How many scores there are."""
        return math.prod(self._sizes)

    @functools.cached_property
    def _counts(self) -> Tensor:
        """How many scores of each block are not masked: [B, H, rows, columns]."""
        mask = create_mask(self.mask_mod, *self._sizes, device=self._device)
        rows, columns = (-(-n // b) for n, b in zip(self.seq_lengths, self.BLOCK_SIZE))
        missing = [rows * self.BLOCK_SIZE[0] - self._sizes[2]]
        missing.append(columns * self.BLOCK_SIZE[1] - self._sizes[3])
        padded = F.pad(mask.int(), (0, missing[1], 0, missing[0]))
        shape = (*self._sizes[:2], rows, self.BLOCK_SIZE[0], columns, self.BLOCK_SIZE[1])
        return padded.reshape(shape).sum((3, 5))

    def _kinds(self) -> tuple[Tensor, Tensor]:
        """Which blocks are used in part, and which whole."""
        whole = self._counts == math.prod(self.BLOCK_SIZE)
        return (self._counts > 0) & ~whole, whole

    @staticmethod
    def _listed(used: Tensor) -> tuple[Tensor, Tensor]:
        """How many blocks of each row are used, and their places, those that are not behind."""
        order = used.int().argsort(-1, descending=True, stable=True)
        return used.sum(-1).int(), order.int()

    @property
    def kv_num_blocks(self) -> Tensor:
        """[B, H, rows] int32: of each row how many blocks are used in part."""
        return self._listed(self._kinds()[0])[0]

    @property
    def kv_indices(self) -> Tensor:
        """[B, H, rows, columns] int32: which these are, before the others."""
        return self._listed(self._kinds()[0])[1]

    @property
    def full_kv_num_blocks(self) -> Tensor:
        """[B, H, rows] int32: of each row how many blocks are used whole."""
        return self._listed(self._kinds()[1])[0]

    @property
    def full_kv_indices(self) -> Tensor:
        """[B, H, rows, columns] int32: which these are, before the others."""
        return self._listed(self._kinds()[1])[1]

    @property
    def q_num_blocks(self) -> Tensor:
        """[B, H, columns] int32: of each column how many blocks are used in part."""
        return self._listed(self._kinds()[0].mT)[0]

    @property
    def q_indices(self) -> Tensor:
        """[B, H, columns, rows] int32: which these are, before the others."""
        return self._listed(self._kinds()[0].mT)[1]

    @property
    def full_q_num_blocks(self) -> Tensor:
        """[B, H, columns] int32: of each column how many blocks are used whole."""
        return self._listed(self._kinds()[1].mT)[0]

    @property
    def full_q_indices(self) -> Tensor:
        """[B, H, columns, rows] int32: which these are, before the others."""
        return self._listed(self._kinds()[1].mT)[1]

    def to_dense(self) -> Tensor:
        """[B, H, rows, columns] int32: 1 for blocks with something to attend to."""
        return (self._counts > 0).int()

    def sparsity(self) -> float:
        """The percentage of scores in blocks that are not used."""
        used = int(self.to_dense().sum()) * math.prod(self.BLOCK_SIZE)
        return 100 * (1 - used / self.numel())

    def to_string(self, grid_size: int = 20, limit: int = 4) -> str:
        """The blocks as a picture: full, half and empty squares.

        Args:
            grid_size: how many rows and columns it has at most.
            limit: of how many batches and heads it is drawn.
        """
        full, used = self._kinds()[1].float(), self.to_dense().float()
        pictures = []
        for number in range(min(math.prod(self._sizes[:2]), limit)):
            b, h = divmod(number, self._sizes[1])
            share = (full[b, h] + used[b, h])[None, None] / 2
            shape = [min(size, grid_size) for size in share.shape[2:]]
            rows = F.adaptive_avg_pool2d(share, shape)[0, 0].tolist()
            lines = [
                "".join("██" if v > 0.75 else "▒▒" if v else "  " for v in row) for row in rows
            ]
            pictures.append("\n".join([f"({b}, {h})", *lines]))
        return "\n".join(pictures)

    def __repr__(self) -> str:
        title = f"shape={self.shape}, sparsity={self.sparsity():.2f}%"
        return f"BlockMask({title}, \n{self.to_string()}\n)"

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches and heads.

        Args:
            index: a number, slice or tensor of batches, or a pair of these and the same of heads.
        """
        index = index if isinstance(index, tuple) else (index,)
        picked = []
        for part, size in zip((*index, slice(None), slice(None)), self._sizes[:2]):
            places = lazyt.arange(size, device=self._device)
            chosen = places[part]
            picked.append(chosen.reshape(1) if chosen.ndim == 0 else chosen)
        batches, heads = picked
        function = self.mask_mod

        def mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Any:
            return function(batches[b], heads[h], q_idx, kv_idx)

        sizes = (batches.shape[0], heads.shape[0], *self._sizes[2:])
        return BlockMask(mask, sizes, self.BLOCK_SIZE, self._device)

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The mask of the first queries and keys, or of more."""
        sizes = (*self._sizes[:2], new_q_len, new_kv_len)
        return BlockMask(self.mask_mod, sizes, self.BLOCK_SIZE, self._device)

    def to(self, device: Any) -> BlockMask:
        """The mask on another device. Tensors that the function uses stay where they are."""
        return BlockMask(self.mask_mod, self._sizes, self.BLOCK_SIZE, as_device(device))


def create_block_mask(
    mask_mod: Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _BLOCK, _compile: bool = False,
    separate_full_blocks: bool = True, compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:  # fmt: skip
    """A mask for ``flex_attention``, by its function.

    >>> from lazyt.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 512, 512).sparsity()
    37.5

    Args:
        mask_mod: of the numbers of a batch, a head, a query and a key, as tensors of one number;
            whether the query attends to the key.
        B, H: how many batches and heads there are; None for masks that do not depend on them.
        BLOCK_SIZE: of the blocks that are counted, for both sides or each.
        _compile, separate_full_blocks, compute_dq_write_order, dq_kv_order: taken for PyTorch's
            sake.

    Raises FlexAttentionError for what is no function of four positions.
    """
    if not callable(mask_mod) or _arguments(mask_mod) != 4:
        raise FlexAttentionError(
            "create-block_mask requires a mask_mod function of (b, h, q_idx, kv_idx)! Got "
            f"{mask_mod}"
        )
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return BlockMask(mask_mod, sizes, (block[0], block[1]), device)


# ----------------------------------------------------------------------------- attention


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
    return_lse: bool = False, kernel_options: Any = None, *, return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """``softmax(score_mod(query @ key.mT * scale)) @ value``, with scores that the mask leaves out
    at minus infinity. Queries without a key give zeros.

    >>> from lazyt.nn.attention.flex_attention import flex_attention
    >>> q = lazyt.ones(1, 1, 2, 4)
    >>> flex_attention(q, q, q, score_mod=lambda s, b, h, q, kv: s + (q - kv)).shape
    torch.Size([1, 1, 2, 4])

    Args:
        query: [B, Hq, M, E].
        key, value: [B, Hkv, N, E], [B, Hkv, N, Ev]; B may be 1.
        score_mod: of a score and the numbers of its batch, head, query and key, as tensors of one
            number; the score that counts.
        block_mask: which scores count at all.
        scale: of the products; ``1 / sqrt(E)`` by default.
        enable_gqa: whether Hq may be a multiple of Hkv.
        return_lse, return_aux: give more than the result, see AuxRequest; [B, Hq, M] each.
        kernel_options: taken for PyTorch's sake.

    Returns: [B, Hq, M, Ev]; with more in a pair.

    Raises FlexAttentionError for shapes, dtypes and masks that do not fit.
    """
    _check(query, key, value, enable_gqa)
    b, heads, m, width = query.shape
    n, groups = key.shape[2], heads // key.shape[1]
    if groups > 1:
        key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
    factor = 1 / math.sqrt(width) if scale is None else scale
    working = lazyt.float32 if query.dtype.itemsize < 4 else query.dtype
    scores = (query.to(working) @ key.to(working).mT) * factor
    places = _positions(b, heads, m, n, query.device)
    if score_mod is not None:
        scores = _everywhere(score_mod, True)(scores, *places).to(working)
    if block_mask is not None:
        _check_mask(block_mask, query.shape, n)
        batches, some_heads = (p % size for p, size in zip(places, block_mask.shape[:2]))
        mask = _everywhere(block_mask.mask_mod, False)(batches, some_heads, *places[2:])
        scores = lazyt.where(mask, scores, -math.inf)
    top = scores.amax(-1, keepdim=True) if n else scores.new_full((b, heads, m, 1), -math.inf)
    shift = lazyt.where(top == -math.inf, 0.0, top).detach()
    weights = (scores - shift).exp()
    total = weights.sum(-1, keepdim=True)
    result = (weights / lazyt.where(total == 0, 1.0, total)).to(value.dtype) @ value
    result = result.to(query.dtype)
    asked = return_aux or (AuxRequest(lse=True) if return_lse else None)
    if asked is None:
        return result
    lse = (total.log() + shift).squeeze(-1)
    if return_aux is None:
        return result, lse
    largest = top.squeeze(-1) if asked.max_scores else None
    return result, AuxOutput(lse if asked.lse else None, largest)


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim != 4:
            raise FlexAttentionError(
                f"NYI: flex_attention expects {name} to be 4D tensors, got {x.ndim}D"
            )
    if query.dtype != key.dtype or query.dtype != value.dtype:
        raise FlexAttentionError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype} instead."
        )
    heads, others = query.shape[1], key.shape[1]
    if heads != others and not enable_gqa:
        raise FlexAttentionError(
            "Expect query and key/value to have the same number of heads but got "
            f"Hq={heads} and Hkv={others}. Try setting enable_gqa=True for GQA."
        )
    if heads % max(others, 1):
        raise FlexAttentionError(
            "Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={others}."
        )
    if query.shape[0] != key.shape[0] and key.shape[0] != 1:
        raise FlexAttentionError(
            f"Expect query and key/value to have the same batch size but got "
            f"Bq={query.shape[0]} and Bkv={key.shape[0]}."
        )


def _check_mask(mask: Any, shape: tuple[int, ...], n: int) -> None:
    if not isinstance(mask, BlockMask):
        raise FlexAttentionError(f"block_mask has to be a BlockMask, not {type(mask).__name__}")
    if any(size not in (1, have) for size, have in zip(mask.shape[:2], shape[:2])):
        raise FlexAttentionError(
            f"block_mask of {mask.shape[0]} batches and {mask.shape[1]} heads does not fit "
            f"{shape[0]} and {shape[1]}"
        )
    if mask.seq_lengths != (shape[2], n):
        raise FlexAttentionError(
            f"block_mask was created for block_mask.shape={mask.shape} but got q_len={shape[2]} "
            f"and kv_len={n}. Create a mask of these lengths, or adjust it by "
            f"block_mask._adjust({shape[2]}, {n})."
        )


_explain_absence(__name__)
