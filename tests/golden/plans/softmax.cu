extern "C" __global__ void __launch_bounds__(128) lz_kernel(const lz_f32 *restrict x0, lz_f32 *restrict y1)
{
  const lz_i64 tile_ = lz_block();
  const int lane_ = lz_thread() % 32;
  const int place_ = lz_thread() / 32;
  const int point_ = (tile_ * 4) + place_;
  const int i0 = point_;
  lz_f32 kept0_[32];
  lz_f32 r0;
  {
    lz_f32 r0_a0 = -LZ_INF_F32;
    #pragma unroll
    for (int turn_ = 0; turn_ < 32; turn_++)
    {
      const int i1 = (turn_ * 32) + lane_;
      const int slot_ = turn_;
      if (i1 < 1000)
      {
        kept0_[slot_] = x0[(i0 * 1000) + i1];
        r0_a0 = lz_fold_maximum_f32(r0_a0, kept0_[slot_]);
      }
    }

    for (int h_ = 16; h_ > 0; h_ /= 2)
    {
      const lz_f32 r0_a0_down = lz_shuffle_down_f32(r0_a0, h_);
      r0_a0 = lz_maximum_f32(r0_a0, r0_a0_down);
    }

    r0_a0 = lz_shuffle_first_f32(r0_a0);
    r0 = r0_a0;
  }
  lz_f32 r1;
  {
    lz_f32 r1_a0 = 0.0f;
    #pragma unroll
    for (int turn_ = 0; turn_ < 32; turn_++)
    {
      const int i1 = (turn_ * 32) + lane_;
      const int slot_ = turn_;
      if (i1 < 1000)
      {
        const lz_f32 v1 = kept0_[slot_] - r0;
        const lz_f32 v2 = lz_exp_f32(v1);
        r1_a0 = r1_a0 + v2;
        y1[(i0 * 1000) + i1] = v2;
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
  lz_sync_warp();
  #pragma unroll
  for (int turn_ = 0; turn_ < 32; turn_++)
  {
    const int i1 = (turn_ * 32) + lane_;
    const int slot_ = turn_;
    if (i1 < 1000)
    {
      const lz_f32 v3 = y1[(i0 * 1000) + i1];
      const lz_f32 v4 = v3 / r1;
      y1[(i0 * 1000) + i1] = v4;
    }
  }

}
