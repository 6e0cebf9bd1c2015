extern "C" __global__ void __launch_bounds__(256) lz_kernel_p0(const lz_f32 *restrict x0, const lz_i64 *restrict x2, const lz_f32 *restrict x3, lz_f32 *restrict y1)
{
  const lz_i64 tile_ = lz_block();
  const int point_ = (tile_ * 256) + lz_thread();
  if (point_ < 40)
  {
    const int i0 = point_ / 4;
    const int i1 = point_ % 4;
    y1[(i0 * 4) + i1] = x0[(i0 * 4) + i1];
  }
}

extern "C" __global__ void __launch_bounds__(32) lz_kernel_p1(const lz_f32 *restrict x0, const lz_i64 *restrict x2, const lz_f32 *restrict x3, lz_f32 *restrict y1)
{
  const lz_i64 tile_ = lz_block();
  const int point_ = (tile_ * 32) + lz_thread();
  if (point_ < 4)
  {
    const int j0 = point_;
    for (int s = 0; s < 6; s++)
    {
      const lz_i64 v1 = lz_clamp_index_i64(x2[s], (lz_i64) 9);
      y1[j0 + (v1 * 4)] = y1[j0 + (v1 * 4)] + x3[j0 + (s * 4)];
    }

  }
}

extern "C" __global__ void __launch_bounds__(32) lz_kernel(const lz_f32 *restrict x0, lz_f32 *restrict y1)
{
  const lz_i64 tile_ = lz_block();
  const int point_ = (tile_ * 32) + lz_thread();
  if (point_ < 4)
  {
    const int i1 = point_;
    lz_f64 running;
    running = 0.0;
    for (int i0 = 0; i0 < 10; i0++)
    {
      running = running + lz_cast_f32_f64(x0[(i0 * 4) + i1]);
      y1[(i0 * 4) + i1] = lz_cast_f64_f32(running);
    }

  }
}
