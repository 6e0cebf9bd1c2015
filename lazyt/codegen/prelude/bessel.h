// Bessel functions of the orders 0 and 1, and Airy's Ai, all computed in float64. Formulas by their
// numbers in the NIST Handbook of Mathematical Functions (DLMF). Near their zeros the oscillating
// ones have an absolute error of some 1e-15 times the amplitude.

//@ lz_bessel_i_series_f64
// I_n(x) exp(-|x|) for n = 0 or 1, |x| <= 20, by the power series (10.25.2), whose terms are
// positive; with plain set, without the exponential.
LZ_FN lz_f64 lz_bessel_i_series_f64(lz_f64 x, int n, int plain) {
  lz_f64 z = x * x / 4, term = 1, sum = 1;
  for (int k = 1; k < 64 && term > sum * 1e-17; k++) {
    term *= z / (k * (lz_f64)(k + n));
    sum += term;
  }
  sum = n ? sum * (x / 2) : sum;
  return plain ? sum : sum * lz_exp_f64(-lz_abs_f64(x));
}

//@ lz_bessel_i_tail_f64
// I_n(x) exp(-x) for n = 0 or 1, x > 20, by the asymptotic series (10.40.1).
LZ_FN lz_f64 lz_bessel_i_tail_f64(lz_f64 x, int n) {
  lz_f64 term = 1, sum = 1;
  for (int k = 1; k < 32; k++) {
    term *= ((2 * k - 1) * (lz_f64)(2 * k - 1) - 4 * n) / (8 * k * x);
    sum += term;
  }
  return sum / LZ_SQRT_F64(6.2831853071795865 * x);
}

//@ lz_i0e_f64 ulp=30
LZ_FN lz_f64 lz_i0e_f64(lz_f64 x) {
  lz_f64 a = lz_abs_f64(x);
  return a > 20 ? lz_bessel_i_tail_f64(a, 0) : lz_bessel_i_series_f64(a, 0, 0);
}

//@ lz_i0_f64 ulp=30
// The exponential in two halves, lest it overflow before the result does.
LZ_FN lz_f64 lz_i0_f64(lz_f64 x) {
  lz_f64 a = lz_abs_f64(x), half = lz_exp_f64(a / 2);
  return a > 20 ? half * lz_bessel_i_tail_f64(a, 0) * half : lz_bessel_i_series_f64(a, 0, 1);
}

//@ lz_i1e_f64 ulp=30
LZ_FN lz_f64 lz_i1e_f64(lz_f64 x) {
  lz_f64 a = lz_abs_f64(x);
  lz_f64 tail = lz_copysign_f64(lz_bessel_i_tail_f64(a, 1), x);
  return a > 20 ? tail : lz_bessel_i_series_f64(x, 1, 0);
}

//@ lz_i1_f64 ulp=30
LZ_FN lz_f64 lz_i1_f64(lz_f64 x) {
  lz_f64 a = lz_abs_f64(x), half = lz_exp_f64(a / 2);
  lz_f64 tail = lz_copysign_f64(half * lz_bessel_i_tail_f64(a, 1) * half, x);
  return a > 20 ? tail : lz_bessel_i_series_f64(x, 1, 1);
}

//@ lz_bessel_k_integral_f64
// K_v(x) exp(x) for x >= 1, v <= 1: the integral of exp(-x (cosh t - 1)) cosh(v t) over t > 0
// (10.32.9) by the trapezoidal rule, which for such functions converges exponentially.
LZ_FN lz_f64 lz_bessel_k_integral_f64(lz_f64 x, lz_f64 v) {
  lz_f64 step = x < 4 ? 0.22 : 0.44 / LZ_SQRT_F64(x), sum = 0.5;
  for (int k = 1; k < 64; k++) {
    lz_f64 t = k * step, s = lz_sinh_f64(t / 2), gap = 2 * x * s * s;
    if (!(gap < 45)) break;
    sum += lz_exp_f64(-gap) * lz_cosh_f64(v * t);
  }
  return sum * step;
}

