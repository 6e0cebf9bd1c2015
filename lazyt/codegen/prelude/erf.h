// The error function and its relatives.

//@ lz_erf_poly_f32
// erf(x) for |x| <= 0.95.
LZ_FN lz_f32 lz_erf_poly_f32(lz_f32 x) {
  lz_f32 z = x * x;
  lz_f32 p = 8.21539506e-05f; p = LZ_FMA_F32(p, z, -0.000810595695f);
  p = LZ_FMA_F32(p, z, 0.0051977965f); p = LZ_FMA_F32(p, z, -0.0268581044f);
  p = LZ_FMA_F32(p, z, 0.112836726f); p = LZ_FMA_F32(p, z, -0.376126319f);
  p = LZ_FMA_F32(p, z, 0.12837923f);
  return LZ_FMA_F32(x, p, x);
}

//@ lz_erf_poly_f64
// erf(x) for |x| <= 1.
LZ_FN lz_f64 lz_erf_poly_f64(lz_f64 x) {
  lz_f64 z = x * x;
  lz_f64 w = z * z, p = LZ_FMA_F64(5.9606803397280745e-11, w, 1.4660327819316615e-08);
  lz_f64 q = LZ_FMA_F64(-1.1374952579192615e-09, w, -1.6350396069263641e-07);
  p = LZ_FMA_F64(p, w, 1.6461008460771013e-06); q = LZ_FMA_F64(q, w, -1.4925595770909825e-05);
  p = LZ_FMA_F64(p, w, 0.00012055331132892126); q = LZ_FMA_F64(q, w, -0.00085483269814234627);
  p = LZ_FMA_F64(p, w, 0.005223977624828389); q = LZ_FMA_F64(q, w, -0.026866170645077871);
  p = LZ_FMA_F64(p, w, 0.11283791670954885); q = LZ_FMA_F64(q, w, -0.37612638903183748);
  p = LZ_FMA_F64(p, w, 0.1283791670955126); p = LZ_FMA_F64(q, z, p);
  return LZ_FMA_F64(x, p, x);
}

//@ lz_erfc_shape_f32
// exp(x^2) * erfc(x) * (1 + 2x), smooth in q = (x - 4) / (x + 4), for x in [0.48, 10.2].
LZ_FN lz_f32 lz_erfc_shape_f32(lz_f32 x) {
  lz_f32 q = (x - 4) / (x + 4);
  lz_f32 z = q * q, p = LZ_FMA_F32(-0.0165946577f, z, -0.0662542507f);
  lz_f32 odd = LZ_FMA_F32(0.00525908964f, z, 0.0369908921f); p = LZ_FMA_F32(p, z, -0.10104531f);
  odd = LZ_FMA_F32(odd, z, 0.0937697217f); p = LZ_FMA_F32(p, z, 0.0153798526f);
  odd = LZ_FMA_F32(odd, z, 0.0680943206f); p = LZ_FMA_F32(p, z, 1.23299515f);
  odd = LZ_FMA_F32(odd, z, -0.139621064f); p = LZ_FMA_F32(odd, q, p);
  return p;
}

