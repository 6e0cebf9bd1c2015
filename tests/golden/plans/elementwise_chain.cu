extern "C" __global__ void __launch_bounds__(256) lz_kernel(const lz_f32 *restrict x0, const lz_f32 *restrict x1, lz_f32 *restrict y2)
{
  const lz_i64 tile_ = lz_block();
  const int point_ = (tile_ * 256) + lz_thread();
  if (point_ < 1000)
  {
    const int i0 = point_;
    const lz_f32 v1 = x0[i0] * x1[i0];
    const lz_f32 v2 = v1 + 1.0f;
    const lz_f32 v3 = lz_tanh_f32(v2);
    y2[i0] = v3;
  }
}