//@ lz_bessel_k_series_f64
// K_n(x) for n = 0 or 1, 0 < x < 1, by the power series (10.31.1, 10.31.2).
LZ_FN lz_f64 lz_bessel_k_series_f64(lz_f64 x, int n) {
  lz_f64 z = x * x / 4, log = lz_log_f64(x / 2) + 0.57721566490153286, rise = n ? 0.5 : 0;
  lz_f64 term = 1, sum = rise - log;
  for (int k = 1; k < 16; k++) {
    term *= z / (k * (lz_f64)(k + n));
    rise += n ? 0.5 / k + 0.5 / (k + 1) : 1.0 / k;
    sum += term * (rise - log);
  }
  return n ? 1 / x - x / 2 * sum : sum;
}

//@ lz_bessel_k_f64
// K_n(x), times exp(x) with scaled set; NaN below 0, infinite at 0.
LZ_FN lz_f64 lz_bessel_k_f64(lz_f64 x, int n, int scaled) {
  if (!(x >= 0)) return LZ_NAN_F64;
  if (x < 1) {
    lz_f64 e = scaled ? lz_exp_f64(x) : 1;
    return x == 0 ? LZ_INF_F64 : lz_bessel_k_series_f64(x, n) * e;
  }
  if (x == LZ_INF_F64) return 0;
  return lz_bessel_k_integral_f64(x, n) * (scaled ? 1 : lz_exp_f64(-x));
}

//@ lz_modified_bessel_k0_f64 ulp=20
LZ_FN lz_f64 lz_modified_bessel_k0_f64(lz_f64 x) { return lz_bessel_k_f64(x, 0, 0); }

//@ lz_modified_bessel_k1_f64 ulp=20
LZ_FN lz_f64 lz_modified_bessel_k1_f64(lz_f64 x) { return lz_bessel_k_f64(x, 1, 0); }

//@ lz_scaled_modified_bessel_k0_f64 ulp=20
LZ_FN lz_f64 lz_scaled_modified_bessel_k0_f64(lz_f64 x) { return lz_bessel_k_f64(x, 0, 1); }

//@ lz_scaled_modified_bessel_k1_f64 ulp=20
LZ_FN lz_f64 lz_scaled_modified_bessel_k1_f64(lz_f64 x) { return lz_bessel_k_f64(x, 1, 1); }

//@ lz_bessel_jy_near_f64
// J_0, J_1, Y_0 or Y_1 (which = 0 ... 3) of 0 < x < 25: the recurrence downwards (Miller; DLMF 3.6),
// normalised by 10.12.4; Y by Neumann series (Abramowitz and Stegun 9.1.88).
LZ_FN lz_f64 lz_bessel_jy_near_f64(lz_f64 x, int which) {
  lz_f64 next = 0, now = 1e-250, norm = 0, even = 0, odd = 0;
  for (int k = 24 + 2 * (int)x; k > 0; k--) {
    lz_f64 before = 2 * k / x * now - next, sign = k & 2 ? -1 : 1;
    next = now;
    now = before;
    // now is J_(k-1), next is J_k.
    if (!(k & 1)) {
      norm += 2 * next;
      even += sign * next / (k / 2);
    } else if (k > 1) {
      lz_f64 m = k / 2;
      odd += sign * next * k / (m * (m + 1));
    }
  }
  norm += now;
  lz_f64 j0 = now / norm, j1 = next / norm, log = lz_log_f64(x / 2) + 0.57721566490153286;
  if (which < 2) return which ? j1 : j0;
  if (which == 2) return 0.63661977236758134 * (log * j0 - 2 * even / norm);
  return 0.63661977236758134 * ((log - 1) * j1 - j0 / x - odd / norm);
}

//@ lz_bessel_jy_tiny_f64
// The same for 0 <= x < 1e-4: the first terms of the power series (10.2.2, 10.8.1).
LZ_FN lz_f64 lz_bessel_jy_tiny_f64(lz_f64 x, int which) {
  lz_f64 z = x * x / 4, j0 = 1 - z, j1 = x / 2 * (1 - z / 2);
  lz_f64 log = lz_log_f64(x / 2) + 0.57721566490153286;
  if (which < 2) return which ? j1 : j0;
  if (x == 0) return -LZ_INF_F64;
  return 0.63661977236758134 * (which == 2 ? log * j0 + z : (log - 0.5) * j1 - 1 / x);
}

