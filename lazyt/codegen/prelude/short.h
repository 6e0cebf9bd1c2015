// Folds of neighbours in rows of at most 64 elements, in the order of all sums: lane k mod 32, lanes
// by halves. Rows are read as they lie, and eight (four) of them are folded and turned at once.

//@ lz_short_mask_@S [floats]
// All that hands vectors on is inlined: no other text has to agree on how.
#pragma GCC diagnostic ignored "-Wpsabi"
typedef lz_i@{32|64} lz_short_mask_@S
    __attribute__((vector_size(32), aligned(@{4|8}), may_alias));

//@ lz_short_lanes_@S [floats]
/* A vector of neighbours; those past the end are ``none``. */
LZ_FN lz_@{eight|four}_@S lz_short_lanes_@S(const lz_@S *row, lz_i64 first, lz_i64 steps, lz_@S none)
{
  const lz_@{eight|four}_@S every = none - (lz_@{eight|four}_@S){0};
  if (first + @{8|4} <= steps)
    return *(const lz_@{eight|four}_@S *)(row + first);
  if (first >= steps)
    return every;
#ifdef __AVX__
  const lz_short_mask_@S numbers = {@{0, 1, 2, 3, 4, 5, 6, 7|0, 1, 2, 3}};
  const lz_short_mask_@S inside = numbers < (lz_i@{32|64})(steps - first);
  typedef lz_@S lanes __attribute__((vector_size(32)));
  typedef lz_i@{32|64} mask __attribute__((vector_size(32)));
  const lz_short_mask_@S read = (lz_short_mask_@S)__builtin_ia32_maskload@{ps|pd}256(
      (const lanes *)(row + first), (mask)inside);
  return (lz_@{eight|four}_@S)(read | ((lz_short_mask_@S)every & ~inside));
#else
  lz_@{eight|four}_@S read = every;
  for (lz_i64 k = 0; k < steps - first; k++)
    read[k] = row[first + k];
  return read;
#endif
}

//@ lz_short_any_@S [floats]
/* Which lanes of a mask are set, as bits. */
LZ_FN lz_u32 lz_short_any_@S(lz_short_mask_@S mask)
{
#ifdef __AVX__
  typedef lz_@S lanes __attribute__((vector_size(32)));
  return (lz_u32)__builtin_ia32_movmsk@{ps|pd}256((lanes)mask);
#else
  lz_u32 bits = 0;
  for (int k = 0; k < @{8|4}; k++)
    bits |= (lz_u32)(mask[k] != 0) << k;
  return bits;
#endif
}

//@ lz_short_most_@S [floats]
/* y > x ? y : x, for each lane. */
LZ_FN lz_@{eight|four}_@S lz_short_most_@S(lz_@{eight|four}_@S x, lz_@{eight|four}_@S y)
{
#ifdef __AVX__
  typedef lz_@S lanes __attribute__((vector_size(32)));
  return (lz_@{eight|four}_@S)__builtin_ia32_max@{ps|pd}256((lanes)y, (lanes)x);
#else
  const lz_short_mask_@S more = y > x;
  return (lz_@{eight|four}_@S)(((lz_short_mask_@S)y & more) | ((lz_short_mask_@S)x & ~more));
#endif
}

//@ lz_short_least_@S [floats]
/* y < x ? y : x, for each lane. */
LZ_FN lz_@{eight|four}_@S lz_short_least_@S(lz_@{eight|four}_@S x, lz_@{eight|four}_@S y)
{
#ifdef __AVX__
  typedef lz_@S lanes __attribute__((vector_size(32)));
  return (lz_@{eight|four}_@S)__builtin_ia32_min@{ps|pd}256((lanes)y, (lanes)x);
#else
  const lz_short_mask_@S less = y < x;
  return (lz_@{eight|four}_@S)(((lz_short_mask_@S)y & less) | ((lz_short_mask_@S)x & ~less));
#endif
}

//@ lz_short_add_@S [floats]
#define lz_short_add_@S(x, y) ((x) + (y))

