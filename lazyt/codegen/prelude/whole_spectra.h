// Eigenvalues and singular values of matrices with more rows than `matrices.h` takes, laid out as in
// `whole_matrices.h`: reflections make a matrix tridiagonal or bidiagonal, then rotations make it
// diagonal. `ir/factorizations/spectra.py` has the same steps in the same order. Of two passes over a
// matrix that follow each other one is made, strip by strip; the rotations of many sweeps wait until
// a strip of the vectors sees all of them.

//@ lz_lw_small_@S [floats]
// Whether an off-diagonal element, beside elements of at most 2, is taken as zero.
LZ_FN int lz_lw_small_@S(lz_@S x) {
  const lz_@S limit = @{0x1p-28f|0x1p-58};
  return x <= limit && x >= -limit;
}

//@ lz_lw_couples_@S [floats]
// Whether what stands beside two elements of a diagonal counts, in `units` of what is not seen.
LZ_FN int lz_lw_couples_@S(lz_@S x, lz_@S first, lz_@S second, lz_@S units) {
  const lz_@S unit = units * @{0x1p-24f|0x1p-53}, one = first < 0 ? -first : first;
  const lz_@S limit = (one + (second < 0 ? -second : second)) * unit;
  return !lz_lw_small_@S(x) && (x > limit || x < -limit);
}

//@ lz_lw_length_@S [floats]
// The root of x x + y y; squares of small ones would not be exact.
LZ_FN lz_@S lz_lw_length_@S(lz_@S x, lz_@S y) {
  const lz_@S low = @{0x1p-40f|0x1p-400}, up = @{0x1p80f|0x1p600}, down = @{0x1p-80f|0x1p-600};
  if (x < low && x > -low && y < low && y > -low) {
    x = x * up;
    y = y * up;
    return LZ_SQRT_@N(x * x + y * y) * down;
  }
  return LZ_SQRT_@N(x * x + y * y);
}

//@ lz_lw_waiting
// How many sweeps of rotations wait.
enum { lz_lw_waiting = 16 };

//@ lz_lw_rotations_@S [floats]
// Rotations that wait: of each sweep the first row, how many, one up or down after the other, and
// their cosines and sines from where the last sweep ends.
typedef struct {
  lz_i64 sweeps, used, first[lz_lw_waiting], count[lz_lw_waiting];
  lz_@S *cosines, *sines;
} lz_lw_rotations_@S;

//@ lz_lw_rotate_@S [floats]
// Applies them to one strip of rows of ld. A sweep goes down the rows by `way` from its first one:
// rows x and y, the next one, become c x + s y and c y - s x; y is then the next x.
LZ_LONG_FN void lz_lw_rotate_@S(const lz_lw_rotations_@S *all, int way, lz_@S *z, lz_i64 ld) {
  typedef lz_lw_v_@S V;
  enum { L = lz_lw_lanes_@S };
  const lz_@S *c = all->cosines, *s = all->sines;
  for (lz_i64 sweep = 0; sweep < all->sweeps; sweep++) {
    lz_@S *at = z + all->first[sweep] * ld;
    V x = *(const V *)at, u = *(const V *)(at + L);
    for (lz_i64 i = 0; i < all->count[sweep]; i++, at += way * ld) {
      const lz_@S *next = at + way * ld;
      const V y = *(const V *)next, v = *(const V *)(next + L);
      *(V *)at = x * *c + y * *s;
      *(V *)(at + L) = u * *c + v * *s;
      x = y * *c - x * *s;
      u = v * *c - u * *s;
      c++, s++;
    }
    *(V *)at = x;
    *(V *)(at + L) = u;
  }
}

//@ lz_lw_flush_@S [floats]
// Applies them to all rows, which are whole pairs of vectors.
LZ_LONG_FN void lz_lw_flush_@S(lz_lw_rotations_@S *all, int way, lz_@S *z, lz_i64 ld, int threads) {
  const lz_i64 wide = 2 * lz_lw_lanes_@S, strips = ld / wide;
  if (threads == 1 || ld * all->used < 1 << 18)
    for (lz_i64 t = 0; t < strips; t++) lz_lw_rotate_@S(all, way, z + t * wide, ld);
  else {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (lz_i64 t = 0; t < strips; t++) lz_lw_rotate_@S(all, way, z + t * wide, ld);
  }
  all->sweeps = all->used = 0;
}

