// Instructions that move elements, whatever they are, and maps over any operands.

// Elements that a step of a map takes at a time, and bytes of one register.
enum { LZ_PIECE = 256, LZ_REGISTER = LZ_PIECE * 8, LZ_REGISTERS = 32 };
typedef void (*lz_primitive)(lz_i64, void *, const void *, const void *, const void *);

// `count` elements with a stride to or from memory without gaps.
#define LZ_MOVE(T)                                                                         \
  {                                                                                        \
    const T *restrict x = (const T *)from;                                                 \
    T *restrict y = (T *)to;                                                               \
    if (from_stride == sizeof(T) && to_stride == sizeof(T))                                \
      LZ_COPY(to, from, count * sizeof(T));                                                \
    else if (from_stride == 0 && to_stride == sizeof(T)) {                                 \
      const T value = *x;                                                                  \
      for (lz_i64 i = 0; i < count; i++) y[i] = value;                                     \
    } else if (to_stride == sizeof(T)) {                                                   \
      const lz_i64 pace = from_stride / (lz_i64)sizeof(T);                                 \
      for (lz_i64 i = 0; i < count; i++) y[i] = x[i * pace];                               \
    } else                                                                                 \
      for (lz_i64 i = 0; i < count; i++)                                                   \
        *(T *)(to + i * to_stride) = *(const T *)(from + i * from_stride);                 \
  }
static LZ_OWN void lz_generic_run(char *to, lz_i64 to_stride, const char *from, lz_i64 from_stride,
                           lz_i64 count, lz_i64 size) {
  switch (size) {
  case 1: LZ_MOVE(lz_u8) break;
  case 2: LZ_MOVE(lz_u16) break;
  case 4: LZ_MOVE(lz_u32) break;
  default: LZ_MOVE(lz_u64) break;
  }
}

// Elements first .. first + count - 1, in row-major order, of a strided operand.
static LZ_OWN void lz_generic_take(char *to, const char *from, lz_i64 first, lz_i64 count, lz_i64 size,
                            lz_i64 rank, const lz_i64 *extents, const lz_i64 *strides) {
  lz_i64 at[16];
  lz_i64 rest = first;
  for (lz_i64 d = rank - 1; d >= 0; d--) {
    at[d] = d ? rest % extents[d] : rest;
    rest /= extents[d];
    from += at[d] * strides[d];
  }
  const lz_i64 last = rank - 1;
  while (count > 0) {
    lz_i64 run = extents[last] - at[last];
    if (run > count) run = count;
    lz_generic_run(to, size, from, strides[last], run, size);
    to += run * size;
    count -= run;
    if (count <= 0) break;
    from -= at[last] * strides[last];
    at[last] = 0;
    for (lz_i64 d = last - 1; d >= 0; d--) {
      from += strides[d];
      if (++at[d] < extents[d]) break;
      from -= extents[d] * strides[d];
      at[d] = 0;
    }
  }
}

// copy: size, rank, rows (the product of all extents but the last), to, from, extents, strides of
// to, strides of from.
static void lz_generic_copy(const lz_i64 *w, char **slots, int threads, const void **table) {
  const lz_i64 size = w[2], rank = w[3], rows = w[4], *extents = w + 9;
  const lz_i64 *to_strides = extents + rank, *from_strides = to_strides + rank;
  char *to = LZ_PLACE(5);
  const char *from = LZ_PLACE(7);
  const lz_i64 run = extents[rank - 1];
  if (rows == 1) {
    lz_generic_run(to, to_strides[rank - 1], from, from_strides[rank - 1], run, size);
    return;
  }
#pragma omp parallel for num_threads(threads) if(threads > 1 && rows * run > 200000) schedule(static)
  for (lz_i64 part = 0; part < (rows + 63) / 64; part++) {
    const lz_i64 end = part * 64 + 64 < rows ? part * 64 + 64 : rows;
    struct lz_walk target, source;
    lz_walk_begin(&target, to, part * 64, rank - 1, extents, to_strides);
    lz_walk_begin(&source, from, part * 64, rank - 1, extents, from_strides);
    for (lz_i64 row = part * 64; row < end; row++, lz_walk_on(&target), lz_walk_on(&source))
      lz_generic_run((char *)target.row, to_strides[rank - 1], source.row, from_strides[rank - 1],
                     run, size);
  }
}

// fill: size, count, to, the value's bits. Memory without gaps.
static void lz_generic_fill(const lz_i64 *w, char **slots, int threads, const void **table) {
  char *to = LZ_PLACE(4);
  lz_generic_run(to, w[2], (const char *)(w + 6), 0, w[3], w[2]);
}

