// Sine, cosine and tangent over the whole range, and the reduction by multiples of pi/2 they need.

//@ lz_trig_reduce_f32
// |x| = quadrant * pi/2 + r with |r| <= pi/4, by integers alone (Payne and Hanek, "Radian
// reduction for trigonometric functions", 1983): x's mantissa times the 96 bits of 2/pi that
// matter at x's exponent. The words are chosen by comparisons, which vectorise; a table would not.
LZ_FN lz_f32 lz_trig_reduce_f32(lz_f32 x, lz_u32 *quadrant) {
  lz_u32 bits = lz_bits_f32(x) & 0x7fffffffu, m = (bits & 0x7fffffu) | 0x800000u;
  lz_u32 s = (bits >> 23) - 126u, k = s >> 5, b = s & 31u;
  lz_u32 t0 = 0x28u, t1 = 0xbe60db93u, t2 = 0x91054a7fu, t3 = 0x09d5f47du;
  lz_u32 t4 = 0x4d377036u, t5 = 0xd8a5664fu, t6 = 0x10e4107fu, t7 = 0x9458eaf7u;
  // Bit by bit of k: a chain of equalities would become a switch, which does not vectorise.
  lz_u32 p0 = k & 1u ? t1 : t0, p1 = k & 1u ? t2 : t1, p2 = k & 1u ? t3 : t2;
  lz_u32 p3 = k & 1u ? t4 : t3, p4 = k & 1u ? t5 : t4, p5 = k & 1u ? t6 : t5;
  lz_u32 a0 = k & 4u ? t4 : k & 2u ? p2 : p0, a1 = k & 4u ? t5 : k & 2u ? p3 : p1;
  lz_u32 a2 = k & 4u ? t6 : k & 2u ? p4 : p2, a3 = k & 4u ? t7 : k & 2u ? p5 : p3;
  lz_u32 w0 = a0 << b | (a1 >> 1) >> (31u - b);
  lz_u32 w1 = a1 << b | (a2 >> 1) >> (31u - b);
  lz_u32 w2 = a2 << b | (a3 >> 1) >> (31u - b);
  lz_u64 middle = (lz_u64)m * w1 + ((lz_u64)m * w2 >> 32);
  lz_u32 high = m * w0 + (lz_u32)(middle >> 32), low = (lz_u32)middle;
  // high's top two bits count quadrants; below follows the fraction, taken as a signed number.
  // Its leading part is cut towards zero, lest the rest of a small one be a difference.
  lz_i32 v = (lz_i32)(high << 2 | low >> 30), head = (v + (v >> 31 & 0xff)) & ~0xff;
  lz_u32 next = low << 2, part = (lz_u32)(v - head) << 16 | next >> 16;
  lz_f32 f = (lz_f32)head * 2.32830644e-10f, top = lz_from_bits_f32(lz_bits_f32(f) & 0xfffff000u);
  f = (f - top) + ((lz_f32)(lz_i32)part * 3.55271368e-15f
      + (lz_f32)(lz_i32)(next & 0xffffu) * 5.42101086e-20f);
  // pi/2 times the fraction, the product of the leading 12 bits exact.
  lz_f32 rest = LZ_FMA_F32(f, 1.57079637f, f * -4.37113883e-8f);
  lz_f32 r = top * 1.5703125f + (top * 4.83826792e-4f + rest);
  lz_u32 small = bits < 0x3f490fdbu;
  *quadrant = small ? 0u : (high >> 30) + (v < 0);
  return small ? lz_from_bits_f32(bits) : r;
}

//@ lz_sin_poly_f32
LZ_FN lz_f32 lz_sin_poly_f32(lz_f32 r) {
  lz_f32 z = r * r;
  lz_f32 p = -0.000195169661f; p = LZ_FMA_F32(p, z, 0.00833217613f);
  p = LZ_FMA_F32(p, z, -0.166666552f);
  return LZ_FMA_F32(r * z, p, r);
}

