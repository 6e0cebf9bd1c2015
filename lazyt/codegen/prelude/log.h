// Logarithms and what follows from them. x = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).

//@ lz_log_split_f32
// f, and 2^23 e as a float; x * scale is a normal number, scale a power of two. What e is multiplied
// by takes the power back, which is exact and costs nothing.
LZ_FN lz_f32 lz_log_split_f32(lz_f32 x, lz_f32 scale, lz_f32 *e) {
  lz_u32 bits = lz_bits_f32(x * scale), top = (bits - 0x3f3504f3u) & 0xff800000u;
  *e = (lz_f32)(lz_i32)(top - (lz_bits_f32(scale) - 0x3f800000u));
  return lz_from_bits_f32(bits - top) - 1;
}

//@ lz_log_split_f64
// f and e, which is put into the last bits of a large float.
LZ_FN lz_f64 lz_log_split_f64(lz_f64 x, lz_f64 scale, lz_f64 *e) {
  lz_u64 bits = lz_bits_f64(x * scale), from = bits - 0x3fe6a09e667f3bcdULL;
  lz_u64 k = (from + 0xbff0000000000000ULL - lz_bits_f64(scale)) >> 52;
  *e = lz_from_bits_f64(k | 0x4330000000000000ULL) - 4503599627372544.0;
  return lz_from_bits_f64(bits - (from & 0xfff0000000000000ULL)) - 1;
}

//@ lz_log_parts_@S [floats]
// f, and e or 2^23 e. What depends on the size of x is chosen once: of two choices by the same
// condition gcc would compute all in between twice.
LZ_FN lz_@S lz_log_parts_@S(lz_@S x, lz_@S *e) {
  lz_@S scale = x < @{1.17549435e-38f|2.2250738585072014e-308}
      ? @{8388608.0f|4503599627370496.0} : 1;
  return lz_log_split_@S(x, scale, e);
}

//@ lz_log_tail_f32
// log(1 + f) - (f - f^2/2).
LZ_FN lz_f32 lz_log_tail_f32(lz_f32 f) {
  // Even and odd powers apart: the chain of steps, not their number, is what takes time.
  lz_f32 z = f * f, p = LZ_FMA_F32(0.0692106709f, z, 0.118672006f);
  lz_f32 q = LZ_FMA_F32(-0.117847718f, z, -0.12385042f);
  p = LZ_FMA_F32(p, z, 0.142197028f); q = LZ_FMA_F32(q, z, -0.166692331f);
  p = LZ_FMA_F32(p, z, 0.20002161f); q = LZ_FMA_F32(q, z, -0.249999866f);
  p = LZ_FMA_F32(p, z, 0.333333105f);
  return f * z * LZ_FMA_F32(q, f, p);
}

//@ lz_log_tail_f64
// log(1 + f) - (f - f^2/2), through the inverse hyperbolic tangent of s = f / (2 + f).
LZ_FN lz_f64 lz_log_tail_f64(lz_f64 f) {
  lz_f64 s = f / (2 + f), z = s * s;
  lz_f64 p = 0.14798746752611644; p = LZ_FMA_F64(p, z, 0.15313787280957394);
  p = LZ_FMA_F64(p, z, 0.18183573941499395); p = LZ_FMA_F64(p, z, 0.22222198402086499);
  p = LZ_FMA_F64(p, z, 0.28571428743907457); p = LZ_FMA_F64(p, z, 0.39999999999408586);
  p = LZ_FMA_F64(p, z, 0.66666666666667351);
  return s * LZ_FMA_F64(z, p, 0.5 * f * f);
}

//@ lz_log_limits_@S [floats]
// r, the logarithm of x, except where x is 0, negative, infinite or NaN.
LZ_FN lz_@S lz_log_limits_@S(lz_@S x, lz_@S r) {
  lz_@S low = x == 0 ? -LZ_INF_@N : LZ_NAN_@N;
  r = x < LZ_INF_@N ? r : x;
  return x > 0 ? r : low;
}

//@ lz_log_sum_@S [floats]
// log(x) + low for finite x > 0 and small low.
LZ_FN lz_@S lz_log_sum_@S(lz_@S x, lz_@S low) {
  lz_@S e, f = lz_log_parts_@S(x, &e);
  lz_@S rest = LZ_FMA_@N(e, @{1.70303198e-13f|5.4979230187083712e-14}, low) + lz_log_tail_@S(f);
  rest = f - LZ_FMA_@N(f * f, (lz_@S)0.5, -rest);
  return LZ_FMA_@N(e, @{8.26294126e-08f|0.69314718055989033}, rest);
}

