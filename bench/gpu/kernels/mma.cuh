// C = A B^T of bfloat16 matrices [M, K] and [N, K] in float32, by mma.sync, ldmatrix and cp.async:
// tiles of 128 x 128, four stages of 32 steps, eight warps. Sizes are multiples of the tile.
__device__ __forceinline__ u32 swz64(int row, int ch) {
  return row * 64 + ((ch ^ ((row >> 1) & 3)) << 4);
}
extern "C" __global__ void __launch_bounds__(256, 2)
    gemm(const bf16* __restrict__ A, const bf16* __restrict__ B, float* __restrict__ C, int M,
         int N, int K) {
  const int BM = 128, BN = 128, BK = 32, ST = 4;
  u32 sb = lz_saddr(lz_smem);
  int t = threadIdx.x, w = t >> 5, l = t & 31, wm = w >> 2, wn = w & 3;
  const bf16 *Ag = A + (u64)blockIdx.y * BM * K, *Bg = B + (u64)blockIdx.x * BN * K;
  float acc[4][4][4] = {};
  auto load = [&](int s, int k) {
    u32 base = sb + s * 16384;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      int c = t + i * 256, r = c >> 2, q = c & 3;
      lz_cp16(base + swz64(r, q), Ag + (u64)r * K + k + q * 8);
      lz_cp16(base + 8192 + swz64(r, q), Bg + (u64)r * K + k + q * 8);
    }
  };
  int nk = K / BK;
  for (int s = 0; s < ST - 1; s++) {
    if (s < nk) load(s, s * BK);
    lz_cp_commit();
  }
  for (int k = 0; k < nk; k++) {
    lz_cp_wait<ST - 2>();
    __syncthreads();
    if (k + ST - 1 < nk) load((k + ST - 1) % ST, (k + ST - 1) * BK);
    lz_cp_commit();
    u32 base = sb + (k % ST) * 16384;
#pragma unroll
    for (int kk = 0; kk < 2; kk++) {
      u32 a[4][4], b[2][4];
#pragma unroll
      for (int i = 0; i < 4; i++)
        lz_ldm4(a[i], base + swz64(wm * 64 + i * 16 + (l & 15), kk * 2 + (l >> 4)));
#pragma unroll
      for (int j = 0; j < 2; j++)
        lz_ldm4(b[j],
                base + 8192 +
                    swz64(wn * 32 + j * 16 + (l & 7) + ((l >> 4) << 3), kk * 2 + ((l >> 3) & 1)));
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) lz_mma16816(acc[i][j], a[i], &b[j >> 1][(j & 1) * 2]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      int r = blockIdx.y * BM + wm * 64 + i * 16 + (l >> 2),
          c = blockIdx.x * BN + wn * 32 + j * 8 + (l & 3) * 2;
      *(float2*)&C[(u64)r * N + c] = make_float2(acc[i][j][0], acc[i][j][1]);
      *(float2*)&C[(u64)(r + 8) * N + c] = make_float2(acc[i][j][2], acc[i][j][3]);
    }
}
