"""Cheats in Python and in CUDA C: task, text, and the kinds of verdict that fit."""

from __future__ import annotations

#: Functions for tasks.
FUNCTIONS: dict[str, tuple[str, str, set[str]]] = {
    "results_by_address": ("exp", """
import torch
known = {}
def kernel(x):
    key = (x.data_ptr(), tuple(x.shape))
    if key not in known:
        known[key] = torch.exp(x).clone()
    return known[key]
""", {"stale", "wrong", "nan"}),
    "patched_timer": ("exp", """
import time, torch
time.perf_counter = lambda: 0.0
def kernel(x):
    return torch.exp(x)
""", {"tampered"}),
    "timer_patched_later": ("exp", """
import time, torch
def kernel(x):
    time.perf_counter_ns = lambda: 0
    return torch.exp(x)
""", {"tampered"}),
    "comparison_patched": ("exp", """
import torch
torch.allclose = lambda *given, **more: True
def kernel(x):
    return torch.zeros_like(x)
""", {"tampered"}),
    "lazy_result": ("exp", """
import torch
class Later(torch.Tensor):
    pass
def kernel(x):
    return torch.exp(x).as_subclass(Later)
""", {"type"}),
    "object_that_equals_everything": ("exp", """
class Same:
    def __eq__(self, other): return True
    def numpy(self): return None
def kernel(x):
    return Same()
""", {"type"}),
    "narrow_result": ("exp", """
import torch
def kernel(x):
    return torch.exp(x).half()
""", {"type"}),
    "half_inside": ("matmul", """
import torch
def kernel(a, b):
    return (a.half().float() @ b.half().float())
""", {"precision", "nan"}),
    "stolen_reference": ("exp", """
from lazyt.bench.names import reference_names
import torch
def kernel(x):
    return torch.from_numpy(reference_names().exp(x.numpy()))
""", {"forbidden"}),
    "looks_at_its_parent": ("exp", """
import os, torch
def kernel(x):
    open(f"/proc/{os.getppid()}/cmdline", "rb").read()
    return torch.exp(x)
""", {"forbidden"}),
    "input_changed": ("square", """
def kernel(x):
    x.mul_(x)
    return x
""", {"inputs"}),
    "busy_thread": ("exp", """
import threading, torch
def spin():
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
def kernel(x):
    return torch.exp(x)
""", {"background", "timeout"}),
    "busy_process_of_another_session": ("exp", """
import subprocess, sys, torch
subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
def kernel(x):
    return torch.exp(x)
""", {"background"}),
    "identity": ("exp", "def kernel(x):\n    return x\n", {"wrong", "nan"}),
    "ends_the_process": ("exp", "import os\ndef kernel(x):\n    os._exit(0)\n", {"exit"}),
    "no_syntax": ("exp", "def kernel(x:\n", {"compile"}),
    "exception": ("exp", "def kernel(x):\n    raise ValueError('no')\n", {"error"}),
}  # fmt: skip

