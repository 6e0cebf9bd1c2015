// Discrete Fourier transforms of rows of n = a * b points, each seen as a matrix of a rows and b
// columns (Bailey, "FFTs in external or hierarchical memory", 1990): transforms of the columns, the
// twiddle factors, and transforms along the rows, whose results are columns again. So every vector
// holds neighbouring columns, however wide vectors are, and no sum depends on that width.
//
// A block is a number of rows of LANES neighbouring columns, their real parts before the imaginary
// ones. Transforms of columns are made in place, in stages of 2 to 8 or an odd prime number of points
// (Gentleman, Sande, "Fast Fourier transforms - for fun and profit", 1966): where frequencies are
// then is `order`. A transform with the other sign is one with real and imaginary parts exchanged.
//
// Of the sizes of stages each takes six bits, the first stage the lowest ones. Of real points, two
// neighbours are the parts of one complex number: half as many points, and a pass over the spectrum.

//@ lz_fourier_width
// Bytes of a vector.
#if defined(__AVX512F__)
#define LZ_FOURIER_BYTES 64
#elif defined(__AVX__)
#define LZ_FOURIER_BYTES 32
#else
#define LZ_FOURIER_BYTES 16
#endif

//@ lz_fourier_v_@S [floats]
typedef lz_@S lz_fourier_v_@S
    __attribute__((vector_size(LZ_FOURIER_BYTES), aligned(@{4|8}), may_alias));
enum {
  lz_fourier_lanes_@S = @{16|8},
  lz_fourier_row_@S = 2 * lz_fourier_lanes_@S,
  lz_fourier_one_@S = LZ_FOURIER_BYTES / @{4|8}
};
// lz_fourier_width

//@ lz_fourier_cross_@S [floats]
// (x + iy) times the number at w, in place.
LZ_FN void lz_fourier_cross_@S(lz_fourier_v_@S *x, lz_fourier_v_@S *y, const lz_@S *w) {
  lz_fourier_v_@S u = *x * w[0] - *y * w[1];
  *y = *x * w[1] + *y * w[0];
  *x = u;
}

//@ lz_fourier_two_@S [floats]
// A stage of 2 points: `count` blocks of 2 * m rows; w has one factor for each of the m.
LZ_LONG_FN void lz_fourier_two_@S(lz_@S *x, lz_i64 count, lz_i64 m, const lz_@S *w) {
  typedef lz_fourier_v_@S V;
  const lz_i64 step = m * lz_fourier_row_@S, im = lz_fourier_lanes_@S;
  for (lz_i64 k = 0; k < count; k++)
    for (lz_i64 p = 0; p < m; p++)
      for (lz_i64 l = 0; l < im; l += lz_fourier_one_@S) {
        lz_@S *at = x + (k * 2 * m + p) * lz_fourier_row_@S + l;
        V ar = *(V *)at, ai = *(V *)(at + im);
        V br = *(V *)(at + step), bi = *(V *)(at + step + im);
        V cr = ar - br, ci = ai - bi;
        *(V *)at = ar + br;
        *(V *)(at + im) = ai + bi;
        if (m > 1) lz_fourier_cross_@S(&cr, &ci, w + p * 2);
        *(V *)(at + step) = cr;
        *(V *)(at + step + im) = ci;
      }
}

//@ lz_fourier_four_@S [floats]
// A stage of 4 points; w has three factors for each of the m.
LZ_LONG_FN void lz_fourier_four_@S(lz_@S *x, lz_i64 count, lz_i64 m, const lz_@S *w) {
  typedef lz_fourier_v_@S V;
  const lz_i64 step = m * lz_fourier_row_@S, im = lz_fourier_lanes_@S;
  for (lz_i64 k = 0; k < count; k++)
    for (lz_i64 p = 0; p < m; p++)
      for (lz_i64 l = 0; l < im; l += lz_fourier_one_@S) {
        lz_@S *at = x + (k * 4 * m + p) * lz_fourier_row_@S + l;
        const lz_@S *u = w + p * 6;
        V ar = *(V *)at, ai = *(V *)(at + im);
        V br = *(V *)(at + step), bi = *(V *)(at + step + im);
        V cr = *(V *)(at + 2 * step), ci = *(V *)(at + 2 * step + im);
        V dr = *(V *)(at + 3 * step), di = *(V *)(at + 3 * step + im);
        V er = ar + cr, ei = ai + ci, fr = ar - cr, fi = ai - ci;
        V gr = br + dr, gi = bi + di, hr = br - dr, hi = bi - di;
        *(V *)at = er + gr;
        *(V *)(at + im) = ei + gi;
        V sr = fr + hi, si = fi - hr, tr = er - gr, ti = ei - gi, ur = fr - hi, ui = fi + hr;
        if (m > 1) {
          lz_fourier_cross_@S(&sr, &si, u);
          lz_fourier_cross_@S(&tr, &ti, u + 2);
          lz_fourier_cross_@S(&ur, &ui, u + 4);
        }
        *(V *)(at + step) = sr;
        *(V *)(at + step + im) = si;
        *(V *)(at + 2 * step) = tr;
        *(V *)(at + 2 * step + im) = ti;
        *(V *)(at + 3 * step) = ur;
        *(V *)(at + 3 * step + im) = ui;
      }
}

