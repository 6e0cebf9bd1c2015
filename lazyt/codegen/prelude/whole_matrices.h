// Factorizations of matrices with more rows than `matrices.h` takes: one matrix at a time, vectors
// along its rows. Each element sees the same steps in the same order as there, and as in
// `ir/factorizations/evaluation.py`: blocks only decide when. Panels of 16 columns are factorized
// by columns, which then lie in memory one after the other; what is right of them and below takes
// its 16 steps at once, in registers. Products are rounded before they are added.
//
// Matrices are copied to rows that are filled up to whole vectors. What stands in the filling is
// computed along and never read.

//@ lz_lw_v_@S [floats]
typedef lz_@S lz_lw_v_@S __attribute__((vector_size(64), aligned(@{4|8}), may_alias));

//@ lz_lw_m_@S [floats]
typedef lz_i@{32|64} lz_lw_m_@S __attribute__((vector_size(64), aligned(@{4|8}), may_alias));

//@ lz_lw_lanes_@S [floats]
enum { lz_lw_lanes_@S = @{16|8} };

//@ lz_lw_panel
// Columns that are factorized together.
enum { lz_lw_panel = 16 };

//@ lz_lw_wide_@S [floats]
// The elements of a row of n with its filling.
LZ_FN lz_i64 lz_lw_wide_@S(lz_i64 n) {
  const lz_i64 lanes = lz_lw_lanes_@S;
  return (n + lanes - 1) / lanes * lanes;
}

//@ lz_lw_tile
// A function that takes from MANY rows of c, from column `first` to before `last`, WIDE vectors at a
// time, the products of `deep` columns of left and rows of right, one after the other.
#define lz_lw_tile(NAME, T, V, L, MANY, WIDE)                                                    \
  LZ_LONG_FN void NAME(lz_i64 first, lz_i64 last, lz_i64 deep, const T *left, lz_i64 apart,      \
                       lz_i64 step, const T *right, lz_i64 down, T *c, lz_i64 ld) {              \
    for (lz_i64 at = first; at < last; at += WIDE * L) {                                         \
      V s[MANY * WIDE];                                                                          \
      for (int i = 0; i < MANY * WIDE; i++)                                                      \
        s[i] = *(const V *)(c + i / WIDE * ld + at + i % WIDE * L);                              \
      const T *x = left, *y = right + at;                                                        \
      for (lz_i64 j = 0; j < deep; j++, x += step, y += down)                                    \
        for (int i = 0; i < MANY * WIDE; i++)                                                    \
          s[i] -= *(const V *)(y + i % WIDE * L) * x[i / WIDE * apart];                          \
      for (int i = 0; i < MANY * WIDE; i++)                                                      \
        *(V *)(c + i / WIDE * ld + at + i % WIDE * L) = s[i];                                    \
    }                                                                                            \
  }

//@ lz_lw_six_@S [floats]
lz_lw_tile(lz_lw_six_@S, lz_@S, lz_lw_v_@S, lz_lw_lanes_@S, 6, 1)

//@ lz_lw_four_@S [floats]
lz_lw_tile(lz_lw_four_@S, lz_@S, lz_lw_v_@S, lz_lw_lanes_@S, 1, 4)

//@ lz_lw_one_@S [floats]
lz_lw_tile(lz_lw_one_@S, lz_@S, lz_lw_v_@S, lz_lw_lanes_@S, 1, 1)

//@ lz_lw_row_@S [floats]
// The same for one row of any length.
LZ_FN void lz_lw_row_@S(lz_i64 columns, lz_i64 deep, const lz_@S *left, lz_i64 step,
                        const lz_@S *right, lz_i64 down, lz_@S *c) {
  const lz_i64 wide = 4 * lz_lw_lanes_@S, most = columns / wide * wide;
  lz_lw_four_@S(0, most, deep, left, 0, step, right, down, c, 0);
  lz_lw_one_@S(most, columns, deep, left, 0, step, right, down, c, 0);
}

//@ lz_lw_some_@S [floats]
// The same for up to six rows of a block from row i; with `lower` only up to its diagonal.
LZ_FN void lz_lw_some_@S(lz_i64 i, lz_i64 rows, lz_i64 columns, lz_i64 deep, const lz_@S *left,
                         lz_i64 apart, lz_i64 step, const lz_@S *right, lz_i64 down, lz_@S *c,
                         lz_i64 ld, int lower) {
  const lz_i64 last = lower && i + 6 < columns ? i + 6 : columns;
  if (i + 6 <= rows)
    lz_lw_six_@S(0, last, deep, left + i * apart, apart, step, right, down, c + i * ld, ld);
  else
    for (lz_i64 r = i; r < rows; r++)
      lz_lw_row_@S(last, deep, left + r * apart, step, right, down, c + r * ld);
}

