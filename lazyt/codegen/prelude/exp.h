// Exponentials and what follows from them. "@{a|b}" is a for float32 and b for float64. No fused
// multiply-add: results must not depend on the machine. Polynomials are minimax (Remez) fits.

//@ lz_expm1_poly_f32
// exp(r) - 1 for |r| <= ln(2)/2. Paired terms (Estrin): this is the longest chain of most kernels.
LZ_FN lz_f32 lz_expm1_poly_f32(lz_f32 r) {
  lz_f32 s = r * r;
  lz_f32 q = (0.00836669933f * r + 0.0416662805f) + s * 0.00139466149f;
  return r + s * ((0.16666542f * r + 0.5f) + s * q);
}

//@ lz_expm1_poly_f64
// exp(r) - 1 for |r| <= ln(2)/2.
LZ_FN lz_f64 lz_expm1_poly_f64(lz_f64 r) {
  lz_f64 q = 2.5114728841585493e-08; q = q * r + 2.7626546504693387e-07;
  q = q * r + 2.7557227192490197e-06; q = q * r + 2.4801503938750435e-05;
  q = q * r + 0.00019841269903822148; q = q * r + 0.0013888888932752262;
  q = q * r + 0.0083333333333142599; q = q * r + 0.041666666666572691;
  q = q * r + 0.16666666666666685; q = q * r + 0.50000000000000056;
  return r + r * r * q;
}

//@ lz_exp_scale_@S [floats]
// (1 + p) * 2^n for p > -1/2 and any n in reach, in two steps: subnormal results round once.
LZ_FN lz_@S lz_exp_scale_@S(lz_@S p, lz_@U n) {
  lz_@U half = ((n + 4096u) >> 1) - 2048u, rest = n - half;
  return (1 + p) * lz_from_bits_@S((half + @{127|1023}u) << @{23|52})
      * lz_from_bits_@S((rest + @{127|1023}u) << @{23|52});
}

//@ lz_exp_sum_@S [floats]
// exp(x + low) * 2^k for small low and exp(x) in about the type's range. x * log2(e) is rounded by
// adding 1.5 * 2^(mantissa bits), whose last bits then hold the integer.
LZ_FN lz_@S lz_exp_sum_@S(lz_@S x, lz_@S low, int k) {
  lz_@S magic = @{12582912.0f|6755399441055744.0};
  lz_@S t = (x + low) * @{1.44269502f|1.4426950408889634} + magic, n = t - magic;
  lz_@S r = ((x - n * @{0.693145751953125f|0.69314718055989033})
      - n * @{1.42860682e-6f|5.4979230187083712e-14}) + low;
  lz_@U count = lz_bits_@S(t) - lz_bits_@S(magic) + (lz_@U)k;
  return lz_exp_scale_@S(lz_expm1_poly_@S(r), count);
}

//@ lz_exp_clamp_@S [floats]
// x where exp(x) neither overflows nor vanishes, else a value for which it safely does; keeps NaN.
LZ_FN lz_@S lz_exp_clamp_@S(lz_@S x) {
  lz_@S y = x < @{-105|-746} ? @{-105|-746} : x;
  return y > @{90|711} ? @{90|711} : y;
}

//@ lz_exp_@S [floats] ulp=1.5
LZ_FN lz_@S lz_exp_@S(lz_@S x) {
  return lz_exp_sum_@S(lz_exp_clamp_@S(x), @{-0.0f|-0.0}, 0);
}

//@ lz_exp_half_@S [floats]
// exp(x) / 2 without overflow before the division.
LZ_FN lz_@S lz_exp_half_@S(lz_@S x) {
  return lz_exp_sum_@S(lz_exp_clamp_@S(x), @{-0.0f|-0.0}, -1);
}

//@ lz_exp2_@S [floats] ulp=1.5
LZ_FN lz_@S lz_exp2_@S(lz_@S x) {
  lz_@S magic = @{12582912.0f|6755399441055744.0};
  lz_@S y = x < @{-151|-1076} ? @{-151|-1076} : x;
  y = y > @{129|1025} ? @{129|1025} : y;
  lz_@S t = y + magic, r = (y - (t - magic)) * @{0.693147182f|0.69314718055994531};
  return lz_exp_scale_@S(lz_expm1_poly_@S(r), lz_bits_@S(t) - lz_bits_@S(magic));
}

//@ lz_expm1_inside_@S [floats]
// exp(x) - 1 from where it rounds to -1 up to overflow, as 2^n * (exp(r) - 1) + (2^n - 1); kept at
// half size lest 2^128 overflow.
LZ_FN lz_@S lz_expm1_inside_@S(lz_@S x) {
  lz_@S magic = @{12582912.0f|6755399441055744.0};
  lz_@S t = x * @{1.44269502f|1.4426950408889634} + magic, n = t - magic;
  lz_@S r = (x - n * @{0.693145751953125f|0.69314718055989033})
      - n * @{1.42860682e-6f|5.4979230187083712e-14};
  lz_@U count = lz_bits_@S(t) - lz_bits_@S(magic);
  lz_@S h = lz_from_bits_@S((count + @{126|1022}u) << @{23|52});
  return (h * lz_expm1_poly_@S(r) + (h - (lz_@S)0.5)) * 2;
}

//@ lz_expm1_@S [floats] ulp=2.5
LZ_FN lz_@S lz_expm1_@S(lz_@S x) {
  lz_@S y = x < @{-18|-40} ? @{-18|-40} : x;
  y = y > @{89|710} ? @{89|710} : y;
  return lz_abs_@S(x) < @{3e-8f|5e-17} ? x : lz_expm1_inside_@S(y);
}

//@ lz_sigmoid_@S [floats] ulp=3
// From exp(-|x|), which cannot overflow, so that small results keep their digits.
LZ_FN lz_@S lz_sigmoid_@S(lz_@S x) {
  lz_@S a = -lz_abs_@S(x), y = a < @{-105|-746} ? @{-105|-746} : a;
  lz_@S e = lz_exp_sum_@S(y, @{-0.0f|-0.0}, 0);
  return (x < 0 ? e : 1) / (1 + e);
}

//@ lz_tanh_@S [floats] ulp=3
LZ_FN lz_@S lz_tanh_@S(lz_@S x) {
  lz_@S a = -2 * lz_abs_@S(x), y = a < @{-18|-40} ? @{-18|-40} : a;
  lz_@S t = lz_expm1_inside_@S(y);
  return lz_copysign_@S(t / (t + 2), x);
}

//@ lz_sinh_poly_f32
// sinh(x) for |x| <= 1.
LZ_FN lz_f32 lz_sinh_poly_f32(lz_f32 x) {
  lz_f32 z = x * x;
  lz_f32 p = 2.81739972e-06f; p = p * z + 0.000198360751f; p = p * z + 0.00833335053f;
  p = p * z + 0.166666672f;
  return x + x * z * p;
}

//@ lz_sinh_poly_f64
// sinh(x) for |x| <= 1.
LZ_FN lz_f64 lz_sinh_poly_f64(lz_f64 x) {
  lz_f64 z = x * x;
  lz_f64 p = 8.3441651852929959e-13; p = p * z + 1.6037062819668678e-10;
  p = p * z + 2.5052395477462975e-08; p = p * z + 2.7557317351644487e-06;
  p = p * z + 0.00019841269847477606; p = p * z + 0.0083333333333238547;
  p = p * z + 0.16666666666666716;
  return x + x * z * p;
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
