"""Kernels as users write them, for the checks of CUDA text: right ones, and how to launch them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Launched:
    """A kernel with a launch.

    Attributes:
        name: the kernel's, unique among all.
        text: its text; what it defines begins with the kernel's name.
        grid, block, arguments, shared: the launch.
        template: the arguments of a template.
        options: of ``check_cuda``.
    """

    name: str
    text: str
    grid: Any
    block: Any
    arguments: list[Any]
    shared: int = 0
    template: str = ""
    options: dict[str, Any] = field(default_factory=dict)


BASES = [
    Launched("reduction", """
__global__ void reduction(const float *x, float *y, int n) {
    extern __shared__ float partial[];
    unsigned t = threadIdx.x;
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += blockDim.x * gridDim.x)
        sum += x[i];
    partial[t] = sum;
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s)
            partial[t] += partial[t + s];
        __syncthreads();
    }
    if (t == 0)
        y[blockIdx.x] = partial[0];
}
""", 3, 128, ["float[1000]=random", "float[3]", 1000], 512),
    Launched("transpose", """
#define transpose_TILE 16
__global__ void transpose(const float *__restrict__ x, float *__restrict__ y, int w, int h) {
    __shared__ float tile[transpose_TILE][transpose_TILE + 1];
    int c = blockIdx.x * transpose_TILE + threadIdx.x;
    int r = blockIdx.y * transpose_TILE + threadIdx.y;
    if (c < w && r < h)
        tile[threadIdx.y][threadIdx.x] = x[r * w + c];
    __syncthreads();
    c = blockIdx.y * transpose_TILE + threadIdx.x;
    r = blockIdx.x * transpose_TILE + threadIdx.y;
    if (c < h && r < w)
        y[r * h + c] = tile[threadIdx.x][threadIdx.y];
}
""", (3, 2), (16, 16), ["float[1200]=range", "float[1200]", 40, 30]),
    Launched("matmul", """
#define matmul_T 8
__global__ void matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float sa[matmul_T][matmul_T], sb[matmul_T][matmul_T];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * matmul_T + ty, col = blockIdx.x * matmul_T + tx;
    float sum = 0.0f;
    for (int k = 0; k < n; k += matmul_T) {
        sa[ty][tx] = row < n && k + tx < n ? a[row * n + k + tx] : 0.0f;
        sb[ty][tx] = k + ty < n && col < n ? b[(k + ty) * n + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < matmul_T; i++)
            sum += sa[ty][i] * sb[i][tx];
        __syncthreads();
    }
    if (row < n && col < n)
        c[row * n + col] = sum;
}
""", (3, 3), (8, 8), ["float[400]=random", "float[400]=random", "float[400]", 20]),
    Launched("softmax", """