//@ lz_cos_poly_f32
// 1 - z/2 as a sum of two, for half a digit.
LZ_FN lz_f32 lz_cos_poly_f32(lz_f32 r) {
  lz_f32 z = r * r, h = 0.5f * z, w = 1 - h;
  lz_f32 p = 2.44387647e-05f; p = LZ_FMA_F32(p, z, -0.00138873723f);
  p = LZ_FMA_F32(p, z, 0.0416666456f);
  return w + LZ_FMA_F32(z * z, p, (1 - w) - h);
}

//@ lz_trig_is_small_f32
LZ_FN int lz_trig_is_small_f32(lz_f32 x) {
#ifdef LZ_FUSED
  return lz_abs_f32(x) < 1e5f;
#else
  return (void)x, 0;
#endif
}

//@ lz_trig_reduce_small_f32
// As lz_trig_reduce_f32, below 1e5, by three parts of pi/2 (Cody and Waite). The first fused step is
// exact, so the two others err by half a unit of the result each, however small that is.
LZ_FN lz_f32 lz_trig_reduce_small_f32(lz_f32 x, lz_u32 *quadrant) {
  lz_f32 a = lz_abs_f32(x), magic = 12582912.0f;
  lz_f32 t = LZ_FMA_F32(a, 0.636619772f, magic), n = t - magic;
  lz_f32 r = LZ_FMA_F32(n, 4.37113883e-8f, LZ_FMA_F32(n, -1.57079637f, a));
  *quadrant = lz_bits_f32(t);
  return LZ_FMA_F32(n, 1.71512451e-15f, r);
}

//@ lz_sin_of_f32
// The sine of x, which is r and a number of quadrants but for its sign.
LZ_FN lz_f32 lz_sin_of_f32(lz_f32 x, lz_f32 r, lz_u32 q) {
  lz_f32 y = q & 1u ? lz_cos_poly_f32(r) : lz_sin_poly_f32(r);
  lz_u32 sign = (lz_bits_f32(x) & 0x80000000u) ^ (q & 2u) << 30;
  return lz_from_bits_f32(lz_bits_f32(y) ^ sign);
}

//@ lz_cos_of_f32
LZ_FN lz_f32 lz_cos_of_f32(lz_f32 x, lz_f32 r, lz_u32 q) {
  lz_f32 y = q & 1u ? lz_sin_poly_f32(r) : lz_cos_poly_f32(r);
  return (void)x, lz_from_bits_f32(lz_bits_f32(y) ^ ((q + 1u) & 2u) << 30);
}

//@ lz_tan_of_f32
LZ_FN lz_f32 lz_tan_of_f32(lz_f32 x, lz_f32 r, lz_u32 q) {
  lz_f32 s = lz_sin_poly_f32(r), c = lz_cos_poly_f32(r);
  lz_f32 y = (q & 1u ? -c : s) / (q & 1u ? s : c);
  return lz_from_bits_f32(lz_bits_f32(y) ^ (lz_bits_f32(x) & 0x80000000u));
}

//@ lz_sin_small_f32
LZ_FN lz_f32 lz_sin_small_f32(lz_f32 x) {
  lz_u32 q;
  lz_f32 r = lz_trig_reduce_small_f32(x, &q);
  return lz_sin_of_f32(x, r, q);
}

//@ lz_sin_large_f32
LZ_FN lz_f32 lz_sin_large_f32(lz_f32 x, lz_f32 unused) {
  (void)unused;
  lz_u32 q;
  lz_f32 r = lz_trig_reduce_f32(x, &q), y = lz_sin_of_f32(x, r, q);
  return lz_abs_f32(x) < LZ_INF_F32 ? y : LZ_NAN_F32;
}

//@ lz_sin_f32 ulp=2
lz_paths_f32(lz_sin_f32, lz_trig_is_small_f32, lz_sin_small_f32, lz_sin_large_f32)

//@ lz_cos_small_f32
LZ_FN lz_f32 lz_cos_small_f32(lz_f32 x) {
  lz_u32 q;
  lz_f32 r = lz_trig_reduce_small_f32(x, &q);
  return lz_cos_of_f32(x, r, q);
}

//@ lz_cos_large_f32
LZ_FN lz_f32 lz_cos_large_f32(lz_f32 x, lz_f32 unused) {
  (void)unused;
  lz_u32 q;
  lz_f32 r = lz_trig_reduce_f32(x, &q), y = lz_cos_of_f32(x, r, q);
  return lz_abs_f32(x) < LZ_INF_F32 ? y : LZ_NAN_F32;
}