//@ lz_erfc_shape_f64
// exp(x^2) * erfc(x) * (1 + 2x), smooth in q = (x - 4) / (x + 4), for x in [0.49, 28].
LZ_FN lz_f64 lz_erfc_shape_f64(lz_f64 x) {
  lz_f64 q = (x - 4) / (x + 4);
  lz_f64 z = q * q, p = LZ_FMA_F64(1.8370929432998528e-09, z, -1.7985389307042598e-08);
  lz_f64 odd = LZ_FMA_F64(-9.6746970181214295e-09, z, 1.0332035163892113e-07);
  p = LZ_FMA_F64(p, z, 7.4836080444341991e-08); odd = LZ_FMA_F64(odd, z, -8.1958563041216181e-07);
  p = LZ_FMA_F64(p, z, 2.9356507321967145e-07); odd = LZ_FMA_F64(odd, z, 5.7065468734931176e-06);
  p = LZ_FMA_F64(p, z, -1.1221873615686441e-05); odd = LZ_FMA_F64(odd, z, -2.4398078912145115e-05);
  p = LZ_FMA_F64(p, z, 0.00015062161791755616); odd = LZ_FMA_F64(odd, z, -0.00019925695991183392);
  p = LZ_FMA_F64(p, z, -0.00075777327554066526); odd = LZ_FMA_F64(odd, z, 0.0050319700176454842);
  p = LZ_FMA_F64(p, z, -0.016197734059604674); odd = LZ_FMA_F64(odd, z, 0.037167515533884865);
  p = LZ_FMA_F64(p, z, -0.066330365812070122); odd = LZ_FMA_F64(odd, z, 0.093732834998529468);
  p = LZ_FMA_F64(p, z, -0.10103906603631063); odd = LZ_FMA_F64(odd, z, 0.068097054254688566);
  p = LZ_FMA_F64(p, z, 0.015379652102619849); odd = LZ_FMA_F64(odd, z, -0.1396211168405625);
  p = LZ_FMA_F64(p, z, 1.2329951186255526); p = LZ_FMA_F64(odd, q, p);
  return p;
}

//@ lz_erfc_tail_@S [floats]
// erfc(x) for x >= 1/2. x^2 is a sum of an exact square and a small rest, lest its rounding be
// multiplied by x^2; kept 2^64 times too large until the end, so that subnormals round once.
LZ_FN lz_@S lz_erfc_tail_@S(lz_@S x) {
  lz_@S a = x > @{10.2f|28} ? @{10.2f|28} : x;
  lz_@S h = lz_from_bits_@S(lz_bits_@S(a) & @{0xfffff000u|0xfffffffff8000000ULL});
  lz_@S e = lz_exp_sum_@S(-h * h, -(a - h) * (a + h), 64);
  return e * (lz_erfc_shape_@S(a) / (1 + 2 * a)) * @{5.421010862427522e-20f|5.421010862427522e-20};
}

//@ lz_exp2m1_poly_f32
// exp2(r) - 1 for |r| <= 1/2, with all digits where r is small.
LZ_FN lz_f32 lz_exp2m1_poly_f32(lz_f32 r) {
  lz_f32 s = r * r, p = LZ_FMA_F32(0.0555036701f, r, 0.240226507f);
  lz_f32 q = LZ_FMA_F32(0.00133875629f, r, 0.00961806625f);
  q = LZ_FMA_F32(0.000154613852f, s, q);
  p = LZ_FMA_F32(r, LZ_FMA_F32(s, q, p), -0.306852818f);
  return LZ_FMA_F32(r, p, r);
}

//@ lz_erf_f32 ulp=2.5
// 1 - exp2(p), p = log2(erfc(|x|)) by a polynomial, which keeps the digits of small results, too.
LZ_FN lz_f32 lz_erf_f32(lz_f32 x) {
  // Above 4 the result rounds to 1.
  lz_f32 a = lz_abs_f32(x), b = a > 4 ? 4 : a, magic = 12583039.0f;
  lz_f32 z = b * b, p = -0.000165960199f, q = 1.29164673e-05f;
  p = LZ_FMA_F32(p, z, -0.00238324841f); q = LZ_FMA_F32(q, z, 0.000900250801f);
  p = LZ_FMA_F32(p, z, 0.0276415776f); q = LZ_FMA_F32(q, z, 0.000211496939f);
  p = LZ_FMA_F32(p, z, -0.918447435f); q = LZ_FMA_F32(q, z, -0.14827925f);
  p = LZ_FMA_F32(LZ_FMA_F32(q, b, p), b, -0.62790704f);
  p = LZ_FMA_F32(p, b, -b);
  lz_f32 t = p + magic, u = lz_exp2m1_poly_f32(p - (t - magic));
  lz_f32 s = lz_from_bits_f32(lz_bits_f32(t) << 23);
  return lz_copysign_f32(LZ_FMA_F32(-s, u, 1 - s), x);
}

//@ lz_erf_f64 ulp=1.5
LZ_FN lz_f64 lz_erf_f64(lz_f64 x) {
  lz_f64 a = lz_abs_f64(x), near = lz_erf_poly_f64(x), far = 1 - lz_erfc_tail_f64(a);
  return a < 1 ? near : lz_copysign_f64(far, x);
}

