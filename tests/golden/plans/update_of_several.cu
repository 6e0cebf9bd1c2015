extern "C" __global__ void __launch_bounds__(128) lz_kernel_100(const lz_f32 *restrict x0, const lz_f32 *restrict x1, const lz_f32 *restrict x2, lz_f32 *restrict y3, lz_f32 *restrict y4)
{
  const lz_i64 tile_ = lz_block();
  const int lane_ = lz_thread() % 32;
  const int place_ = lz_thread() / 32;
  const int point_ = (tile_ * 4) + place_;
  if (point_ < 1)
  {
    lz_f32 r0;
    {
      lz_f32 r0_a0 = 0.0f;
      #pragma unroll 4
      for (int turn_ = 0; turn_ < 4; turn_++)
      {
        const int i = (turn_ * 32) + lane_;
        const int slot_ = turn_;
        if (i < 100)
        {
          const lz_f32 v1 = x1[i] * x2[0];
          const lz_f32 v2 = x0[i] - v1;
          y3[i] = v2;
          const lz_f32 v3 = x1[i] * x1[i];
          r0_a0 = r0_a0 + v3;
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
    if (lane_ == 0)
    {
      y4[0] = r0;
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) lz_kernel_6400(const lz_f32 *restrict x0, const lz_f32 *restrict x1, const lz_f32 *restrict x2, lz_f32 *restrict y3, lz_f32 *restrict y4)
{
  const lz_i64 tile_ = lz_block();
  const int lane_ = lz_thread() % 32;
  const int warp_ = lz_thread() / 32;
  const int point_ = tile_;
  lz_f32 r0;
  {
    lz_shared_f32 r0_a_shared = lz_take_shared_f32(0, 7);
    #pragma unroll 1
    for (int round_ = 0; round_ < 1; round_++)
    {
      const int block_ = (round_ * 8) + warp_;
      lz_f32 r0_a0 = 0.0f;
      const int first_ = (block_ * 1024) + lane_;
      #pragma unroll 4
      for (int turn_ = 0; turn_ < 32; turn_++)
      {
        const int i = (turn_ * 32) + first_;
        const int slot_ = (round_ * 32) + turn_;
        if ((turn_ * 32) < (6400 - first_))
        {
          const lz_f32 v1 = x1[i] * x2[0];
          const lz_f32 v2 = x0[i] - v1;
          y3[i] = v2;
          const lz_f32 v3 = x1[i] * x1[i];
          r0_a0 = r0_a0 + v3;
        }
      }

      for (int h_ = 16; h_ > 0; h_ /= 2)
      {
        const lz_f32 r0_a0_down = lz_shuffle_down_f32(r0_a0, h_);
        r0_a0 = r0_a0 + r0_a0_down;
      }

      if ((lane_ == 0) && (block_ < 7))
      {
        r0_a_shared[block_] = r0_a0;
      }
    }

    lz_sync_block();
    lz_f32 r0_a1 = 0.0f;
    for (int part_ = lane_; part_ < 7; part_ += 32)
    {
      const lz_f32 r0_a0 = r0_a_shared[part_];
      r0_a1 = r0_a1 + r0_a0;
    }

    for (int h_ = 16; h_ > 0; h_ /= 2)
    {
      const lz_f32 r0_a1_down = lz_shuffle_down_f32(r0_a1, h_);
      r0_a1 = r0_a1 + r0_a1_down;
    }

    r0_a1 = lz_shuffle_first_f32(r0_a1);
    r0 = r0_a1;
  }
  if ((lane_ == 0) && (warp_ == 0))
  {
    y4[0] = r0;
  }
}
