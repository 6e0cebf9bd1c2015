// C = A B^T of bfloat16 matrices in bfloat16, by wgmma, TMA and mbarriers: a persistent grid of
// blocks in which one warp group brings tiles of 128 x 64 and BN x 64, and two multiply.
template <int BN, int ST>
__device__ __forceinline__ void gemm90_body(const TMap& ta, const TMap& tb, bf16* C, int M, int N,
                                            int K) {
  const int BM = 128, BK = 64;
  const u32 SA = BM * BK * 2, SB = BN * BK * 2;
  u32 sb = lz_saddr(lz_smem), fb = sb + ST * (SA + SB), eb = fb + 8 * ST;
  int wg = threadIdx.x >> 7;
  if (threadIdx.x == 0) {
    for (int i = 0; i < ST; i++) {
      lz_mb_init(fb + 8 * i, 1);
      lz_mb_init(eb + 8 * i, 2);
    }
    lz_fence_init();
  }
  __syncthreads();
  int nk = K / BK, tn = N / BN, nt = (M / BM) * tn;
  u32 it = 0;
  if (wg == 0) {
    LZ_REG_DEC(40);
    if (threadIdx.x == 0)
      for (int tile = blockIdx.x; tile < nt; tile += gridDim.x) {
        int tm = tile / tn, tc = tile % tn;
        for (int k = 0; k < nk; k++, it++) {
          u32 s = it % ST, ph = (it / ST) & 1;
          lz_mb_wait(eb + 8 * s, ph ^ 1);
          lz_mb_expect(fb + 8 * s, SA + SB);
          lz_tma2d(sb + s * (SA + SB), &ta, fb + 8 * s, k * BK, tm * BM);
          lz_tma2d(sb + s * (SA + SB) + SA, &tb, fb + 8 * s, k * BK, tc * BN);
        }
      }
  } else {
    LZ_REG_INC(232);
    wg--;
    for (int tile = blockIdx.x; tile < nt; tile += gridDim.x) {
      int tm = tile / tn, tc = tile % tn;
      float d[BN / 2];
#pragma unroll
      for (int i = 0; i < BN / 2; i++) d[i] = 0;
      for (int k = 0; k < nk; k++, it++) {
        u32 s = it % ST, ph = (it / ST) & 1;
        lz_mb_wait(fb + 8 * s, ph);
        u32 a = sb + s * (SA + SB) + wg * 64 * 128, b = sb + s * (SA + SB) + SA;
        lz_wg_fence();
#pragma unroll
        for (int kk = 0; kk < 4; kk++) lz_wgmma<BN>(d, lz_desc(a + kk * 32), lz_desc(b + kk * 32));
        lz_wg_commit();
        lz_wg_wait0();
        if ((threadIdx.x & 127) == 0) lz_mb_arrive(eb + 8 * s);
      }
      int l = threadIdx.x & 31, w = (threadIdx.x >> 5) & 3;
      bf16* Cp = C + (u64)(tm * BM + wg * 64 + w * 16 + (l >> 2)) * N + tc * BN + (l & 3) * 2;
#pragma unroll
      for (int j = 0; j < BN / 8; j++) {
        *(u32*)(Cp + j * 8) = pack2(d[4 * j], d[4 * j + 1]);
        *(u32*)(Cp + (u64)8 * N + j * 8) = pack2(d[4 * j + 2], d[4 * j + 3]);
      }
    }
  }
}
extern "C" __global__ void __launch_bounds__(384, 1)
    gemm90(const __grid_constant__ TMap ta, const __grid_constant__ TMap tb, bf16* __restrict__ C,
           int M, int N, int K) {
  gemm90_body<WGN, 4>(ta, tb, C, M, N, K);
}