//@ lz_lw_update_@S [floats]
// The same for a whole block.
LZ_LONG_FN void lz_lw_update_@S(lz_i64 rows, lz_i64 columns, lz_i64 deep, const lz_@S *left,
                                lz_i64 apart, lz_i64 step, const lz_@S *right, lz_i64 down,
                                lz_@S *c, lz_i64 ld, int lower, int threads) {
  if (threads == 1 || rows * columns * deep < 1 << 21) {
    for (lz_i64 i = 0; i < rows; i += 6)
      lz_lw_some_@S(i, rows, columns, deep, left, apart, step, right, down, c, ld, lower);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4)
  for (lz_i64 i = 0; i < rows; i += 6)
    lz_lw_some_@S(i, rows, columns, deep, left, apart, step, right, down, c, ld, lower);
}

//@ lz_lw_copy_@S [floats]
// Rows of n elements in rows of ld.
LZ_FN void lz_lw_copy_@S(lz_i64 rows, lz_i64 n, const lz_@S *from, lz_@S *to, lz_i64 ld) {
  for (lz_i64 i = 0; i < rows; i++) {
    for (lz_i64 c = 0; c < n; c++) to[i * ld + c] = from[i * n + c];
    for (lz_i64 c = n; c < ld; c++) to[i * ld + c] = 0;
  }
}

//@ lz_lw_give_@S [floats]
// The same the other way.
LZ_FN void lz_lw_give_@S(lz_i64 rows, lz_i64 n, const lz_@S *from, lz_i64 ld, lz_@S *to) {
  for (lz_i64 i = 0; i < rows; i++)
    for (lz_i64 c = 0; c < n; c++) to[i * n + c] = from[i * ld + c];
}

//@ lz_lw_take_@S [floats]
// Columns of a panel one after the other, `tall` apart, with zeros behind them.
LZ_LONG_FN void lz_lw_take_@S(lz_i64 rows, lz_i64 columns, const lz_@S *x, lz_i64 ld, lz_@S *panel,
                              lz_i64 tall) {
  for (lz_i64 i = 0; i < rows; i++)
    for (lz_i64 c = 0; c < columns; c++) panel[c * tall + i] = x[i * ld + c];
  const lz_i64 end = rows + lz_lw_panel < tall ? rows + lz_lw_panel : tall;
  for (lz_i64 c = 0; c < columns; c++)
    for (lz_i64 i = rows; i < end; i++) panel[c * tall + i] = 0;
}

//@ lz_lw_cholesky_@S [floats]
LZ_LONG_FN void lz_lw_cholesky_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a,
                                  const lz_@S *b, lz_@S *y, lz_@S *work, int threads) {
  const lz_i64 ld = lz_lw_wide_@S(n), tall = ld + lz_lw_panel;
  lz_@S *x = work, *panel = x + n * ld, info = 0;
  (void)m, (void)k, (void)mode, (void)b;
  lz_lw_copy_@S(n, n, a, x, ld);
  for (lz_i64 s = 0; s < n; s += lz_lw_panel) {
    const lz_i64 rows = n - s, p = rows < lz_lw_panel ? rows : (lz_i64)lz_lw_panel;
    lz_@S *here = x + s * ld + s;
    lz_lw_take_@S(rows, p, here, ld, panel, tall);
    for (lz_i64 j = 0; j < p; j++) {
      lz_@S *mine = panel + j * tall;
      if (!(mine[j] > 0) && info == 0) info = (lz_@S)(s + j + 1);
      const lz_@S root = LZ_SQRT_@N(mine[j]), inverse = 1 / root;
      mine[j] = root;
#pragma omp simd
      for (lz_i64 i = j + 1; i < rows; i++) mine[i] *= inverse;
      for (lz_i64 c = j + 1; c < p; c++) {
        lz_@S *other = panel + c * tall;
        const lz_@S u = mine[c];
#pragma omp simd
        for (lz_i64 i = c; i < rows; i++) other[i] -= mine[i] * u;
      }
    }
    for (lz_i64 i = 0; i < rows; i++)
      for (lz_i64 c = 0; c < (i + 1 < p ? i + 1 : p); c++) here[i * ld + c] = panel[c * tall + i];
    lz_lw_update_@S(rows - p, rows - p, p, panel + p, 1, tall, panel + p, tall, here + p * ld + p,
                    ld, 1, threads);
  }
  const lz_@S *found = info == 0 ? x : a;
  const lz_i64 pitch = info == 0 ? ld : n;
  for (lz_i64 i = 0; i < n; i++)
    for (lz_i64 c = 0; c < n; c++) y[i * n + c] = c <= i ? found[i * pitch + c] : 0;
  y[n * n] = info;
}