// iota: count, to: 0, 1, ... as int64.
static void lz_generic_iota(const lz_i64 *w, char **slots, int threads, const void **table) {
  lz_i64 *to = (lz_i64 *)LZ_PLACE(3);
  for (lz_i64 i = 0; i < w[2]; i++) to[i] = i;
}

// map: elements, rank, operands, steps, to, size of a result, whether it is worth threads, extents;
// of each operand: place, size, 0 without gaps, 1 the same everywhere, 2 strided, then strides;
// of each step: primitive, register of the result (-1 for memory), of three arguments.
static LZ_OWN void lz_generic_map_part(const lz_i64 *w, char **slots, const void **table, lz_i64 first,
                                lz_i64 end) {
  char registers[LZ_REGISTERS][LZ_REGISTER] __attribute__((aligned(64)));
  const lz_i64 rank = w[3], operands = w[4], steps = w[5], size = w[8];
  const lz_i64 *extents = w + 10;
  char *to = LZ_PLACE(6);
  const char *where[LZ_REGISTERS];
  const lz_i64 *facts[LZ_REGISTERS];
  const lz_i64 *p = extents + rank;
  for (lz_i64 n = 0; n < operands; n++) {
    facts[n] = p;
    where[n] = registers[n];
    if (p[3] == 1)
      lz_generic_run(registers[n], p[2], slots[p[0]] + p[1], 0,
                     end - first < LZ_PIECE ? end - first : LZ_PIECE, p[2]);
    p += p[3] == 2 ? 4 + rank : 4;
  }
  for (lz_i64 n = operands; n < LZ_REGISTERS; n++) where[n] = registers[n];
  for (lz_i64 at = first; at < end; at += LZ_PIECE) {
    const lz_i64 count = end - at < LZ_PIECE ? end - at : LZ_PIECE;
    for (lz_i64 n = 0; n < operands; n++) {
      const lz_i64 *f = facts[n];
      if (f[3] == 0)
        where[n] = slots[f[0]] + f[1] + at * f[2];
      else if (f[3] == 2)
        lz_generic_take(registers[n], slots[f[0]] + f[1], at, count, f[2], rank, extents, f + 4);
    }
    const lz_i64 *s = p;
    for (lz_i64 n = 0; n < steps; n++, s += 5)
      ((lz_primitive)table[s[0]])(count, s[1] < 0 ? to + at * size : registers[s[1]],
                                  where[s[2]], where[s[3]], where[s[4]]);
  }
}

static void lz_generic_map(const lz_i64 *w, char **slots, int threads, const void **table) {
  const lz_i64 count = w[2], share = (count / (threads * 4) / LZ_PIECE + 1) * LZ_PIECE;
  if (threads == 1 || !w[9]) {
    lz_generic_map_part(w, slots, table, 0, count);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (lz_i64 part = 0; part < (count + share - 1) / share; part++)
    lz_generic_map_part(w, slots, table, part * share,
                        part * share + share < count ? part * share + share : count);
}

// gather: size of an element, batches, rows before the axis, extent of the axis, elements behind it,
// positions of a batch, to, from, positions (int64). All without gaps.
static void lz_generic_gather(const lz_i64 *w, char **slots, int threads, const void **table) {
  const lz_i64 size = w[2], batches = w[3], rows = w[4], extent = w[5], behind = w[6];
  const lz_i64 count = w[7], run = behind * size;
  char *to = LZ_PLACE(8);
  const char *from = LZ_PLACE(10);
  const lz_i64 *index = (const lz_i64 *)LZ_PLACE(12);
#pragma omp parallel for num_threads(threads) schedule(static) \
    if(threads > 1 && batches * rows > 1 && batches * rows * count * behind > 200000)
  for (lz_i64 row = 0; row < batches * rows; row++) {
    const lz_i64 *places = index + row / rows * count;
    const char *source = from + row * extent * run;
    char *target = to + row * count * run;
    for (lz_i64 j = 0; j < count; j++) {
      lz_i64 k = places[j] < extent - 1 ? places[j] : extent - 1;
      k = k > 0 ? k : 0;
      if (behind == 1)
        switch (size) {
        case 1: ((lz_u8 *)target)[j] = ((const lz_u8 *)source)[k]; break;
        case 2: ((lz_u16 *)target)[j] = ((const lz_u16 *)source)[k]; break;
        case 4: ((lz_u32 *)target)[j] = ((const lz_u32 *)source)[k]; break;
        default: ((lz_u64 *)target)[j] = ((const lz_u64 *)source)[k]; break;
        }
      else
        LZ_COPY(target + j * run, source + k * run, run);
    }
  }
}
