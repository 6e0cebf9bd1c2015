// 16-bit floats live in memory only: loads widen to float32, stores round to nearest even.

//@ lz_load_f16 ulp=0
// Bits become a float 2^112 too small, which a multiplication mends, subnormals included.
LZ_FN lz_f32 lz_load_f16(lz_f16 h) {
  lz_u32 wide = (lz_u32)(lz_i32)(lz_i16)h << 13 & 0x8fffe000u;
  lz_u32 bits = lz_bits_f32(lz_from_bits_f32(wide) * 5.192296858534828e33f);
  return lz_from_bits_f32((wide & 0x0f800000u) == 0x0f800000u ? bits | 0x7f800000u : bits);
}

//@ lz_half_step_f16
// The power of two in whose sum with x the last bit counts as much as that of the half; from below
// 2^-14, where halves are subnormal, up to 2^16. ``body`` is x without its sign.
LZ_FN lz_u32 lz_half_step_f16(lz_u32 body) {
  lz_u32 top = body & 0x7f800000u;
  top = top > 0x38800000u ? top : 0x38800000u;
  return (top < 0x47000000u ? top : 0x47000000u) + 0x06800000u;
}

//@ lz_store_f16 ulp=0.5
// NaN becomes the quiet NaN of its sign; 65520 and above become infinity. A sum rounds, to even.
LZ_FN lz_f16 lz_store_f16(lz_f32 x) {
  lz_u32 all = lz_bits_f32(x), body = all & 0x7fffffffu;
  lz_u32 least = body < 0x477ff000u ? body : 0x477ff000u, step = lz_half_step_f16(least);
  lz_u32 digits = lz_bits_f32(lz_from_bits_f32(least) + lz_from_bits_f32(step)) - step;
  lz_u32 h = digits + (step >> 13) - 0x1f800u;
  return (lz_f16)((body > 0x7f800000u ? h | 0x200u : h) | (all >> 16 & 0x8000u));
}

//@ lz_eight_f16
#if defined(__F16C__) && defined(__GNUC__)
typedef short lz_eight_f16 __attribute__((vector_size(16)));
typedef short lz_halves_f16 __attribute__((vector_size(16), aligned(2), may_alias));
typedef lz_f32 lz_wide_f16 __attribute__((vector_size(32)));
typedef lz_f32 lz_floats_f16 __attribute__((vector_size(32), aligned(4), may_alias));
#endif
#if defined(__AVX512F__) && defined(__GNUC__)
typedef short lz_sixteen_f16 __attribute__((vector_size(32)));
typedef short lz_many_f16 __attribute__((vector_size(32), aligned(2), may_alias));
typedef lz_f32 lz_wider_f16 __attribute__((vector_size(64)));
typedef lz_f32 lz_places_f16 __attribute__((vector_size(64), aligned(4), may_alias));
#endif

//@ lz_widen_f16 ulp=0
// As lz_load_f16, for many neighbours: gcc does not find the instruction by itself. What is loaded in
// vectors of 64 bytes is stored so, too: a processor waits long for two halves of a load.
LZ_FN void lz_widen_f16(lz_i64 count, const lz_f16 *from, lz_f32 *to) {
  lz_i64 done = 0;
#if defined(__AVX512F__) && defined(__GNUC__)
  for (; done < count - 15; done += 16) {
    const lz_sixteen_f16 halves = *(const lz_many_f16 *)(from + done);
    const lz_wider_f16 none = {0};
    *(lz_places_f16 *)(to + done) = __builtin_ia32_vcvtph2ps512_mask(halves, none, 0xffff, 4);
  }
#elif defined(__F16C__) && defined(__GNUC__)
  for (; done < count - 15; done += 16) {
    const lz_halves_f16 *const halves = (const lz_halves_f16 *)(from + done);
    lz_floats_f16 *const floats = (lz_floats_f16 *)(to + done);
    floats[0] = __builtin_ia32_vcvtph2ps256((lz_eight_f16)halves[0]);
    floats[1] = __builtin_ia32_vcvtph2ps256((lz_eight_f16)halves[1]);
  }
#endif
  for (; done < count; done++)
    to[done] = lz_load_f16(from[done]);
}