//@ lz_lw_over_@S [floats]
// A row divided by a number.
LZ_FN void lz_lw_over_@S(lz_i64 count, lz_@S *x, lz_@S pivot) {
#pragma omp simd
  for (lz_i64 c = 0; c < count; c++) x[c] /= pivot;
}

//@ lz_lw_substitute_@S [floats]
// Substitution in the place of right sides in rows of `kd`; rows of a are `ld` apart.
LZ_LONG_FN void lz_lw_substitute_@S(lz_i64 n, lz_i64 kd, const lz_@S *a, lz_i64 ld, lz_@S *x,
                                    int upper, int unit, int threads) {
  for (lz_i64 done = 0; done < n; done += lz_lw_panel) {
    const lz_i64 p = n - done < lz_lw_panel ? n - done : (lz_i64)lz_lw_panel;
    // Steps go from the first row of a block, or from its last.
    const lz_i64 first = upper ? n - 1 - done : done, way = upper ? -1 : 1;
    const lz_@S *corner = a + first * ld + first;
    lz_@S *top = x + first * kd;
    for (lz_i64 i = 0; i < p; i++) {
      lz_@S *mine = top + way * i * kd;
      lz_lw_row_@S(kd, i, corner + way * i * ld, way, top, way * kd, mine);
      if (!unit) lz_lw_over_@S(kd, mine, corner[way * i * (ld + 1)]);
    }
    const lz_i64 rest = n - done - p, start = upper ? 0 : done + p;
    lz_lw_update_@S(rest, kd, p, a + start * ld + first, ld, way, top, way * kd, x + start * kd, kd,
                    0, threads);
  }
}

//@ lz_lw_triangular_@S [floats]
LZ_LONG_FN void lz_lw_triangular_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a,
                                    const lz_@S *b, lz_@S *y, lz_@S *work, int threads) {
  const lz_i64 kd = lz_lw_wide_@S(k);
  (void)m;
  lz_lw_copy_@S(n, k, b, work, kd);
  lz_lw_substitute_@S(n, kd, a, n, work, mode >= 2, mode % 2, threads);
  lz_lw_give_@S(n, k, work, kd, y);
}

//@ lz_lw_largest_@S [floats]
// Where the largest of `count` sizes is first, the first one where that is NaN. Behind them stand
// zeros, a vector of them.
LZ_LONG_FN lz_i64 lz_lw_largest_@S(lz_i64 count, const lz_@S *x) {
  enum { L = lz_lw_lanes_@S };
  const lz_i@{32|64} rest = @{0x7fffffff|0x7fffffffffffffffLL};
  const lz_@S start = x[0] < 0 ? -x[0] : x[0];
  if (!(start >= 0)) return 0;
  lz_lw_v_@S most = {0};
  most = most + start;
  for (lz_i64 i = 0; i < count; i += L) {
    const lz_lw_v_@S size = (lz_lw_v_@S)(*(const lz_lw_m_@S *)(x + i) & rest);
    const lz_lw_m_@S more = size > most;
    most = (lz_lw_v_@S)((more & (lz_lw_m_@S)size) | (~more & (lz_lw_m_@S)most));
  }
  lz_@S found = start;
  for (int l = 0; l < L; l++) found = most[l] > found ? most[l] : found;
  if (found == start) return 0;
  lz_i64 at = 1;
  while (x[at] != found && x[at] != -found) at++;
  return at;
}

//@ lz_lw_exchange_@S [floats]
LZ_FN void lz_lw_exchange_@S(lz_i64 count, lz_@S *x, lz_@S *y) {
  for (lz_i64 c = 0; c < count; c++) {
    const lz_@S t = x[c];
    x[c] = y[c];
    y[c] = t;
  }
}

