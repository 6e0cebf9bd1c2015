// Factorizations of small matrices, as many at a time as a vector has lanes: each lane is one matrix,
// computed by itself. Where one needs no rotation or no further sweep its numbers stay as they are,
// whatever its neighbours need. `ir/factorizations/evaluation.py` has the same steps in the same
// order. Products are rounded before they are added: machines without fused steps give the same bits.
//
// A routine finds its operands at `at`, then room for the results, then scratch, in rows of vectors.
// On a GPU the text is C++: a vector has one lane, each thread has a matrix, whose numbers may be
// some distance from each other, with those of other threads between them.

//@ lz_la_m_@S [floats]
#ifdef __cplusplus
struct lz_la_m_@S {
  lz_i@{32|64} bits;
  lz_la_m_@S() {}
  lz_la_m_@S(lz_i@{32|64} all) : bits(all) {}
  lz_i@{32|64} operator[](int) const { return bits; }
};
LZ_FN lz_la_m_@S operator&(lz_la_m_@S a, lz_la_m_@S b) { return a.bits & b.bits; }
LZ_FN lz_la_m_@S operator|(lz_la_m_@S a, lz_la_m_@S b) { return a.bits | b.bits; }
LZ_FN lz_la_m_@S operator~(lz_la_m_@S a) { return ~a.bits; }
LZ_FN lz_la_m_@S operator-(lz_la_m_@S a, lz_la_m_@S b) { return a.bits - b.bits; }
LZ_FN lz_la_m_@S operator<(lz_la_m_@S a, lz_la_m_@S b) {
  return -(lz_i@{32|64})(a.bits < b.bits);
}
LZ_FN lz_la_m_@S operator>(lz_la_m_@S a, lz_la_m_@S b) { return b < a; }
LZ_FN lz_la_m_@S operator<<(lz_la_m_@S a, int n) { return a.bits << n; }
LZ_FN lz_la_m_@S operator>>(lz_la_m_@S a, int n) { return a.bits >> n; }
LZ_FN void operator|=(lz_la_m_@S &a, lz_la_m_@S b) { a.bits |= b.bits; }
LZ_FN void operator-=(lz_la_m_@S &a, lz_la_m_@S b) { a.bits -= b.bits; }
#else
typedef lz_i@{32|64} lz_la_m_@S __attribute__((vector_size(32), aligned(@{4|8}), may_alias));
#endif

//@ lz_la_v_@S [floats]
#ifdef __cplusplus
struct lz_la_v_@S {
  lz_@S number;
  lz_la_v_@S() {}
  lz_la_v_@S(lz_@S all) : number(all) {}
  explicit lz_la_v_@S(lz_la_m_@S pattern) { LZ_COPY(&number, &pattern.bits, sizeof number); }
  explicit operator lz_la_m_@S() const {
    lz_la_m_@S pattern;
    LZ_COPY(&pattern.bits, &number, sizeof number);
    return pattern;
  }
  lz_@S &operator[](int) { return number; }
  lz_@S operator[](int) const { return number; }
};
LZ_FN lz_la_v_@S operator+(lz_la_v_@S a, lz_la_v_@S b) { return a.number + b.number; }
LZ_FN lz_la_v_@S operator-(lz_la_v_@S a, lz_la_v_@S b) { return a.number - b.number; }
LZ_FN lz_la_v_@S operator-(lz_la_v_@S a) { return -a.number; }
LZ_FN lz_la_v_@S operator*(lz_la_v_@S a, lz_la_v_@S b) { return a.number * b.number; }
LZ_FN lz_la_v_@S operator/(lz_la_v_@S a, lz_la_v_@S b) { return a.number / b.number; }
LZ_FN void operator+=(lz_la_v_@S &a, lz_la_v_@S b) { a.number += b.number; }
LZ_FN void operator-=(lz_la_v_@S &a, lz_la_v_@S b) { a.number -= b.number; }
LZ_FN lz_la_m_@S operator<(lz_la_v_@S a, lz_la_v_@S b) {
  return -(lz_i@{32|64})(a.number < b.number);
}
LZ_FN lz_la_m_@S operator>(lz_la_v_@S a, lz_la_v_@S b) { return b < a; }
LZ_FN lz_la_m_@S operator==(lz_la_v_@S a, lz_la_v_@S b) {
  return -(lz_i@{32|64})(a.number == b.number);
}
LZ_FN lz_la_m_@S operator!=(lz_la_v_@S a, lz_la_v_@S b) {
  return -(lz_i@{32|64})(a.number != b.number);
}
#else
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" // all functions that give vectors are inlined
#endif
typedef lz_@S lz_la_v_@S __attribute__((vector_size(32), aligned(@{4|8}), may_alias));
#endif

//@ lz_la_p_@S [floats]
// Where vectors are.
#ifdef __cplusplus
struct lz_la_p_@S {
  lz_la_v_@S *first;
  int step;
  lz_la_p_@S() {}
  lz_la_p_@S(lz_la_v_@S *from, int distance = 1) : first(from), step(distance) {}
  lz_la_v_@S &operator[](lz_i64 i) const { return first[(int)i * step]; }
  lz_la_v_@S &operator*() const { return *first; }
  lz_la_p_@S operator+(lz_i64 i) const { return lz_la_p_@S(first + (int)i * step, step); }
};
#else
typedef lz_la_v_@S *lz_la_p_@S;
#endif

