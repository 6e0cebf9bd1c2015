// Orthogonal polynomials by their three-term recurrences (DLMF table 18.9.1). The degree is a float
// whose fraction is cut off; where there is no such polynomial the value is 0, as in PyTorch.

//@ lz_chebyshev_@S [floats]
// The four kinds differ in the polynomial of degree 1.
LZ_FN lz_@S lz_chebyshev_@S(lz_@S x, lz_@S n, lz_@S first) {
  if (!(n > -1 && n < (lz_@S)9e18)) return 0;
  if (n < 1) return 1;
  lz_@S before = 1, p = first;
  for (lz_i64 k = 1, end = lz_cast_@S_i64(n); k < end && p == p; k++) {
    lz_@S next = 2 * x * p - before;
    before = p;
    p = next;
  }
  return p;
}

//@ lz_chebyshev_t_@S [floats]
LZ_FN lz_@S lz_chebyshev_t_@S(lz_@S x, lz_@S n) { return lz_chebyshev_@S(x, n, x); }

//@ lz_chebyshev_u_@S [floats]
LZ_FN lz_@S lz_chebyshev_u_@S(lz_@S x, lz_@S n) { return lz_chebyshev_@S(x, n, 2 * x); }

//@ lz_chebyshev_v_@S [floats]
LZ_FN lz_@S lz_chebyshev_v_@S(lz_@S x, lz_@S n) { return lz_chebyshev_@S(x, n, 2 * x - 1); }

//@ lz_chebyshev_w_@S [floats]
LZ_FN lz_@S lz_chebyshev_w_@S(lz_@S x, lz_@S n) { return lz_chebyshev_@S(x, n, 2 * x + 1); }

//@ lz_hermite_h_@S [floats]
LZ_FN lz_@S lz_hermite_h_@S(lz_@S x, lz_@S n) {
  if (!(n > -1 && n < (lz_@S)9e18)) return 0;
  lz_@S before = 0, p = 1;
  for (lz_i64 k = 0, end = lz_cast_@S_i64(n); k < end && p == p; k++) {
    lz_@S next = 2 * x * p - 2 * k * before;
    before = p;
    p = next;
  }
  return p;
}

//@ lz_hermite_he_@S [floats]
LZ_FN lz_@S lz_hermite_he_@S(lz_@S x, lz_@S n) {
  if (!(n > -1 && n < (lz_@S)9e18)) return 0;
  lz_@S before = 0, p = 1;
  for (lz_i64 k = 0, end = lz_cast_@S_i64(n); k < end && p == p; k++) {
    lz_@S next = x * p - k * before;
    before = p;
    p = next;
  }
  return p;
}

//@ lz_laguerre_l_@S [floats]
LZ_FN lz_@S lz_laguerre_l_@S(lz_@S x, lz_@S n) {
  if (!(n > -1 && n < (lz_@S)9e18)) return 0;
  lz_@S before = 0, p = 1;
  for (lz_i64 k = 0, end = lz_cast_@S_i64(n); k < end && p == p; k++) {
    lz_@S next = ((2 * k + 1 - x) * p - k * before) / (k + 1);
    before = p;
    p = next;
  }
  return p;
}

//@ lz_legendre_p_@S [floats]
LZ_FN lz_@S lz_legendre_p_@S(lz_@S x, lz_@S n) {
  if (!(n > -1 && n < (lz_@S)9e18)) return 0;
  lz_@S before = 0, p = 1;
  for (lz_i64 k = 0, end = lz_cast_@S_i64(n); k < end && p == p; k++) {
    lz_@S next = ((2 * k + 1) * x * p - k * before) / (k + 1);
    before = p;
    p = next;
  }
  return p;
}