//@ lz_fourier_eight_@S [floats]
// A stage of 8 points; w has seven factors for each of the m.
LZ_LONG_FN void lz_fourier_eight_@S(lz_@S *x, lz_i64 count, lz_i64 m, const lz_@S *w) {
  typedef lz_fourier_v_@S V;
  const lz_i64 step = m * lz_fourier_row_@S, im = lz_fourier_lanes_@S;
  const lz_@S half = @{0.70710678118654752440f|0.70710678118654752440};
  for (lz_i64 k = 0; k < count; k++)
    for (lz_i64 p = 0; p < m; p++)
      for (lz_i64 l = 0; l < im; l += lz_fourier_one_@S) {
        lz_@S *at = x + (k * 8 * m + p) * lz_fourier_row_@S + l;
        const lz_@S *u = w + p * 14;
        V er[4], ei[4], ur[4], ui[4];
#define LZ_HALVES(j)                                                                       \
  {                                                                                        \
    V ar = *(V *)(at + (j) * step), ai = *(V *)(at + (j) * step + im);                     \
    V br = *(V *)(at + (j + 4) * step), bi = *(V *)(at + (j + 4) * step + im);             \
    er[j] = ar + br;                                                                       \
    ei[j] = ai + bi;                                                                       \
    ur[j] = ar - br;                                                                       \
    ui[j] = ai - bi;                                                                       \
  }
        LZ_HALVES(0) LZ_HALVES(1) LZ_HALVES(2) LZ_HALVES(3)
#undef LZ_HALVES
        // The odd half times the first three eighths of a turn.
        V t = (ur[1] + ui[1]) * half;
        ui[1] = (ui[1] - ur[1]) * half;
        ur[1] = t;
        t = ur[2];
        ur[2] = ui[2];
        ui[2] = -t;
        t = (ui[3] - ur[3]) * half;
        ui[3] = -((ur[3] + ui[3]) * half);
        ur[3] = t;
#define LZ_FOUR(r, i, at0, u0)                                                             \
  {                                                                                        \
    V ar = r[0] + r[2], ai = i[0] + i[2], br = r[0] - r[2], bi = i[0] - i[2];              \
    V cr = r[1] + r[3], ci = i[1] + i[3], dr = r[1] - r[3], di = i[1] - i[3];              \
    LZ_OUT(at0, ar + cr, ai + ci)                                                          \
    LZ_OUT(at0 + 2, br + di, bi - dr)                                                      \
    LZ_OUT(at0 + 4, ar - cr, ai - ci)                                                      \
    LZ_OUT(at0 + 6, br - di, bi + dr)                                                      \
  }
#define LZ_OUT(j, real, imaginary)                                                         \
  {                                                                                        \
    V yr = real, yi = imaginary;                                                           \
    if ((j) > 0 && m > 1) lz_fourier_cross_@S(&yr, &yi, u + 2 * (j) - 2);                  \
    *(V *)(at + (j) * step) = yr;                                                          \
    *(V *)(at + (j) * step + im) = yi;                                                     \
  }
        LZ_FOUR(er, ei, 0, u)
        LZ_FOUR(ur, ui, 1, u)
#undef LZ_FOUR
#undef LZ_OUT
      }
}

//@ lz_fourier_odd_@S [floats]
// A stage of an odd number of points r; w has r - 1 factors for each of the m, behind cosine and sine
// of the multiples of an r-th of a turn.
LZ_FN void lz_fourier_odd_@S(lz_@S *x, lz_i64 count, lz_i64 m, const lz_@S *w, const int r) {
  typedef lz_fourier_v_@S V;
  const lz_i64 step = m * lz_fourier_row_@S, im = lz_fourier_lanes_@S;
  for (lz_i64 k = 0; k < count; k++)
    for (lz_i64 p = 0; p < m; p++)
      for (lz_i64 l = 0; l < im; l += lz_fourier_one_@S) {
        lz_@S *at = x + (k * r * m + p) * lz_fourier_row_@S + l;
        const lz_@S *u = w + 2 * r + p * (2 * r - 2);
        V sr[30], si[30], dr[30], di[30];
        const V fr = *(V *)at, fi = *(V *)(at + im);
        V zr = fr, zi = fi;
        for (int j = 1; 2 * j < r; j++) {
          V ar = *(V *)(at + j * step), ai = *(V *)(at + j * step + im);
          V br = *(V *)(at + (r - j) * step), bi = *(V *)(at + (r - j) * step + im);
          sr[j - 1] = ar + br;
          si[j - 1] = ai + bi;
          dr[j - 1] = ar - br;
          di[j - 1] = ai - bi;
          zr += sr[j - 1];
          zi += si[j - 1];
        }
        *(V *)at = zr;
        *(V *)(at + im) = zi;
        for (int q = 1; 2 * q < r; q++) {
          V cr = fr, ci = fi, er = dr[0] * w[2 * q + 1], ei = di[0] * w[2 * q + 1];
          cr += sr[0] * w[2 * q];
          ci += si[0] * w[2 * q];
          for (int j = 2, k = q; 2 * j < r; j++) {
            k += k + q < r ? q : q - r;
            const lz_@S *turn = w + 2 * k;
            cr += sr[j - 1] * turn[0];
            ci += si[j - 1] * turn[0];
            er += dr[j - 1] * turn[1];
            ei += di[j - 1] * turn[1];
          }
          V yr = cr + ei, yi = ci - er, vr = cr - ei, vi = ci + er;
          if (m > 1) {
            lz_fourier_cross_@S(&yr, &yi, u + 2 * q - 2);
            lz_fourier_cross_@S(&vr, &vi, u + 2 * (r - q) - 2);
          }
          *(V *)(at + q * step) = yr;
          *(V *)(at + q * step + im) = yi;
          *(V *)(at + (r - q) * step) = vr;
          *(V *)(at + (r - q) * step + im) = vi;
        }
      }
}

