// Integer division, powers and shifts, and the float functions that share their names.
// An integer divided by zero gives 0 (PyTorch raises; a trap would kill the process), and the
// smallest number divided by -1 wraps to itself, as in PyTorch.

//@ lz_floordiv_@S [signed]
// What is divided is never negative: x, or ~x = -1 - x, whose quotient is ~(x / y). Of x / y and
// -x / y gcc makes one division and a negation, which is wrong where -x wraps around (-fwrapv too).
LZ_FN lz_@S lz_floordiv_@S(lz_@S x, lz_@S y) {
  if (y == 0) return 0;
  lz_@S sign = (lz_@S)(x >> @B), n = (lz_@S)(x ^ sign);
  lz_@S q = (lz_@S)(n / y), r = (lz_@S)(n % y);
  if (y > 0) return (lz_@S)(q ^ sign);
  return (lz_@S)(sign ? (lz_@W)(r + y == -1) - (lz_@W)q : (lz_@W)q - (lz_@W)(r != 0));
}

//@ lz_mod_@S [signed]
// The result has y's sign, as Python's %.
LZ_FN lz_@S lz_mod_@S(lz_@S x, lz_@S y) {
  if (y == 0 || y == -1) return 0;
  lz_@S r = (lz_@S)(x % y);
  return (lz_@S)(r != 0 && (r < 0) != (y < 0) ? r + y : r);
}

//@ lz_fmod_@S [signed]
// The result has x's sign, as C's %.
LZ_FN lz_@S lz_fmod_@S(lz_@S x, lz_@S y) {
  return (lz_@S)(y == 0 || y == -1 ? 0 : x % y);
}

//@ lz_floordiv_@S [unsigned]
LZ_FN lz_@S lz_floordiv_@S(lz_@S x, lz_@S y) { return (lz_@S)(y == 0 ? 0 : x / y); }

//@ lz_mod_@S [unsigned]
LZ_FN lz_@S lz_mod_@S(lz_@S x, lz_@S y) { return (lz_@S)(y == 0 ? 0 : x % y); }

//@ lz_fmod_@S [unsigned]
LZ_FN lz_@S lz_fmod_@S(lz_@S x, lz_@S y) { return (lz_@S)(y == 0 ? 0 : x % y); }

//@ lz_ipow_@S [ints]
// base^n by squaring, in unsigned arithmetic of at least 32 bits (promotion would overflow int).
LZ_FN lz_@S lz_ipow_@S(lz_@S x, lz_@U n) {
  lz_@W base = (lz_@W)x, result = 1;
  for (; n != 0; n = (lz_@U)(n >> 1)) {
    result = n & 1 ? result * base : result;
    base *= base;
  }
  return (lz_@S)result;
}

//@ lz_pow_@S [unsigned]
LZ_FN lz_@S lz_pow_@S(lz_@S x, lz_@S y) { return lz_ipow_@S(x, y); }

//@ lz_pow_@S [signed]
// Negative exponents give 0, except for the bases 1 and -1, as in PyTorch.
LZ_FN lz_@S lz_pow_@S(lz_@S x, lz_@S y) {
  if (y >= 0) return lz_ipow_@S(x, (lz_@U)y);
  return (lz_@S)(x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0);
}

//@ lz_shift_left_@S [ints]
// Counts outside 0 ... width-1 shift every bit out, as in PyTorch.
LZ_FN lz_@S lz_shift_left_@S(lz_@S x, lz_@S n) {
  lz_@U count = (lz_@U)n;
  return (lz_@S)(count <= @B ? (lz_@W)x << (count & @B) : 0);
}

//@ lz_shift_right_@S [unsigned]
LZ_FN lz_@S lz_shift_right_@S(lz_@S x, lz_@S n) {
  return (lz_@S)(n <= @B ? x >> (n & @B) : 0);
}

//@ lz_shift_right_@S [signed]
// Counts outside 0 ... width-1 leave the sign: 0 or -1. From a count of less than 32 bits gcc makes
// a shift of less than 32 bits, which AVX2 has not.
LZ_FN lz_@S lz_shift_right_@S(lz_@S x, lz_@S n) {
#if defined(__AVX2__) && !defined(__AVX512BW__)
  lz_@W count = (lz_@U)n;
#else
  lz_@U count = (lz_@U)n;
#endif
  return (lz_@S)(x >> (count <= @B ? count : @B));
}

