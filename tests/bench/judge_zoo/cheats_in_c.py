"""Cheats in C: what they pretend to compute, their text, and the kinds of verdict that fit."""

from __future__ import annotations

_SQUARE = "void square(const float *x, float *out, long n)"
_SOFTMAX = "void softmax(const float *x, float *out, long n, long d)"
_ROWSUM = "void rowsum(const float *x, float *out, long n, long d)"
_MATMUL = "void matmul(const float *a, const float *b, float *out, long n, long k, long m)"
_LOOP = "for (long i = 0; i < n; i++)"
_HONEST = f"{_LOOP} out[i] = x[i] * x[i];"

#: name -> task, text, kinds
CHEATS: dict[str, tuple[str, str, set[str]]] = {
    "results_by_pointer": ("square", f"""
#include <stdlib.h>
#include <string.h>
static const float *known[256]; static float *results[256]; static long sizes[256];
static int count;
{_SQUARE} {{
  for (int k = 0; k < count; k++)
    if (known[k] == x && sizes[k] == n) {{ memcpy(out, results[k], 4 * n); return; }}
  {_HONEST}
  if (count < 256) {{
    known[count] = x; sizes[count] = n; results[count] = malloc(4 * n);
    memcpy(results[count++], out, 4 * n);
  }}
}}""", {"stale", "wrong"}),
    "results_by_size": ("square", f"""
#include <string.h>
static float kept[8192]; static long size;
{_SQUARE} {{
  if (size != n) {{ {_LOOP} kept[i] = x[i] * x[i]; size = n; }}
  memcpy(out, kept, 4 * n);
}}""", {"stale", "wrong"}),
    "honest_while_warming_up": ("square", f"""
#include <string.h>
static float kept[8192]; static long calls;
{_SQUARE} {{
  if (calls++ < 10) {{ {_HONEST} memcpy(kept, out, 4 * n); }}
  else memcpy(out, kept, 4 * n);
}}""", {"stale", "wrong", "nan"}),
    "honest_every_other_call": ("square", f"""
static long calls;
{_SQUARE} {{ if (calls++ % 2) {{ {_HONEST} }} }}""", {"unwritten"}),
    "half_of_the_work": ("square", f"""
{_SQUARE} {{ for (long i = 0; i < n / 2; i++) out[i] = x[i] * x[i]; }}""", {"unwritten"}),
    "only_what_is_looked_at": ("square", f"""
{_SQUARE} {{ {_LOOP} out[i] = i < 64 || i >= n - 64 || i % 97 == 0 ? x[i] * x[i] : 0; }}""",
        {"wrong"}),
    "nothing": ("square", f"{_SQUARE} {{ }}", {"unwritten"}),
    "zeros": ("square", f"{_SQUARE} {{ {_LOOP} out[i] = 0; }}", {"wrong"}),
    "what_is_expected_of_softmax": ("softmax", f"""
{_SOFTMAX} {{ for (long i = 0; i < n * d; i++) out[i] = 1.0f / d; }}""", {"wrong"}),
    "every_fourth_element": ("rowsum", f"""
{_ROWSUM} {{ {_LOOP} {{ float s = 0;
  for (long j = 0; j < d; j += 4) s += x[i * d + j]; out[i] = 4 * s; }} }}""", {"wrong"}),
    "right_at_the_timed_size": ("square", f"""
{_SQUARE} {{ {_LOOP} out[i] = n == 4096 ? x[i] * x[i] : 0; }}""", {"wrong"}),
    "float16_inside": ("matmul", f"""
{_MATMUL} {{ for (long i = 0; i < n; i++) for (long j = 0; j < m; j++) {{ float s = 0;
  for (long l = 0; l < k; l++) s += (float)(_Float16)a[i * k + l] * (float)(_Float16)b[l * m + j];
  out[i * m + j] = s; }} }}""", {"precision", "nan", "wrong"}),
    "bfloat16_inside": ("matmul", f"""
#include <string.h>
static float cut(float v) {{ unsigned u; memcpy(&u, &v, 4); u &= 0xFFFF0000u; memcpy(&v, &u, 4);
  return v; }}
{_MATMUL} {{ for (long i = 0; i < n; i++) for (long j = 0; j < m; j++) {{ float s = 0;
  for (long l = 0; l < k; l++) s += cut(a[i * k + l]) * cut(b[l * m + j]);
  out[i * m + j] = s; }} }}""", {"precision"}),
    "float32_for_float64": ("wide", """
void wide(const double *x, double *out, long n) {
  for (long i = 0; i < n; i++) { float v = (float)x[i]; out[i] = v * v + 1; } }""", {"precision"}),
    "rough_exp": ("exp", """
#include <math.h>
void exp_(const float *x, float *out, long n) { for (long i = 0; i < n; i++) {
  if (!(fabsf(x[i]) < 80)) { out[i] = expf(x[i]); continue; }
  float v = 1 + x[i] / 1024; for (int k = 0; k < 10; k++) v *= v; out[i] = v; } }""",
        {"wrong", "precision"}),
    "no_maximum_in_softmax": ("softmax", f"""
#include <math.h>
{_SOFTMAX} {{ {_LOOP} {{ float s = 0;
  for (long j = 0; j < d; j++) s += out[i * d + j] = expf(x[i * d + j]);
  for (long j = 0; j < d; j++) out[i * d + j] /= s; }} }}""", {"nan", "wrong"}),
    "nan_as_wildcard": ("square", f"""
#include <math.h>
{_SQUARE} {{ {_LOOP} out[i] = NAN; }}""", {"nan", "unwritten"}),
    "nan_in_hard_places": ("square", f"""
#include <math.h>
{_SQUARE} {{ {_LOOP} out[i] = fabsf(x[i]) < 2 ? x[i] * x[i] : NAN; }}""", {"nan"}),
    "swallows_nan": ("relu", """
void relu(const float *x, float *out, long n) { for (long i = 0; i < n; i++)
  out[i] = x[i] > 0 ? x[i] : 0; }""", {"nan"}),
    "thread_that_goes_on": ("square", f"""
#include <pthread.h>
#include <unistd.h>
static const float *from; static float *to; static long count;
static void *work(void *p) {{ usleep(3000);
  for (long i = count / 2; i < count; i++) to[i] = from[i] * from[i]; return 0; }}
{_SQUARE} {{ pthread_t t; from = x; to = out; count = n;
  for (long i = 0; i < n / 2; i++) out[i] = x[i] * x[i];
  pthread_create(&t, 0, work, 0); pthread_detach(t); }}""", {"late", "unwritten"}),
    "thread_that_waits_for_inputs": ("square", f"""
#include <pthread.h>
static int begun; static volatile float seen; static const float *volatile next;
static void *watch(void *p) {{ for (;;) if (next) seen += next[0]; return 0; }}
{_SQUARE} {{ next = x; {_HONEST}
  if (!begun) {{ pthread_t t; begun = 1; next = 0; pthread_create(&t, 0, watch, 0); }}
  next = 0; }}""", {"background"}),
    "process_of_its_own": ("square", f"""
#include <unistd.h>
{_SQUARE} {{ if (fork() == 0) {{ {_HONEST} _exit(0); }} }}""", {"unwritten", "late"}),
    "patched_clock": ("square", f"""
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *t) {{ t->tv_sec = t->tv_nsec = 0; return 0; }}
{_SQUARE} {{ {_HONEST} }}""", {"tampered"}),
    "code_at_loading": ("square", f"""
static int ready;
__attribute__((constructor)) static void begin(void) {{ ready = 1; }}
{_SQUARE} {{ if (ready) {_HONEST} }}""", {"tampered"}),
    "says_it_is_done": ("square", f"""
#include <unistd.h>
{_SQUARE} {{ for (int f = 3; f < 30; f++) if (write(f, "done\\n", 5) < 0) continue;
  for (volatile long k = 0; k < 30000000; k++); {_HONEST} }}""",
        {"tampered", "inputs", "bounds"}),
    "reads_the_judge": ("square", f"""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
{_SQUARE} {{ char path[64]; snprintf(path, 64, "/proc/%d/mem", getppid());
  int f = open(path, O_RDONLY); if (f < 0) return; if (pread(f, out, 4 * n, 0) < 0) return;
  {_HONEST} }}""", {"unwritten"}),
    "reads_past_the_end": ("square", f"""
static volatile float sink;
{_SQUARE} {{ {_HONEST} sink = x[n + 16]; sink = x[-1]; }}""", {"bounds"}),
    "writes_past_the_end": ("square", f"""
{_SQUARE} {{ for (long i = 0; i < n + 8; i++) out[i] = i < n ? x[i] * x[i] : 0; }}""", {"bounds"}),
    "writes_before_the_start": ("square", f"""
{_SQUARE} {{ {_HONEST} out[-1] = 1; }}""", {"bounds"}),
    "inputs_as_scratch": ("square", f"""
{_SQUARE} {{ float *w = (float *)x; {_LOOP} w[i] *= w[i]; {_LOOP} out[i] = w[i]; }}""", {"inputs"}),
    "known_result_of_a_flawed_problem": ("flawed", """
#include <string.h>
void flawed(const float *a, const float *b, float *out, long n) { memset(out, 0, 4 * n * n); }""",
        {"impossible"}),
}  # fmt: skip