//@ lz_la_c_@S [floats]
// The same of vectors that are read only.
#ifdef __cplusplus
typedef lz_la_p_@S lz_la_c_@S;
#else
typedef const lz_la_v_@S *lz_la_c_@S;
#endif

//@ lz_la_number_@S [floats]
// The number of one lane in a vector.
LZ_FN lz_@S *lz_la_number_@S(lz_la_p_@S at, lz_i64 i, int lane) {
#ifdef __cplusplus
  return &at[i][lane];
#else
  return (lz_@S *)(at + i) + lane;
#endif
}

//@ lz_la_lanes_@S [floats]
#ifdef __cplusplus
enum { lz_la_lanes_@S = 1 };
#else
enum { lz_la_lanes_@S = @{8|4} };
#endif

//@ lz_la_pick_@S [floats]
// x where a mask is set, else y.
LZ_FN lz_la_v_@S lz_la_pick_@S(lz_la_m_@S mask, lz_la_v_@S x, lz_la_v_@S y) {
  return (lz_la_v_@S)((mask & (lz_la_m_@S)x) | (~mask & (lz_la_m_@S)y));
}

//@ lz_la_flat_@S [floats]
// One number in all lanes.
LZ_FN lz_la_v_@S lz_la_flat_@S(lz_@S x) {
  lz_la_v_@S r;
  for (int l = 0; l < lz_la_lanes_@S; l++) r[l] = x;
  return r;
}

//@ lz_la_size_@S [floats]
// The value without its sign.
LZ_FN lz_la_v_@S lz_la_size_@S(lz_la_v_@S x) {
  const lz_i@{32|64} rest = @{0x7fffffff|0x7fffffffffffffffLL};
  return (lz_la_v_@S)((lz_la_m_@S)x & rest);
}

//@ lz_la_root_@S [floats]
LZ_FN lz_la_v_@S lz_la_root_@S(lz_la_v_@S x) {
  lz_la_v_@S r;
  for (int l = 0; l < lz_la_lanes_@S; l++) r[l] = LZ_SQRT_@N(x[l]);
  return r;
}

//@ lz_la_any_@S [floats]
// Whether a mask is set in any lane.
LZ_FN int lz_la_any_@S(lz_la_m_@S mask) {
  lz_i@{32|64} r = 0;
  for (int l = 0; l < lz_la_lanes_@S; l++) r |= mask[l];
  return r != 0;
}

//@ lz_la_powers_@S [floats]
// Powers of two near 1 / x and x, for sizes x.
LZ_FN void lz_la_powers_@S(lz_la_v_@S x, lz_la_v_@S *down, lz_la_v_@S *up) {
  typedef lz_la_m_@S M;
  const int bits = @{23|52}, top = @{254|2046};
  M e = (M)x >> bits;
  M low = e < 1, high = e > top - 1;
  e = (low & 1) | (~low & ((high & (top - 1)) | (~high & e)));
  *down = (lz_la_v_@S)((top - e) << bits);
  *up = (lz_la_v_@S)(e << bits);
}

//@ lz_la_cholesky_@S [floats]
LZ_STEPS_FN void lz_la_cholesky_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, lz_la_p_@S at) {
  typedef lz_la_v_@S V;
  typedef lz_la_m_@S M;
  lz_la_c_@S a = at;
  lz_la_p_@S x = at + n * n;
  V info = lz_la_flat_@S(0);
  (void)m, (void)k, (void)mode;
  for (lz_i64 i = 0; i < n; i++)
    for (lz_i64 j = 0; j < n; j++) x[i * n + j] = j <= i ? a[i * n + j] : lz_la_flat_@S(0);
  for (lz_i64 j = 0; j < n; j++) {
    M bad = ~(x[j * n + j] > 0) & (info == 0);
    info = lz_la_pick_@S(bad, lz_la_flat_@S(j + 1), info);
    V root = lz_la_root_@S(x[j * n + j]), inverse = 1 / root;
    x[j * n + j] = root;
    for (lz_i64 i = j + 1; i < n; i++) {
      V u = x[i * n + j] * inverse;
      x[i * n + j] = u;
      for (lz_i64 c = j + 1; c <= i; c++) x[i * n + c] -= u * x[c * n + j];
    }
  }
  M failed = info != 0;
  if (lz_la_any_@S(failed))
    for (lz_i64 i = 0; i < n; i++)
      for (lz_i64 j = 0; j <= i; j++)
        x[i * n + j] = lz_la_pick_@S(failed, a[i * n + j], x[i * n + j]);
  x[n * n] = info;
}

