// What CUDA C kernels find when they are compiled as C++ to be checked: keywords, vector types,
// threads, barriers, shuffles, atomics, intrinsics. "checker.cpp" does what counts; each access, and
// each call that orders accesses, goes there with the place in the user's text that it comes from.
#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define CUDART_CB
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define LZ_DEVICE_VARIABLE __attribute__((section("lz_device")))
#define LZ_HELPER __attribute__((noinline, no_sanitize("thread"), no_sanitize("undefined")))
#define LZ_PC ((unsigned)(uintptr_t)__builtin_return_address(0) - 1)
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_PI_F 3.141592654f
// Of the host's side, which is left out, what may stand outside of functions.
typedef int cudaError_t;
typedef void *cudaStream_t, *cudaEvent_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;

// -------------------------------------------------------------- vector types
#define LZ_VECTOR(N, T, A1, A2, A4)                                                                \
  struct N##1 { T x; };                                                                            \
  struct alignas(A2) N##2 { T x, y; };                                                             \
  struct N##3 { T x, y, z; };                                                                      \
  struct alignas(A4) N##4 { T x, y, z, w; };                                                       \
  static inline LZ_HELPER N##1 make_##N##1(T x) { return {x}; }                                    \
  static inline LZ_HELPER N##2 make_##N##2(T x, T y) { return {x, y}; }                            \
  static inline LZ_HELPER N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }                    \
  static inline LZ_HELPER N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