//@ lz_cos_f32 ulp=2
lz_paths_f32(lz_cos_f32, lz_trig_is_small_f32, lz_cos_small_f32, lz_cos_large_f32)

//@ lz_tan_small_f32
LZ_FN lz_f32 lz_tan_small_f32(lz_f32 x) {
  lz_u32 q;
  lz_f32 r = lz_trig_reduce_small_f32(x, &q);
  return lz_tan_of_f32(x, r, q);
}

//@ lz_tan_large_f32
LZ_FN lz_f32 lz_tan_large_f32(lz_f32 x, lz_f32 unused) {
  (void)unused;
  lz_u32 q;
  lz_f32 r = lz_trig_reduce_f32(x, &q), y = lz_tan_of_f32(x, r, q);
  return lz_abs_f32(x) < LZ_INF_F32 ? y : LZ_NAN_F32;
}

//@ lz_tan_f32 ulp=3.5
lz_paths_f32(lz_tan_f32, lz_trig_is_small_f32, lz_tan_small_f32, lz_tan_large_f32)

//@ lz_two_sum_f64
// a + b = result + *low, exactly (Knuth).
LZ_FN lz_f64 lz_two_sum_f64(lz_f64 a, lz_f64 b, lz_f64 *low) {
  lz_f64 s = a + b, v = s - a;
  *low = (a - (s - v)) + (b - v);
  return s;
}

//@ lz_two_prod_f64
// a * b = result + *low, exactly. Without fused steps by Dekker: halves of 26 bits multiply exactly.
LZ_FN lz_f64 lz_two_prod_f64(lz_f64 a, lz_f64 b, lz_f64 *low) {
  lz_f64 p = a * b;
#ifdef LZ_FUSED
  *low = LZ_FMA_F64(a, b, -p);
#else
  lz_f64 u = a * 134217729.0, v = b * 134217729.0;
  lz_f64 ah = u - (u - a), al = a - ah, bh = v - (v - b), bl = b - bh;
  *low = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
  return p;
}

//@ lz_mul_high_u64
LZ_FN lz_u64 lz_mul_high_u64(lz_u64 a, lz_u64 b) {
  lz_u64 al = (lz_u32)a, ah = a >> 32, bl = (lz_u32)b, bh = b >> 32;
  lz_u64 middle = ah * bl + (al * bl >> 32), other = al * bh + (lz_u32)middle;
  return ah * bh + (middle >> 32) + (other >> 32);
}

//@ lz_trig_reduce_large_f64
// As lz_trig_reduce_f32, with 192 bits of 2/pi; for 2^20 <= |x| < infinity.
LZ_FN lz_f64 lz_trig_reduce_large_f64(lz_f64 x, lz_u64 *quadrant, lz_f64 *low) {
  static const lz_u64 words[20] = {
    0x0000000000000000ULL, 0xa2f9836e4e441529ULL, 0xfc2757d1f534ddc0ULL, 0xdb6295993c439041ULL,
    0xfe5163abdebbc561ULL, 0xb7246e3a424dd2e0ULL, 0x06492eea09d1921cULL, 0xfe1deb1cb129a73eULL,
    0xe88235f52ebb4484ULL, 0xe99c7026b45f7e41ULL, 0x3991d639835339f4ULL, 0x9c845f8bbdf9283bULL,
    0x1ff897ffde05980fULL, 0xef2f118b5a0a6d1fULL, 0x6d367ecf27cb09b7ULL, 0x4f463f669e5fea2dULL,
    0x7527bac7ebe5f17bULL, 0x3d0739f78a5292eaULL, 0x6bfb5fb11f8d5d08ULL, 0x56033046fc7b6babULL,
  };
  lz_u64 bits = lz_bits_f64(x) & ~(1ULL << 63), m = (bits & 0xfffffffffffffULL) | 1ULL << 52;
  int s = (int)(bits >> 52) - 1013, k = s >> 6, b = s & 63;
  lz_u64 w0 = words[k] << b | (words[k + 1] >> 1) >> (63 - b);
  lz_u64 w1 = words[k + 1] << b | (words[k + 2] >> 1) >> (63 - b);
  lz_u64 w2 = words[k + 2] << b | (words[k + 3] >> 1) >> (63 - b);
  lz_u64 product = m * w1, under = product + lz_mul_high_u64(m, w2);
  lz_u64 high = m * w0 + lz_mul_high_u64(m, w1) + (under < product);
  lz_i64 v = (lz_i64)(high << 2 | under >> 62);
  lz_u64 rest = ((lz_u64)v & 0x7ffULL) << 42 | (under << 2) >> 22;
  lz_f64 f = (lz_f64)(v & ~0x7ffLL) * 5.4210108624275222e-20;
  lz_f64 g = (lz_f64)(lz_i64)rest * 1.2325951644078309e-32, e, p;
  f = lz_two_sum_f64(f, g, &e);
  p = lz_two_prod_f64(f, 1.5707963267948966, &g);
  *quadrant = (high >> 62) + (v < 0);
  return lz_two_sum_f64(p, g + (f * 6.123233995736766e-17 + e * 1.5707963267948966), low);
}

