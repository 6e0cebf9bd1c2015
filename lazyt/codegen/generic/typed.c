// Instructions over elements of type @S, which are computed as @C. What stands between two marks is
// for one op, and for each kind of it, @K, with the unit @I and the fold @F of a and b.

typedef lz_@S lz_stored_@S __attribute__((may_alias));

//@reduce
static LZ_OWN lz_@C lz_generic_lanes_@K_@S(lz_@C *lane) {
  for (int half = LZ_FOLD_LANES / 2; half; half /= 2)
    for (int l = 0; l < half; l++) {
      const lz_@C a = lane[l], b = lane[l + half];
      lane[l] = @F;
    }
  return lane[0];
}

static LZ_OWN lz_@C lz_generic_block_@K_@S(const char *from, lz_i64 stride, lz_i64 count) {
  lz_@C lane[LZ_FOLD_LANES];
  lz_i64 k = 0;
  for (int l = 0; l < LZ_FOLD_LANES; l++) lane[l] = @I;
  if (stride == sizeof(lz_@S)) {
    const lz_stored_@S *x = (const lz_stored_@S *)from;
    for (; k + LZ_FOLD_LANES <= count; k += LZ_FOLD_LANES)
      for (int l = 0; l < LZ_FOLD_LANES; l++) {
        const lz_@C a = lane[l], b = @L(x[k + l]);
        lane[l] = @F;
      }
  }
  for (; k < count; k++) {
    const lz_@C a = lane[k % LZ_FOLD_LANES], b = @L(*(const lz_stored_@S *)(from + k * stride));
    lane[k % LZ_FOLD_LANES] = @F;
  }
  return lz_generic_lanes_@K_@S(lane);
}

static LZ_OWN lz_@C lz_generic_fold_@K_@S(const char *from, lz_i64 stride, lz_i64 count) {
  lz_@C lane[LZ_FOLD_LEVELS][LZ_FOLD_LANES], result;
  lz_i64 filled[LZ_FOLD_LEVELS] = {0};
  int levels = 0;
  if (count <= LZ_FOLD_BLOCK) return lz_generic_block_@K_@S(from, stride, count);
  for (lz_i64 rest = count; rest > LZ_FOLD_BLOCK; rest = (rest + LZ_FOLD_BLOCK - 1) / LZ_FOLD_BLOCK) levels++;
  for (int j = 0; j < LZ_FOLD_LEVELS; j++)
    for (int l = 0; l < LZ_FOLD_LANES; l++) lane[j][l] = @I;
  for (lz_i64 begin = 0; begin < count; begin += LZ_FOLD_BLOCK) {
    const lz_i64 size = count - begin < LZ_FOLD_BLOCK ? count - begin : LZ_FOLD_BLOCK;
    result = lz_generic_block_@K_@S(from + begin * stride, stride, size);
    for (int j = 0; j < levels; j++) {
      const lz_@C a = lane[j][filled[j] % LZ_FOLD_LANES], b = result;
      lane[j][filled[j] % LZ_FOLD_LANES] = @F;
      if (++filled[j] < LZ_FOLD_BLOCK && begin + LZ_FOLD_BLOCK < count) break;
      result = lz_generic_lanes_@K_@S(lane[j]);
      filled[j] = 0;
      for (int l = 0; l < LZ_FOLD_LANES; l++) lane[j][l] = @I;
    }
  }
  return result;
}

