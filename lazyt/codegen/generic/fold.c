// Folds of one axis, whatever is folded: in the order of reduction_levels in ir/kernel.py.

// By halves: the first of the lanes then holds the result.
static LZ_OWN void lz_fold_lanes(const struct lz_fold *f, char *lane) {
  for (lz_i64 half = LZ_FOLD_LANES / 2; half; half /= 2)
    f->join(lane, lane + half * f->computed, half);
}

// A row; of one whose blocks are folded already, `parts` are their results.
static LZ_OWN void lz_fold_row(const struct lz_fold *f, void *result, const char *from,
                               lz_i64 stride, lz_i64 count, const char *parts) {
  char lane[LZ_FOLD_LEVELS][LZ_FOLD_LANES * 8] __attribute__((aligned(64)));
  lz_i64 filled[LZ_FOLD_LEVELS] = {0};
  const lz_i64 size = f->computed;
  int levels = 0;
  if (count <= LZ_FOLD_BLOCK) {
    f->block(result, from, stride, count);
    return;
  }
  for (lz_i64 rest = count; rest > LZ_FOLD_BLOCK; rest = (rest + LZ_FOLD_BLOCK - 1) / LZ_FOLD_BLOCK) levels++;
  for (int j = 0; j < levels; j++) f->clear(lane[j], LZ_FOLD_LANES);
  for (lz_i64 begin = 0; begin < count; begin += LZ_FOLD_BLOCK) {
    const lz_i64 some = count - begin < LZ_FOLD_BLOCK ? count - begin : LZ_FOLD_BLOCK;
    if (parts)
      LZ_COPY(result, parts + begin / LZ_FOLD_BLOCK * size, size);
    else
      f->block(result, from + begin * stride, stride, some);
    for (int j = 0; j < levels; j++) {
      f->join(lane[j] + filled[j] % LZ_FOLD_LANES * size, result, 1);
      if (++filled[j] < LZ_FOLD_BLOCK && begin + LZ_FOLD_BLOCK < count) break;
      lz_fold_lanes(f, lane[j]);
      LZ_COPY(result, lane[j], size);
      filled[j] = 0;
      f->clear(lane[j], LZ_FOLD_LANES);
    }
  }
}

// As many columns without gaps at once.
static LZ_OWN void lz_fold_columns(const struct lz_fold *f, char *to, const char *from,
                                   lz_i64 stride, lz_i64 count, lz_i64 columns) {
  enum { LZ_ROW = LZ_FOLD_COLUMNS * 8, LZ_LEVEL = LZ_FOLD_LANES * LZ_ROW };
  char lane[LZ_FOLD_LEVELS * LZ_LEVEL] __attribute__((aligned(64)));
  lz_i64 filled[LZ_FOLD_LEVELS] = {0};
  const lz_i64 row = LZ_FOLD_COLUMNS * f->computed;
  int levels = 1;
  for (lz_i64 rest = count; rest > LZ_FOLD_BLOCK; rest = (rest + LZ_FOLD_BLOCK - 1) / LZ_FOLD_BLOCK) levels++;
  // Of few elements most lanes would hold the unit, which changes nothing.
  const lz_i64 used = count < LZ_FOLD_LANES ? count : LZ_FOLD_LANES;
  for (int j = 0; j < levels; j++) f->clear(lane + j * LZ_LEVEL, used * LZ_FOLD_COLUMNS);
  for (lz_i64 k = 0; k < count; k++) {
    f->step(lane + filled[0] % LZ_FOLD_LANES * row, from + k * stride, columns);
    for (int j = 0; ++filled[j] == LZ_FOLD_BLOCK || k + 1 == count; j++) {
      char *own = lane + j * LZ_LEVEL;
      for (lz_i64 half = LZ_FOLD_LANES / 2; half; half /= 2) {
        const lz_i64 pairs = used - half < half ? used - half : half;
        if (pairs > 0) f->join(own, own + half * row, pairs * LZ_FOLD_COLUMNS);
      }
      if (j + 1 == levels) {
        f->store(to, own, columns);
        break;
      }
      f->join(own + LZ_LEVEL + filled[j + 1] % LZ_FOLD_LANES * row, own, LZ_FOLD_COLUMNS);
      f->clear(own, LZ_FOLD_LANES * LZ_FOLD_COLUMNS);
      filled[j] = 0;
    }
  }
}

// reduce_K: extent and stride of the axis, results, rank and extent of the last other axis, to,
// from, scratch for one result of each block, extents and strides of the other axes.
static void lz_generic_fold(const struct lz_fold *f, const lz_i64 *w, char **slots, int threads) {
  const lz_i64 count = w[2], stride = w[3], results = w[4], rank = w[5], last = w[6];
  const lz_i64 *extents = w + 13, *strides = extents + rank;
  const lz_i64 size = f->stored;
  char *to = LZ_PLACE(7);
  const char *from = LZ_PLACE(9);
  const int heavy = threads > 1 && results * count > 200000;
  if (rank && strides[rank - 1] == size && stride != size && last >= LZ_FOLD_FEW) {
    const lz_i64 pieces = (last + LZ_FOLD_COLUMNS - 1) / LZ_FOLD_COLUMNS;
#pragma omp parallel for num_threads(threads) if(heavy) schedule(static)
    for (lz_i64 n = 0; n < results / last * pieces; n++) {
      const lz_i64 row = n / pieces, at = n % pieces * LZ_FOLD_COLUMNS;
      lz_fold_columns(f, to + (row * last + at) * size,
                      lz_generic_row(from, row, rank - 1, extents, strides) + at * size, stride,
                      count, last - at < LZ_FOLD_COLUMNS ? last - at : LZ_FOLD_COLUMNS);
    }
  } else if (heavy && results < 2 * threads && count > 16 * LZ_FOLD_BLOCK) {
    const lz_i64 blocks = (count + LZ_FOLD_BLOCK - 1) / LZ_FOLD_BLOCK;
    char *part = LZ_PLACE(11);
    for (lz_i64 n = 0; n < results; n++) {
      const char *row = lz_generic_row(from, n, rank, extents, strides);
      lz_u64 result;
#pragma omp parallel for num_threads(threads) schedule(static)
      for (lz_i64 q = 0; q < blocks; q++)
        f->block(part + q * f->computed, row + q * LZ_FOLD_BLOCK * stride, stride,
                 count - q * LZ_FOLD_BLOCK < LZ_FOLD_BLOCK ? count - q * LZ_FOLD_BLOCK : LZ_FOLD_BLOCK);
      lz_fold_row(f, &result, row, stride, count, part);
      f->store(to + n * size, &result, 1);
    }
  } else {
#pragma omp parallel for num_threads(threads) if(heavy) schedule(static)
    for (lz_i64 begin = 0; begin < results; begin += LZ_WALK_ROWS) {
      const lz_i64 end = results - begin < LZ_WALK_ROWS ? results : begin + LZ_WALK_ROWS;
      struct lz_walk at;
      lz_walk_begin(&at, from, begin, rank, extents, strides);
      if (count <= LZ_FOLD_LANES) {
        f->rows(to + begin * size, &at, end - begin, stride, count);
        continue;
      }
      for (lz_i64 n = begin; n < end; n++, lz_walk_on(&at)) {
        lz_u64 result;
        lz_fold_row(f, &result, at.row, stride, count, 0);
        f->store(to + n * size, &result, 1);
      }
    }
  }
}
