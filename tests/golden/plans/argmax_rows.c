void lz_kernel(char *b0_, char *b1_, int threads)
{
  const lz_f32 * restrict x0 = (const lz_f32 *) b0_;
  lz_i64 * restrict y1 = (lz_i64 *) b1_;
  for (lz_i64 t0 = 0; t0 < 37; t0++)
  {
    const lz_i64 i0 = t0;
    lz_f32 r0_most;
    {
      _Alignas(64) lz_f32 r0_most_a0[32];
      for (lz_i64 l = 0; l < 32; l++)
      {
        r0_most_a0[l] = -LZ_INF_F32;
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
            r0_most_a0[l] = lz_fold_maximum_f32(r0_most_a0[l], x0[(i0 * 1000) + i1]);
          }

          k += 32;
        }

        for (lz_i64 l = 0; l < (end - k); l++)
        {
          const lz_i64 i1 = k + l;
          r0_most_a0[l] = lz_fold_maximum_f32(r0_most_a0[l], x0[(i0 * 1000) + i1]);
        }

      }
      #pragma omp simd
      for (lz_i64 l = 0; l < 16; l++)
      {
        r0_most_a0[l] = lz_fold_maximum_f32(r0_most_a0[l], r0_most_a0[l + 16]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 8; l++)
      {
        r0_most_a0[l] = lz_fold_maximum_f32(r0_most_a0[l], r0_most_a0[l + 8]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 4; l++)
      {
        r0_most_a0[l] = lz_fold_maximum_f32(r0_most_a0[l], r0_most_a0[l + 4]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 2; l++)
      {
        r0_most_a0[l] = lz_fold_maximum_f32(r0_most_a0[l], r0_most_a0[l + 2]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 1; l++)
      {
        r0_most_a0[l] = lz_fold_maximum_f32(r0_most_a0[l], r0_most_a0[l + 1]);
      }

      r0_most = r0_most_a0[0];
    }
    lz_i32 r0_where;
    {
      _Alignas(64) lz_i32 r0_where_a0[32];
      for (lz_i64 l = 0; l < 32; l++)
      {
        r0_where_a0[l] = (lz_i32) 2147483647;
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
            r0_where_a0[l] = lz_minimum_i32(r0_where_a0[l], ((x0[(i0 * 1000) + i1] == r0_most) | (x0[(i0 * 1000) + i1] != x0[(i0 * 1000) + i1])) ? ((lz_i32) i1) : ((lz_i32) 2147483647));
          }

          k += 32;
        }

        for (lz_i64 l = 0; l < (end - k); l++)
        {
          const lz_i64 i1 = k + l;
          r0_where_a0[l] = lz_minimum_i32(r0_where_a0[l], ((x0[(i0 * 1000) + i1] == r0_most) | (x0[(i0 * 1000) + i1] != x0[(i0 * 1000) + i1])) ? ((lz_i32) i1) : ((lz_i32) 2147483647));
        }

      }
      #pragma omp simd
      for (lz_i64 l = 0; l < 16; l++)
      {
        r0_where_a0[l] = lz_minimum_i32(r0_where_a0[l], r0_where_a0[l + 16]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 8; l++)
      {
        r0_where_a0[l] = lz_minimum_i32(r0_where_a0[l], r0_where_a0[l + 8]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 4; l++)
      {
        r0_where_a0[l] = lz_minimum_i32(r0_where_a0[l], r0_where_a0[l + 4]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 2; l++)
      {
        r0_where_a0[l] = lz_minimum_i32(r0_where_a0[l], r0_where_a0[l + 2]);
      }

      #pragma omp simd
      for (lz_i64 l = 0; l < 1; l++)
      {
        r0_where_a0[l] = lz_minimum_i32(r0_where_a0[l], r0_where_a0[l + 1]);
      }

      r0_where = r0_where_a0[0];
    }
    const lz_i64 r0 = lz_cast_i32_i64(r0_where);
    y1[i0] = r0;
  }

}

