// What all units of the library have. See __init__.py for how words are laid out; LZ_PLACE(k) is the
// place that words k and k + 1 tell.

// Copies of a function would cost the compiler much time.
#define LZ_OWN __attribute__((noinline, unused))
#define LZ_PLACE(k) (slots[w[k]] + w[(k) + 1])

// Where row number `first` of an operand begins.
static LZ_OWN const char *lz_generic_row(const char *from, lz_i64 first, lz_i64 rank,
                                  const lz_i64 *extents, const lz_i64 *strides) {
  for (lz_i64 d = rank - 1; d >= 0; d--) {
    from += (d ? first % extents[d] : first) * strides[d];
    first /= extents[d];
  }
  return from;
}

// Rows one after the other, without a division for each.
enum { LZ_WALK_ROWS = 1024, LZ_WALK_AXES = 64 };
struct lz_walk {
  lz_i64 rank;
  const lz_i64 *extents, *strides;
  const char *row;
  lz_i64 index[LZ_WALK_AXES];
};

static LZ_OWN void lz_walk_begin(struct lz_walk *at, const char *from, lz_i64 first, lz_i64 rank,
                                 const lz_i64 *extents, const lz_i64 *strides) {
  at->rank = rank;
  at->extents = extents;
  at->strides = strides;
  at->row = lz_generic_row(from, first, rank, extents, strides);
  for (lz_i64 d = rank - 1; d >= 0; d--) {
    at->index[d] = d ? first % extents[d] : first;
    first /= extents[d];
  }
}

static inline __attribute__((unused)) void lz_walk_on(struct lz_walk *at) {
  for (lz_i64 d = at->rank - 1; d >= 0; d--) {
    at->row += at->strides[d];
    if (++at->index[d] < at->extents[d]) return;
    at->row -= at->extents[d] * at->strides[d];
    at->index[d] = 0;
  }
}

// Folds of one axis have the order of reduction_levels in ir/kernel.py: blocks of 1024 elements, 32
// lanes in a block, lanes by halves, then the results of the blocks by the same rule.
enum { LZ_FOLD_LANES = 32, LZ_FOLD_BLOCK = 1024, LZ_FOLD_LEVELS = 5, LZ_FOLD_COLUMNS = 32 };
// Fewer columns are folded as rows; of short rows so many at once.
enum { LZ_FOLD_FEW = 8, LZ_FOLD_ROWS = 16 };

// A kind of fold over elements of a type: bytes of one as it is stored and computed; then what folds
// up to a block with a stride, folds elements without gaps, or others that are computed, into as
// many results, sets these to the unit, stores them, and folds rows of up to as many elements as
// there are lanes.
struct lz_fold {
  lz_i64 stored, computed;
  void (*block)(void *result, const char *from, lz_i64 stride, lz_i64 count);
  void (*step)(void *acc, const char *from, lz_i64 count);
  void (*join)(void *acc, const void *other, lz_i64 count);
  void (*clear)(void *acc, lz_i64 count);
  void (*store)(char *to, const void *from, lz_i64 count);
  void (*rows)(char *to, struct lz_walk *at, lz_i64 rows, lz_i64 stride, lz_i64 count);
};
typedef void (*lz_folding)(const struct lz_fold *, const lz_i64 *, char **, int);

// How far each step along some axes is from the beginning, by the strides of one operand.
static LZ_OWN void lz_generic_offsets(lz_i64 *out, lz_i64 count, lz_i64 rank, const lz_i64 *axes,
                               int operand) {
  lz_i64 filled = 1;
  out[0] = 0;
  (void)count;
  for (lz_i64 d = rank - 1; d >= 0; d--) {
    const lz_i64 extent = axes[4 * d], stride = axes[4 * d + operand];
    for (lz_i64 i = 1; i < extent; i++)
      for (lz_i64 j = 0; j < filled; j++) out[i * filled + j] = out[j] + i * stride;
    filled *= extent;
  }
}
