// The C a kernel's math functions stand on: types, bit casts and the compiler's builtins. A target
// that spells one of these otherwise (CUDA) defines the macro first. Sections start with
// "//@ name ...", see prelude.py. Nothing here includes a header: that costs compile time.

//@ base
#ifndef LZ_FN
#define LZ_FN static inline __attribute__((always_inline, unused))
// Functions with loops do not vectorise; copies cost the compiler much time.
#define LZ_LONG_FN static __attribute__((noinline, unused))
// Those that a thread of a GPU has to itself are part of its kernel, which knows their extents.
#define LZ_STEPS_FN LZ_LONG_FN
#endif
#ifndef LZ_COPY
#define LZ_COPY(to, from, size) __builtin_memcpy(to, from, size)
#define LZ_ABS_F32(x) __builtin_fabsf(x)
#define LZ_ABS_F64(x) __builtin_fabs(x)
#define LZ_SQRT_F32(x) __builtin_sqrtf(x)
#define LZ_SQRT_F64(x) __builtin_sqrt(x)
#define LZ_INF_F32 __builtin_inff()
#define LZ_INF_F64 __builtin_inf()
#define LZ_NAN_F32 __builtin_nanf("")
#define LZ_NAN_F64 __builtin_nan("")
// a * b + c in one rounding, where the machine does that in one instruction. The only place where
// math functions differ between machines; elsewhere the builtin would call libm.
#if defined(__FMA__) || defined(__FP_FAST_FMA) || defined(__aarch64__)
#define LZ_FUSED
#define LZ_FMA_F32(a, b, c) __builtin_fmaf(a, b, c)
#define LZ_FMA_F64(a, b, c) __builtin_fma(a, b, c)
#elif defined(LZ_EXACT)
// config.exact: the same roundings on every machine, by other instructions (below).
#define LZ_FUSED
#define LZ_EMULATED
#define LZ_FMA_F32(a, b, c) lz_fused_f32(a, b, c)
#define LZ_FMA_F64(a, b, c) lz_fused_f64(a, b, c)
#else
#define LZ_FMA_F32(a, b, c) ((a) * (b) + (c))
#define LZ_FMA_F64(a, b, c) ((a) * (b) + (c))
#endif
// One instruction where the machine has it; elsewhere the builtin would call libm, one at a time.
#if defined(__SSE4_1__) || defined(__aarch64__)
#define LZ_FLOOR_F32(x) __builtin_floorf(x)
#define LZ_FLOOR_F64(x) __builtin_floor(x)
#define LZ_CEIL_F32(x) __builtin_ceilf(x)
#define LZ_CEIL_F64(x) __builtin_ceil(x)
#define LZ_TRUNC_F32(x) __builtin_truncf(x)
#define LZ_TRUNC_F64(x) __builtin_trunc(x)
#define LZ_RINT_F32(x) __builtin_rintf(x)
#define LZ_RINT_F64(x) __builtin_rint(x)
#endif
#endif
// Before it gives out registers, gcc orders the instructions of a long expression so that
// they wait less for each other; only where there are 32 registers: with 16 it spills them.
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#define LZ_ORDERED __attribute__((optimize("schedule-insns")))
#else
#define LZ_ORDERED
#endif
typedef unsigned char lz_b8;
typedef unsigned char lz_u8;
typedef unsigned short lz_u16;
typedef unsigned int lz_u32;
typedef unsigned long long lz_u64;
typedef signed char lz_i8;
typedef short lz_i16;
typedef int lz_i32;
typedef long long lz_i64;
typedef float lz_f32;
typedef double lz_f64;
typedef unsigned short lz_f16;
typedef unsigned short lz_bf16;
LZ_FN lz_u32 lz_bits_f32(lz_f32 x) { lz_u32 b; LZ_COPY(&b, &x, 4); return b; }
LZ_FN lz_f32 lz_from_bits_f32(lz_u32 b) { lz_f32 x; LZ_COPY(&x, &b, 4); return x; }
LZ_FN lz_u64 lz_bits_f64(lz_f64 x) { lz_u64 b; LZ_COPY(&b, &x, 8); return b; }
LZ_FN lz_f64 lz_from_bits_f64(lz_u64 b) { lz_f64 x; LZ_COPY(&x, &b, 8); return x; }
#ifdef LZ_EMULATED
// a + b rounded to odd: where it is not exact, to that neighbour whose last bit is one, so that a later
// rounding to fewer bits is the only one (Boldo and Melquiond, "Emulation of FMA and correctly rounded
// sums", 2008). The error is Knuth's; of infinities it is NaN, and they stay.
LZ_FN lz_f64 lz_add_to_odd_f64(lz_f64 a, lz_f64 b) {
  lz_f64 s = a + b, v = s - a, e = (a - (s - v)) + (b - v);
  lz_u64 bits = lz_bits_f64(s), is_beyond = (lz_bits_f64(e) ^ bits) >> 63;
  lz_f64 odd = lz_from_bits_f64((bits - is_beyond) | 1);
  return LZ_ABS_F64(e) > 0 ? odd : s;
}
// The product is exact in float64.
LZ_FN lz_f32 lz_fused_f32(lz_f32 a, lz_f32 b, lz_f32 c) {
  return (lz_f32)lz_add_to_odd_f64((lz_f64)a * (lz_f64)b, (lz_f64)c);
}
// The C library's, which is right everywhere, and slow.
LZ_LONG_FN lz_f64 lz_fused_far_f64(lz_f64 a, lz_f64 b, lz_f64 c) { return __builtin_fma(a, b, c); }
// The product as a sum of two (Dekker), and the sum of three rounded once (Boldo and Melquiond), where
// no part of these overflows or is lost below the smallest numbers.
LZ_FN lz_f64 lz_fused_f64(lz_f64 a, lz_f64 b, lz_f64 c) {
  lz_f64 p = a * b, size = LZ_ABS_F64(p), most = LZ_ABS_F64(c) > size ? LZ_ABS_F64(c) : size;
  lz_f64 factor = LZ_ABS_F64(a) > LZ_ABS_F64(b) ? LZ_ABS_F64(a) : LZ_ABS_F64(b);
  // 2^-960, 2^1020, 2^990; NaN meets none of them.
  if (!((size > 1.0261342003245941e-289) & (most < 1.1235582092889474e307)
        & (factor < 1.0463951242053392e298) & (c == c)))
    return ((a == 0) | (b == 0)) ? p + c : lz_fused_far_f64(a, b, c);
  lz_f64 u = a * 134217729.0, v = b * 134217729.0;
  lz_f64 ah = u - (u - a), al = a - ah, bh = v - (v - b), bl = b - bh;
  lz_f64 low = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
  lz_f64 x = c + low, w = x - c, small = (c - (x - w)) + (low - w);
  lz_f64 s = p + x, y = s - p, rest = (p - (s - y)) + (x - y);
  return s + lz_add_to_odd_f64(rest, small);
}
#endif
