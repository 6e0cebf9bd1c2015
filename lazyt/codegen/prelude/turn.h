//@ lz_eight_@S [f32 i32 u32]
typedef lz_@S lz_eight_@S __attribute__((vector_size(32), aligned(4), may_alias));

//@ lz_across_@S [f32 i32 u32]
/* Rows become columns: to[c * width + r] = from[r * pitch + c]. Whole lines of the side whose rows
   lie further apart are used up before the next ones. Of rows that lie far apart the next lines are
   asked for: no processor expects them, and whoever turns a tile mostly turns the one behind it. */
static __attribute__((noinline, unused)) void lz_across_@S(
    lz_i64 rows, lz_i64 columns, const lz_@S *__restrict__ from, lz_i64 pitch,
    lz_@S *__restrict__ to, lz_i64 width)
{
  const lz_i64 line = 64 / (lz_i64)sizeof(lz_@S);
  const int turned = pitch < width, far = !turned && pitch >= 16 * line;
  const lz_i64 outer = turned ? columns : rows, inner = turned ? rows : columns;
  for (lz_i64 o = 0; o < outer; o += 8)
    for (lz_i64 i = 0; i < inner; i += 8)
    {
      const lz_i64 r = turned ? i : o, c = turned ? o : i;
      const lz_@S *a = from + r * pitch + c;
      lz_@S *b = to + c * width + r;
      if (r + 8 > rows || c + 8 > columns)
      {
        const lz_i64 high = rows - r < 8 ? rows - r : 8, wide = columns - c < 8 ? columns - c : 8;
        for (lz_i64 y = 0; y < wide; y++)
          for (lz_i64 x = 0; x < high; x++)
            b[y * width + x] = a[x * pitch + y];
        continue;
      }
      if (far && i % line == 0)
        for (int n = 0; n < 8; n++) __builtin_prefetch(a + n * pitch + columns, 0, 2);
#define LZ_ROW(n) const lz_eight_@S a##n = *(const lz_eight_@S *)(a + n * pitch);
      LZ_ROW(0) LZ_ROW(1) LZ_ROW(2) LZ_ROW(3) LZ_ROW(4) LZ_ROW(5) LZ_ROW(6) LZ_ROW(7)
#undef LZ_ROW
#define LZ_PAIR(x, y, first, second) \
  const lz_eight_@S first = __builtin_shufflevector(x, y, 0, 8, 1, 9, 4, 12, 5, 13); \
  const lz_eight_@S second = __builtin_shufflevector(x, y, 2, 10, 3, 11, 6, 14, 7, 15);
      LZ_PAIR(a0, a1, b0, b1) LZ_PAIR(a2, a3, b2, b3) LZ_PAIR(a4, a5, b4, b5)
      LZ_PAIR(a6, a7, b6, b7)
#undef LZ_PAIR
#define LZ_FOUR(x, y, first, second) \
  const lz_eight_@S first = __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13); \
  const lz_eight_@S second = __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15);
      LZ_FOUR(b0, b2, c0, c1) LZ_FOUR(b1, b3, c2, c3) LZ_FOUR(b4, b6, c4, c5)
      LZ_FOUR(b5, b7, c6, c7)
#undef LZ_FOUR
#define LZ_HALF(n, x, y) \
  *(lz_eight_@S *)(b + n * width) = __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11); \
  *(lz_eight_@S *)(b + (n + 4) * width) = \
      __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15);
      LZ_HALF(0, c0, c4) LZ_HALF(1, c1, c5) LZ_HALF(2, c2, c6) LZ_HALF(3, c3, c7)
#undef LZ_HALF
    }
}

//@ lz_four_@S [f64 i64 u64]
typedef lz_@S lz_four_@S __attribute__((vector_size(32), aligned(8), may_alias));

