// Sorting along rows, on unsigned keys that order as the values do. What has to be stable goes by
// digits of 8 bits, the least significant first; passes over a digit in which all keys agree are
// left out. 8 bits with plain stores were faster than 11 bits, than collecting cache lines before
// they are written, and than cutting the row up by its highest bits (35, 44, 60 and 55 ms for 10^7
// float32 on 2 cores). Values alone need no stability: where vectors can be split by a mask, long
// rows are sorted by quicksort, which stays in the caches (62 ms of one core, digits 98, while
// other jobs use the memory). No result depends on the number of threads.
//
// Functions called lz_rows_* are routines of the kernel IR: they first take `rows` and `n`, and
// whatever pointers they take point to rows * n elements.

//@ lz_sort_key_@S [unsigned]
// A key that orders as the bits x do: `inf` is infinity of a floating type (NaN is the largest, its
// sign does not matter) and 0 for integers, `flip` the sign bit of signed integers, `down` all ones
// for descending order. Without `exact` both zeros have one key.
LZ_FN lz_@S lz_sort_key_@S(lz_@S x, lz_@S flip, lz_@S inf, lz_@S down, int exact) {
  const lz_@S top = (lz_@S)((lz_@S)1 << @B);
  if (inf) {
    lz_@S size = (lz_@S)(x & (lz_@S)~top);
    lz_@S key = (lz_@S)(x & top ? (lz_@S)~x : (lz_@S)(x | top));
    key = size == 0 && !exact ? top : key;
    x = size > inf ? (lz_@S)~(lz_@S)0 : key;
  } else {
    x = (lz_@S)(x ^ flip);
  }
  return (lz_@S)(x ^ down);
}

//@ lz_sort_bits_@S [unsigned]
// The bits that have an exact key.
LZ_FN lz_@S lz_sort_bits_@S(lz_@S key, lz_@S flip, lz_@S inf, lz_@S down) {
  const lz_@S top = (lz_@S)((lz_@S)1 << @B);
  key = (lz_@S)(key ^ down);
  if (inf) return (lz_@S)(key & top ? key ^ top : (lz_@S)~key);
  return (lz_@S)(key ^ flip);
}

//@ lz_sort_table
// Counts of digits. Rows from lz_sort_long on are shared between threads in parts, more of them
// than threads because a thread may lose its core.
typedef lz_i64 lz_sort_table[256];
enum { lz_sort_long = 1 << 16, lz_sort_parts = 16 };

//@ lz_sort_form_@S [unsigned]
// Rows are read as bits, whatever type they were written as.
typedef lz_@S __attribute__((may_alias)) lz_any_@S;
typedef struct { lz_@S flip, inf, down; } lz_sort_form_@S;

//@ lz_sort_ranks_@S [unsigned]
// The place of each of up to 64 keys: how many stand before it. `key` has room for 64.
static __attribute__((noinline, unused)) void lz_sort_ranks_@S(lz_@S *__restrict__ key,
    lz_@W *__restrict__ place, int n) {
  for (int i = n; i < 64; i++) key[i] = 0;
  for (int i = 0; i < 64; i++) place[i] = 0;
#define LZ_RANK(WIDTH)                                                                     \
  for (int j = 0; j < n; j++)                                                              \
    for (int i = 0; i < WIDTH; i++) place[i] += (key[j] < key[i]) | ((key[j] == key[i]) & (j < i));
  if (n <= 16) { LZ_RANK(16) }
  else if (n <= 32) { LZ_RANK(32) }
  else { LZ_RANK(64) }
#undef LZ_RANK
}

//@ lz_rows_sort_short_@S [unsigned]
// Rows of up to 64 elements by rank, equal elements in their order: values and positions, unless 0.
static __attribute__((noinline, unused)) void lz_rows_sort_short_@S(lz_i64 rows, lz_i64 n,
    const void *from, void *to, lz_i64 *order, lz_@S flip, lz_@S inf, int descending,
    int threads) {
  lz_sort_form_@S f = {flip, inf, (lz_@S)(descending ? ~(lz_@S)0 : 0)};
#pragma omp parallel for num_threads(threads) if(threads > 1) schedule(dynamic, rows / 256 + 1)
  for (lz_i64 r = 0; r < rows; r++) {
    const lz_any_@S *src = (const lz_any_@S *)from + r * n;
    lz_any_@S *values = (lz_any_@S *)to + r * n;
    lz_@S key[64];
    lz_@W place[64];
    for (int i = 0; i < n; i++) key[i] = lz_sort_key_@S(src[i], f.flip, f.inf, f.down, 0);
    lz_sort_ranks_@S(key, place, (int)n);
    if (to)
      for (int i = 0; i < n; i++) values[place[i]] = src[i];
    if (order)
      for (int i = 0; i < n; i++) order[r * n + (lz_i64)place[i]] = i;
  }
}