__device__ __forceinline__ float softmax_max(float v) {
    for (int o = 16; o > 0; o >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
    return v;
}
__device__ __forceinline__ float softmax_sum(float v) {
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}
__global__ void softmax(const float *x, float *y, int columns) {
    __shared__ float most[32], total[32];
    const float *row = x + blockIdx.x * columns;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    float m = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        m = fmaxf(m, row[i]);
    m = softmax_max(m);
    if (lane == 0)
        most[warp] = m;
    __syncthreads();
    m = softmax_max(lane < warps ? most[lane] : -INFINITY);
    float s = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        s += __expf(row[i] - m);
    s = softmax_sum(s);
    if (lane == 0)
        total[warp] = s;
    __syncthreads();
    s = softmax_sum(lane < warps ? total[lane] : 0.0f);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[blockIdx.x * columns + i] = __expf(row[i] - m) / s;
}
""", 3, 96, ["float[600]=random", "float[600]", 200]),
    Launched("stencil", """
#define stencil_R 2
#define stencil_B 64
__global__ void stencil(const float *x, float *y, int n) {
    __shared__ float s[stencil_B + 2 * stencil_R];
    int g = blockIdx.x * stencil_B + threadIdx.x, l = threadIdx.x + stencil_R;
    s[l] = g < n ? x[g] : 0.0f;
    if (threadIdx.x < stencil_R) {
        s[l - stencil_R] = g >= stencil_R ? x[g - stencil_R] : 0.0f;
        s[l + stencil_B] = g + stencil_B < n ? x[g + stencil_B] : 0.0f;
    }
    __syncthreads();
    if (g < n) {
        float sum = 0;
        for (int o = -stencil_R; o <= stencil_R; o++)
            sum += s[l + o];
        y[g] = sum;
    }
}
""", 4, 64, ["float[250]=random", "float[250]", 250]),
    Launched("histogram", """
__global__ void histogram(const unsigned char *x, unsigned *bins, int n) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[x[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (local[i])
            atomicAdd(&bins[i], local[i]);
}
""", 3, 64, ["uchar[1000]=random", "unsigned[256]=0", 1000]),
    Launched("scan", """
__global__ void scan(const int *x, int *y, int n) {
    __shared__ int buffer[2][128];
    int t = threadIdx.x, in = 0;
    buffer[0][t] = t < n ? x[t] : 0;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        buffer[1 - in][t] = buffer[in][t] + (t >= d ? buffer[in][t - d] : 0);
        in = 1 - in;
        __syncthreads();
    }
    if (t < n)
        y[t] = buffer[in][t];
}
""", 1, 128, ["int[100]=range", "int[100]", 100]),
    Launched("blelloch", """
__global__ void blelloch(const float *x, float *y, int n) {
    extern __shared__ float temp[];
    int t = threadIdx.x, offset = 1;
    temp[2 * t] = x[2 * t];
    temp[2 * t + 1] = x[2 * t + 1];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d)
            temp[offset * (2 * t + 2) - 1] += temp[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0)
        temp[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            float v = temp[a];
            temp[a] = temp[b];
            temp[b] += v;
        }
    }
    __syncthreads();
    y[2 * t] = temp[2 * t];
    y[2 * t + 1] = temp[2 * t + 1];
}
""", 1, 64, ["float[128]=random", "float[128]", 128], 512),
    Launched("layernorm", """
__device__ float layernorm_total(float v, float *shared) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int o = 16; o; o >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, o);
    __syncthreads();
    if (lane == 0)
        shared[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = lane < blockDim.x / 32 ? shared[lane] : 0.0f;
        for (int o = 16; o; o >>= 1)
            v += __shfl_down_sync(0xffffffffu, v, o);
        if (lane == 0)
            shared[0] = v;
    }
    __syncthreads();
    return shared[0];
}
__global__ void layernorm(const float *x, const float *g, const float *b, float *y, int n,
                          float eps) {
    __shared__ float sums[32];
    const float *row = x + (size_t)blockIdx.x * n;
    float sum = 0, square = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += row[i];
    float mean = layernorm_total(sum, sums) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        square += (row[i] - mean) * (row[i] - mean);
    float scale = rsqrtf(layernorm_total(square, sums) / n + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[(size_t)blockIdx.x * n + i] = (row[i] - mean) * scale * g[i] + b[i];
}
""", 2, 64, ["float[200]=random", "float[100]=1", "float[100]=0", "float[200]", 100, 1e-5]),
    Launched("vectoradd", """
__global__ void vectoradd(const float *x, const float *y, float *z, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n) {
        float4 a = *reinterpret_cast<const float4 *>(x + i);
        float4 b = __ldg((const float4 *)(y + i));
        *(float4 *)(z + i) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    } else {
        for (; i < n; i++)
            z[i] = x[i] + y[i];
    }
}
""", 2, 32, ["float[230]=random", "float[230]=random", "float[230]", 230]),
    Launched("convolution", """
__constant__ float convolution_scale = 0.5f;
__global__ void convolution(const float *x, const float *w, float *y, int n, int k) {
    extern __shared__ float shared[];
    float *sx = shared, *sw = shared + blockDim.x + k - 1;
    int first = blockIdx.x * blockDim.x, t = threadIdx.x;
    for (int i = t; i < blockDim.x + k - 1; i += blockDim.x)
        sx[i] = first + i < n ? x[first + i] : 0.0f;
    for (int i = t; i < k; i += blockDim.x)
        sw[i] = w[i] * convolution_scale;
    __syncthreads();
    float taps[4] = {0, 0, 0, 0};
    for (int i = 0; i < k; i++)
        taps[i % 4] += sx[t + i] * sw[i];
    if (first + t <= n - k)
        y[first + t] = taps[0] + taps[1] + taps[2] + taps[3];
}
""", 4, 32, ["float[110]=random", "float[7]=random", "float[104]", 110, 7], 4 * (32 + 6 + 7)),
    Launched("lastblock", """