//@ lz_fourier_three_@S [floats]
LZ_LONG_FN void lz_fourier_three_@S(lz_@S *x, lz_i64 count, lz_i64 m, const lz_@S *w) {
  lz_fourier_odd_@S(x, count, m, w, 3);
}

//@ lz_fourier_five_@S [floats]
LZ_LONG_FN void lz_fourier_five_@S(lz_@S *x, lz_i64 count, lz_i64 m, const lz_@S *w) {
  lz_fourier_odd_@S(x, count, m, w, 5);
}

//@ lz_fourier_seven_@S [floats]
LZ_LONG_FN void lz_fourier_seven_@S(lz_@S *x, lz_i64 count, lz_i64 m, const lz_@S *w) {
  lz_fourier_odd_@S(x, count, m, w, 7);
}

//@ lz_fourier_prime_@S [floats]
LZ_LONG_FN void lz_fourier_prime_@S(lz_@S *x, lz_i64 count, lz_i64 m, const lz_@S *w, int r) {
  lz_fourier_odd_@S(x, count, m, w, r);
}

//@ lz_fourier_columns_@S [floats]
// All stages of the transforms of a block of n rows, in place.
static __attribute__((noinline, unused)) void lz_fourier_columns_@S(lz_@S *x, lz_i64 n,
    lz_i64 stages, const lz_@S *w) {
  lz_i64 count = 1;
  for (; stages; stages >>= 6) {
    const int r = (int)(stages & 63);
    const lz_i64 m = n / (count * r);
    if (r == 8) lz_fourier_eight_@S(x, count, m, w);
    else if (r == 4) lz_fourier_four_@S(x, count, m, w);
    else if (r == 2) lz_fourier_two_@S(x, count, m, w);
    else if (r == 3) lz_fourier_three_@S(x, count, m, w);
    else if (r == 5) lz_fourier_five_@S(x, count, m, w);
    else if (r == 7) lz_fourier_seven_@S(x, count, m, w);
    else lz_fourier_prime_@S(x, count, m, w, r);
    w += (r & 1 ? 2 * r : 0) + m * (2 * r - 2);
    count *= r;
  }
}

//@ lz_fourier_order
// Where the frequencies of a block of n rows are after all stages.
static __attribute__((noinline, unused)) void lz_fourier_order(lz_i32 *order, lz_i64 n,
    lz_i64 stages) {
  lz_i64 count = 1, step = n;
  order[0] = 0;
  for (; stages; stages >>= 6) {
    const lz_i64 r = stages & 63;
    step /= r;
    for (lz_i64 j = 1; j < r; j++)
      for (lz_i64 i = 0; i < count; i++) order[j * count + i] = (lz_i32)(order[i] + j * step);
    count *= r;
  }
}

//@ lz_fourier_plan
// The factors of the number of points, the sizes of their stages, whether the parts of numbers are
// exchanged, and how many blocks of columns each has.
typedef struct { lz_i64 a, b, first, second, exchanged, wide, high; } lz_fourier_plan;
enum { lz_fourier_slots = 16 };

//@ lz_fourier_turns
// Elements in a table that the stages of n rows take.
LZ_FN lz_i64 lz_fourier_turns(lz_i64 n, lz_i64 stages) {
  lz_i64 count = 1, total = 0;
  for (; stages; stages >>= 6) {
    const lz_i64 r = stages & 63;
    total += (r & 1 ? 2 * r : 0) + n / (count * r) * (2 * r - 2);
    count *= r;
  }
  return total;
}

