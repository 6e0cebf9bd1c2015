// Powers of floats.

//@ lz_pow_limits_@S [floats]
// The result for x and y given r = |x|^y: signs, and the cases where a limit rules (C's Annex F).
LZ_FN lz_@S lz_pow_limits_@S(lz_@S x, lz_@S y, lz_@S r) {
  lz_@S half = y * (lz_@S)0.5;
  int whole = lz_floor_@S(y) == y, odd = whole & (lz_floor_@S(half) != half);
  lz_@S signed_r = lz_signbit_@S(x) & odd ? -r : r;
  lz_@S real = (x < 0) & (x > -LZ_INF_@N) & !whole ? LZ_NAN_@N : signed_r;
  int one = (x == 1) | (y == 0) | ((x == -1) & (lz_abs_@S(y) == LZ_INF_@N));
  return one ? 1 : real;
}

//@ lz_pow_f32 ulp=0.75
// exp2(y * log2|x|) in float64: the logarithm needs 8 bits more than float32 has.
LZ_FN lz_f32 lz_pow_f32(lz_f32 x, lz_f32 y) {
  lz_f64 a = lz_abs_f32(x), e, f = lz_log_split_f64(a, 1, &e);
  lz_f64 s = f / (2 + f), z = s * s;
  lz_f64 p = 0.19586746830387558; p = LZ_FMA_F64(p, z, 0.22176020771681701);
  p = LZ_FMA_F64(p, z, 0.28572112857076687); p = LZ_FMA_F64(p, z, 0.39999995590246412);
  p = LZ_FMA_F64(p, z, 0.66666666675882902);
  lz_f64 l = e + (2 * s + s * z * p) * 1.4426950408889634;
  l = a > 0 ? (a < LZ_INF_F64 ? l : a) : (a == 0 ? -LZ_INF_F64 : a);
  lz_f64 t = lz_at_most_f64(lz_at_least_f64(l * y, -1000), 1000), magic = 6755399441055744.0;
  lz_f64 m = t + magic, r = t - (m - magic);
  lz_f64 q = 1.5315550718664812e-05; q = LZ_FMA_F64(q, r, 0.00015467602218888305);
  q = LZ_FMA_F64(q, r, 0.0013333428197448169); q = LZ_FMA_F64(q, r, 0.0096180354958741287);
  q = LZ_FMA_F64(q, r, 0.055504109656993185); q = LZ_FMA_F64(q, r, 0.24022651084457267);
  q = LZ_FMA_F64(q, r, 0.6931471805407966);
  lz_u64 n = lz_bits_f64(m) - lz_bits_f64(magic);
  return lz_pow_limits_f32(x, y, (lz_f32)((1 + r * q) * lz_from_bits_f64((n + 1023u) << 52)));
}

//@ lz_log_pair_f64
// log(a) = result + *low with some 66 bits, for finite a > 0: the inverse hyperbolic tangent of
// s = f / (2 + f), whose terms s and s^3 are summed in pairs.
LZ_FN lz_f64 lz_log_pair_f64(lz_f64 a, lz_f64 *low) {
  lz_f64 e, f = lz_log_parts_f64(a, &e);
  lz_f64 d, b = lz_two_sum_f64(2, f, &d), s = f / b, u, v;
  u = lz_two_prod_f64(s, b, &v);
  lz_f64 sl = (((f - u) - v) - s * d) / b, z = lz_two_prod_f64(s, s, &v), zl = v + 2 * s * sl;
  lz_f64 p = 0.13198980754755527; p = LZ_FMA_F64(p, z, 0.13256540751970752);
  p = LZ_FMA_F64(p, z, 0.153867688252454); p = LZ_FMA_F64(p, z, 0.1818178412692219);
  p = LZ_FMA_F64(p, z, 0.22222222522554355); p = LZ_FMA_F64(p, z, 0.28571428570085511);
  p = LZ_FMA_F64(p, z, 0.40000000000002284);
  lz_f64 wl, w = lz_two_sum_f64(0.66666666666666663, z * p, &wl);
  wl += 3.7007434154171886e-17;
  lz_f64 tl, t = lz_two_prod_f64(z, w, &tl);
  tl += z * wl + zl * w;
  lz_f64 cl, c = lz_two_prod_f64(s, t, &cl);
  cl += s * tl + sl * t;
  lz_f64 h1, h2, r = lz_two_sum_f64(e * 0.69314718055989033, 2 * s, &h1);
  r = lz_two_sum_f64(r, c, &h2);
  return lz_two_sum_f64(r, h1 + (h2 + (e * 5.4979230187083712e-14 + (cl + 2 * sl))), low);
}

//@ lz_pow_f64 ulp=1.5
LZ_FN lz_f64 lz_pow_f64(lz_f64 x, lz_f64 y) {
  lz_f64 a = lz_abs_f64(x), cap = 7.3786976294838206e19, low, rest;
  lz_f64 n = y > cap ? cap : y < -cap ? -cap : y;
  lz_f64 l = lz_log_pair_f64(a, &low);
  lz_f64 edge = a == 0 ? -LZ_INF_F64 : a, t = lz_two_prod_f64(n, l, &rest);
  rest += n * low;
  int inside = (a > 0) & (a < LZ_INF_F64);
  t = inside ? t : n * edge;
  lz_f64 c = lz_exp_clamp_f64(t), r = lz_exp_sum_f64(c, inside & (c == t) ? rest : 0, 0);
  return lz_pow_limits_f64(x, y, r);
}