//@ lz_across_@S [f64 i64 u64]
/* As for 32 bits: four by four, as no vector is longer than 32 bytes everywhere. */
static __attribute__((noinline, unused)) void lz_across_@S(
    lz_i64 rows, lz_i64 columns, const lz_@S *__restrict__ from, lz_i64 pitch,
    lz_@S *__restrict__ to, lz_i64 width)
{
  const lz_i64 line = 64 / (lz_i64)sizeof(lz_@S);
  const int turned = pitch < width, far = !turned && pitch >= 16 * line;
  const lz_i64 outer = turned ? columns : rows, inner = turned ? rows : columns;
  for (lz_i64 o = 0; o < outer; o += 4)
    for (lz_i64 i = 0; i < inner; i += 4)
    {
      const lz_i64 r = turned ? i : o, c = turned ? o : i;
      const lz_@S *a = from + r * pitch + c;
      lz_@S *b = to + c * width + r;
      if (r + 4 > rows || c + 4 > columns)
      {
        const lz_i64 high = rows - r < 4 ? rows - r : 4, wide = columns - c < 4 ? columns - c : 4;
        for (lz_i64 y = 0; y < wide; y++)
          for (lz_i64 x = 0; x < high; x++)
            b[y * width + x] = a[x * pitch + y];
        continue;
      }
      if (far && i % line == 0)
        for (int n = 0; n < 4; n++) __builtin_prefetch(a + n * pitch + columns, 0, 2);
#define LZ_ROW(n) const lz_four_@S a##n = *(const lz_four_@S *)(a + n * pitch);
      LZ_ROW(0) LZ_ROW(1) LZ_ROW(2) LZ_ROW(3)
#undef LZ_ROW
#define LZ_PAIR(x, y, first, second) \
  const lz_four_@S first = __builtin_shufflevector(x, y, 0, 4, 2, 6); \
  const lz_four_@S second = __builtin_shufflevector(x, y, 1, 5, 3, 7);
      LZ_PAIR(a0, a1, b0, b1) LZ_PAIR(a2, a3, b2, b3)
#undef LZ_PAIR
#define LZ_HALF(n, x, y) \
  *(lz_four_@S *)(b + n * width) = __builtin_shufflevector(x, y, 0, 1, 4, 5); \
  *(lz_four_@S *)(b + (n + 2) * width) = __builtin_shufflevector(x, y, 2, 3, 6, 7);
      LZ_HALF(0, b0, b2) LZ_HALF(1, b1, b3)
#undef LZ_HALF
    }
}

//@ lz_eight_@S [i8 i16 u8 u16]
typedef lz_@S lz_eight_@S
    __attribute__((vector_size(8 * sizeof(lz_@S)), aligned(sizeof(lz_@S)), may_alias));

//@ lz_across_@S [i8 i16 u8 u16]
/* As for 32 bits: eight rows are interleaved three times. */
static __attribute__((noinline, unused)) void lz_across_@S(
    lz_i64 rows, lz_i64 columns, const lz_@S *__restrict__ from, lz_i64 pitch,
    lz_@S *__restrict__ to, lz_i64 width)
{
  const lz_i64 line = 64 / (lz_i64)sizeof(lz_@S);
  const int turned = pitch < width, far = !turned && pitch >= 16 * line;
  const lz_i64 outer = turned ? columns : rows, inner = turned ? rows : columns;
  for (lz_i64 o = 0; o < outer; o += 8)
    for (lz_i64 i = 0; i < inner; i += 8)
    {
      const lz_i64 r = turned ? i : o, c = turned ? o : i;
      const lz_@S *a = from + r * pitch + c;
      lz_@S *b = to + c * width + r;
      if (r + 8 > rows || c + 8 > columns)
      {
        const lz_i64 high = rows - r < 8 ? rows - r : 8, wide = columns - c < 8 ? columns - c : 8;
        for (lz_i64 y = 0; y < wide; y++)
          for (lz_i64 x = 0; x < high; x++)
            b[y * width + x] = a[x * pitch + y];
        continue;
      }
      if (far && i % line == 0)
        for (int n = 0; n < 8; n++) __builtin_prefetch(a + n * pitch + columns, 0, 2);
#define LZ_ROW(n) const lz_eight_@S a##n = *(const lz_eight_@S *)(a + n * pitch);
      LZ_ROW(0) LZ_ROW(1) LZ_ROW(2) LZ_ROW(3) LZ_ROW(4) LZ_ROW(5) LZ_ROW(6) LZ_ROW(7)
#undef LZ_ROW
#define LZ_PAIR(x, y, first, second) \
  const lz_eight_@S first = __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11); \
  const lz_eight_@S second = __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
      LZ_PAIR(a0, a4, b0, b1) LZ_PAIR(a1, a5, b2, b3) LZ_PAIR(a2, a6, b4, b5)
      LZ_PAIR(a3, a7, b6, b7)
      LZ_PAIR(b0, b4, c0, c1) LZ_PAIR(b1, b5, c2, c3) LZ_PAIR(b2, b6, c4, c5)
      LZ_PAIR(b3, b7, c6, c7)
      LZ_PAIR(c0, c4, d0, d1) LZ_PAIR(c1, c5, d2, d3) LZ_PAIR(c2, c6, d4, d5)
      LZ_PAIR(c3, c7, d6, d7)
#undef LZ_PAIR
#define LZ_LINE(n) *(lz_eight_@S *)(b + n * width) = d##n;
      LZ_LINE(0) LZ_LINE(1) LZ_LINE(2) LZ_LINE(3) LZ_LINE(4) LZ_LINE(5) LZ_LINE(6) LZ_LINE(7)
#undef LZ_LINE
    }
}