//@ lz_trig_is_small_f64
LZ_FN int lz_trig_is_small_f64(lz_f64 x) { return lz_abs_f64(x) < 1048576.0; }

//@ lz_trig_reduce_small_f64
// |x| = quadrant * pi/2 + r + *low below 2^20 (Cody and Waite). The first step is exact: fused, or
// by parts of 33 bits.
LZ_FN lz_f64 lz_trig_reduce_small_f64(lz_f64 x, lz_u64 *quadrant, lz_f64 *low) {
  lz_f64 a = lz_abs_f64(x), magic = 6755399441055744.0;
  lz_f64 t = LZ_FMA_F64(a, 0.63661977236758134, magic), n = t - magic;
  *quadrant = lz_bits_f64(t);
#ifdef LZ_FUSED
  lz_f64 near = LZ_FMA_F64(n, -1.5707963267948966, a), rest, e;
  lz_f64 part = lz_two_prod_f64(n, 6.123233995736766e-17, &rest);
  lz_f64 r = lz_two_sum_f64(near, -part, &e);
  *low = LZ_FMA_F64(n, 1.4973849048591698e-33, e - rest);
  return r;
#else
  lz_f64 e1, e2, r = lz_two_sum_f64(a - n * 1.5707963267341256, -n * 6.077100506303966e-11, &e1);
  r = lz_two_sum_f64(r, -n * 2.0222662487111665e-21, &e2);
  return lz_two_sum_f64(r, e1 + e2 - n * 8.4784276603688996e-32, low);
#endif
}

//@ lz_sin_poly_f64
LZ_FN lz_f64 lz_sin_poly_f64(lz_f64 r, lz_f64 low) {
  lz_f64 z = r * r;
  lz_f64 p = 1.5876820712307025e-10; p = LZ_FMA_F64(p, z, -2.5050409062057291e-08);
  p = LZ_FMA_F64(p, z, 2.755731143959605e-06); p = LZ_FMA_F64(p, z, -0.00019841269823274042);
  p = LZ_FMA_F64(p, z, 0.0083333333333142513); p = LZ_FMA_F64(p, z, -0.16666666666666599);
  return r + LZ_FMA_F64(r * z, p, low * LZ_FMA_F64(-0.5, z, 1));
}

//@ lz_cos_poly_f64
// As lz_cos_poly_f32, at r + low.
LZ_FN lz_f64 lz_cos_poly_f64(lz_f64 r, lz_f64 low) {
  lz_f64 z = r * r, h = 0.5 * z, w = 1 - h;
  lz_f64 p = -1.1253772697537267e-11; p = LZ_FMA_F64(p, z, 2.0873620240147112e-09);
  p = LZ_FMA_F64(p, z, -2.7557298451210643e-07); p = LZ_FMA_F64(p, z, 2.4801587233018128e-05);
  p = LZ_FMA_F64(p, z, -0.001388888888878177); p = LZ_FMA_F64(p, z, 0.041666666666666061);
  return w + (((1 - w) - h) + LZ_FMA_F64(z * z, p, -r * low));
}