//@ lz_sort_shifts_@S [unsigned]
// The shifts of the digits from `least` on in which the keys of a row differ, at least one; returns
// how many.
static __attribute__((noinline, unused)) int lz_sort_shifts_@S(const lz_any_@S *src, lz_i64 n,
    lz_sort_form_@S f, int exact, int least, int threads, int *shifts) {
  lz_@S differ = 0, first = lz_sort_key_@S(src[0], f.flip, f.inf, f.down, exact);
  if (threads == 1) {
    for (lz_i64 i = 0; i < n; i++)
      differ |= (lz_@S)(lz_sort_key_@S(src[i], f.flip, f.inf, f.down, exact) ^ first);
  } else {
#pragma omp parallel for num_threads(threads) reduction(|:differ)
    for (lz_i64 i = 0; i < n; i++)
      differ |= (lz_@S)(lz_sort_key_@S(src[i], f.flip, f.inf, f.down, exact) ^ first);
  }
  int passes = 0;
  for (int shift = least; shift <= @B; shift += 8)
    if ((differ >> shift) & 255) shifts[passes++] = shift;
  if (!passes) shifts[passes++] = least;
  return passes;
}

//@ lz_sort_count_@S [unsigned]
// Counts the digits of one part of a row; before the first pass it holds bits, then keys.
static __attribute__((noinline, unused)) void lz_sort_count_@S(const lz_any_@S *from, lz_i64 low,
    lz_i64 high, lz_sort_form_@S f, int exact, int shift, int first, lz_i64 *count) {
  for (int d = 0; d < 256; d++) count[d] = 0;
  if (first)
    for (lz_i64 i = low; i < high; i++)
      count[(lz_sort_key_@S(from[i], f.flip, f.inf, f.down, exact) >> shift) & 255]++;
  else
    for (lz_i64 i = low; i < high; i++) count[(from[i] >> shift) & 255]++;
}

//@ lz_sort_starts
// Turns counts into places: digit by digit, within a digit part by part.
LZ_FN void lz_sort_starts(lz_i64 (*count)[256], int parts) {
  lz_i64 sum = 0;
  for (int d = 0; d < 256; d++)
    for (int p = 0; p < parts; p++) {
      lz_i64 here = count[p][d];
      count[p][d] = sum;
      sum += here;
    }
}

//@ lz_sort_move_values_@S [unsigned]
// One pass over a part of a row: bits come in with the first pass, and go out with the last.
static __attribute__((noinline, unused)) void lz_sort_move_values_@S(const lz_any_@S *from,
    lz_any_@S *to, lz_i64 low, lz_i64 high, lz_sort_form_@S f, int shift, int first, int last,
    lz_i64 *place) {
#define LZ_MOVE(IN, OUT)                                                  \
  for (lz_i64 i = low; i < high; i++) {                                   \
    lz_@S key = IN;                                                       \
    to[place[(key >> shift) & 255]++] = OUT;                              \
  }
#define LZ_KEY lz_sort_key_@S(from[i], f.flip, f.inf, f.down, 1)
#define LZ_BITS lz_sort_bits_@S(key, f.flip, f.inf, f.down)
  if (first && last) { LZ_MOVE(LZ_KEY, LZ_BITS) }
  else if (first) { LZ_MOVE(LZ_KEY, key) }
  else if (last) { LZ_MOVE(from[i], LZ_BITS) }
  else { LZ_MOVE(from[i], key) }
#undef LZ_MOVE
#undef LZ_KEY
#undef LZ_BITS
}

//@ lz_sort_restore_@S [unsigned]
// Exact keys put -0 before 0 and forget which NaN it was: the elements of one (not exact) key come
// back from src in their order.
static __attribute__((noinline, unused)) void lz_sort_restore_@S(const lz_any_@S *src,
    lz_any_@S *dst, lz_i64 n, lz_sort_form_@S f, lz_@S key) {
  lz_i64 low = 0, past = n, end = n;
  while (low < past) {  // the first that is not before the key
    lz_i64 middle = low + (past - low) / 2;
    if (lz_sort_key_@S(dst[middle], f.flip, f.inf, f.down, 0) < key) low = middle + 1;
    else past = middle;
  }
  while (past < end) {
    lz_i64 middle = past + (end - past) / 2;
    if (lz_sort_key_@S(dst[middle], f.flip, f.inf, f.down, 0) <= key) past = middle + 1;
    else end = middle;
  }
  if (past == low) return;
  lz_@S zero = lz_sort_key_@S(0, f.flip, f.inf, f.down, 0);
  if (key == zero && dst[low] == dst[past - 1]) return;
  for (lz_i64 i = 0; i < n; i++)
    if (lz_sort_key_@S(src[i], f.flip, f.inf, f.down, 0) == key) dst[low++] = src[i];
}

