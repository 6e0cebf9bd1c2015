// Signs, comparisons and rounding: exact functions. "@S" is replaced by each suffix in brackets,
// "@U" by the unsigned type of the same width, "@N" by the suffix in capitals,
// "@B" by the position of the sign bit.

//@ lz_select_@S [floats]
// A choice after both have been computed, without a branch: of choices in a row, or by one condition,
// gcc makes one path for each outcome, calls and all.
LZ_FN lz_@S lz_select_@S(int chosen, lz_@S yes, lz_@S no) {
#ifdef __CUDACC__
  return chosen ? yes : no;
#else
  lz_@U mask = (lz_@U)0 - (lz_@U)(chosen != 0);
  return lz_from_bits_@S((lz_bits_@S(yes) & mask) | (lz_bits_@S(no) & ~mask));
#endif
}

//@ lz_select_@S [ints b8]
LZ_FN lz_@S lz_select_@S(int chosen, lz_@S yes, lz_@S no) { return chosen ? yes : no; }

//@ lz_choose_@S [floats ints b8]
// A choice after both have been read. What is read under a condition gcc 12 reads under a mask, and
// where elements beside each other have each their own condition, all under the mask of one.
#ifdef __CUDACC__
#define lz_choose_@S(chosen, yes, no) ((chosen) ? (yes) : (no))
#else
LZ_FN lz_@S lz_choose_@S(int chosen, lz_@S yes, lz_@S no) { return chosen ? yes : no; }
#endif

//@ lz_neg_@S [floats] ulp=0
LZ_FN lz_@S lz_neg_@S(lz_@S x) { return -x; }

//@ lz_neg_@S [ints]
// Through unsigned: the smallest number negated is itself, not undefined.
LZ_FN lz_@S lz_neg_@S(lz_@S x) { return (lz_@S)(0u - (lz_@U)x); }

//@ lz_abs_@S [floats] ulp=0
LZ_FN lz_@S lz_abs_@S(lz_@S x) { return LZ_ABS_@N(x); }

//@ lz_abs_@S [signed]
LZ_FN lz_@S lz_abs_@S(lz_@S x) { return x < 0 ? (lz_@S)(0u - (lz_@U)x) : x; }

//@ lz_abs_@S [unsigned b8]
LZ_FN lz_@S lz_abs_@S(lz_@S x) { return x; }

//@ lz_one
// gcc 12 makes a comparison and a blend of a bound that it knows, one instruction of any other. So it
// must not know this one, and as an int it is read before the loop, as no result can overwrite it.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__cplusplus)
__attribute__((weak, visibility("hidden"))) int lz_one = 1;
#else
#define lz_one 1
#endif

//@ lz_at_least_@S [floats]
LZ_FN lz_@S lz_at_least_@S(lz_@S x, int bound) {
  lz_@S low = (lz_@S)(bound * lz_one);
  return low > x ? low : x;
}

//@ lz_at_most_@S [floats]
LZ_FN lz_@S lz_at_most_@S(lz_@S x, lz_@S bound) {
  lz_@S high = bound * (lz_@S)lz_one;
  return high < x ? high : x;
}

//@ lz_bound_below_@S [floats ints b8] ulp=0
// x, but at least low; NaN stays, and of zeros x.
LZ_FN lz_@S lz_bound_below_@S(lz_@S x, lz_@S low) { return low > x ? low : x; }

//@ lz_bound_above_@S [floats ints b8] ulp=0
// x, but at most high; NaN stays, and of zeros x.
LZ_FN lz_@S lz_bound_above_@S(lz_@S x, lz_@S high) { return high < x ? high : x; }

//@ lz_sign_@S [unsigned b8]
LZ_FN lz_@S lz_sign_@S(lz_@S x) { return x != 0; }

//@ lz_sign_@S [floats signed]
// -1, 0 or 1 in x's type; 0 for NaN, as torch.sign.
LZ_FN lz_@S lz_sign_@S(lz_@S x) { return (lz_@S)((x > 0) - (x < 0)); }

//@ lz_copysign_@S [floats] ulp=0
LZ_FN lz_@S lz_copysign_@S(lz_@S x, lz_@S y) {
  lz_@U sign = (lz_@U)1 << @B;
  return lz_from_bits_@S((lz_bits_@S(x) & ~sign) | (lz_bits_@S(y) & sign));
}

//@ lz_with_sign_@S [floats]
// lz_copysign of a y that has no sign: less to do.
LZ_FN lz_@S lz_with_sign_@S(lz_@S y, lz_@S x) {
  return lz_from_bits_@S(lz_bits_@S(y) | (lz_bits_@S(x) & (lz_@U)1 << @B));
}