LZ_VECTOR(char, signed char, 1, 2, 4)
LZ_VECTOR(uchar, unsigned char, 1, 2, 4)
LZ_VECTOR(short, short, 2, 4, 8)
LZ_VECTOR(ushort, unsigned short, 2, 4, 8)
LZ_VECTOR(int, int, 4, 8, 16)
LZ_VECTOR(uint, unsigned, 4, 8, 16)
LZ_VECTOR(long, long, 8, 16, 16)
LZ_VECTOR(ulong, unsigned long, 8, 16, 16)
LZ_VECTOR(longlong, long long, 8, 16, 16)
LZ_VECTOR(ulonglong, unsigned long long, 8, 16, 16)
LZ_VECTOR(float, float, 4, 8, 16)
LZ_VECTOR(double, double, 8, 16, 16)
struct dim3 {
  unsigned x, y, z;
  LZ_HELPER dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
extern const uint3 threadIdx __asm__("lz_thread_index");
extern const uint3 blockIdx __asm__("lz_block_index");
extern const uint3 blockDim __asm__("lz_block_dim");
extern const uint3 gridDim __asm__("lz_grid_dim");
static const int warpSize = 32;

// ------------------------------------------------- barriers, shuffles, votes
extern "C" {
void __syncthreads();
int __syncthreads_count(int), __syncthreads_and(int), __syncthreads_or(int);
void __threadfence(), __threadfence_block(), __threadfence_system();
unsigned __activemask();
void lz_syncwarp(unsigned, unsigned), lz_barrier(unsigned), lz_pause();
unsigned lz_active(unsigned);
uint64_t lz_shuffle(unsigned, uint64_t, int, char, unsigned);
uint64_t lz_warp(int, unsigned, uint64_t, unsigned);
void lz_read(const void *, size_t, unsigned), lz_write(const void *, size_t, unsigned);
void lz_aligned(const void *, size_t, unsigned), lz_atomic(const void *, size_t, unsigned);
void lz_release(const void *);
void *lz_shared(void **, size_t, size_t, const char *), *lz_dynamic(size_t, const char *);
}
namespace lz {
template <class T> struct same { typedef T type; };
template <class T> using same_t = typename same<T>::type;
template <class T> struct code_of { static const char of = 's'; };
template <class T> struct code_of<T *> { static const char of = 'p'; };
#define LZ_CODE(T, C) template <> struct code_of<T> { static const char of = C; };
LZ_CODE(float, 'f') LZ_CODE(double, 'f') LZ_CODE(bool, 'b') LZ_CODE(char, 'i')
LZ_CODE(signed char, 'i') LZ_CODE(short, 'i') LZ_CODE(int, 'i') LZ_CODE(long, 'i')
LZ_CODE(long long, 'i') LZ_CODE(unsigned char, 'u') LZ_CODE(unsigned short, 'u')
LZ_CODE(unsigned, 'u') LZ_CODE(unsigned long, 'u') LZ_CODE(unsigned long long, 'u')
template <class T> struct bare { typedef T type; };
template <class T> struct bare<const T> { typedef T type; };
template <class T> struct bare<volatile T> { typedef T type; };
template <class T> struct bare<const volatile T> { typedef T type; };
template <class T> using bare_t = typename bare<T>::type;
template <class T> struct element_of { typedef T type; };
template <class T, size_t N> struct element_of<T[N]> { typedef typename element_of<T>::type type; };
template <class T> struct element_of<T[]> { typedef typename element_of<T>::type type; };

// The array of a declaration; each (ID is a type of its own) has one place in a block's memory.
template <class T, class ID> LZ_HELPER T &shared_array(const char *name) {
  static void *place = 0;
  return *(T *)lz_shared(&place, sizeof(T), sizeof(typename element_of<T>::type), name);
}
template <class T> LZ_HELPER T &dynamic_array(const char *name) {
  return *(T *)lz_dynamic(sizeof(typename element_of<T>::type), name);
}
template <class T> LZ_HELPER T shuffle(unsigned mask, T v, int source, unsigned pc) {
  static_assert(sizeof(T) <= 8, "a shuffle takes values of at most 8 bytes");
  uint64_t word = 0;
  memcpy(&word, &v, sizeof v);
  char code = code_of<T>::of == 'f' ? sizeof(T) == 8 ? 'd' : 'f' : 'i';
  word = lz_shuffle(mask, word, source, code, pc);
  memcpy(&v, &word, sizeof v);
  return v;
}
static LZ_HELPER int lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}
}  // namespace lz
static LZ_HELPER void __syncwarp(unsigned mask = 0xffffffffu) { lz_syncwarp(mask, LZ_PC); }
template <class T> LZ_HELPER T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
  int l = lz::lane();
  return lz::shuffle(mask, v, (l & ~(width - 1)) | (from & (width - 1)), LZ_PC);
}
template <class T> LZ_HELPER T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
  int l = lz::lane(), from = l - (int)by;
  return lz::shuffle(mask, v, from < (l & ~(width - 1)) ? -1 : from, LZ_PC);
}
template <class T> LZ_HELPER T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
  int l = lz::lane(), from = l + (int)by;
  return lz::shuffle(mask, v, from > (l | (width - 1)) ? -1 : from, LZ_PC);
}
template <class T> LZ_HELPER T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32) {
  int l = lz::lane(), from = l ^ by;
  return lz::shuffle(mask, v, from > (l | (width - 1)) ? -1 : from, LZ_PC);
}
static LZ_HELPER unsigned __ballot_sync(unsigned mask, int p) {
  return (unsigned)lz_warp(2, mask, p != 0, LZ_PC);
}
static LZ_HELPER int __any_sync(unsigned mask, int p) { return lz_warp(2, mask, p != 0, LZ_PC) != 0; }
static LZ_HELPER int __all_sync(unsigned mask, int p) { return lz_warp(2, mask, p == 0, LZ_PC) == 0; }
template <class T> LZ_HELPER unsigned __match_any_sync(unsigned mask, T v) {
  uint64_t word = 0;
  memcpy(&word, &v, sizeof v);
  return (unsigned)lz_warp(3, mask, word, LZ_PC);
}
#define LZ_REDUCE(NAME, T, OP)                                                                     \
  static LZ_HELPER T __reduce_##NAME##_sync(unsigned mask, T v) {                                  \
    return (T)lz_warp(OP, mask, (unsigned)v, LZ_PC);                                               \
  }
