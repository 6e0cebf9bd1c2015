// The incomplete gamma functions and Hurwitz's zeta function, all computed in float64. Formulas by
// their numbers in the NIST Handbook of Mathematical Functions (DLMF).

//@ lz_gamma_front_f64
// x^a exp(-x) / gamma(a + 1) for finite a > 0, x > 0; for large a by Stirling's series, in which
// the large parts of the exponent have cancelled.
LZ_FN lz_f64 lz_gamma_front_f64(lz_f64 a, lz_f64 x) {
  if (a < 10) return lz_exp_f64(a * lz_log_f64(x) - x - lz_lgamma_positive_f64(a + 1));
  lz_f64 d = (x - a) / a, log = lz_abs_f64(d) < 0.5 ? lz_log1p_f64(d) : lz_log_f64(x / a);
  lz_f64 v = 1 / a, z = v * v;
  lz_f64 p = 0.00641025641025641;
  p = LZ_FMA_F64(p, z, -0.0019175269175269176); p = LZ_FMA_F64(p, z, 0.00084175084175084171);
  p = LZ_FMA_F64(p, z, -0.00059523809523809529); p = LZ_FMA_F64(p, z, 0.00079365079365079365);
  p = LZ_FMA_F64(p, z, -0.0027777777777777779); p = LZ_FMA_F64(p, z, 0.083333333333333329);
  return lz_exp_f64(a * (log - d) - p * v) / LZ_SQRT_F64(6.2831853071795865 * a);
}

//@ lz_igamma_series_f64
// The lower function by its power series (8.7.1), whose terms are positive.
LZ_LONG_FN lz_f64 lz_igamma_series_f64(lz_f64 a, lz_f64 x) {
  lz_f64 term = 1, sum = 1;
  for (int k = 1; k < 20000 && term > sum * 1e-17; k++) {
    term *= x / (a + k);
    sum += term;
  }
  return lz_gamma_front_f64(a, x) * sum;
}

//@ lz_igammac_fraction_f64
// The upper function by the continued fraction (8.9.2), evaluated from the front (Lentz).
LZ_LONG_FN lz_f64 lz_igammac_fraction_f64(lz_f64 a, lz_f64 x) {
  lz_f64 b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int k = 1; k < 20000; k++) {
    lz_f64 top = k * (a - k);
    b += 2;
    d = top * d + b;
    d = 1 / (lz_abs_f64(d) < 1e-300 ? 1e-300 : d);
    c = b + top / c;
    c = lz_abs_f64(c) < 1e-300 ? 1e-300 : c;
    h *= c * d;
    if (lz_abs_f64(c * d - 1) < 1e-16) break;
  }
  return lz_gamma_front_f64(a, x) * a * h;
}

//@ lz_igammac_small_f64
// The upper function for a < 1, x < 1.5: 1 less the alternating series (8.7.3), arranged so that
// small results keep their digits.
LZ_LONG_FN lz_f64 lz_igammac_small_f64(lz_f64 a, lz_f64 x) {
  lz_f64 term = 1, sum = 0;
  for (int k = 1; k < 40; k++) {
    term *= -x / k;
    sum += term / (a + k);
  }
  lz_f64 lgamma = a < 0.25 ? lz_lgamma_near_f64(a) - lz_log1p_f64(a) : lz_lgamma_f64(1 + a);
  lz_f64 e = a * lz_log_f64(x) - lgamma;
  return -lz_expm1_f64(e) - lz_exp_f64(e) * a * sum;
}

//@ lz_igamma_large_f64
// Either function for huge a: Temme's uniform expansion (8.12.3, 8.12.4), three terms.
LZ_LONG_FN lz_f64 lz_igamma_large_f64(lz_f64 a, lz_f64 x, int upper) {
  lz_f64 d = (x - a) / a, y = d - lz_log1p_f64(d);
  y = lz_abs_f64(d) < 0.01 ? d * d * (0.5 - d * (1 / 3.0 - d * (0.25 - d * (0.2 - d / 6)))) : y;
  lz_f64 eta = lz_copysign_f64(LZ_SQRT_F64(2 * y), d);
  lz_f64 rest = -1 / 3.0 + eta * (1 / 12.0 - eta * 2 / 135) - 1 / (540 * a);
  lz_f64 bell = lz_exp_f64(-a * y) / LZ_SQRT_F64(6.2831853071795865 * a);
  lz_f64 sign = upper ? 1 : -1;
  return 0.5 * lz_erfc_f64(sign * eta * LZ_SQRT_F64(a / 2)) + sign * bell * rest;
}

//@ lz_igamma_part_f64
// The lower function of (a, x), or the upper one; the edges are PyTorch's.
LZ_LONG_FN lz_f64 lz_igamma_part_f64(lz_f64 a, lz_f64 x, int upper) {
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0)) {
    if (a >= 0 && x >= 0) return LZ_NAN_F64;
    // An infinite or vanishing argument decides alone, as long as the other is no negative number.
    if (x == 0 && a != a) return upper;
    if (x == LZ_INF_F64 && a != a) return !upper;
    if (a == LZ_INF_F64 && x != x) return upper;
    return LZ_NAN_F64;
  }
  if (a == LZ_INF_F64) return x == LZ_INF_F64 ? LZ_NAN_F64 : upper;
  if (a == 0 || x == LZ_INF_F64) return !upper;
  if (x == 0) return upper;
  if (a > 1e6 && lz_abs_f64(x - a) < 0.05 * a) return lz_igamma_large_f64(a, x, upper);
  if (a < 1 && x < 1.5 && upper) return lz_igammac_small_f64(a, x);
  if (x < a + 1) {
    lz_f64 p = lz_igamma_series_f64(a, x);
    return upper ? 1 - p : p;
  }
  lz_f64 q = lz_igammac_fraction_f64(a, x);
  return upper ? q : 1 - q;
}