//@ lz_erfc_@S [floats] ulp=4.5
LZ_FN lz_@S lz_erfc_@S(lz_@S x) {
  lz_@S a = lz_abs_@S(x), tail = lz_erfc_tail_@S(a), near = 1 - lz_erf_poly_@S(x);
  return a < (lz_@S)0.5 ? near : x < 0 ? 2 - tail : tail;
}

//@ lz_erfinv_f32 ulp=4
// x * P(w), w = -log(1 - x^2), in two ranges (Giles, "Approximating the erfinv function", 2011).
LZ_FN lz_f32 lz_erfinv_f32(lz_f32 x) {
  lz_f32 w = -lz_log_f32((1 - x) * (1 + x)), u = w - 2.5f, v = LZ_SQRT_F32(w) - 3;
  lz_f32 p = -8.76466189e-09f; p = LZ_FMA_F32(p, u, 2.32715855e-08f);
  p = LZ_FMA_F32(p, u, 4.65846995e-07f); p = LZ_FMA_F32(p, u, -3.46313163e-06f);
  p = LZ_FMA_F32(p, u, -4.96205848e-06f); p = LZ_FMA_F32(p, u, 0.000218345871f);
  p = LZ_FMA_F32(p, u, -0.00125274365f); p = LZ_FMA_F32(p, u, -0.00417738827f);
  p = LZ_FMA_F32(p, u, 0.24664028f); p = LZ_FMA_F32(p, u, 1.50140941f); lz_f32 t = 0.000125370236f;
  t = LZ_FMA_F32(t, v, -0.000316887395f); t = LZ_FMA_F32(t, v, -7.09972592e-05f);
  t = LZ_FMA_F32(t, v, 0.0014937392f); t = LZ_FMA_F32(t, v, -0.00358999544f);
  t = LZ_FMA_F32(t, v, 0.00568389008f); t = LZ_FMA_F32(t, v, -0.00763880461f);
  t = LZ_FMA_F32(t, v, 0.00944561418f); t = LZ_FMA_F32(t, v, 1.00167501f);
  t = LZ_FMA_F32(t, v, 2.83297682f);
  return lz_abs_f32(x) == 1 ? x * LZ_INF_F32 : x * (w < 5 ? p : t);
}

//@ lz_erfinv_start_f64
// erfinv(x) to six digits.
LZ_FN lz_f64 lz_erfinv_start_f64(lz_f64 x) {
  lz_f64 w = -lz_log_f64((1 - x) * (1 + x)), u = w - 2.5, v = LZ_SQRT_F64(w) - 3;
  lz_f64 p = -8.76466189e-09; p = LZ_FMA_F64(p, u, 2.32715855e-08);
  p = LZ_FMA_F64(p, u, 4.65846995e-07); p = LZ_FMA_F64(p, u, -3.46313163e-06);
  p = LZ_FMA_F64(p, u, -4.96205848e-06); p = LZ_FMA_F64(p, u, 0.000218345871);
  p = LZ_FMA_F64(p, u, -0.00125274365); p = LZ_FMA_F64(p, u, -0.00417738827);
  p = LZ_FMA_F64(p, u, 0.24664028); p = LZ_FMA_F64(p, u, 1.50140941);
  lz_f64 t = -1.3469699990912152e-06; t = LZ_FMA_F64(t, v, 3.1646447326238363e-05);
  t = LZ_FMA_F64(t, v, -0.00027373819775735605); t = LZ_FMA_F64(t, v, 0.0012237924258304556);
  t = LZ_FMA_F64(t, v, -0.0032491168204363307); t = LZ_FMA_F64(t, v, 0.0056978296640155524);
  t = LZ_FMA_F64(t, v, -0.0077727257466506878); t = LZ_FMA_F64(t, v, 0.0094599336729513598);
  t = LZ_FMA_F64(t, v, 1.0016896091537422); t = LZ_FMA_F64(t, v, 2.832976277793549);
  return x * (w < 5 ? p : t);
}