LZ_REDUCE(add, unsigned, 4) LZ_REDUCE(add, int, 4) LZ_REDUCE(min, int, 5) LZ_REDUCE(max, int, 6)
LZ_REDUCE(min, unsigned, 7) LZ_REDUCE(max, unsigned, 8) LZ_REDUCE(and, unsigned, 9)
LZ_REDUCE(or, unsigned, 10) LZ_REDUCE(xor, unsigned, 11)

// ------------------------------------------------------------ atomics, loads
#define LZ_ATOMIC(NAME, NEW)                                                                       \
  template <class T> LZ_HELPER T NAME(T *p, lz::same_t<T> v) {                                     \
    lz_atomic(p, sizeof(T), LZ_PC);                                                                \
    T old = *p;                                                                                    \
    *p = NEW;                                                                                      \
    lz_release(p);                                                                                 \
    return old;                                                                                    \
  }                                                                                                \
  template <class T> LZ_HELPER T NAME##_block(T *p, lz::same_t<T> v) {                             \
    lz_atomic(p, sizeof(T), LZ_PC);                                                                \
    T old = *p;                                                                                    \
    *p = NEW;                                                                                      \
    lz_release(p);                                                                                 \
    return old;                                                                                    \
  }                                                                                                \
  template <class T> LZ_HELPER T NAME##_system(T *p, lz::same_t<T> v) {                            \
    lz_atomic(p, sizeof(T), LZ_PC);                                                                \
    T old = *p;                                                                                    \
    *p = NEW;                                                                                      \
    lz_release(p);                                                                                 \
    return old;                                                                                    \
  }
LZ_ATOMIC(atomicAdd, (T)(old + v)) LZ_ATOMIC(atomicSub, (T)(old - v)) LZ_ATOMIC(atomicExch, v)
LZ_ATOMIC(atomicMin, v < old ? v : old) LZ_ATOMIC(atomicMax, old < v ? v : old)
LZ_ATOMIC(atomicAnd, (T)(old & v)) LZ_ATOMIC(atomicOr, (T)(old | v)) LZ_ATOMIC(atomicXor, (T)(old ^ v))
LZ_ATOMIC(atomicInc, old >= v ? 0 : old + 1) LZ_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
#define LZ_CAS(NAME)                                                                               \
  template <class T> LZ_HELPER T NAME(T *p, lz::same_t<T> compare, lz::same_t<T> v) {              \
    lz_atomic(p, sizeof(T), LZ_PC);                                                                \
    T old = *p;                                                                                    \
    if (!memcmp(&old, &compare, sizeof old)) *p = v, lz_release(p);                                \
    return old;                                                                                    \
  }
LZ_CAS(atomicCAS) LZ_CAS(atomicCAS_block) LZ_CAS(atomicCAS_system)
#define LZ_LOAD(NAME)                                                                              \
  template <class T> LZ_HELPER T NAME(const T *p) {                                                \
    lz_aligned(p, alignof(T), LZ_PC);                                                              \
    lz_read(p, sizeof(T), LZ_PC);                                                                  \
    T value;                                                                                       \
    memcpy((void *)&value, p, sizeof value);                                                       \
    return value;                                                                                  \
  }
LZ_LOAD(__ldg) LZ_LOAD(__ldca) LZ_LOAD(__ldcg) LZ_LOAD(__ldcs) LZ_LOAD(__ldlu) LZ_LOAD(__ldcv)
#define LZ_STORE(NAME)                                                                             \
  template <class T> LZ_HELPER void NAME(T *p, lz::same_t<T> value) {                              \
    lz_aligned(p, alignof(T), LZ_PC);                                                              \
    lz_write(p, sizeof(T), LZ_PC);                                                                 \
    memcpy((void *)p, &value, sizeof value);                                                       \
  }