// As many columns without gaps at once.
static LZ_OWN void lz_generic_columns_@K_@S(const char *from, lz_i64 stride, lz_i64 count, lz_i64 columns,
                                     lz_stored_@S *to) {
  lz_@C lane[LZ_FOLD_LEVELS][LZ_FOLD_LANES][LZ_FOLD_COLUMNS];
  lz_i64 filled[LZ_FOLD_LEVELS] = {0};
  int levels = 1;
  for (lz_i64 rest = count; rest > LZ_FOLD_BLOCK; rest = (rest + LZ_FOLD_BLOCK - 1) / LZ_FOLD_BLOCK) levels++;
  // Of few elements most lanes would hold the unit, which changes nothing.
  const int used = count < LZ_FOLD_LANES ? (int)count : LZ_FOLD_LANES;
  for (int j = 0; j < levels; j++)
    for (int l = 0; l < used; l++)
      for (int c = 0; c < LZ_FOLD_COLUMNS; c++) lane[j][l][c] = @I;
  for (lz_i64 k = 0; k < count; k++) {
    lz_@C *sum = lane[0][filled[0] % LZ_FOLD_LANES];
    const lz_stored_@S *x = (const lz_stored_@S *)(from + k * stride);
    for (lz_i64 c = 0; c < columns; c++) {
      const lz_@C a = sum[c], b = @L(x[c]);
      sum[c] = @F;
    }
    for (int j = 0; ++filled[j] == LZ_FOLD_BLOCK || k + 1 == count; j++) {
      for (int half = LZ_FOLD_LANES / 2; half; half /= 2)
        for (int l = 0; l < half && l + half < used; l++)
          for (int c = 0; c < LZ_FOLD_COLUMNS; c++) {
            const lz_@C a = lane[j][l][c], b = lane[j][l + half][c];
            lane[j][l][c] = @F;
          }
      if (j + 1 == levels) {
        for (lz_i64 c = 0; c < columns; c++) to[c] = @P(lane[j][0][c]);
        break;
      }
      for (int c = 0; c < LZ_FOLD_COLUMNS; c++) {
        const lz_@C a = lane[j + 1][filled[j + 1] % LZ_FOLD_LANES][c], b = lane[j][0][c];
        lane[j + 1][filled[j + 1] % LZ_FOLD_LANES][c] = @F;
      }
      for (int l = 0; l < LZ_FOLD_LANES; l++)
        for (int c = 0; c < LZ_FOLD_COLUMNS; c++) lane[j][l][c] = @I;
      filled[j] = 0;
    }
  }
}

static LZ_OWN lz_@C lz_generic_join_@K_@S(const lz_@C *part, lz_i64 count) {
  lz_@C lane[LZ_FOLD_LEVELS][LZ_FOLD_LANES], result = @I;
  lz_i64 filled[LZ_FOLD_LEVELS] = {0};
  int levels = 1;
  for (lz_i64 rest = count; rest > LZ_FOLD_BLOCK; rest = (rest + LZ_FOLD_BLOCK - 1) / LZ_FOLD_BLOCK) levels++;
  for (int j = 0; j < levels; j++)
    for (int l = 0; l < LZ_FOLD_LANES; l++) lane[j][l] = @I;
  for (lz_i64 k = 0; k < count; k++) {
    result = part[k];
    for (int j = 0; j < levels; j++) {
      const lz_@C a = lane[j][filled[j] % LZ_FOLD_LANES], b = result;
      lane[j][filled[j] % LZ_FOLD_LANES] = @F;
      if (++filled[j] < LZ_FOLD_BLOCK && k + 1 < count) break;
      result = lz_generic_lanes_@K_@S(lane[j]);
      filled[j] = 0;
      for (int l = 0; l < LZ_FOLD_LANES; l++) lane[j][l] = @I;
    }
  }
  return result;
}
//@

// reduce_K: extent and stride of the axis, results, rank and extent of the last other axis, to,
// from, scratch for one result of each block, extents and strides of the other axes.
//@reduce
static void lz_generic_reduce_@K_@S(const lz_i64 *w, char **slots, int threads,
                                    const void **table) {
  const lz_i64 count = w[2], stride = w[3], results = w[4], rank = w[5], last = w[6];
  const lz_i64 *extents = w + 13, *strides = extents + rank;
  lz_stored_@S *to = (lz_stored_@S *)LZ_PLACE(7);
  const char *from = LZ_PLACE(9);
  const int heavy = threads > 1 && results * count > 200000;
  if (rank && strides[rank - 1] == sizeof(lz_@S) && stride != sizeof(lz_@S) && last > 1) {
    const lz_i64 pieces = (last + LZ_FOLD_COLUMNS - 1) / LZ_FOLD_COLUMNS;
#pragma omp parallel for num_threads(threads) if(heavy) schedule(static)
    for (lz_i64 n = 0; n < results / last * pieces; n++) {
      const lz_i64 row = n / pieces, at = n % pieces * LZ_FOLD_COLUMNS;
      lz_generic_columns_@K_@S(
          lz_generic_row(from, row, rank - 1, extents, strides) + at * sizeof(lz_@S), stride,
          count, last - at < LZ_FOLD_COLUMNS ? last - at : LZ_FOLD_COLUMNS, to + row * last + at);
    }
  } else if (heavy && results < 2 * threads && count > 16 * LZ_FOLD_BLOCK) {
    const lz_i64 blocks = (count + LZ_FOLD_BLOCK - 1) / LZ_FOLD_BLOCK;
    lz_@C *part = (lz_@C *)LZ_PLACE(11);
    for (lz_i64 n = 0; n < results; n++) {
      const char *row = lz_generic_row(from, n, rank, extents, strides);
#pragma omp parallel for num_threads(threads) schedule(static)
      for (lz_i64 q = 0; q < blocks; q++)
        part[q] = lz_generic_block_@K_@S(
            row + q * LZ_FOLD_BLOCK * stride, stride,
            count - q * LZ_FOLD_BLOCK < LZ_FOLD_BLOCK ? count - q * LZ_FOLD_BLOCK : LZ_FOLD_BLOCK);
      to[n] = @P(lz_generic_join_@K_@S(part, blocks));
    }
  } else {
#pragma omp parallel for num_threads(threads) if(heavy) schedule(static)
    for (lz_i64 n = 0; n < results; n++)
      to[n] = @P(lz_generic_fold_@K_@S(lz_generic_row(from, n, rank, extents, strides), stride,
                                       count));
  }
}
//@

