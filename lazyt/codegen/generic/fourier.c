// fourier: rows, their two factors, the stages of each, whether the sign is positive, the kind, from,
// table, to, scratch.
static void lz_generic_fourier_@S(const lz_i64 *w, char **slots, int threads, const void **table) {
  const int count = w[2] * w[3] * w[4] < 4000 ? 1 : threads;
  lz_fourier_@S(w[2], w[3], w[4], w[5], w[6], w[7], w[8], (const lz_@S *)LZ_PLACE(9),
                (const lz_@S *)LZ_PLACE(11), (lz_@S *)LZ_PLACE(13), (lz_@S *)LZ_PLACE(15), count);
}
