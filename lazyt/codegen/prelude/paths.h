// Functions of two texts: one that serves nearly all arguments, and one for the rest.

//@ lz_paths
// gcc vectorises no loop with a branch, and choosing after both texts costs both. A vector's lanes
// are therefore a function of their own, which runs the second text only where an element of the
// vector needs it; loops call it by the name that "omp declare simd" gives it. Which text gives an
// element its value depends on that element alone. Elsewhere the texts are a plain choice.
// Where vectors have 64 bytes there is one for these and one for half of them, for ends of rows.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__cplusplus) && defined(_OPENMP) \
    && defined(__AVX2__)
#define LZ_LANES
#define LZ_ALONE static __attribute__((noinline, used))
#ifdef __AVX512F__
#define LZ_LANES_NAME(lanes, arguments, name) "_ZGVeN" #lanes #arguments "_one_" #name
#else
#define LZ_LANES_NAME(lanes, arguments, name) "_ZGVdN" #lanes #arguments "_one_" #name
#endif
// Whether any lane is flagged, in one instruction; of a fold by "|" gcc 12 makes ten.
typedef long long lz_flags_32 __attribute__((vector_size(32), may_alias));
typedef int lz_flags_64 __attribute__((vector_size(64), may_alias));
#define LZ_ANY_32(flags) !__builtin_ia32_ptestz256(flags, flags)
#define LZ_ANY_64(flags) __builtin_ia32_ptestmd512(flags, flags, 0xffff)
#endif

