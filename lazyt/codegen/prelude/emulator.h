// The helpers of "cuda.h" in C++, to run a GPU kernel's very text on a CPU and find its faults.
// Blocks run one after another. Every CUDA thread is a fiber; a barrier or shuffle is a counter of
// arrivals at which fibers wait. Warps, and the threads of each, take turns in a seeded random
// order. Shared memory starts as NaN bytes, its bounds are checked, and two threads that use the
// same bytes of it without a barrier in between are found. Asynchronous copies land when they are
// issued or when they are waited for, as the seed decides, and nobody may use what is under way.
// Faults end the launch with a message.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <utility>
#include <vector>
#if !defined(__x86_64__) || defined(LZ_PORTABLE_FIBERS)
#include <ucontext.h>
#endif
#define restrict __restrict__
#define __global__
#define __launch_bounds__(...)

namespace lz_emulated {
typedef unsigned long long Word;
const int WARP = 32, MOST_THREADS = 1024;

// ------------------------------------------------------------------ fibers
#if defined(__x86_64__) && !defined(LZ_PORTABLE_FIBERS)
struct Context { void *stack; };
extern "C" void lz_emulated_switch(void **save, void *to);
asm(R"(.text
.globl lz_emulated_switch
.hidden lz_emulated_switch
lz_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
static void prepare(Context &c, char *stack, size_t size, void (*entry)()) {
  void **top = (void **)(stack + size - 64);
  *--top = 0;  // keeps the stack aligned as after a call
  *--top = (void *)entry;
  for (int i = 0; i < 6; i++) *--top = 0;
  c.stack = top;
}
static void change(Context &from, Context &to) { lz_emulated_switch(&from.stack, to.stack); }
#else
typedef ucontext_t Context;
static void prepare(Context &c, char *stack, size_t size, void (*entry)()) {
  getcontext(&c);
  c.uc_stack.ss_sp = stack;
  c.uc_stack.ss_size = size;
  c.uc_link = 0;
  makecontext(&c, entry, 0);
}
static void change(Context &from, Context &to) { swapcontext(&from, &to); }
#endif

struct Fiber { Context context; int state; };  // state: what it waits for
enum { READY, DONE };

// A barrier: who has arrived, and at which line of the text; how often it put memory in order.
struct Meeting { int arrived, line; unsigned round, orders; Word words[2][WARP]; };

// When and by whom a byte of shared memory was used: rounds of the block's barriers, of the warp's,
// and the thread. The second reader is another thread than the first.
struct Use { unsigned block, warp; int thread; };
struct Uses { Use written, read[2]; int copier; };  // who copies to it, from 1 on; 0 for nobody

// An asynchronous copy that its thread has not waited for.
struct Copy { unsigned group; int offset, bytes, line; const unsigned char *from; };

struct Launch {
  const char *kernel;
  void (*call)(char **);
  char **buffers;
  long long blocks, block;
  int threads, shared, failed, late;  // late: copies land when they are waited for
  Word random, progress;
  char message[400];
};

static Launch run;
static Fiber fibers[MOST_THREADS];
static Meeting meetings[MOST_THREADS / WARP + 1];  // one per warp, then the block's
static Context scheduler;
static unsigned char *shared_bytes;
static char *stacks;
static size_t stack_size;
static int current, fibers_in_use;
static Uses *uses;        // of each byte of shared memory; null where all is in order anyway
static unsigned epoch;    // counts barriers of blocks, and blocks
static int left_out = 0;  // the line of a barrier that is to be passed by
static std::vector<Copy> copies[MOST_THREADS];  // under way, of each thread
static unsigned groups[MOST_THREADS];           // of copies, committed by each thread

static void fail(const char *what, int line) {
  if (!run.failed)
    snprintf(run.message, sizeof run.message, "kernel %s, block %lld, thread %d, line %d: %s",
             run.kernel, run.block, current, line, what);
  run.failed = 1;
  if (!fibers_in_use) throw 1;
  change(fibers[current].context, scheduler);
}

// ------------------------------------------------------------- collectives
static void meet(Meeting &m, int expected, int line) {
  if (!fibers_in_use) fail("a barrier in a kernel that was said to have none", line);
  if (m.arrived && m.line != line) fail("threads wait at different barriers", line);
  m.line = line;
  unsigned round = m.round;
  if (++m.arrived == expected) {
    m.arrived = 0;
    m.round++;
    run.progress++;
    return;
  }
  while (m.round == round) change(fibers[current].context, scheduler);
}

static int warp_size() {
  int left = run.threads - current / WARP * WARP;
  return left < WARP ? left : WARP;
}
static void sync_block(int line) {
  if (line == left_out) return;
  Meeting &m = meetings[MOST_THREADS / WARP];
  if (m.arrived + 1 == run.threads) epoch++;
  meet(m, run.threads, line);
}
static void sync_warp(int line) {
  if (line == left_out) return;
  Meeting &m = meetings[current / WARP];
  if (m.arrived + 1 == warp_size()) m.orders++;
  meet(m, warp_size(), line);
}

template <class T> static T shuffle(T x, int lane, int line) {
  Meeting &m = meetings[current / WARP];
  unsigned side = m.round & 1;  // alternate: the next shuffle may start before all have read
  Word word = 0;
  memcpy(&word, &x, sizeof x);
  m.words[side][current % WARP] = word;
  meet(m, warp_size(), line);  // which puts no memory in order
  if (lane < warp_size()) memcpy(&x, &m.words[side][lane], sizeof x);
  return x;
}

// Accesses of several elements have 16 bytes, or all of theirs where they are fewer.
static void require_aligned(const void *at, unsigned size, int line) {
  if ((unsigned long long)at % (size < 16 ? size : 16))
    fail("adjacent elements that are not aligned to their size", line);
}

// ----------------------------------------------------------- shared memory
// Whether another thread's use may come after or together with what this thread does now.
static bool unordered(const Use &other) {
  if (other.block != epoch || other.thread == current) return false;
  if (other.thread / WARP != current / WARP) return true;
  return other.warp == meetings[current / WARP].orders;
}

static void note(int offset, bool writes, int line) {
  Uses &u = uses[offset];
  if (u.copier) {
    char what[160];
    snprintf(what, sizeof what, "thread %d %s byte %d of shared memory, to which thread %d copies "
             "and has not waited for it", current, writes ? "writes" : "reads", offset,
             u.copier - 1);
    fail(what, line);
  }
  const Use *other = &u.written;
  bool race = unordered(u.written);
  for (int i = 0; i < 2 && writes && !race; i++) race = unordered(*(other = &u.read[i]));
  if (race) {
    char what[160];
    snprintf(what, sizeof what, "thread %d %s byte %d of shared memory, which thread %d %s, and no "
             "barrier is in between", current, writes ? "writes" : "reads", offset, other->thread,
             other == &u.written ? "writes" : "reads");
    fail(what, line);
  }
  Use now = {epoch, meetings[current / WARP].orders, current};
  if (writes) {
    u.written = now;
  } else {
    if (u.read[0].thread != current) u.read[1] = u.read[0];
    u.read[0] = now;
  }
}

// ----------------------------------------------------------- global memory
// Compiled with -DLZ_WATCH_MEMORY and -fsanitize=thread, whose calls at every access come here
// instead of to its own library: two threads that use an element of a buffer, one of them writing,
// are found, be they of one block without a barrier in between or of two blocks of a launch.
#ifdef LZ_WATCH_MEMORY
#define LZ_UNWATCHED __attribute__((no_sanitize("thread"), noinline))
struct Watched { unsigned char *start; size_t size, item; Uses *uses; unsigned *first; };
const int MOST_WATCHED = 256;
static Watched watched[MOST_WATCHED];
static size_t watched_sizes[MOST_WATCHED];  // bytes of the next launch's buffers; 0: not watched
static int watched_count;
static size_t watched_guard;  // bytes before and behind each buffer that are nobody's
static unsigned first_epoch, block_epoch;  // at the beginning of the launch, and of the block

LZ_UNWATCHED static bool clashes(const Use &other) {
  if (other.block < first_epoch) return false;  // of an earlier launch, or nobody's
  return other.block < block_epoch || unordered(other);
}
LZ_UNWATCHED static void outside(const void *at, size_t size, bool writes, int n) {
  if (!watched_guard) return;
  char what[160];
  snprintf(what, sizeof what, "it %s %zu bytes from byte %lld on of buffer %d, which has %zu",
           writes ? "writes" : "reads", size,
           (long long)((unsigned char *)at - watched[n].start), n, watched[n].size);
  fail(what, 0);
}
LZ_UNWATCHED static void use_global(const void *at, size_t size, bool writes) {
  for (int n = 0; n < watched_count; n++) {
    Watched &w = watched[n];
    size_t offset = (unsigned char *)at - w.start;
    if (offset >= w.size) continue;
    for (size_t i = offset / w.item; i * w.item < offset + size && i * w.item < w.size; i++) {
      Uses &u = w.uses[i];
      bool race = clashes(u.written);
      if (writes)
        race = race || clashes(u.read[0]) || clashes(u.read[1]) ||
               (w.first[i] >= first_epoch && w.first[i] < block_epoch);
      if (race) {
        char what[160];
        snprintf(what, sizeof what, "it %s element %zu of buffer %d, which another thread %s, and "
                 "nothing puts them in order", writes ? "writes" : "reads", i, n,
                 clashes(u.written) ? "writes" : "reads");
        fail(what, 0);
      }
      Use now = {epoch, meetings[current / WARP].orders, current};
      if (writes) {
        u.written = now;
      } else {
        if (w.first[i] < first_epoch) w.first[i] = epoch;
        if (u.read[0].thread != current || u.read[0].block != epoch) u.read[1] = u.read[0];
        u.read[0] = now;
      }
    }
    if (offset + size > w.size) outside(at, size, writes, n);
    return;
  }
  for (int n = 0; n < watched_count; n++) {
    Watched &w = watched[n];
    size_t offset = (unsigned char *)at - w.start + watched_guard;
    if (w.size && offset < w.size + 2 * watched_guard) outside(at, size, writes, n);
  }
}
static void begin_watch(char **buffers, const size_t *items, int count) {
  watched_count = count < MOST_WATCHED ? count : MOST_WATCHED;
  for (int n = 0; n < watched_count; n++) {
    size_t elements = watched_sizes[n] / items[n] + 1;
    watched[n] = {(unsigned char *)buffers[n], watched_sizes[n], items[n],
                  (Uses *)calloc(elements, sizeof(Uses)), (unsigned *)calloc(elements, 4)};
  }
  first_epoch = block_epoch = ++epoch;
}
static void end_watch() {
  for (int n = 0; n < watched_count; n++) free(watched[n].uses), free(watched[n].first);
  watched_count = 0;
}
extern "C" {
#define LZ_WATCH(n)                                                                                \
  LZ_UNWATCHED void __tsan_read##n(void *p) { use_global(p, n, false); }                           \
  LZ_UNWATCHED void __tsan_write##n(void *p) { use_global(p, n, true); }                           \
  LZ_UNWATCHED void __tsan_unaligned_read##n(void *p) { use_global(p, n, false); }                 \
  LZ_UNWATCHED void __tsan_unaligned_write##n(void *p) { use_global(p, n, true); }
LZ_WATCH(1) LZ_WATCH(2) LZ_WATCH(4) LZ_WATCH(8) LZ_WATCH(16)
LZ_UNWATCHED void __tsan_read_range(void *p, size_t n) { use_global(p, n, false); }
LZ_UNWATCHED void __tsan_write_range(void *p, size_t n) { use_global(p, n, true); }
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
}
#else
static void use_global(const void *, size_t, bool) {}
#endif

// An element: what is done with it tells reads and writes apart.
template <class T> struct Cell {
  int offset, line;
  T *place() const { return (T *)(shared_bytes + offset); }
  void touch(bool writes) const {
    if (!uses) return;
    // Every fourth byte of wide elements is enough: they start at multiples of their size.
    for (unsigned i = 0; i < sizeof(T); i += 4) note(offset + i, writes, line);
  }
  operator T() const {
    touch(false);
    return *place();
  }
  T operator=(T value) const {
    touch(true);
    return *place() = value;
  }
  T operator=(const Cell &other) const { return *this = (T)other; }
};

template <class T> struct Shared {
  int offset, count, line;
  Shared(int o, int n, int l) : offset(o), count(n), line(l) {
    if (o < 0 || o % sizeof(T) || o + (long long)n * (long long)sizeof(T) > run.shared)
      fail("a shared array outside the launch's shared memory", l);
  }
  Cell<T> operator[](long long i) const {
    if (i < 0 || i >= count) fail("a shared array is accessed out of bounds", line);
    return {offset + (int)i * (int)sizeof(T), line};
  }
};

// ----------------------------------------------------- asynchronous copies
static void land(const Copy &c) {
  use_global(c.from, c.bytes, false);
  memcpy(shared_bytes + c.offset, c.from, c.bytes);
}

// Both its beginning and its end, at the wait, are writes that barriers have to put in order.
static void copy_async(int offset, const void *from, int bytes, int line) {
  if (!fibers_in_use) fail("a copy in a kernel that was said not to wait", line);
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("a copy of not 4, 8 or 16 bytes", line);
  require_aligned(from, bytes, line);
  require_aligned(shared_bytes + offset, bytes, line);
  for (int i = 0; i < bytes; i++) note(offset + i, true, line), uses[offset + i].copier = current + 1;
  Copy c = {groups[current], offset, bytes, line, (const unsigned char *)from};
  copies[current].push_back(c);
  use_global(from, bytes, false);
  if (!run.late) land(c);
}
static void commit_copies(int line) {
  if (line != left_out) groups[current]++;
}
static void wait_copies(unsigned pending, int line) {
  if (line == left_out) return;
  std::vector<Copy> &mine = copies[current], rest;
  for (const Copy &c : mine) {
    if (c.group + pending >= groups[current]) {
      rest.push_back(c);
      continue;
    }
    if (run.late) land(c);
    for (int i = 0; i < c.bytes; i++) uses[c.offset + i].copier = 0, note(c.offset + i, true, line);
  }
  mine.swap(rest);
}

// --------------------------------------------------------------- execution
static void enter() {
  run.call(run.buffers);
  if (!copies[current].empty()) fail("a copy that nobody waited for", copies[current][0].line);
  fibers[current].state = DONE;
  run.progress++;
  change(fibers[current].context, scheduler);
}

static Word draw() {
  run.random ^= run.random << 13;
  run.random ^= run.random >> 7;
  return run.random ^= run.random << 17;
}

// Runs a warp's threads up to their next barrier; how many of them have not ended.
static int run_warp(int warp) {
  int left = 0, first = warp * WARP, size = run.threads - first;
  if (size > WARP) size = WARP;
  int start = draw() % size, step = draw() % 2 ? 1 : size - 1;
  for (int n = 0, i = first + start; n < size && !run.failed; n++) {
    if (n) i = first + (i - first + step) % size;
    if (fibers[i].state == DONE) continue;
    current = i;
    change(scheduler, fibers[i].context);
    left += fibers[i].state != DONE;
  }
  return left;
}

static void run_block() {
  int warps = (run.threads + WARP - 1) / WARP, order[MOST_THREADS / WARP];
  int left[MOST_THREADS / WARP], pace[MOST_THREADS / WARP], total = run.threads, everyone = 1;
  memset(shared_bytes, 0xff, run.shared);
  memset(meetings, 0, sizeof meetings);
  epoch++;
  for (int i = 0; i < run.threads; i++) {
    prepare(fibers[i].context, stacks + i * stack_size, stack_size, enter);
    fibers[i].state = READY;
    copies[i].clear();
    groups[i] = 0;
  }
  // Warps that run at most every 4th or 16th turn let the others get far ahead.
  for (int i = 0; i < warps; i++) order[i] = i, left[i] = 1, pace[i] = 1 << draw() % 3 * 2;
  while (total && !run.failed) {
    Word before = run.progress;
    for (int i = warps - 1; i > 0; i--) std::swap(order[i], order[draw() % (i + 1)]);
    total = 0;
    for (int i = 0; i < warps; i++) {
      int w = order[i];
      if (left[w] && (everyone || draw() % pace[w] == 0)) left[w] = run_warp(w);
      total += left[w];
    }
    if (total && before == run.progress && everyone && !run.failed) {
      for (current = 0; fibers[current].state == DONE;) current++;
      run.failed = 1;
      snprintf(run.message, sizeof run.message,
               "kernel %s, block %lld: deadlock, %d of %d threads wait, thread %d among them",
               run.kernel, run.block, total, run.threads, current);
    }
    everyone = before == run.progress;
  }
}

static void run_plainly() {
  try {
    for (current = 0; current < run.threads; current++) run.call(run.buffers);
  } catch (int) {
    return;
  }
}

static int reserve(int threads, size_t bytes) {
  static size_t have = 0;
  if (have < threads * bytes) {
    if (have) munmap(stacks, have);
    have = threads * bytes;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    stacks = (char *)mmap(0, have, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (stacks == MAP_FAILED) return have = 0, 1;
  }
  stack_size = bytes;
  return 0;
}

static const char *launch(const char *kernel, void (*call)(char **), char **buffers,
                          long long blocks, int threads, int shared, int collective,
                          long long stack, Word seed) {
  run = {kernel, call, buffers, blocks, 0, threads, shared, 0, seed % 2 == 0, seed * 2 + 1, 0, ""};
  if (threads < 1 || threads > MOST_THREADS) return "a block has 1 to 1024 threads";
  if (collective && reserve(threads, (size_t)stack)) return "no memory for the threads' stacks";
  shared_bytes = (unsigned char *)aligned_alloc(64, (shared + 127) / 64 * 64);
  if (!shared_bytes) return "no memory for shared memory";
  uses = collective && shared ? (Uses *)calloc(shared, sizeof(Uses)) : 0;
  if (collective && shared && !uses) return free(shared_bytes), "no memory for shared memory";
  fibers_in_use = collective;
  if (!epoch) epoch = 1;
  for (run.block = 0; run.block < blocks && !run.failed; run.block++) {
#ifdef LZ_WATCH_MEMORY
    block_epoch = ++epoch;
#endif
    collective ? run_block() : run_plainly();
  }
  free(shared_bytes);
  free(uses);
  return run.failed ? run.message : 0;
}

#ifdef LZ_WATCH_MEMORY
template <class... P> static void watch(void (*)(P...), char **buffers) {
  const size_t items[] = {sizeof(*(P)0)..., 1};
  begin_watch(buffers, items, (int)sizeof...(P));
}
#else
template <class K> static void watch(K, char **) {}
static void end_watch() {}
#endif

// Calls a kernel with pointers of its own types.
template <class... P, int... I>
static void apply(void (*kernel)(P...), char **b, std::integer_sequence<int, I...>) {
  kernel((P)b[I]...);
}
template <class... P> static void spread(void (*kernel)(P...), char **b) {
  apply(kernel, b, std::make_integer_sequence<int, (int)sizeof...(P)>());
}
}  // namespace lz_emulated

// The bytes of the next launch's buffers, where global memory is watched, and those around each
// that nobody may use.
extern "C" void lz_emulated_watch(const unsigned long long *sizes, int count,
                                  unsigned long long guard) {
#ifdef LZ_WATCH_MEMORY
  lz_emulated::watched_guard = guard;
  for (int n = 0; n < lz_emulated::MOST_WATCHED; n++)
    lz_emulated::watched_sizes[n] = n < count ? sizes[n] : 0;
#endif
}

// Barriers at this line of the text are passed by from now on; 0 for none.
extern "C" void lz_emulated_leave_out(int line) { lz_emulated::left_out = line; }

#define LZ_EMULATED(kernel)                                                                        \
  static void kernel##_spread(char **b) { lz_emulated::spread(kernel, b); }                        \
  extern "C" const char *kernel##_launch(char **buffers, long long blocks, int threads,            \
                                         int shared, int collective, long long stack,              \
                                         unsigned long long seed) {                                \
    lz_emulated::watch(kernel, buffers);                                                           \
    const char *fault = lz_emulated::launch(#kernel, kernel##_spread, buffers, blocks, threads,    \
                                            shared, collective, stack, seed);                      \
    lz_emulated::end_watch();                                                                      \
    return fault;                                                                                  \
  }

static inline int lz_thread() { return lz_emulated::current; }
static inline long long lz_block() { return lz_emulated::run.block; }
static inline long long lz_blocks() { return lz_emulated::run.blocks; }
// The default argument is the line of the call, which tells barriers apart.
static inline void lz_sync_block(int line = __builtin_LINE()) { lz_emulated::sync_block(line); }
static inline void lz_sync_warp(int line = __builtin_LINE()) { lz_emulated::sync_warp(line); }
static inline void lz_commit_copies(int line = __builtin_LINE()) {
  lz_emulated::commit_copies(line);
}
static inline void lz_wait_copies(int pending, int line = __builtin_LINE()) {
  lz_emulated::wait_copies(pending, line);
}

template <class T, int N>
static void lz_load_adjacent(T (&to)[N], const T *from, int line = __builtin_LINE()) {
  lz_emulated::require_aligned(from, sizeof to, line);
  lz_emulated::use_global(from, sizeof to, false);
  memcpy(to, from, sizeof to);
}
template <class T, int N>
static void lz_store_adjacent(T *to, const T (&from)[N], int line = __builtin_LINE()) {
  lz_emulated::require_aligned(to, sizeof from, line);
  lz_emulated::use_global(to, sizeof from, true);
  memcpy(to, from, sizeof from);
}

#define LZ_GPU_TYPE(S, T)                                                                          \
  typedef lz_emulated::Shared<T> lz_shared_##S;                                                    \
  static inline lz_shared_##S lz_take_shared_##S(int offset, int count,                            \
                                                 int line = __builtin_LINE()) {                    \
    return lz_shared_##S(offset, count, line);                                                     \
  }                                                                                                \
  static inline void lz_copy_async_##S(lz_shared_##S to, int at, const T *from, int count,         \
                                       int line = __builtin_LINE()) {                              \
    lz_emulated::Cell<T> first = to[at], last = to[at + count - 1];                                \
    (void)last;                                                                                    \
    lz_emulated::copy_async(first.offset, from, count * (int)sizeof(T), line);                     \
  }                                                                                                \
  static inline T lz_shuffle_down_##S(T x, int distance, int line = __builtin_LINE()) {            \
    return lz_emulated::shuffle(x, lz_emulated::current % lz_emulated::WARP + distance, line);     \
  }                                                                                                \
  static inline T lz_shuffle_first_##S(T x, int line = __builtin_LINE()) {                         \
    return lz_emulated::shuffle(x, 0, line);                                                       \
  }
