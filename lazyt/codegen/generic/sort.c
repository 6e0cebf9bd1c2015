// sort: rows, their length, whether descending, bits of the sign and of infinity, values (or slot
// -1), order (or slot -1), from, scratch of two rows of elements each, scratch of int64.
static void lz_generic_sort_@U(const lz_i64 *w, char **slots, int threads, const void **table) {
  const lz_i64 rows = w[2], length = w[3], descending = w[4];
  const lz_@U flip = (lz_@U)w[5], inf = (lz_@U)w[6];
  void *values = w[7] < 0 ? 0 : LZ_PLACE(7);
  lz_i64 *order = w[9] < 0 ? 0 : (lz_i64 *)LZ_PLACE(9);
  const void *from = LZ_PLACE(11);
  lz_@U *work = (lz_@U *)LZ_PLACE(13);
  lz_i64 *places = (lz_i64 *)LZ_PLACE(15);
  const int count = rows * length < 10000 ? 1 : threads;
  if (length <= 64)
    lz_rows_sort_short_@U(rows, length, from, values, order, flip, inf, descending, count);
  else if (order)
    lz_rows_sort_order_@U(rows, length, from, values, order, work, work + rows * length, places,
                          flip, inf, descending, count);
  else
    lz_rows_sort_values_@U(rows, length, from, values, work, flip, inf, descending, count);
}
