extern "C" __global__ void __launch_bounds__(128) lz_kernel(const lz_f32 *restrict x0, lz_i64 *restrict y1)
{
  const lz_i64 tile_ = lz_block();
  const int lane_ = lz_thread() % 32;
  const int place_ = lz_thread() / 32;
  const int point_ = (tile_ * 4) + place_;
  if (point_ < 37)
  {
    const int i0 = point_;
    lz_i64 r0;
    {
      lz_f32 r0_a0 = -LZ_INF_F32;
      lz_i64 r0_i0 = (-1);
      #pragma unroll 16
      for (int turn_ = 0; turn_ < 32; turn_++)
      {
        const int i1 = (turn_ * 32) + lane_;
        const int slot_ = turn_;
        if (i1 < 1000)
        {
          if ((r0_i0 < 0) || ((x0[(i0 * 1000) + i1] > r0_a0) || ((x0[(i0 * 1000) + i1] != x0[(i0 * 1000) + i1]) && (!(r0_a0 != r0_a0)))))
          {
            r0_a0 = x0[(i0 * 1000) + i1];
            r0_i0 = i1;
          }
        }
      }

      for (int h_ = 16; h_ > 0; h_ /= 2)
      {
        const lz_f32 r0_a0_down = lz_shuffle_down_f32(r0_a0, h_);
        const lz_i64 r0_i0_down = lz_shuffle_down_i64(r0_i0, h_);
        if ((r0_i0_down >= 0) && (((r0_i0 < 0) || ((r0_a0_down > r0_a0) || ((r0_a0_down != r0_a0_down) && (!(r0_a0 != r0_a0))))) || (((r0_a0_down == r0_a0) || ((r0_a0_down != r0_a0_down) && (r0_a0 != r0_a0))) && (r0_i0_down < r0_i0))))
        {
          r0_a0 = r0_a0_down;
          r0_i0 = r0_i0_down;
        }
      }

      r0_a0 = lz_shuffle_first_f32(r0_a0);
      r0_i0 = lz_shuffle_first_i64(r0_i0);
      r0 = r0_i0;
    }
    if (lane_ == 0)
    {
      y1[i0] = r0;
    }
  }
}