//@ lz_maximum_@S [floats] ulp=0
// NaN when either is NaN; x when they are equal. No operand is compared with itself: gcc 12 would
// then not vectorize one maximum of another. One number at a time this is one instruction and a
// branch that is always the same. A GPU rather saves the register of the sum.
#ifdef __CUDACC__
LZ_FN lz_@S lz_maximum_@S(lz_@S x, lz_@S y) { return x >= y || x != x ? x : y; }
#else
LZ_FN lz_@S lz_maximum_@S(lz_@S x, lz_@S y)
{
  const lz_@S most = y > x ? y : x;
  return __builtin_isunordered(x, y) ? x + y : most;
}
#endif

//@ lz_minimum_@S [floats] ulp=0
// NaN when either is NaN; x when they are equal. No operand is compared with itself: gcc 12 would
// then not vectorize one minimum of another. One number at a time this is one instruction and a
// branch that is always the same. A GPU rather saves the register of the sum.
#ifdef __CUDACC__
LZ_FN lz_@S lz_minimum_@S(lz_@S x, lz_@S y) { return x <= y || x != x ? x : y; }
#else
LZ_FN lz_@S lz_minimum_@S(lz_@S x, lz_@S y)
{
  const lz_@S least = y < x ? y : x;
  return __builtin_isunordered(x, y) ? x + y : least;
}
#endif

//@ lz_fold_maximum_@S [floats] ulp=0
// lz_maximum for a value from memory: what waits for x is one instruction and a blend.
LZ_FN lz_@S lz_fold_maximum_@S(lz_@S x, lz_@S y)
{
  const lz_@S most = y > x ? y : x;
  return y != y ? y : most;
}

//@ lz_fold_minimum_@S [floats] ulp=0
// lz_minimum for a value from memory: what waits for x is one instruction and a blend.
LZ_FN lz_@S lz_fold_minimum_@S(lz_@S x, lz_@S y)
{
  const lz_@S least = y < x ? y : x;
  return y != y ? y : least;
}

//@ lz_maximum_@S [ints b8]
LZ_FN lz_@S lz_maximum_@S(lz_@S x, lz_@S y) { return x > y ? x : y; }

//@ lz_minimum_@S [ints b8]
LZ_FN lz_@S lz_minimum_@S(lz_@S x, lz_@S y) { return x < y ? x : y; }

//@ lz_clamp_index_@S [i64]
// lz_maximum(lz_minimum(x, top), 0) for loops in order: one test that always holds, where gcc
// takes both for vectors' instructions.
LZ_FN lz_@S lz_clamp_index_@S(lz_@S x, lz_@S top)
{
  return (lz_u64) x <= (lz_u64) top ? x : x < 0 ? 0 : top;
}

//@ lz_fma_@S [floats] ulp=0
// One rounding on every machine: where no instruction does it, the builtin calls libm.
#ifdef LZ_FUSED
LZ_FN lz_@S lz_fma_@S(lz_@S x, lz_@S y, lz_@S z) { return LZ_FMA_@N(x, y, z); }
#else
LZ_FN lz_@S lz_fma_@S(lz_@S x, lz_@S y, lz_@S z) { return __builtin_fma@{f|}(x, y, z); }
#endif

//@ lz_fmax_@S [floats] ulp=0
// The other operand when one is NaN.
LZ_FN lz_@S lz_fmax_@S(lz_@S x, lz_@S y) { return x >= y || y != y ? x : y; }

//@ lz_fmin_@S [floats] ulp=0
// The other operand when one is NaN.
LZ_FN lz_@S lz_fmin_@S(lz_@S x, lz_@S y) { return x <= y || y != y ? x : y; }

//@ lz_fmax_@S [ints b8]
LZ_FN lz_@S lz_fmax_@S(lz_@S x, lz_@S y) { return x > y ? x : y; }

//@ lz_fmin_@S [ints b8]
LZ_FN lz_@S lz_fmin_@S(lz_@S x, lz_@S y) { return x < y ? x : y; }

//@ lz_isnan_@S [floats]
LZ_FN lz_b8 lz_isnan_@S(lz_@S x) { return x != x; }

//@ lz_isinf_@S [floats]
LZ_FN lz_b8 lz_isinf_@S(lz_@S x) { return lz_abs_@S(x) == LZ_INF_@N; }

//@ lz_isfinite_@S [floats]
LZ_FN lz_b8 lz_isfinite_@S(lz_@S x) { return lz_abs_@S(x) < LZ_INF_@N; }

//@ lz_signbit_@S [floats]
LZ_FN lz_b8 lz_signbit_@S(lz_@S x) { return (lz_b8)(lz_bits_@S(x) >> @B); }

//@ lz_isnan_@S [ints b8]
LZ_FN lz_b8 lz_isnan_@S(lz_@S x) { (void)x; return 0; }

//@ lz_isinf_@S [ints b8]
LZ_FN lz_b8 lz_isinf_@S(lz_@S x) { (void)x; return 0; }

