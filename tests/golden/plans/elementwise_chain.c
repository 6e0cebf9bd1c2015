void lz_kernel(char *b0_, char *b1_, char *b2_, int threads)
{
  const lz_f32 * restrict x0 = (const lz_f32 *) b0_;
  const lz_f32 * restrict x1 = (const lz_f32 *) b1_;
  lz_f32 * restrict y2 = (lz_f32 *) b2_;
  {
    #pragma omp simd
    for (lz_i64 u = 0; u < 1000; u++)
    {
      const lz_i64 i0 = u;
      const lz_f32 v1 = x0[i0] * x1[i0];
      const lz_f32 v2 = v1 + 1.0f;
      const lz_f32 v3 = lz_tanh_f32(v2);
      y2[i0] = v3;
    }

  }
}