//@ lz_la_substitute_@S [floats]
// Substitution in the place of k right sides.
LZ_FN void lz_la_substitute_@S(lz_i64 n, lz_i64 k, lz_la_c_@S a, lz_la_p_@S x, int upper,
                               int unit) {
  typedef lz_la_v_@S V;
  for (lz_i64 step = 0; step < n; step++) {
    const lz_i64 i = upper ? n - 1 - step : step;
    const lz_i64 from = upper ? 0 : i + 1, to = upper ? i : n;
    const V pivot = a[i * n + i];
    lz_la_p_@S mine = x + i * k;
    if (!unit)
      for (lz_i64 c = 0; c < k; c++) mine[c] = mine[c] / pivot;
    for (lz_i64 r = from; r < to; r++) {
      const V u = a[r * n + i];
      for (lz_i64 c = 0; c < k; c++) x[r * k + c] -= u * mine[c];
    }
  }
}

//@ lz_la_triangular_@S [floats]
LZ_STEPS_FN void lz_la_triangular_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, lz_la_p_@S at) {
  lz_la_p_@S b = at + n * n, x = b + n * k;
  (void)m;
  for (lz_i64 i = 0; i < n * k; i++) x[i] = b[i];
  lz_la_substitute_@S(n, k, at, x, mode >= 2, mode % 2);
}

//@ lz_la_exchange_@S [floats]
// Exchanges, in each lane, the numbers of two rows.
LZ_FN void lz_la_exchange_@S(lz_i64 count, lz_la_p_@S a, lz_la_p_@S b, int lane) {
  for (lz_i64 c = 0; c < count; c++) {
    const lz_@S t = *lz_la_number_@S(a, c, lane);
    *lz_la_number_@S(a, c, lane) = *lz_la_number_@S(b, c, lane);
    *lz_la_number_@S(b, c, lane) = t;
  }
}

//@ lz_la_eliminate_@S [floats]
// L and U in the place of a, with its rows exchanged, as those of k numbers of x; `pivots` are the
// rows, from 0, that each column exchanged.
LZ_FN void lz_la_eliminate_@S(lz_i64 m, lz_i64 n, lz_i64 k, lz_la_p_@S a, lz_la_p_@S x,
                              lz_la_p_@S pivots) {
  typedef lz_la_v_@S V;
  typedef lz_la_m_@S M;
  const lz_i64 count = m < n ? m : n;
  for (lz_i64 j = 0; j < count; j++) {
    V best = lz_la_flat_@S(j), largest = lz_la_size_@S(a[j * n + j]);
    for (lz_i64 i = j + 1; i < m; i++) {
      V size = lz_la_size_@S(a[i * n + j]);
      M more = size > largest;
      best = lz_la_pick_@S(more, lz_la_flat_@S(i), best);
      largest = lz_la_pick_@S(more, size, largest);
    }
    pivots[j] = best;
    if (m <= 4)
      for (lz_i64 i = j + 1; i < m; i++) {
        M mine = best == lz_la_flat_@S(i);
        for (lz_i64 c = 0; c < n; c++) {
          V u = a[j * n + c], v = a[i * n + c];
          a[j * n + c] = lz_la_pick_@S(mine, v, u);
          a[i * n + c] = lz_la_pick_@S(mine, u, v);
        }
        for (lz_i64 c = 0; c < k; c++) {
          V u = x[j * k + c], v = x[i * k + c];
          x[j * k + c] = lz_la_pick_@S(mine, v, u);
          x[i * k + c] = lz_la_pick_@S(mine, u, v);
        }
      }
    else
      for (int l = 0; l < lz_la_lanes_@S; l++) {
        const lz_i64 i = (lz_i64)best[l];
        if (i == j) continue;
        lz_la_exchange_@S(n, a + j * n, a + i * n, l);
        lz_la_exchange_@S(k, x + j * k, x + i * k, l);
      }
    const V pivot = a[j * n + j];
    const V divisor = lz_la_pick_@S(pivot == 0, lz_la_flat_@S(1), pivot);
    for (lz_i64 i = j + 1; i < m; i++) {
      const V u = a[i * n + j] / divisor;
      a[i * n + j] = u;
      for (lz_i64 c = j + 1; c < n; c++) a[i * n + c] -= u * a[j * n + c];
    }
  }
}

//@ lz_la_first_zero_@S [floats]
// The number, from 1, of the first zero on the diagonal; 0 for none.
LZ_FN lz_la_v_@S lz_la_first_zero_@S(lz_i64 count, lz_i64 n, lz_la_c_@S a) {
  lz_la_v_@S info = lz_la_flat_@S(0);
  for (lz_i64 j = 0; j < count; j++)
    info = lz_la_pick_@S((a[j * n + j] == 0) & (info == 0), lz_la_flat_@S(j + 1), info);
  return info;
}

//@ lz_la_lu_@S [floats]
LZ_STEPS_FN void lz_la_lu_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, lz_la_p_@S at) {
  const lz_i64 count = m < n ? m : n;
  lz_la_p_@S x = at + m * n, pivots = x + m * n, order = pivots + count;
  (void)k, (void)mode;
  for (lz_i64 i = 0; i < m * n; i++) x[i] = at[i];
  for (lz_i64 i = 0; i < m; i++) order[i] = lz_la_flat_@S(i);
  lz_la_eliminate_@S(m, n, 1, x, order, pivots);
  for (lz_i64 j = 0; j < count; j++) pivots[j] = pivots[j] + 1;
  order[m] = lz_la_first_zero_@S(count, n, x);
}