//@ lz_fourier_down_@S [floats]
// The transforms of a block of columns of x, the number `k`, times their twiddle factors, into the
// rows of all blocks of `work`.
static __attribute__((noinline, unused)) void lz_fourier_down_@S(const lz_fourier_plan *p, lz_i64 k,
    const lz_@S *x, lz_@S *work, const lz_@S *w, const lz_@S *middle, lz_@S *block,
    const lz_i32 *order) {
  typedef lz_fourier_v_@S V;
  enum { W = lz_fourier_lanes_@S, ROW = lz_fourier_row_@S };
  const lz_i64 from = k * W, left = p->b - from, count = left < W ? left : (lz_i64)W;
  lz_@S *re = block + (p->exchanged ? W : 0), *im = block + (p->exchanged ? 0 : W);
  if (count < W)
    for (lz_i64 j = 0; j < p->a * ROW; j++) block[j] = 0;
#define LZ_APART(COUNT)                                                                    \
  for (lz_i64 j = 0; j < p->a; j++) {                                                      \
    const lz_@S *at = x + 2 * (j * p->b + from);                                           \
    for (int l = 0; l < COUNT; l++) {                                                      \
      re[j * ROW + l] = at[2 * l];                                                         \
      im[j * ROW + l] = at[2 * l + 1];                                                     \
    }                                                                                      \
  }
  if (count == W) { LZ_APART(W) }
  else if (2 * count == W) { LZ_APART(W / 2) }
  else { LZ_APART(count) }
#undef LZ_APART
  lz_fourier_columns_@S(block, p->a, p->first, w);
  middle += k * p->a * ROW;
  for (lz_i64 high = 0; high < p->high; high++) {
    lz_@S tile[W * ROW] __attribute__((aligned(64)));
    for (lz_i64 f = 0; f < W; f++) {
      const lz_i64 at = high * W + f;
      if (at >= p->a) {
        for (int l = 0; l < ROW; l++) tile[f * ROW + l] = 0;
        continue;
      }
      const lz_@S *row = block + order[at] * ROW, *turn = middle + at * ROW;
      for (int l = 0; l < W; l += lz_fourier_one_@S) {
        V ar = *(const V *)(row + l), ai = *(const V *)(row + W + l);
        V ur = *(const V *)(turn + l), ui = *(const V *)(turn + W + l);
        *(V *)(tile + f * ROW + l) = ar * ur - ai * ui;
        *(V *)(tile + f * ROW + W + l) = ar * ui + ai * ur;
      }
    }
    lz_@S *to = work + (high * p->b + from) * ROW;
    lz_i64 l = 0;
    for (; l + 4 <= count; l += 4)
      for (int f = 0; f < W; f += 4)
        for (int part = 0; part < ROW; part += W) {
          typedef lz_fourier_q_@S Q;
          const lz_@S *at = tile + f * ROW + part + l;
          lz_@S *into = to + l * ROW + part + f;
          Q a = *(const Q *)at, b = *(const Q *)(at + ROW);
          Q c = *(const Q *)(at + 2 * ROW), d = *(const Q *)(at + 3 * ROW);
          Q e = LZ_FOURIER_MIX(a, b, 0, 4, 1, 5), g = LZ_FOURIER_MIX(a, b, 2, 6, 3, 7);
          Q h = LZ_FOURIER_MIX(c, d, 0, 4, 1, 5), i = LZ_FOURIER_MIX(c, d, 2, 6, 3, 7);
          *(Q *)into = LZ_FOURIER_MIX(e, h, 0, 1, 4, 5);
          *(Q *)(into + ROW) = LZ_FOURIER_MIX(e, h, 2, 3, 6, 7);
          *(Q *)(into + 2 * ROW) = LZ_FOURIER_MIX(g, i, 0, 1, 4, 5);
          *(Q *)(into + 3 * ROW) = LZ_FOURIER_MIX(g, i, 2, 3, 6, 7);
        }
    for (; l < count; l++)
      for (int f = 0; f < W; f++) {
        to[l * ROW + f] = tile[f * ROW + l];
        to[l * ROW + W + f] = tile[f * ROW + W + l];
      }
  }
}

//@ lz_fourier_across_@S [floats]
// The transforms of the block number `k` of `work`, into y.
static __attribute__((noinline, unused)) void lz_fourier_across_@S(const lz_fourier_plan *p, lz_i64 k,
    lz_@S *work, lz_@S *y, const lz_@S *w, const lz_i32 *order) {
  enum { W = lz_fourier_lanes_@S, ROW = lz_fourier_row_@S };
  lz_@S *block = work + k * p->b * ROW;
  const lz_i64 from = k * W, left = p->a - from, count = left < W ? left : (lz_i64)W;
  lz_fourier_columns_@S(block, p->b, p->second, w);
  const lz_@S *re = block + (p->exchanged ? W : 0), *im = block + (p->exchanged ? 0 : W);
  for (lz_i64 f = 0; f < p->b; f++) {
    lz_@S *to = y + 2 * (f * p->a + from);
    const lz_i64 at = order[f] * ROW;
    if (count == W) {
      for (int l = 0; l < W; l++) {
        to[2 * l] = re[at + l];
        to[2 * l + 1] = im[at + l];
      }
    } else {
      for (lz_i64 l = 0; l < count; l++) {
        to[2 * l] = re[at + l];
        to[2 * l + 1] = im[at + l];
      }
    }
  }
}

//@ lz_fourier_q_@S [floats]
// Four numbers, and parts of four complex ones in order or reversed.
// Products of complex numbers are vectors of real and of imaginary parts, single ones too: gcc makes
// one operation with one rounding of the sum and difference of neighbours, whatever it is told.
typedef lz_@S lz_fourier_q_@S __attribute__((vector_size(@{16|32}), aligned(@{4|8}), may_alias));
#if defined(__clang__) || __GNUC__ >= 12
#define LZ_FOURIER_MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define LZ_FOURIER_MIX(a, b, ...) __builtin_shuffle(a, b, (__typeof__((a) == (b))){__VA_ARGS__})
#endif

