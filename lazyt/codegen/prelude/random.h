// Counter-based random bits.

//@ lz_threefry_round
LZ_FN void lz_threefry_round(lz_u32 *a, lz_u32 *b, int left) {
  *a += *b;
  *b = (*b << left | *b >> (32 - left)) ^ *a;
}

//@ lz_threefry_u32
// First word of Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11), the counter's low half as first counter word.
LZ_FN lz_u32 lz_threefry_u32(lz_u32 k0, lz_u32 k1, lz_u64 counter) {
  lz_u32 k2 = 0x1bd11bdau ^ k0 ^ k1;
  lz_u32 a = (lz_u32)counter + k0, b = (lz_u32)(counter >> 32) + k1;
  lz_threefry_round(&a, &b, 13); lz_threefry_round(&a, &b, 15);
  lz_threefry_round(&a, &b, 26); lz_threefry_round(&a, &b, 6);
  a += k1; b += k2 + 1u;
  lz_threefry_round(&a, &b, 17); lz_threefry_round(&a, &b, 29);
  lz_threefry_round(&a, &b, 16); lz_threefry_round(&a, &b, 24);
  a += k2; b += k0 + 2u;
  lz_threefry_round(&a, &b, 13); lz_threefry_round(&a, &b, 15);
  lz_threefry_round(&a, &b, 26); lz_threefry_round(&a, &b, 6);
  a += k0; b += k1 + 3u;
  lz_threefry_round(&a, &b, 17); lz_threefry_round(&a, &b, 29);
  lz_threefry_round(&a, &b, 16); lz_threefry_round(&a, &b, 24);
  a += k1; b += k2 + 4u;
  lz_threefry_round(&a, &b, 13); lz_threefry_round(&a, &b, 15);
  lz_threefry_round(&a, &b, 26); lz_threefry_round(&a, &b, 6);
  return a + k2;
}