//@ lz_lw_eliminate_@S [floats]
// L and U in the place of an m by n matrix in rows of ld, its rows exchanged, as those of `kd`
// elements of `others`; `pivots` are the rows, from 0, that each column exchanged.
LZ_LONG_FN void lz_lw_eliminate_@S(lz_i64 m, lz_i64 n, lz_i64 kd, lz_@S *x, lz_i64 ld,
                                   lz_@S *others, lz_i64 *pivots, lz_@S *panel, int threads) {
  const lz_i64 tall = lz_lw_wide_@S(m) + lz_lw_panel, count = m < n ? m : n;
  for (lz_i64 s = 0; s < count; s += lz_lw_panel) {
    const lz_i64 rows = m - s, p = count - s < lz_lw_panel ? count - s : (lz_i64)lz_lw_panel;
    lz_@S *here = x + s * ld + s;
    lz_lw_take_@S(rows, p, here, ld, panel, tall);
    for (lz_i64 j = 0; j < p; j++) {
      lz_@S *mine = panel + j * tall;
      const lz_i64 best = j + lz_lw_largest_@S(rows - j, mine + j);
      pivots[s + j] = s + best;
      for (lz_i64 c = 0; best != j && c < p; c++)
        lz_lw_exchange_@S(1, panel + c * tall + j, panel + c * tall + best);
      const lz_@S divisor = mine[j] == 0 ? 1 : mine[j];
      lz_lw_over_@S(rows - j - 1, mine + j + 1, divisor);
      for (lz_i64 c = j + 1; c < p; c++) {
        lz_@S *other = panel + c * tall;
        const lz_@S u = other[j];
#pragma omp simd
        for (lz_i64 i = j + 1; i < rows; i++) other[i] -= mine[i] * u;
      }
    }
    for (lz_i64 j = s; j < s + p; j++) {
      const lz_i64 best = pivots[j];
      if (best == j) continue;
      lz_lw_exchange_@S(ld, x + j * ld, x + best * ld);
      lz_lw_exchange_@S(kd, others + j * kd, others + best * kd);
    }
    for (lz_i64 i = 0; i < rows; i++)
      for (lz_i64 c = 0; c < p; c++) here[i * ld + c] = panel[c * tall + i];
    const lz_i64 right = n - s - p;
    for (lz_i64 i = 1; i < p; i++)
      lz_lw_row_@S(right, i, panel + i, tall, here + p, ld, here + i * ld + p);
    lz_lw_update_@S(rows - p, right, p, panel + p, 1, tall, here + p, ld, here + p * ld + p, ld, 0,
                    threads);
  }
}

//@ lz_lw_first_zero_@S [floats]
// The number, from 1, of the first zero on the diagonal; 0 for none.
LZ_FN lz_@S lz_lw_first_zero_@S(lz_i64 count, lz_i64 ld, const lz_@S *x) {
  for (lz_i64 j = 0; j < count; j++)
    if (x[j * ld + j] == 0) return (lz_@S)(j + 1);
  return 0;
}

//@ lz_lw_most
// Rows and columns of a matrix.
enum { lz_lw_most = 1024 };

//@ lz_lw_lu_@S [floats]
LZ_LONG_FN void lz_lw_lu_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a, const lz_@S *b,
                            lz_@S *y, lz_@S *work, int threads) {
  // The last panel of a wide matrix may end inside of a vector: the rest has more filling.
  const lz_i64 ld = lz_lw_wide_@S(m < n ? n + lz_lw_lanes_@S : n), count = m < n ? m : n;
  lz_i64 pivots[lz_lw_most];
  lz_@S *given = y + m * n, *order = given + count;
  (void)k, (void)mode, (void)b;
  lz_lw_copy_@S(m, n, a, work, ld);
  for (lz_i64 i = 0; i < m; i++) order[i] = (lz_@S)i;
  lz_lw_eliminate_@S(m, n, 1, work, ld, order, pivots, work + m * ld, threads);
  lz_lw_give_@S(m, n, work, ld, y);
  for (lz_i64 j = 0; j < count; j++) given[j] = (lz_@S)(pivots[j] + 1);
  order[m] = lz_lw_first_zero_@S(count, ld, work);
}