LZ_STORE(__stwb) LZ_STORE(__stcg) LZ_STORE(__stcs) LZ_STORE(__stwt)
static LZ_HELPER void *lz_memcpy(void *to, const void *from, size_t n) {
  lz_read(from, n, LZ_PC);
  lz_write(to, n, LZ_PC);
  return memcpy(to, from, n);
}
static LZ_HELPER void *lz_memset(void *to, int value, size_t n) {
  lz_write(to, n, LZ_PC);
  return memset(to, value, n);
}

// ---------------------------------------------------------------- intrinsics
#define __expf expf
#define __exp10f(x) powf(10.0f, x)
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __powf powf
#define __sincosf sincosf
#define LZ_1(NAME, R, T, E) static inline LZ_HELPER R NAME(T x) { return E; }
#define LZ_2(NAME, R, T, E) static inline LZ_HELPER R NAME(T x, T y) { return E; }
#define LZ_3(NAME, R, T, E) static inline LZ_HELPER R NAME(T x, T y, T z) { return E; }
LZ_1(rsqrtf, float, float, 1.0f / sqrtf(x)) LZ_1(rsqrt, double, double, 1.0 / sqrt(x))
LZ_1(rcbrtf, float, float, 1.0f / cbrtf(x)) LZ_1(__frcp_rn, float, float, 1.0f / x)
LZ_1(__frsqrt_rn, float, float, 1.0f / sqrtf(x)) LZ_1(__fsqrt_rn, float, float, sqrtf(x))
LZ_1(__dsqrt_rn, double, double, sqrt(x)) LZ_1(__saturatef, float, float, x > 0 ? x < 1 ? x : 1 : 0)
LZ_1(sinpif, float, float, (float)sin(M_PI * x)) LZ_1(cospif, float, float, (float)cos(M_PI * x))
LZ_1(sinpi, double, double, sin(M_PI * x)) LZ_1(cospi, double, double, cos(M_PI * x))
LZ_1(normcdff, float, float, (float)(0.5 * erfc(-x * M_SQRT1_2)))
LZ_2(__fdividef, float, float, x / y) LZ_2(__fadd_rn, float, float, x + y)
LZ_2(__fsub_rn, float, float, x - y) LZ_2(__fmul_rn, float, float, x * y)
LZ_2(__fdiv_rn, float, float, x / y) LZ_2(__dadd_rn, double, double, x + y)
LZ_2(__dmul_rn, double, double, x * y) LZ_2(__ddiv_rn, double, double, x / y)
LZ_3(__fmaf_rn, float, float, fmaf(x, y, z)) LZ_3(__fma_rn, double, double, fma(x, y, z))
LZ_1(__popc, int, unsigned, __builtin_popcount(x))
LZ_1(__popcll, int, unsigned long long, __builtin_popcountll(x))
LZ_1(__clz, int, int, x ? __builtin_clz(x) : 32)
LZ_1(__clzll, int, long long, x ? __builtin_clzll(x) : 64)
LZ_1(__ffs, int, int, __builtin_ffs(x)) LZ_1(__ffsll, int, long long, __builtin_ffsll(x))
LZ_2(__umulhi, unsigned, unsigned, (unsigned)((unsigned long long)x * y >> 32))
LZ_2(__mulhi, int, int, (int)((long long)x * y >> 32))
LZ_2(__mul24, int, int, ((x << 8) >> 8) * ((y << 8) >> 8))
LZ_2(__umul24, unsigned, unsigned, (x & 0xffffff) * (y & 0xffffff))
LZ_1(__float2int_rn, int, float, (int)rintf(x)) LZ_1(__float2int_rz, int, float, (int)x)
LZ_1(__float2int_rd, int, float, (int)floorf(x)) LZ_1(__float2int_ru, int, float, (int)ceilf(x))
LZ_1(__float2uint_rn, unsigned, float, (unsigned)rintf(x)) LZ_1(__int2float_rn, float, int, (float)x)
LZ_1(__uint2float_rn, float, unsigned, (float)x) LZ_1(__double2float_rn, float, double, (float)x)
template <class R, class T> static LZ_HELPER R lz_bits(T x) {
  R r;
  memcpy(&r, &x, sizeof r);
  return r;
}
LZ_1(__float_as_int, int, float, lz_bits<int>(x)) LZ_1(__int_as_float, float, int, lz_bits<float>(x))
LZ_1(__float_as_uint, unsigned, float, lz_bits<unsigned>(x))
LZ_1(__uint_as_float, float, unsigned, lz_bits<float>(x))
LZ_1(__double_as_longlong, long long, double, lz_bits<long long>(x))
LZ_1(__longlong_as_double, double, long long, lz_bits<double>(x))
static LZ_HELPER unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
  return r;
}
static LZ_HELPER unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) r |= (unsigned)(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
  return r;
}
LZ_HELPER static unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((unsigned long long)high << 32 | low) << (n & 31) >> 32);
}
LZ_HELPER static unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (n & 31));
}
template <class A, class B> static LZ_HELPER auto min(A a, B b) -> decltype(a + b) { return a < b ? a : b; }
template <class A, class B> static LZ_HELPER auto max(A a, B b) -> decltype(a + b) { return a > b ? a : b; }
LZ_2(umin, unsigned, unsigned, x < y ? x : y) LZ_2(umax, unsigned, unsigned, x > y ? x : y)
LZ_2(llmin, long long, long long, x < y ? x : y) LZ_2(llmax, long long, long long, x > y ? x : y)
static LZ_HELPER long long clock64() { return lz_pause(), 0; }
#define clock() ((int)clock64())
static LZ_HELPER void __nanosleep(unsigned) { lz_pause(); }
static LZ_HELPER void __trap() { __builtin_trap(); }

