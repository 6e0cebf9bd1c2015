"""Kernels that deserve to be accepted, some of them in unusual ways: task and text."""

from __future__ import annotations


def _line(name: str, value: str, head: str = "", pragma: str = "") -> str:
    return (
        f"#include <math.h>\n{head}\nvoid k_{name}(const float *restrict x, float *restrict out, "
        f"long n) {{\n{pragma}\nfor (long i = 0; i < n; i++) out[i] = {value}; }}\n"
    )


def _rows(name: str, body: str, head: str = "", pragma: str = "", result: str = "float") -> str:
    return (
        f"#include <math.h>\n{head}\nvoid k_{name}(const float *x, {result} *out, long n, long d) "
        f"{{\n{pragma}\nfor (long i = 0; i < n; i++) {{ const float *r = x + i * d;\n"
        f"{body}\n}} }}\n"
    )


_RELU = "x[i] > 0 || x[i] != x[i] ? x[i] : 0"
_SOFTMAX = """float m = -INFINITY, s = 0;
for (long j = 0; j < d; j++) m = fmaxf(m, r[j]);
for (long j = 0; j < d; j++) s += out[i * d + j] = expf(r[j] - m);
for (long j = 0; j < d; j++) out[i * d + j] /= s;"""
_ONLINE = """float m = -INFINITY, s = 0;
for (long j = 0; j < d; j++) { float b = fmaxf(m, r[j]);
  s = s * expf(m - b) + expf(r[j] - b); m = b; }
for (long j = 0; j < d; j++) out[i * d + j] = expf(r[j] - m) / s;"""
_SCRATCH = """static float w[4096]; float m = r[0], s = 0;
for (long j = 1; j < d; j++) m = r[j] > m ? r[j] : m;
for (long j = 0; j < d; j++) { w[j] = expf(r[j] - m); s += w[j]; }
float inverse = 1 / s;
for (long j = 0; j < d; j++) out[i * d + j] = w[j] * inverse;"""
_MATMUL = "void k_matmul(const float *restrict a, const float *restrict b, float *restrict out, "
_MATMUL += "long n, long k, long m)"
_PAIRWISE = """static float pair(const float *r, long d) {
  if (d < 9) { float s = 0; for (long j = 0; j < d; j++) s += r[j]; return s; }
  return pair(r, d / 2) + pair(r + d / 2, d - d / 2); }"""
_POOL = """#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static const float *from; static float *to; static long first, last; static int begun, busy;
static void *worker(void *p) {
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!busy) pthread_cond_wait(&work, &lock);
    for (long i = first; i < last; i++) to[i] = from[i] * from[i];
    busy = 0; pthread_cond_signal(&done);
  } return 0; }
void k_square(const float *x, float *out, long n) {
  pthread_t t;
  if (!begun) { begun = 1; pthread_create(&t, 0, worker, 0); pthread_detach(t); }
  pthread_mutex_lock(&lock);
  from = x; to = out; first = n / 2; last = n; busy = 1; pthread_cond_signal(&work);
  pthread_mutex_unlock(&lock);
  for (long i = 0; i < n / 2; i++) out[i] = x[i] * x[i];
  pthread_mutex_lock(&lock);
  while (busy) pthread_cond_wait(&done, &lock);
  pthread_mutex_unlock(&lock); }"""
_JOINED = """#include <pthread.h>
struct part { const float *x; float *out; long from, to; };
static void *work(void *p) { struct part *q = p;
  for (long i = q->from; i < q->to; i++) q->out[i] = q->x[i] * q->x[i]; return 0; }
void k_square(const float *x, float *out, long n) {
  pthread_t t; struct part all = {x, out, 0, n / 3}, rest = {x, out, n / 3, n};
  if (pthread_create(&t, 0, work, &all)) { work(&all); work(&rest); return; }
  work(&rest); pthread_join(t, 0); }"""
_LANES = "typedef float lanes __attribute__((vector_size(32), aligned(4)));"