//@ lz_sort_specials_@S [unsigned]
// Zeros and NaN of a sorted row with their own bits.
LZ_FN void lz_sort_specials_@S(const lz_any_@S *src, lz_any_@S *dst, lz_i64 n,
                               lz_sort_form_@S f) {
  if (!f.inf) return;
  lz_sort_restore_@S(src, dst, n, f, lz_sort_key_@S(0, f.flip, f.inf, f.down, 0));
  lz_sort_restore_@S(src, dst, n, f, (lz_@S)~f.down);
}

//@ lz_sort_row_values_@S [unsigned]
// One row of bits, by its digits from `least` on; the passes alternate between dst and keys so that
// the last ends in dst.
static __attribute__((noinline, unused)) void lz_sort_row_values_@S(const lz_any_@S *src,
    lz_any_@S *dst, lz_any_@S *keys, lz_i64 n, lz_sort_form_@S f, int least, int threads) {
  int shifts[8], passes = lz_sort_shifts_@S(src, n, f, 1, least, threads, shifts);
  int parts = threads == 1 ? 1 : lz_sort_parts;
  lz_sort_table count[parts];
  const lz_any_@S *from = src;
  for (int p = 0; p < passes; p++) {
    lz_any_@S *to = (passes - p) % 2 ? dst : keys;
    int shift = shifts[p], first = p == 0, last = p == passes - 1;
    if (parts == 1) {  // a team of one costs as much as a short row
      lz_sort_count_@S(from, 0, n, f, 1, shift, first, count[0]);
      lz_sort_starts(count, 1);
      lz_sort_move_values_@S(from, to, 0, n, f, shift, first, last, count[0]);
    } else {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
      for (int q = 0; q < parts; q++)
        lz_sort_count_@S(from, n * q / parts, n * (q + 1) / parts, f, 1, shift, first, count[q]);
      lz_sort_starts(count, parts);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
      for (int q = 0; q < parts; q++)
        lz_sort_move_values_@S(from, to, n * q / parts, n * (q + 1) / parts, f, shift, first, last,
                               count[q]);
    }
    from = to;
  }
  lz_sort_specials_@S(src, dst, n, f);
}

//@ lz_rows_sort_values_@S [unsigned]
// Every row of src in order, in dst; `keys` is scratch.
static __attribute__((noinline, unused)) void lz_rows_sort_values_@S(lz_i64 rows, lz_i64 n,
    const void *from, void *to, void *spare, lz_@S flip, lz_@S inf, int descending, int threads) {
  const lz_any_@S *src = (const lz_any_@S *)from;
  lz_any_@S *dst = (lz_any_@S *)to, *keys = (lz_any_@S *)spare;
  lz_sort_form_@S f = {flip, inf, (lz_@S)(descending ? ~(lz_@S)0 : 0)};
  int shared = rows < threads && n >= lz_sort_long;
#pragma omp parallel for num_threads(threads) if(threads > 1 && !shared) \
    schedule(dynamic, rows / 256 + 1)
  for (lz_i64 r = 0; r < rows; r++)
    lz_sort_row_values_@S(src + r * n, dst + r * n, keys + r * n, n, f, 0, shared ? threads : 1);
}

//@ lz_sort_lanes_@S [u32 u64]
// What quicksort needs of AVX-512: vectors whose lanes are chosen by a mask. Stores with a mask are
// slow, so that only the last vector of a piece has one.
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
typedef @{int|long long} lz_sort_lanes_@S __attribute__((vector_size(64)));
typedef @{int|long long} lz_sort_loose_@S
    __attribute__((vector_size(64), aligned(@{4|8}), may_alias));
LZ_FN unsigned lz_sort_first_@S(lz_i64 count) {
  return count >= @{16|8} ? @{0xffff|0xff} : (1u << count) - 1;
}
LZ_FN lz_sort_lanes_@S lz_sort_get_@S(const lz_any_@S *p, lz_i64 count, lz_@S rest) {
  if (count >= @{16|8}) return (lz_sort_lanes_@S)*(const lz_sort_loose_@S *)p;
  lz_sort_lanes_@S fill = (lz_sort_lanes_@S){0} + (@{int|long long})rest;
  return __builtin_ia32_loaddqu@{si|di}512_mask((const @{int|long long} *)p, fill,
                                                lz_sort_first_@S(count));
}
LZ_FN void lz_sort_put_@S(lz_any_@S *p, lz_i64 count, lz_sort_lanes_@S x) {
  if (count >= @{16|8}) *(lz_sort_loose_@S *)p = (lz_sort_loose_@S)x;
  else __builtin_ia32_storedqu@{si|di}512_mask((@{int|long long} *)p, x, lz_sort_first_@S(count));
}
#endif