//@ lz_lw_both_sides_@S [floats]
// One pass of `tridiagonal`, over rows and columns from `from` on: takes v w + w v from each element,
// unless v is none, and gives the sums of next times rows, which begin with a 1 at `from`.
LZ_LONG_FN void lz_lw_both_sides_@S(lz_i64 from, lz_i64 n, const lz_@S *v, const lz_@S *w,
                                    const lz_@S *next, lz_@S *x, lz_i64 ld, lz_@S *sums) {
  typedef lz_lw_v_@S V;
  enum { L = lz_lw_lanes_@S };
  for (lz_i64 at = from / L * L; at < ld; at += L) {
    const V mine = *(const V *)(v + at), other = *(const V *)(w + at);
    V *top = (V *)(x + from * ld + at);
    V sum = *top - (other * v[from] + mine * w[from]);
    *top = sum;
    for (lz_i64 i = from + 1; i < n; i++) {
      V *here = (V *)(x + i * ld + at);
      const V y = *here - (other * v[i] + mine * w[i]);
      *here = y;
      sum = sum + y * next[i];
    }
    *(V *)(sums + at) = sum;
  }
}

//@ lz_lw_tridiagonal_@S [floats]
// The diagonal and what is beside it of a symmetric matrix, and the reflections of all rows after the
// first: v in blocks of n - 1 rows for each 16 of them.
LZ_LONG_FN void lz_lw_tridiagonal_@S(lz_i64 n, lz_@S *x, lz_i64 ld, lz_@S *d, lz_@S *e, lz_@S *v,
                                     lz_@S *taus, lz_@S *work) {
  const lz_i64 P = lz_lw_panel;
  lz_@S *now = work, *next = now + ld, *w = next + ld, *row = w + ld, *column = row + ld;
  for (lz_i64 c = 0; c < ld; c++) now[c] = w[c] = 0, row[c] = x[c];
  for (lz_i64 j = 0; j < n - 2; j++) {
    const lz_i64 from = j + 1, rows = n - from;
    d[j] = row[j];
    lz_lw_column_@S(rows, row + from, 1, column);
    const lz_@S tau = taus[j] = lz_lw_vector_@S(rows, column, e + j);
    lz_@S *mine = v + j / P * P * (n - 1) + j % P;
    for (lz_i64 c = 0; c < from; c++) next[c] = 0;
    next[from] = 1;
    for (lz_i64 i = 1; i < rows; i++) next[from + i] = mine[(j % P + i) * P] = column[i];
    for (lz_i64 c = n; c < ld; c++) next[c] = 0;
    lz_lw_both_sides_@S(from, n, now, w, next, x, ld, row);
    lz_@S size = 0;
    for (lz_i64 c = from; c < n; c++) row[c] = row[c] * tau;
    for (lz_i64 c = from; c < n; c++) size = size + row[c] * next[c];
    size = size * (tau * (lz_@S)0.5);
    for (lz_i64 c = 0; c < ld; c++) w[c] = c >= from && c < n ? row[c] - next[c] * size : 0;
    for (lz_i64 c = from; c < n; c++)
      row[c] = x[from * ld + c] - (w[c] * next[from] + next[c] * w[from]);
    lz_@S *other = now;
    now = next, next = other;
  }
  d[n - 2] = row[n - 2], e[n - 2] = row[n - 1];
  d[n - 1] = x[(n - 1) * (ld + 1)] - (w[n - 1] * now[n - 1] + now[n - 1] * w[n - 1]);
}