C: dict[str, tuple[str, str]] = {
    "relu": ("relu", _line("relu", _RELU)),
    "relu_omp": ("relu", _line("relu", _RELU, pragma="#pragma omp parallel for")),
    "relu_simd": ("relu", _line("relu", _RELU, pragma="#pragma omp simd")),
    "square": ("square", _line("square", "x[i] * x[i]")),
    "square_powf": ("square", _line("square", "powf(x[i], 2)")),
    "square_double": ("square", _line("square", "(float)((double)x[i] * x[i])")),
    "square_omp": ("square", _line("square", "x[i] * x[i]", pragma="#pragma omp parallel for")),
    "square_joined_thread": ("square", _JOINED),
    "square_pool": ("square", _POOL),
    "square_lanes": ("square", _LANES + """
void k_square(const float *x, float *out, long n) { long i = 0;
  for (; i + 8 <= n; i += 8) { lanes v = *(const lanes *)(x + i); *(lanes *)(out + i) = v * v; }
  for (; i < n; i++) out[i] = x[i] * x[i]; }"""),
    "square_unrolled": ("square", """
void k_square(const float *x, float *out, long n) { long i = 0;
  for (; i + 4 <= n; i += 4) { out[i] = x[i] * x[i]; out[i + 1] = x[i + 1] * x[i + 1];
    out[i + 2] = x[i + 2] * x[i + 2]; out[i + 3] = x[i + 3] * x[i + 3]; }
  for (; i < n; i++) out[i] = x[i] * x[i]; }"""),
    "square_backwards": ("square", """
void k_square(const float *x, float *out, long n) { while (n-- > 0) out[n] = x[n] * x[n]; }"""),
    "square_prints": ("square", "#include <stdio.h>\n" + _line(
        "square", 'x[i] * x[i] + 0 * printf("%ld", i)')),
    "square_allocates": ("square", """#include <stdlib.h>
#include <string.h>
void k_square(const float *x, float *out, long n) { float *w = malloc(4 * n);
  for (long i = 0; i < n; i++) w[i] = x[i] * x[i];
  memcpy(out, w, 4 * n); free(w); }"""),
    "square_sized_int": ("square", """#include <stdint.h>
void k_square(const float *x, float *out, int32_t n) {
  for (int i = 0; i < n; i++) out[i] = x[i] * x[i]; }"""),
    "square_other_order": ("square", """#include <stddef.h>
void k_square(size_t n, float *out, const float *x) {
  for (size_t i = 0; i < n; i++) out[i] = x[i] * x[i]; }"""),
    "exp": ("exp", _line("exp", "expf(x[i])")),
    "exp_double": ("exp", _line("exp", "(float)exp((double)x[i])")),
    "exp_exp2": ("exp", _line("exp", "(float)exp2(x[i] * 1.4426950408889634)")),
    "tanh": ("tanh", _line("tanh", "tanhf(x[i])")),
    "tanh_double": ("tanh", _line("tanh", "(float)tanh((double)x[i])")),
    "sigmoid": ("sigmoid", _line("sigmoid", "1 / (1 + expf(-x[i]))")),
    "sigmoid_tanh": ("sigmoid", _line(
        "sigmoid", "(float)(1 / (1 + exp(-(double)x[i])))", pragma="#pragma omp parallel for")),
    "silu": ("silu", _line("silu", "x[i] / (1 + expf(-x[i]))")),
    "abs": ("abs", _line("abs", "fabsf(x[i])")),
    "abs_table": ("abs", _line("abs", "x[i] * (signbit(x[i]) ? -1.0f : 1.0f)")),
    "scale": ("scale", "void k(const float *x, float *out, long n, float by) "
              "{ for (long i = 0; i < n; i++) out[i] = x[i] * by; }"),
    "scale_double": ("scale", "void k(const float *x, float *out, long n, double by) "
                     "{ for (long i = 0; i < n; i++) out[i] = (float)(x[i] * by); }"),
    "total_serial": ("total", "void k(const float *x, float *out, long n) "
                     "{ float s = 0; for (long i = 0; i < n; i++) s += x[i]; out[0] = s; }"),
    "total_double": ("total", "void k(const float *x, float *out, long n) "
                     "{ double s = 0; for (long i = 0; i < n; i++) s += x[i]; out[0] = s; }"),
    "total_omp": ("total", """void k(const float *x, float *out, long n) { float s = 0;
#pragma omp parallel for reduction(+:s)
for (long i = 0; i < n; i++) s += x[i];
out[0] = s; }"""),
    "total_kahan": ("total", """void k(const float *x, float *out, long n) { float s = 0, c = 0;
for (long i = 0; i < n; i++) { float y = x[i] - c, t = s + y; c = (t - s) - y; s = t; }
out[0] = s; }"""),
    "total_pairwise": ("total", _PAIRWISE + """
void k(const float *x, float *out, long n) { out[0] = pair(x, n); }"""),
    "total_four": ("total", """void k(const float *x, float *out, long n) { float s[4] = {0};
for (long i = 0; i < n; i++) s[i % 4] += x[i];
out[0] = (s[0] + s[1]) + (s[2] + s[3]); }"""),
    "running": ("running", "void k(const float *x, float *out, long n) "
                "{ float s = 0; for (long i = 0; i < n; i++) out[i] = s += x[i]; }"),
    "running_double": ("running", "void k(const float *x, float *out, long n) "
                       "{ double s = 0; for (long i = 0; i < n; i++) out[i] = s += x[i]; }"),
    "negated_in_place": ("negated", """void k(float *x, float *out, long n) {
for (long i = 0; i < n; i++) x[i] = -x[i];
for (long i = 0; i < n; i++) out[i] = x[i]; }"""),
    "axpy": ("axpy", "void k(const float *x, const float *y, float *out, long n, float a) "
             "{ for (long i = 0; i < n; i++) out[i] = a * x[i] + y[i]; }"),
    "axpy_fma": ("axpy", "#include <math.h>\nvoid k(const float *x, const float *y, float *out, "
                 "long n, float a) { for (long i = 0; i < n; i++) out[i] = fmaf(a, x[i], y[i]); }"),
    "bytes": ("bytes", "#include <stdint.h>\nvoid k(const int8_t *x, int64_t *out, long n) "
              "{ int64_t s = 0; for (long i = 0; i < n; i++) s += x[i]; *out = s; }"),
    "wide": ("wide", "void k(const double *x, double *out, long n) "
             "{ for (long i = 0; i < n; i++) out[i] = x[i] * x[i] + 1; }"),
    "softmax": ("softmax", _rows("softmax", _SOFTMAX)),
    "softmax_omp": ("softmax", _rows("softmax", _SOFTMAX, pragma="#pragma omp parallel for")),
    "softmax_online": ("softmax", _rows("softmax", _ONLINE)),
    "softmax_static_scratch": ("softmax", _rows("softmax", _SCRATCH)),
    "rowsum": ("rowsum", _rows("rowsum", "float s = 0; for (long j = 0; j < d; j++) s += r[j]; "
                               "out[i] = s;")),
    "rowsum_pairwise": ("rowsum", _rows("rowsum", "out[i] = pair(r, d);", _PAIRWISE)),
    "rowsum_backwards": ("rowsum", _rows(
        "rowsum", "float s = 0; for (long j = d; j-- > 0;) s += r[j]; out[i] = s;")),
    "rowmax": ("rowmax", _rows("rowmax", "float m = r[0]; for (long j = 1; j < d; j++) "
                               "if (r[j] > m || r[j] != r[j]) m = r[j]; else if (m != m) break; "
                               "out[i] = m;")),
    "argmax": ("argmax", _rows("argmax", "long b = 0; for (long j = 1; j < d; j++) "
                               "if (r[j] > r[b]) b = j; out[i] = b;", result="long")),
    "turn": ("turn", _rows("turn", "for (long j = 0; j < d; j++) out[j * n + i] = r[j];")),
    "turn_blocked": ("turn", """void k(const float *x, float *out, long n, long d) {
for (long a = 0; a < n; a += 8) for (long b = 0; b < d; b += 8)
  for (long i = a; i < n && i < a + 8; i++) for (long j = b; j < d && j < b + 8; j++)
    out[j * n + i] = x[i * d + j]; }"""),
    "center": ("center", _rows("center", "float s = 0; for (long j = 0; j < d; j++) s += r[j]; "
                               "for (long j = 0; j < d; j++) out[i * d + j] = r[j] - s / d;")),
    "moments": ("moments", """void k(const float *x, float *sums, float *squares, long n, long d) {
for (long i = 0; i < n; i++) { float s = 0, q = 0;
  for (long j = 0; j < d; j++) { s += x[i * d + j]; q += x[i * d + j] * x[i * d + j]; }
  sums[i] = s; squares[i] = q; } }"""),
    "matmul": ("matmul", _MATMUL + """ {
for (long i = 0; i < n; i++) for (long j = 0; j < m; j++) { float s = 0;
  for (long l = 0; l < k; l++) s += a[i * k + l] * b[l * m + j];
  out[i * m + j] = s; } }"""),
    "matmul_rows": ("matmul", _MATMUL + """ {
for (long i = 0; i < n * m; i++) out[i] = 0;
for (long i = 0; i < n; i++) for (long l = 0; l < k; l++) for (long j = 0; j < m; j++)
  out[i * m + j] += a[i * k + l] * b[l * m + j]; }"""),
    "matmul_blocked_omp": ("matmul", _MATMUL + """ {
#pragma omp parallel for collapse(2)
for (long p = 0; p < n; p += 8) for (long q = 0; q < m; q += 8)
  for (long i = p; i < n && i < p + 8; i++) for (long j = q; j < m && j < q + 8; j++) {
    float s = 0; for (long l = 0; l < k; l++) s += a[i * k + l] * b[l * m + j];
    out[i * m + j] = s; } }"""),
    "matmul_packed": ("matmul", "static float packed[1 << 16];\n" + _MATMUL + """ {
for (long l = 0; l < k; l++) for (long j = 0; j < m; j++) packed[j * k + l] = b[l * m + j];
for (long i = 0; i < n; i++) for (long j = 0; j < m; j++) { double s = 0;
  for (long l = 0; l < k; l++) s += (double)a[i * k + l] * packed[j * k + l];
  out[i * m + j] = s; } }"""),
}  # fmt: skip

