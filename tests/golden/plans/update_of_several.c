void lz_kernel(char **table, const lz_i64 *extents, const lz_i64 *starts, int count, int threads)
{
  const lz_i64 tiles = starts[count] / 1024;
  const int serial = threads < 2 || tiles < 309;
  lz_f32 * restrict r0_partial = (lz_f32 *) (table[count * 5] + (tiles * 0));
  #pragma omp parallel for num_threads(threads) if(!serial) schedule(dynamic, tiles / 64 + 1)
  for (lz_i64 t = 0; t < tiles; t++)
  {
    const lz_i64 begin = t * 1024;
    int s = 0;
    for (int above = count; above - s > 1;)
    {
      const int middle = (s + above) / 2;
      if (starts[middle] <= begin)
        s = middle;
      else
        above = middle;
    }
    char **const pointers = table + 5 * s;
    const lz_i64 low = begin - starts[s];
    const lz_i64 high = low + 1024 < extents[s] ? low + 1024 : extents[s];
    const lz_f32 * restrict x0 = (const lz_f32 *) pointers[0];
    const lz_f32 * restrict x1 = (const lz_f32 *) pointers[1];
    const lz_f32 * restrict x2 = (const lz_f32 *) pointers[2];
    lz_f32 * restrict y3 = (lz_f32 *) pointers[3];
    _Alignas(64) lz_f32 r0_lane[32];
    for (lz_i64 l = 0; l < 32; l++)
    {
      r0_lane[l] = 0.0f;
    }

    lz_i64 k = low;
    while (k < (high - 31))
    {
      #pragma omp simd
      for (lz_i64 l = 0; l < 32; l++)
      {
        const lz_i64 i = k + l;
        const lz_f32 v1 = x1[i] * x2[0];
        const lz_f32 v2 = x0[i] - v1;
        y3[i] = v2;
        const lz_f32 v3 = x1[i] * x1[i];
        r0_lane[l] = r0_lane[l] + v3;
      }

      k += 32;
    }

    for (lz_i64 l = 0; l < (high - k); l++)
    {
      const lz_i64 i = k + l;
      const lz_f32 v1 = x1[i] * x2[0];
      const lz_f32 v2 = x0[i] - v1;
      y3[i] = v2;
      const lz_f32 v3 = x1[i] * x1[i];
      r0_lane[l] = r0_lane[l] + v3;
    }

    for (int h = 16; h > 0; h /= 2)
    {
      for (lz_i64 l = 0; l < h; l++)
      {
        r0_lane[l] = r0_lane[l] + r0_lane[l + h];
      }

    }

    r0_partial[t] = r0_lane[0];
  }
  for (int s = 0; s < count; s++)
  {
    char **const pointers = table + 5 * s;
    const lz_i64 first = starts[s] / 1024;
    for (lz_i64 left = starts[s + 1] / 1024 - first; left > 1; left = (left + 1023) / 1024)
      for (lz_i64 t = 0; t * 1024 < left; t++)
      {
        const lz_i64 end = (t + 1) * 1024 < left ? (t + 1) * 1024 : left;
        _Alignas(64) lz_f32 r0_lane[32];
        for (lz_i64 l = 0; l < 32; l++)
        {
          r0_lane[l] = 0.0f;
        }

        for (lz_i64 k = t * 1024; k < end; k++)
        {
          r0_lane[k % 32] = r0_lane[k % 32] + r0_partial[first + k];
        }

        for (int h = 16; h > 0; h /= 2)
        {
          for (lz_i64 l = 0; l < h; l++)
          {
            r0_lane[l] = r0_lane[l] + r0_lane[l + h];
          }

        }

        r0_partial[first + t] = r0_lane[0];
      }
    const lz_f32 r0 = r0_partial[first];
    lz_f32 * restrict y4 = (lz_f32 *) pointers[4];
    y4[0] = r0;
  }
}
