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
  for (lz_i64 s = (count + P - 1) / P * P - P; s >= 0; s -= P) {
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

//@ lz_lw_mirror_@S [floats]
// One reflection of rows of `columns` elements, filled up to whole vectors; v begins with a 1 that
// is not read. Of what is below the first row gives the sums of squares, unless `squares` is none.
LZ_LONG_FN void lz_lw_mirror_@S(lz_i64 rows, lz_i64 columns, const lz_@S *v, lz_@S tau, lz_@S *c,
                                lz_i64 ld, lz_@S *squares) {
  typedef lz_lw_v_@S V;
  for (lz_i64 at = 0; at < columns; at += lz_lw_lanes_@S) {
    V *top = (V *)(c + at);
    V w = *top, sum = {0};
    for (lz_i64 i = 1; i < rows; i++) w = w + *(const V *)(c + i * ld + at) * v[i];
    w = w * tau;
    *top -= w;
    for (lz_i64 i = 1; i < rows; i++) {
      V *here = (V *)(c + i * ld + at);
      const V x = *here - w * v[i];
      *here = x;
      sum = sum + x * x;
    }
    if (squares) *(V *)(squares + at) = sum;
  }
}

//@ lz_lw_scaled_@S [floats]
// Numbers below 2 in rows of ld, and the power of two by which they were multiplied; 0 where one is
// not finite.
LZ_LONG_FN lz_@S lz_lw_scaled_@S(lz_i64 rows, lz_i64 n, lz_@S *x, lz_i64 ld, lz_@S *up) {
  lz_@S largest = 0, down;
  int finite = 1;
  for (lz_i64 i = 0; i < rows; i++)
    for (lz_i64 c = 0; c < n; c++) {
      const lz_@S size = x[i * ld + c] < 0 ? -x[i * ld + c] : x[i * ld + c];
      finite &= size < LZ_INF_@N;
      largest = size > largest ? size : largest;
    }
  if (!finite) return 0;
  lz_lw_powers_@S(largest, &down, up);
  for (lz_i64 i = 0; i < rows; i++)
    for (lz_i64 c = 0; c < ld; c++) x[i * ld + c] *= down;
  return down;
}

//@ lz_lw_least_@S [floats]
// The solution of smallest norm of `rank` equations of n unknowns, in the place of the right sides:
// x is upper trapezoidal.
LZ_LONG_FN void lz_lw_least_@S(lz_i64 rank, lz_i64 n, const lz_@S *x, lz_i64 ld, lz_@S *sides,
                               lz_i64 kd, lz_@S *work, int threads) {
  const lz_i64 P = lz_lw_panel, pitch = (rank + P - 1) / P * P;
  lz_@S *turned = work, *v = turned + n * pitch, *lower = v + n * pitch;
  lz_@S *taus = lower + rank * pitch, *column = taus + rank;
  for (lz_i64 i = 0; i < n; i++)
    for (lz_i64 c = 0; c < pitch; c++)
      turned[i * pitch + c] = c < rank && c <= i ? x[c * ld + i] : 0;
  lz_lw_reflect_@S(n, rank, turned, pitch, v, taus, column, threads);
  for (lz_i64 i = 0; i < rank; i++)
    for (lz_i64 c = 0; c <= i; c++) lower[i * pitch + c] = turned[c * pitch + i];
  lz_lw_substitute_@S(rank, kd, lower, pitch, sides, 0, 0, threads);
  for (lz_i64 i = rank * kd; i < n * kd; i++) sides[i] = 0;
  for (lz_i64 s = (rank - 1) / P * P; s >= 0; s -= P) {
    const lz_i64 p = rank - s < P ? rank - s : P;
    lz_lw_apply_@S(n - s, kd, p, 1, v + s * n, taus + s, sides + s * kd, kd, threads);
  }
}

//@ lz_lw_gelsy_@S [floats]
// Least squares by reflections with exchanges of columns; the last right side is the tolerance.
LZ_LONG_FN void lz_lw_gelsy_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a,
                               const lz_@S *b, lz_@S *y, lz_@S *work, int threads) {
  enum { L = lz_lw_lanes_@S };
  const lz_i64 count = m < n ? m : n, most = m > n ? m : n, sides = k - 1;
  const lz_i64 ld = lz_lw_wide_@S(n), kd = lz_lw_wide_@S(sides);
  lz_@S *x = work, *right = x + m * ld, *squares = right + most * kd, *column = squares + ld;
  lz_@S *rest = column + m + L, up = 1, first = 0;
  lz_i64 order[lz_lw_most], rank = 0;
  (void)mode;
  lz_lw_copy_@S(m, n, a, x, ld);
  for (lz_i64 i = 0; i < m; i++)
    for (lz_i64 c = 0; c < kd; c++) right[i * kd + c] = c < sides ? b[i * k + c] : 0;
  const lz_@S down = lz_lw_scaled_@S(m, n, x, ld, &up);
  if (down == 0) {
    for (lz_i64 i = 0; i < n * sides; i++) y[i] = LZ_NAN_@N;
    y[n * sides] = 0;
    return;
  }
  for (lz_i64 c = 0; c < ld; c++) squares[c] = 0;
  for (lz_i64 i = 0; i < m; i++)
    for (lz_i64 c = 0; c < ld; c++) squares[c] = squares[c] + x[i * ld + c] * x[i * ld + c];
  for (lz_i64 c = 0; c < n; c++) order[c] = c;
  for (; rank < count; rank++) {
    const lz_i64 j = rank;
    lz_i64 best = j;
    for (lz_i64 c = j + 1; c < n; c++) best = squares[c] > squares[best] ? c : best;
    lz_@S *top = x + j * ld;
    if (best != j) {
      const lz_i64 moved = order[j];
      order[j] = order[best], order[best] = moved;
      for (lz_i64 i = 0; i < m; i++) lz_lw_exchange_@S(1, x + i * ld + j, x + i * ld + best);
    }
    lz_@S head;
    lz_lw_column_@S(m - j, top + j, ld, column);
    const lz_@S tau = lz_lw_vector_@S(m - j, column, &head), size = head < 0 ? -head : head;
    if (j == 0) first = size;
    if (!(size > b[k - 1] * first)) break;
    // Columns that are done change from this row on, but are not read there.
    const lz_i64 start = (j + 1) / L * L;
    if (start < ld) lz_lw_mirror_@S(m - j, ld - start, column, tau, top + start, ld, squares + start);
    top[j] = head;
    lz_lw_mirror_@S(m - j, kd, column, tau, right + j * kd, kd, 0);
  }
  if (rank == n)
    lz_lw_substitute_@S(n, kd, x, ld, right, 1, 0, threads);
  else if (rank)
    lz_lw_least_@S(rank, n, x, ld, right, kd, rest, threads);
  for (lz_i64 i = 0; i < n; i++)
    for (lz_i64 c = 0; c < sides; c++)
      y[order[i] * sides + c] = rank ? right[i * kd + c] * down : 0;
  y[n * sides] = (lz_@S)rank;
}