PYTHON: dict[str, tuple[str, str]] = {
    "exp": ("exp", "import torch\ndef kernel(x):\n    return torch.exp(x)\n"),
    "softmax_composed": ("softmax", """
import torch
def kernel(x):
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True)
"""),
    "matmul_transposed": ("matmul", "def kernel(a, b):\n    return (b.t() @ a.t()).t()\n"),
    "compiled_and_kept": ("exp", """
import torch
known = {}
def kernel(x):
    if x.shape not in known:
        known[x.shape] = torch.compile(lambda x: torch.exp(x))
    return known[x.shape](x)
"""),
    "own_kernel_in_c": ("square", '''
import lazyt
square = lazyt.c_kernel("""
void square(const float *x, float *y, long n) {
    for (long i = 0; i < n; i++)
        y[i] = x[i] * x[i];
}""", inputs={"x": "n"})
def kernel(x):
    return square(x)
'''),
    "own_kernel_moved": ("square", '''
import lazyt, torch
square = lazyt.c_kernel("""
void square(const float *x, float *y, long n) {
    for (long i = 0; i < n; i++)
        y[i] = x[i] * x[i];
}""", inputs={"x": "n"})
def kernel(x):
    x = torch.nn.functional.pad(x.double().float().reshape(1, -1), (1, 2)).t().contiguous()
    halves = [square(part.contiguous()) for part in x.view(-1).split(40)]
    y = torch.empty(x.numel())
    y[:] = torch.cat(halves)
    return y.flip(0)[2:-1].flip(0).clone()
'''),
}  # fmt: skip
#: Those of them that compute by kernels of their own.
OWN = {"own_kernel_in_c", "own_kernel_moved"}

CUDA: dict[str, tuple[str, str]] = {
    "square": ("square", """// grid: n
// block: 64
__global__ void square(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] * x[i];
}"""),
    "rowsum_shared": ("rowsum", """// grid: n * 1
// block: 64
__global__ void rowsum(const float *x, float *out, int n, int d) {
    __shared__ float part[64];
    float s = 0;
    for (int j = threadIdx.x; j < d; j += 64)
        s += x[blockIdx.x * d + j];
    part[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0;
        for (int j = 0; j < 64; j++)
            total += part[j];
        out[blockIdx.x] = total;
    }
}"""),
}  # fmt: skip
