void lz_kernel(char *b0_, char *b1_, int threads)
{
  const lz_f32 * restrict x0 = (const lz_f32 *) b0_;
  lz_f32 * restrict y1 = (lz_f32 *) b1_;
  #pragma omp parallel for num_threads(threads) if(threads > 1) schedule(static)
  for (lz_i64 t0 = 0; t0 < 64; t0++)
  {
    const lz_i64 i0 = t0;
    lz_f32 r0;
    {
      _Alignas(64) lz_f32 r0_a0[32];
      for (lz_i64 l = 0; l < 32; l++)
      {
        r0_a0[l] = -LZ_INF_F32;
      }

      {
        const lz_i64 end = 1000;
        lz_i64 k = 0;
        while (k < (end - 31))
        {
          #pragma omp simd
          for (lz_i64 l = 0; l < 32; l++)
          {
            const lz_i64 i1 = k + l;
            r0_a0[l] = lz_fold_maximum_f32(r0_a0[l], x0[(i0 * 1000) + i1]);
          }

          k += 32;
        }

        for (lz_i64 l = 0; l < (end - k); l++)
        {
          const lz_i64 i1 = k + l;
          r0_a0[l] = lz_fold_maximum_f32(r0_a0[l], x0[(i0 * 1000) + i1]);
        }

      }
      #pragma omp simd
      for (lz_i64 l = 0; l < 16; l++)
      {
        r0_a0[l] = lz_fold_maximum_f32(r0_a0[l], r0_a0[l + 16]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 8; l++)
      {
        r0_a0[l] = lz_fold_maximum_f32(r0_a0[l], r0_a0[l + 8]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 4; l++)
      {
        r0_a0[l] = lz_fold_maximum_f32(r0_a0[l], r0_a0[l + 4]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 2; l++)
      {
        r0_a0[l] = lz_fold_maximum_f32(r0_a0[l], r0_a0[l + 2]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 1; l++)
      {
        r0_a0[l] = lz_fold_maximum_f32(r0_a0[l], r0_a0[l + 1]);
      }

      r0 = r0_a0[0];
    }
    lz_f32 r1;
    {
      _Alignas(64) lz_f32 r1_a0[32];
      for (lz_i64 l = 0; l < 32; l++)
      {
        r1_a0[l] = 0.0f;
      }

      {
        const lz_i64 end = 1000;
        lz_i64 k = 0;
        while (k < (end - 31))
        {
          #pragma omp simd
          for (lz_i64 l = 0; l < 32; l++)
          {
            const lz_i64 i1 = k + l;
            const lz_f32 v1 = x0[(i0 * 1000) + i1] - r0;
            const lz_f32 v2 = lz_exp_f32(v1);
            r1_a0[l] = r1_a0[l] + v2;
            y1[(i0 * 1000) + i1] = v2;
          }

          k += 32;
        }

        for (lz_i64 l = 0; l < (end - k); l++)
        {
          const lz_i64 i1 = k + l;
          const lz_f32 v1 = x0[(i0 * 1000) + i1] - r0;
          const lz_f32 v2 = lz_exp_f32(v1);
          r1_a0[l] = r1_a0[l] + v2;
          y1[(i0 * 1000) + i1] = v2;
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
    #pragma omp simd
    for (lz_i64 i1 = 0; i1 < 1000; i1++)
    {
      const lz_f32 v3 = y1[(i0 * 1000) + i1];
      const lz_f32 v4 = v3 / r1;
      y1[(i0 * 1000) + i1] = v4;
    }

  }

}

