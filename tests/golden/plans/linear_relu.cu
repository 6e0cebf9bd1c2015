extern "C" __global__ void __launch_bounds__(128) lz_kernel(const lz_f32 *restrict x0, const lz_f32 *restrict x1, const lz_f32 *restrict x2, lz_f32 *restrict y3)
{
  const lz_i64 tile_ = lz_block();
  lz_shared_f32 left_ = lz_take_shared_f32(0, 1728);
  lz_shared_f32 right_ = lz_take_shared_f32(6912, 3264);
  const int down_ = lz_thread() / 16;
  const int across_ = lz_thread() % 16;
  const int batch_ = (tile_ / 1) / 1;
  const int m0_ = ((tile_ / 1) % 1) * 32;
  const int n0_ = (tile_ % 1) * 64;
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
  for (int put_ = 0; put_ < 2; put_++)
  {
    const int from_ = put_ * 16;
    #pragma unroll 4
    for (int i_ = 0; i_ < 4; i_++)
    {
      const int item_ = (i_ * 128) + lz_thread();
      const int depth_ = item_ % 16;
      const int at_ = item_ / 16;
      const int outer_ = m0_ + at_;
      const int inner_ = from_ + depth_;
      if (outer_ < 32)
      {
        const int i0 = outer_;
        const int k0 = inner_;
        lz_copy_async_f32(left_, (put_ * 576) + ((depth_ * 36) + at_), x0 + ((i0 * 64) + k0), 1);
      }
    }

    #pragma unroll 8
    for (int i_ = 0; i_ < 8; i_++)
    {
      const int item_ = (i_ * 128) + lz_thread();
      const int depth_ = item_ % 16;
      const int at_ = item_ / 16;
      const int outer_ = n0_ + at_;
      const int inner_ = from_ + depth_;
      if (outer_ < 48)
      {
        const int i1 = outer_;
        const int k0 = inner_;
        lz_copy_async_f32(right_, (put_ * 1088) + ((depth_ * 68) + at_), x1 + ((i1 * 64) + k0), 1);
      }
    }

    lz_commit_copies();
  }

  #pragma unroll 1
  for (int step_ = 0; step_ < 4; step_++)
  {
    lz_wait_copies(1);
    lz_sync_block();
    const int later_ = step_ + 2;
    const int put_ = later_ % 3;
    if (later_ < 4)
    {
      const int from_ = later_ * 16;
      #pragma unroll 4
      for (int i_ = 0; i_ < 4; i_++)
      {
        const int item_ = (i_ * 128) + lz_thread();
        const int depth_ = item_ % 16;
        const int at_ = item_ / 16;
        const int outer_ = m0_ + at_;
        const int inner_ = from_ + depth_;
        if (outer_ < 32)
        {
          const int i0 = outer_;
          const int k0 = inner_;
          lz_copy_async_f32(left_, (put_ * 576) + ((depth_ * 36) + at_), x0 + ((i0 * 64) + k0), 1);
        }
      }

      #pragma unroll 8
      for (int i_ = 0; i_ < 8; i_++)
      {
        const int item_ = (i_ * 128) + lz_thread();
        const int depth_ = item_ % 16;
        const int at_ = item_ / 16;
        const int outer_ = n0_ + at_;
        const int inner_ = from_ + depth_;
        if (outer_ < 48)
        {
          const int i1 = outer_;
          const int k0 = inner_;
          lz_copy_async_f32(right_, (put_ * 1088) + ((depth_ * 68) + at_), x1 + ((i1 * 64) + k0), 1);
        }
      }

    }
    lz_commit_copies();
    const int k0_ = step_ * 16;
    const int get_ = step_ % 3;
    #pragma unroll
    for (int d_ = 0; d_ < 16; d_++)
    {
      lz_f32 a_[4];
      #pragma unroll
      for (int i_ = 0; i_ < 4; i_++)
      {
        a_[i_] = left_[(get_ * 576) + (((d_ * 36) + (down_ * 4)) + i_)];
      }

      lz_f32 b_[4];
      #pragma unroll
      for (int i_ = 0; i_ < 4; i_++)
      {
        b_[i_] = right_[(get_ * 1088) + (((d_ * 68) + (across_ * 4)) + i_)];
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

  #pragma unroll
  for (int i_ = 0; i_ < 4; i_++)
  {
    #pragma unroll
    for (int j_ = 0; j_ < 4; j_++)
    {
      const int m_ = (m0_ + (down_ * 4)) + i_;
      const int n_ = (n0_ + (across_ * 4)) + j_;
      if ((m_ < 32) && (n_ < 48))
      {
        const int i0 = m_;
        const int i1 = n_;
        const lz_f32 acc = sum_[i_][j_];
        const lz_f32 v1 = acc + x2[i1];
        const lz_f32 v2 = lz_maximum_f32(v1, 0.0f);
        y3[(i0 * 48) + i1] = v2;
      }
    }

  }

}
