// Householder's reflections of matrices with more rows than `matrices.h` takes, laid out as in
// `whole_matrices.h`. Each element sees the same steps in the same order as there. Reflections of 16
// columns are made in a panel, then go over strips of the other columns one after the other: while
// one changes a strip, the sums of the next are taken. So a strip stays in the nearest cache, and is
// read and written once for each reflection.
//
// The vectors of a panel stand in rows of 16, from the row of its first one. The 1 that each begins
// with, and what is above it, is not read.

//@ lz_lw_strips
// A function that applies `count` reflections to `rows` rows of WIDE vectors; with `back` from the
// last to the first.
#define lz_lw_strips(NAME, T, V, L, WIDE)                                                        \
  LZ_LONG_FN void NAME(lz_i64 rows, lz_i64 count, int back, const T *v, const T *taus, T *c,     \
                       lz_i64 ld) {                                                              \
    V w[WIDE], next[WIDE];                                                                       \
    lz_i64 j = back ? count - 1 : 0;                                                             \
    for (int q = 0; q < WIDE; q++) w[q] = *(const V *)(c + j * ld + q * L);                      \
    for (lz_i64 i = j + 1; i < rows; i++)                                                        \
      for (int q = 0; q < WIDE; q++)                                                             \
        w[q] = w[q] + *(const V *)(c + i * ld + q * L) * v[i * lz_lw_panel + j];                 \
    for (lz_i64 done = 1; done < count; done++) {                                                \
      const lz_i64 to = back ? j - 1 : j + 1, from = back ? j + 1 : j + 2;                       \
      for (int q = 0; q < WIDE; q++) {                                                           \
        V top = *(const V *)(c + j * ld + q * L), other = *(const V *)(c + to * ld + q * L);     \
        w[q] = w[q] * taus[j];                                                                   \
        top = top - w[q];                                                                        \
        if (!back) other = other - w[q] * v[to * lz_lw_panel + j];                               \
        next[q] = other;                                                                         \
        if (back) next[q] = next[q] + top * v[j * lz_lw_panel + to];                             \
        *(V *)(c + j * ld + q * L) = top;                                                        \
        *(V *)(c + to * ld + q * L) = other;                                                     \
      }                                                                                          \
      for (lz_i64 i = from; i < rows; i++) {                                                     \
        const T mine = v[i * lz_lw_panel + j], other = v[i * lz_lw_panel + to];                  \
        for (int q = 0; q < WIDE; q++) {                                                         \
          const V x = *(const V *)(c + i * ld + q * L) - w[q] * mine;                            \
          *(V *)(c + i * ld + q * L) = x;                                                        \
          next[q] = next[q] + x * other;                                                         \
        }                                                                                        \
      }                                                                                          \
      for (int q = 0; q < WIDE; q++) w[q] = next[q];                                             \
      j = to;                                                                                    \
    }                                                                                            \
    for (int q = 0; q < WIDE; q++) {                                                             \
      w[q] = w[q] * taus[j];                                                                     \
      *(V *)(c + j * ld + q * L) -= w[q];                                                        \
    }                                                                                            \
    for (lz_i64 i = j + 1; i < rows; i++)                                                        \
      for (int q = 0; q < WIDE; q++)                                                             \
        *(V *)(c + i * ld + q * L) -= w[q] * v[i * lz_lw_panel + j];                             \
  }

//@ lz_lw_strip_@S [floats]
lz_lw_strips(lz_lw_strip_@S, lz_@S, lz_lw_v_@S, lz_lw_lanes_@S, 2)

//@ lz_lw_thin_@S [floats]
lz_lw_strips(lz_lw_thin_@S, lz_@S, lz_lw_v_@S, lz_lw_lanes_@S, 1)

//@ lz_lw_apply_@S [floats]
// The same for any number of columns, filled up to whole vectors.
LZ_LONG_FN void lz_lw_apply_@S(lz_i64 rows, lz_i64 columns, lz_i64 count, int back, const lz_@S *v,
                               const lz_@S *taus, lz_@S *c, lz_i64 ld, int threads) {
  const lz_i64 wide = 2 * lz_lw_lanes_@S, strips = columns / wide;
  if (threads == 1 || rows * columns * count < 1 << 19)
    for (lz_i64 s = 0; s < strips; s++)
      lz_lw_strip_@S(rows, count, back, v, taus, c + s * wide, ld);
  else {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (lz_i64 s = 0; s < strips; s++)
      lz_lw_strip_@S(rows, count, back, v, taus, c + s * wide, ld);
  }
  for (lz_i64 at = strips * wide; at < columns; at += lz_lw_lanes_@S)
    lz_lw_thin_@S(rows, count, back, v, taus, c + at, ld);
}