//@ lz_lw_ql_@S [floats]
// Eigenvalues of a tridiagonal matrix in d; e has room for one more. Rotates rows of z, unless it is
// none. Gives whether all were found.
LZ_LONG_FN int lz_lw_ql_@S(lz_i64 n, lz_@S *d, lz_@S *e, lz_@S *z, lz_i64 ld, lz_@S *work,
                           int threads) {
  lz_lw_rotations_@S all;
  all.sweeps = all.used = 0;
  all.cosines = work, all.sines = work + lz_lw_waiting * n;
  int found = 1;
  e[n - 1] = 0;
  for (lz_i64 l = 0; l < n; l++)
    for (int tries = 0;; tries++) {
      lz_i64 m = l;
      while (m < n - 1 && lz_lw_couples_@S(e[m], d[m], d[m + 1], 1)) m++;
      if (m == l) break;
      if (tries == 60) {
        found = 0;
        break;
      }
      lz_@S g = (d[l + 1] - d[l]) / (e[l] + e[l]), r = lz_lw_length_@S(g, 1);
      g = d[m] - d[l] + e[l] / (g + (g < 0 ? -r : r));
      lz_@S s = 1, c = 1, p = 0, *cosines = all.cosines + all.used, *sines = all.sines + all.used;
      lz_i64 i = m - 1;
      for (; i >= l; i--) {
        const lz_@S f = s * e[i], b = c * e[i];
        r = lz_lw_length_@S(f, g);
        e[i + 1] = r;
        if (r == 0) break;
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + (c + c) * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        cosines[m - 1 - i] = c, sines[m - 1 - i] = s;
      }
      const lz_i64 done = m - 1 - i;
      if (i >= l) {
        d[i + 1] = d[i + 1] - p;
      } else {
        d[l] = d[l] - p;
        e[l] = g;
      }
      e[m] = 0;
      if (z && done) {
        all.first[all.sweeps] = m;
        all.count[all.sweeps++] = done;
        all.used += done;
        if (all.sweeps == lz_lw_waiting) lz_lw_flush_@S(&all, -1, z, ld, threads);
      }
    }
  if (z) lz_lw_flush_@S(&all, -1, z, ld, threads);
  return found;
}

//@ lz_lw_order_@S [floats]
// The numbers of n values in ascending order; equal ones stay in theirs.
LZ_LONG_FN void lz_lw_order_@S(lz_i64 n, const lz_@S *values, lz_i64 *order) {
  for (lz_i64 i = 0; i < n; i++) {
    lz_i64 rank = 0;
    for (lz_i64 j = 0; j < i; j++) rank += values[j] <= values[i];
    for (lz_i64 j = i + 1; j < n; j++) rank += values[j] < values[i];
    order[rank] = i;
  }
}

//@ lz_lw_eigh_@S [floats]
LZ_LONG_FN void lz_lw_eigh_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a, const lz_@S *b,
                              lz_@S *y, lz_@S *work, int threads) {
  const int vectors = mode < 2, upper = mode % 2;
  const lz_i64 wide = 2 * lz_lw_lanes_@S, P = lz_lw_panel;
  const lz_i64 ld = lz_lw_wide_@S(n), zd = (n + wide - 1) / wide * wide, qd = (n + P - 1) / P * P;
  lz_@S *x = work, *v = x + n * ld, *q = v + n * qd, *z = q + n * qd, *d = z + n * zd, *e = d + n;
  lz_@S *taus = e + n, *rest = taus + n, *found = y + n, up;
  lz_@S *info = found + (vectors ? n * n : 0);
  lz_i64 order[lz_lw_most];
  int unknown = 0;
  (void)m, (void)k, (void)b;
  for (lz_i64 i = 0; i < n; i++) {
    for (lz_i64 c = 0; c <= i; c++) {
      const lz_@S one = upper ? a[c * n + i] : a[i * n + c];
      x[i * ld + c] = x[c * ld + i] = one;
      unknown |= one != one;
    }
    for (lz_i64 c = n; c < ld; c++) x[i * ld + c] = 0;
  }
  // LAPACK finds out late: NaN stops the iteration, infinities pass as NaN.
  *info = unknown ? (lz_@S)(n - 1 - !vectors) : 0;
  if (lz_lw_scaled_@S(n, n, x, ld, &up) == 0) {
    for (lz_@S *p = y; p < info; p++) *p = LZ_NAN_@N;
    return;
  }
  if (n > 1)
    lz_lw_tridiagonal_@S(n, x, ld, d, e, v, taus, rest);
  else
    d[0] = x[0];
  if (vectors) {
    lz_lw_orthogonal_@S(n - 1, n - 2, v, taus, q, qd, threads);
    for (lz_i64 i = 0; i < n; i++)
      for (lz_i64 c = 0; c < zd; c++)
        z[i * zd + c] = i && c && c < n ? q[(c - 1) * qd + i - 1] : i == c;
  }
  if (!lz_lw_ql_@S(n, d, e, vectors ? z : 0, zd, rest, threads)) *info = 1;
  lz_lw_order_@S(n, d, order);
  for (lz_i64 i = 0; i < n; i++) y[i] = d[order[i]] * up + 0;
  for (lz_i64 r = 0; vectors && r < n; r++)
    for (lz_i64 i = 0; i < n; i++) found[r * n + i] = z[order[i] * zd + r] + 0;
}