//@ lz_lw_solve_@S [floats]
// With k of 0 the inverse.
LZ_LONG_FN void lz_lw_solve_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a,
                               const lz_@S *b, lz_@S *y, lz_@S *work, int threads) {
  const lz_i64 ld = lz_lw_wide_@S(n), sides = k ? k : n, kd = lz_lw_wide_@S(sides);
  lz_i64 pivots[lz_lw_most];
  lz_@S *x = work + n * ld;
  (void)m, (void)mode;
  lz_lw_copy_@S(n, n, a, work, ld);
  if (k)
    lz_lw_copy_@S(n, k, b, x, kd);
  else
    for (lz_i64 i = 0; i < n; i++)
      for (lz_i64 c = 0; c < kd; c++) x[i * kd + c] = i == c;
  lz_lw_eliminate_@S(n, n, kd, work, ld, x, pivots, x + n * kd, threads);
  lz_lw_substitute_@S(n, kd, work, ld, x, 0, 1, threads);
  lz_lw_substitute_@S(n, kd, work, ld, x, 1, 0, threads);
  const lz_@S info = lz_lw_first_zero_@S(n, ld, work);
  lz_lw_give_@S(n, sides, x, kd, y);
  if (info != 0)
    for (lz_i64 i = 0; i < n * sides; i++) y[i] = LZ_NAN_@N;
  y[n * sides] = info;
}

//@ lz_lw_inv_@S [floats]
LZ_LONG_FN void lz_lw_inv_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a, const lz_@S *b,
                             lz_@S *y, lz_@S *work, int threads) {
  (void)k;
  lz_lw_solve_@S(m, n, 0, mode, a, b, y, work, threads);
}

//@ lz_lw_pivoted_@S [floats]
// U and L in `work`; gives the sign of the exchanges.
LZ_LONG_FN lz_@S lz_lw_pivoted_@S(lz_i64 n, const lz_@S *a, lz_@S *work, int threads) {
  const lz_i64 ld = lz_lw_wide_@S(n);
  lz_i64 pivots[lz_lw_most];
  lz_@S sign = 1;
  lz_lw_copy_@S(n, n, a, work, ld);
  lz_lw_eliminate_@S(n, n, 0, work, ld, work, pivots, work + n * ld, threads);
  for (lz_i64 j = 0; j < n; j++) sign = pivots[j] == j ? sign : -sign;
  return sign;
}

//@ lz_lw_det_@S [floats]
LZ_LONG_FN void lz_lw_det_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a, const lz_@S *b,
                             lz_@S *y, lz_@S *work, int threads) {
  const lz_i64 ld = lz_lw_wide_@S(n);
  lz_@S size = lz_lw_pivoted_@S(n, a, work, threads);
  (void)m, (void)k, (void)mode, (void)b;
  for (lz_i64 j = 0; j < n; j++) size = size * work[j * ld + j];
  y[0] = size;
}

//@ lz_lw_slogdet_@S [floats]
LZ_LONG_FN void lz_lw_slogdet_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a,
                                 const lz_@S *b, lz_@S *y, lz_@S *work, int threads) {
  const lz_i64 ld = lz_lw_wide_@S(n);
  lz_@S sign = lz_lw_pivoted_@S(n, a, work, threads), size = 0;
  (void)m, (void)k, (void)mode, (void)b;
  for (lz_i64 j = 0; j < n; j++) {
    const lz_@S value = work[j * ld + j];
    sign = value < 0 ? -sign : sign;
    size = size + lz_log_@S(value < 0 ? -value : value);
  }
  y[0] = size == -LZ_INF_@N || size != size ? 0 : sign;
  y[1] = size;
}

//@ lz_lw_routine_@S [floats]
typedef void (*lz_lw_routine_@S)(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a,
                                 const lz_@S *b, lz_@S *y, lz_@S *work, int threads);

//@ lz_lw_batch_@S [floats]
// A routine on `batch` matrices m by n, and m by k (or none), `results` numbers each, with `scratch`
// of each that is computed at a time. Threads share the matrices, or one of them where there are few.
LZ_LONG_FN void lz_lw_batch_@S(lz_lw_routine_@S routine, lz_i64 batch, lz_i64 m, lz_i64 n, lz_i64 k,
                               int mode, lz_i64 results, lz_i64 scratch, const lz_@S *a,
                               const lz_@S *b, lz_@S *y, lz_@S *work, int threads) {
  enum { MOST = 16 };
  const lz_i64 parts = batch < MOST ? batch : (lz_i64)MOST;
  if (threads == 1 || batch < threads) {
    for (lz_i64 i = 0; i < batch; i++)
      routine(m, n, k, mode, a + i * m * n, b + i * m * k, y + i * results, work, threads);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (lz_i64 t = 0; t < parts; t++)
    for (lz_i64 i = t * batch / parts; i < (t + 1) * batch / parts; i++)
      routine(m, n, k, mode, a + i * m * n, b + i * m * k, y + i * results, work + t * scratch, 1);
}
