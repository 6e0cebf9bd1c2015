// PTX instructions of tensor cores and asynchronous copies, as functions.
typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short bf16;
#define DI __device__ __forceinline__
DI u32 pack2(float lo, float hi) {
  u32 p;
  asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(p) : "f"(hi), "f"(lo));
  return p;
}
extern __shared__ __align__(1024) unsigned char lz_smem[];
DI u32 lz_saddr(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DI void lz_cp16(u32 d, const void* s) {
  asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(d), "l"(s) : "memory");
}
DI void lz_cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
DI void lz_cp_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
DI void lz_ldm4(u32* r, u32 a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(a)
               : "memory");
}
DI void lz_mma16816(float* c, const u32* a, const u32* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
struct alignas(64) TMap {
  char b[128];
};
DI void lz_mb_init(u32 b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(b), "r"(n));
}
DI void lz_mb_expect(u32 b, u32 n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(b), "r"(n) : "memory");
}
DI void lz_mb_arrive(u32 b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" ::"r"(b) : "memory");
}
DI void lz_mb_wait(u32 b, u32 ph) {
  asm volatile(
      "{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p,[%0],%1; @p bra D; bra W; "
      "D:}" ::"r"(b),
      "r"(ph)
      : "memory");
}
DI void lz_tma2d(u32 d, const TMap* m, u32 b, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0],[%1,{%3,%4}],[%2];" ::"r"(d),
      "l"(m), "r"(b), "r"(x), "r"(y)
      : "memory");
}
DI u64 lz_desc(u32 a) {
  return ((u64)((a & 0x3FFFF) >> 4)) | (1ull << 16) | ((u64)(1024 >> 4) << 32) | (1ull << 62);
}
DI void lz_wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DI void lz_wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
DI void lz_wg_wait0() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
#define LZ_REG_DEC(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 " #n ";")
#define LZ_REG_INC(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 " #n ";")
DI void lz_fence_init() { asm volatile("fence.mbarrier_init.release.cluster;fence.proxy.async;"); }
template <int N>
DI void lz_wgmma(float* d, u64 a, u64 b);