//@ lz_lw_folded_@S [floats]
// The sum of products of two rows from column `from`, a multiple of 16, in 16 sums that are folded by
// halves.
LZ_FN lz_@S lz_lw_folded_@S(lz_i64 from, lz_i64 ld, const lz_@S *x, const lz_@S *y) {
  enum { L = lz_lw_lanes_@S, W = lz_lw_panel / L };
  lz_lw_v_@S s[W] = {{0}};
  for (lz_i64 c = from; c < ld; c += lz_lw_panel)
    for (int q = 0; q < W; q++)
      s[q] = s[q] + *(const lz_lw_v_@S *)(x + c + q * L) * *(const lz_lw_v_@S *)(y + c + q * L);
  lz_@S all[lz_lw_panel];
  for (int l = 0; l < lz_lw_panel; l++) all[l] = s[l / L][l % L];
  for (int half = lz_lw_panel / 2; half; half /= 2)
    for (int l = 0; l < half; l++) all[l] = all[l] + all[l + half];
  return all[0];
}

//@ lz_lw_sums_@S [floats]
// The sums of v times rows, which begin with a 1, of columns from `from` on.
LZ_LONG_FN void lz_lw_sums_@S(lz_i64 rows, lz_i64 from, lz_i64 ld, const lz_@S *v, const lz_@S *x,
                              lz_@S *sums) {
  typedef lz_lw_v_@S V;
  enum { L = lz_lw_lanes_@S };
  lz_i64 at = from;
  for (; at + 4 * L <= ld; at += 4 * L) {
    V s[4];
    for (int q = 0; q < 4; q++) s[q] = *(const V *)(x + at + q * L);
    for (lz_i64 i = 1; i < rows; i++)
      for (int q = 0; q < 4; q++) s[q] = s[q] + *(const V *)(x + i * ld + at + q * L) * v[i];
    for (int q = 0; q < 4; q++) *(V *)(sums + at + q * L) = s[q];
  }
  for (; at < ld; at += L) {
    V s = *(const V *)(x + at);
    for (lz_i64 i = 1; i < rows; i++) s = s + *(const V *)(x + i * ld + at) * v[i];
    *(V *)(sums + at) = s;
  }
}