//@ lz_fourier_halved_@S [floats]
// The spectrum of real points from that of their pairs, z, in place, for k from `first` on, below `last`
// and up to n / 2, and their mirror images: the even points have z[k] + conj(z[n - k]), the odd ones
// (z[k] - conj(z[n - k])) / i. w has the turns' cosines, then their sines; `sign` is 1 or -1.
static __attribute__((noinline, unused)) void lz_fourier_halved_@S(lz_i64 n, lz_@S *z,
    const lz_@S *w, lz_i64 first, lz_i64 last, lz_@S sign) {
  typedef lz_fourier_q_@S Q;
  const lz_@S *sine = w + n / 2 + 1;
  if (first == 0 && last > 0) {
    lz_@S x = z[0], y = z[1];
    z[0] = (x + y) * 2;
    z[2 * n] = (x - y) * 2;
    z[1] = z[2 * n + 1] = 0;
    first = 1;
  }
#define LZ_HALVED(T)                                                                       \
  T er = xr + yr, ei = xi - yi, dr = xi + yi, di = yr - xr;                                \
  T ur = dr * c - di * s, ui = dr * s + di * c;                                            \
  T ar = er + ur, ai = (ei + ui) * sign, br = er - ur, bi = (ui - ei) * sign;
  for (; first + 4 <= last && 2 * (first + 4) <= n; first += 4) {
    lz_@S *low = z + 2 * first, *high = z + 2 * (n - first - 3);
    Q p = *(Q *)low, q = *(Q *)(low + 4), u = *(Q *)high, v = *(Q *)(high + 4);
    Q xr = LZ_FOURIER_MIX(p, q, 0, 2, 4, 6), xi = LZ_FOURIER_MIX(p, q, 1, 3, 5, 7);
    Q yr = LZ_FOURIER_MIX(u, v, 6, 4, 2, 0), yi = LZ_FOURIER_MIX(u, v, 7, 5, 3, 1);
    Q c = *(const Q *)(w + first), s = -*(const Q *)(sine + first);
    LZ_HALVED(Q)
    *(Q *)low = LZ_FOURIER_MIX(ar, ai, 0, 4, 1, 5);
    *(Q *)(low + 4) = LZ_FOURIER_MIX(ar, ai, 2, 6, 3, 7);
    *(Q *)high = LZ_FOURIER_MIX(br, bi, 3, 7, 2, 6);
    *(Q *)(high + 4) = LZ_FOURIER_MIX(br, bi, 1, 5, 0, 4);
  }
  for (; first < last; first++) {
    lz_@S *low = z + 2 * first, *high = z + 2 * (n - first);
    Q xr = {low[0]}, xi = {low[1]}, yr = {high[0]}, yi = {high[1]}, c = {w[first]};
    Q s = {-sine[first]};
    LZ_HALVED(Q)
    high[0] = br[0];
    high[1] = bi[0];
    low[0] = ar[0];
    low[1] = ai[0];
  }
#undef LZ_HALVED
}

//@ lz_fourier_joined_@S [floats]
// The other way: the spectrum z of pairs from that of real points, x, whose imaginary parts at 0 and
// n do not count.
static __attribute__((noinline, unused)) void lz_fourier_joined_@S(lz_i64 n, const lz_@S *x, lz_@S *z,
    const lz_@S *w, lz_i64 first, lz_i64 last, lz_@S sign) {
  typedef lz_fourier_q_@S Q;
  const lz_@S *sine = w + n / 2 + 1;
  if (first == 0 && last > 0) {
    z[0] = x[0] + x[2 * n];
    z[1] = x[0] - x[2 * n];
    first = 1;
  }
#define LZ_JOINED(T)                                                                       \
  T er = xr + yr, ei = (xi - yi) * sign, dr = xr - yr, di = (xi + yi) * sign;              \
  T ur = dr * c - di * s, ui = dr * s + di * c;                                            \
  T ar = er - ui, ai = ei + ur, br = er + ui, bi = ur - ei;
  for (; first + 4 <= last && 2 * (first + 4) <= n; first += 4) {
    const lz_@S *low = x + 2 * first, *high = x + 2 * (n - first - 3);
    lz_@S *to = z + 2 * first, *end = z + 2 * (n - first - 3);
    Q p = *(const Q *)low, q = *(const Q *)(low + 4);
    Q u = *(const Q *)high, v = *(const Q *)(high + 4);
    Q xr = LZ_FOURIER_MIX(p, q, 0, 2, 4, 6), xi = LZ_FOURIER_MIX(p, q, 1, 3, 5, 7);
    Q yr = LZ_FOURIER_MIX(u, v, 6, 4, 2, 0), yi = LZ_FOURIER_MIX(u, v, 7, 5, 3, 1);
    Q c = *(const Q *)(w + first), s = *(const Q *)(sine + first);
    LZ_JOINED(Q)
    *(Q *)to = LZ_FOURIER_MIX(ar, ai, 0, 4, 1, 5);
    *(Q *)(to + 4) = LZ_FOURIER_MIX(ar, ai, 2, 6, 3, 7);
    *(Q *)end = LZ_FOURIER_MIX(br, bi, 3, 7, 2, 6);
    *(Q *)(end + 4) = LZ_FOURIER_MIX(br, bi, 1, 5, 0, 4);
  }
  for (; first < last; first++) {
    const lz_@S *low = x + 2 * first, *high = x + 2 * (n - first);
    Q xr = {low[0]}, xi = {low[1]}, yr = {high[0]}, yi = {high[1]}, c = {w[first]};
    Q s = {sine[first]};
    LZ_JOINED(Q)
    z[2 * (n - first)] = br[0];
    z[2 * (n - first) + 1] = bi[0];
    z[2 * first] = ar[0];
    z[2 * first + 1] = ai[0];
  }
#undef LZ_JOINED
}