//@ lz_sort_network_@S [u32 u64]
// A bitonic network (Batcher 1968) over `count` vectors, a power of two.
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
static inline __attribute__((always_inline, unused)) void lz_sort_network_@S(
    lz_sort_lanes_@S *v, int count) {
  enum { LANES = 64 / sizeof(lz_@S) };
  lz_sort_lanes_@S lane = {0, 1, 2, 3, 4, 5, 6, 7@{, 8, 9, 10, 11, 12, 13, 14, 15|}};
  const unsigned upper[] = {0, 0xaaaa, 0xcccc, 0, 0xf0f0, 0, 0, 0, 0xff00};
#pragma GCC unroll 8
  for (int size = 2; size <= count * LANES; size *= 2)
#pragma GCC unroll 8
    for (int stride = size / 2; stride > 0; stride /= 2)
#pragma GCC unroll 8
      for (int i = 0; i < count; i++) {
        int down = ((i * LANES) & size) != 0, j = i ^ (stride / LANES);
        lz_sort_lanes_@S other = stride < LANES ? __builtin_shuffle(v[i], lane ^ stride) : v[j];
        lz_sort_lanes_@S low = __builtin_ia32_pminu@{d|q}512_mask(v[i], other, other, -1);
        if (stride < LANES) {
          unsigned high = upper[stride] ^ (size < LANES ? upper[size] : down ? 0xffff : 0);
          v[i] = __builtin_ia32_pmaxu@{d|q}512_mask(v[i], other, low, high & ((1u << LANES) - 1));
        } else if (i < j) {
          lz_sort_lanes_@S high = __builtin_ia32_pmaxu@{d|q}512_mask(v[i], other, other, -1);
          if (down) v[i] = high, v[j] = low;
          else v[i] = low, v[j] = high;
        }
      }
}
#endif

//@ lz_sort_piece_@S [u32 u64]
// Up to four vectors of keys, in place; they go out as bits.
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
static __attribute__((noinline, unused)) void lz_sort_piece_@S(lz_any_@S *a, int n,
    lz_sort_form_@S f) {
  enum { LANES = 64 / sizeof(lz_@S) };
  const lz_sort_lanes_@S none = {0};
  lz_sort_lanes_@S v[4], top = none + (@{int|long long})((lz_@S)1 << @B);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    v[i] = n > i * LANES ? lz_sort_get_@S(a + i * LANES, n - i * LANES, (lz_@S)~(lz_@S)0)
                         : none - 1;
  if (n <= LANES) lz_sort_network_@S(v, 1);
  else if (n <= 2 * LANES) lz_sort_network_@S(v, 2);
  else lz_sort_network_@S(v, 4);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    if (n > i * LANES) {
      lz_sort_lanes_@S key = v[i] ^ (@{int|long long})f.down;
      lz_sort_lanes_@S bits = f.inf ? key ^ (~(key >> @B) | top) : key ^ (@{int|long long})f.flip;
      lz_sort_put_@S(a + i * LANES, n - i * LANES, bits);
    }
}
#endif

//@ lz_sort_pivot_@S [u32 u64]
// A median of nine keys.
LZ_FN lz_@S lz_sort_pivot_@S(const lz_any_@S *keys, lz_i64 n) {
  lz_@S m[3];
  for (int i = 0; i < 3; i++) {
    lz_i64 at = n * (2 * i + 1) / 6, step = n / 9;
    lz_@S x = keys[at - step], y = keys[at], z = keys[at + step];
    lz_@S low = x < y ? x : y, high = x < y ? y : x;
    m[i] = z < low ? low : z < high ? z : high;
  }
  lz_@S low = m[0] < m[1] ? m[0] : m[1], high = m[0] < m[1] ? m[1] : m[0];
  return m[2] < low ? low : m[2] < high ? m[2] : high;
}

//@ lz_sort_split_@S [u32 u64]
// Keys before the pivot (with `equal`: and those equal to it) first, then the others; returns how
// many come first. What is stored past them is overwritten later, or stood there before.
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
static __attribute__((noinline, unused)) lz_i64 lz_sort_split_@S(lz_any_@S *a, lz_any_@S *spare,
    lz_i64 n, lz_@S pivot, int equal) {
  enum { LANES = 64 / sizeof(lz_@S) };
  lz_i64 front = 0, back = 0, i = 0;
  lz_sort_lanes_@S pivots = (lz_sort_lanes_@S){0} + (@{int|long long})pivot;
  for (; i < n; i += LANES) {
    unsigned all = lz_sort_first_@S(n - i);
    lz_sort_lanes_@S x = lz_sort_get_@S(a + i, n - i, 0);
    unsigned mask = equal ? __builtin_ia32_ucmp@{d|q}512_mask(x, pivots, 2, all)
                          : __builtin_ia32_ucmp@{d|q}512_mask(x, pivots, 1, all);
    lz_sort_lanes_@S first = __builtin_ia32_compress@{si|di}512_mask(x, x, mask);
    lz_sort_lanes_@S rest = __builtin_ia32_compress@{si|di}512_mask(x, x, all & ~mask);
    int count = __builtin_popcount(mask);
    if (i + LANES <= n) {
      *(lz_sort_loose_@S *)(a + front) = first;
      *(lz_sort_loose_@S *)(spare + back) = rest;
    } else {
      lz_sort_put_@S(a + front, count, first);
      lz_sort_put_@S(spare + back, n - i - count, rest);
    }
    front += count;
    back += LANES - count;
  }
  back = n - front;
  for (i = 0; i < back; i += LANES)
    lz_sort_put_@S(a + front + i, back - i, lz_sort_get_@S(spare + i, back - i, 0));
  return front;
}
#endif