//@ lz_isfinite_@S [ints b8]
LZ_FN lz_b8 lz_isfinite_@S(lz_@S x) { (void)x; return 1; }

//@ lz_signbit_@S [unsigned b8]
LZ_FN lz_b8 lz_signbit_@S(lz_@S x) { (void)x; return 0; }

//@ lz_signbit_@S [signed]
LZ_FN lz_b8 lz_signbit_@S(lz_@S x) { return x < 0; }

//@ lz_rint_magic_@S [floats]
// Round to nearest by adding 1.5 * 2^(mantissa bits) and taking it away; keeps the sign of zero.
LZ_FN lz_@S lz_rint_magic_@S(lz_@S x) {
  lz_@S big = sizeof(lz_@S) == 4 ? (lz_@S)8388608.0 : (lz_@S)4503599627370496.0;
  lz_@S a = lz_abs_@S(x);
  return a < big ? lz_copysign_@S((a + big) - big, x) : x;
}

//@ lz_round_@S [floats] ulp=0
// Ties go to the even neighbour, as torch.round.
LZ_FN lz_@S lz_round_@S(lz_@S x) {
#ifdef LZ_RINT_@N
  return LZ_RINT_@N(x);
#else
  return lz_rint_magic_@S(x);
#endif
}

//@ lz_floor_@S [floats] ulp=0
LZ_FN lz_@S lz_floor_@S(lz_@S x) {
#ifdef LZ_FLOOR_@N
  return LZ_FLOOR_@N(x);
#else
  lz_@S r = lz_rint_magic_@S(x);
  return r > x ? r - 1 : r;
#endif
}

//@ lz_ceil_@S [floats] ulp=0
LZ_FN lz_@S lz_ceil_@S(lz_@S x) {
#ifdef LZ_CEIL_@N
  return LZ_CEIL_@N(x);
#else
  return -lz_floor_@S(-x);
#endif
}

//@ lz_trunc_@S [floats] ulp=0
LZ_FN lz_@S lz_trunc_@S(lz_@S x) {
#ifdef LZ_TRUNC_@N
  return LZ_TRUNC_@N(x);
#else
  return lz_copysign_@S(lz_floor_@S(lz_abs_@S(x)), x);
#endif
}

//@ lz_sqrt_@S [floats] ulp=0.5
LZ_FN lz_@S lz_sqrt_@S(lz_@S x) { return LZ_SQRT_@N(x); }

//@ lz_rsqrt_@S [floats] ulp=1.5
LZ_FN lz_@S lz_rsqrt_@S(lz_@S x) { return 1 / LZ_SQRT_@N(x); }

//@ lz_reciprocal_@S [floats] ulp=0.5
LZ_FN lz_@S lz_reciprocal_@S(lz_@S x) { return 1 / x; }

//@ lz_nextafter_@S [floats] ulp=0
// The neighbour of x towards y: floats of one sign are ordered as their bits are.
LZ_FN lz_@S lz_nextafter_@S(lz_@S x, lz_@S y) {
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if (x == 0) return lz_copysign_@S(lz_from_bits_@S(1), y);
  return lz_from_bits_@S(lz_bits_@S(x) + ((x < y) == (x > 0) ? 1 : (lz_@U)-1));
}

//@ lz_exponent_@S [floats] ulp=0
// The e of x = m * 2^e with 1/2 <= |m| < 1; 0 for 0, infinities and NaN.
LZ_FN lz_@S lz_exponent_@S(lz_@S x) {
  lz_@S a = lz_abs_@S(x);
  int tiny = a < @{1.17549435e-38f|2.2250738585072014e-308};
  lz_@S scaled = tiny ? a * @{1.8446744073709552e19f|1.8446744073709552e19} : a;
  int e = (int)(lz_bits_@S(scaled) >> @{23|52}) - @{126|1022} - (tiny ? 64 : 0);
  return a == 0 || !(a < LZ_INF_@N) ? 0 : e;
}

//@ lz_mantissa_@S [floats] ulp=0
// The m of x = m * 2^e with 1/2 <= |m| < 1; x itself for 0, infinities and NaN.
LZ_FN lz_@S lz_mantissa_@S(lz_@S x) {
  lz_@S a = lz_abs_@S(x);
  int tiny = a < @{1.17549435e-38f|2.2250738585072014e-308};
  lz_@S scaled = tiny ? x * @{1.8446744073709552e19f|1.8446744073709552e19} : x;
  lz_@U rest = lz_bits_@S(scaled) & ~((lz_@U)@{255|2047} << @{23|52});
  lz_@S m = lz_from_bits_@S(rest | (lz_@U)@{126|1022} << @{23|52});
  return a == 0 || !(a < LZ_INF_@N) ? x : m;
}