// --------------------------------------------------------------------- half
static LZ_HELPER unsigned short lz_to_half(float f) {
  unsigned x = lz_bits<unsigned>(f), sign = x >> 16 & 0x8000, e = x >> 23 & 255, m = x & 0x7fffff;
  if (e == 255) return (unsigned short)(sign | 0x7c00 | (m ? 0x200 | m >> 13 : 0));
  int to = (int)e - 112;
  if (to >= 31) return (unsigned short)(sign | 0x7c00);
  if (to <= 0) {
    if (to < -10) return (unsigned short)sign;
    m |= 0x800000;
    unsigned shift = 14 - to, h = m >> shift, rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
    return (unsigned short)(sign | (h + (rest > half || (rest == half && (h & 1)))));
  }
  unsigned h = (unsigned)to << 10 | m >> 13, rest = m & 0x1fff;
  return (unsigned short)(sign | (h + (rest > 0x1000 || (rest == 0x1000 && (h & 1)))));
}
static LZ_HELPER float lz_from_half(unsigned short h) {
  unsigned sign = (h & 0x8000u) << 16, e = h >> 10 & 31, m = h & 0x3ff;
  if (e == 31) return lz_bits<float>(sign | 0x7f800000 | m << 13);
  if (e) return lz_bits<float>(sign | (e + 112) << 23 | m << 13);
  float f = m * 5.9604644775390625e-8f;
  return sign ? -f : f;
}
static LZ_HELPER unsigned short lz_to_bfloat(float f) {
  unsigned x = lz_bits<unsigned>(f);
  return (unsigned short)(f != f ? x >> 16 | 0x40 : (x + 0x7fff + (x >> 16 & 1)) >> 16);
}
static LZ_HELPER float lz_from_bfloat(unsigned short b) { return lz_bits<float>((unsigned)b << 16); }
#define LZ_SHORT_FLOAT(S, TO, FROM)                                                                \
  struct S {                                                                                       \
    unsigned short bits;                                                                           \
    S() = default;                                                                                 \
    LZ_HELPER S(float f) : bits(TO(f)) {}                                                          \
    LZ_HELPER S(double f) : bits(TO((float)f)) {}                                                  \
    LZ_HELPER S(int f) : bits(TO((float)f)) {}                                                     \
    operator float() const { return FROM(bits); }                                                  \
    S &operator+=(S o) { return *this = S(FROM(bits) + FROM(o.bits)); }                            \
    S &operator-=(S o) { return *this = S(FROM(bits) - FROM(o.bits)); }                            \
    S &operator*=(S o) { return *this = S(FROM(bits) * FROM(o.bits)); }                            \
  };                                                                                               \
  struct alignas(4) S##2 {                                                                         \
    S x, y;                                                                                        \
    S##2() = default;                                                                              \
    LZ_HELPER S##2(S a, S b) : x(a), y(b) {}                                                       \
  };                                                                                               \
  static LZ_HELPER S operator+(S a, S b) { return S(FROM(a.bits) + FROM(b.bits)); }                \
  static LZ_HELPER S operator-(S a, S b) { return S(FROM(a.bits) - FROM(b.bits)); }                \
  static LZ_HELPER S operator*(S a, S b) { return S(FROM(a.bits) * FROM(b.bits)); }                \
  static LZ_HELPER S operator/(S a, S b) { return S(FROM(a.bits) / FROM(b.bits)); }                \
  static LZ_HELPER S __hadd(S a, S b) { return a + b; }                                            \
  static LZ_HELPER S __hsub(S a, S b) { return a - b; }                                            \
  static LZ_HELPER S __hmul(S a, S b) { return a * b; }                                            \
  static LZ_HELPER S __hdiv(S a, S b) { return a / b; }                                            \
  static LZ_HELPER S __hfma(S a, S b, S c) {                                                       \
    return S(fmaf(FROM(a.bits), FROM(b.bits), FROM(c.bits)));                                      \
  }                                                                                                \
  static LZ_HELPER S##2 operator+(S##2 a, S##2 b) { return {a.x + b.x, a.y + b.y}; }               \
  static LZ_HELPER S##2 operator-(S##2 a, S##2 b) { return {a.x - b.x, a.y - b.y}; }               \
  static LZ_HELPER S##2 operator*(S##2 a, S##2 b) { return {a.x * b.x, a.y * b.y}; }               \
  static LZ_HELPER S##2 __hadd2(S##2 a, S##2 b) { return {a.x + b.x, a.y + b.y}; }                 \
  static LZ_HELPER S##2 __hmul2(S##2 a, S##2 b) { return {a.x * b.x, a.y * b.y}; }                 \
  static LZ_HELPER S##2 __hfma2(S##2 a, S##2 b, S##2 c) {                                          \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                         \
  }
