"""Kernels as text may call axes, values and buffers as they like."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lazyt.codegen.c.safe_names import _names, _Renamer, with_safe_names
from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.cuda.target import print_kernel_cuda
from lazyt.codegen.proof.c_bounds import argument_bytes, check_kernel_c
from lazyt.compiler import print_kernels
from lazyt.ir.kernel import Kernel
from lazyt.ir.parser import parse_kernel
from lazyt.ir.printer import print_kernel
from lazyt.ir.verifier import verify_kernel
from tests.codegen.kernel_corpus import CACHES, GRAPHS, VECTOR_BYTES
from tests.codegen.kernel_corpus import print_kernels as corpus_kernels

WORDS = (
    "k", "l", "end", "threads", "int", "for", "u", "t0", "low", "high", "restrict", "lz_f32",
    "lz_kernel", "g_q", "g_mine", "part", "h", "r0_a0", "while", "float", "main", "omp", "v",
    "y1_", "b0_", "ws", "M", "NULL", "expf", "lz_exp_f32", "const", "static", "do", "if",
    "blockIdx", "threadIdx", "warp", "lane", "shared", "lz_i64", "grid", "block", "template",
    "class", "new",
)  # fmt: skip


def called(kernel: Kernel, words: tuple[str, ...]) -> Kernel:
    """The kernel with words of C for all names."""
    renamer = _Renamer(kernel)
    axes, values = _names(kernel)
    names = [*axes, *values, *(b.name for b in kernel.buffers)]
    more = (f"{word}{n}" for n in range(99) for word in ("x_", "y0_", "t"))
    renamer.table = dict(zip(names, (*words, *more), strict=False))
    return renamer.kernel(kernel)


@pytest.mark.parametrize("name", GRAPHS)
def test_every_form_with_words_of_c(name: str) -> None:
    for printed in corpus_kernels(GRAPHS[name]()):
        kernel = printed.kernel
        assert with_safe_names(kernel) is kernel  # those of lowering are safe
        bad = called(kernel, WORDS)
        verify_kernel(bad)
        other = called(kernel, WORDS[::-1])
        assert print_kernel(with_safe_names(bad)) == print_kernel(with_safe_names(other))
        if kernel.segments or kernel.bands:
            continue
        again = parse_kernel(print_kernel(bad))
        made = print_kernel_c(again, VECTOR_BYTES, CACHES)
        sizes = argument_bytes(again, made.workspace, made.offsets)
        text = made.proof or made.source.text
        assert not check_kernel_c(text, sizes)
        assert made.source.text.count("\n") == printed.c.source.text.count("\n")
        assert "__global__" in print_kernel_cuda(again).text


KERNEL = """kernel int(in for: float32[6, 256], out while: float32[6]) {
  phase (l: 6) lanes inner work 5.0 {
    for k: 256 {
      reduce end: float32 = sum exp(for[l, k])
    }
    once {
      store while[l] = %end
    }
  }
}
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_text_with_words_of_c_compiles(tmp_path: Path) -> None:
    file = tmp_path / "kernel.c"
    file.write_text(print_kernels([parse_kernel(KERNEL)]))
    done = subprocess.run(
        ["gcc", "-std=gnu11", "-fopenmp", "-c", "-o", str(tmp_path / "kernel.o"), str(file)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