//@ lz_la_solve_@S [floats]
// With k of 0 the inverse.
LZ_STEPS_FN void lz_la_solve_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, lz_la_p_@S at) {
  typedef lz_la_v_@S V;
  const lz_i64 sides = k ? k : n;
  V rows[32];
  lz_la_p_@S a = at, b = at + n * n, x = b + n * k, pivots = rows;
  (void)m, (void)mode;
  for (lz_i64 i = 0; i < n; i++)
    for (lz_i64 c = 0; c < sides; c++)
      x[i * sides + c] = k ? b[i * k + c] : lz_la_flat_@S(i == c);
  lz_la_eliminate_@S(n, n, sides, a, x, pivots);
  lz_la_substitute_@S(n, sides, a, x, 0, 1);
  lz_la_substitute_@S(n, sides, a, x, 1, 0);
  V info = lz_la_first_zero_@S(n, n, a);
  if (lz_la_any_@S(info != 0))
    for (lz_i64 i = 0; i < n * sides; i++)
      x[i] = lz_la_pick_@S(info != 0, lz_la_flat_@S(LZ_NAN_@N), x[i]);
  x[n * sides] = info;
}

//@ lz_la_inv_@S [floats]
LZ_STEPS_FN void lz_la_inv_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, lz_la_p_@S at) {
  (void)k;
  lz_la_solve_@S(m, n, 0, mode, at);
}

//@ lz_la_pivoted_@S [floats]
// U and L in the place of a; gives the sign of the exchanges.
LZ_FN lz_la_v_@S lz_la_pivoted_@S(lz_i64 n, lz_la_p_@S a) {
  typedef lz_la_v_@S V;
  V rows[32], sign = lz_la_flat_@S(1);
  lz_la_p_@S pivots = rows;
  lz_la_eliminate_@S(n, n, 0, a, a, pivots);
  for (lz_i64 j = 0; j < n; j++)
    sign = lz_la_pick_@S(pivots[j] == lz_la_flat_@S(j), sign, -sign);
  return sign;
}

//@ lz_la_det_@S [floats]
LZ_STEPS_FN void lz_la_det_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, lz_la_p_@S at) {
  lz_la_v_@S size = lz_la_pivoted_@S(n, at);
  (void)m, (void)k, (void)mode;
  for (lz_i64 j = 0; j < n; j++) size = size * at[j * n + j];
  at[n * n] = size;
}

//@ lz_la_slogdet_@S [floats]
LZ_STEPS_FN void lz_la_slogdet_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, lz_la_p_@S at) {
  typedef lz_la_v_@S V;
  V sign = lz_la_pivoted_@S(n, at), size = lz_la_flat_@S(0);
  (void)m, (void)k, (void)mode;
  for (lz_i64 j = 0; j < n; j++) {
    V value = at[j * n + j], logarithm;
    sign = lz_la_pick_@S(value < 0, -sign, sign);
    value = lz_la_size_@S(value);
    for (int l = 0; l < lz_la_lanes_@S; l++) logarithm[l] = lz_log_@S(value[l]);
    size = size + logarithm;
  }
  at[n * n] = lz_la_pick_@S((size == -LZ_INF_@N) | (size != size), lz_la_flat_@S(0), sign);
  at[n * n + 1] = size;
}

//@ lz_la_mirror_@S [floats]
// (1 - tau v v^T) a for `columns` columns of the rows of a, `wide` apart; v, `apart`, begins with a 1
// that is not read.
LZ_FN void lz_la_mirror_@S(lz_i64 rows, lz_i64 columns, lz_i64 wide, lz_la_p_@S a, lz_i64 apart,
                           lz_la_c_@S v, lz_la_v_@S tau) {
  typedef lz_la_v_@S V;
  for (lz_i64 c = 0; c < columns; c++) {
    V w = a[c];
    for (lz_i64 i = 1; i < rows; i++) w = w + v[i * apart] * a[i * wide + c];
    w = w * tau;
    a[c] -= w;
    for (lz_i64 i = 1; i < rows; i++) a[i * wide + c] -= v[i * apart] * w;
  }
}