//@ lz_igamma_@S [floats]
// The relative error in float64 grows like 1e-16 (1 + |x - a|).
LZ_FN lz_@S lz_igamma_@S(lz_@S a, lz_@S x) { return (lz_@S)lz_igamma_part_f64(a, x, 0); }

//@ lz_igammac_@S [floats]
LZ_FN lz_@S lz_igammac_@S(lz_@S a, lz_@S x) { return (lz_@S)lz_igamma_part_f64(a, x, 1); }

//@ lz_zeta_f64
// The sum of (q + k)^-s over k >= 0, by Euler and Maclaurin (25.11.5): the first terms, then the
// rest with Bernoulli numbers over factorials. Edges as in PyTorch.
LZ_LONG_FN lz_f64 lz_zeta_f64(lz_f64 s, lz_f64 q) {
  const lz_f64 ratios[12] = {
      0.083333333333333333, -0.0013888888888888889, 3.3068783068783069e-05,
      -8.2671957671957672e-07, 2.0876756987868099e-08, -5.2841901386874932e-10,
      1.3382536530684679e-11, -3.3896802963225828e-13, 8.5860620562778446e-15,
      -2.1748686985580619e-16, 5.5090028283602295e-18, -1.3954464685812523e-19};
  if (s == 1) return LZ_INF_F64;
  if (s < 1) return LZ_NAN_F64;
  if (q <= 0) {
    if (q == lz_floor_f64(q)) return LZ_INF_F64;
    if (s != lz_floor_f64(s)) return LZ_NAN_F64;
  }
  lz_f64 sum = lz_pow_f64(q, -s), a = q, b = sum;
  for (int k = 0; k < 9 || a <= 9; k++) {
    a += 1;
    b = lz_pow_f64(a, -s);
    sum += b;
    if (lz_abs_f64(b) < 1e-17 * lz_abs_f64(sum)) return sum;
    if (k > 1000000) break;
  }
  sum += b * a / (s - 1) - 0.5 * b;
  lz_f64 rising = s, power = b / a;
  for (int k = 0; k < 12; k++) {
    lz_f64 term = ratios[k] * rising * power;
    sum += term;
    if (lz_abs_f64(term) < 1e-17 * lz_abs_f64(sum)) break;
    rising *= (s + 2 * k + 1) * (s + 2 * k + 2);
    power /= a * a;
  }
  return sum;
}

//@ lz_zeta_f32
LZ_FN lz_f32 lz_zeta_f32(lz_f32 s, lz_f32 q) { return (lz_f32)lz_zeta_f64(s, q); }

//@ lz_gamma_quantile_f64
// The x with P(a, x) = u for a >= 1: Wilson and Hilferty's start, then Halley's method on the
// smaller of P and Q, whose digits count.
LZ_LONG_FN lz_f64 lz_gamma_quantile_f64(lz_f64 a, lz_f64 u) {
  if (!(a >= 1 && a < LZ_INF_F64 && u > 0 && u < 1)) return LZ_NAN_F64;
  int upper = u > 0.5;
  lz_f64 c = 1 / (9 * a), aim = upper ? 1 - u : u, sign = upper ? -1 : 1;
  lz_f64 x = 1 - c + LZ_SQRT_F64(c) * lz_ndtri_f64(u);
  x = a * x * x * x;
  lz_f64 least = lz_exp_f64((lz_log_f64(u) + lz_lgamma_f64(a + 1)) / a);
  x = x > least ? x : least;
  for (int k = 0; k < 40; k++) {
    lz_f64 density = lz_gamma_front_f64(a, x) * a / x;
    if (density == 0) break;
    lz_f64 step = sign * (lz_igamma_part_f64(a, x, upper) - aim) / density;
    lz_f64 bend = step * ((a - 1) / x - 1) / 2, before = x;
    bend = bend > 0.5 ? 0.5 : bend < -0.5 ? -0.5 : bend;
    x -= step / (1 - bend);
    x = x > before / 4 ? x : before / 4;
    if (lz_abs_f64(x - before) <= 1e-15 * x) break;
  }
  return x;
}

//@ lz_gamma_quantile_slope_f64
// How the quantile x moves with a: -(dP/da) / (dP/dx), dP/da by central differences of order four
// of the smaller of P and Q, in steps of the law's own width.
LZ_LONG_FN lz_f64 lz_gamma_quantile_slope_f64(lz_f64 a, lz_f64 x) {
  if (!(a >= 1 && a < LZ_INF_F64 && x > 0 && x < LZ_INF_F64)) return LZ_NAN_F64;
  int upper = x > a;
  lz_f64 h = 2e-3 * LZ_SQRT_F64(a);
  lz_f64 near = lz_igamma_part_f64(a + h, x, upper) - lz_igamma_part_f64(a - h, x, upper);
  lz_f64 far = lz_igamma_part_f64(a + 2 * h, x, upper) - lz_igamma_part_f64(a - 2 * h, x, upper);
  lz_f64 density = lz_gamma_front_f64(a, x) * a;
  if (!(density > 0)) return LZ_NAN_F64;
  lz_f64 slope = (8 * near - far) / (12 * h) * x / density;
  return upper ? slope : -slope;
}

//@ lz_gamma_quantile_f32
LZ_FN lz_f32 lz_gamma_quantile_f32(lz_f32 a, lz_f32 u) {
  return (lz_f32)lz_gamma_quantile_f64(a, u);
}

//@ lz_gamma_quantile_slope_f32
LZ_FN lz_f32 lz_gamma_quantile_slope_f32(lz_f32 a, lz_f32 x) {
  return (lz_f32)lz_gamma_quantile_slope_f64(a, x);
}