//@ lz_bessel_jy_far_f64
// The same for x >= 25, by Hankel's expansions (10.17.3, 10.17.4).
LZ_FN lz_f64 lz_bessel_jy_far_f64(lz_f64 x, int which) {
  lz_f64 mu = which & 1 ? 4 : 0, term = 1, p = 1, q = 0;
  for (int k = 1; k < 40; k++) {
    term *= (mu - (2 * k - 1) * (lz_f64)(2 * k - 1)) / (8 * k * x);
    lz_f64 signed_term = k & 2 ? -term : term;
    if (k & 1) q += signed_term;
    else p += signed_term;
  }
  // sqrt(2) times cosine and sine of x less a quarter turn for each order and an eighth.
  lz_f64 s = lz_sin_f64(x), c = lz_cos_f64(x), sum = s + c, gap = s - c;
  lz_f64 cosine = which & 1 ? gap : sum, sine = which & 1 ? -sum : gap;
  lz_f64 size = 0.56418958354775629 / LZ_SQRT_F64(x);
  return size * (which < 2 ? p * cosine - q * sine : p * sine + q * cosine);
}

//@ lz_bessel_jy_f64
LZ_FN lz_f64 lz_bessel_jy_f64(lz_f64 x, int which) {
  if (!(x >= 0)) return LZ_NAN_F64;
  if (x < 1e-4) return lz_bessel_jy_tiny_f64(x, which);
  return x < 25 ? lz_bessel_jy_near_f64(x, which) : lz_bessel_jy_far_f64(x, which);
}

//@ lz_bessel_j0_f64
LZ_FN lz_f64 lz_bessel_j0_f64(lz_f64 x) { return lz_bessel_jy_f64(lz_abs_f64(x), 0); }

//@ lz_bessel_j1_f64
LZ_FN lz_f64 lz_bessel_j1_f64(lz_f64 x) {
  lz_f64 value = lz_bessel_jy_f64(lz_abs_f64(x), 1);
  return lz_signbit_f64(x) ? -value : value;
}

//@ lz_bessel_y0_f64
LZ_FN lz_f64 lz_bessel_y0_f64(lz_f64 x) { return lz_bessel_jy_f64(x, 2); }

//@ lz_bessel_y1_f64
LZ_FN lz_f64 lz_bessel_y1_f64(lz_f64 x) { return lz_bessel_jy_f64(x, 3); }

//@ lz_airy_near_f64
// Ai(x) for -10.5 < x < 2.5: the Taylor series of Ai'' = x Ai about the next integer.
LZ_FN lz_f64 lz_airy_near_f64(lz_f64 x) {
  const lz_f64 values[13] = {
      0.04024123848644319, -0.022133721547341403, -0.0527050503563862, 0.18428083525050565,
      -0.3291451736298231, 0.35076100902411433, -0.07026553294928951, -0.37881429367765806,
      0.22740742820168558, 0.5355608832923521, 0.3550280538878172, 0.13529241631288141,
      0.03492413042327438};
  const lz_f64 slopes[13] = {
      0.99626504413279, -0.9756639809263316, 0.9355609381983065, -0.7710081684101265,
      0.3459354872813429, 0.32719281855444315, -0.7906285753685813, 0.3145837692165988,
      0.618259020741691, -0.01016056711664521, -0.2588194037928068, -0.1591474412967932,
      -0.05309038443365363};
  int node = (int)lz_round_f64(x);
  lz_f64 h = x - node, before = 0, a = values[node + 10], b = slopes[node + 10];
  lz_f64 power = h, sum = a + b * h;
  for (int k = 0; k < 24; k++) {
    // The coefficient of h^(k+2) from those of h^k and h^(k-1).
    lz_f64 c = (node * a + before) / ((k + 1) * (lz_f64)(k + 2));
    power *= h;
    sum += c * power;
    before = a;
    a = b;
    b = c;
  }
  return sum;
}