LZ_SHORT_FLOAT(__half, lz_to_half, lz_from_half)
LZ_SHORT_FLOAT(__nv_bfloat16, lz_to_bfloat, lz_from_bfloat)
typedef __half half;
typedef __half2 half2;
LZ_1(__float2half, __half, float, __half(x)) LZ_1(__float2half_rn, __half, float, __half(x))
LZ_1(__half2float, float, __half, (float)x) LZ_1(__float2bfloat16, __nv_bfloat16, float, __nv_bfloat16(x))
LZ_1(__bfloat162float, float, __nv_bfloat16, (float)x)
LZ_2(__halves2half2, __half2, __half, (__half2{x, y})) LZ_2(__floats2half2_rn, __half2, float, (__half2{x, y}))
LZ_1(__half22float2, float2, __half2, (float2{x.x, x.y})) LZ_1(__float22half2_rn, __half2, float2, (__half2{x.x, x.y}))
LZ_1(__float2half2_rn, __half2, float, (__half2{x, x})) LZ_1(__half2half2, __half2, __half, (__half2{x, x}))
LZ_1(__low2half, __half, __half2, x.x) LZ_1(__high2half, __half, __half2, x.y)
LZ_1(hexp, __half, __half, __half(expf((float)x))) LZ_1(hrsqrt, __half, __half, __half(1.0f / sqrtf((float)x)))
LZ_1(hsqrt, __half, __half, __half(sqrtf((float)x))) LZ_1(hrcp, __half, __half, __half(1.0f / (float)x))
LZ_2(__hmax, __half, __half, (float)x > (float)y ? x : y) LZ_2(__hmin, __half, __half, (float)x < (float)y ? x : y)
LZ_2(__hgt, bool, __half, (float)x > (float)y) LZ_2(__hlt, bool, __half, (float)x < (float)y)
LZ_1(__low2float, float, __half2, (float)x.x) LZ_1(__high2float, float, __half2, (float)x.y)

