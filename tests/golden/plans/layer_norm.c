void lz_kernel(char *b0_, char *b1_, char *b2_, char *b3_, int threads)
{
  const lz_f32 * restrict x0 = (const lz_f32 *) b0_;
  const lz_f32 * restrict x1 = (const lz_f32 *) b1_;
  const lz_f32 * restrict x2 = (const lz_f32 *) b2_;
  lz_f32 * restrict y3 = (lz_f32 *) b3_;
  #pragma omp parallel for num_threads(threads) if(threads > 1) schedule(static)
  for (lz_i64 t0 = 0; t0 < 50; t0++)
  {
    const lz_i64 i0 = t0;
    lz_f32 r0;
    {
      _Alignas(64) lz_f32 r0_a0[32];
      for (lz_i64 l = 0; l < 32; l++)
      {
        r0_a0[l] = 0.0f;
      }

      {
        const lz_i64 end = 300;
        lz_i64 k = 0;
        while (k < (end - 31))
        {
          #pragma omp simd
          for (lz_i64 l = 0; l < 32; l++)
          {
            const lz_i64 i1 = k + l;
            r0_a0[l] = r0_a0[l] + x0[(i0 * 300) + i1];
          }

          k += 32;
        }

        for (lz_i64 l = 0; l < (end - k); l++)
        {
          const lz_i64 i1 = k + l;
          r0_a0[l] = r0_a0[l] + x0[(i0 * 300) + i1];
        }

      }
      #pragma omp simd
      for (lz_i64 l = 0; l < 16; l++)
      {
        r0_a0[l] = r0_a0[l] + r0_a0[l + 16];
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 8; l++)
      {
        r0_a0[l] = r0_a0[l] + r0_a0[l + 8];
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 4; l++)
      {
        r0_a0[l] = r0_a0[l] + r0_a0[l + 4];
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 2; l++)
      {
        r0_a0[l] = r0_a0[l] + r0_a0[l + 2];
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 1; l++)
      {
        r0_a0[l] = r0_a0[l] + r0_a0[l + 1];
      }

      r0 = r0_a0[0];
    }
    const lz_f32 v1 = r0 * 0.0033333334140479565f;
    lz_f32 r1;
    {
      _Alignas(64) lz_f32 r1_a0[32];
      for (lz_i64 l = 0; l < 32; l++)
      {
        r1_a0[l] = 0.0f;
      }

      {
        const lz_i64 end = 300;
        lz_i64 k = 0;
        while (k < (end - 31))
        {
          #pragma omp simd
          for (lz_i64 l = 0; l < 32; l++)
          {
            const lz_i64 i1 = k + l;
            const lz_f32 v2 = x0[(i0 * 300) + i1] - v1;
            const lz_f32 v3 = v2 * v2;
            r1_a0[l] = r1_a0[l] + v3;
          }

          k += 32;
        }

        for (lz_i64 l = 0; l < (end - k); l++)
        {
          const lz_i64 i1 = k + l;
          const lz_f32 v2 = x0[(i0 * 300) + i1] - v1;
          const lz_f32 v3 = v2 * v2;
          r1_a0[l] = r1_a0[l] + v3;
        }

      }
      #pragma omp simd
      for (lz_i64 l = 0; l < 16; l++)
      {
        r1_a0[l] = r1_a0[l] + r1_a0[l + 16];
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 8; l++)
      {
        r1_a0[l] = r1_a0[l] + r1_a0[l + 8];
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 4; l++)
      {
        r1_a0[l] = r1_a0[l] + r1_a0[l + 4];
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 2; l++)
      {
        r1_a0[l] = r1_a0[l] + r1_a0[l + 2];
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 1; l++)
      {
        r1_a0[l] = r1_a0[l] + r1_a0[l + 1];
      }

      r1 = r1_a0[0];
    }
    const lz_f32 v4 = r1 * 0.0033333334140479565f;
    const lz_f32 v5 = v4 + 9.999999747378752e-06f;
    const lz_f32 v6 = lz_rsqrt_f32(v5);
    #pragma omp simd
    for (lz_i64 i1 = 0; i1 < 300; i1++)
    {
      const lz_f32 v7 = x0[(i0 * 300) + i1] - v1;
      const lz_f32 v8 = v7 * v6;
      const lz_f32 v9 = v8 * x1[i1];
      const lz_f32 v10 = v9 + x2[i1];
      y3[(i0 * 300) + i1] = v10;
    }

  }

}

