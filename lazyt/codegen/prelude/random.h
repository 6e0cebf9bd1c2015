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

//@ lz_normal_count_f64
// The whole number for which a normal law of that mean and variance, its skewness corrected to
// first order (Cornish and Fisher, 1938), has the distribution function u.
LZ_FN lz_f64 lz_normal_count_f64(lz_f64 mean, lz_f64 variance, lz_f64 skew, lz_f64 u) {
  lz_f64 z = lz_ndtri_f64(u < 1e-300 ? 1e-300 : u);
  lz_f64 x = mean + LZ_SQRT_F64(variance) * z + skew * (z * z - 1) / 6;
  return lz_floor_f64(x + 0.5);
}

//@ lz_poisson_f64
// A Poisson number of that rate from u, uniform over [0, 1): u picks from the probabilities laid
// end to end in the order mode, one above, one below, two above ...; normal law from 1e6 up.
LZ_FN lz_f64 lz_poisson_f64(lz_f64 rate, lz_f64 u) {
  if (!(rate >= 0 && rate < LZ_INF_F64)) return LZ_NAN_F64;
  if (rate > 1e6) return lz_normal_count_f64(rate, rate, 1, u);
  lz_f64 above = lz_floor_f64(rate), below = above;
  lz_f64 p = above < 1 ? lz_exp_f64(-rate) : lz_gamma_front_f64(above, rate), q = p;
  for (u -= p; u >= 0 && p + q > 1e-20;) {
    above += 1;
    p *= rate / above;
    u -= p;
    if (u < 0) return above;
    q *= below / rate;
    u -= q;
    below = below > 0 ? below - 1 : 0;
    if (u < 0) return below;
  }
  return above;
}

//@ lz_binomial_walk_f64
// A binomial number for 0 <= s <= 1/2 from the mode outwards, as in lz_poisson.
LZ_FN lz_f64 lz_binomial_walk_f64(lz_f64 n, lz_f64 s, lz_f64 u) {
  lz_f64 odds = s / (1 - s), above = lz_floor_f64((n + 1) * s), below = above;
  lz_f64 ways = lz_lgamma_f64(n + 1) - lz_lgamma_f64(above + 1) - lz_lgamma_f64(n - above + 1);
  if (s == 0) return 0;
  lz_f64 p = lz_exp_f64(ways + above * lz_log_f64(s) + (n - above) * lz_log1p_f64(-s)), q = p;
  for (u -= p; u >= 0 && p + q > 1e-20;) {
    p *= (n - above) / (above + 1) * odds;
    above = above < n ? above + 1 : n;
    u -= p;
    if (u < 0) return above;
    q *= below / ((n - below + 1) * odds);
    u -= q;
    below = below > 0 ? below - 1 : 0;
    if (u < 0) return below;
  }
  return above;
}

//@ lz_binomial_f64
// How many of n trials succeed with probability p, from u, uniform over [0, 1); normal law where
// the variance exceeds 1e6.
LZ_FN lz_f64 lz_binomial_f64(lz_f64 n, lz_f64 p, lz_f64 u) {
  if (!(n >= 0 && n < LZ_INF_F64 && p >= 0 && p <= 1)) return LZ_NAN_F64;
  lz_f64 trials = lz_floor_f64(n), s = p > 0.5 ? 1 - p : p, variance = trials * s * (1 - s);
  lz_f64 count = variance > 1e6 ? lz_normal_count_f64(trials * s, variance, 1 - 2 * s, u)
      : lz_binomial_walk_f64(trials, s, u);
  return p > 0.5 ? trials - count : count;
}

//@ lz_poisson_f32
LZ_FN lz_f32 lz_poisson_f32(lz_f32 rate, lz_f32 u) { return (lz_f32)lz_poisson_f64(rate, u); }

//@ lz_binomial_f32
LZ_FN lz_f32 lz_binomial_f32(lz_f32 n, lz_f32 p, lz_f32 u) {
  return (lz_f32)lz_binomial_f64(n, p, u);
}
