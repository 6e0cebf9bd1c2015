"""Which results of sample calls are views of their operands, over operands of every layout.

    python -m tests.functional.aliases                               compares all
    PYTHON_WITH_TORCH -m tests.functional.aliases --record           writes aliases.xz anew

Every sample call (see ``samples``) is made with its operands laid out as ``LAYOUTS`` says. Recorded
is, for each tensor of the result, whether PyTorch gives an operand itself (``is x``) or a view of
one's memory (``of x``), else nothing, and its strides and offset.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.functional.changed_calls import SAMPLES
from tests.functional.sample_values import Operands, call
from tests.functional.samples import Sample, has, layouts, owner_of, tensors_in

FILE = Path(__file__).with_name("aliases.xz")


def _turned(x: Any) -> Any:
    """The same values, first dimension innermost."""
    order = list(range(x.ndim))[::-1]
    return x.permute(order).contiguous().permute(order)


def _inner(x: Any) -> Any:
    """The same values within a larger memory."""
    if not x.ndim:
        return x
    return x.repeat_interleave(2, -1)[..., ::2]


def _last(module: Any, x: Any) -> Any:
    """Four dimensions, channels innermost."""
    formats = {4: module.channels_last, 5: module.channels_last_3d}
    return x.contiguous(memory_format=formats[x.ndim]) if x.ndim in formats else x


#: How an operand is laid out, given the module.
LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda module, x: x,
    "turned": lambda module, x: _turned(x),
    "inner": lambda module, x: _inner(x),
    "last": _last,
    "thin": lambda module, x: x[..., :1] if x.ndim else x,
    "thin first": lambda module, x: x[:1] if x.ndim else x,
    "one channel": lambda module, x: _last(module, x[:, :1]) if x.ndim > 2 else x,
    "repeated": lambda module, x: x[:1].expand(x.shape) if x.ndim else x,
}


def memory_of(module: Any, x: Any) -> Any:
    """What is the same for all tensors of one memory."""
    if module.__name__ == "torch":
        return x.untyped_storage().data_ptr()
    share = x._storage.share
    return id(x._storage if share is None else share.memory)


def outcome(module: Any, sample: Sample, layout: str) -> str:
    """Of each tensor of the result: what it is or is a view of, and how it lies."""
    taken: dict[str, Any] = {}
    names = Operands(module, "float32", change=lambda x: LAYOUTS[layout](module, x))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module.manual_seed(0)
            function = getattr(owner_of(module, sample.place), sample.name)
            if sample.place == "nn":
                function = call(function, sample.made, names)
            result = call(function, sample.text, names)
    except Exception:
        return "!"
    taken = {name: names[name] for name in names.leaves}
    memories = {memory_of(module, x): name for name, x in taken.items() if x.numel()}
    texts = []
    for tensor in tensors_in(module, result):
        same = [name for name, x in taken.items() if x is tensor]
        known = memories.get(memory_of(module, tensor)) if tensor.numel() else None
        how = f"is {same[0]} " if same else f"of {known} " if known else ""
        texts.append(how + layouts([tensor]))
    return "; ".join(texts)


#: Further calls that may give their operand or a view of it: where, and what is called.
MORE = {
    "torch": """
        einsum('ij->ij', x) einsum('ij->ji', x) einsum('ii->i', A) einsum('ij->i', x)
        einsum('ii', A) einsum('...->...', C) einsum('ijk->kij', C) einsum('i...->...i', C)
        einsum('ij', x) einsum('ji', x) einsum('iij->ij', C[:,:2]) einsum('...ii->...i', A)
        einsum('ij,ij->ij', x, y) einsum('i->i', v) einsum(x, [0, 1], [1, 0])
        einsum(',ij->ij', s, x) broadcast_tensors(x, v) broadcast_tensors(x) meshgrid(v)
        meshgrid(v, w, indexing='ij') meshgrid(v, w, indexing='xy') cartesian_prod(v) cat([x])
        cat([x, x[:0]]) stack([x]) as_tensor(x) asarray(x) asarray(x, copy=True) rot90(x, 0)
        rot90(x, 4) rot90(x, 2) roll(x, 0) roll(x, 0, 0) flip(x, ()) tile(x, (1,)) tile(x, ())
        atleast_1d(s) atleast_1d(x) atleast_2d(v) atleast_2d(x) atleast_3d(x) atleast_3d(v)
        atleast_1d(x, s) positive(x) real(x) resolve_conj(x) resolve_neg(x) conj(x) ravel(x)
        flatten(x) flatten(x, 0, 0) flatten(s) flatten(C, 1) flatten(C, 0, 1) movedim(x, 0, 0)
        movedim(C, 0, 2) unflatten(x, 1, (2, 2)) swapaxes(x, 0, 1) squeeze(x) squeeze(x[:1])
        squeeze(x, 0) squeeze(x[:1], 0) squeeze(C[:1], (0, 1)) tensor_split(x, 2)
        tensor_split(x, [1]) chunk(x, 1) split(x, 3) hsplit(x, 2) vsplit(x, [1]) unbind(x) t(v)
        t(x) adjoint(x) moveaxis(C, 2, 0) narrow(x, 0, 0, 3) select(x, 0, 1) diagonal(A)
        diagonal(A, 1) diag(v) diag(A) broadcast_to(x, (3, 4)) broadcast_to(x, (2, 3, 4))
        expand_copy(x, (3, 4)) clone(x) dropout(x, 0.0, True) dropout(x, 0.5, False)
        alpha_dropout(x, 0.5, False) feature_dropout(x, 0.5, False) detach(x)
        view_as_real_copy(x) constant_pad_nd(x, (0, 0)) nan_to_num(x) matrix_power(A, 1)
        chain_matmul(A) column_stack([x]) hstack([x]) vstack([x]) block_diag(x)
        repeat_interleave(x, 1) sum(x[:1], 0) sum(x, ()) mean(x[:1], 0) cumsum(x[:1], 0)
        amax(x, ()) clamp(x, -99) triu(x, -9) permute(x, (0, 1)) permute(C, (2, 0, 1))
        channel_shuffle(image, 1) pixel_shuffle(image, 1) round(x) trunc(x) ceil(j) floor(j)
        unsqueeze(x, 0) where(mask, x, x) as_strided(x, (2,), (1,)) tensordot(x, s, 0)
        kron(s, x) sort(x[:1], 0) gather(x, 0, i) take_along_dim(x, i, 0) index_select(x, 0, j)
        masked_select(x, mask) unfold_copy(v, 0, 2, 1) view_copy(x, (12,))""",
    "Tensor": """
        to(x, torch.float32) to(x, torch.float64) to(x, 'cpu') to(x, x) to(x, copy=True)
        to(image, memory_format=torch.channels_last)
        to(image, memory_format=torch.contiguous_format)
        to(image, memory_format=torch.preserve_format)
        to(volume, memory_format=torch.channels_last_3d) contiguous(x)
        contiguous(image, memory_format=torch.channels_last) cpu(x) float(x) double(x)
        contiguous(volume, memory_format=torch.channels_last_3d) type(x, torch.float32)
        type_as(x, y) clone(image, memory_format=torch.channels_last) clone(image)
        reshape(x, 3, 4) reshape(x, 12) reshape(x, 2, 6) reshape(x, -1, 1) reshape(C, 6, 4)
        reshape(C, 2, 12) reshape_as(x, y) view_as(x, y) view(x, 3, 4) view(x, 12)
        view(x, torch.int32) view(x, torch.float32) expand(x, 3, 4) expand(x, -1, -1)
        expand(x, 2, 3, 4) expand_as(x, y) expand(x[:1], 3, 4) unfold(v, 0, 2, 1)
        unfold(x, 1, 4, 1) sum_to_size(x, 3, 4) sum_to_size(x, 1, 4) repeat(x, 1, 1)
        flatten(image, 1) squeeze(image) detach(x) requires_grad_(x) __getitem__(x, None)
        __getitem__(x, ...) __getitem__(x, 0) __getitem__(x, slice(None)) __getitem__(x, ())
        __getitem__(x, (slice(None), None)) __getitem__(x, ([0, 1],))
        __getitem__(x, (slice(0, 2), 1)) __getitem__(x, mask) __getitem__(x, (0, 1)) __pos__(x)
        __getitem__(x, True) __getitem__(x, (..., slice(None, None, 2))) swapdims(x, 0, 1)
        diagonal(A) index_select(x, 1, j) new_tensor(x) clone(x[::2]) contiguous(x[:, ::2])
        contiguous(image[:, :1], memory_format=torch.channels_last)
        to(image[:1, :1], memory_format=torch.channels_last)
        to(image[:, :, :1, :1], memory_format=torch.channels_last)
        clone(image[:, :1], memory_format=torch.channels_last)
        contiguous(image[:, :, :1, :1], memory_format=torch.channels_last)
        contiguous(image[:, :1].contiguous(memory_format=torch.channels_last))
        contiguous(image.contiguous(memory_format=torch.channels_last)[:, :1])""",
    "nn.functional": """
        dropout(x, 0.0) dropout(x, 0.5, False) alpha_dropout(x, 0.5, False)
        dropout1d(line, 0.5, False) dropout2d(image, 0.5, False) dropout3d(volume, 0.5, False)
        feature_alpha_dropout(x, 0.5, False) pad(x, (0, 0)) pad(x, ())
        pad(image, (0, 0, 0, 0), 'reflect') pad(image, (0, 0), 'constant', 1.0)
        pad(image[:, 0], (0, 0), 'circular') pad(image, (0, 0, 0, 0), 'replicate')
        pad(x, (-1, 0)) interpolate(image, size=(6, 6))
        interpolate(image, size=(6, 6), mode='bilinear') avg_pool2d(image, 1)
        max_pool2d(image, 1) pixel_shuffle(image, 1) pixel_unshuffle(image, 1)
        adaptive_avg_pool2d(image, 6) adaptive_max_pool2d(image, 6) hardtanh(x, -9, 9) relu(q)
        channel_shuffle(image, 1) normalize(x) one_hot(j)""",
}  # fmt: skip
MODULES = [
    ("Identity", "", "x"), ("Flatten", "", "x"), ("Flatten", "", "image"),
    ("Flatten", "0, -1", "x"),
    ("Unflatten", "1, (2, 2)", "x"), ("ZeroPad2d", "0", "image"), ("ReflectionPad2d", "0", "image"),
    ("ReplicationPad2d", "0", "image"), ("ConstantPad2d", "0, 1.0", "image"),
    ("CircularPad2d", "0", "image"), ("Sequential", "", "x"),
    ("Upsample", "scale_factor=1", "image"),
    ("PixelShuffle", "1", "image"), ("Fold", "(6, 6), 1", "image.reshape(2, 2, 36)"),
]  # fmt: skip


def _more() -> Iterator[Sample]:
    """The calls of ``MORE`` and ``MODULES`` as samples."""
    for place, texts in MORE.items():
        for name, text in re.findall(r"(\w+)(\(.*?\))(?=\s|$)(?=\s*(?:\w+\(|$))", texts, re.S):
            yield Sample(place, name, text[1:-1])
    for name, made, text in MODULES:
        yield Sample("nn", name, text, made)


def programs() -> list[tuple[Sample, str]]:
    """All samples that are not random, in all layouts. Sparse tensors have no memory."""
    plain = [
        sample
        for sample in SAMPLES
        if not sample.name.startswith("empty")
        and "sparse" not in sample.text + sample.name
        and sample.name not in ("sspaddmm", "smm")
    ]
    return [(sample, layout) for sample in (*plain, *_more()) for layout in LAYOUTS]


def recorded() -> Iterator[tuple[Sample, str, str]]:
    """All programs, with what PyTorch does."""
    found = json.loads(lzma.decompress(FILE.read_bytes()))
    for (sample, layout), place in zip(programs(), found["programs"], strict=True):
        yield sample, layout, found["outcomes"][place]


def record() -> None:
    """Write down what PyTorch does."""
    import torch

    texts: dict[str, int] = {}
    places = [texts.setdefault(outcome(torch, *p), len(texts)) for p in programs()]
    content = json.dumps({"outcomes": [*texts], "programs": places})
    FILE.write_bytes(lzma.compress(content.encode(), preset=9))


#: Differences that stay, with the reason.
EXCUSED = {
    r"onv(_transpose|Transpose)?3d\(.* (last|one channel)$":
        "the order of three-dimensional results depends on the machine in PyTorch",
    r"conv_transpose2d\(.* thin$": "a kernel that is wider than what it is laid over",
    r"\w_\(.* repeated$":
        "writes to memory that several elements share are refused; PyTorch deprecates them",
    r"rrelu|RReLU|poisson|binomial": "random numbers are drawn in rows",
    r"(angle|isreal|frexp|airy_ai|gru_cell|logsigmoid|LogSigmoid|CrossMapLRN2d|lstsq)\(":
        "results of functions that are no kernel of their own in PyTorch, in another order",
    r"(ctc_loss|CTCLoss\(\))\(.* one channel$": "labels that are no class; PyTorch reads on",
    r"_scatter\(.* (inner|thin)$": "PyTorch leaves gaps in copies of what has gaps",
}  # fmt: skip


def failures() -> list[str]:
    """What differs."""
    import lazyt

    found = []
    for sample, layout, wanted in recorded():
        if has(lazyt, sample) and wanted != "!":
            got = outcome(lazyt, sample, layout)
            text = f"{sample} {layout}"
            if got != wanted and not any(re.search(like, text) for like in EXCUSED):
                found.append(f"{sample} {layout}: {got}, PyTorch {wanted}")
    return found


def main() -> None:
    """Compare or record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true")
    if parser.parse_args().record:
        record()
        return
    wrong = failures()
    for text in wrong:
        print(text)
    print(f"{len(programs())} programs, {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