//@ lz_short_turn_@S [floats]
/* Declares ``d``, whose lanes are the folds of vectors a0, a1, ..., which fold as they are turned. */
#define LZ_SHORT_PAIR_@N(fold, z, x, y) \
  const lz_@{eight|four}_@S z = \
      fold(__builtin_shufflevector(x, y, @{0, 1, 2, 3, 8, 9, 10, 11|0, 1, 4, 5}), \
           __builtin_shufflevector(x, y, @{4, 5, 6, 7, 12, 13, 14, 15|2, 3, 6, 7}));
#define LZ_SHORT_FOUR_@N(fold, z, x, y) \
  const lz_@{eight|four}_@S z = \
      fold(__builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13), \
           __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15));
#define LZ_SHORT_LAST_@N(fold, z, x, y) \
  const lz_@{eight|four}_@S z = \
      fold(__builtin_shufflevector(x, y, @{0, 2, 8, 10, 4, 6, 12, 14|0, 4, 2, 6}), \
           __builtin_shufflevector(x, y, @{1, 3, 9, 11, 5, 7, 13, 15|1, 5, 3, 7}));
#define lz_short_turn_@S(fold, d) \
  @{LZ_SHORT_PAIR_F32(fold, b0, a0, a4) LZ_SHORT_PAIR_F32(fold, b1, a1, a5) \
  LZ_SHORT_PAIR_F32(fold, b2, a2, a6) LZ_SHORT_PAIR_F32(fold, b3, a3, a7) \
  LZ_SHORT_FOUR_F32(fold, c0, b0, b1) LZ_SHORT_FOUR_F32(fold, c1, b2, b3) \
  LZ_SHORT_LAST_F32(fold, d, c0, c1)|LZ_SHORT_PAIR_F64(fold, b0, a0, a2) \
  LZ_SHORT_PAIR_F64(fold, b1, a1, a3) LZ_SHORT_LAST_F64(fold, d, b0, b1)}

//@ lz_short_folds_@S [floats]
/* Defines ``name(rows, steps, from, pitch, to)``: to[r] is the fold of from[r * pitch + k], k below
   ``steps``. ``fold`` takes vectors of numbers, ``scalar`` also NaN. Lanes start from ``none``. */