#define LZ_GPU_INTEGER(S, T, U)                                                                    \
  LZ_GPU_TYPE(S, T)                                                                                \
  static inline T lz_madd_##S(T a, T b, T c) { return (T)((U)a * (U)b + (U)c); }
LZ_GPU_INTEGER(b8, unsigned char, unsigned)
LZ_GPU_INTEGER(u8, unsigned char, unsigned)
LZ_GPU_INTEGER(u16, unsigned short, unsigned)
LZ_GPU_INTEGER(u32, unsigned, unsigned)
LZ_GPU_INTEGER(u64, unsigned long long, unsigned long long)
LZ_GPU_INTEGER(i8, signed char, unsigned)
LZ_GPU_INTEGER(i16, short, unsigned)
LZ_GPU_INTEGER(i32, int, unsigned)
LZ_GPU_INTEGER(i64, long long, unsigned long long)
LZ_GPU_TYPE(f32, float)
LZ_GPU_TYPE(f64, double)
#define LZ_ATOMIC(S, T, W)                                                                         \
  static inline void lz_atomic_add_##S(T *to, T x) { *to = (T)((W)*to + (W)x); }                   \
  static inline void lz_atomic_maximum_##S(T *to, T x) { *to = *to < x ? x : *to; }                \
  static inline void lz_atomic_minimum_##S(T *to, T x) { *to = x < *to ? x : *to; }
LZ_ATOMIC(i32, int, unsigned)
LZ_ATOMIC(u32, unsigned, unsigned)
LZ_ATOMIC(i64, long long, unsigned long long)
LZ_ATOMIC(u64, unsigned long long, unsigned long long)
static inline float lz_madd_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double lz_madd_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