// -------------------------------------------------------- cooperative groups
// Blocks, tiles of a warp, and threads that happen to be together; grids and clusters are refused.
#define LZ_SHUFFLES(WIDTH)                                                                         \
  template <class T> LZ_HELPER T shfl(T v, int from) const { return from_rank(v, from, LZ_PC); }   \
  template <class T> LZ_HELPER T shfl_up(T v, int by) const {                                      \
    int to = (int)thread_rank() - by;                                                              \
    return from_rank(v, to < 0 ? -1 : to, LZ_PC);                                                  \
  }                                                                                                \
  template <class T> LZ_HELPER T shfl_down(T v, int by) const {                                    \
    int to = (int)thread_rank() + by;                                                              \
    return from_rank(v, to >= (int)(WIDTH) ? -1 : to, LZ_PC);                                      \
  }                                                                                                \
  template <class T> LZ_HELPER T shfl_xor(T v, int by) const {                                     \
    return from_rank(v, (int)thread_rank() ^ by, LZ_PC);                                           \
  }                                                                                                \
  LZ_HELPER void sync() const { lz_syncwarp(mask(), LZ_PC); }                                      \
  LZ_HELPER void sync_at(unsigned pc) const { lz_syncwarp(mask(), pc); }                           \
  LZ_HELPER int any(int p) const { return lz_warp(2, mask(), p != 0, LZ_PC) != 0; }                \
  LZ_HELPER int all(int p) const { return lz_warp(2, mask(), p == 0, LZ_PC) == 0; }                \
  LZ_HELPER unsigned num_threads() const { return size(); }