//@ lz_erfinv_f64 ulp=4
// One step of Halley's method on erf, or on erfc where 1 - x is the exact quantity.
LZ_FN lz_f64 lz_erfinv_f64(lz_f64 x) {
  lz_f64 a = lz_abs_f64(x), y = lz_erfinv_start_f64(a);
  lz_f64 off = y < 0.5 ? lz_erf_poly_f64(y) - a : (1 - a) - lz_erfc_tail_f64(y);
  lz_f64 step = off * 0.88622692545275805 * lz_exp_f64(y * y);
  y = y - step / (1 + y * step);
  return lz_copysign_f64(a == 1 ? LZ_INF_F64 : y, x);
}

//@ lz_exp_square_f64
// exp(x^2); the square in two parts, lest its rounding be multiplied by x^2.
LZ_FN lz_f64 lz_exp_square_f64(lz_f64 x) {
  lz_f64 a = lz_abs_f64(x);
  a = a > 27 ? 27 : a;
  lz_f64 h = lz_from_bits_f64(lz_bits_f64(a) & 0xfffffffff8000000ULL);
  return lz_exp_sum_f64(h * h, (a - h) * (a + h), 0);
}

//@ lz_erfcx_f64 ulp=6
// exp(x^2) erfc(x); above 28 by the asymptotic series (DLMF 7.12.1).
LZ_FN lz_f64 lz_erfcx_f64(lz_f64 x) {
  lz_f64 a = lz_abs_f64(x), v = 1 / a, z = 0.5 * v * v;
  lz_f64 far = 1 - 7 * z * (1 - 9 * z * (1 - 11 * z));
  far = v * 0.56418958354775629 * (1 - z * (1 - 3 * z * (1 - 5 * z * far)));
  lz_f64 right = a > 28 ? far : lz_erfc_shape_f64(a) / (1 + 2 * a);
  if (a < 0.5) return lz_exp_square_f64(a) * (1 - lz_erf_poly_f64(x));
  return x < 0 ? 2 * lz_exp_square_f64(a) - right : right;
}

//@ lz_erfcx_f32 ulp=1
LZ_FN lz_f32 lz_erfcx_f32(lz_f32 x) { return (lz_f32)lz_erfcx_f64(x); }

//@ lz_ndtri_tail_f64
// The y > 0 for which a normal number exceeds y with probability p <= 1/2: a start with three
// digits (Abramowitz and Stegun 26.2.23), then Halley's method.
LZ_FN lz_f64 lz_ndtri_tail_f64(lz_f64 p) {
  lz_f64 t = LZ_SQRT_F64(-2 * lz_log_f64(p));
  lz_f64 y = t - (2.515517 + t * (0.802853 + t * 0.010328))
      / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  for (int k = 0; k < 3; k++) {
    lz_f64 u = y * 0.70710678118654752;
    lz_f64 tail = u < 0.5 ? 1 - lz_erf_poly_f64(u) : lz_erfc_tail_f64(u);
    lz_f64 step = (0.5 * tail - p) * 2.5066282746310005 * lz_exp_square_f64(u);
    y += step / (1 - 0.5 * y * step);
  }
  return y;
}

//@ lz_ndtri_f64 ulp=20
// The inverse of the normal distribution function; NaN outside [0, 1].
LZ_FN lz_f64 lz_ndtri_f64(lz_f64 p) {
  if (!(p >= 0 && p <= 1)) return LZ_NAN_F64;
  if (p == 0 || p == 1) return p == 0 ? -LZ_INF_F64 : LZ_INF_F64;
  // About 1/2 the distance from it is the exact quantity.
  if (p > 0.25 && p < 0.75) return 1.4142135623730951 * lz_erfinv_f64(2 * (p - 0.5));
  return p < 0.5 ? -lz_ndtri_tail_f64(p) : lz_ndtri_tail_f64(1 - p);
}

//@ lz_ndtri_f32 ulp=1
LZ_FN lz_f32 lz_ndtri_f32(lz_f32 x) { return (lz_f32)lz_ndtri_f64(x); }
