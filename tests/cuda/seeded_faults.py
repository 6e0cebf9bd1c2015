"""Faults put into right kernels: what changes in the text, and what has to be found where."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """A changed kernel.

    Attributes:
        base: the kernel it is put into.
        name: unique in that kernel.
        old, new: what is replaced, once.
        kind: of the finding.
        lines: begins of the lines of which one has to be named; of a race, both are its accesses.
    """

    base: str
    name: str
    old: str
    new: str
    kind: str
    lines: tuple[str, ...]


FAULTS = [
    # Races: a barrier, a fence or an atomic is missing.
    Fault(
        "reduction",
        "no_first_barrier",
        "    partial[t] = sum;\n    __syncthreads();",
        "    partial[t] = sum;",
        "race",
        (
            "    partial[t] = sum",
            "            partial[t] += ",
        ),
    ),
    Fault(
        "reduction",
        "no_loop_barrier",
        "            partial[t] += partial[t + s];\n        __syncthreads();",
        "            partial[t] += partial[t + s];",
        "race",
        ("            partial[t] += ",),
    ),
    Fault(
        "transpose",
        "no_barrier",
        "    __syncthreads();\n    c =",
        "    c =",
        "race",
        (
            "        tile[threadIdx.y]",
            "        y[r * h + c] =",
        ),
    ),
    Fault(
        "matmul",
        "no_second_barrier",
        "            sum += sa[ty][i] * sb[i][tx];\n        __syncthreads();",
        "            sum += sa[ty][i] * sb[i][tx];",
        "race",
        (
            "        sa[ty][tx] =",
            "        sb[ty][tx] =",
        ),
    ),
    Fault(
        "matmul",
        "no_first_barrier",
        "0.0f;\n        __syncthreads();\n        for",
        "0.0f;\n        for",
        "race",
        ("            sum += sa",),
    ),
    Fault(
        "softmax",
        "no_barrier",
        "        most[warp] = m;\n    __syncthreads();",
        "        most[warp] = m;",
        "race",
        (
            "        most[warp] = m",
            "    m = softmax_max(lane",
        ),
    ),
    Fault(
        "softmax",
        "one_array",
        (
            "        total[warp] = s;\n"
            "    __syncthreads();\n"
            "    s = softmax_sum(lane < warps ? total[lane]"
        ),
        (
            "        most[warp] = s;\n"
            "    __syncthreads();\n"
            "    s = softmax_sum(lane < warps ? most[lane]"
        ),
        "race",
        (
            "        most[warp] = s",
            "    m = softmax_max(lane",
        ),
    ),
    Fault(
        "stencil",
        "no_barrier",
        "    }\n    __syncthreads();\n    if (g < n) {",
        "    }\n    if (g < n) {",
        "race",
        (
            "            sum += s[l + o]",
            "    s[l] =",
        ),
    ),
    Fault(
        "histogram",
        "not_atomic",
        "        atomicAdd(&local[x[i]], 1);",
        "        local[x[i]] += 1;",
        "race",
        ("        local[x[i]] += 1",),
    ),
    Fault(
        "histogram",
        "not_atomic_global",
        "            atomicAdd(&bins[i], local[i]);",
        "            bins[i] += local[i];",
        "race",
        ("            bins[i] +=",),
    ),
    Fault(
        "histogram",
        "no_barrier",
        "        local[i] = 0;\n    __syncthreads();",
        "        local[i] = 0;",
        "race",
        (
            "        local[i] = 0",
            "        atomicAdd(&local",
        ),
    ),
    Fault(
        "scan",
        "one_buffer",
        "buffer[1 - in][t] = buffer[in][t] +",
        "buffer[in][t] = buffer[in][t] +",
        "race",
        (
            "        buffer[in][t] =",
            "    buffer[0][t] =",
        ),
    ),
    Fault(
        "blelloch",
        "no_barrier",
        "d >>= 1) {\n        __syncthreads();",
        "d >>= 1) {",
        "race",
        ("            temp[offset",),
    ),
    Fault(
        "blelloch",
        "barrier_after",
        "        offset >>= 1;\n        __syncthreads();",
        "        offset >>= 1;",
        "race",
        (
            "            float v =",
            "            temp[a]",
            "            temp[b]",
            "        temp[n - 1]",
        ),
    ),
    Fault(
        "layernorm",
        "no_barrier",
        "            shared[0] = v;\n    }\n    __syncthreads();",
        "            shared[0] = v;\n    }",
        "race",
        (
            "            shared[0] = v",
            "    return shared[0]",
        ),
    ),
    Fault(
        "layernorm",
        "reused_early",
        "o);\n    __syncthreads();\n    if (lane == 0)\n        shared[warp]",
        "o);\n    if (lane == 0)\n        shared[warp]",
        "race",
        (
            "        shared[warp] = v",
            "    return shared[0]",
        ),
    ),
    Fault(
        "lastblock",
        "no_fence",
        "        __threadfence();\n",
        "",
        "race",
        (
            "        partial[blockIdx.x] =",
            "                sum += partial",
        ),
    ),
    Fault(
        "lastblock",
        "fence_first",
        "        partial[blockIdx.x] = s[0];\n        __threadfence();",
        "        __threadfence();\n        partial[blockIdx.x] = s[0];",
        "race",
        (
            "        partial[blockIdx.x] =",
            "                sum += partial",
        ),
    ),
    Fault(
        "bitonic",
        "no_barrier",
        "j >>= 1) {\n            __syncthreads();",
        "j >>= 1) {",
        "race",
        (
            "                if ((s[t]",
            "                    int v",
            "                    s[",
            "    s[t] = keys",
        ),
    ),
    Fault(
        "warpsum",
        "in_step",
        "            s[warp][lane] += v;\n        __syncwarp();",
        "            s[warp][lane] += v;",
        "race",
        (
            "            s[warp][lane] += v",
            "            v = s[warp]",
        ),
    ),
    Fault(
        "warpsum",
        "no_first_sync",
        "threadIdx.x];\n    __syncwarp();",
        "threadIdx.x];",
        "race",
        (
            "    s[warp][lane] =",
            "            v = s[warp]",
        ),
    ),
    Fault(
        "warpsum",
        "shared_slot",
        "    s[warp][lane] = x",
        "    s[0][lane] = x",
        "race",
        ("    s[0][lane] =",),
    ),
    Fault(
        "reduction",
        "one_result",
        "        y[blockIdx.x] = partial[0];",
        "        y[0] = partial[0];",
        "race",
        ("        y[0] =",),
    ),
    # Indices out of bounds.
    Fault(
        "reduction",
        "one_too_many",
        "i < n; i +=",
        "i <= n; i +=",
        "bounds",
        ("        sum += x[i]",),
    ),
    Fault(
        "transpose",
        "no_test",
        "    if (c < w && r < h)\n",
        "",
        "bounds",
        ("        tile[threadIdx.y]",),
    ),
    Fault(
        "transpose",
        "narrow_tile",
        "tile[transpose_TILE][transpose_TILE + 1]",
        "tile[transpose_TILE][transpose_TILE - 1]",
        "bounds",
        ("        tile[threadIdx.y]",),
    ),
    Fault(
        "matmul",
        "row_only",
        "    if (row < n && col < n)\n        c[",
        "    if (row <= n && col < n)\n        c[",
        "bounds",
        ("        c[row * n + col]",),
    ),
    Fault(
        "stencil",
        "no_left_edge",
        "g >= stencil_R ? x[g - stencil_R] : 0.0f",
        "x[g - stencil_R]",
        "bounds",
        ("        s[l - stencil_R] =",),
    ),
    Fault(
        "stencil",
        "small_halo",
        "s[stencil_B + 2 * stencil_R]",
        "s[stencil_B + stencil_R]",
        "bounds",
        ("        s[l + stencil_B] =",),
    ),
    Fault(
        "histogram",
        "few_bins",
        "local[256]",
        "local[64]",
        "bounds",
        ("        local[i] = 0",),
    ),
    Fault(
        "blelloch",
        "off_by_one",
        "offset * (2 * t + 2) - 1] +=",
        "offset * (2 * t + 2)] +=",
        "bounds",
        ("            temp[offset",),
    ),
    Fault(
        "convolution",
        "wide_taps",
        "taps[i % 4]",
        "taps[i % 5]",
        "bounds",
        ("        taps[i % 5]",),
    ),
    Fault(
        "convolution",
        "too_little_shared",
        "sw = shared + blockDim.x + k - 1",
        "sw = shared + blockDim.x + k + 1",
        "bounds",
        ("        sw[i] =",),
    ),
    Fault(
        "layernorm",
        "wrong_stride",
        "y[(size_t)blockIdx.x * n + i]",
        "y[(size_t)(blockIdx.x + 1) * n + i]",
        "bounds",
        ("        y[(size_t)(",),
    ),
    Fault(
        "vectoradd",
        "tail",
        "    if (i + 3 < n) {",
        "    if (i < n) {",
        "bounds",
        (
            "        float4 a =",
            "        float4 b =",
            "        *(float4",
        ),
    ),
    Fault(
        "bitonic",
        "partner",
        "unsigned o = t ^ j;",
        "unsigned o = t + j;",
        "bounds",
        ("                if ((s[t]",),
    ),
    # Barriers and shuffles that some threads miss.
    Fault(
        "reduction",
        "barrier_inside",
        "        if (t < s)\n            partial[t] += partial[t + s];\n        __syncthreads();",
        (
            "        if (t < s) {\n"
            "            partial[t] += partial[t + s];\n"
            "            __syncthreads();\n"
            "        }"
        ),
        "barrier",
        ("            __syncthreads",),
    ),
    Fault(
        "transpose",
        "barrier_inside",
        "        tile[threadIdx.y][threadIdx.x] = x[r * w + c];\n    __syncthreads();",
        (
            "    {\n"
            "        tile[threadIdx.y][threadIdx.x] = x[r * w + c];\n"
            "        __syncthreads();\n"
            "    }"
        ),
        "barrier",
        ("        __syncthreads",),
    ),
    Fault(
        "stencil",
        "returns_before",
        "    __syncthreads();",
        "    if (g >= n) return;\n    __syncthreads();",
        "barrier",
        ("    __syncthreads",),
    ),
    Fault(
        "scan",
        "differing_turns",
        "d < 128;",
        "d < t;",
        "barrier",
        ("        __syncthreads",),
    ),
    Fault(
        "softmax",
        "lanes_missing",
        "    m = softmax_max(m);",
        "    if (lane < 20)\n        m = softmax_max(m);",
        "barrier",
        ("        v = fmaxf",),
    ),
    Fault(
        "softmax",
        "narrow_mask",
        "        v += __shfl_xor_sync(0xffffffff, v, o);",
        "        v += __shfl_xor_sync(0x0000ffff, v, o);",
        "barrier",
        ("        v += __shfl",),
    ),
    Fault(
        "layernorm",
        "half_warp",
        "    if (warp == 0) {",
        "    if (warp == 0 && lane < 16) {",
        "barrier",
        ("            v += __shfl",),
    ),
    Fault(
        "warpsum",
        "narrow_mask",
        "threadIdx.x];\n    __syncwarp();",
        "threadIdx.x];\n    __syncwarp(0xffff);",
        "barrier",
        ("    __syncwarp(0xffff)",),
    ),
    # Memory that nobody wrote.
    Fault(
        "reduction",
        "part_only",
        "    partial[t] = sum;",
        "    if (t < 100) partial[t] = sum;",
        "uninitialised",
        ("            partial[t] +=",),
    ),
    Fault(
        "matmul",
        "edge",
        "        sa[ty][tx] = row < n && k + tx < n ? a[row * n + k + tx] : 0.0f;",
        "        if (row < n && k + tx < n) sa[ty][tx] = a[row * n + k + tx];",
        "uninitialised",
        ("            sum += sa",),
    ),
    Fault(
        "softmax",
        "all_lanes",
        "lane < warps ? total[lane] : 0.0f",
        "total[lane]",
        "uninitialised",
        ("    s = softmax_sum(total",),
    ),
    Fault(
        "histogram",
        "not_cleared",
        "        local[i] = 0;\n",
        "        ;\n",
        "uninitialised",
        ("        atomicAdd(&local",),
    ),
    Fault(
        "stencil",
        "no_right_halo",
        "        s[l + stencil_B] = g + stencil_B < n ? x[g + stencil_B] : 0.0f;\n",
        "",
        "uninitialised",
        ("            sum += s[l + o]",),
    ),
    Fault(
        "reduction",
        "no_start",
        "    float sum = 0;",
        "    float sum;",
        "uninitialised",
        (
            "        sum += x[i]",
            "    float sum;",
            "    partial[t] =",
        ),
    ),
    Fault(
        "convolution",
        "last_result",
        "first + t <= n - k",
        "first + t < n - k",
        "uninitialised",
        ("        y[first + t] =",),
    ),
    # Vectors at odd places.
    Fault(
        "vectoradd",
        "shifted",
        "reinterpret_cast<const float4 *>(x + i)",
        "reinterpret_cast<const float4 *>(x + i + 1)",
        "misaligned",
        ("        float4 a =",),
    ),
    Fault(
        "vectoradd",
        "shifted_load",
        "__ldg((const float4 *)(y + i))",
        "__ldg((const float4 *)(y + i - 2))",
        "misaligned",
        ("        float4 b =",),
    ),
    # No end.
    Fault(
        "scan",
        "no_end",
        "d *= 2) {",
        "d *= 1) {",
        "hang",
        (
            "        buffer[1",
            "        __syncthreads",
            "        in =",
            "    for (int d",
        ),
    ),
]