namespace cooperative_groups {
struct thread_block {
  LZ_HELPER void sync() const { lz_barrier(LZ_PC); }
  LZ_HELPER void sync_at(unsigned pc) const { lz_barrier(pc); }
  LZ_HELPER static unsigned thread_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  LZ_HELPER static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  LZ_HELPER static unsigned num_threads() { return size(); }
  LZ_HELPER static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  LZ_HELPER static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  LZ_HELPER static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  LZ_HELPER static dim3 dim_threads() { return group_dim(); }
};
static LZ_HELPER thread_block this_thread_block() { return thread_block(); }
template <unsigned N, class PARENT = void> struct thread_block_tile {
  static_assert(N <= 32 && (N & (N - 1)) == 0, "tiles have 1, 2, 4 ... 32 threads");
  thread_block_tile() = default;
  template <class P> LZ_HELPER thread_block_tile(const thread_block_tile<N, P> &) {}
  LZ_HELPER static unsigned first() { return lz::lane() & ~(N - 1); }
  LZ_HELPER static unsigned mask() { return (N == 32 ? ~0u : (1u << N % 32) - 1) << first(); }
  LZ_HELPER static unsigned thread_rank() { return lz::lane() & (N - 1); }
  LZ_HELPER static unsigned size() { return N; }
  LZ_HELPER static unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
  LZ_HELPER static unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
  template <class T> LZ_HELPER T from_rank(T v, int rank, unsigned pc) const {
    return lz::shuffle(mask(), v, rank < 0 ? -1 : (int)(first() + (rank & (N - 1))), pc);
  }
  LZ_SHUFFLES(N)
  LZ_HELPER unsigned ballot(int p) const {
    return (unsigned)lz_warp(2, mask(), p != 0, LZ_PC) >> first();
  }
  template <class T> LZ_HELPER unsigned match_any(T v) const {
    uint64_t word = 0;
    memcpy(&word, &v, sizeof v);
    return (unsigned)lz_warp(3, mask(), word, LZ_PC) >> first();
  }
};
struct coalesced_group {
  unsigned lanes;
  LZ_HELPER unsigned mask() const { return lanes; }
  LZ_HELPER unsigned size() const { return __builtin_popcount(lanes); }
  LZ_HELPER unsigned thread_rank() const {
    return __builtin_popcount(lanes & ((1u << lz::lane()) - 1));
  }
  template <class T> LZ_HELPER T from_rank(T v, int rank, unsigned pc) const {
    int lane = rank < 0 ? -1 : 0;
    for (int left = rank; lane >= 0 && lane < 32; lane++)
      if (lanes >> lane & 1 && left-- == 0) break;
    return lz::shuffle(lanes, v, lane, pc);
  }
  LZ_SHUFFLES(size())
};
static LZ_HELPER coalesced_group coalesced_threads() { return {lz_active(LZ_PC)}; }
template <unsigned N, class G> LZ_HELPER thread_block_tile<N, G> tiled_partition(const G &) {
  return thread_block_tile<N, G>();
}
template <class G> LZ_HELPER void sync(const G &g) { g.sync_at(LZ_PC); }
template <class T> struct plus { LZ_HELPER T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { LZ_HELPER T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { LZ_HELPER T operator()(T a, T b) const { return a < b ? b : a; } };
template <class G, class T, class OP> LZ_HELPER T reduce(const G &g, T v, OP op) {
  unsigned pc = LZ_PC;
  T all = g.from_rank(v, 0, pc);
  for (unsigned i = 1; i < g.size(); i++) all = op(all, g.from_rank(v, (int)i, pc));
  return all;
}
}  // namespace cooperative_groups

// -------------------------------------------------------------- calls by name
namespace lz {
LZ_CODE(__half, 'h') LZ_CODE(__nv_bfloat16, 'h')
struct Parameter { char code; unsigned size, item; char item_code; };
struct Kernel { const char *name; void *entry; void (*call)(char **); int count; const Parameter *of; };
template <class T> struct describe {
  static constexpr Parameter of = {code_of<bare_t<T>>::of, sizeof(T), 0, '-'};
};
template <class T> struct describe<T *> {
  static constexpr Parameter of = {'p', sizeof(T *), sizeof(T), code_of<bare_t<T>>::of};
};
template <> struct describe<void *> { static constexpr Parameter of = {'p', 8, 1, 'u'}; };
template <> struct describe<const void *> { static constexpr Parameter of = {'p', 8, 1, 'u'}; };
template <size_t... I> struct numbers {};
template <size_t N, size_t... I> struct count_to : count_to<N - 1, N - 1, I...> {};
template <size_t... I> struct count_to<0, I...> { typedef numbers<I...> type; };
template <auto F> struct Entry;
template <class... P, void (*F)(P...)> struct Entry<F> {
  static constexpr Parameter of[sizeof...(P) + 1] = {describe<bare_t<P>>::of..., {0, 0, 0, 0}};
  template <size_t... I> LZ_HELPER static void spread(char **a, numbers<I...>) {
    F(*(bare_t<P> *)a[I]...);
  }
  LZ_HELPER static void call(char **a) { spread(a, typename count_to<sizeof...(P)>::type()); }
  static Kernel kernel(const char *name) {
    return {name, (void *)F, call, (int)sizeof...(P), of};
  }
};
}  // namespace lz