//@ lz_airy_far_f64
// Ai(-z) for z >= 10 by the asymptotic expansion (9.7.9).
LZ_FN lz_f64 lz_airy_far_f64(lz_f64 z) {
  lz_f64 root = LZ_SQRT_F64(z), zeta = 2 * z * root / 3, term = 1, f = 1, g = 0;
  for (int k = 1; k < 32; k++) {
    lz_f64 six = 6 * k;
    term *= (six - 5) * (six - 3) * (six - 1) / (216 * k * (lz_f64)(2 * k - 1)) / zeta;
    lz_f64 signed_term = k & 2 ? -term : term;
    if (k & 1) g += signed_term;
    else f += signed_term;
  }
  lz_f64 s = lz_sin_f64(zeta), c = lz_cos_f64(zeta);
  return 0.39894228040143268 / LZ_SQRT_F64(root) * ((c + s) * f + (s - c) * g);
}

//@ lz_airy_ai_f64
// NaN at the infinities, as in PyTorch.
LZ_FN lz_f64 lz_airy_ai_f64(lz_f64 x) {
  if (!(lz_abs_f64(x) < LZ_INF_F64)) return LZ_NAN_F64;
  if (x < -10.25) return lz_airy_far_f64(-x);
  if (x < 2) return lz_airy_near_f64(x);
  lz_f64 zeta = 2 * x * LZ_SQRT_F64(x) / 3;  // (9.6.2)
  lz_f64 k = zeta < 800 ? lz_bessel_k_integral_f64(zeta, 0.33333333333333331) : 0;
  return 0.18377629847393068 * LZ_SQRT_F64(x) * k * lz_exp_f64(-zeta);
}

//@ lz_i0_f32 ulp=1
LZ_FN lz_f32 lz_i0_f32(lz_f32 x) { return (lz_f32)lz_i0_f64(x); }

//@ lz_i0e_f32 ulp=1
LZ_FN lz_f32 lz_i0e_f32(lz_f32 x) { return (lz_f32)lz_i0e_f64(x); }

//@ lz_i1_f32 ulp=1
LZ_FN lz_f32 lz_i1_f32(lz_f32 x) { return (lz_f32)lz_i1_f64(x); }

//@ lz_i1e_f32 ulp=1
LZ_FN lz_f32 lz_i1e_f32(lz_f32 x) { return (lz_f32)lz_i1e_f64(x); }

//@ lz_modified_bessel_k0_f32 ulp=1
LZ_FN lz_f32 lz_modified_bessel_k0_f32(lz_f32 x) { return (lz_f32)lz_modified_bessel_k0_f64(x); }

//@ lz_modified_bessel_k1_f32 ulp=1
LZ_FN lz_f32 lz_modified_bessel_k1_f32(lz_f32 x) { return (lz_f32)lz_modified_bessel_k1_f64(x); }

//@ lz_scaled_modified_bessel_k0_f32 ulp=1
LZ_FN lz_f32 lz_scaled_modified_bessel_k0_f32(lz_f32 x) { return (lz_f32)lz_scaled_modified_bessel_k0_f64(x); }

//@ lz_scaled_modified_bessel_k1_f32 ulp=1
LZ_FN lz_f32 lz_scaled_modified_bessel_k1_f32(lz_f32 x) { return (lz_f32)lz_scaled_modified_bessel_k1_f64(x); }

//@ lz_bessel_j0_f32
LZ_FN lz_f32 lz_bessel_j0_f32(lz_f32 x) { return (lz_f32)lz_bessel_j0_f64(x); }

//@ lz_bessel_j1_f32
LZ_FN lz_f32 lz_bessel_j1_f32(lz_f32 x) { return (lz_f32)lz_bessel_j1_f64(x); }

//@ lz_bessel_y0_f32
LZ_FN lz_f32 lz_bessel_y0_f32(lz_f32 x) { return (lz_f32)lz_bessel_y0_f64(x); }

//@ lz_bessel_y1_f32
LZ_FN lz_f32 lz_bessel_y1_f32(lz_f32 x) { return (lz_f32)lz_bessel_y1_f64(x); }

//@ lz_airy_ai_f32
LZ_FN lz_f32 lz_airy_ai_f32(lz_f32 x) { return (lz_f32)lz_airy_ai_f64(x); }
