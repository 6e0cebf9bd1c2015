extern "C" __global__ void __launch_bounds__(128) lz_kernel(const lz_f32 *restrict x0, const lz_f32 *restrict x1, lz_f32 *restrict y2)
{
  const lz_i64 tile_ = lz_block();
  lz_shared_f32 left_ = lz_take_shared_f32(0, 8320);
  lz_shared_f32 right_ = lz_take_shared_f32(33280, 384);
  const int down_ = lz_thread() / 2;
  const int across_ = lz_thread() % 2;
  const int batch_ = (tile_ / 1) / 1;
  const int m0_ = ((tile_ / 1) % 1) * 256;
  const int n0_ = (tile_ % 1) * 8;
  lz_f32 sum_[4][4];
  #pragma unroll
  for (int i_ = 0; i_ < 4; i_++)
  {
    #pragma unroll
    for (int j_ = 0; j_ < 4; j_++)
    {
      sum_[i_][j_] = 0.0f;
    }

  }

  #pragma unroll 1
  for (int put_ = 0; put_ < 1; put_++)
  {
    const int from_ = put_ * 16;
    #pragma unroll 8
    for (int i_ = 0; i_ < 32; i_++)
    {
      const int item_ = (i_ * 128) + lz_thread();
      const int depth_ = item_ % 16;
      const int at_ = item_ / 16;
      const int outer_ = m0_ + at_;
      const int inner_ = from_ + depth_;
      if ((outer_ < 220) && (inner_ < 27))
      {
        const int i0 = outer_ / 110;
        const int i2 = (outer_ / 11) % 10;
        const int i3 = outer_ % 11;
        const int k0 = inner_ / 9;
        const int k1 = (inner_ / 3) % 3;
        const int k2 = inner_ % 3;
        left_[(put_ * 4160) + ((depth_ * 260) + at_)] = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
      }
    }

    #pragma unroll 1
    for (int i_ = 0; i_ < 1; i_++)
    {
      const int item_ = (i_ * 128) + lz_thread();
      const int depth_ = item_ % 16;
      const int at_ = item_ / 16;
      const int outer_ = n0_ + at_;
      const int inner_ = from_ + depth_;
      if ((outer_ < 8) && (inner_ < 27))
      {
        const int i1 = outer_;
        const int k0 = inner_ / 9;
        const int k1 = (inner_ / 3) % 3;
        const int k2 = inner_ % 3;
        lz_copy_async_f32(right_, (put_ * 192) + ((depth_ * 12) + at_), x1 + ((((i1 * 27) + (k0 * 9)) + (k1 * 3)) + k2), 1);
      }
    }

    lz_commit_copies();
  }

  #pragma unroll 1
  for (int step_ = 0; step_ < 2; step_++)
  {
    lz_wait_copies(0);
    lz_sync_block();
    const int later_ = step_ + 1;
    const int put_ = later_ % 2;
    if (later_ < 2)
    {
      const int from_ = later_ * 16;
      #pragma unroll 8
      for (int i_ = 0; i_ < 32; i_++)
      {
        const int item_ = (i_ * 128) + lz_thread();
        const int depth_ = item_ % 16;
        const int at_ = item_ / 16;
        const int outer_ = m0_ + at_;
        const int inner_ = from_ + depth_;
        if ((outer_ < 220) && (inner_ < 27))
        {
          const int i0 = outer_ / 110;
          const int i2 = (outer_ / 11) % 10;
          const int i3 = outer_ % 11;
          const int k0 = inner_ / 9;
          const int k1 = (inner_ / 3) % 3;
          const int k2 = inner_ % 3;
          left_[(put_ * 4160) + ((depth_ * 260) + at_)] = (((((i2 * 2) + k1) >= 1) && (((i3 * 2) + k2) >= 1)) && (((i3 * 2) + k2) < 22)) ? (x0[((((((i0 * 1260) + (i2 * 42)) + (i3 * 2)) + (k0 * 420)) + (k1 * 21)) + k2) - 22]) : (0.0f);
        }
      }

      #pragma unroll 1
      for (int i_ = 0; i_ < 1; i_++)
      {
        const int item_ = (i_ * 128) + lz_thread();
        const int depth_ = item_ % 16;
        const int at_ = item_ / 16;
        const int outer_ = n0_ + at_;
        const int inner_ = from_ + depth_;
        if ((outer_ < 8) && (inner_ < 27))
        {
          const int i1 = outer_;
          const int k0 = inner_ / 9;
          const int k1 = (inner_ / 3) % 3;
          const int k2 = inner_ % 3;
          lz_copy_async_f32(right_, (put_ * 192) + ((depth_ * 12) + at_), x1 + ((((i1 * 27) + (k0 * 9)) + (k1 * 3)) + k2), 1);
        }
      }

    }
    lz_commit_copies();
    const int k0_ = step_ * 16;
    const int get_ = step_ % 2;
    #pragma unroll
    for (int d_ = 0; d_ < 16; d_++)
    {
      if ((k0_ + d_) < 27)
      {
        lz_f32 a_[4];
        #pragma unroll
        for (int i_ = 0; i_ < 4; i_++)
        {
          a_[i_] = left_[(get_ * 4160) + (((d_ * 260) + (down_ * 4)) + i_)];
        }

        lz_f32 b_[4];
        #pragma unroll
        for (int i_ = 0; i_ < 4; i_++)
        {
          b_[i_] = right_[(get_ * 192) + (((d_ * 12) + (across_ * 4)) + i_)];
        }

        #pragma unroll
        for (int i_ = 0; i_ < 4; i_++)
        {
          #pragma unroll
          for (int j_ = 0; j_ < 4; j_++)
          {
            sum_[i_][j_] = lz_madd_f32(a_[i_], b_[j_], sum_[i_][j_]);
          }

        }

      }
    }

  }

  #pragma unroll
  for (int i_ = 0; i_ < 4; i_++)
  {
    #pragma unroll
    for (int j_ = 0; j_ < 4; j_++)
    {
      const int m_ = (m0_ + (down_ * 4)) + i_;
      const int n_ = (n0_ + (across_ * 4)) + j_;
      if ((m_ < 220) && (n_ < 8))
      {
        const int i0 = m_ / 110;
        const int i2 = (m_ / 11) % 10;
        const int i3 = m_ % 11;
        const int i1 = n_;
        const lz_f32 acc = sum_[i_][j_];
        y2[(((i0 * 880) + (i1 * 110)) + (i2 * 11)) + i3] = acc;
      }
    }

  }

}
