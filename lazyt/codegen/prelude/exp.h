// Exponentials and what follows from them. "@{a|b}" is a for float32 and b for float64. Polynomials
// are minimax (Remez) fits. Reductions are exact with fused multiply-adds and without.

//@ lz_expm1_poly_f32
// exp(r) - 1 for |r| <= ln(2)/2. Paired terms (Estrin): this is the longest chain of most kernels.
LZ_FN lz_f32 lz_expm1_poly_f32(lz_f32 r) {
  lz_f32 s = r * r;
  lz_f32 p = LZ_FMA_F32(0.16666542f, r, 0.5f), q = LZ_FMA_F32(0.00836669933f, r, 0.0416662805f);
  q = LZ_FMA_F32(0.00139466149f, s, q);
  return LZ_FMA_F32(s, LZ_FMA_F32(s, q, p), r);
}

//@ lz_expm1_poly_f64
// exp(r) - 1 for |r| <= ln(2)/2.
LZ_FN lz_f64 lz_expm1_poly_f64(lz_f64 r) {
  // Even and odd powers apart: the chain of steps, not their number, is what takes time.
  lz_f64 s = r * r, p = LZ_FMA_F64(2.7626546504693387e-07, s, 2.4801503938750435e-05);
  lz_f64 q = LZ_FMA_F64(2.5114728841585493e-08, s, 2.7557227192490197e-06);
  p = LZ_FMA_F64(p, s, 0.0013888888932752262); q = LZ_FMA_F64(q, s, 0.00019841269903822148);
  p = LZ_FMA_F64(p, s, 0.041666666666572691); q = LZ_FMA_F64(q, s, 0.0083333333333142599);
  p = LZ_FMA_F64(p, s, 0.50000000000000056); q = LZ_FMA_F64(q, s, 0.16666666666666685);
  return LZ_FMA_F64(s, LZ_FMA_F64(q, r, p), r);
}

//@ lz_exp_scale_@S [floats]
// (1 + p) * 2^n for p > -1/2 and any n in reach, in two steps: subnormal results round once. The
// last bits of t hold n plus twice the bias: half of them is an exponent, and so is the rest.
LZ_FN lz_@S lz_exp_scale_@S(lz_@S p, lz_@U t) {
  lz_@U half = t << @{22|51} & @{0x7f800000u|0x7ff0000000000000ULL};
  return (1 + p) * lz_from_bits_@S(half) * lz_from_bits_@S((t << @{23|52}) - half);
}

//@ lz_exp_sum_@S [floats]
// exp(x + low) * 2^k for small low and exp(x) in about the type's range. x * log2(e) is rounded by
// adding 1.5 * 2^(mantissa bits), whose last bits then hold the integer; and twice the bias.
LZ_FN lz_@S lz_exp_sum_@S(lz_@S x, lz_@S low, int k) {
  lz_@S magic = @{12583166.0f|6755399441057790.0};
  lz_@S t = LZ_FMA_@N(x + low, @{1.44269502f|1.4426950408889634}, magic), n = t - magic;
  lz_@S r = LZ_FMA_@N(n, @{-0.693145751953125f|-0.69314718055989033}, x);
  r = LZ_FMA_@N(n, @{-1.42860682e-6f|-5.4979230187083712e-14}, r) + low;
  return lz_exp_scale_@S(lz_expm1_poly_@S(r), lz_bits_@S(t) + (lz_@U)k);
}

//@ lz_exp_clamp_@S [floats]
// x where exp(x) neither overflows nor vanishes, else a value for which it safely does; keeps NaN.
LZ_FN lz_@S lz_exp_clamp_@S(lz_@S x) {
  return lz_at_most_@S(lz_at_least_@S(x, @{-105|-746}), @{105|746});
}

//@ lz_exp_@S [floats] ulp=1.25
// The lower bound is where both steps of the scale are 0: of -inf and other masks no product
// underflows, for which many processors stop.
LZ_FN lz_@S lz_exp_@S(lz_@S x) {
  lz_@S y = lz_at_most_@S(lz_at_least_@S(x, @{-176|-1418}), @{105|746});
  return lz_exp_sum_@S(y, @{-0.0f|-0.0}, 0);
}

//@ lz_exp_nonpositive_@S [floats] ulp=1.25
// exp(x) for x <= 0, and of NaN: the same bits for less. The scale, 2^n times 2^@{63|512}, is a normal
// number for all of them, and the last step is the only one that may round to a subnormal one; at the bound it
// is 0, as for lz_exp_@S.
LZ_FN lz_@S lz_exp_nonpositive_@S(lz_@S x) {
  lz_@S magic = @{12583102.0f|6755399441057279.0}, y = lz_at_least_@S(x, @{-132|-1064});
  lz_@S t = LZ_FMA_@N(y, @{1.44269502f|1.4426950408889634}, magic), n = t - magic;
  lz_@S r = LZ_FMA_@N(n, @{-0.693145751953125f|-0.69314718055989033}, y);
  r = LZ_FMA_@N(n, @{-1.42860682e-6f|-5.4979230187083712e-14}, r);
  lz_@S p = lz_expm1_poly_@S(r), h = lz_from_bits_@S(lz_bits_@S(t) << @{23|52});
  return LZ_FMA_@N(h, p, h) * (lz_@S)@{0x1p-63|0x1p-512};
}

