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
  lz_@S a = lz_at_most_@S(x, @{10.2f|28});
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
  lz_f32 a = lz_abs_f32(x), b = lz_at_most_f32(a, 4), magic = 12583039.0f;
  lz_f32 z = b * b, p = -0.000165960199f, q = 1.29164673e-05f;
  p = LZ_FMA_F32(p, z, -0.00238324841f); q = LZ_FMA_F32(q, z, 0.000900250801f);
  p = LZ_FMA_F32(p, z, 0.0276415776f); q = LZ_FMA_F32(q, z, 0.000211496939f);
  p = LZ_FMA_F32(p, z, -0.918447435f); q = LZ_FMA_F32(q, z, -0.14827925f);
  p = LZ_FMA_F32(LZ_FMA_F32(q, b, p), b, -0.62790704f);
  p = LZ_FMA_F32(p, b, -b);
  lz_f32 t = p + magic, u = lz_exp2m1_poly_f32(p - (t - magic));
  lz_f32 s = lz_from_bits_f32(lz_bits_f32(t) << 23);
  return lz_with_sign_f32(LZ_FMA_F32(-s, u, 1 - s), x);
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

//@ lz_erfinv_is_middle_f32
LZ_FN int lz_erfinv_is_middle_f32(lz_f32 w) { return w < 5; }

//@ lz_erfinv_middle_f32
// erfinv(x) / x for w < 5.
LZ_FN lz_f32 lz_erfinv_middle_f32(lz_f32 w) {
  lz_f32 u = w - 2.5f, p = -8.76466189e-09f; p = LZ_FMA_F32(p, u, 2.32715855e-08f);
  p = LZ_FMA_F32(p, u, 4.65846995e-07f); p = LZ_FMA_F32(p, u, -3.46313163e-06f);
  p = LZ_FMA_F32(p, u, -4.96205848e-06f); p = LZ_FMA_F32(p, u, 0.000218345871f);
  p = LZ_FMA_F32(p, u, -0.00125274365f); p = LZ_FMA_F32(p, u, -0.00417738827f);
  p = LZ_FMA_F32(p, u, 0.24664028f); p = LZ_FMA_F32(p, u, 1.50140941f);
  return p;
}

//@ lz_erfinv_tail_f32
// The same for w >= 5, infinite where w is.
LZ_FN lz_f32 lz_erfinv_tail_f32(lz_f32 w, lz_f32 unused) {
  lz_f32 v = LZ_SQRT_F32(w) - 3, t = 0.000125370236f;
  t = LZ_FMA_F32(t, v, -0.000316887395f); t = LZ_FMA_F32(t, v, -7.09972592e-05f);
  t = LZ_FMA_F32(t, v, 0.0014937392f); t = LZ_FMA_F32(t, v, -0.00358999544f);
  t = LZ_FMA_F32(t, v, 0.00568389008f); t = LZ_FMA_F32(t, v, -0.00763880461f);
  t = LZ_FMA_F32(t, v, 0.00944561418f); t = LZ_FMA_F32(t, v, 1.00167501f);
  t = LZ_FMA_F32(t, v, 2.83297682f);
  return (void)unused, t;
}

//@ lz_erfinv_share_f32
// erfinv(x) / x as a function of w = -log(1 - x^2).
lz_paths_f32(lz_erfinv_share_f32, lz_erfinv_is_middle_f32, lz_erfinv_middle_f32, lz_erfinv_tail_f32)

//@ lz_erfinv_f32 ulp=4
// In two ranges (Giles, "Approximating the erfinv function", 2011).
LZ_FN lz_f32 lz_erfinv_f32(lz_f32 x) {
  return x * lz_erfinv_share_f32(-lz_log_f32((1 - x) * (1 + x)));
}

