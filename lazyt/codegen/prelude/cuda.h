// What kernels for NVIDIA GPUs call beside the math prelude, for NVRTC: threads, barriers, shuffles,
// shared memory. "emulator.h" spells the same helpers in C++ for the CPU; kernels use nothing else.
#define restrict __restrict__
#define LZ_FN static __device__ __forceinline__
#define LZ_LONG_FN static __device__ __noinline__
#define LZ_STEPS_FN static __device__ __forceinline__
#define LZ_COPY(to, from, size) memcpy(to, from, size)
#define LZ_ABS_F32(x) fabsf(x)
#define LZ_ABS_F64(x) fabs(x)
#define LZ_SQRT_F32(x) __fsqrt_rn(x)
#define LZ_SQRT_F64(x) __dsqrt_rn(x)
#define LZ_FUSED
#define LZ_FMA_F32(a, b, c) __fmaf_rn(a, b, c)
#define LZ_FMA_F64(a, b, c) __fma_rn(a, b, c)
#define LZ_INF_F32 __int_as_float(0x7f800000)
#define LZ_INF_F64 __longlong_as_double(0x7ff0000000000000LL)
#define LZ_NAN_F32 __int_as_float(0x7fc00000)
#define LZ_NAN_F64 __longlong_as_double(0x7ff8000000000000LL)
#define LZ_FLOOR_F32(x) floorf(x)
#define LZ_FLOOR_F64(x) floor(x)
#define LZ_CEIL_F32(x) ceilf(x)
#define LZ_CEIL_F64(x) ceil(x)
#define LZ_TRUNC_F32(x) truncf(x)
#define LZ_TRUNC_F64(x) trunc(x)
#define LZ_RINT_F32(x) rintf(x)
#define LZ_RINT_F64(x) rint(x)

extern __shared__ __align__(16) unsigned char lz_shared_bytes[];
LZ_FN int lz_thread() { return (int)threadIdx.x; }
LZ_FN long long lz_block() { return (long long)blockIdx.x; }
LZ_FN long long lz_blocks() { return (long long)gridDim.x; }
LZ_FN void lz_sync_block() { __syncthreads(); }
LZ_FN void lz_sync_warp() { __syncwarp(); }

// Adjacent elements between memory and registers, 16 bytes at a time, or all where they are fewer.
// W is a word of that size; the address has to be a multiple of it.
template <int BYTES> struct lz_word_of { typedef uint4 W; };
template <> struct lz_word_of<8> { typedef uint2 W; };
template <> struct lz_word_of<4> { typedef unsigned W; };
template <> struct lz_word_of<2> { typedef unsigned short W; };
template <class T, int N> LZ_FN void lz_load_adjacent(T (&to)[N], const T *from) {
  typedef typename lz_word_of<N * sizeof(T)>::W W;
#pragma unroll
  for (int i = 0; i < (int)(N * sizeof(T) / sizeof(W)); i++) {
    W word = ((const W *)from)[i];
    memcpy((char *)to + i * sizeof(W), &word, sizeof(W));
  }
}
template <class T, int N> LZ_FN void lz_store_adjacent(T *to, const T (&from)[N]) {
  typedef typename lz_word_of<N * sizeof(T)>::W W;
#pragma unroll
  for (int i = 0; i < (int)(N * sizeof(T) / sizeof(W)); i++) {
    W word;
    memcpy(&word, (const char *)from + i * sizeof(W), sizeof(W));
    ((W *)to)[i] = word;
  }
}

// Copies from global into shared memory that need no register and go on while the thread does other
// things. Those since the last commit are a group; a thread waits until only the newest ``pending``
// groups of its own are under way. Other threads see them behind a barrier after that. They have 4, 8
// or 16 bytes, to which both addresses are aligned. Before sm_80 a copy ends at once.
LZ_FN void lz_copy_bytes(void *to, const void *from, int bytes) {
#if __CUDA_ARCH__ >= 800
  unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else if (bytes == 8)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
#else
  if (bytes == 16) *(uint4 *)to = *(const uint4 *)from;
  else if (bytes == 8) *(uint2 *)to = *(const uint2 *)from;
  else *(unsigned *)to = *(const unsigned *)from;
#endif
}
LZ_FN void lz_commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
LZ_FN void lz_wait_copies(int pending) {
#if __CUDA_ARCH__ >= 800
  if (pending >= 2) asm volatile("cp.async.wait_group 2;" ::: "memory");
  else if (pending == 1) asm volatile("cp.async.wait_group 1;" ::: "memory");
  else asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
}

// Updates of an element that other threads may update at the same time. T: type, W: what the hardware
// adds.
#define LZ_ATOMIC(S, T, W)                                                                         \
  LZ_FN void lz_atomic_add_##S(T *to, T x) { atomicAdd((W *)to, (W)x); }                           \
  LZ_FN void lz_atomic_maximum_##S(T *to, T x) { atomicMax(to, x); }                               \
  LZ_FN void lz_atomic_minimum_##S(T *to, T x) { atomicMin(to, x); }
LZ_ATOMIC(i32, int, int)
LZ_ATOMIC(u32, unsigned, unsigned)
LZ_ATOMIC(i64, long long, unsigned long long)
LZ_ATOMIC(u64, unsigned long long, unsigned long long)

// S: suffix, T: its type, W: a type that the hardware shuffles, U: unsigned type to multiply in.
#define LZ_GPU_TYPE(S, T, W)                                                                       \
  typedef T *lz_shared_##S;                                                                        \
  LZ_FN T *lz_take_shared_##S(int offset, int) { return (T *)(lz_shared_bytes + offset); }         \
  LZ_FN void lz_copy_async_##S(T *to, int at, const T *from, int count) {                          \
    lz_copy_bytes(to + at, from, count * (int)sizeof(T));                                          \
  }                                                                                                \
  LZ_FN T lz_shuffle_down_##S(T x, int distance) {                                                 \
    return (T)__shfl_down_sync(0xffffffffu, (W)x, distance);                                       \
  }                                                                                                \
  LZ_FN T lz_shuffle_first_##S(T x) { return (T)__shfl_sync(0xffffffffu, (W)x, 0); }
#define LZ_GPU_INTEGER(S, T, W, U)                                                                 \
  LZ_GPU_TYPE(S, T, W)                                                                             \
  LZ_FN T lz_madd_##S(T a, T b, T c) { return (T)((U)a * (U)b + (U)c); }
LZ_GPU_INTEGER(b8, unsigned char, unsigned, unsigned)
LZ_GPU_INTEGER(u8, unsigned char, unsigned, unsigned)
LZ_GPU_INTEGER(u16, unsigned short, unsigned, unsigned)
LZ_GPU_INTEGER(u32, unsigned, unsigned, unsigned)
LZ_GPU_INTEGER(u64, unsigned long long, unsigned long long, unsigned long long)
LZ_GPU_INTEGER(i8, signed char, int, unsigned)
LZ_GPU_INTEGER(i16, short, int, unsigned)
LZ_GPU_INTEGER(i32, int, int, unsigned)
LZ_GPU_INTEGER(i64, long long, long long, unsigned long long)
LZ_GPU_TYPE(f32, float, float)
LZ_GPU_TYPE(f64, double, double)
LZ_FN float lz_madd_f32(float a, float b, float c) { return __fmaf_rn(a, b, c); }
LZ_FN double lz_madd_f64(double a, double b, double c) { return __fma_rn(a, b, c); }