//@ lz_lw_bidiagonal_@S [floats]
// The diagonal of an m by n matrix, with rows of whole panels and not more columns than rows, and
// what is right of it; the reflections of its rows, u, and of its columns after the first, v.
LZ_LONG_FN void lz_lw_bidiagonal_@S(lz_i64 m, lz_i64 n, lz_@S *x, lz_i64 ld, lz_@S *d, lz_@S *e,
                                    lz_@S *u, lz_@S *tu, lz_@S *v, lz_@S *tv, lz_@S *work) {
  enum { P = lz_lw_panel };
  lz_@S *w = work, *right = w + ld, *column = right + ld, *other = column + m + lz_lw_lanes_@S;
  for (lz_i64 j = 0; j < n; j++) {
    const lz_i64 from = (j + 1) / P * P, rows = m - j, next = n - j - 1;
    lz_@S *top = x + j * ld;
    lz_lw_column_@S(rows, top + j, ld, column);
    const lz_@S tau = tu[j] = lz_lw_vector_@S(rows, column, d + j);
    lz_@S *mine = u + j / P * P * m + j % P;
    for (lz_i64 i = 1; i < rows; i++) mine[(j % P + i) * P] = column[i];
    if (!next) return;
    lz_lw_sums_@S(rows, from, ld, column, top, w);
    for (lz_i64 c = from; c < ld; c++) w[c] = c > j ? w[c] * tau : 0;
    for (lz_i64 c = from; c < ld; c++) top[c] = top[c] - w[c];
    lz_lw_column_@S(next, top + j + 1, 1, other);
    const lz_@S turn = tv[j] = lz_lw_vector_@S(next, other, e + j);
    mine = v + j / P * P * (n - 1) + j % P;
    for (lz_i64 i = 1; i < next; i++) mine[(j % P + i) * P] = other[i];
    for (lz_i64 c = from; c < ld; c++)
      right[c] = c <= j || c >= n ? 0 : c == j + 1 ? 1 : other[c - j - 1];
    for (lz_i64 i = 1; i < rows; i++) {
      lz_@S *here = top + i * ld;
      for (lz_i64 c = from; c < ld; c++) here[c] = here[c] - w[c] * column[i];
      const lz_@S sum = lz_lw_folded_@S(from, ld, here, right) * turn;
      for (lz_i64 c = from; c < ld; c++) here[c] = here[c] - right[c] * sum;
    }
  }
}

//@ lz_lw_wait_@S [floats]
// Where the cosines of a sweep from a row on are written, which then wait.
LZ_FN void lz_lw_wait_@S(lz_lw_rotations_@S *all, lz_i64 first, lz_i64 count) {
  all->first[all->sweeps] = first;
  all->count[all->sweeps++] = count;
  all->used += count;
}

//@ lz_lw_qr_steps_@S [floats]
// Singular values of a bidiagonal matrix in d, with signs; e[i] is left of d[i]. Rotates rows of u
// and of v, unless they are none. Gives whether all were found.
LZ_LONG_FN int lz_lw_qr_steps_@S(lz_i64 n, lz_@S *d, lz_@S *e, lz_@S *u, lz_i64 ud, lz_@S *v,
                                 lz_i64 vd, lz_@S *work, int threads) {
  lz_lw_rotations_@S lefts, rights;
  lefts.sweeps = lefts.used = rights.sweeps = rights.used = 0;
  lefts.cosines = work, lefts.sines = work + lz_lw_waiting * n;
  rights.cosines = lefts.sines + lz_lw_waiting * n;
  rights.sines = rights.cosines + lz_lw_waiting * n;
  int found = 1;
  for (lz_i64 k = n - 1; k >= 0; k--)
    for (int tries = 0;; tries++) {
      lz_i64 l = k;
      while (l > 0 && lz_lw_couples_@S(e[l], d[l - 1], d[l], 8) && !lz_lw_small_@S(d[l - 1])) l--;
      if (l > 0 && lz_lw_couples_@S(e[l], d[l - 1], d[l], 8)) {
        // A zero before row l: its row is rotated away.
        lz_@S c = 0, s = 1;
        if (u) lz_lw_flush_@S(&lefts, 1, u, ud, threads);
        for (lz_i64 i = l; i <= k; i++) {
          const lz_@S f = s * e[i], g = d[i];
          e[i] = c * e[i];
          if (lz_lw_small_@S(f)) break;
          const lz_@S h = lz_lw_length_@S(f, g);
          d[i] = h;
          c = g / h;
          s = -(f / h);
          for (lz_i64 r = 0; u && r < ud; r++) {
            const lz_@S y = u[(l - 1) * ud + r], z = u[i * ud + r];
            u[(l - 1) * ud + r] = y * c + z * s;
            u[i * ud + r] = z * c - y * s;
          }
        }
      }
      if (l == k) break;
      if (tries == 60) {
        found = 0;
        break;
      }
      lz_@S x = d[l], y = d[k - 1], z = d[k], g = e[k - 1], h = e[k];
      if (k - 1 == l) g = 0;
      lz_@S f = ((y - z) * (y + z) + (g - h) * (g + h)) / ((h + h) * y);
      g = lz_lw_length_@S(f, 1);
      f = ((x - z) * (x + z) + h * (y / (f + (f < 0 ? -g : g)) - h)) / x;
      lz_@S c = 1, s = 1, *rc = rights.cosines + rights.used, *rs = rights.sines + rights.used;
      lz_@S *lc = lefts.cosines + lefts.used, *ls = lefts.sines + lefts.used;
      for (lz_i64 j = l; j < k; j++) {
        g = e[j + 1];
        y = d[j + 1];
        h = s * g;
        g = c * g;
        z = lz_lw_length_@S(f, h);
        e[j] = z;
        c = z == 0 ? 1 : f / z;
        s = z == 0 ? 0 : h / z;
        rc[j - l] = c, rs[j - l] = s;
        f = x * c + g * s;
        g = g * c - x * s;
        h = y * s;
        y = y * c;
        z = lz_lw_length_@S(f, h);
        d[j] = z;
        c = z == 0 ? 1 : f / z;
        s = z == 0 ? 0 : h / z;
        lc[j - l] = c, ls[j - l] = s;
        f = c * g + s * y;
        x = c * y - s * g;
      }
      e[l] = 0;
      e[k] = f;
      d[k] = x;
      if (!u) continue;
      lz_lw_wait_@S(&lefts, l, k - l);
      lz_lw_wait_@S(&rights, l, k - l);
      if (lefts.sweeps == lz_lw_waiting) lz_lw_flush_@S(&lefts, 1, u, ud, threads);
      if (rights.sweeps == lz_lw_waiting) lz_lw_flush_@S(&rights, 1, v, vd, threads);
    }
  if (u) {
    lz_lw_flush_@S(&lefts, 1, u, ud, threads);
    lz_lw_flush_@S(&rights, 1, v, vd, threads);
  }
  return found;
}

