// The bits of floats as unsigned integers of their width, and back.

//@ lz_pattern_@S [floats]
LZ_FN lz_@U lz_pattern_@S(lz_@S x) { return lz_bits_@S(x); }

//@ lz_from_pattern_@S [floats]
LZ_FN lz_@S lz_from_pattern_@S(lz_@U b) { return lz_from_bits_@S(b); }

// 16-bit floats are computed with in 32 bits.

//@ lz_pattern_f16
LZ_FN lz_u16 lz_pattern_f16(lz_f32 x) { return lz_store_f16(x); }

//@ lz_pattern_bf16
LZ_FN lz_u16 lz_pattern_bf16(lz_f32 x) { return lz_store_bf16(x); }

//@ lz_from_pattern_f16
LZ_FN lz_f32 lz_from_pattern_f16(lz_u16 b) { return lz_load_f16(b); }

//@ lz_from_pattern_bf16
LZ_FN lz_f32 lz_from_pattern_bf16(lz_u16 b) { return lz_load_bf16(b); }