__device__ unsigned lastblock_count = 0;
__global__ void lastblock(const float *x, float *partial, float *y, int n) {
    __shared__ float s[64];
    __shared__ bool last;
    int t = threadIdx.x;
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += blockDim.x * gridDim.x)
        v += x[i];
    s[t] = v;
    __syncthreads();
    for (int d = 32; d > 0; d /= 2) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) {
        partial[blockIdx.x] = s[0];
        __threadfence();
        unsigned ticket = atomicInc(&lastblock_count, gridDim.x);
        last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        float sum = 0;
        if (t == 0) {
            for (int i = 0; i < gridDim.x; i++)
                sum += partial[i];
            *y = sum;
        }
    }
}
""", 5, 64, ["float[1000]=random", "float[5]", "float[1]", 1000]),
    Launched("bitonic", """
__global__ void bitonic(int *keys) {
    __shared__ int s[128];
    unsigned t = threadIdx.x;
    s[t] = keys[blockIdx.x * 128 + t];
    for (unsigned k = 2; k <= 128; k <<= 1) {
        for (unsigned j = k >> 1; j > 0; j >>= 1) {
            __syncthreads();
            unsigned o = t ^ j;
            if (o > t) {
                bool up = (t & k) == 0;
                if ((s[t] > s[o]) == up) {
                    int v = s[t];
                    s[t] = s[o];
                    s[o] = v;
                }
            }
        }
    }
    __syncthreads();
    keys[blockIdx.x * 128 + t] = s[t];
}
""", 2, 128, ["int[256]=random"]),
    Launched("warpsum", """
__global__ void warpsum(const float *x, float *y) {
    __shared__ float s[4][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    s[warp][lane] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncwarp();
    for (int d = 16; d > 0; d >>= 1) {
        float v = 0;
        if (lane < d)
            v = s[warp][lane + d];
        __syncwarp();
        if (lane < d)
            s[warp][lane] += v;
        __syncwarp();
    }
    if (lane == 0)
        y[blockIdx.x * 4 + warp] = s[warp][0];
}
""", 2, 128, ["float[256]=random", "float[8]"]),
]  # fmt: skip

HONEST = [
    Launched("grid3", """
__global__ void grid3(float *y, int nx, int ny, int nz) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.z * blockDim.z + threadIdx.z;
    if (i >= nx || j >= ny || k >= nz) return;
    y[(k * ny + j) * nx + i] = i + j + k;
}
""", (2, 2, 2), (4, 4, 2), ["float[120]", 6, 5, 4]),
    Launched("templated", """
template <typename T, int N>
__global__ void templated(const T *x, T *y) {
    __shared__ T s[N];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[N - 1 - threadIdx.x];
}
""", 1, 64, ["double[64]=random", "double[64]"], template="<double, 64>"),
    Launched("halves", """
#include <cuda_fp16.h>
__global__ void halves(const __half *x, __half *y, const __half2 *p, __half2 *q, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = __hadd(x[i], __float2half(1.0f));
    if (i < n / 2) q[i] = __hfma2(p[i], p[i], p[i]);
}
""", 1, 32, ["half[30]=random", "half[30]", "half2[15]=random", "half2[15]", 30]),
    Launched("spinlock", """
__device__ int spinlock_held = 0;
__global__ void spinlock(int *count) {
    if (threadIdx.x == 0) {
        while (atomicCAS(&spinlock_held, 0, 1) != 0) {}
        __threadfence();
        count[0] = count[0] + 1;
        count[1] = count[1] + blockIdx.x;
        __threadfence();
        atomicExch(&spinlock_held, 0);
    }
}
""", 4, 32, ["int[2]=0"]),
    Launched("blocklock", """
