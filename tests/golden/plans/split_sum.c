void lz_kernel(char *b0_, char *b1_, char *b2_, int threads)
{
  const lz_f32 * restrict x0 = (const lz_f32 *) b0_;
  lz_f32 * restrict y2 = (lz_f32 *) b1_;
  lz_f32 * restrict w1 = (lz_f32 *) b2_;
  #pragma omp parallel for num_threads(threads) if(threads > 1) schedule(static)
  for (lz_i64 t0 = 0; t0 < 3; t0++)
  {
    const lz_i64 q = t0;
    _Alignas(64) lz_f32 r0[100];
    {
      _Alignas(64) lz_f32 r0_a0[3200];
      #pragma omp simd
      for (lz_i64 v = 0; v < 3200; v++)
      {
        r0_a0[v] = 0.0f;
      }

      {
        const lz_i64 end = (1024 < (3001 - (q * 1024))) ? (1024) : (3001 - (q * 1024));
        lz_i64 k = 0;
        while (k < (end - 127))
        {
          #pragma omp simd
          for (lz_i64 v = 0; v < 3200; v++)
          {
            const lz_i64 i1 = v;
            const lz_i64 i0 = k + 0;
            r0_a0[v] = r0_a0[v] + x0[((i0 * 100) + i1) + (q * 102400)];
          }

          #pragma omp simd
          for (lz_i64 v = 0; v < 3200; v++)
          {
            const lz_i64 i1 = v;
            const lz_i64 i0 = k + 32;
            r0_a0[v] = r0_a0[v] + x0[((i0 * 100) + i1) + (q * 102400)];
          }

          #pragma omp simd
          for (lz_i64 v = 0; v < 3200; v++)
          {
            const lz_i64 i1 = v;
            const lz_i64 i0 = k + 64;
            r0_a0[v] = r0_a0[v] + x0[((i0 * 100) + i1) + (q * 102400)];
          }

          #pragma omp simd
          for (lz_i64 v = 0; v < 3200; v++)
          {
            const lz_i64 i1 = v;
            const lz_i64 i0 = k + 96;
            r0_a0[v] = r0_a0[v] + x0[((i0 * 100) + i1) + (q * 102400)];
          }

          k += 128;
        }

        while (k < end)
        {
          for (lz_i64 l = 0; l < (((end - k) < 32) ? (end - k) : (32)); l++)
          {
            const lz_i64 i0 = k + l;
            #pragma omp simd
            for (lz_i64 u = 0; u < 100; u++)
            {
              const lz_i64 i1 = u;
              r0_a0[(l * 100) + u] = r0_a0[(l * 100) + u] + x0[((i0 * 100) + i1) + (q * 102400)];
            }

          }

          k += 32;
        }

      }
      #pragma omp simd
      for (lz_i64 v = 0; v < 1600; v++)
      {
        r0_a0[v] = r0_a0[v] + r0_a0[v + 1600];
      }

      #pragma omp simd
      for (lz_i64 v = 0; v < 800; v++)
      {
        r0_a0[v] = r0_a0[v] + r0_a0[v + 800];
      }

      #pragma omp simd
      for (lz_i64 v = 0; v < 400; v++)
      {
        r0_a0[v] = r0_a0[v] + r0_a0[v + 400];
      }

      #pragma omp simd
      for (lz_i64 v = 0; v < 200; v++)
      {
        r0_a0[v] = r0_a0[v] + r0_a0[v + 200];
      }

      #pragma omp simd
      for (lz_i64 v = 0; v < 100; v++)
      {
        r0_a0[v] = r0_a0[v] + r0_a0[v + 100];
      }

      #pragma omp simd
      for (lz_i64 u = 0; u < 100; u++)
      {
        r0[u] = r0_a0[(0 * 100) + u];
      }

    }
    #pragma omp simd
    for (lz_i64 u = 0; u < 100; u++)
    {
      const lz_i64 i1 = u;
      w1[i1 + (q * 100)] = r0[u];
    }

  }

  {
    _Alignas(64) lz_f32 r0[100];
    {
      _Alignas(64) lz_f32 r0_a0[300];
      #pragma omp simd
      for (lz_i64 v = 0; v < 300; v++)
      {
        r0_a0[v] = 0.0f;
      }

      {
        const lz_i64 end = 3;
        for (lz_i64 k = 0; k < end; k += 32)
        {
          for (lz_i64 l = 0; l < (((end - k) < 32) ? (end - k) : (32)); l++)
          {
            const lz_i64 q = k + l;
            #pragma omp simd
            for (lz_i64 u = 0; u < 100; u++)
            {
              const lz_i64 i1 = u;
              r0_a0[(l * 100) + u] = r0_a0[(l * 100) + u] + w1[i1 + (q * 100)];
            }

          }

        }

      }
      #pragma omp simd
      for (lz_i64 v = 0; v < 100; v++)
      {
        r0_a0[v] = r0_a0[v] + r0_a0[v + 200];
      }

      #pragma omp simd
      for (lz_i64 v = 0; v < 100; v++)
      {
        r0_a0[v] = r0_a0[v] + r0_a0[v + 100];
      }

      #pragma omp simd
      for (lz_i64 u = 0; u < 100; u++)
      {
        r0[u] = r0_a0[(0 * 100) + u];
      }

    }
    #pragma omp simd
    for (lz_i64 u = 0; u < 100; u++)
    {
      const lz_i64 i1 = u;
      y2[i1] = r0[u];
    }

  }
}

