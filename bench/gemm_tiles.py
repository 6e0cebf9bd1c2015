"""Time block sizes of the packed contraction form against the chosen ones.

``python bench/gemm_tiles.py 1024 1024 1024 --threads 2`` compiles one float32 kernel for every
variation and prints the medians of interleaved runs, best first.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from lazyt.codegen.matmul.contraction import (
    ContractSpec,
    PackedForm,
    choose_packed_form,
    emit_contract,
)

TYPES = "typedef float lz_f32; typedef long long lz_i64; typedef unsigned int lz_u32;\n"
FLAGS = ["-O3", "-march=native", "-fopenmp", "-ffp-contract=off", "-fPIC", "-shared"]
CACHE = (32 << 10, 1 << 20, 32 << 20)


def dense_spec(m: int, n: int, k: int) -> ContractSpec:
    """A plain row-major matrix product."""
    return ContractSpec(
        "kernel",
        (
            ("const lz_f32 *restrict", "a"), ("const lz_f32 *restrict", "b"),
            ("lz_f32 *restrict", "c"),
        ),
        1, m, n, k, "f32",
        lambda _, i, p: ([], f"a[({i}) * {k} + ({p})]"),
        lambda _, p, j: ([], f"b[({p}) * {n} + ({j})]"),
        "k", "n",
        lambda _, i, j, value: [f"c[({i}) * {n} + ({j})] = {value};"],
        32, CACHE,
    )  # fmt: skip


def variations(form: PackedForm) -> dict[str, PackedForm]:
    """The chosen form, and forms that differ in one or two sizes."""
    out = {"chosen": form}
    for k_block in (128, 192, 256, 384, 512):
        out[f"k_block {k_block}"] = replace(form, k_block=k_block)
    for panels in (4, 8, 12, 16, 24):
        out[f"row_block {panels * form.rows}"] = replace(form, row_block=panels * form.rows)
    for strip in (16, 32, 128, 256):
        out[f"strip {strip}"] = replace(form, strip=min(strip, form.col_block))
    for col_block in (256, 512, 2048):
        out[f"col_block {col_block}"] = replace(form, col_block=min(col_block, form.col_span))
    return out


def build(folder: Path, number: int, spec: ContractSpec, form: PackedForm) -> Callable[..., object]:
    """Compile one variation into a call of no arguments but the number of threads."""
    made = emit_contract(spec, form)
    source = folder / f"v{number}.c"
    source.write_text(TYPES + "".join(text for _, text in made.sections) + made.text)
    target = source.with_suffix(".so")
    subprocess.run(["cc", *FLAGS, str(source), "-o", str(target)], check=True)
    kernel = ctypes.CDLL(str(target)).kernel
    rng = np.random.default_rng(0)
    a = rng.standard_normal((spec.m, spec.k), dtype=np.float32)
    b = rng.standard_normal((spec.k, spec.n), dtype=np.float32)
    buffers = (a, b, np.zeros((spec.m, spec.n), np.float32))
    workspace = np.zeros(made.workspace_bytes + 64, np.uint8)
    aligned = workspace.ctypes.data + -workspace.ctypes.data % 64
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in buffers] + [ctypes.c_void_p(aligned)]

    def call(threads: int) -> object:
        # The closure keeps the arrays alive for as long as their addresses are used.
        return kernel(*pointers, ctypes.c_int(threads)), buffers, workspace

    return call


def main() -> None:
    """Time every variation, interleaved, and print Gflop/s."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extents", type=int, nargs=3, metavar="EXTENT", help="m, n and k")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    spec = dense_spec(*options.extents)
    forms = variations(choose_packed_form(spec, options.threads > 1))
    times: dict[str, list[float]] = {name: [] for name in forms}
    with tempfile.TemporaryDirectory() as folder:
        calls = {
            name: build(Path(folder), i, spec, form) for i, (name, form) in enumerate(forms.items())
        }
        for _ in range(options.rounds):
            for name, call in calls.items():
                start = time.perf_counter()
                call(options.threads)
                times[name].append(time.perf_counter() - start)
    print(forms["chosen"])
    for name in sorted(times, key=lambda name: statistics.median(times[name])):
        middle, least = statistics.median(times[name]), min(times[name])
        print(
            f"{name:16} {spec.flops / middle / 1e9:7.1f} Gflop/s median, "
            f"{spec.flops / least / 1e9:7.1f} best"
        )


if __name__ == "__main__":
    main()