//@ lz_erfinv_middle_f64
// erfinv(x) / x for w <= 6.25.
LZ_FN lz_f64 lz_erfinv_middle_f64(lz_f64 w) {
  lz_f64 u = w - 3.125;
  lz_f64 z = u * u, p = -1.113483769832702e-21, odd = 3.240704459379902e-21;
  p = LZ_FMA_F64(p, z, 1.150022252066253e-18); odd = LZ_FMA_F64(odd, z, -3.4996044354754177e-19);
  p = LZ_FMA_F64(p, z, -1.3016928016796445e-16); odd = LZ_FMA_F64(odd, z, 1.5574320246233251e-17);
  p = LZ_FMA_F64(p, z, 6.5964077124208341e-15); odd = LZ_FMA_F64(odd, z, -4.0282154327661744e-17);
  p = LZ_FMA_F64(p, z, -8.1183994430743526e-14); odd = LZ_FMA_F64(odd, z, -4.0012377350918961e-14);
  p = LZ_FMA_F64(p, z, -1.2976885526532075e-11); odd = LZ_FMA_F64(odd, z, 2.6304834740560442e-12);
  p = LZ_FMA_F64(p, z, 1.0512181539804126e-09); odd = LZ_FMA_F64(odd, z, -5.414287198084716e-11);
  p = LZ_FMA_F64(p, z, -2.9070382262927266e-08); odd = LZ_FMA_F64(odd, z, -4.1126608200232397e-09);
  p = LZ_FMA_F64(p, z, -1.3654691850603575e-06); odd = LZ_FMA_F64(odd, z, 4.2347881737823391e-07);
  p = LZ_FMA_F64(p, z, 0.00018673420802464837); odd = LZ_FMA_F64(odd, z, -1.3882523394405316e-05);
  p = LZ_FMA_F64(p, z, -0.0060336708714278497); odd = LZ_FMA_F64(odd, z, -0.00074070253415447704);
  p = LZ_FMA_F64(p, z, 1.6536545626831027); odd = LZ_FMA_F64(odd, z, 0.24015818242558831);
  return LZ_FMA_F64(odd, u, p);
}

//@ lz_erfinv_outer_f64
// erfinv(x) / x for 2.5 <= sqrt(w) <= 4.
LZ_FN lz_f64 lz_erfinv_outer_f64(lz_f64 s) {
  lz_f64 u = s - 3.25;
  lz_f64 z = u * u, p = 6.9692419776296945e-10, odd = -1.5102695423335065e-08;
  p = LZ_FMA_F64(p, z, -2.7134511054394561e-07); odd = LZ_FMA_F64(odd, z, 1.3104351499972014e-07);
  p = LZ_FMA_F64(p, z, 1.4987130784186127e-06); odd = LZ_FMA_F64(odd, z, -2.7004219280868947e-08);
  p = LZ_FMA_F64(p, z, 2.9257291901789823e-06); odd = LZ_FMA_F64(odd, z, -3.986084395214756e-06);
  p = LZ_FMA_F64(p, z, -4.7318984120112452e-05); odd = LZ_FMA_F64(odd, z, 1.2465167157087251e-05);
  p = LZ_FMA_F64(p, z, 2.4031257015092525e-05); odd = LZ_FMA_F64(odd, z, 6.8287086547533766e-05);
  p = LZ_FMA_F64(p, z, 0.00095328936374356377); odd = LZ_FMA_F64(odd, z, -0.00035503780975963814);
  p = LZ_FMA_F64(p, z, 0.0024914420969817607); odd = LZ_FMA_F64(odd, z, -0.0016882755357337071);
  p = LZ_FMA_F64(p, z, 0.0053709145535716799); odd = LZ_FMA_F64(odd, z, -0.003751208508215561);
  p = LZ_FMA_F64(p, z, 3.0838856104922208); odd = LZ_FMA_F64(odd, z, 1.0052589676941652);
  return LZ_FMA_F64(odd, u, p);
}

//@ lz_erfinv_end_f64
// erfinv(x) / x for 4 <= sqrt(w) <= 6.1.
LZ_FN lz_f64 lz_erfinv_end_f64(lz_f64 s) {
  lz_f64 u = s - 5.0499999999999998;
  lz_f64 z = u * u, p = -1.5439278197208357e-11, odd = 2.8907082659821957e-11;
  p = LZ_FMA_F64(p, z, 7.7453847617243626e-11); odd = LZ_FMA_F64(odd, z, -3.8682910276006691e-10);
  p = LZ_FMA_F64(p, z, 1.0483309310240935e-09); odd = LZ_FMA_F64(odd, z, -2.6311132048940701e-09);
  p = LZ_FMA_F64(p, z, 5.8058881045281164e-09); odd = LZ_FMA_F64(odd, z, -1.1207461299741081e-08);
  p = LZ_FMA_F64(p, z, 2.182184091047108e-08); odd = LZ_FMA_F64(odd, z, -5.4931977483167228e-08);
  p = LZ_FMA_F64(p, z, 2.0161905521548861e-07); odd = LZ_FMA_F64(odd, z, -9.0708602402224518e-07);
  p = LZ_FMA_F64(p, z, 4.1938537538031491e-06); odd = LZ_FMA_F64(odd, z, -1.8374536139125653e-05);
  p = LZ_FMA_F64(p, z, 7.1240315422453634e-05); odd = LZ_FMA_F64(odd, z, -0.00020031200668027357);
  p = LZ_FMA_F64(p, z, -0.00016985809149340297); odd = LZ_FMA_F64(odd, z, 1.010285017597772);
  p = LZ_FMA_F64(p, z, 4.9004210514436402);
  return LZ_FMA_F64(odd, u, p);
}

