// 16-bit floats live in memory only: loads widen to float32, stores round to nearest even.

//@ lz_load_f16 ulp=0
// Bits become a float 2^112 too small, which a multiplication mends, subnormals included.
LZ_FN lz_f32 lz_load_f16(lz_f16 h) {
  lz_u32 body = (lz_u32)(h & 0x7fff) << 13;
  lz_f32 scaled = lz_from_bits_f32(body) * 5.192296858534828e33f;
  lz_u32 bits = lz_bits_f32(scaled);
  lz_u32 is_large = -(lz_u32)(body >= 0x0f800000u);
  bits = ((body | 0x7f800000u) & is_large) | (bits & ~is_large);
  return lz_from_bits_f32(bits | (lz_u32)(h & 0x8000) << 16);
}

//@ lz_store_f16 ulp=0.5
// NaN becomes the quiet NaN of its sign; 65520 and above become infinity. Choices are masks: gcc
// turns three conditional values in a row into branches, and a loop with branches into scalars.
LZ_FN lz_f16 lz_store_f16(lz_f32 x) {
  lz_u32 all = lz_bits_f32(x), sign = (all >> 16) & 0x8000u, body = all & 0x7fffffffu;
  // Below 2^-14 the half is subnormal: adding 1/2 aligns the bits and rounds them.
  lz_u32 small = lz_bits_f32(lz_from_bits_f32(body) + 0.5f) - 0x3f000000u;
  lz_u32 normal = (body - 0x38000000u + 0xfffu + ((body >> 13) & 1u)) >> 13;
  lz_u32 is_small = -(lz_u32)(body < 0x38800000u), is_large = -(lz_u32)(body >= 0x477ff000u);
  lz_u32 is_nan = -(lz_u32)(body > 0x7f800000u);
  lz_u32 h = (small & is_small) | (normal & ~is_small);
  h = (0x7c00u & is_large) | (h & ~is_large) | (0x200u & is_nan);
  return (lz_f16)(h | sign);
}

//@ lz_load_bf16 ulp=0
LZ_FN lz_f32 lz_load_bf16(lz_bf16 h) { return lz_from_bits_f32((lz_u32)h << 16); }

//@ lz_store_bf16 ulp=0.5
// NaN becomes 0x7fc0, as in PyTorch.
LZ_FN lz_bf16 lz_store_bf16(lz_f32 x) {
  lz_u32 b = lz_bits_f32(x);
  lz_u32 rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  return (lz_bf16)((b & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

//@ lz_round_f16 ulp=0.5
LZ_FN lz_f32 lz_round_f16(lz_f32 x) { return lz_load_f16(lz_store_f16(x)); }

//@ lz_round_bf16 ulp=0.5
LZ_FN lz_f32 lz_round_bf16(lz_f32 x) { return lz_load_bf16(lz_store_bf16(x)); }