//@ lz_la_reflect_@S [floats]
// Householder's vectors below R in the place of a, and their factors tau.
LZ_STEPS_FN void lz_la_reflect_@S(lz_i64 m, lz_i64 n, lz_la_p_@S a, lz_la_p_@S taus) {
  typedef lz_la_v_@S V;
  typedef lz_la_m_@S M;
  for (lz_i64 j = 0; j < (m < n ? m : n); j++) {
    V largest = lz_la_flat_@S(0), rest = lz_la_flat_@S(0), down, up;
    lz_la_p_@S x = a + j * n + j;
    for (lz_i64 i = 0; i < m - j; i++) {
      V size = lz_la_size_@S(x[i * n]);
      largest = lz_la_pick_@S(size > largest, size, largest);
    }
    lz_la_powers_@S(largest, &down, &up);
    const V alpha = x[0] * down;
    for (lz_i64 i = 1; i < m - j; i++) {
      const V u = x[i * n] * down;
      x[i * n] = u;
      rest = rest + u * u;
    }
    V length = lz_la_root_@S(alpha * alpha + rest);
    V beta = lz_la_pick_@S((M)alpha < 0, length, -length);
    M none = rest == 0;
    V zero = lz_la_flat_@S(0);
    V divisor = lz_la_pick_@S(none, lz_la_flat_@S(1), alpha - beta);
    taus[j] = lz_la_pick_@S(none, zero, (beta - alpha) / beta);
    x[0] = lz_la_pick_@S(none, x[0], beta * up);
    for (lz_i64 i = 1; i < m - j; i++) x[i * n] = lz_la_pick_@S(none, zero, x[i * n] / divisor);
    lz_la_mirror_@S(m - j, n - j - 1, n, x + 1, n, x, taus[j]);
  }
}

//@ lz_la_orthogonal_@S [floats]
// The first `columns` columns of Q from what `reflect` left of an m by n matrix.
LZ_STEPS_FN void lz_la_orthogonal_@S(lz_i64 m, lz_i64 n, lz_i64 columns, lz_la_c_@S a,
                                    lz_la_c_@S taus, lz_la_p_@S q) {
  for (lz_i64 i = 0; i < m; i++)
    for (lz_i64 c = 0; c < columns; c++) q[i * columns + c] = lz_la_flat_@S(i == c);
  for (lz_i64 j = (m < n ? m : n) - 1; j >= 0; j--) {
    lz_la_c_@S v = a + j * n + j;
    lz_la_p_@S x = q + j * columns + j;
    lz_la_mirror_@S(m - j, columns - j - 1, columns, x + 1, n, v, taus[j]);
    x[0] = 1 - taus[j];
    for (lz_i64 i = 1; i < m - j; i++) x[i * columns] = v[i * n] * -taus[j];
  }
}

//@ lz_la_qr_@S [floats]
LZ_STEPS_FN void lz_la_qr_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, lz_la_p_@S at) {
  const lz_i64 least = m < n ? m : n, columns = mode == 1 ? m : least;
  lz_la_p_@S q = at + m * n, r = q + m * columns, taus = r + columns * n;
  (void)k;
  lz_la_reflect_@S(m, n, at, taus);
  lz_la_orthogonal_@S(m, n, columns, at, taus, q);
  for (lz_i64 i = 0; i < columns; i++)
    for (lz_i64 c = 0; c < n; c++) r[i * n + c] = c >= i ? at[i * n + c] : lz_la_flat_@S(0);
}

//@ lz_la_turn_@S [floats]
// c x - s y and s x + c y in the place of numbers that are `apart`, from the sine and the tangent of
// half of the angle.
LZ_FN void lz_la_turn_@S(lz_i64 count, lz_i64 apart, lz_la_p_@S x, lz_la_p_@S y, lz_la_v_@S s,
                         lz_la_v_@S half) {
  typedef lz_la_v_@S V;
  for (lz_i64 i = 0; i < count; i++) {
    const V u = x[i * apart], v = y[i * apart];
    x[i * apart] = u - s * (v + half * u);
    y[i * apart] = v + s * (u - half * v);
  }
}

//@ lz_la_angle_@S [floats]
// Cosine, sine and tangent of the rotation that makes z of [[x, z], [z, y]] zero.
LZ_FN void lz_la_angle_@S(lz_la_v_@S x, lz_la_v_@S y, lz_la_v_@S z, lz_la_v_@S *cosine,
                          lz_la_v_@S *sine, lz_la_v_@S *tangent) {
  typedef lz_la_v_@S V;
  V theta = (y - x) / (z + z);
  V t = 1 / (lz_la_size_@S(theta) + lz_la_root_@S(theta * theta + 1));
  t = lz_la_pick_@S(theta < 0, -t, t);
  t = lz_la_pick_@S(z == 0, lz_la_flat_@S(0), t);
  V c = 1 / lz_la_root_@S(t * t + 1);
  *cosine = c;
  *sine = t * c;
  *tangent = t;
}

//@ lz_la_large_@S [floats]
// Whether an off-diagonal element, beside elements of at most 2, is not taken as zero.
LZ_FN lz_la_m_@S lz_la_large_@S(lz_la_v_@S x) { return lz_la_size_@S(x) > @{0x1p-28f|0x1p-58}; }

//@ lz_la_sweeps
// Sweeps after which rotations end in any case.
enum { lz_la_sweeps = 40 };

