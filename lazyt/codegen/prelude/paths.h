// Functions of two texts: one that serves nearly all arguments, and one for the rest.

//@ lz_paths
// gcc vectorises no loop with a branch, and choosing after both texts costs both. A vector's lanes
// are therefore a function of their own, which runs the second text only where an element of the
// vector needs it; loops call it by the name that "omp declare simd" gives it. Which text gives an
// element its value depends on that element alone. Elsewhere the texts are a plain choice.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__cplusplus) && defined(_OPENMP) \
    && defined(__AVX2__)
#define LZ_LANES
#ifdef __AVX512F__
#define LZ_LANES_NAME(lanes, arguments, name) "_ZGVeN" #lanes #arguments "_one_" #name
#else
#define LZ_LANES_NAME(lanes, arguments, name) "_ZGVdN" #lanes #arguments "_one_" #name
#endif
#define LZ_ALONE static __attribute__((noinline, used))
#endif

//@ lz_paths_@S [floats]
// name(x) is usual(x) where meets(x), else rare(x, usual(x)). Depends on lz_paths.
#ifdef LZ_LANES
typedef lz_@S lz_lanes_@S __attribute__((vector_size(32), may_alias));
#define lz_paths_@S(name, meets, usual, rare)                                                      \
  LZ_ALONE lz_@S name##_one(lz_@S x) __asm__("one_" #name);                                        \
  LZ_ALONE lz_@S name##_one(lz_@S x) {                                                             \
    lz_@S first = usual(x);                                                                        \
    return meets(x) ? first : rare(x, first);                                                      \
  }                                                                                                \
  LZ_ALONE lz_lanes_@S name##_many(lz_lanes_@S x) __asm__(LZ_LANES_NAME(@{8|4}, v, name));         \
  LZ_ALONE lz_lanes_@S name##_many(lz_lanes_@S x) {                                                \
    _Alignas(32) lz_@S from[@{8|4}], to[@{8|4}];                                                   \
    lz_@U left = 0;                                                                                \
    *(lz_lanes_@S *)from = x;                                                                      \
    _Pragma("omp simd reduction(| : left)") for (int i = 0; i < @{8|4}; i++) {                     \
      to[i] = usual(from[i]);                                                                      \
      left |= !meets(from[i]);                                                                     \
    }                                                                                              \
    if (__builtin_expect(left != 0, 0)) {                                                          \
      _Pragma("omp simd") for (int i = 0; i < @{8|4}; i++) {                                       \
        lz_@S other = rare(from[i], to[i]);                                                        \
        to[i] = meets(from[i]) ? to[i] : other;                                                    \
      }                                                                                            \
    }                                                                                              \
    return *(lz_lanes_@S *)to;                                                                     \
  }                                                                                                \
  _Pragma("omp declare simd notinbranch simdlen(@{8|4})") __attribute__((const))                   \
  lz_@S name(lz_@S x) __asm__("one_" #name);
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
typedef lz_@S lz_pairs_@S __attribute__((vector_size(32), may_alias));
#define lz_paths2_@S(name, meets, usual, rare)                                                     \
  LZ_ALONE lz_@S name##_one(lz_@S x, lz_@S y) __asm__("one_" #name);                               \
  LZ_ALONE lz_@S name##_one(lz_@S x, lz_@S y) {                                                    \
    return meets(x, y) ? usual(x, y) : rare(x, y);                                                 \
  }                                                                                                \
  LZ_ALONE lz_pairs_@S name##_many(lz_pairs_@S x, lz_pairs_@S y)                                   \
      __asm__(LZ_LANES_NAME(@{8|4}, vv, name));                                                    \
  LZ_ALONE lz_pairs_@S name##_many(lz_pairs_@S x, lz_pairs_@S y) {                                 \
    _Alignas(32) lz_@S a[@{8|4}], b[@{8|4}], to[@{8|4}];                                           \
    lz_@U left = 0;                                                                                \
    *(lz_pairs_@S *)a = x;                                                                         \
    *(lz_pairs_@S *)b = y;                                                                         \
    _Pragma("omp simd reduction(| : left)") for (int i = 0; i < @{8|4}; i++) {                     \
      to[i] = usual(a[i], b[i]);                                                                   \
      left |= !meets(a[i], b[i]);                                                                  \
    }                                                                                              \
    if (__builtin_expect(left != 0, 0))                                                            \
      for (int i = 0; i < @{8|4}; i++)                                                             \
        if (!meets(a[i], b[i])) to[i] = rare(a[i], b[i]);                                          \
    return *(lz_pairs_@S *)to;                                                                     \
  }                                                                                                \
  _Pragma("omp declare simd notinbranch simdlen(@{8|4})") __attribute__((const))                   \
  lz_@S name(lz_@S x, lz_@S y) __asm__("one_" #name);
#else
#define lz_paths2_@S(name, meets, usual, rare)                                                     \
  LZ_FN lz_@S name(lz_@S x, lz_@S y) { return meets(x, y) ? usual(x, y) : rare(x, y); }
#endif