//@ lz_sort_pieces_@S [u32 u64]
// Sorts keys in place; they go out as bits. What keeps falling apart badly is sorted by digits.
// In a `team` large pieces become tasks.
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
static __attribute__((unused)) void lz_sort_pieces_@S(lz_any_@S *a, lz_any_@S *spare, lz_i64 n,
    int depth, int team, lz_sort_form_@S f) {
  enum { MOST = 4 * 64 / sizeof(lz_@S) };
  while (n > MOST && depth > 0) {
    lz_@S pivot = lz_sort_pivot_@S(a, n);
    lz_i64 front = lz_sort_split_@S(a, spare, n, pivot, 0);
    depth--;
    if (team && front > lz_sort_long) {
#pragma omp task
      lz_sort_pieces_@S(a, spare, front, depth, team, f);
    } else if (front) {
      lz_sort_pieces_@S(a, spare, front, depth, team, f);
    } else {  // the pivot is the smallest key: its equals are done
      front = lz_sort_split_@S(a, spare, n, pivot, 1);
      lz_@S bits = lz_sort_bits_@S(pivot, f.flip, f.inf, f.down);
      for (lz_i64 i = 0; i < front; i++) a[i] = bits;
    }
    a += front;
    spare += front;
    n -= front;
  }
  if (n <= MOST) {
    lz_sort_piece_@S(a, (int)n, f);
    return;
  }
  lz_sort_table count;
  for (int shift = 0; shift <= @B; shift += 8) {  // an even number of passes
    lz_any_@S *from = shift % 16 ? spare : a, *to = shift % 16 ? a : spare;
    lz_sort_count_@S(from, 0, n, f, 1, shift, 0, count);
    lz_sort_starts(&count, 1);
    lz_sort_move_values_@S(from, to, 0, n, f, shift, 0, shift == @B - 7, count);
  }
}
#endif

//@ lz_sort_quick_@S [u32 u64]
// Quicksort of one row, with vectors split by a mask (AVX-512); elsewhere 0 for not done. Equal
// keys have equal bits, so nothing is lost when they change places.
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
static __attribute__((noinline, unused)) int lz_sort_quick_@S(const lz_any_@S *src,
    lz_any_@S *dst, lz_any_@S *keys, lz_i64 n, lz_sort_form_@S f, int threads) {
  if (threads == 1) {
    for (lz_i64 i = 0; i < n; i++) dst[i] = lz_sort_key_@S(src[i], f.flip, f.inf, f.down, 1);
    lz_sort_pieces_@S(dst, keys, n, 64, 0, f);
    return 1;
  }
  // One team for everything: who loses its core for a while holds up nobody but at the end.
#pragma omp parallel num_threads(threads)
#pragma omp single
  {
#pragma omp taskloop grainsize(lz_sort_long)
    for (lz_i64 i = 0; i < n; i++) dst[i] = lz_sort_key_@S(src[i], f.flip, f.inf, f.down, 1);
    lz_sort_pieces_@S(dst, keys, n, 64, 1, f);
  }
  return 1;
}
#else
LZ_FN int lz_sort_quick_@S(const lz_any_@S *src, lz_any_@S *dst, lz_any_@S *keys, lz_i64 n,
    lz_sort_form_@S f, int threads) {
  (void)src; (void)dst; (void)keys; (void)n; (void)f; (void)threads;
  return 0;
}
#endif

//@ lz_rows_sort_long_@S [u32 u64]
// As lz_rows_sort_values_@S, for rows that are worth more text.
static __attribute__((noinline, unused)) void lz_rows_sort_long_@S(lz_i64 rows, lz_i64 n,
    const void *from, void *to, void *spare, lz_@S flip, lz_@S inf, int descending, int threads) {
  const lz_any_@S *src = (const lz_any_@S *)from;
  lz_any_@S *dst = (lz_any_@S *)to, *keys = (lz_any_@S *)spare;
  lz_sort_form_@S f = {flip, inf, (lz_@S)(descending ? ~(lz_@S)0 : 0)};
  int shared = rows < threads && n >= lz_sort_long;
#pragma omp parallel for num_threads(threads) if(threads > 1 && !shared) \
    schedule(dynamic, rows / 256 + 1)
  for (lz_i64 r = 0; r < rows; r++) {
    lz_i64 at = r * n;
    int team = shared ? threads : 1;
    if (lz_sort_quick_@S(src + at, dst + at, keys + at, n, f, team))
      lz_sort_specials_@S(src + at, dst + at, n, f);
    else
      lz_sort_row_values_@S(src + at, dst + at, keys + at, n, f, 0, team);
  }
}