//@ lz_lw_svd_@S [floats]
LZ_LONG_FN void lz_lw_svd_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a, const lz_@S *b,
                             lz_@S *y, lz_@S *work, int threads) {
  const int vectors = mode < 2, turned = m < n;
  const lz_i64 rows = turned ? n : m, columns = turned ? m : n, all = mode == 1 ? rows : columns;
  const lz_i64 wide = 2 * lz_lw_lanes_@S, P = lz_lw_panel;
  const lz_i64 ld = (columns + P - 1) / P * P, qd = (all + P - 1) / P * P;
  const lz_i64 ud = (rows + wide - 1) / wide * wide, vd = (columns + wide - 1) / wide * wide;
  lz_@S *x = work, *u = x + rows * ld, *v = u + rows * ld, *q = v + columns * ld;
  lz_@S *lefts = q + rows * qd, *rights = lefts + all * ud, *d = rights + columns * vd;
  lz_@S *e = d + columns, *tu = e + columns + 1, *tv = tu + columns, *rest = tv + columns, up;
  // Results: the left vectors of the matrix as it is given, values, right ones.
  const lz_i64 first = !vectors ? 0 : turned ? columns * columns : rows * all;
  lz_@S *values = y + first, *other = values + columns;
  lz_@S *info = y + (vectors ? rows * all + columns * columns : 0) + columns;
  lz_i64 order[lz_lw_most];
  (void)k, (void)b;
  for (lz_i64 i = 0; i < rows; i++)
    for (lz_i64 c = 0; c < ld; c++)
      x[i * ld + c] = c >= columns ? 0 : turned ? a[c * n + i] : a[i * n + c];
  *info = 0;
  if (lz_lw_scaled_@S(rows, columns, x, ld, &up) == 0) {
    for (lz_@S *p = y; p < info; p++) *p = LZ_NAN_@N;
    *info = -4;
    return;
  }
  lz_lw_bidiagonal_@S(rows, columns, x, ld, d, e + 1, u, tu, v, tv, rest);
  e[0] = 0;
  if (vectors) {
    lz_lw_orthogonal_@S(rows, columns, u, tu, q, qd, threads);
    for (lz_i64 i = 0; i < all; i++)
      for (lz_i64 r = 0; r < ud; r++) lefts[i * ud + r] = r < rows ? q[r * qd + i] : 0;
    if (columns > 1)
      lz_lw_orthogonal_@S(columns - 1, columns - 1, v, tv, q, ld, threads);
    for (lz_i64 i = 0; i < columns; i++)
      for (lz_i64 r = 0; r < vd; r++)
        rights[i * vd + r] = i && r && r < columns ? q[(r - 1) * ld + i - 1] : i == r;
  }
  if (!lz_lw_qr_steps_@S(columns, d, e, vectors ? lefts : 0, ud, rights, vd, rest, threads))
    *info = 1;
  for (lz_i64 i = 0; i < columns; i++) rest[i] = d[i] < 0 ? d[i] : -d[i];
  lz_lw_order_@S(columns, rest, order);
  for (lz_i64 i = 0; i < columns; i++) values[i] = -rest[order[i]] * up;
  for (lz_i64 i = 0; vectors && i < all; i++) {
    const lz_i64 from = i < columns ? order[i] : i;
    const int negative = i < columns && d[from] < 0;
    for (lz_i64 r = 0; r < rows; r++) {
      const lz_@S one = lefts[from * ud + r], signed_one = negative ? 0 - one : one + 0;
      if (turned)
        other[i * rows + r] = signed_one;
      else
        y[r * all + i] = signed_one;
    }
  }
  for (lz_i64 i = 0; vectors && i < columns; i++)
    for (lz_i64 r = 0; r < columns; r++) {
      const lz_@S one = rights[order[i] * vd + r] + 0;
      if (turned)
        y[r * columns + i] = one;
      else
        other[i * columns + r] = one;
    }
}