//@ lz_la_scale_@S [floats]
// Numbers below 2 in the place of all; by which power of two they were multiplied the other way, and
// in which lanes all were finite. Others are zero.
LZ_FN lz_la_m_@S lz_la_scale_@S(lz_i64 count, lz_la_p_@S a, lz_la_v_@S *up) {
  typedef lz_la_v_@S V;
  typedef lz_la_m_@S M;
  V largest = lz_la_flat_@S(0), down;
  M finite = largest == largest;
  for (lz_i64 i = 0; i < count; i++) {
    V size = lz_la_size_@S(a[i]);
    finite = finite & (size < LZ_INF_@N);
    largest = lz_la_pick_@S(size > largest, size, largest);
  }
  largest = lz_la_pick_@S(finite, largest, lz_la_flat_@S(0));
  lz_la_powers_@S(largest, &down, up);
  for (lz_i64 i = 0; i < count; i++) a[i] = lz_la_pick_@S(finite, a[i], lz_la_flat_@S(0)) * down;
  return finite;
}

//@ lz_la_rank_@S [floats]
// The place of number i of n, in ascending order or, by sizes, in descending order; equal ones stay
// in theirs.
LZ_FN lz_la_m_@S lz_la_rank_@S(lz_i64 n, lz_i64 i, lz_la_c_@S values) {
  lz_la_m_@S rank = (lz_la_m_@S)lz_la_flat_@S(0);
  for (lz_i64 j = 0; j < n; j++) {
    if (j != i) rank -= values[j] < values[i];
    if (j < i) rank -= values[j] == values[i];
  }
  return rank;
}

//@ lz_la_eigh_@S [floats]
LZ_STEPS_FN void lz_la_eigh_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, lz_la_p_@S at) {
  typedef lz_la_v_@S V;
  typedef lz_la_m_@S M;
  enum { L = lz_la_lanes_@S };
  const int vectors = mode < 2;
  lz_la_p_@S a = at, sorted = at + n * n, found = sorted + n;
  lz_la_p_@S info = found + (vectors ? n * n : 0), v = info + 1, values = v + n * n;
  V up;
  const V zero = lz_la_flat_@S(0), nan = lz_la_flat_@S(LZ_NAN_@N);
  (void)m, (void)k;
  M unknown = zero != zero;
  // Of both triangles rotations see the upper one.
  for (lz_i64 i = 0; i < n; i++)
    for (lz_i64 j = 0; j <= i; j++) {
      const V x = mode % 2 == 0 ? a[i * n + j] : a[j * n + i];
      a[j * n + i] = x;
      if (j < i) a[i * n + j] = zero;
      unknown |= x != x;
    }
  const M finite = lz_la_scale_@S(n * n, a, &up);
  if (vectors)
    for (lz_i64 i = 0; i < n * n; i++) v[i] = lz_la_flat_@S(i % (n + 1) == 0);
  for (int sweep = 0, moved = 1; moved && sweep < lz_la_sweeps; sweep++) {
    moved = 0;
    for (lz_i64 p = 0; p < n - 1; p++)
      for (lz_i64 q = p + 1; q < n; q++) {
        const V apq = a[p * n + q];
        const M turns = lz_la_large_@S(apq);
        if (!lz_la_any_@S(turns)) continue;
        moved = 1;
        V c, s, t;
        lz_la_angle_@S(a[p * n + p], a[q * n + q], apq, &c, &s, &t);
        s = lz_la_pick_@S(turns, s, zero);
        const V half = s / (1 + c), step = lz_la_pick_@S(turns, t, zero) * apq;
        a[p * n + p] -= step;
        a[q * n + q] += step;
        a[p * n + q] = lz_la_pick_@S(turns, zero, apq);
        lz_la_turn_@S(p, n, a + p, a + q, s, half);
        for (lz_i64 r = p + 1; r < q; r++)
          lz_la_turn_@S(1, 1, a + p * n + r, a + r * n + q, s, half);
        lz_la_turn_@S(n - 1 - q, 1, a + p * n + q + 1, a + q * n + q + 1, s, half);
        if (vectors) lz_la_turn_@S(n, 1, v + p * n, v + q * n, s, half);
      }
  }
  for (lz_i64 i = 0; i < n; i++) values[i] = a[i * n + i];
  for (lz_i64 i = 0; i < n; i++) {
    const M rank = lz_la_rank_@S(n, i, values);
    const V mine = lz_la_pick_@S(finite, values[i] * up + zero, nan);
    for (int l = 0; l < L; l++) *lz_la_number_@S(sorted, rank[l], l) = mine[l];
    for (lz_i64 r = 0; vectors && r < n; r++) {
      const V x = lz_la_pick_@S(finite, v[i * n + r] + zero, nan);
      for (int l = 0; l < L; l++) *lz_la_number_@S(found, r * n + rank[l], l) = x[l];
    }
  }
  // LAPACK finds out late: NaN stops the iteration, infinities pass as NaN.
  *info = lz_la_pick_@S(unknown, lz_la_flat_@S(n > 2 ? n - 1 - !vectors : 0), zero);
}