//@ lz_fourier_chirp_@S [floats]
// n complex numbers, and up to three behind them, times those of w, in place.
LZ_LONG_FN void lz_fourier_chirp_@S(lz_i64 n, lz_@S *z, const lz_@S *w) {
  typedef lz_fourier_q_@S Q;
  for (lz_i64 k = 0; k < 2 * n; k += 8) {
    Q p = *(Q *)(z + k), q = *(Q *)(z + k + 4), u = *(const Q *)(w + k), v = *(const Q *)(w + k + 4);
    Q x = LZ_FOURIER_MIX(p, q, 0, 2, 4, 6), y = LZ_FOURIER_MIX(p, q, 1, 3, 5, 7);
    Q c = LZ_FOURIER_MIX(u, v, 0, 2, 4, 6), s = LZ_FOURIER_MIX(u, v, 1, 3, 5, 7);
    Q r = x * c - y * s, i = x * s + y * c;
    *(Q *)(z + k) = LZ_FOURIER_MIX(r, i, 0, 4, 1, 5);
    *(Q *)(z + k + 4) = LZ_FOURIER_MIX(r, i, 2, 6, 3, 7);
  }
}

//@ lz_fourier_whole_@S [floats]
// One row of n points, seen as complex ones whatever the kind. Where a plan is for more points, by a
// convolution with a chirp (Bluestein, "A linear filtering approach to the computation of discrete
// Fourier transform", 1970): `turns` has the chirp, the spectrum of the one to convolve with, and the
// chirp once more with the scale. `z` is scratch for as many points as the plan is for.
static __attribute__((noinline, unused)) void lz_fourier_whole_@S(const lz_fourier_plan *p, lz_i64 n,
    lz_i64 kind, lz_i64 exchanged, const lz_@S *x, lz_@S *y, const lz_@S *table, const lz_@S *along,
    const lz_@S *middle, const lz_@S *turns, lz_@S *z, lz_@S *work, lz_@S *block, const lz_i32 *oa,
    const lz_i32 *ob) {
  const lz_i64 length = p->a * p->b, half = n / 2 + 1;
  const int re = exchanged ? 1 : 0, im = 1 - re;
  if (kind == 0)
    for (lz_i64 k = 0; k < n; k++) {
      z[2 * k + re] = x[2 * k];
      z[2 * k + im] = x[2 * k + 1];
    }
  else if (kind == 1)
    for (lz_i64 k = 0; k < n; k++) {
      z[2 * k + re] = x[k];
      z[2 * k + im] = 0;
    }
  else {
    for (lz_i64 k = 0; k < half; k++) {
      z[2 * k + re] = x[2 * k];
      z[2 * k + im] = x[2 * k + 1];
    }
    z[im] = 0;
    if (n % 2 == 0) z[n + im] = 0;
    for (lz_i64 k = half; k < n; k++) {
      z[2 * k + re] = x[2 * (n - k)];
      z[2 * k + im] = -x[2 * (n - k) + 1];
    }
  }
  if (length > n) {
    lz_fourier_chirp_@S(n, z, turns);
    for (lz_i64 k = 2 * n; k < 2 * length; k++) z[k] = 0;
  }
  lz_fourier_plan back = *p;
  for (int time = 0; time < (length > n ? 2 : 1); time++) {
    if (time == 1) lz_fourier_chirp_@S(length, z, turns + 2 * n);
    back.exchanged = time;
    for (lz_i64 k = 0; k < p->wide; k++)
      lz_fourier_down_@S(&back, k, z, work, table, middle, block, oa);
    for (lz_i64 k = 0; k < p->high; k++) lz_fourier_across_@S(&back, k, work, z, along, ob);
  }
  if (length > n) lz_fourier_chirp_@S(n, z, turns + 2 * n + 2 * length);
  if (kind == 2) {
    for (lz_i64 k = 0; k < n; k++) y[k] = z[2 * k + re];
    return;
  }
  const lz_i64 count = kind == 0 ? n : half;
  for (lz_i64 k = 0; k < count; k++) {
    y[2 * k] = z[2 * k + re];
    y[2 * k + 1] = z[2 * k + im];
  }
  if (kind == 1) y[1] = 0;
  if (kind == 1 && n % 2 == 0) y[n + 1] = 0;
}

