"""A sample of the corpus of generated kernels; ``python -m tests.cuda.corpus`` is the whole of it.

``LAZYT_CORPUS_SHARE`` is how many cells are seen: every so many-th (default 45).
"""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest

from lazyt.errors import InternalError
from lazyt.ops.registry import OPS
from lazyt.runtime.cuda import nvrtc
from tests.cuda import corpus, corpus_plans
from tests.cuda.corpus import Corpus
from tests.cuda.corpus_cells import WITHOUT_KERNELS, all_cells
from tests.cuda.cubins import accesses

SHARE = int(os.environ.get("LAZYT_CORPUS_SHARE", "45"))
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="needs cuda-python and NVRTC")

SIZES = """
#define COPY(name, type) extern "C" __global__ void name(type *y, const type *x) \
  { y[threadIdx.x] = x[threadIdx.x]; }
COPY(copy_1, unsigned char) COPY(copy_2, short) COPY(copy_4, float) COPY(copy_8, double)
COPY(copy_16, float4)
"""


@pytest.fixture(scope="module")
def sample() -> Corpus:
    made = corpus.gather(SHARE)
    made.watched = True
    return made


def test_values_on_the_emulator(sample: Corpus) -> None:
    """The interpreter's values, and the same bits whatever the order of warps and threads."""
    assert corpus.run_all(sample) == []


def test_a_deleted_barrier_is_noticed(sample: Corpus) -> None:
    cuts = corpus.cut_all(sample)
    assert cuts.count >= 4 and cuts.share >= 0.95, cuts.unnoticed


@needs_nvrtc
@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", corpus.ARCHITECTURES)
def test_compiled_for_gpus(arch: str, sample: Corpus) -> None:
    made = corpus.compile_all(sample, arch)
    assert made.faults == [] and made.functions >= len(sample.kernels) >= 30


@needs_nvrtc
@pytest.mark.nvrtc
def test_sizes_of_accesses() -> None:
    """What is read from instructions, of kernels whose accesses are known."""
    for arch in corpus.ARCHITECTURES:
        found = accesses(nvrtc.compile_cubin(SIZES, arch).image)
        for size in (1, 2, 4, 8, 16):
            assert found[f"copy_{size}"] == {("load", size): 1, ("store", size): 1}


@needs_nvrtc
@pytest.mark.nvrtc
def test_wide_accesses_and_kept_values() -> None:
    """Aligned elementwise kernels access 16 bytes; values of a row that are kept have registers."""
    wide = ("wide_float32", "wide_bfloat16")
    kept = ("softmax_5x1000_bfloat16_1", "softmax_1500x40_float64_0")
    cells = [cell for cell in all_cells() if cell.name in (*wide, *kept)]
    assert len(cells) == 4 and all(cell.aligned for cell in cells if cell.name in wide)
    made = [plan for cell in cells if (plan := corpus_plans.make_plan(cell))]
    kernels = corpus_plans.distinct(made)
    whole = Corpus(made, kernels, [list(kernels.values())])
    assert corpus.compile_all(whole, "sm_90a").faults == []
    assert corpus.run_all(whole) == []


def text_of(name: str) -> tuple[str, int]:
    """The text of a cell's kernel, and its launches."""
    (cell,) = [cell for cell in all_cells() if cell.name == name]
    plan = corpus_plans.make_plan(cell)
    assert plan is not None
    (kernel,) = plan.program.kernels
    return kernel.text, len(kernel.grids)


def test_rows_are_read_once_and_many_blocks_folded_by_many() -> None:
    for name, reads in (("norm_4096_float32", 1), ("norm_2x2500_float32", 1),
                        ("softmax_4096_float16", 1), ("norm_1x20000_float32", 3)):  # fmt: skip
        assert len(re.findall(r"= [^;]*\bx\d\[", text_of(name)[0])) == reads, name
    text, launches = text_of("sum_huge")  # 1,100,000 elements, 1075 blocks, 2 blocks of these
    assert launches == 3 and "#pragma unroll 16" in text
    assert text_of("sum_few")[1] == 2  # 17 rows alone would leave most of a GPU idle


def test_every_op_has_a_cell() -> None:
    """Every op of the registry that makes kernels, by the names of the cells' themes."""
    names = [cell.name for cell in all_cells()]
    themes = OPS.keys() - WITHOUT_KERNELS
    assert [t for t in themes if not any(name.startswith(f"{t}-") for name in names)] == []


def test_faults_are_reported() -> None:
    """A barrier too few and one too many: the reports of values and of deletions say so."""
    (cell,) = [cell for cell in all_cells() if cell.name == "softmax_2x2500_float32_1"]
    right = corpus_plans.make_plan(cell)
    assert right is not None and "lz_sync_block();" in right.program.kernels[0].text
    kernels = corpus_plans.distinct([right])
    whole = Corpus([right], kernels, [list(kernels.values())])
    lines = corpus.barriers(whole.parts[0])
    assert [len(found) for found in lines.values()] == [3]
    (machine,) = whole.emulators().values()
    machine.leave_out(next(iter(lines.values()))[0][0])
    assert "no barrier is in between" in corpus.run_all(whole)[0]
    with pytest.raises(InternalError, match="kernel lz_row"):
        corpus_plans.run(right, whole.machines, 0)
    machine.leave_out(0)
    assert corpus.run_all(whole) == []
    cuts = corpus.cut_all(whole)
    assert cuts.count == 3 and cuts.unnoticed == [] and cuts.share == 1
    # Of two barriers in a row each can go, and nobody notices.
    (kernel,) = right.program.kernels
    text = kernel.text.replace("lz_sync_block();", "lz_sync_block();\nlz_sync_block();", 1)
    doubled = replace(kernel, text=text)
    plan = replace(right, program=replace(right.program, kernels=(doubled,)))
    cuts = corpus.cut_all(Corpus([plan], {doubled.name: doubled}, [[doubled]]))
    assert cuts.count == 4 and len(cuts.unnoticed) == 2 and cuts.share == 0.5