//@ lz_lw_powers_@S [floats]
// Powers of two near 1 / x and x, for a size x.
LZ_FN void lz_lw_powers_@S(lz_@S x, lz_@S *down, lz_@S *up) {
  const int bits = @{23|52};
  const lz_@U top = @{254|2046}, exponent = lz_pattern_@S(x) >> bits;
  const lz_@U e = exponent < 1 ? 1 : exponent > top - 1 ? top - 1 : exponent;
  *down = lz_from_pattern_@S((top - e) << bits);
  *up = lz_from_pattern_@S(e << bits);
}

//@ lz_lw_greatest_@S [floats]
// The largest of `count` sizes, of those that are numbers; behind them stands a vector of zeros.
LZ_LONG_FN lz_@S lz_lw_greatest_@S(lz_i64 count, const lz_@S *x) {
  enum { L = lz_lw_lanes_@S };
  const lz_i@{32|64} rest = @{0x7fffffff|0x7fffffffffffffffLL};
  lz_lw_v_@S most = {0};
  for (lz_i64 i = 0; i < count; i += L) {
    const lz_lw_v_@S size = (lz_lw_v_@S)(*(const lz_lw_m_@S *)(x + i) & rest);
    const lz_lw_m_@S more = size > most;
    most = (lz_lw_v_@S)((more & (lz_lw_m_@S)size) | (~more & (lz_lw_m_@S)most));
  }
  lz_@S found = 0;
  for (int l = 0; l < L; l++) found = most[l] > found ? most[l] : found;
  return found;
}

//@ lz_lw_vector_@S [floats]
// The vector that mirrors x, a column of `count` elements, onto its first one, in the place of the
// others; gives tau, and the first one in `head`. Behind x stands a vector of zeros.
LZ_LONG_FN lz_@S lz_lw_vector_@S(lz_i64 count, lz_@S *x, lz_@S *head) {
  lz_@S down, up, rest = 0;
  lz_lw_powers_@S(lz_lw_greatest_@S(count, x), &down, &up);
  const lz_@S alpha = x[0] * down;
#pragma omp simd
  for (lz_i64 i = 1; i < count; i++) x[i] = x[i] * down;
  for (lz_i64 i = 1; i < count; i++) rest = rest + x[i] * x[i];
  const lz_@S length = LZ_SQRT_@N(alpha * alpha + rest);
  const lz_@S beta = lz_pattern_@S(alpha) >> @{31|63} ? length : -length;
  if (rest == 0) {
    *head = x[0];
    for (lz_i64 i = 1; i < count; i++) x[i] = 0;
    return 0;
  }
  *head = beta * up;
  lz_lw_over_@S(count - 1, x + 1, alpha - beta);
  return (beta - alpha) / beta;
}

//@ lz_lw_column_@S [floats]
// A column of `count` elements, `apart`, with a vector of zeros behind it.
LZ_FN void lz_lw_column_@S(lz_i64 count, const lz_@S *from, lz_i64 apart, lz_@S *to) {
  for (lz_i64 i = 0; i < count; i++) to[i] = from[i * apart];
  for (lz_i64 i = count; i < count + lz_lw_lanes_@S; i++) to[i] = 0;
}

