extern "C" __global__ void __launch_bounds__(128) lz_kernel(const lz_f32 *restrict x0, const lz_f32 *restrict x1, const lz_f32 *restrict x2, lz_f32 *restrict y3)
{
  const lz_i64 tile_ = lz_block();
  const int lane_ = lz_thread() % 32;
  const int place_ = lz_thread() / 32;
  const int point_ = (tile_ * 4) + place_;
  if (point_ < 50)
  {
    const int i0 = point_;
    lz_f32 kept0_[10];
    lz_f32 r0;
    {
      lz_f32 r0_a0 = 0.0f;
      #pragma unroll
      for (int turn_ = 0; turn_ < 10; turn_++)
      {
        const int i1 = (turn_ * 32) + lane_;
        const int slot_ = turn_;
        if (i1 < 300)
        {
          kept0_[slot_] = x0[(i0 * 300) + i1];
          r0_a0 = r0_a0 + kept0_[slot_];
        }
      }

      for (int h_ = 16; h_ > 0; h_ /= 2)
      {
        const lz_f32 r0_a0_down = lz_shuffle_down_f32(r0_a0, h_);
        r0_a0 = r0_a0 + r0_a0_down;
      }

      r0_a0 = lz_shuffle_first_f32(r0_a0);
      r0 = r0_a0;
    }
    const lz_f32 v1 = r0 * 0.0033333334140479565f;
    lz_f32 r1;
    {
      lz_f32 r1_a0 = 0.0f;
      #pragma unroll
      for (int turn_ = 0; turn_ < 10; turn_++)
      {
        const int i1 = (turn_ * 32) + lane_;
        const int slot_ = turn_;
        if (i1 < 300)
        {
          const lz_f32 v2 = kept0_[slot_] - v1;
          const lz_f32 v3 = v2 * v2;
          r1_a0 = r1_a0 + v3;
        }
      }

      for (int h_ = 16; h_ > 0; h_ /= 2)
      {
        const lz_f32 r1_a0_down = lz_shuffle_down_f32(r1_a0, h_);
        r1_a0 = r1_a0 + r1_a0_down;
      }

      r1_a0 = lz_shuffle_first_f32(r1_a0);
      r1 = r1_a0;
    }
    const lz_f32 v4 = r1 * 0.0033333334140479565f;
    const lz_f32 v5 = v4 + 9.999999747378752e-06f;
    const lz_f32 v6 = lz_rsqrt_f32(v5);
    #pragma unroll
    for (int turn_ = 0; turn_ < 10; turn_++)
    {
      const int i1 = (turn_ * 32) + lane_;
      const int slot_ = turn_;
      if (i1 < 300)
      {
        const lz_f32 v7 = kept0_[slot_] - v1;
        const lz_f32 v8 = v7 * v6;
        const lz_f32 v9 = v8 * x1[i1];
        const lz_f32 v10 = v9 + x2[i1];
        y3[(i0 * 300) + i1] = v10;
      }
    }

  }
}
