void lz_kernel(char *b0_, char *b1_, char *b2_, int threads)
{
  const lz_i64 * restrict x0 = (const lz_i64 *) b0_;
  const lz_f32 * restrict x1 = (const lz_f32 *) b1_;
  lz_f32 * restrict y2 = (lz_f32 *) b2_;
  for (lz_i64 t0 = 0; t0 < 7; t0++)
  {
    const lz_i64 i0 = t0;
    #pragma omp simd
    for (lz_i64 u = 0; u < 64; u++)
    {
      const lz_i64 i1 = u;
      const lz_i64 v1 = lz_maximum_i64(lz_minimum_i64(x0[i0], (lz_i64) 49), (lz_i64) 0);
      const lz_f32 v2 = x1[i1 + (v1 * 64)] * 2.0f;
      y2[(i0 * 64) + i1] = v2;
    }

  }

}