//@ lz_lw_panel_@S [floats]
// R of a panel in its place, the vectors of its first p columns in v.
LZ_LONG_FN void lz_lw_panel_@S(lz_i64 rows, lz_i64 p, lz_@S *x, lz_i64 ld, lz_@S *v, lz_@S *taus,
                               lz_@S *column) {
  enum { L = lz_lw_lanes_@S, W = lz_lw_panel / L };
  for (lz_i64 j = 0; j < p; j++) {
    lz_@S *top = x + j * ld;
    lz_lw_column_@S(rows - j, top + j, ld, column);
    const lz_@S tau = lz_lw_vector_@S(rows - j, column, top + j);
    taus[j] = tau;
    for (lz_i64 i = j + 1; i < rows; i++) v[i * lz_lw_panel + j] = column[i - j];
    lz_lw_v_@S w[W];
    for (int q = 0; q < W; q++) w[q] = *(const lz_lw_v_@S *)(top + q * L);
    for (lz_i64 i = j + 1; i < rows; i++)
      for (int q = 0; q < W; q++)
        w[q] = w[q] + *(const lz_lw_v_@S *)(x + i * ld + q * L) * column[i - j];
    // Columns that are done stay.
    for (int q = 0; q < W; q++)
      for (int l = 0; l < L; l++) w[q][l] = q * L + l > j ? w[q][l] * tau : 0;
    for (int q = 0; q < W; q++) *(lz_lw_v_@S *)(top + q * L) -= w[q];
    for (lz_i64 i = j + 1; i < rows; i++)
      for (int q = 0; q < W; q++)
        *(lz_lw_v_@S *)(x + i * ld + q * L) -= w[q] * column[i - j];
  }
}

//@ lz_lw_reflect_@S [floats]
// R in the place of an m by n matrix in rows of ld, above its diagonal, and reflections: v has a
// block of m rows of 16 for each panel.
LZ_LONG_FN void lz_lw_reflect_@S(lz_i64 m, lz_i64 n, lz_@S *x, lz_i64 ld, lz_@S *v, lz_@S *taus,
                                 lz_@S *column, int threads) {
  const lz_i64 count = m < n ? m : n, P = lz_lw_panel;
  for (lz_i64 s = 0; s < count; s += P, v += m * P) {
    const lz_i64 p = count - s < P ? count - s : P;
    lz_lw_panel_@S(m - s, p, x + s * ld + s, ld, v, taus + s, column);
    if (s + P < ld)
      lz_lw_apply_@S(m - s, ld - s - P, p, 0, v, taus + s, x + s * ld + s + P, ld, threads);
  }
}

//@ lz_lw_orthogonal_@S [floats]
// The first ld columns of Q from `count` reflections of m rows.
LZ_LONG_FN void lz_lw_orthogonal_@S(lz_i64 m, lz_i64 count, const lz_@S *v, const lz_@S *taus,
                                    lz_@S *x, lz_i64 ld, int threads) {
  const lz_i64 P = lz_lw_panel;
  for (lz_i64 i = 0; i < m; i++)
    for (lz_i64 c = 0; c < ld; c++) x[i * ld + c] = i == c;
  for (lz_i64 s = (count - 1) / P * P; s >= 0; s -= P) {
    const lz_i64 p = count - s < P ? count - s : P, rows = m - s;
    const lz_@S *mine = v + s * m;
    lz_@S *here = x + s * ld + s;
    if (s + P < ld)
      lz_lw_apply_@S(rows, ld - s - P, p, 1, mine, taus + s, here + P, ld, threads);
    // Of the panel's columns those from its reflection on; what others get is not read.
    for (lz_i64 j = p - 1; j >= 0; j--) {
      const lz_@S tau = taus[s + j], other = -tau;
      lz_lw_apply_@S(rows - j, P, 1, 0, mine + j * P + j, &tau, here + j * ld, ld, 1);
      here[j * ld + j] = 1 - tau;
      for (lz_i64 i = j + 1; i < rows; i++) here[i * ld + j] = mine[i * P + j] * other;
    }
  }
}

//@ lz_lw_qr_@S [floats]
LZ_LONG_FN void lz_lw_qr_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a, const lz_@S *b,
                            lz_@S *y, lz_@S *work, int threads) {
  const lz_i64 least = m < n ? m : n, columns = mode == 1 ? m : least, P = lz_lw_panel;
  // Panels are whole vectors of a row, also the last one.
  const lz_i64 ld = (n + P - 1) / P * P, down = (columns + P - 1) / P * P;
  lz_@S *v = work + m * ld, *q = v + m * ((least + P - 1) / P * P), *taus = q + m * down;
  lz_@S *column = taus + least, *r = y + m * columns;
  (void)k, (void)b;
  lz_lw_copy_@S(m, n, a, work, ld);
  lz_lw_reflect_@S(m, n, work, ld, v, taus, column, threads);
  lz_lw_orthogonal_@S(m, least, v, taus, q, down, threads);
  lz_lw_give_@S(m, columns, q, down, y);
  for (lz_i64 i = 0; i < columns; i++)
    for (lz_i64 c = 0; c < n; c++) r[i * n + c] = c >= i ? work[i * ld + c] : 0;
}
