// sort: rows, their length, whether descending, bits of the sign and of infinity, values (or slot
// -1), order (or slot -1), from, scratch of two rows of elements each, scratch of int64. What stands
// between two marks is one of the functions: for short rows, and for long ones' values or order.
#define LZ_SORT_WORDS                                                                      \
  const lz_i64 rows = w[2], length = w[3], descending = w[4];                              \
  const lz_@U flip = (lz_@U)w[5], inf = (lz_@U)w[6];                                       \
  const void *from = LZ_PLACE(11);                                                         \
  const int count = rows * length < 10000 ? 1 : threads

//@short
static void lz_generic_sort_short_@U(const lz_i64 *w, char **slots, int threads,
                                     const void **table) {
  LZ_SORT_WORDS;
  void *values = w[7] < 0 ? 0 : LZ_PLACE(7);
  lz_i64 *order = w[9] < 0 ? 0 : (lz_i64 *)LZ_PLACE(9);
  lz_rows_sort_short_@U(rows, length, from, values, order, flip, inf, descending, count);
}
//@
//@order
static void lz_generic_sort_order_@U(const lz_i64 *w, char **slots, int threads,
                                     const void **table) {
  LZ_SORT_WORDS;
  lz_@U *work = (lz_@U *)LZ_PLACE(13);
  lz_rows_sort_order_@U(rows, length, from, w[7] < 0 ? 0 : LZ_PLACE(7), (lz_i64 *)LZ_PLACE(9), work,
                        work + rows * length, (lz_i64 *)LZ_PLACE(15), flip, inf, descending, count);
}
//@
//@values
static void lz_generic_sort_values_@U(const lz_i64 *w, char **slots, int threads,
                                      const void **table) {
  LZ_SORT_WORDS;
  lz_rows_sort_values_@U(rows, length, from, LZ_PLACE(7), LZ_PLACE(13), flip, inf, descending, count);
}
//@