//@ lz_sort_move_order_@S [unsigned]
// One pass that carries the positions along; without `from_order` they are counted.
static __attribute__((noinline, unused)) void lz_sort_move_order_@S(const lz_any_@S *from,
    const lz_i64 *from_order, lz_any_@S *to, lz_i64 *to_order, const lz_any_@S *src, lz_i64 low,
    lz_i64 high, lz_sort_form_@S f, int shift, int last, lz_i64 *place) {
#define LZ_MOVE(KEY, POSITION, VALUE)               \
  for (lz_i64 i = low; i < high; i++) {             \
    lz_@S key = KEY;                                \
    lz_i64 at = place[(key >> shift) & 255]++;      \
    to_order[at] = POSITION;                        \
    VALUE;                                          \
  }
  // The key of a zero or a NaN has lost its sign: such values are fetched.
  const lz_@S zero = lz_sort_key_@S(0, f.flip, f.inf, f.down, 0);
  const lz_@S nan = (lz_@S)~f.down;
#define LZ_VALUE(POSITION)                                       \
  to[at] = f.inf && (key == zero || key == nan) ? src[POSITION]  \
                                                : lz_sort_bits_@S(key, f.flip, f.inf, f.down)
#define LZ_KEY lz_sort_key_@S(from[i], f.flip, f.inf, f.down, 0)
  if (!from_order) {
    if (!last) { LZ_MOVE(LZ_KEY, i, to[at] = key) }
    else if (to) { LZ_MOVE(LZ_KEY, i, to[at] = from[i]) }
    else { LZ_MOVE(LZ_KEY, i, ) }
  } else if (!last) { LZ_MOVE(from[i], from_order[i], to[at] = key) }
  else if (to) { LZ_MOVE(from[i], from_order[i], LZ_VALUE(from_order[i])) }
  else { LZ_MOVE(from[i], from_order[i], ) }
#undef LZ_MOVE
#undef LZ_VALUE
#undef LZ_KEY
}

//@ lz_sort_row_order_@S [unsigned]
// One row; the positions alternate between order and spare so that they end in order.
static __attribute__((noinline, unused)) void lz_sort_row_order_@S(const lz_any_@S *src,
    lz_any_@S *values, lz_i64 *order, lz_any_@S *keys0, lz_any_@S *keys1, lz_i64 *spare, lz_i64 n,
    lz_sort_form_@S f, int threads) {
  int shifts[8], passes = lz_sort_shifts_@S(src, n, f, 0, 0, threads, shifts);
  int parts = threads == 1 ? 1 : lz_sort_parts;
  lz_sort_table count[parts];
  const lz_any_@S *from = src;
  const lz_i64 *from_order = 0;
  for (int p = 0; p < passes; p++) {
    int shift = shifts[p], first = p == 0, last = p == passes - 1;
    lz_any_@S *to = last ? values : p % 2 ? keys1 : keys0;
    lz_i64 *to_order = (passes - p) % 2 ? order : spare;
    if (parts == 1) {
      lz_sort_count_@S(from, 0, n, f, 0, shift, first, count[0]);
      lz_sort_starts(count, 1);
      lz_sort_move_order_@S(from, from_order, to, to_order, src, 0, n, f, shift, last, count[0]);
    } else {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
      for (int q = 0; q < parts; q++)
        lz_sort_count_@S(from, n * q / parts, n * (q + 1) / parts, f, 0, shift, first, count[q]);
      lz_sort_starts(count, parts);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
      for (int q = 0; q < parts; q++)
        lz_sort_move_order_@S(from, from_order, to, to_order, src, n * q / parts,
                              n * (q + 1) / parts, f, shift, last, count[q]);
    }
    from = to;
    from_order = to_order;
  }
}