//@ lz_la_both_@S [floats]
// Sines, and tangents of half of the angle, of rotations of rows and of columns that make [[w, x],
// [y, z]] diagonal: one makes it symmetric, then one of both sides.
LZ_FN void lz_la_both_@S(lz_la_v_@S w, lz_la_v_@S x, lz_la_v_@S y, lz_la_v_@S z, lz_la_m_@S turns,
                         lz_la_v_@S *sl, lz_la_v_@S *hl, lz_la_v_@S *sr, lz_la_v_@S *hr) {
  typedef lz_la_v_@S V;
  const V zero = lz_la_flat_@S(0), one = lz_la_flat_@S(1);
  V t = w + z, d = y - x, r = lz_la_root_@S(t * t + d * d);
  r = lz_la_pick_@S(t < 0, -r, r);
  V c1 = lz_la_pick_@S(r == 0, one, t / r), s1 = lz_la_pick_@S(r == 0, zero, d / r), c2, s2, rest;
  lz_la_angle_@S(c1 * w + s1 * y, c1 * z - s1 * x, c1 * x + s1 * z, &c2, &s2, &rest);
  V cl = c1 * c2 + s1 * s2, s = s2 * c1 - c2 * s1;
  V length = (3 - (cl * cl + s * s)) * (lz_@S)0.5;
  *sl = lz_la_pick_@S(turns, s * length, zero);
  *sr = lz_la_pick_@S(turns, s2, zero);
  *hl = *sl / (1 + cl * length);
  *hr = *sr / (1 + c2);
}

//@ lz_la_svd_@S [floats]
LZ_STEPS_FN void lz_la_svd_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, lz_la_p_@S at) {
  typedef lz_la_v_@S V;
  typedef lz_la_m_@S M;
  enum { L = lz_la_lanes_@S };
  const int vectors = mode < 2, wide = m < n;
  const lz_i64 rows = wide ? n : m, columns = wide ? m : n, all = mode == 1 ? rows : columns;
  // Left and right vectors of the matrix with more rows; results in their order.
  lz_la_p_@S a = at, results = at + m * n;
  lz_la_p_@S lefts = results, sorted = results, rights = results, info;
  if (vectors) {
    const lz_i64 first = wide ? columns * columns : rows * all;
    sorted = results + first;
    lefts = wide ? sorted + columns : results;
    rights = wide ? results : sorted + columns;
    info = results + rows * all + columns * columns + columns;
  } else {
    info = results + columns;
  }
  lz_la_p_@S q = info + 1, u = q + rows * columns, b = u + rows * rows;
  lz_la_p_@S v = b + columns * columns, values = v + columns * columns, taus = values + columns;
  V up;
  const V zero = lz_la_flat_@S(0), nan = lz_la_flat_@S(LZ_NAN_@N);
  (void)k;
  const M finite = lz_la_scale_@S(m * n, a, &up);
  for (lz_i64 i = 0; i < rows; i++)
    for (lz_i64 c = 0; c < columns; c++) q[i * columns + c] = wide ? a[c * n + i] : a[i * n + c];
  lz_la_reflect_@S(rows, columns, q, taus);
  for (lz_i64 i = 0; i < columns; i++)
    for (lz_i64 c = 0; c < columns; c++) b[i * columns + c] = c >= i ? q[i * columns + c] : zero;
  if (vectors) {
    // The orthogonal factor is written where the left vectors will be, and turned over.
    lz_la_p_@S whole = results;
    lz_la_orthogonal_@S(rows, columns, all, q, taus, whole);
    for (lz_i64 i = 0; i < rows; i++)
      for (lz_i64 c = 0; c < all; c++) u[c * rows + i] = whole[i * all + c];
    for (lz_i64 i = 0; i < columns * columns; i++) v[i] = lz_la_flat_@S(i % (columns + 1) == 0);
  }
  for (int sweep = 0, moved = 1; moved && sweep < lz_la_sweeps; sweep++) {
    moved = 0;
    for (lz_i64 i = 0; i < columns - 1; i++)
      for (lz_i64 j = i + 1; j < columns; j++) {
        lz_la_p_@S ij = b + i * columns + j, ji = b + j * columns + i;
        const M turns = lz_la_large_@S(*ij) | lz_la_large_@S(*ji);
        if (!lz_la_any_@S(turns)) continue;
        moved = 1;
        V sl, hl, sr, hr;
        lz_la_both_@S(b[i * columns + i], *ij, *ji, b[j * columns + j], turns, &sl, &hl, &sr, &hr);
        lz_la_turn_@S(columns, 1, b + i * columns, b + j * columns, sl, hl);
        lz_la_turn_@S(columns, columns, b + i, b + j, sr, hr);
        *ij = lz_la_pick_@S(turns, zero, *ij);
        *ji = lz_la_pick_@S(turns, zero, *ji);
        if (vectors) {
          lz_la_turn_@S(rows, 1, u + i * rows, u + j * rows, sl, hl);
          lz_la_turn_@S(columns, 1, v + i * columns, v + j * columns, sr, hr);
        }
      }
  }
  for (lz_i64 i = 0; i < columns; i++) values[i] = -lz_la_size_@S(b[i * columns + i]);
  for (lz_i64 i = 0; i < columns; i++) {
    const M rank = lz_la_rank_@S(columns, i, values), negative = b[i * columns + i] < 0;
    const V mine = lz_la_pick_@S(finite, lz_la_size_@S(values[i]) * up, nan);
    for (int l = 0; l < L; l++) *lz_la_number_@S(sorted, rank[l], l) = mine[l];
    for (lz_i64 r = 0; vectors && r < rows; r++) {
      const V x = u[i * rows + r];
      const V y = lz_la_pick_@S(finite, lz_la_pick_@S(negative, zero - x, x + zero), nan);
      // Vectors are rows where the matrix has more columns, else columns.
      for (int l = 0; l < L; l++)
        *lz_la_number_@S(lefts, wide ? rank[l] * rows + r : r * all + rank[l], l) = y[l];
    }
    for (lz_i64 r = 0; vectors && r < columns; r++) {
      const V y = lz_la_pick_@S(finite, v[i * columns + r] + zero, nan);
      for (int l = 0; l < L; l++)
        *lz_la_number_@S(rights, wide ? r * columns + rank[l] : rank[l] * columns + r, l) = y[l];
    }
  }
  for (lz_i64 i = columns; vectors && i < all; i++)
    for (lz_i64 r = 0; r < rows; r++)
      lefts[wide ? i * rows + r : r * all + i] =
          lz_la_pick_@S(finite, u[i * rows + r] + zero, nan);
  *info = lz_la_pick_@S(finite, zero, lz_la_flat_@S(-4));
}

