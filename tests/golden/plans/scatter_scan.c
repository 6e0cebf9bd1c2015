void lz_kernel(char *b0_, char *b1_, char *b2_, char *b3_, int threads)
{
  const lz_f32 * restrict x0 = (const lz_f32 *) b0_;
  const lz_i64 * restrict x2 = (const lz_i64 *) b1_;
  const lz_f32 * restrict x3 = (const lz_f32 *) b2_;
  lz_f32 * restrict y1 = (lz_f32 *) b3_;
  for (lz_i64 t0 = 0; t0 < 10; t0++)
  {
    const lz_i64 i0 = t0;
    #pragma omp simd
    for (lz_i64 u = 0; u < 4; u++)
    {
      const lz_i64 i1 = u;
      y1[(i0 * 4) + i1] = x0[(i0 * 4) + i1];
    }

  }

  {
    for (lz_i64 s = 0; s < 6; s++)
    {
      for (lz_i64 u = 0; u < 4; u++)
      {
        const lz_i64 j0 = u;
        const lz_i64 v1 = lz_maximum_i64(lz_minimum_i64(x2[s], (lz_i64) 9), (lz_i64) 0);
        y1[j0 + (v1 * 4)] = y1[j0 + (v1 * 4)] + x3[j0 + (s * 4)];
      }

    }

  }
}


void lz_kernel(char *b0_, char *b1_, int threads)
{
  const lz_f32 * restrict x0 = (const lz_f32 *) b0_;
  lz_f32 * restrict y1 = (lz_f32 *) b1_;
  {
    _Alignas(64) lz_f64 running[64];
    #pragma omp simd
    for (lz_i64 u = 0; u < 4; u++)
    {
      running[u] = 0.0;
    }

    for (lz_i64 i0 = 0; i0 < 10; i0++)
    {
      #pragma omp simd
      for (lz_i64 u = 0; u < 4; u++)
      {
        const lz_i64 i1 = u;
        running[u] = running[u] + lz_cast_f32_f64(x0[(i0 * 4) + i1]);
        y1[(i0 * 4) + i1] = lz_cast_f64_f32(running[u]);
      }

    }

  }
}

