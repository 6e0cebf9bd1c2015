"""Kernels as text may call axes, values and buffers as they like."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
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
from lazyt.tuning import CompiledKernel
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


CLASHES = """kernel main(in int: float32[6, 300], out NAN: int64[6], out restrict: float32[6]) {
  phase (double: 6) lanes inner work 5.0 {
    for r0_where: 300 {
      reduce r0: int64 = argmax int[double, r0_where]
      reduce r0_most: float32 = sum int[double, r0_where]
    }
    once {
      store NAN[double] = %r0
      store restrict[double] = %r0_most
    }
  }
}
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_names_that_printers_make_are_free_too() -> None:
    """A position's search is split into ``r0_most`` and ``r0_where``."""
    kernel = parse_kernel(CLASHES)
    values = np.random.default_rng(0).integers(0, 50, (6, 300)).astype(np.float32)
    arrays: dict[str, Any] = {
        "int": values,
        "NAN": np.empty(6, np.int64),
        "restrict": np.empty(6, np.float32),
    }
    CompiledKernel(kernel).run(arrays)
    assert arrays["NAN"].tolist() == values.argmax(1).tolist()
    assert arrays["restrict"].tolist() == values.sum(1).tolist()