//@ lz_narrow_f16 ulp=0.5
// As lz_store_f16, for many neighbours. The instruction keeps digits of a NaN, which is rare: one
// comparison of two vectors says whether there is one in either.
LZ_FN void lz_narrow_f16(lz_i64 count, const lz_f32 *from, lz_f16 *to) {
  lz_i64 done = 0;
#if defined(__F16C__) && defined(__GNUC__)
  for (; done < count - 15; done += 16) {
    const lz_wide_f16 x = *(const lz_floats_f16 *)(from + done);
    const lz_wide_f16 y = *(const lz_floats_f16 *)(from + done + 8);
    if (__builtin_expect(__builtin_ia32_movmskps256(__builtin_ia32_cmpps256(x, y, 3)), 0)) {
      for (int i = 0; i < 16; i++)
        to[done + i] = lz_store_f16(from[done + i]);
      continue;
    }
    lz_halves_f16 *const halves = (lz_halves_f16 *)(to + done);
    halves[0] = (lz_eight_f16)__builtin_ia32_vcvtps2ph256(x, 0);
    halves[1] = (lz_eight_f16)__builtin_ia32_vcvtps2ph256(y, 0);
  }
#endif
  for (; done < count; done++)
    to[done] = lz_store_f16(from[done]);
}

//@ lz_load_bf16 ulp=0
LZ_FN lz_f32 lz_load_bf16(lz_bf16 h) { return lz_from_bits_f32((lz_u32)h << 16); }

