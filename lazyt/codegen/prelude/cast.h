// Conversions, as PyTorch does them on a CPU: a float outside the range of the integer becomes what
// the x86 instruction gives, a one and zeros; never undefined. "@D" is the type converted to.

//@ lz_cast_@S_@D [ints floats] -> [floats]
LZ_FN lz_@D lz_cast_@S_@D(lz_@S x) { return (lz_@D)x; }

//@ lz_cast_@S_@D [b8] -> [floats]
// A choice, which compilers make of the vector of a comparison; a conversion goes by bytes.
LZ_FN lz_@D lz_cast_@S_@D(lz_@S x) { return x ? (lz_@D)1 : (lz_@D)0; }

//@ lz_cast_@S_@D [b8 ints] -> [ints]
LZ_FN lz_@D lz_cast_@S_@D(lz_@S x) { return (lz_@D)x; }

//@ lz_cast_@S_@D [ints floats] -> [b8]
// NaN is true.
LZ_FN lz_@D lz_cast_@S_@D(lz_@S x) { return x != 0; }

//@ lz_cast_@S_i32 [floats]
// Out of range and NaN: -2^31.
LZ_FN lz_i32 lz_cast_@S_i32(lz_@S x) {
  return lz_abs_@S(x) < (lz_@S)2147483648.0 ? (lz_i32)x : (lz_i32)0x80000000u;
}

//@ lz_cast_@S_@D [floats] -> [i8 i16 u8 u16]
// The low bits of the conversion to 32 bits: 300 becomes 44 in 8 bits, and what is out of range 0.
LZ_FN lz_@D lz_cast_@S_@D(lz_@S x) {
  return (lz_@D)(lz_abs_@S(x) < (lz_@S)2147483648.0 ? (lz_i32)x : 0);
}

//@ lz_cast_@S_i64 [floats]
// Out of range and NaN: -2^63.
LZ_FN lz_i64 lz_cast_@S_i64(lz_@S x) {
  int inside = x >= (lz_@S)-9223372036854775808.0 && x < (lz_@S)9223372036854775808.0;
  return inside ? (lz_i64)x : (lz_i64)0x8000000000000000ULL;
}

//@ lz_cast_@S_u32 [floats]
// The low bits of the conversion to 64 bits: -1 becomes 2^32 - 1.
LZ_FN lz_u32 lz_cast_@S_u32(lz_@S x) { return (lz_u32)lz_cast_@S_i64(x); }

//@ lz_cast_@S_u64 [floats]
// From 2^64 up 0; below -2^63 and NaN 2^63.
LZ_FN lz_u64 lz_cast_@S_u64(lz_@S x) {
  lz_@S top = (lz_@S)9223372036854775808.0;
  if (x >= top) return x < 2 * top ? (lz_u64)(x - top) + 0x8000000000000000ULL : 0;
  return (lz_u64)lz_cast_@S_i64(x);
}