// first_K: as reduce_K, without scratch: the position of the first extreme; NaN is one.
//@first
static void lz_generic_first_@K_@S(const lz_i64 *w, char **slots, int threads,
                                   const void **table) {
  const lz_i64 count = w[2], stride = w[3], results = w[4], rank = w[5];
  const lz_i64 *extents = w + 13, *strides = extents + rank;
  lz_i64 *to = (lz_i64 *)LZ_PLACE(7);
  const char *from = LZ_PLACE(9);
#pragma omp parallel for num_threads(threads) if(threads > 1 && results * count > 200000) \
    schedule(static)
  for (lz_i64 n = 0; n < results; n++) {
    const char *row = lz_generic_row(from, n, rank, extents, strides);
    lz_@C best = @L(*(const lz_stored_@S *)row);
    lz_i64 place = 0;
    for (lz_i64 k = 1; k < count && best == best; k++) {
      const lz_@C value = @L(*(const lz_stored_@S *)(row + k * stride));
      if (value @< best || value != value) {
        best = value;
        place = k;
      }
    }
    to[n] = place;
  }
}
//@

// scan_K: extent of the axis, its stride in what is written and read, rows, rank, to, from; extents,
// strides of to and strides of from of the other axes. Kept in @W.
//@scan
static void lz_generic_scan_@K_@S(const lz_i64 *w, char **slots, int threads,
                                  const void **table) {
  const lz_i64 count = w[2], pace = w[3], stride = w[4], rows = w[5], rank = w[6];
  const lz_i64 *extents = w + 11, *paces = extents + rank, *strides = paces + rank;
  char *to = LZ_PLACE(7);
  const char *from = LZ_PLACE(9);
#pragma omp parallel for num_threads(threads) if(threads > 1 && rows * count > 200000) \
    schedule(static)
  for (lz_i64 n = 0; n < rows; n++) {
    const char *x = lz_generic_row(from, n, rank, extents, strides);
    char *y = (char *)lz_generic_row(to, n, rank, extents, paces);
    lz_@W a = @I;
    for (lz_i64 k = 0; k < count; k++) {
      const lz_@W b = (lz_@W)@L(*(const lz_stored_@S *)(x + k * stride));
      a = @F;
      *(lz_stored_@S *)(y + k * pace) = @P((lz_@C)a);
    }
  }
}
//@

// scatter_K: batches, rows before the axis, extent of the axis, elements behind it, positions of a
// batch, to (which holds the base), positions (int64), updates. All without gaps.
//@scatter
static void lz_generic_scatter_@K_@S(const lz_i64 *w, char **slots, int threads,
                                     const void **table) {
  const lz_i64 batches = w[2], rows = w[3], extent = w[4], behind = w[5], count = w[6];
  lz_stored_@S *to = (lz_stored_@S *)LZ_PLACE(7);
  const lz_i64 *index = (const lz_i64 *)LZ_PLACE(9);
  const lz_stored_@S *from = (const lz_stored_@S *)LZ_PLACE(11);
#pragma omp parallel for num_threads(threads) schedule(static) \
    if(threads > 1 && batches * rows > 1 && batches * rows * count * behind > 200000)
  for (lz_i64 row = 0; row < batches * rows; row++) {
    const lz_i64 *places = index + row / rows * count;
    lz_stored_@S *target = to + row * extent * behind;
    const lz_stored_@S *update = from + row * count * behind;
    for (lz_i64 j = 0; j < count; j++, update += behind) {
      lz_i64 k = places[j] < extent - 1 ? places[j] : extent - 1;
      k = (k > 0 ? k : 0) * behind;
      for (lz_i64 q = 0; q < behind; q++) {
        const lz_@C a = @L(target[k + q]), b = @L(update[q]);
        target[k + q] = @P(@F);
      }
    }
  }
}
//@