//@ lz_lw_pinv_@S [floats]
// The inverse of what has singular values above a tolerance: the second operand has, in each row, it
// and by how much of the largest value it is at least. With mode 1 by eigenvalues.
LZ_LONG_FN void lz_lw_pinv_@S(lz_i64 m, lz_i64 n, lz_i64 k, int mode, const lz_@S *a, const lz_@S *b,
                              lz_@S *y, lz_@S *work, int threads) {
  const lz_i64 count = m < n ? m : n, md = lz_lw_wide_@S(m);
  lz_@S *found = work, *left = found + count * (m + n + 1) + 1, *right = left + count * n;
  lz_@S *x = right + count * md, *rest = x + n * md, largest = 0;
  const lz_@S *values = mode == 1 ? found : found + m * count;
  const lz_@S *rows = mode == 1 ? found + n : found, *columns = values + count;
  (void)k;
  if (mode == 1)
    lz_lw_eigh_@S(m, n, 0, 0, a, b, found, rest, threads);
  else
    lz_lw_svd_@S(m, n, 0, 0, a, b, found, rest, threads);
  y[n * m] = mode == 1 ? found[n + n * n] : found[count * (m + n + 1)];
  for (lz_i64 r = 0; r < count; r++) {
    const lz_@S size = values[r] < 0 ? -values[r] : values[r];
    largest = size > largest ? size : largest;
  }
  const lz_@S part = b[1] * largest, limit = part > b[0] ? part : b[0];
  for (lz_i64 r = 0; r < count; r++) {
    const lz_@S size = values[r] < 0 ? -values[r] : values[r];
    const lz_@S inverse = size > limit ? -(1 / values[r]) : values[r] == values[r] ? 0 : values[r];
    for (lz_i64 i = 0; i < n; i++)
      left[r * n + i] = (mode == 1 ? rows[i * n + r] : columns[r * n + i]) * inverse;
    for (lz_i64 c = 0; c < md; c++) right[r * md + c] = c < m ? rows[c * count + r] : 0;
  }
  for (lz_i64 i = 0; i < n * md; i++) x[i] = 0;
  lz_lw_update_@S(n, md, count, left, 1, n, right, md, x, md, 0, threads);
  lz_lw_give_@S(n, m, x, md, y);
}