//@ lz_fourier_@S [floats]
// Transforms of `rows` rows of n complex numbers (`kind` 0), of real ones to the first half of their
// spectrum (1), or back (2). a * b is n, or half of it for pairs of real points; with `whole` it is the
// number of complex points to transform instead. `work` has, for each of up to lz_fourier_slots rows,
// a * b numbers rounded up to whole blocks, and twice a * b elements with `whole`; and as many blocks
// of a rows.
static __attribute__((noinline, unused)) void lz_fourier_@S(lz_i64 rows, lz_i64 points, lz_i64 a,
    lz_i64 b, lz_i64 first, lz_i64 second, lz_i64 exchanged, lz_i64 kind, lz_i64 whole,
    const lz_@S *x, const lz_@S *table, lz_@S *y, lz_@S *work, int threads) {
  enum { W = lz_fourier_lanes_@S, ROW = lz_fourier_row_@S, MOST = lz_fourier_slots };
  const lz_i64 n = a * b, half = n / 2 + 1, large = 2 * (points / 2 + 1);
  const lz_i64 from = kind == 0 ? 2 * points : kind == 1 ? points : large;
  const lz_i64 to = kind == 0 ? 2 * points : kind == 1 ? large : points;
  const lz_@S sign = (kind == 1) == (exchanged == 0) ? 1 : -1;
  const lz_fourier_plan p = {
      a, b, first, second, kind == 0 ? exchanged : kind == 2, (b + W - 1) / W, (a + W - 1) / W};
  const lz_@S *along = table + lz_fourier_turns(a, first);
  const lz_@S *middle = along + lz_fourier_turns(b, second);
  const lz_@S *turns = middle + p.wide * a * ROW;
  lz_i32 order_a[a], order_b[b];
  lz_fourier_order(order_a, a, first);
  lz_fourier_order(order_b, b, second);
  const lz_i32 *oa = order_a, *ob = order_b;
  const lz_i64 slots = rows < MOST ? rows : (lz_i64)MOST, size = p.high * b * ROW;
  const lz_i64 slot = size + (whole ? 2 * n : 0);
  lz_@S *blocks = work + slots * slot;
  // More parts than threads, because a thread may lose its core.
  if (threads == 1 || whole || rows >= 2 * threads) {
    const lz_i64 parts = threads == 1 ? 1 : slots;
#pragma omp parallel for num_threads(threads) if(threads > 1 && rows > 1) schedule(dynamic, 1)
    for (lz_i64 t = 0; t < parts; t++)
      for (lz_i64 r = t * rows / parts; r < (t + 1) * rows / parts; r++) {
        const lz_@S *source = x + r * from;
        lz_@S *target = y + r * to, *mine = work + t * slot, *block = blocks + t * a * ROW;
        if (whole) {
          lz_fourier_whole_@S(&p, points, kind, exchanged, source, target, table, along, middle, turns,
                              mine + size, mine, block, oa, ob);
          continue;
        }
        if (kind == 2) lz_fourier_joined_@S(n, source, target, turns, 0, half, sign);
        if (kind == 2) source = target;
        for (lz_i64 k = 0; k < p.wide; k++)
          lz_fourier_down_@S(&p, k, source, mine, table, middle, block, oa);
        for (lz_i64 k = 0; k < p.high; k++) lz_fourier_across_@S(&p, k, mine, target, along, ob);
        if (kind == 1) lz_fourier_halved_@S(n, target, turns, 0, half, sign);
      }
    return;
  }
  for (lz_i64 start = 0; start < rows; start += slots) {
    const lz_i64 count = rows - start < slots ? rows - start : slots;
    const lz_@S *source = x + start * from;
    lz_@S *target = y + start * to;
    if (kind == 2)
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
      for (lz_i64 t = 0; t < MOST; t++)
        for (lz_i64 r = 0; r < count; r++)
          lz_fourier_joined_@S(n, source + r * from, target + r * to, turns, t * half / MOST,
                               (t + 1) * half / MOST, sign);
    const lz_@S *given = kind == 2 ? target : source;
    const lz_i64 stride = kind == 2 ? to : from;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (lz_i64 t = 0; t < MOST; t++)
      for (lz_i64 k = t * count * p.wide / MOST; k < (t + 1) * count * p.wide / MOST; k++) {
        const lz_i64 r = k / p.wide;
        lz_fourier_down_@S(&p, k % p.wide, given + r * stride, work + r * slot, table, middle,
                           blocks + t * a * ROW, oa);
      }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (lz_i64 t = 0; t < MOST; t++)
      for (lz_i64 k = t * count * p.high / MOST; k < (t + 1) * count * p.high / MOST; k++) {
        const lz_i64 r = k / p.high;
        lz_fourier_across_@S(&p, k % p.high, work + r * slot, target + r * to, along, ob);
      }
    if (kind == 1)
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
      for (lz_i64 t = 0; t < MOST; t++)
        for (lz_i64 r = 0; r < count; r++)
          lz_fourier_halved_@S(n, target + r * to, turns, t * half / MOST, (t + 1) * half / MOST, sign);
  }
}

//@ lz_dft_turn_@S [floats]
// A complex number times another one, in place. From here on: the same sums and products as above, in
// the same order, of the points that one thread of a GPU has in registers; x are real parts, y
// imaginary ones.
LZ_FN void lz_dft_turn_@S(lz_@S *x, lz_@S *y, lz_@S u, lz_@S v) {
  lz_@S t = *x * u - *y * v;
  *y = *x * v + *y * u;
  *x = t;
}