__global__ void blocklock(int *count) {
    __shared__ int held, sum;
    if (threadIdx.x == 0) held = 0, sum = 0;
    __syncthreads();
    bool done = false;
    while (!done) {
        if (atomicCAS(&held, 0, 1) == 0) {
            __threadfence_block();
            sum += threadIdx.x;
            __threadfence_block();
            atomicExch(&held, 0);
            done = true;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) *count = sum;
}
""", 1, 64, ["int[1]"]),
    Launched("fencedbyall", """
__device__ unsigned fencedbyall_done;
__global__ void fencedbyall(int *part, int *total) {
    __shared__ int last;
    part[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(&fencedbyall_done, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        int sum = 0;
        for (int b = 0; b < gridDim.x; b++)
            sum += part[b * blockDim.x + threadIdx.x];
        total[threadIdx.x] = sum;
    }
}
""", 4, 32, ["int[128]", "int[32]"]),
    Launched("compaction", """
__global__ void compaction(const int *x, int *y, int *count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    bool keep = i < n && x[i] % 3 == 0;
    unsigned who = __ballot_sync(0xffffffff, keep);
    int base = 0;
    if (lane == 0) base = atomicAdd(count, __popc(who));
    base = __shfl_sync(0xffffffff, base, 0);
    if (keep) y[base + __popc(who & ((1u << lane) - 1))] = x[i];
}
""", 2, 64, ["int[100]=range", "int[100]=0", "int[1]=0", 100]),
    Launched("aggregated", """
__global__ void aggregated(const int *x, int *count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 20) {
        unsigned active = __activemask();
        int leader = __ffs(active) - 1;
        if ((threadIdx.x & 31) == leader) atomicAdd(count, __popc(active));
    }
}
""", 2, 64, ["int[100]=range", "int[1]=0", 100]),
    Launched("partialmask", """
__global__ void partialmask(const float *x, float *y) {
    float v = 0;
    if (threadIdx.x < 16) {
        v = x[threadIdx.x];
        for (int o = 8; o > 0; o >>= 1) v += __shfl_down_sync(0x0000ffffu, v, o);
    }
    if (threadIdx.x == 0) *y = v;
}
""", 1, 64, ["float[16]=1", "float[1]"]),
    Launched("counted", """
__global__ void counted(const int *x, int *y) {
    int c = __syncthreads_count(x[threadIdx.x] > 10);
    int a = __syncthreads_or(x[threadIdx.x] > 1000);
    if (threadIdx.x == 0) y[0] = c + a;
}
""", 1, 48, ["int[48]=range", "int[1]"]),
    Launched("structured", """
struct structured_Pair { int offset; float scale; };
__global__ void structured(const float *x, structured_Pair p, float *y) {
    y[threadIdx.x] = x[threadIdx.x + p.offset] * p.scale;
}
""", 1, 32, ["float[40]=1", b"\x08\0\0\0\0\0\0\x40", "float[32]"]),
    Launched("particles", """
struct particles_P { float x, y, z; int cell; };
__global__ void particles(particles_P *p, int n, float dt) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    particles_P q = p[i];
    q.x += dt * q.y;
    q.cell = (int)floorf(q.x);
    p[i] = q;
}
""", 2, 32, ["float[200]=random", 50, 0.1]),
    Launched("doubled", """
__global__ void doubled(const float *x, float *y, int steps) {
    __shared__ float buffer[2][32];
    int t = threadIdx.x;
    buffer[0][t] = x[t];
    __syncthreads();
    float sum = 0;
    for (int s = 0; s < steps; s++) {
        if (s + 1 < steps) buffer[(s + 1) & 1][t] = x[(s + 1) * 32 + t];
        sum += buffer[s & 1][31 - t];
        __syncthreads();
    }
    y[t] = sum;
}
""", 1, 32, ["float[128]=random", "float[32]", 4]),
    Launched("partitioned", """
__global__ void partitioned(const double *x, double *y) {
    extern __shared__ __align__(16) unsigned char raw[];
    double *d = (double *)raw;
    int *order = (int *)(raw + 32 * sizeof(double));
    int t = threadIdx.x;
    d[t] = x[t];
    order[t] = 31 - t;
    __syncthreads();
    y[t] = d[order[t]];
}
""", 1, 32, ["double[32]=random", "double[32]"], 384),
    Launched("outershared", """
extern __shared__ int outershared_s[];
__device__ void outershared_put(int v) { outershared_s[threadIdx.x] = v; }
__global__ void outershared(int *y) {
    outershared_put(threadIdx.x);
    __syncthreads();
    y[threadIdx.x] = outershared_s[blockDim.x - 1 - threadIdx.x];
}
""", 1, 64, ["int[64]"], 256),
    Launched("ranked", """