//@ lz_rows_sort_order_@S [unsigned]
// The positions that put every row of src in order, and the values unless 0; the rest is scratch.
static __attribute__((noinline, unused)) void lz_rows_sort_order_@S(lz_i64 rows, lz_i64 n,
    const void *from, void *to, lz_i64 *order, void *spare0, void *spare1, lz_i64 *spare,
    lz_@S flip, lz_@S inf, int descending, int threads) {
  const lz_any_@S *src = (const lz_any_@S *)from;
  lz_any_@S *values = (lz_any_@S *)to;
  lz_any_@S *keys0 = (lz_any_@S *)spare0, *keys1 = (lz_any_@S *)spare1;
  lz_sort_form_@S f = {flip, inf, (lz_@S)(descending ? ~(lz_@S)0 : 0)};
  int shared = rows < threads && n >= lz_sort_long;
#pragma omp parallel for num_threads(threads) if(threads > 1 && !shared) \
    schedule(dynamic, rows / 256 + 1)
  for (lz_i64 r = 0; r < rows; r++) {
    lz_i64 at = r * n;
    lz_any_@S *out = values ? values + at : 0;
    lz_sort_row_order_@S(src + at, out, order + at, keys0 + at, keys1 + at, spare + at, n, f,
                         shared ? threads : 1);
  }
}

//@ lz_sort_differ_@S [u32 u64]
// The bits in which the keys of a row differ.
static __attribute__((noinline, unused)) lz_@S lz_sort_differ_@S(const lz_any_@S *src, lz_i64 n,
    lz_sort_form_@S f, int threads) {
  lz_@S differ = 0, first = lz_sort_key_@S(src[0], f.flip, f.inf, f.down, 0);
#pragma omp parallel for num_threads(threads) if(threads > 1) reduction(|:differ)
  for (lz_i64 i = 0; i < n; i++)
    differ |= (lz_@S)(lz_sort_key_@S(src[i], f.flip, f.inf, f.down, 0) ^ first);
  return differ;
}

//@ lz_sort_ties_@S [u32 u64]
// Puts neighbours whose upper halves are equal in the order of their whole keys, by insertion, which
// is stable; 0 where many in a row are equal in half and out of order, after which they still are.
static __attribute__((noinline, unused)) int lz_sort_ties_@S(const lz_any_@S *src, lz_any_u64 *pairs,
    lz_i64 n, lz_sort_form_@S f) {
#define LZ_KEY(PAIR) lz_sort_key_@S(src[(lz_u32)(PAIR)], f.flip, f.inf, f.down, 0)
  for (lz_i64 i = 1, start = 0; i < n; i++) {
    lz_u64 own = pairs[i];
    if (own >> 32 != pairs[i - 1] >> 32) {
      start = i;
      continue;
    }
    lz_@S key = LZ_KEY(own);
    lz_i64 at = i;
    for (; at > start && LZ_KEY(pairs[at - 1]) > key; at--) {
      if (i - start > 64) return 0;
      pairs[at] = pairs[at - 1];
    }
    pairs[at] = own;
  }
#undef LZ_KEY
  return 1;
}

//@ lz_sort_pairs_@S [u32 u64]
// The positions that put a long row in order, and the values unless 0. What moves is half of each
// key, from the first bit in which keys differ on, and below it the position: no two are equal, so
// that any way to sort gives one order. Where keys differ in few digits, passes over these are
// fastest. 0 for not done.
static __attribute__((noinline, unused)) int lz_sort_pairs_@S(const lz_any_@S *src,
    lz_any_@S *values, lz_i64 *order, lz_any_u64 *pairs, lz_any_u64 *sorted, lz_i64 n,
    lz_sort_form_@S f, int threads) {
  lz_sort_form_u64 plain = {0, 0, 0};
  lz_@S differ = lz_sort_differ_@S(src, n, f, threads);
  int up = 0, digits = 0;
  while (differ && !((lz_@S)(differ << up) >> @B)) up++;
  for (int shift = @B - 31; shift <= @B; shift += 8) digits += ((differ << up) >> shift & 255) != 0;
#pragma omp parallel for num_threads(threads) if(threads > 1)
  for (lz_i64 i = 0; i < n; i++) {
    lz_@S key = lz_sort_key_@S(src[i], f.flip, f.inf, f.down, 0);
    pairs[i] = (lz_u64)(lz_u32)((lz_@S)(key << up) >> (@B - 31)) << 32 | (lz_u64)i;
  }
  if (digits < 3 || !lz_sort_quick_u64(pairs, sorted, (lz_any_u64 *)order, n, plain, threads))
    lz_sort_row_values_u64(pairs, sorted, (lz_any_u64 *)order, n, plain, 32, threads);
  int halved = @B > 31 && (lz_u32)(differ << up);
  if (halved && !lz_sort_ties_@S(src, sorted, n, f)) return 0;
#pragma omp parallel for num_threads(threads) if(threads > 1)
  for (lz_i64 i = 0; i < n; i++) {
    lz_i64 from = (lz_i64)(lz_u32)sorted[i];
    if (values) values[i] = src[from];
    order[i] = from;
  }
  return 1;
}

