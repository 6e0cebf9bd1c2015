// fourier: rows, their points, the factors of what is transformed and the stages of each, whether the
// sign is positive, the number of the kind, whether points are complex in any case, from, table, to,
// scratch.
static void lz_generic_fourier_@S(const lz_i64 *w, char **slots, int threads, const void **table) {
  const int count = w[2] * w[4] * w[5] < 12000 ? 1 : threads;
  lz_fourier_@S(w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], (const lz_@S *)LZ_PLACE(11),
                (const lz_@S *)LZ_PLACE(13), (lz_@S *)LZ_PLACE(15), (lz_@S *)LZ_PLACE(17), count);
}