//@ lz_dft_2_@S [floats]
LZ_FN void lz_dft_2_@S(lz_@S *x, lz_@S *y) {
  lz_@S cr = x[0] - x[1], ci = y[0] - y[1];
  x[0] = x[0] + x[1];
  y[0] = y[0] + y[1];
  x[1] = cr;
  y[1] = ci;
}

//@ lz_dft_4_@S [floats]
LZ_FN void lz_dft_4_@S(lz_@S *x, lz_@S *y) {
  lz_@S er = x[0] + x[2], ei = y[0] + y[2], fr = x[0] - x[2], fi = y[0] - y[2];
  lz_@S gr = x[1] + x[3], gi = y[1] + y[3], hr = x[1] - x[3], hi = y[1] - y[3];
  x[0] = er + gr;
  y[0] = ei + gi;
  x[1] = fr + hi;
  y[1] = fi - hr;
  x[2] = er - gr;
  y[2] = ei - gi;
  x[3] = fr - hi;
  y[3] = fi + hr;
}

//@ lz_dft_8_@S [floats]
LZ_FN void lz_dft_8_@S(lz_@S *x, lz_@S *y) {
  const lz_@S half = @{0.70710678118654752440f|0.70710678118654752440};
  lz_@S er[4], ei[4], ur[4], ui[4];
  for (int j = 0; j < 4; j++) {
    er[j] = x[j] + x[j + 4];
    ei[j] = y[j] + y[j + 4];
    ur[j] = x[j] - x[j + 4];
    ui[j] = y[j] - y[j + 4];
  }
  lz_@S t = (ur[1] + ui[1]) * half;
  ui[1] = (ui[1] - ur[1]) * half;
  ur[1] = t;
  t = ur[2];
  ur[2] = ui[2];
  ui[2] = -t;
  t = (ui[3] - ur[3]) * half;
  ui[3] = -((ur[3] + ui[3]) * half);
  ur[3] = t;
  lz_dft_4_@S(er, ei);
  lz_dft_4_@S(ur, ui);
  for (int j = 0; j < 4; j++) {
    x[2 * j] = er[j];
    y[2 * j] = ei[j];
    x[2 * j + 1] = ur[j];
    y[2 * j + 1] = ui[j];
  }
}

//@ lz_dft_odd_@S [floats]
// An odd number of points, at most 61; w has the cosines and sines of an r-th of a turn.
LZ_FN void lz_dft_odd_@S(lz_@S *x, lz_@S *y, const lz_@S *w, const int r) {
  const lz_@S fr = x[0], fi = y[0];
  lz_@S zr = fr, zi = fi;
  lz_@S sr[30], si[30], dr[30], di[30];
  for (int j = 1; 2 * j < r; j++) {
    sr[j - 1] = x[j] + x[r - j];
    si[j - 1] = y[j] + y[r - j];
    dr[j - 1] = x[j] - x[r - j];
    di[j - 1] = y[j] - y[r - j];
    zr += sr[j - 1];
    zi += si[j - 1];
  }
  x[0] = zr;
  y[0] = zi;
  for (int q = 1; 2 * q < r; q++) {
    lz_@S er = dr[0] * w[2 * q + 1], ei = di[0] * w[2 * q + 1];
    lz_@S cr = fr + sr[0] * w[2 * q], ci = fi + si[0] * w[2 * q];
    for (int j = 2; 2 * j < r; j++) {
      const lz_@S c = w[2 * (q * j % r)], s = w[2 * (q * j % r) + 1];
      cr += sr[j - 1] * c;
      ci += si[j - 1] * c;
      er += dr[j - 1] * s;
      ei += di[j - 1] * s;
    }
    x[q] = cr + ei;
    y[q] = ci - er;
    x[r - q] = cr - ei;
    y[r - q] = ci + er;
  }
}

//@ lz_dft_halved_@S [floats]
// Two mirrored frequencies of real points from those of their pairs.
LZ_FN void lz_dft_halved_@S(lz_@S *x, lz_@S *y, lz_@S c, lz_@S s, lz_@S sign) {
  lz_@S er = x[0] + x[1], ei = y[0] - y[1], dr = y[0] + y[1], di = x[1] - x[0];
  lz_@S ur = dr * c - di * -s, ui = dr * -s + di * c;
  x[0] = er + ur;
  y[0] = (ei + ui) * sign;
  x[1] = er - ur;
  y[1] = (ui - ei) * sign;
}

//@ lz_dft_joined_@S [floats]
// The other way.
LZ_FN void lz_dft_joined_@S(lz_@S *x, lz_@S *y, lz_@S c, lz_@S s, lz_@S sign) {
  lz_@S er = x[0] + x[1], ei = (y[0] - y[1]) * sign, dr = x[0] - x[1], di = (y[0] + y[1]) * sign;
  lz_@S ur = dr * c - di * s, ui = dr * s + di * c;
  x[0] = er - ui;
  y[0] = ei + ur;
  x[1] = er + ui;
  y[1] = ur - ei;
}