#define LZ_SHORT_HALF_@N(name, fold, half, whole) \
  LZ_FN lz_@{eight|four}_@S name##_##half( \
      const lz_@S *row, lz_i64 steps, lz_i64 first, lz_short_mask_@S *nan) \
  { \
    lz_@{eight|four}_@S x = name##_##whole(row, steps, first, nan); \
    if (steps > first + half) \
      x = fold(x, (name##_##whole(row, steps, first + half, nan))); \
    return x; \
  }
#define lz_short_folds_@S(name, fold, scalar, none) \
  static __attribute__((noinline, unused)) lz_@S name##_scalar(const lz_@S *row, lz_i64 steps) \
  { \
    lz_@S lane[32]; \
    for (lz_i64 l = 0; l < 32; l++) \
    { \
      lane[l] = none; \
      for (lz_i64 k = l; k < steps; k += 32) \
        lane[l] = scalar(lane[l], row[k]); \
    } \
    for (lz_i64 h = 16; h > 0; h /= 2) \
      for (lz_i64 l = 0; l < h; l++) \
        lane[l] = scalar(lane[l], lane[l + h]); \
    return lane[0]; \
  } \
  LZ_FN lz_@{eight|four}_@S name##_32( \
      const lz_@S *row, lz_i64 steps, lz_i64 first, lz_short_mask_@S *nan) \
  { \
    lz_@{eight|four}_@S x = lz_short_lanes_@S(row, first, steps, none); \
    *nan |= x != x; \
    x = fold((none) - (lz_@{eight|four}_@S){0}, x); \
    if (steps <= first + 32) \
      return x; \
    const lz_@{eight|four}_@S y = lz_short_lanes_@S(row, first + 32, steps, none); \
    *nan |= y != y; \
    return fold(x, y); \
  } \
  LZ_SHORT_HALF_@N(name, fold, 16, 32) LZ_SHORT_HALF_@N(name, fold, 8, 16) \
  @{|LZ_SHORT_HALF_F64(name, fold, 4, 8)} \
  LZ_FN void name( \
      lz_i64 rows, lz_i64 steps, const lz_@S *__restrict__ from, lz_i64 pitch, \
      lz_@S *__restrict__ to) \
  { \
    lz_i64 r = 0; \
    for (; r + @{8|4} <= rows; r += @{8|4}) \
    { \
      const lz_@S *row = from + r * pitch; \
      lz_short_mask_@S nan = {0}; \
      const lz_@{eight|four}_@S \
          a0 = name##_@{8|4}(row, steps, 0, &nan), \
          a1 = name##_@{8|4}(row + pitch, steps, 0, &nan), \
          a2 = name##_@{8|4}(row + 2 * pitch, steps, 0, &nan), \
          a3 = name##_@{8|4}(row + 3 * pitch, steps, 0, &nan); \
      @{const lz_eight_f32 \
          a4 = name##_8(row + 4 * pitch, steps, 0, &nan), \
          a5 = name##_8(row + 5 * pitch, steps, 0, &nan), \
          a6 = name##_8(row + 6 * pitch, steps, 0, &nan), \
          a7 = name##_8(row + 7 * pitch, steps, 0, &nan);|} \
      lz_short_turn_@S(fold, d) \
      *(lz_@{eight|four}_@S *)(to + r) = d; \
      if (__builtin_expect(lz_short_any_@S(nan) != 0, 0)) \
        for (lz_i64 k = r; k < r + @{8|4}; k++) \
          to[k] = name##_scalar(from + k * pitch, steps); \
    } \
    for (; r < rows; r++) \
      to[r] = name##_scalar(from + r * pitch, steps); \
  }

//@ lz_short_sum_@S [floats]
lz_short_folds_@S(lz_short_sum_@S, lz_short_add_@S, lz_short_add_@S, (lz_@S)0)

//@ lz_short_max_@S [floats]
lz_short_folds_@S(lz_short_max_@S, lz_short_most_@S, lz_fold_maximum_@S, -LZ_INF_@N)

//@ lz_short_min_@S [floats]
lz_short_folds_@S(lz_short_min_@S, lz_short_least_@S, lz_fold_minimum_@S, LZ_INF_@N)

//@ lz_short_dot_@S [floats]
/* to[r] is the sum over k below ``steps`` of from[r * pitch + k] * with[k]. */
#define LZ_SHORT_DOT_HALF_@N(half, whole) \
  LZ_FN lz_@{eight|four}_@S lz_short_dot_@S_##half( \
      const lz_@S *row, const lz_@S *with, lz_i64 steps, lz_i64 first) \
  { \
    lz_@{eight|four}_@S x = lz_short_dot_@S_##whole(row, with, steps, first); \
    if (steps > first + half) \
      x = x + lz_short_dot_@S_##whole(row, with, steps, first + half); \
    return x; \
  }
LZ_FN lz_@{eight|four}_@S lz_short_dot_@S_64(
    const lz_@S *row, const lz_@S *with, lz_i64 steps, lz_i64 first)
{
  return lz_short_lanes_@S(row, first, steps, 0) * lz_short_lanes_@S(with, first, steps, 0);
}
LZ_SHORT_DOT_HALF_@N(32, 64) LZ_SHORT_DOT_HALF_@N(16, 32) LZ_SHORT_DOT_HALF_@N(8, 16)
@{|LZ_SHORT_DOT_HALF_F64(4, 8)}
static __attribute__((noinline, unused)) lz_@S lz_short_dot_@S_scalar(
    const lz_@S *row, const lz_@S *with, lz_i64 steps)
{
  lz_@S lane[32];
  for (lz_i64 l = 0; l < 32; l++)
  {
    lane[l] = 0;
    for (lz_i64 k = l; k < steps; k += 32)
      lane[l] = lane[l] + row[k] * with[k];
  }
  for (lz_i64 h = 16; h > 0; h /= 2)
    for (lz_i64 l = 0; l < h; l++)
      lane[l] = lane[l] + lane[l + h];
  return lane[0];
}
LZ_FN void lz_short_dot_@S(
    lz_i64 rows, lz_i64 steps, const lz_@S *__restrict__ from, lz_i64 pitch,
    lz_@S *__restrict__ to, const lz_@S *__restrict__ with)
{
  lz_i64 r = 0;
  for (; r + @{8|4} <= rows; r += @{8|4})
  {
    const lz_@S *row = from + r * pitch;
    const lz_@{eight|four}_@S a0 = lz_short_dot_@S_@{8|4}(row, with, steps, 0),
        a1 = lz_short_dot_@S_@{8|4}(row + pitch, with, steps, 0),
        a2 = lz_short_dot_@S_@{8|4}(row + 2 * pitch, with, steps, 0),
        a3 = lz_short_dot_@S_@{8|4}(row + 3 * pitch, with, steps, 0);
    @{const lz_eight_f32 a4 = lz_short_dot_f32_8(row + 4 * pitch, with, steps, 0),
        a5 = lz_short_dot_f32_8(row + 5 * pitch, with, steps, 0),
        a6 = lz_short_dot_f32_8(row + 6 * pitch, with, steps, 0),
        a7 = lz_short_dot_f32_8(row + 7 * pitch, with, steps, 0);|}
    lz_short_turn_@S(lz_short_add_@S, d)
    *(lz_@{eight|four}_@S *)(to + r) = d;
  }
  for (; r < rows; r++)
    to[r] = lz_short_dot_@S_scalar(from + r * pitch, with, steps);
}

//@ lz_short_first_@S [floats]
/* The first element of a row that equals ``most`` or is NaN; there is one. */
LZ_FN lz_i64 lz_short_first_@S(const lz_@S *row, lz_i64 steps, lz_@S most)
{
  lz_u64 found = 0;
#pragma GCC unroll 16
  for (lz_i64 k = 0; k < 64; k += @{8|4})
    if (k < steps)
    {
      const lz_@{eight|four}_@S x = lz_short_lanes_@S(row, k, steps, most);
      found |= (lz_u64)lz_short_any_@S((x == most) | (x != x)) << k;
    }
  return __builtin_ctzll(found);
}

//@ lz_short_argmax_@S [floats]
/* The positions of the rows' largest elements, the first of equal ones; NaN is the largest. */
LZ_FN void lz_short_argmax_@S(
    lz_i64 rows, lz_i64 steps, const lz_@S *__restrict__ from, lz_i64 pitch, lz_i64 *__restrict__ to)
{
  lz_@S most[64];
  for (lz_i64 r = 0; r < rows; r += 64)
  {
    const lz_i64 count = rows - r < 64 ? rows - r : 64;
    lz_short_max_@S(count, steps, from + r * pitch, pitch, most);
    for (lz_i64 k = 0; k < count; k++)
      to[r + k] = lz_short_first_@S(from + (r + k) * pitch, steps, most[k]);
  }
}

//@ lz_short_argmin_@S [floats]
/* The positions of the rows' least elements, the first of equal ones; NaN is the least. */
LZ_FN void lz_short_argmin_@S(
    lz_i64 rows, lz_i64 steps, const lz_@S *__restrict__ from, lz_i64 pitch, lz_i64 *__restrict__ to)
{
  lz_@S most[64];
  for (lz_i64 r = 0; r < rows; r += 64)
  {
    const lz_i64 count = rows - r < 64 ? rows - r : 64;
    lz_short_min_@S(count, steps, from + r * pitch, pitch, most);
    for (lz_i64 k = 0; k < count; k++)
      to[r + k] = lz_short_first_@S(from + (r + k) * pitch, steps, most[k]);
  }
}