__global__ void ranked(const int *x, unsigned *y) {
    int v = x[threadIdx.x] % 4;
    unsigned same = __match_any_sync(0xffffffff, v);
    y[threadIdx.x] = __popc(same) + __reduce_add_sync(0xffffffff, 1u);
}
""", 1, 64, ["int[64]=range", "unsigned[64]"]),
    Launched("lookback", """
__device__ unsigned lookback_next;
__global__ void lookback(const int *x, int *y, volatile int *flag, volatile int *sums) {
    __shared__ unsigned tile;
    if (threadIdx.x == 0) tile = atomicAdd(&lookback_next, 1);
    __syncthreads();
    unsigned b = tile;
    if (threadIdx.x == 0) {
        int before = 0;
        if (b > 0) {
            while (flag[b - 1] == 0) {}
            __threadfence();
            before = sums[b - 1];
        }
        sums[b] = before + x[b];
        __threadfence();
        flag[b] = 1;
        y[b] = before;
    }
}
""", 4, 32, ["int[4]=range", "int[4]", "int[4]=0", "int[4]=0"]),
    Launched("earlyreturn", """
__global__ void __launch_bounds__(64) earlyreturn(const float *x, float *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = v > 0.f ? v : 0.01f * v;
}
""", 2, 64, ["float[100]=random", "float[100]", 100]),
    Launched("stacked", """
__device__ void stacked_sort(float *a, int n) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && a[j - 1] > a[j]; j--) {
            float t = a[j]; a[j] = a[j - 1]; a[j - 1] = t;
        }
}
__global__ void stacked(const float *x, float *y) {
    float w[9];
    for (int i = 0; i < 9; i++) w[i] = x[threadIdx.x + i];
    stacked_sort(w, 9);
    y[threadIdx.x] = w[4];
}
""", 1, 32, ["float[40]=random", "float[32]"]),
    Launched("colored", """
__global__ void colored(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int color = 0; color < 2; color++) {
        if (i < n && i % 2 == color) {
            float left = i > 0 ? x[i - 1] : 0.0f, right = i + 1 < n ? x[i + 1] : 0.0f;
            x[i] = 0.5f * (left + right);
        }
        __syncthreads();
    }
}
""", 1, 128, ["float[100]=random", 100]),
    Launched("sharedatomics", """
__global__ void sharedatomics(const float *x, float *most, int *where) {
    __shared__ int best;
    if (threadIdx.x == 0) best = INT_MIN;
    __syncthreads();
    atomicMax(&best, __float_as_int(x[threadIdx.x]));
    __syncthreads();
    if (threadIdx.x == 0) *most = __int_as_float(best);
    if (__float_as_int(x[threadIdx.x]) == best) atomicExch(where, threadIdx.x);
}
""", 1, 64, ["float[64]=random", "float[1]", "int[1]=0"]),
    Launched("grouped", """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
__global__ void grouped(const float *x, float *y, int *count) {
    namespace cg = cooperative_groups;
    __shared__ float s[2];
    cg::thread_block cta = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cta);
    float v = cg::reduce(warp, x[cta.thread_rank()], cg::plus<float>());
    if (warp.thread_rank() == 0)
        s[warp.meta_group_rank()] = v;
    cg::sync(cta);
    auto half = cg::tiled_partition<16>(warp);
    float w = s[0] + s[1];
    for (int o = half.size() / 2; o > 0; o /= 2)
        w += half.shfl_down(w, o);
    if (threadIdx.x == 0)
        *y = w;
    if (x[threadIdx.x] > 0) {
        cg::coalesced_group together = cg::coalesced_threads();
        if (together.thread_rank() == 0)
            atomicAdd(count, together.size());
    }
}
""", 1, 64, ["float[64]=random", "float[1]", "int[1]=0"]),
    Launched("launcher", """
#include <cuda_runtime.h>
#include <cstdio>
#define launcher_CHECK(x) do { cudaError_t e = (x); if (e) printf("failed\\n"); } while (0)
__global__ void launcher(float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i;
}
void launcher_run(float *y, int n) {
    launcher<<<(n + 31) / 32, 32>>>(y, n);
    launcher_CHECK(cudaDeviceSynchronize());
}
""", 2, 32, ["float[50]", 50]),
]  # fmt: skip
