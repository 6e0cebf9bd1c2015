// Instructions over elements of type @S, which are computed as @C. What stands between two marks is
// for one op, and for each kind of it, @K, with the unit @I and the fold @F of a and b.

typedef lz_@S lz_stored_@S __attribute__((may_alias));

// reduce_K: see fold.c, which folds rows by these.
//@reduce
static LZ_OWN void lz_fold_join_@K_@S(void *acc, const void *other, lz_i64 count) {
  lz_@C *restrict x = acc;
  const lz_@C *restrict y = other;
  for (lz_i64 i = 0; i < count; i++) {
    const lz_@C a = x[i], b = y[i];
    x[i] = @F;
  }
}

static void lz_fold_step_@K_@S(void *acc, const char *from, lz_i64 count) {
  lz_@C *restrict x = acc;
  const lz_stored_@S *restrict y = (const lz_stored_@S *)from;
  for (lz_i64 i = 0; i < count; i++) {
    const lz_@C a = x[i], b = @L(y[i]);
    x[i] = @F;
  }
}

static LZ_OWN void lz_fold_clear_@K_@S(void *acc, lz_i64 count) {
  lz_@C *restrict x = acc;
  for (lz_i64 i = 0; i < count; i++) x[i] = @I;
}

static void lz_fold_store_@K_@S(char *to, const void *from, lz_i64 count) {
  lz_stored_@S *restrict y = (lz_stored_@S *)to;
  const lz_@C *restrict x = from;
  for (lz_i64 i = 0; i < count; i++) y[i] = @P(x[i]);
}

static void lz_fold_block_@K_@S(void *result, const char *from, lz_i64 stride, lz_i64 count) {
  lz_@C lane[LZ_FOLD_LANES];
  lz_i64 k = 0;
  lz_fold_clear_@K_@S(lane, LZ_FOLD_LANES);
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
  for (int half = LZ_FOLD_LANES / 2; half; half /= 2) lz_fold_join_@K_@S(lane, lane + half, half);
  *(lz_@C *)result = lane[0];
}

// Some rows at once; the other lanes would hold the unit, which changes nothing.
static void lz_fold_rows_@K_@S(char *to, struct lz_walk *at, lz_i64 rows, lz_i64 stride,
                               lz_i64 count) {
  lz_@C lane[LZ_FOLD_LANES][LZ_FOLD_ROWS];
  for (lz_i64 n = 0; n < rows; n += LZ_FOLD_ROWS) {
    const lz_i64 some = rows - n < LZ_FOLD_ROWS ? rows - n : LZ_FOLD_ROWS;
    const char *from[LZ_FOLD_ROWS];
    for (lz_i64 r = 0; r < LZ_FOLD_ROWS; r++) {
      from[r] = at->row;
      if (r + 1 < some) lz_walk_on(at);
    }
    if (n + some < rows) lz_walk_on(at);
    for (lz_i64 k = 0; k < count; k++)
      for (int r = 0; r < LZ_FOLD_ROWS; r++) {
        const lz_@C a = @I, b = @L(*(const lz_stored_@S *)(from[r] + k * stride));
        lane[k][r] = @F;
      }
    for (lz_i64 half = LZ_FOLD_LANES / 2; half; half /= 2)
      for (lz_i64 l = 0; l < half && l + half < count; l++)
        for (int r = 0; r < LZ_FOLD_ROWS; r++) {
          const lz_@C a = lane[l][r], b = lane[l + half][r];
          lane[l][r] = @F;
        }
    for (lz_i64 r = 0; r < some; r++) ((lz_stored_@S *)to)[n + r] = @P(lane[0][r]);
  }
}

static const struct lz_fold lz_fold_@K_@S = {
    sizeof(lz_@S),       sizeof(lz_@C),       lz_fold_block_@K_@S, lz_fold_step_@K_@S,
    lz_fold_join_@K_@S,  lz_fold_clear_@K_@S, lz_fold_store_@K_@S, lz_fold_rows_@K_@S,
};

static void lz_generic_reduce_@K_@S(const lz_i64 *w, char **slots, int threads,
                                    const void **table) {
  ((lz_folding)table[@R])(&lz_fold_@K_@S, w, slots, threads);
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
  for (lz_i64 begin = 0; begin < results; begin += LZ_WALK_ROWS) {
    const lz_i64 end = results - begin < LZ_WALK_ROWS ? results : begin + LZ_WALK_ROWS;
    struct lz_walk at;
    lz_walk_begin(&at, from, begin, rank, extents, strides);
    for (lz_i64 n = begin; n < end; n++, lz_walk_on(&at)) {
      lz_@C best = @L(*(const lz_stored_@S *)at.row);
      lz_i64 place = 0;
      for (lz_i64 k = 1; k < count && best == best; k++) {
        const lz_@C value = @L(*(const lz_stored_@S *)(at.row + k * stride));
        if (value @< best || value != value) {
          best = value;
          place = k;
        }
      }
      to[n] = place;
    }
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
