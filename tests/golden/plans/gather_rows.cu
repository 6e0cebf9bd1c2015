extern "C" __global__ void __launch_bounds__(256) lz_kernel(const lz_i64 *restrict x0, const lz_f32 *restrict x1, lz_f32 *restrict y2)
{
  const lz_i64 tile_ = lz_block();
  const int point_ = (tile_ * 256) + lz_thread();
  if (point_ < 448)
  {
    const int i0 = point_ / 64;
    const int i1 = point_ % 64;
    const lz_i64 v1 = lz_maximum_i64(lz_minimum_i64(x0[i0], (lz_i64) 49), (lz_i64) 0);
    const lz_f32 v2 = x1[i1 + (v1 * 64)] * 2.0f;
    y2[(i0 * 64) + i1] = v2;
  }
}
