"""Random pieces of programs: valid graphs of data, cheap to interpret, in all forms of kernels."""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest

import lazyt
from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.lower.groups import lower_group
from lazyt.compiler import group_graph
from lazyt.handle.dispatch import wrap
from lazyt.ir.dtypes import bfloat16, decode_bfloat16
from lazyt.ir.graph import Node, topological
from lazyt.ir.printer import print_graph
from lazyt.runtime.interpreter import interpret
from lazyt.testing.motifs import MOTIFS, Maker, motif

SEEDS = 300
#: A machine with caches of 32 KiB, 256 KiB and 8 MiB.
CACHES = (32 << 10, 256 << 10, 8 << 20)
#: Multiply-adds that the most expensive pieces may take.
MOST_MACS = 9_000_000


def macs(roots: list[Node]) -> int:
    """Multiply-adds of a graph's products."""
    total = 0
    for node in topological(roots):
        if node.op.name == "contract":
            extents = dict(zip(node.params.left, node.inputs[0].shape))
            extents |= dict(zip(node.params.right, node.inputs[1].shape))
            total += math.prod(extents.values())
    return total


def name_of(seed: int) -> str:
    """Which piece a seed is."""
    return Maker(seed).one(*MOTIFS).__name__


def forms() -> tuple[Counter[str], Counter[str]]:
    """How often the kernels of all seeds have which kind and form; and what their texts contain.
    Products are printed for vectors of 32 and of 64 bytes."""
    found: Counter[str] = Counter()
    texts: Counter[str] = Counter()
    for seed in range(SEEDS):
        roots = [root for root in motif(seed) if root.size]
        for group in group_graph(roots, cache=CACHES[1])[1]:
            kernel = lower_group(group, 16).kernel
            found[group.kind] += 1
            for vector_bytes in (32, 64) if group.kind in ("contract", "band") else (64,):
                made = print_kernel_c(kernel, vector_bytes, CACHES, threads=4)
                found.update(set(re.findall(r"\w+Form|\w+=True|block=[1-9]|bands of", made.note)))
                found.update(re.findall(r"exchanged|tiny|skinny|padding|bf16x2|i8x4", made.note))
                text = made.source.text
                texts.update(set(re.findall(r"LZ_ORDERED|lz_stream|omp parallel", text)))
    return found, texts


#: Kinds of groups, forms and options of forms, by the notes of printed kernels.
FORMS = (
    "map", "row", "contract", "band", "scan", "scatter", "sort", "update", "PackedForm", "RowForm",
    "DotForm", "SlideForm", "SumsForm", "LanesForm", "bands of", "pack=True", "parallel=True",
    "straight=True", "apart=True", "copies=True", "private=True", "ahead=True", "in blocks",
    "exchanged", "tiny", "skinny", "padding", "bf16x2", "i8x4",
)  # fmt: skip


def test_pieces_reach_the_forms_of_kernels() -> None:
    found, texts = forms()
    found["in blocks"] = sum(n for form, n in found.items() if form.startswith("block="))
    assert not [form for form in FORMS if not found[form]], found
    assert all(texts[w] for w in ("LZ_ORDERED", "lz_stream", "omp parallel")), texts


def test_every_kind_of_piece_occurs() -> None:
    assert {name_of(seed) for seed in range(SEEDS)} == {make.__name__ for make in MOTIFS}


def depends_on_data(node: Node) -> bool:
    """Whether an input is below a node: what is made of numbers alone somebody else may have
    computed."""
    return any(leaf.op.name == "input" for leaf in topological([node]))


def test_half_of_the_pieces_have_gradients_and_none_is_expensive() -> None:
    differentiated = 0
    for seed in range(SEEDS):
        roots = motif(seed)
        order = topological(roots)
        assert all(n.data is not None for n in order if n.op.name == "input"), seed
        computed = [n for n in order if n.inputs and n.data is not None and depends_on_data(n)]
        assert all(n.op.name == "variable" for n in computed), seed  # another name for its input
        assert macs(roots) <= MOST_MACS, (seed, name_of(seed), macs(roots))
        differentiated += any(n.op.name == "variable" for n in order)
    assert SEEDS // 4 <= differentiated <= 3 * SEEDS // 4


def test_a_seed_is_one_graph_with_one_set_of_data() -> None:
    for seed in range(40):
        one, other = motif(seed), motif(seed)
        assert print_graph(one) == print_graph(other)
        leaves = [[n for n in topological(g) if n.data is not None] for g in (one, other)]
        for a, b in zip(*leaves, strict=True):
            assert a.nbytes == b.nbytes
            assert (a.data.as_numpy(a.dtype, a.shape) == b.data.as_numpy(b.dtype, b.shape)).all()


@pytest.mark.parametrize("seed", range(400, 412))
def test_pieces_compute_what_the_interpreter_computes(seed: int) -> None:
    roots = motif(seed)
    wanted = interpret(roots)
    with lazyt.config.override(tier=0):
        for root, want in zip(roots, wanted, strict=True):
            found = wrap(root, name="piece")
            if found.dtype.is_floating_point:
                numbers = decode_bfloat16(want) if root.dtype is bfloat16 else want
                expected = lazyt.tensor(numbers.astype("float64"))
                scale = 1 + expected.nan_to_num(0, 0, 0).abs().max() if want.size else 1
                error = 0.05 if found.dtype in (lazyt.bfloat16, lazyt.float16) else 1e-4
                near = (found.double() / scale - expected / scale).abs() <= error
                both = (found.double() == expected) | (found.isnan() & expected.isnan())
                assert (near | both).all(), name_of(seed)
            else:
                assert (found.numpy() == want).all(), name_of(seed)