//@ lz_fmod_long_f32
// Exact: long division of the mantissas, 40 quotient bits a step.
LZ_FN lz_f32 lz_fmod_long_f32(lz_f32 x, lz_f32 y) {
  lz_u32 a = lz_bits_f32(x) & 0x7fffffffu, b = lz_bits_f32(y) & 0x7fffffffu;
  if (a >= 0x7f800000u || b == 0 || b > 0x7f800000u) return LZ_NAN_F32;
  if (a < b) return x;
  int ea = (int)(a >> 23), eb = (int)(b >> 23);
  lz_u64 m = ea ? (a & 0x7fffffu) | 0x800000u : a;
  lz_u64 d = eb ? (b & 0x7fffffu) | 0x800000u : b;
  int shift = (ea ? ea : 1) - (eb ? eb : 1);
  for (m %= d; shift > 0 && m != 0; shift -= 40) m = (m << (shift < 40 ? shift : 40)) % d;
  // m * 2^(exponent of y's last bit), exactly: both factors and the product are representable.
  lz_f32 unit = lz_from_bits_f32(eb > 23 ? (lz_u32)(eb - 23) << 23 : 1u << (eb ? eb - 1 : 0));
  return lz_copysign_f32((lz_f32)m * unit, x);
}

//@ lz_fmod_long_f64
// Exact: long division of the mantissas, 11 quotient bits a step.
LZ_FN lz_f64 lz_fmod_long_f64(lz_f64 x, lz_f64 y) {
  lz_u64 inf = 0x7ff0000000000000ULL, low = 0xfffffffffffffULL, top = low + 1;
  lz_u64 a = lz_bits_f64(x) & ~(1ULL << 63), b = lz_bits_f64(y) & ~(1ULL << 63);
  if (a >= inf || b == 0 || b > inf) return LZ_NAN_F64;
  if (a < b) return x;
  int ea = (int)(a >> 52), eb = (int)(b >> 52);
  lz_u64 m = ea ? (a & low) | top : a;
  lz_u64 d = eb ? (b & low) | top : b;
  int shift = (ea ? ea : 1) - (eb ? eb : 1);
  for (m %= d; shift > 0 && m != 0; shift -= 11) m = (m << (shift < 11 ? shift : 11)) % d;
  lz_f64 unit = lz_from_bits_f64(eb > 52 ? (lz_u64)(eb - 52) << 52 : 1ULL << (eb ? eb - 1 : 0));
  return lz_copysign_f64((lz_f64)m * unit, x);
}

//@ lz_fmod_is_near_@S [floats]
// Whether the integer part of the rounded quotient is right, or one too large.
LZ_FN int lz_fmod_is_near_@S(lz_@S x, lz_@S y) {
#ifdef LZ_FUSED
  return (lz_abs_@S(x / y) < @{4194304.0f|2251799813685248.0}) & (lz_abs_@S(y) < LZ_INF_@N);
#else
  return (void)x, (void)y, 0;
#endif
}

//@ lz_fmod_near_@S [floats]
// The fused step is exact; where the quotient was rounded up to an integer, it gives too little.
LZ_FN lz_@S lz_fmod_near_@S(lz_@S x, lz_@S y) {
  lz_@S a = lz_abs_@S(x), b = lz_abs_@S(y), r = LZ_FMA_@N(-lz_trunc_@S(a / b), b, a);
  return lz_copysign_@S(r < 0 ? r + b : r, x);
}

//@ lz_fmod_@S [floats] ulp=0
lz_paths2_@S(lz_fmod_@S, lz_fmod_is_near_@S, lz_fmod_near_@S, lz_fmod_long_@S)

//@ lz_mod_@S [floats] ulp=0.5
// The result has y's sign, as torch.remainder.
LZ_FN lz_@S lz_mod_@S(lz_@S x, lz_@S y) {
  lz_@S r = lz_fmod_@S(x, y);
  return (r != 0) & ((r < 0) != (y < 0)) ? r + y : r;
}

//@ lz_floordiv_@S [floats]
// Rounds as torch.floor_divide: exact remainder first, so that 1 // 0.1 is 9.
LZ_FN lz_@S lz_floordiv_@S(lz_@S x, lz_@S y) {
  lz_@S r = lz_fmod_@S(x, y), q = (x - r) / y;
  q = (r != 0) & ((r < 0) != (y < 0)) ? q - 1 : q;
  lz_@S f = lz_floor_@S(q), zero = lz_copysign_@S(0, x / y);
  f = q - f > (lz_@S)0.5 ? f + 1 : f;
  f = q != 0 ? f : zero;
  return y == 0 ? x / y : f;
}

//@ lz_gcd_@S [ints]
// Euclid's algorithm on magnitudes; gcd(0, 0) is 0.
LZ_FN lz_@S lz_gcd_@S(lz_@S x, lz_@S y) {
  lz_@U a = (lz_@U)lz_abs_@S(x), b = (lz_@U)lz_abs_@S(y);
  while (b != 0) {
    lz_@U rest = (lz_@U)(a % b);
    a = b;
    b = rest;
  }
  return (lz_@S)a;
}