//@ lz_store_bf16 ulp=0.5
// NaN becomes 0x7fc0, as in PyTorch.
LZ_FN lz_bf16 lz_store_bf16(lz_f32 x) {
  lz_u32 b = lz_bits_f32(x);
  lz_u32 rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  return (lz_bf16)((b & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

//@ lz_widen_bf16 ulp=0
// One instruction puts the bytes of sixteen halves, and zeros, where floats have them; to spread and
// to shift them takes two, and a third for the upper sixteen.
#if defined(__AVX512VBMI__) && defined(__GNUC__) && !defined(__clang__)
typedef char lz_bytes_bf16 __attribute__((vector_size(64)));
typedef char lz_halves_bf16 __attribute__((vector_size(64), aligned(2), may_alias));
typedef lz_f32 lz_floats_bf16 __attribute__((vector_size(64), aligned(4), may_alias));
LZ_FN lz_floats_bf16 lz_spread_bf16(lz_bytes_bf16 halves, lz_bytes_bf16 places) {
  const lz_bytes_bf16 zeros = {0};
  return (lz_floats_bf16)__builtin_ia32_permvarqi512_mask(halves, places, zeros, 0xccccccccccccccccull);
}
#endif
LZ_FN void lz_widen_bf16(lz_i64 count, const lz_bf16 *__restrict from, lz_f32 *__restrict to) {
  lz_i64 done = 0;
#if defined(__AVX512VBMI__) && defined(__GNUC__) && !defined(__clang__)
  for (; done + 32 <= count; done += 32) {
    const lz_bytes_bf16 halves = *(const lz_halves_bf16 *)(from + done);
    const lz_bytes_bf16 lower = {0, 0, 0, 1, 0, 0, 2, 3, 0, 0, 4, 5, 0, 0, 6, 7, 0, 0, 8, 9, 0, 0, 10, 11, 0, 0, 12, 13, 0, 0, 14, 15,
                                 0, 0, 16, 17, 0, 0, 18, 19, 0, 0, 20, 21, 0, 0, 22, 23, 0, 0, 24, 25, 0, 0, 26, 27, 0, 0, 28, 29, 0, 0, 30, 31};
    const lz_bytes_bf16 upper = {0, 0, 32, 33, 0, 0, 34, 35, 0, 0, 36, 37, 0, 0, 38, 39, 0, 0, 40, 41, 0, 0, 42, 43, 0, 0, 44, 45, 0, 0, 46, 47,
                                 0, 0, 48, 49, 0, 0, 50, 51, 0, 0, 52, 53, 0, 0, 54, 55, 0, 0, 56, 57, 0, 0, 58, 59, 0, 0, 60, 61, 0, 0, 62, 63};
    *(lz_floats_bf16 *)(to + done) = lz_spread_bf16(halves, lower);
    *(lz_floats_bf16 *)(to + done + 16) = lz_spread_bf16(halves, upper);
  }
#endif
#pragma omp simd
  for (lz_i64 n = done; n < count; n++)
    to[n] = lz_load_bf16(from[n]);
}

//@ lz_narrow_bf16 ulp=0.5
LZ_FN void lz_narrow_bf16(lz_i64 count, const lz_f32 *__restrict from, lz_bf16 *__restrict to) {
#pragma omp simd
  for (lz_i64 n = 0; n < count; n++)
    to[n] = lz_store_bf16(from[n]);
}

//@ lz_alone_f16 ulp=0.5
// As storing and loading, without the bits of the half. One and a half times the power of two, so
// that sums with negative numbers keep its exponent, too; 2^16 overflows on the way up and back.
LZ_FN lz_f32 lz_alone_f16(lz_f32 x) {
  lz_u32 bits = lz_bits_f32(x);
  lz_f32 step = lz_from_bits_f32(lz_half_step_f16(bits & 0x7fffffffu) + 0x400000u);
  lz_f32 r = ((x + step) - step) * 5.192296858534828e33f * 1.925929944387236e-34f;
  return lz_from_bits_f32(lz_bits_f32(r) | (bits & 0x80000000u));
}

//@ lz_round_f16 ulp=0.5
// To a half and back: two instructions for a vector, for which gcc finds no place. As the vector forms
// of a function (see lz_paths) they take half the time of the nine in lz_alone_f16, call included.
// Only digits of a NaN may differ, which storing drops. Depends on lz_eight_f16.
#if defined(LZ_LANES) && defined(__F16C__)
LZ_ALONE lz_f32 lz_round_f16_one(lz_f32 x) __asm__("one_lz_round_f16");
LZ_ALONE lz_f32 lz_round_f16_one(lz_f32 x) { return lz_alone_f16(x); }
LZ_ALONE lz_wide_f16 lz_round_f16_eight(lz_wide_f16 x) __asm__(LZ_LANES_NAME(8, v, lz_round_f16));
LZ_ALONE lz_wide_f16 lz_round_f16_eight(lz_wide_f16 x) {
  return __builtin_ia32_vcvtph2ps256((lz_eight_f16)__builtin_ia32_vcvtps2ph256(x, 0));
}
#ifdef __AVX512F__
LZ_ALONE lz_wider_f16 lz_round_f16_more(lz_wider_f16 x) __asm__(LZ_LANES_NAME(16, v, lz_round_f16));
LZ_ALONE lz_wider_f16 lz_round_f16_more(lz_wider_f16 x) {
  const lz_sixteen_f16 none = {0}, half = __builtin_ia32_vcvtps2ph512_mask(x, 0, none, 0xffff);
  return __builtin_ia32_vcvtph2ps512_mask(half, (lz_wider_f16){0}, 0xffff, 4);
}
#pragma omp declare simd notinbranch simdlen(16)
#endif
#pragma omp declare simd notinbranch simdlen(8)
__attribute__((const)) lz_f32 lz_round_f16(lz_f32 x) __asm__("one_lz_round_f16");
#else
LZ_FN lz_f32 lz_round_f16(lz_f32 x) { return lz_alone_f16(x); }
#endif

//@ lz_round_bf16 ulp=0.5
LZ_FN lz_f32 lz_round_bf16(lz_f32 x) { return lz_load_bf16(lz_store_bf16(x)); }