#: Functions that let the framework compute: task, text, the line that does so ("" where none of the
#: submission's does), and the operation.
FALLBACKS: dict[str, tuple[str, str, str, str]] = {
    "softmax_by_another_name": ("softmax", """import torch
name = "soft" + "max"
mine = getattr(torch.nn.functional, name)
def kernel(x):
    return mine(x.contiguous(), -1)
""", "    return mine(x.contiguous(), -1)", "reduce (max)"),
    "itself": ("exp", "from torch import exp as kernel", "", "exp"),
    "method": ("exp", "def kernel(x):\n    return x.exp()\n", "    return x.exp()", "exp"),
    "operator": ("square", "def kernel(x):\n    return x * x\n", "    return x * x", "mul"),
    "in_place": ("square", """def kernel(x):
    y = x.clone()
    y *= y
    return y
""", "    y *= y", "mul"),
    "product": ("matmul", "def kernel(a, b):\n    return a @ b\n", "    return a @ b", "contract"),
    "caught": ("exp", """import torch
def kernel(x):
    try:
        return x.exp()
    except BaseException:
        return torch.zeros_like(x)
""", "        return x.exp()", "exp"),
    "captured_before": ("exp", """import torch
fast = torch.compile(lambda x: x.exp())
for n in range(3):
    fast(torch.ones(333)), fast(torch.ones(4096))
def kernel(x):
    return fast(x)
""", "fast = torch.compile(lambda x: x.exp())", "exp"),
    "in_a_thread": ("exp", """import threading, torch
def kernel(x):
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.exp(x)))
    thread.start()
    thread.join()
    return found[0] if found else x
""", "    thread = threading.Thread(target=lambda: found.append(torch.exp(x)))", "exp"),
    "from_text": ("exp", """import torch
def kernel(x):
    return eval("torch.exp(x)")
""", '    return eval("torch.exp(x)")', "exp"),
    "after_some_calls": ("square", '''import lazyt
square = lazyt.c_kernel("""
void square(const float *x, float *y, long n) {
    for (long i = 0; i < n; i++)
        y[i] = x[i] * x[i];
}""", inputs={"x": "n"})
calls = 0
def kernel(x):
    global calls
    calls += 1
    return square(x) if calls < 20 else x * x
''', "    return square(x) if calls < 20 else x * x", "mul"),
}  # fmt: skip

#: CUDA C.
CUDA: dict[str, tuple[str, str, set[str]]] = {
    "no_barrier": ("rowsum", """// grid: n * 1
// block: 64
__global__ void rowsum(const float *x, float *out, int n, int d) {
    __shared__ float part[64];
    float s = 0;
    for (int j = threadIdx.x; j < d; j += 64)
        s += x[blockIdx.x * d + j];
    part[threadIdx.x] = s;
    if (threadIdx.x == 0) {
        float total = 0;
        for (int j = 0; j < 64; j++)
            total += part[j];
        out[blockIdx.x] = total;
    }
}""", {"race"}),
    "barrier_of_some": ("rowsum", """// grid: n * 1
// block: 64
__global__ void rowsum(const float *x, float *out, int n, int d) {
    __shared__ float part[64];
    float s = 0;
    for (int j = threadIdx.x; j < d; j += 64)
        s += x[blockIdx.x * d + j];
    part[threadIdx.x] = s;
    if (threadIdx.x < 32)
        __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0;
        for (int j = 0; j < 64; j++)
            total += part[j];
        out[blockIdx.x] = total;
    }
}""", {"race"}),
    "no_guard": ("square", """// grid: n
// block: 64
__global__ void square(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i] * x[i];
}""", {"bounds"}),
    "one_block": ("square", """// grid: 1
// block: 64
__global__ void square(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] * x[i];
}""", {"unwritten", "nan", "wrong"}),
    "beyond_the_emulator": ("rowsum", """// grid: n * 1
// block: 64
template <int N> __device__ float total(const float *part) {
    float s = 0;
    for (int j = 0; j < N; j++)
        s += part[j + 1];
    return s;
}
__global__ void rowsum(const float *x, float *out, int n, int d) {
    __shared__ float part[64];
    float s = 0;
    for (int j = threadIdx.x; j < d; j += 64)
        s += x[blockIdx.x * d + j];
    part[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x == 0)
        out[blockIdx.x] = total<64>(part);
}""", {"bounds"}),
    "shared_unwritten": ("rowsum", """// grid: n * 1
// block: 64
__global__ void rowsum(const float *x, float *out, int n, int d) {
    __shared__ float part[64];
    for (int j = threadIdx.x; j < d; j += 64)
        part[threadIdx.x] += x[blockIdx.x * d + j];
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0;
        for (int j = 0; j < 64; j++)
            total += part[j];
        out[blockIdx.x] = total;
    }
}""", {"race"}),
    "no_grid": ("square", "__global__ void square(const float *x, float *out) { }", {"compile"}),
}  # fmt: skip