//@ lz_rows_sort_pairs_@S [u32 u64]
// As lz_rows_sort_order_@S, for rows that are worth more text.
static __attribute__((noinline, unused)) void lz_rows_sort_pairs_@S(lz_i64 rows, lz_i64 n,
    const void *from, void *to, lz_i64 *order, void *spare0, void *spare1, lz_i64 *spare,
    lz_@S flip, lz_@S inf, int descending, int threads) {
  const lz_any_@S *src = (const lz_any_@S *)from;
  lz_any_@S *values = (lz_any_@S *)to;
  lz_any_@S *keys0 = (lz_any_@S *)spare0, *keys1 = (lz_any_@S *)spare1;
  lz_sort_form_@S f = {flip, inf, (lz_@S)(descending ? ~(lz_@S)0 : 0)};
  int shared = rows < threads && n >= lz_sort_long;
#pragma omp parallel for num_threads(threads) if(threads > 1 && !shared) \
    schedule(dynamic, rows / 256 + 1)
  for (lz_i64 r = 0; r < rows; r++) {
    lz_i64 at = r * n;
    int team = shared ? threads : 1;
    lz_any_@S *out = values ? values + at : 0;
    lz_any_u64 *pairs = (lz_any_u64 *)spare0 + at, *sorted = (lz_any_u64 *)spare + at;
    if (n >> 32 || !lz_sort_pairs_@S(src + at, out, order + at, pairs, sorted, n, f, team))
      lz_sort_row_order_@S(src + at, out, order + at, keys0 + at, keys1 + at, spare + at, n, f, team);
  }
}

//@ lz_merge_values_@S [unsigned]
// For a GPU: element `at` of all rows goes from runs of `width` sorted elements to runs of twice
// that, its place being its rank in both; width 0 makes runs of 256.
LZ_FN void lz_merge_values_@S(const void *input, void *output, lz_i64 at, lz_i64 n, lz_i64 width,
                              lz_@S flip, lz_@S inf, lz_@S down) {
  const lz_@S *from = (const lz_@S *)input;
  lz_@S *to = (lz_@S *)output;
  lz_i64 here = at % n, span = width ? 2 * width : 256, low = here - here % span;
  lz_i64 high = low + span < n ? low + span : n, middle = low + width < n ? low + width : n;
  const lz_@S *row = from + (at - here);
  lz_@S bits = row[here], key = lz_sort_key_@S(bits, flip, inf, down, 0);
  lz_i64 place = low;
  if (!width) {
    for (lz_i64 i = low; i < high; i++) {
      lz_@S other = lz_sort_key_@S(row[i], flip, inf, down, 0);
      place += other < key || (other == key && i < here);
    }
  } else {
    int left = here < middle;
    lz_i64 first = left ? middle : low, end = left ? high : middle, start = first;
    while (first < end) {
      lz_i64 i = first + (end - first) / 2;
      lz_@S other = lz_sort_key_@S(row[i], flip, inf, down, 0);
      if (other < key || (other == key && !left)) first = i + 1;
      else end = i;
    }
    place = low + (first - start) + (left ? here - low : here - middle);
  }
  to[(at - here) + place] = bits;
}

//@ lz_merge_order_@S [unsigned]
// The same for positions in the rows of src; with width 0 they are counted.
LZ_FN void lz_merge_order_@S(const void *input, const lz_i64 *from, lz_i64 *to, lz_i64 at, lz_i64 n,
                             lz_i64 width, lz_@S flip, lz_@S inf, lz_@S down) {
  const lz_@S *src = (const lz_@S *)input;
  lz_i64 here = at % n, span = width ? 2 * width : 256, low = here - here % span;
  lz_i64 high = low + span < n ? low + span : n, middle = low + width < n ? low + width : n;
  const lz_@S *row = src + (at - here);
  const lz_i64 *position = from + (at - here);
  lz_i64 own = width ? position[here] : here, place = low;
  lz_@S key = lz_sort_key_@S(row[own], flip, inf, down, 0);
  if (!width) {
    for (lz_i64 i = low; i < high; i++) {
      lz_@S other = lz_sort_key_@S(row[i], flip, inf, down, 0);
      place += other < key || (other == key && i < here);
    }
  } else {
    int left = here < middle;
    lz_i64 first = left ? middle : low, end = left ? high : middle, start = first;
    while (first < end) {
      lz_i64 i = first + (end - first) / 2;
      lz_@S other = lz_sort_key_@S(row[position[i]], flip, inf, down, 0);
      if (other < key || (other == key && !left)) first = i + 1;
      else end = i;
    }
    place = low + (first - start) + (left ? here - low : here - middle);
  }
  to[(at - here) + place] = own;
}

//@ lz_pick_row_@S [unsigned]
// For a GPU: element `at` of all rows becomes the one at its position in the row of src.
LZ_FN void lz_pick_row_@S(const void *src, void *dst, const lz_i64 *order, lz_i64 at, lz_i64 n) {
  ((lz_@S *)dst)[at] = ((const lz_@S *)src)[at - at % n + order[at]];
}
