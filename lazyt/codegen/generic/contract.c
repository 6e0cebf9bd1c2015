// contract: a sum of products of @S, in increasing k, one fused multiply-add a step. Operands are
// packed: panels of LZ_TALL rows and of LZ_WIDE columns, each with all of k, so that a tile of sums
// stays in registers.
//
// Words: batches, rows, columns, inner steps; numbers of axes of each; to, left, right, scratch;
// how many products scratch has room for at a time; then of every axis its extent and its strides in left, right and to.

typedef lz_@S lz_factor_@S __attribute__((may_alias));
enum { LZ_TALL_@S = @T, LZ_WIDE_@S = @V };

static LZ_OWN void lz_generic_pack_@S(lz_@C *to, const char *from, const lz_i64 *lines, lz_i64 count,
                               lz_i64 wide, const lz_i64 *steps, lz_i64 depth) {
  for (lz_i64 k = 0; k < depth; k++) {
    const char *at = from + steps[k];
    for (lz_i64 l = 0; l < count; l++)
      to[k * wide + l] = @L(*(const lz_factor_@S *)(at + lines[l]));
    for (lz_i64 l = count; l < wide; l++) to[k * wide + l] = 0;
  }
}

static void lz_generic_contract_@S(const lz_i64 *w, char **slots, int threads,
                                   const void **table) {
  const lz_i64 batches = w[2], rows = w[3], columns = w[4], depth = w[5];
  const lz_i64 *axes = w + 19, *row_axes = axes + 4 * w[6];
  const lz_i64 *column_axes = row_axes + 4 * w[7], *inner_axes = column_axes + 4 * w[8];
  char *to = LZ_PLACE(10);
  const char *left = LZ_PLACE(12), *right = LZ_PLACE(14);
  lz_i64 *batch[3], *row[2], *column[2], *inner[2];
  lz_i64 *next = (lz_i64 *)LZ_PLACE(16);
  for (int n = 0; n < 3; n++, next += batches) {
    batch[n] = next;
    lz_generic_offsets(next, batches, w[6], axes, n + 1);
  }
  for (int n = 0; n < 2; n++, next += rows) {
    row[n] = next;
    lz_generic_offsets(next, rows, w[7], row_axes, n ? 3 : 1);
  }
  for (int n = 0; n < 2; n++, next += columns) {
    column[n] = next;
    lz_generic_offsets(next, columns, w[8], column_axes, n ? 3 : 2);
  }
  for (int n = 0; n < 2; n++, next += depth) {
    inner[n] = next;
    lz_generic_offsets(next, depth, w[9], inner_axes, n + 1);
  }
  const double work = (double)rows * columns * depth;
  if (work < 2048 || columns < 3) {
#pragma omp parallel for num_threads(threads) schedule(static) \
    if(threads > 1 && batches * rows > 1 && work * batches > 500000)
    for (lz_i64 n = 0; n < batches * rows; n++) {
      const lz_i64 b = n / rows, r = n % rows;
      const char *x = left + batch[0][b] + row[0][r], *y = right + batch[1][b];
      char *z = to + batch[2][b] + row[1][r];
      for (lz_i64 c = 0; c < columns; c++) {
        lz_@C sum = 0;
        for (lz_i64 k = 0; k < depth; k++) {
          const lz_@C a = @L(*(const lz_factor_@S *)(x + inner[0][k]));
          const lz_@C b = @L(*(const lz_factor_@S *)(y + column[0][c] + inner[1][k]));
          sum = @M(a, b, sum);
        }
        *(lz_factor_@S *)(z + column[1][c]) = @P(sum);
      }
    }
    return;
  }
  const lz_i64 tall = (rows + LZ_TALL_@S - 1) / LZ_TALL_@S;
  const lz_i64 wide = (columns + LZ_WIDE_@S - 1) / LZ_WIDE_@S;
  // Each thread has an area of its own where whole products of a batch are shared out.
  const lz_i64 panels = (tall * LZ_TALL_@S * depth + 15) / 16 * 16;
  const lz_i64 area = panels + (wide * LZ_WIDE_@S * depth + 15) / 16 * 16;
  lz_@C *areas = (lz_@C *)(((lz_u64)next + 63) / 64 * 64);
  const int outer = threads > 1 && batches >= threads && work * batches > 500000;
  const int inner_threads = threads > 1 && !outer && work > 500000 ? threads : 1;
  const lz_i64 most = w[18] < threads ? w[18] : threads;
#pragma omp parallel for num_threads((int)most) schedule(static) if(outer)
  for (lz_i64 part = 0; part < (outer ? most : 1); part++) {
    lz_@C *left_panels = areas + part * area, *right_panels = left_panels + panels;
    const lz_i64 parts = outer ? most : 1;
    for (lz_i64 b = batches * part / parts; b < batches * (part + 1) / parts; b++) {
      const char *x = left + batch[0][b], *y = right + batch[1][b];
#pragma omp parallel for num_threads(inner_threads) schedule(static) if(inner_threads > 1)
      for (lz_i64 n = 0; n < tall + wide; n++)
        if (n < tall) {
          const lz_i64 at = n * LZ_TALL_@S, count = rows - at;
          lz_generic_pack_@S(left_panels + at * depth, x, row[0] + at,
                             count < LZ_TALL_@S ? count : LZ_TALL_@S, LZ_TALL_@S, inner[0], depth);
        } else {
          const lz_i64 at = (n - tall) * LZ_WIDE_@S, count = columns - at;
          lz_generic_pack_@S(right_panels + at * depth, y, column[0] + at,
                             count < LZ_WIDE_@S ? count : LZ_WIDE_@S, LZ_WIDE_@S, inner[1], depth);
        }
#pragma omp parallel for num_threads(inner_threads) schedule(dynamic, 4) if(inner_threads > 1)
      for (lz_i64 n = 0; n < tall * wide; n++) {
        lz_@C sums[LZ_TALL_@S * LZ_WIDE_@S] __attribute__((aligned(64)));
        const lz_i64 r = n % tall * LZ_TALL_@S, c = n / tall * LZ_WIDE_@S;
        lz_generic_tile_@S(left_panels + r * depth, right_panels + c * depth, depth, sums);
        const lz_i64 height = rows - r < LZ_TALL_@S ? rows - r : LZ_TALL_@S;
        const lz_i64 width = columns - c < LZ_WIDE_@S ? columns - c : LZ_WIDE_@S;
        for (lz_i64 i = 0; i < height; i++) {
          char *z = to + batch[2][b] + row[1][r + i];
          for (lz_i64 j = 0; j < width; j++)
            *(lz_factor_@S *)(z + column[1][c + j]) = @P(sums[i * LZ_WIDE_@S + j]);
        }
      }
    }
  }
}