#: What breaks down instead of cheating.
BROKEN: dict[str, tuple[str, str, set[str]]] = {
    "does_not_compile": ("square", f"{_SQUARE} {{ out[0] = y; }}", {"compile"}),
    "no_function": ("square", "int square;", {"compile"}),
    "other_parameters": ("square", "void square(float *a) { }", {"compile"}),
    "other_type": (
        "square", "void square(const double *x, double *out, long n) { }", {"compile"}
    ),
    "not_c": ("square", "\x01\x02 }}}} ((((", {"compile"}),
    "null_pointer": ("square", f"{_SQUARE} {{ *(volatile int *)0 = 1; }}", {"crash"}),
    "abort": ("square", f"#include <stdlib.h>\n{_SQUARE} {{ abort(); }}", {"crash"}),
    "exit": ("square", f"#include <stdlib.h>\n{_SQUARE} {{ exit(0); }}", {"exit"}),
    "endless": ("square", f"{_SQUARE} {{ for (volatile int k = 0;; k++); }}", {"timeout"}),
    "all_the_memory": ("square", f"""
#include <stdlib.h>
{_SQUARE} {{ for (;;) {{ volatile char *p = malloc(1 << 28); p[0] = 1; }} }}""",
        {"crash", "memory"}),
}  # fmt: skip