//@ lz_exp_half_@S [floats]
// exp(x) / 2 without overflow before the division.
LZ_FN lz_@S lz_exp_half_@S(lz_@S x) {
  return lz_exp_sum_@S(lz_exp_clamp_@S(x), @{-0.0f|-0.0}, -1);
}

//@ lz_exp2_@S [floats] ulp=1.25
LZ_FN lz_@S lz_exp2_@S(lz_@S x) {
  lz_@S magic = @{12583166.0f|6755399441057790.0};
  lz_@S y = lz_at_most_@S(lz_at_least_@S(x, @{-151|-1076}), @{151|1076});
  lz_@S t = y + magic, r = (y - (t - magic)) * @{0.693147182f|0.69314718055994531};
  return lz_exp_scale_@S(lz_expm1_poly_@S(r), lz_bits_@S(t));
}

//@ lz_exp_parts_@S [floats]
// exp(x) = 2^n * (1 + result); scale becomes 2^(n + k), where that is a normal number.
LZ_FN lz_@S lz_exp_parts_@S(lz_@S x, int k, lz_@S *scale) {
  lz_@S magic = @{12583039.0f|6755399441056767.0};
  lz_@S t = LZ_FMA_@N(x, @{1.44269502f|1.4426950408889634}, magic), n = t - magic;
  lz_@S r = LZ_FMA_@N(n, @{-0.693145751953125f|-0.69314718055989033}, x);
  r = LZ_FMA_@N(n, @{-1.42860682e-6f|-5.4979230187083712e-14}, r);
  *scale = lz_from_bits_@S((lz_bits_@S(t) + (lz_@U)k) << @{23|52});
  return lz_expm1_poly_@S(r);
}

//@ lz_expm1_@S [floats] ulp=2.5
// From where it rounds to -1 up to overflow; at half size lest 2^128 overflow.
LZ_FN lz_@S lz_expm1_@S(lz_@S x) {
  lz_@S y = lz_at_most_@S(lz_at_least_@S(x, @{-18|-40}), @{89|710});
  lz_@S h, p = lz_exp_parts_@S(y, -1, &h), r = LZ_FMA_@N(h, p, h - (lz_@S)0.5) * 2;
  return lz_abs_@S(x) < @{3e-8f|5e-17} ? x : r;
}

//@ lz_tanh_poly_f32
// tanh(r) for |r| <= ln(2)/4.
LZ_FN lz_f32 lz_tanh_poly_f32(lz_f32 r) {
  lz_f32 s = r * r;
  return LZ_FMA_F32(r * s, LZ_FMA_F32(0.131096244f, s, -0.333312541f), r);
}

//@ lz_tanh_poly_f64
// tanh(r) for |r| <= ln(2)/4.
LZ_FN lz_f64 lz_tanh_poly_f64(lz_f64 r) {
  lz_f64 s = r * r, z = s * s, p = LZ_FMA_F64(-0.0088589299945332939, z, -0.053968253498241279);
  lz_f64 q = LZ_FMA_F64(0.0034638263460007755, z, 0.02186942168074071);
  p = LZ_FMA_F64(p, z, -0.33333333333333282); q = LZ_FMA_F64(q, z, 0.13333333333212377);
  return LZ_FMA_F64(r * s, LZ_FMA_F64(q, s, p), r);
}

//@ lz_half_tanh_f32
// tanh(r/2) for |r| <= ln(2)/2, with which exp(r) is (1 + tanh(r/2)) / (1 - tanh(r/2)).
LZ_FN lz_f32 lz_half_tanh_f32(lz_f32 r) {
  lz_f32 s = r * r;
  return LZ_FMA_F32(LZ_FMA_F32(0.00409184070f, s, -0.0416635498f), s, 0.5f) * r;
}

//@ lz_half_tanh_f64
// tanh(r/2) for |r| <= ln(2)/2, with which exp(r) is (1 + tanh(r/2)) / (1 - tanh(r/2)).
LZ_FN lz_f64 lz_half_tanh_f64(lz_f64 r) {
  lz_f64 s = r * r, z = s * s, p = LZ_FMA_F64(-4.3256494113932102e-06, z, -0.00042162698045501002);
  lz_f64 q = LZ_FMA_F64(4.2283036450204779e-07, z, 4.27137142201967e-05);
  p = LZ_FMA_F64(p, z, -0.041666666666666602); q = LZ_FMA_F64(q, z, 0.0041666666666288679);
  return LZ_FMA_F64(LZ_FMA_F64(q, s, p), s, 0.5) * r;
}