//@ lz_la_load_@S [floats]
// The numbers of `rest` matrices, the last one in the lanes that are left.
LZ_FN void lz_la_load_@S(lz_i64 count, lz_i64 rest, const lz_@S *from, lz_la_v_@S *to) {
  enum { L = lz_la_lanes_@S };
  lz_@S *at = (lz_@S *)to;
  for (int l = 0; l < L; l++) {
    const lz_@S *x = from + (l < rest ? l : rest - 1) * count;
    for (lz_i64 i = 0; i < count; i++) at[i * L + l] = x[i];
  }
}

//@ lz_la_store_@S [floats]
LZ_FN void lz_la_store_@S(lz_i64 count, lz_i64 rest, const lz_la_v_@S *from, lz_@S *to) {
  enum { L = lz_la_lanes_@S };
  const lz_@S *at = (const lz_@S *)from;
  for (int l = 0; l < rest; l++)
    for (lz_i64 i = 0; i < count; i++) to[l * count + i] = at[i * L + l];
}

//@ lz_la_routine_@S [floats]
typedef void (*lz_la_routine_@S)(lz_i64 m, lz_i64 n, lz_i64 k, int mode, lz_la_p_@S at);

//@ lz_la_batch_@S [floats]
// A routine on `batch` matrices m by n, and n by k (or none), `results` numbers each, with `scratch`
// more. `work` has room for all numbers of as many blocks as run at a time.
LZ_LONG_FN void lz_la_batch_@S(lz_la_routine_@S routine, lz_i64 batch, lz_i64 m, lz_i64 n, lz_i64 k,
                               int mode, lz_i64 results, lz_i64 scratch, const lz_@S *a,
                               const lz_@S *b, lz_@S *y, lz_@S *work, int threads) {
  enum { L = lz_la_lanes_@S, MOST = 16 };
  const lz_i64 first = m * n, second = n * k, size = first + second + results + scratch;
  const lz_i64 blocks = (batch + L - 1) / L, parts = blocks < MOST ? blocks : (lz_i64)MOST;
#pragma omp parallel for num_threads(threads) if(threads > 1) schedule(dynamic, 1)
  for (lz_i64 t = 0; t < parts; t++) {
    lz_la_v_@S *at = (lz_la_v_@S *)(work + t * size * L);
    for (lz_i64 i = t * blocks / parts; i < (t + 1) * blocks / parts; i++) {
      const lz_i64 start = i * L, rest = batch - start < L ? batch - start : (lz_i64)L;
      lz_la_load_@S(first, rest, a + start * first, at);
      if (second) lz_la_load_@S(second, rest, b + start * second, at + first);
      routine(m, n, k, mode, at);
      lz_la_store_@S(results, rest, at + first + second, y + start * results);
    }
  }
}

//@ lz_la_fetch_@S [floats]
// On a GPU: the numbers of one matrix to where a thread has them.
#ifdef __cplusplus
LZ_FN void lz_la_fetch_@S(lz_i64 count, const lz_@S *from, lz_la_p_@S to) {
  for (int i = 0; i < count; i++) to[i] = from[i];
}
#endif

//@ lz_la_leave_@S [floats]
// And its results from there.
#ifdef __cplusplus
LZ_FN void lz_la_leave_@S(lz_i64 count, lz_la_c_@S from, lz_@S *to) {
  for (int i = 0; i < count; i++) to[i] = *lz_la_number_@S(from, i, 0);
}
#endif

//@ lz_la_strided_@S [floats]
// Numbers in memory that are `distance` apart.
LZ_FN lz_la_p_@S lz_la_strided_@S(lz_@S *from, int distance) {
#ifdef __cplusplus
  return lz_la_p_@S((lz_la_v_@S *)from, distance);
#else
  (void)distance;
  return (lz_la_p_@S)from;
#endif
}
