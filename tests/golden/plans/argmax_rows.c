void lz_kernel(char *b0_, char *b1_, int threads)
{
  const lz_f32 * restrict x0 = (const lz_f32 *) b0_;
  lz_i64 * restrict y1 = (lz_i64 *) b1_;
  for (lz_i64 t0 = 0; t0 < 37; t0++)
  {
    const lz_i64 i0 = t0;
    lz_i64 r0;
    {
      _Alignas(64) lz_f32 r0_a0[32];
      _Alignas(64) lz_i64 r0_i0[32];
      for (lz_i64 l = 0; l < 32; l++)
      {
        r0_a0[l] = -LZ_INF_F32;
        r0_i0[l] = (-1);
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
            if ((r0_i0[l] < 0) || ((x0[(i0 * 1000) + i1] > r0_a0[l]) || ((x0[(i0 * 1000) + i1] != x0[(i0 * 1000) + i1]) && (!(r0_a0[l] != r0_a0[l])))))
            {
              r0_a0[l] = x0[(i0 * 1000) + i1];
              r0_i0[l] = i1;
            }
          }

          k += 32;
        }

        for (lz_i64 l = 0; l < (end - k); l++)
        {
          const lz_i64 i1 = k + l;
          if ((r0_i0[l] < 0) || ((x0[(i0 * 1000) + i1] > r0_a0[l]) || ((x0[(i0 * 1000) + i1] != x0[(i0 * 1000) + i1]) && (!(r0_a0[l] != r0_a0[l])))))
          {
            r0_a0[l] = x0[(i0 * 1000) + i1];
            r0_i0[l] = i1;
          }
        }

      }
      for (int h = 16; h > 0; h /= 2)
      {
        for (lz_i64 l = 0; l < h; l++)
        {
          if ((r0_i0[l + h] >= 0) && (((r0_i0[l] < 0) || ((r0_a0[l + h] > r0_a0[l]) || ((r0_a0[l + h] != r0_a0[l + h]) && (!(r0_a0[l] != r0_a0[l]))))) || (((r0_a0[l + h] == r0_a0[l]) || ((r0_a0[l + h] != r0_a0[l + h]) && (r0_a0[l] != r0_a0[l]))) && (r0_i0[l + h] < r0_i0[l]))))
          {
            r0_a0[l] = r0_a0[l + h];
            r0_i0[l] = r0_i0[l + h];
          }
        }

      }

      r0 = r0_i0[0];
    }
    y1[i0] = r0;
  }

}

