"""CUDA C kernels as operations, on the emulator: values, proofs, races; NVRTC where it is there."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import lazyt
from lazyt.codegen.cuda.target import device_helpers
from lazyt.errors import ArgumentError, DeviceError, DTypeError, LazytError, SourceError
from lazyt.runtime.cuda import nvrtc

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")

ROWS = """
// Sums of rows, one block for each.
__device__ __forceinline__ float twice(float x) { return 2.0f * x; }
__global__ void rows(const float *__restrict__ x, float *__restrict__ y, int n, int m) {
    __shared__ float part[64];
    float total = 0;
    for (int j = threadIdx.x; j < m; j += blockDim.x)
        total += twice(x[blockIdx.x * m + j]);
    part[threadIdx.x] = total;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half && threadIdx.x + half < 64)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        y[blockIdx.x] = part[0];
}
"""


def _rows(text: str = ROWS, **settings: Any) -> Any:
    return lazyt.cuda_kernel(
        text, grid=lambda n, m: n, block=64, inputs={"x": "n m"}, out="n", **settings
    )


def _there(*shape: int) -> Any:
    return (lazyt.arange(lazyt.Size(shape).numel()).reshape(shape) % 7).float().to("cuda:emu")


def test_a_kernel_runs_in_a_plan_and_is_captured() -> None:
    rows = _rows(vjp=lambda inputs, y, g: 2 * g[:, None].expand_as(inputs[0]))
    x = _there(5, 100)
    assert rows(x + 1).tolist() == (2 * (x + 1).sum(1)).tolist()
    leaf = x.clone().requires_grad_()
    (rows(leaf) * rows(leaf)).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == (4 * rows(x)[:, None].expand(5, 100)).tolist()
    fast = lazyt.jit(lambda x: rows(x * 2) + 1)
    for number in range(3):
        assert fast(x + number).tolist() == (4 * (x + number).sum(1) + 1).tolist()
    assert fast.why() == ["captured"]
    assert repr(rows) == "<CUDA kernel rows(x)>"


def test_vmap_launches_the_grid_for_every_example() -> None:
    x = _there(3, 4, 70)
    assert lazyt.func.vmap(_rows())(x).tolist() == (2 * x.sum(-1)).tolist()


def test_accesses_of_all_threads_are_proved() -> None:
    with pytest.raises(SourceError, match=r"part\[.*outside \(found 0\.\.63, allowed 0\.\.31\)"):
        _rows(ROWS.replace("part[64]", "part[32]"))(_there(2, 3))
    loose = """__global__ void f(const float *x, float *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        y[i] = x[i];
    }"""
    made = lazyt.cuda_kernel(loose, grid="n", block=32, inputs={"x": "n"})
    assert made(_there(64)).tolist() == _there(64).tolist()
    with pytest.raises(SourceError, match="line 3, column 16") as caught:
        made(_there(65))
    assert "y[i] = x[i];" in str(caught.value) and "n = 65" in str(caught.value)


def test_the_emulator_finds_races_and_barriers_that_threads_miss() -> None:
    first = ROWS.index("__syncthreads();")
    racing = ROWS[:first] + ROWS[first + len("__syncthreads();") :]
    with pytest.raises(LazytError, match="no barrier is in between"):
        _rows(racing)(_there(2, 70)).tolist()
    missed = ROWS.replace(
        "__syncthreads();\n    for", "if (threadIdx.x < 5) __syncthreads();\n    for"
    )
    with pytest.raises(LazytError, match="barrier"):
        _rows(missed)(_there(2, 70)).tolist()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DeviceError, match="takes tensors on cuda, not on cpu"):
        _rows()(lazyt.ones(2, 3))
    with pytest.raises(ArgumentError, match="a block of 2000 threads"):
        lazyt.cuda_kernel(ROWS, grid=1, block=2000)
    with pytest.raises(ArgumentError, match="grid='k' is none of its sizes: n, m"):
        lazyt.cuda_kernel(ROWS, grid="k", inputs={"x": "n m"}, out="n")(_there(2, 3))
    with pytest.raises(DTypeError, match="a number of threads, along one axis"):
        lazyt.cuda_kernel(ROWS, grid=1, block=(8, 8))  # type: ignore[arg-type]
    for body, part in (
        ("y[0] = 0; y[0] += x[threadIdx.x];", "all threads write"),
        ("atomicAdd(&y[0], x[threadIdx.x]);", "left to chance; sum within a block"),
    ):
        text = f"__global__ void f(const float *x, float *y, int n) {{ {body} }}"
        with pytest.raises(SourceError, match=part):
            lazyt.cuda_kernel(text, grid=1, inputs={"x": "n"})
    for old, new, part in (
        ("blockIdx.x] =", "blockIdx.y] =", "grids and blocks have one axis"),
        ("part[64]", "part[8][8]", "one axis"),
        ("part[64]", "part[20000]", "an array of 80000 bytes"),
        ("float total = 0;", "new int;", "no C"),
        ("total = 0;", "total = 0; float new_ = 0, class = 1;", "word of other dialects"),
        ("__syncthreads();", "__threadfence();", "no function of the text"),
        ("__syncthreads();", 'asm("bar.sync 0;");', "no strings"),
        ("__global__ void", "__global__ void __launch_bounds__(64)", "no C"),
        ("twice(x[", "atomicAdd(y, x[", "no function of the text"),
        ("__shared__ float part[64]", "extern __shared__ float part[]", "extern"),
        ("__device__", "__host__", "no C"),
        ("// Sums", "#include <cuda_fp16.h>\n// Sums", "is not included"),
    ):
        with pytest.raises(SourceError, match=part):
            _rows(ROWS.replace(old, new))


@pytest.mark.skipif(not nvrtc.available(), reason="needs cuda-python and NVRTC")
@pytest.mark.nvrtc
def test_nvrtc_takes_the_text() -> None:
    from lazyt.compiler import compile_graph, program_text

    node = _rows()(_there(5, 100)).node
    program, _ = compile_graph([node], list(node.inputs), target="cuda")
    assert nvrtc.compile_cubin(device_helpers("cuda") + program_text(program)).image