//@ lz_paths_@S [floats]
// name(x) is usual(x) where meets(x), else rare(x, usual(x)). Depends on lz_paths.
#ifdef LZ_LANES
#define lz_lanes_@S(name, meets, usual, rare, lanes, bytes)                                        \
  typedef lz_@S name##_##lanes __attribute__((vector_size(bytes), may_alias));                     \
  LZ_ALONE name##_##lanes name##_rest_##lanes(name##_##lanes x, name##_##lanes y) {                \
    _Alignas(bytes) lz_@S from[lanes], to[lanes];                                                  \
    *(name##_##lanes *)from = x;                                                                   \
    *(name##_##lanes *)to = y;                                                                     \
    _Pragma("omp simd") for (int i = 0; i < lanes; i++) {                                          \
      lz_@S other = rare(from[i], to[i]);                                                          \
      to[i] = meets(from[i]) ? to[i] : other;                                                      \
    }                                                                                              \
    return *(name##_##lanes *)to;                                                                  \
  }                                                                                                \
  LZ_ALONE name##_##lanes name##_of_##lanes(name##_##lanes x)                                      \
      __asm__(LZ_LANES_NAME(lanes, v, name));                                                      \
  LZ_ALONE name##_##lanes name##_of_##lanes(name##_##lanes x) {                                    \
    _Alignas(bytes) lz_@S from[lanes], to[lanes];                                                  \
    _Alignas(bytes) lz_@U left[lanes];                                                             \
    *(name##_##lanes *)from = x;                                                                   \
    _Pragma("omp simd") for (int i = 0; i < lanes; i++) {                                          \
      to[i] = usual(from[i]);                                                                      \
      left[i] = meets(from[i]) ? 0 : ~(lz_@U)0;                                                    \
    }                                                                                              \
    if (__builtin_expect(LZ_ANY_##bytes(*(lz_flags_##bytes *)left), 0))                            \
      return name##_rest_##lanes(x, *(name##_##lanes *)to);                                        \
    return *(name##_##lanes *)to;                                                                  \
  }
#ifdef __AVX512F__
#define lz_widths_@S(...)                                                                          \
  lz_lanes_@S(__VA_ARGS__, @{16|8}, 64) lz_lanes_@S(__VA_ARGS__, @{8|4}, 32)                       \
  _Pragma("omp declare simd notinbranch simdlen(@{16|8})")                                         \
  _Pragma("omp declare simd notinbranch simdlen(@{8|4})")
#else
#define lz_widths_@S(...)                                                                          \
  lz_lanes_@S(__VA_ARGS__, @{8|4}, 32) _Pragma("omp declare simd notinbranch simdlen(@{8|4})")
#endif
#define lz_paths_@S(name, meets, usual, rare)                                                      \
  LZ_ALONE lz_@S name##_one(lz_@S x) __asm__("one_" #name);                                        \
  LZ_ALONE lz_@S name##_one(lz_@S x) {                                                             \
    lz_@S first = usual(x);                                                                        \
    return meets(x) ? first : rare(x, first);                                                      \
  }                                                                                                \
  lz_widths_@S(name, meets, usual, rare)                                                           \
  __attribute__((const)) lz_@S name(lz_@S x) __asm__("one_" #name);
#else
#define lz_paths_@S(name, meets, usual, rare)                                                      \
  LZ_FN lz_@S name(lz_@S x) {                                                                      \
    lz_@S first = usual(x);                                                                        \
    return meets(x) ? first : rare(x, first);                                                      \
  }
#endif

//@ lz_paths2_@S [floats]
// As lz_paths_@S, for two arguments. Depends on lz_paths.
#ifdef LZ_LANES
#define lz_lanes2_@S(name, meets, usual, rare, lanes, bytes)                                       \
  typedef lz_@S name##_##lanes __attribute__((vector_size(bytes), may_alias));                     \
  LZ_ALONE name##_##lanes name##_rest_##lanes(name##_##lanes x, name##_##lanes y,                  \
                                              name##_##lanes z) {                                  \
    _Alignas(bytes) lz_@S a[lanes], b[lanes], to[lanes];                                           \
    *(name##_##lanes *)a = x;                                                                      \
    *(name##_##lanes *)b = y;                                                                      \
    *(name##_##lanes *)to = z;                                                                     \
    for (int i = 0; i < lanes; i++)                                                                \
      if (!meets(a[i], b[i])) to[i] = rare(a[i], b[i]);                                            \
    return *(name##_##lanes *)to;                                                                  \
  }                                                                                                \
  LZ_ALONE name##_##lanes name##_of_##lanes(name##_##lanes x, name##_##lanes y)                    \
      __asm__(LZ_LANES_NAME(lanes, vv, name));                                                     \
  LZ_ALONE name##_##lanes name##_of_##lanes(name##_##lanes x, name##_##lanes y) {                  \
    _Alignas(bytes) lz_@S a[lanes], b[lanes], to[lanes];                                           \
    _Alignas(bytes) lz_@U left[lanes];                                                             \
    *(name##_##lanes *)a = x;                                                                      \
    *(name##_##lanes *)b = y;                                                                      \
    _Pragma("omp simd") for (int i = 0; i < lanes; i++) {                                          \
      to[i] = usual(a[i], b[i]);                                                                   \
      left[i] = meets(a[i], b[i]) ? 0 : ~(lz_@U)0;                                                 \
    }                                                                                              \
    if (__builtin_expect(LZ_ANY_##bytes(*(lz_flags_##bytes *)left), 0))                            \
      return name##_rest_##lanes(x, y, *(name##_##lanes *)to);                                     \
    return *(name##_##lanes *)to;                                                                  \
  }
#ifdef __AVX512F__
#define lz_widths2_@S(...)                                                                         \
  lz_lanes2_@S(__VA_ARGS__, @{16|8}, 64) lz_lanes2_@S(__VA_ARGS__, @{8|4}, 32)                     \
  _Pragma("omp declare simd notinbranch simdlen(@{16|8})")                                         \
  _Pragma("omp declare simd notinbranch simdlen(@{8|4})")
#else
#define lz_widths2_@S(...)                                                                         \
  lz_lanes2_@S(__VA_ARGS__, @{8|4}, 32) _Pragma("omp declare simd notinbranch simdlen(@{8|4})")
#endif
#define lz_paths2_@S(name, meets, usual, rare)                                                     \
  LZ_ALONE lz_@S name##_one(lz_@S x, lz_@S y) __asm__("one_" #name);                               \
  LZ_ALONE lz_@S name##_one(lz_@S x, lz_@S y) {                                                    \
    return meets(x, y) ? usual(x, y) : rare(x, y);                                                 \
  }                                                                                                \
  lz_widths2_@S(name, meets, usual, rare)                                                          \
  __attribute__((const)) lz_@S name(lz_@S x, lz_@S y) __asm__("one_" #name);
#else
#define lz_paths2_@S(name, meets, usual, rare)                                                     \
  LZ_FN lz_@S name(lz_@S x, lz_@S y) { return meets(x, y) ? usual(x, y) : rare(x, y); }
#endif
