// linalg: matrices, their rows and columns, right sides, the number of the mode, results and scratch
// of each, whether one thread does it, from, the second operand, to, scratch. The first call is for
// routines that take larger matrices, or all, one at a time.
static void lz_generic_@R_@S(const lz_i64 *w, char **slots, int threads, const void **table) {
  (void)table;
//@
  if (w[3] > 32 || w[4] > 32 || w[5] > 32) {
//@
    lz_lw_batch_@S(lz_lw_@R_@S, w[2], w[3], w[4], w[5], w[6], w[7], w[8],
                   (const lz_@S *)LZ_PLACE(10), (const lz_@S *)LZ_PLACE(12), (lz_@S *)LZ_PLACE(14),
                   (lz_@S *)LZ_PLACE(16), w[9] ? 1 : threads);
//@
    return;
  }
//@
  lz_la_batch_@S(lz_la_@R_@S, w[2], w[3], w[4], w[5], w[6], w[7], w[8],
                 (const lz_@S *)LZ_PLACE(10), (const lz_@S *)LZ_PLACE(12), (lz_@S *)LZ_PLACE(14),
                 (lz_@S *)LZ_PLACE(16), w[9] ? 1 : threads);
//@
}