//@ lz_sin_of_f64
// The sine of x, which is r + low and a number of quadrants but for its sign.
LZ_FN lz_f64 lz_sin_of_f64(lz_f64 x, lz_f64 r, lz_f64 low, lz_u64 q) {
  lz_f64 y = q & 1u ? lz_cos_poly_f64(r, low) : lz_sin_poly_f64(r, low);
  lz_u64 sign = (lz_bits_f64(x) & 1ULL << 63) ^ (q & 2u) << 62;
  return lz_from_bits_f64(lz_bits_f64(y) ^ sign);
}

//@ lz_cos_of_f64
LZ_FN lz_f64 lz_cos_of_f64(lz_f64 x, lz_f64 r, lz_f64 low, lz_u64 q) {
  lz_f64 y = q & 1u ? lz_sin_poly_f64(r, low) : lz_cos_poly_f64(r, low);
  return (void)x, lz_from_bits_f64(lz_bits_f64(y) ^ ((q + 1u) & 2u) << 62);
}

//@ lz_tan_of_f64
LZ_FN lz_f64 lz_tan_of_f64(lz_f64 x, lz_f64 r, lz_f64 low, lz_u64 q) {
  lz_f64 s = lz_sin_poly_f64(r, low), c = lz_cos_poly_f64(r, low);
  lz_f64 y = (q & 1u ? -c : s) / (q & 1u ? s : c);
  return lz_from_bits_f64(lz_bits_f64(y) ^ (lz_bits_f64(x) & 1ULL << 63));
}

//@ lz_sin_small_f64
LZ_FN lz_f64 lz_sin_small_f64(lz_f64 x) {
  lz_u64 q;
  lz_f64 low, r = lz_trig_reduce_small_f64(x, &q, &low);
  return lz_sin_of_f64(x, r, low, q);
}

//@ lz_sin_large_f64
LZ_FN lz_f64 lz_sin_large_f64(lz_f64 x, lz_f64 unused) {
  (void)unused;
  if (!(lz_abs_f64(x) < LZ_INF_F64)) return LZ_NAN_F64;
  lz_u64 q;
  lz_f64 low, r = lz_trig_reduce_large_f64(x, &q, &low);
  return lz_sin_of_f64(x, r, low, q);
}

//@ lz_sin_f64 ulp=1
lz_paths_f64(lz_sin_f64, lz_trig_is_small_f64, lz_sin_small_f64, lz_sin_large_f64)

//@ lz_cos_small_f64
LZ_FN lz_f64 lz_cos_small_f64(lz_f64 x) {
  lz_u64 q;
  lz_f64 low, r = lz_trig_reduce_small_f64(x, &q, &low);
  return lz_cos_of_f64(x, r, low, q);
}

//@ lz_cos_large_f64
LZ_FN lz_f64 lz_cos_large_f64(lz_f64 x, lz_f64 unused) {
  (void)unused;
  if (!(lz_abs_f64(x) < LZ_INF_F64)) return LZ_NAN_F64;
  lz_u64 q;
  lz_f64 low, r = lz_trig_reduce_large_f64(x, &q, &low);
  return lz_cos_of_f64(x, r, low, q);
}

//@ lz_cos_f64 ulp=1
lz_paths_f64(lz_cos_f64, lz_trig_is_small_f64, lz_cos_small_f64, lz_cos_large_f64)

//@ lz_tan_small_f64
LZ_FN lz_f64 lz_tan_small_f64(lz_f64 x) {
  lz_u64 q;
  lz_f64 low, r = lz_trig_reduce_small_f64(x, &q, &low);
  return lz_tan_of_f64(x, r, low, q);
}

//@ lz_tan_large_f64
LZ_FN lz_f64 lz_tan_large_f64(lz_f64 x, lz_f64 unused) {
  (void)unused;
  if (!(lz_abs_f64(x) < LZ_INF_F64)) return LZ_NAN_F64;
  lz_u64 q;
  lz_f64 low, r = lz_trig_reduce_large_f64(x, &q, &low);
  return lz_tan_of_f64(x, r, low, q);
}

//@ lz_tan_f64 ulp=3
lz_paths_f64(lz_tan_f64, lz_trig_is_small_f64, lz_tan_small_f64, lz_tan_large_f64)