//@ lz_sigmoid_@S [floats] ulp=2.75
// 1 / (1 + exp(-x)) with the quotient that exp is: it takes fewer steps than a polynomial, and the
// division is there anyway. All terms are 2^-@{64|512} times their size: exp(-x) overflows where the
// result is still a number, and the division rounds to a subnormal one.
LZ_FN lz_@S lz_sigmoid_@S(lz_@S x) {
  lz_@S magic = @{12582975.0f|6755399441056255.0};
  lz_@S y = lz_at_most_@S(lz_at_least_@S(x, @{-105|-746}), @{20|40});
  lz_@S t = LZ_FMA_@N(y, @{-1.44269502f|-1.4426950408889634}, magic), n = t - magic;
  lz_@S r = LZ_FMA_@N(n, @{-0.693145751953125f|-0.69314718055989033}, -y);
  r = LZ_FMA_@N(n, @{-1.42860682e-6f|-5.4979230187083712e-14}, r);
  lz_@S o = lz_half_tanh_@S(r), h = lz_from_bits_@S(lz_bits_@S(t) << @{23|52});
  lz_@S one = @{0x1p-64f|0x1p-512}, d = LZ_FMA_@N(-o, one, one);
  return d / LZ_FMA_@N(h, 1 + o, d);
}

//@ lz_tanh_@S [floats] ulp=2.75
// (1 - e) / (1 + e) for e = exp(-2|x|) = h (1 + o) / (1 - o), both terms times 1 - o: where h is 1
// nothing is left of the first but 2 o. The rest of ln(2) matters little beside 1, in float32 nothing.
LZ_FN lz_@S lz_tanh_@S(lz_@S x) {
  lz_@S magic = @{12583039.0f|6755399441056767.0}, a = lz_at_most_@S(lz_abs_@S(x), @{10|20});
  lz_@S t = LZ_FMA_@N(a, @{-2.88539004f|-2.8853900817779268}, magic), n = t - magic;
  lz_@S r = LZ_FMA_@N(n, @{-0.346573591f|-0.34657359027997264}, -a);
  r = @{r|LZ_FMA_F64(n, -1.1595234069231498e-17, r)};
  lz_@S o = lz_tanh_poly_@S(r), h = lz_from_bits_@S(lz_bits_@S(t) << @{23|52});
  lz_@S more = 1 + h, less = 1 - h, m = LZ_FMA_@N(-o, more, less) / LZ_FMA_@N(-o, less, more);
  return lz_from_bits_@S(lz_bits_@S(m) | (lz_bits_@S(x) & (lz_@U)1 << @B));
}

//@ lz_sinh_poly_f32
// sinh(x) for |x| <= 1.
LZ_FN lz_f32 lz_sinh_poly_f32(lz_f32 x) {
  lz_f32 z = x * x;
  lz_f32 p = 2.81739972e-06f; p = LZ_FMA_F32(p, z, 0.000198360751f);
  p = LZ_FMA_F32(p, z, 0.00833335053f); p = LZ_FMA_F32(p, z, 0.166666672f);
  return LZ_FMA_F32(x * z, p, x);
}

//@ lz_sinh_poly_f64
// sinh(x) for |x| <= 1.
LZ_FN lz_f64 lz_sinh_poly_f64(lz_f64 x) {
  lz_f64 z = x * x;
  lz_f64 p = 8.3441651852929959e-13; p = LZ_FMA_F64(p, z, 1.6037062819668678e-10);
  p = LZ_FMA_F64(p, z, 2.5052395477462975e-08); p = LZ_FMA_F64(p, z, 2.7557317351644487e-06);
  p = LZ_FMA_F64(p, z, 0.00019841269847477606); p = LZ_FMA_F64(p, z, 0.0083333333333238547);
  p = LZ_FMA_F64(p, z, 0.16666666666666716);
  return LZ_FMA_F64(x * z, p, x);
}

//@ lz_sinh_@S [floats] ulp=2.5
LZ_FN lz_@S lz_sinh_@S(lz_@S x) {
  lz_@S a = lz_abs_@S(x), h = lz_exp_half_@S(a);
  lz_@S r = a < 1 ? lz_sinh_poly_@S(a) : h - (lz_@S)0.25 / h;
  return lz_copysign_@S(r, x);
}

//@ lz_cosh_@S [floats] ulp=2
LZ_FN lz_@S lz_cosh_@S(lz_@S x) {
  lz_@S h = lz_exp_half_@S(lz_abs_@S(x));
  return h + (lz_@S)0.25 / h;
}