//@ lz_erfinv_beyond_f64
// erfinv(x) / x / sqrt(w) at v = 1 / sqrt(w), for sqrt(w) >= 6, where x rounds to 1.
LZ_FN lz_f64 lz_erfinv_beyond_f64(lz_f64 v) {
  lz_f64 u = v - 0.10119047619047619;
  lz_f64 z = u * u, p = -7.1317243770685133e+18, odd = 8.0410727052316992e+17;
  p = LZ_FMA_F64(p, z, 1.0003158796762312e+17); odd = LZ_FMA_F64(odd, z, -11184442373044092.0);
  p = LZ_FMA_F64(p, z, -998089746106170.88); odd = LZ_FMA_F64(odd, z, 112720914002587.7);
  p = LZ_FMA_F64(p, z, 2571827157473.3389); odd = LZ_FMA_F64(odd, z, -272263660132.98474);
  p = LZ_FMA_F64(p, z, -38568231142.264725); odd = LZ_FMA_F64(odd, z, 4636432873.2817154);
  p = LZ_FMA_F64(p, z, -370030648.12321305); odd = LZ_FMA_F64(odd, z, 48129033.127482556);
  p = LZ_FMA_F64(p, z, -6777854.7711719871); odd = LZ_FMA_F64(odd, z, 913819.58761891758);
  p = LZ_FMA_F64(p, z, -126556.81008074127); odd = LZ_FMA_F64(odd, z, 18302.414692967614);
  p = LZ_FMA_F64(p, z, -2780.2618311237284); odd = LZ_FMA_F64(odd, z, 450.4065613399552);
  p = LZ_FMA_F64(p, z, -79.329280375667196); odd = LZ_FMA_F64(odd, z, 15.714239028074061);
  p = LZ_FMA_F64(p, z, -4.1080548476438601); odd = LZ_FMA_F64(odd, z, 1.6182285035717718);
  p = LZ_FMA_F64(p, z, -0.34399392108936977); odd = LZ_FMA_F64(odd, z, -0.16991296492291483);
  p = LZ_FMA_F64(p, z, 0.98885912617316862);
  return LZ_FMA_F64(odd, u, p);
}

//@ lz_erfinv_is_middle_f64
LZ_FN int lz_erfinv_is_middle_f64(lz_f64 w) { return w < 6.25; }

//@ lz_erfinv_tail_f64
LZ_FN lz_f64 lz_erfinv_tail_f64(lz_f64 w, lz_f64 unused) {
  lz_f64 s = LZ_SQRT_F64(w), outer = lz_erfinv_outer_f64(s), end = lz_erfinv_end_f64(s);
  lz_f64 beyond = s * lz_erfinv_beyond_f64(1 / s);
  (void)unused;
  return s < 4 ? outer : s < 6.05 ? end : beyond;
}

//@ lz_erfinv_share_f64
// erfinv(x) / x as a function of w = -log(1 - x^2).
lz_paths_f64(lz_erfinv_share_f64, lz_erfinv_is_middle_f64, lz_erfinv_middle_f64, lz_erfinv_tail_f64)

//@ lz_erfinv_f64 ulp=4
LZ_FN lz_f64 lz_erfinv_f64(lz_f64 x) {
  return x * lz_erfinv_share_f64(-lz_log_f64((1 - x) * (1 + x)));
}

//@ lz_exp_square_f64
// exp(x^2); the square in two parts, lest its rounding be multiplied by x^2.
LZ_FN lz_f64 lz_exp_square_f64(lz_f64 x) {
  lz_f64 a = lz_at_most_f64(lz_abs_f64(x), 27);
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

//@ lz_ndtri_f64 ulp=5
// The inverse of the normal distribution function, erfinv(2 p - 1) sqrt(2); NaN outside [0, 1].
LZ_FN lz_f64 lz_ndtri_f64(lz_f64 p) {
  return (p - 0.5) * 2.8284271247461903 * lz_erfinv_share_f64(-lz_log_f64(4 * p * (1 - p)));
}

//@ lz_ndtri_f32 ulp=1
LZ_FN lz_f32 lz_ndtri_f32(lz_f32 x) { return (lz_f32)lz_ndtri_f64(x); }