//@ lz_log_@S [floats] ulp=1
LZ_FN lz_@S lz_log_@S(lz_@S x) {
  return lz_log_limits_@S(x, lz_log_sum_@S(x, @{-0.0f|-0.0}));
}

//@ lz_log_base_@S [floats]
// e * (ehi + elo) + log(1 + f) * (hi + lo), e as lz_log_parts_@S gives it. hi, ehi and the leading
// part of log(1 + f) are short, so that their products are exact.
LZ_FN lz_@S lz_log_base_@S(lz_@S x, lz_@S hi, lz_@S lo, lz_@S ehi, lz_@S elo) {
  lz_@S e, f = lz_log_parts_@S(x, &e), square = f * f * (lz_@S)0.5;
  lz_@S top = f - square;
  top = lz_from_bits_@S(lz_bits_@S(top) & @{0xfffff000u|0xffffffff00000000ULL});
  lz_@S rest = ((f - top) - square) + lz_log_tail_@S(f);
  lz_@S small = LZ_FMA_@N(rest + top, lo, elo == 0 ? rest * hi : LZ_FMA_@N(rest, hi, e * elo));
  lz_@S large = e * ehi, part = top * hi, sum = large + part;
  return lz_log_limits_@S(x, (small + ((large - sum) + part)) + sum);
}

//@ lz_log2_@S [floats] ulp=1
LZ_FN lz_@S lz_log2_@S(lz_@S x) {
  return lz_log_base_@S(x, @{1.4423828125f|1.4426946640014648},
      @{3.12228389e-4f|3.7688749856360991e-07}, @{1.1920929e-7f|1}, 0);
}

//@ lz_log10_@S [floats] ulp=1
LZ_FN lz_@S lz_log10_@S(lz_@S x) {
  return lz_log_base_@S(x, @{0.4342041015625f|0.43429446220397949},
      @{9.03803408e-5f|1.9699272335463627e-08}, @{3.5885023e-8f|0.30102999566361177},
      @{5.48963435e-13f|3.6942390771589308e-13});
}

//@ lz_log1p_@S [floats] ulp=1.5
// log(u) + c / u, where u + c is 1 + x exactly.
LZ_FN lz_@S lz_log1p_@S(lz_@S x) {
  lz_@S u = 1 + x, v = u - 1, c = (1 - (u - v)) + (x - v);
  lz_@S r = lz_log_limits_@S(u, lz_log_sum_@S(u, c / u));
  return lz_abs_@S(x) < @{3e-8f|5e-17} ? x : r;
}

//@ lz_xlogy_@S [floats]
LZ_FN lz_@S lz_xlogy_@S(lz_@S x, lz_@S y) {
  lz_@S product = x * lz_log_@S(y);
  return (x == 0) & (y == y) ? 0 : product;
}

//@ lz_xlog1py_@S [floats]
LZ_FN lz_@S lz_xlog1py_@S(lz_@S x, lz_@S y) {
  lz_@S product = x * lz_log1p_@S(y);
  return (x == 0) & (y == y) ? 0 : product;
}

//@ lz_asinh_@S [floats] ulp=3
LZ_FN lz_@S lz_asinh_@S(lz_@S x) {
  lz_@S a = lz_abs_@S(x), z = a * a, big = @{1e9f|1e18};
  lz_@S t = a > big ? a : a + z / (1 + LZ_SQRT_@N(1 + z));
  lz_@S r = lz_log1p_@S(t) + (a > big ? @{0.693147182f|0.69314718055994531} : 0);
  return lz_copysign_@S(r, x);
}

//@ lz_acosh_@S [floats] ulp=3
LZ_FN lz_@S lz_acosh_@S(lz_@S x) {
  lz_@S t = x - 1, big = @{1e9f|1e18};
  lz_@S u = x > big ? x : t + LZ_SQRT_@N(2 * t + t * t);
  lz_@S r = lz_log1p_@S(u) + (x > big ? @{0.693147182f|0.69314718055994531} : 0);
  return x >= 1 ? r : LZ_NAN_@N;
}

//@ lz_atanh_@S [floats] ulp=3
LZ_FN lz_@S lz_atanh_@S(lz_@S x) {
  lz_@S a = lz_abs_@S(x);
  return lz_copysign_@S((lz_@S)0.5 * lz_log1p_@S(2 * a / (1 - a)), x);
}
