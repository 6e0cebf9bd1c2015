extern "C" __global__ void __launch_bounds__(1024, 1) lz_kernel_p0(const lz_f32 *restrict x0, lz_f32 *restrict y2, lz_f32 *restrict w1)
{
  const lz_i64 tile_ = lz_block();
  const int lane_ = lz_thread() / 32;
  const int place_ = lz_thread() % 32;
  const int wanted_ = (tile_ * 32) + place_;
  const int point_ = (wanted_ < 299) ? (wanted_) : (299);
  int live_ = wanted_ == point_;
  const int q = point_ / 100;
  const int i1 = point_ % 100;
  lz_f32 r0;
  {
    lz_shared_f32 r0_a_shared = lz_take_shared_f32(0, 1056);
    lz_shared_f32 r0_a_line = lz_take_shared_f32(4224, 32);
    lz_f32 r0_a0 = 0.0f;
    #pragma unroll 16
    for (int turn_ = 0; turn_ < 32; turn_++)
    {
      const int i0 = (turn_ * 32) + lane_;
      const int slot_ = turn_;
      if (i0 < ((1024 < (3001 - (q * 1024))) ? (1024) : (3001 - (q * 1024))))
      {
        r0_a0 = r0_a0 + x0[((i0 * 100) + i1) + (q * 102400)];
      }
    }

    r0_a_shared[(lane_ * 33) + place_] = r0_a0;
    lz_sync_block();
    r0_a0 = r0_a_shared[(place_ * 33) + lane_];
    for (int h_ = 16; h_ > 0; h_ /= 2)
    {
      const lz_f32 r0_a0_down = lz_shuffle_down_f32(r0_a0, h_);
      r0_a0 = r0_a0 + r0_a0_down;
    }

    if (place_ == 0)
    {
      r0_a_line[lane_] = r0_a0;
    }
    lz_sync_block();
    r0_a0 = r0_a_line[place_];
    r0 = r0_a0;
  }
  if ((lane_ == 0) && live_)
  {
    w1[i1 + (q * 100)] = r0;
  }
}

extern "C" __global__ void __launch_bounds__(256) lz_kernel_p1(const lz_f32 *restrict x0, lz_f32 *restrict y2, lz_f32 *restrict w1)
{
  const lz_i64 tile_ = lz_block();
  const int point_ = (tile_ * 256) + lz_thread();
  if (point_ < 100)
  {
    const int i1 = point_;
    lz_f32 r0;
    {
      lz_f32 r0_a0[32];
      for (lz_i64 l = 0; l < 3; l++)
      {
        r0_a0[l] = 0.0f;
      }

      {
        const lz_i64 end = 3;
        lz_i64 k = 0;
        while (k < (end - 31))
        {
          #pragma unroll 8
          for (lz_i64 l = 0; l < 32; l++)
          {
            const int q = k + l;
            r0_a0[l] = r0_a0[l] + w1[i1 + (q * 100)];
          }

          k += 32;
        }

        for (lz_i64 l = 0; l < (end - k); l++)
        {
          const int q = k + l;
          r0_a0[l] = r0_a0[l] + w1[i1 + (q * 100)];
        }

      }
      for (lz_i64 l = 0; l < 1; l++)
      {
        r0_a0[l] = r0_a0[l] + r0_a0[l + 2];
      }

      for (int h = 1; h > 0; h /= 2)
      {
        for (lz_i64 l = 0; l < h; l++)
        {
          r0_a0[l] = r0_a0[l] + r0_a0[l + h];
        }

      }

      r0 = r0_a0[0];
    }
    y2[i1] = r0;
  }
}
