// Runs one launch of a CUDA kernel on the CPU and writes what it finds wrong to a file.
//
// The user's text is compiled after "device.h" with -fsanitize=thread, bounds and alignment. The
// calls that these make at every access come here, not to the sanitizers' own libraries. Every CUDA
// thread is a fiber, blocks run one after another, and each byte of shared and global memory has a
// record of who used it last. Two uses clash unless something orders them: a barrier of the block,
// __syncwarp among its lanes, or a fence, an atomic and an atomic that sees it. The members of a warp
// do not run in step.
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

typedef uint32_t u32;
typedef uint64_t u64;
enum { WARP = 32, MOST = 1024, SLOTS = 5, STACK = 256 << 10, GUARD = 64 << 10 };
enum { READ = 1, WRITE = 2, ATOMIC = 4 };
enum State { READY, AT_BARRIER, AT_WARP, AT_ACTIVE, DONE };
enum Op { SYNC, SHUFFLE, BALLOT, MATCH, ADD, SMIN, SMAX, UMIN, UMAX, AND, OR, XOR };

struct Three { unsigned x, y, z; };
struct Parameter { char code; unsigned size, item; char item_code; };
struct Kernel { const char *name; void *entry; void (*call)(char **); int count; const Parameter *of; };
extern "C" {
Three lz_thread_index, lz_block_index, lz_block_dim, lz_grid_dim;
extern const Kernel lz_kernels[];
extern const int lz_kernel_count;
extern char __start_lz_device[] __attribute__((weak)), __stop_lz_device[] __attribute__((weak));
extern char __executable_start[], _end[];
}

#define PC ((u32)(uintptr_t)__builtin_return_address(0) - 1)

// One use of some bytes: by a thread, in an epoch of its block, at its own clock.
struct Access { u32 block, epoch, clock, pc; uint16_t thread; uint8_t kind, bytes; };
struct Cell { Access of[SLOTS]; };
struct Region {
  char *start;
  size_t size;
  bool shared, must_write;
  u32 grain;
  char code;  // 'f' where elements are floats
  unsigned item;
  std::string name;
  Cell *cells;
  unsigned char *written;  // of each byte
  char *low, *high;        // what is mapped around it
  u32 last_store;          // where the highest element was written
  size_t highest;
};

// How many of each location's releases a thread has seen.
typedef std::map<u64, u32> Seen;
// What an atomic published: all that its thread knew and had fenced.
struct Release {
  u32 serial, epoch, clock, fence, fence_epoch, block_fence;
  int thread;
  u32 known[WARP];
};
struct Location {
  u32 count;                                  // of releases
  std::map<u32, std::vector<Release>> log;    // by block
  Seen seen;                                  // by all that released
};

struct Thread {
  void *stack;
  char *low, *high;
  State state;
  u32 pc, clock, fence, fence_epoch, block_fence, block_fence_epoch;
  int op, source;
  unsigned mask;
  u64 value, result;
  u32 known[WARP];
  Seen seen;
};

static Thread threads[MOST];
static std::vector<Region *> regions;
static Region *last_region;
static std::map<u64, Location> locations;
static std::map<u32, std::vector<u32>> fences_of;  // of finished blocks, if there were fences
static std::set<std::string> told;
static std::map<u32, u32> passes;  // how often all passed a barrier of the block
static std::vector<u32> poisons;   // sites of shuffles that read a lane that takes no part
static void *scheduler;
static const Kernel *kernel;
static char **arguments;
static int current, count, output = -1, findings, stalled;
static u32 block, epoch;  // block: from 1 on
static u32 last_pc;       // where the text accessed memory last
static u64 progress, random_state;
static bool running, stop, any_fence;
static size_t dynamic_bytes, static_bytes;
static int fill;  // the bytes of shared memory that nobody has written
static int barrier_count, barrier_or, barrier_and, barrier_ones;
static int barrier_result[3];

static u64 draw() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  return random_state ^= random_state << 17;
}

// ------------------------------------------------------------------ findings
static void say(const char *kind, const char *place, const Access *other, const char *format, ...) {
  char text[500], line[900], rest[80];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (other)
    snprintf(rest, sizeof rest, "%x\t%d\t%u", other->pc, other->thread, other->block - 1);
  else
    snprintf(rest, sizeof rest, "\t\t");
  int n = snprintf(line, sizeof line, "%s\t%s\t%d\t%d\t%s\t%s\n", kind, place, current,
                   block ? (int)block - 1 : 0, rest, text);
  char key[120];
  snprintf(key, sizeof key, "%s %s %x", kind, place, other ? other->pc : 0);
  if (!told.insert(key).second) return;
  if (findings++ < 200 && write(output, line, n) < 0) _exit(4);
}
static void say_at(const char *kind, u32 pc, const Access *other, const char *text) {
  char place[24];
  snprintf(place, sizeof place, "P%x", pc);
  say(kind, place, other, "%s", text);
}

// -------------------------------------------------------------------- fibers
extern "C" void lz_switch(void **save, void *to);
#if defined(__x86_64__)
asm(R"(.text
.globl lz_switch
lz_switch:
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
static void *prepare(char *high, void (*entry)()) {
  void **top = (void **)(high - 64);
  *--top = 0;
  *--top = (void *)entry;
  for (int i = 0; i < 6; i++) *--top = 0;
  return top;
}
#else
static void (*portable_entry)();
extern "C" void lz_switch(void **save, void *to) {
  ucontext_t *mine = (ucontext_t *)malloc(sizeof(ucontext_t));
  *save = mine;
  swapcontext(mine, (ucontext_t *)to);
  free(mine);
}
static void *prepare(char *high, void (*entry)()) {
  ucontext_t *c = (ucontext_t *)malloc(sizeof(ucontext_t));
  getcontext(c);
  c->uc_stack.ss_sp = high - STACK;
  c->uc_stack.ss_size = STACK - 64;
  c->uc_link = 0;
  makecontext(c, entry, 0);
  return c;
}
#endif
static void wait() { lz_switch(&threads[current].stack, scheduler); }
static void end_run() {  // the fiber never comes back
  stop = true;
  for (;;) wait();
}
static void maybe_yield() {
  if (draw() % 4 == 0) wait();
}

// --------------------------------------------------------------------- order
static bool fenced(const Access &a, const Release &r) {
  if (a.block == block) {
    if (a.thread == r.thread) return a.clock <= std::max(r.fence, r.block_fence);
    const Thread &t = threads[a.thread];
    return a.epoch < r.fence_epoch || a.clock <= std::max(t.fence, t.block_fence);
  }
  if (a.thread == r.thread) return a.clock <= r.fence;
  if (a.epoch < r.fence_epoch) return true;
  auto found = fences_of.find(a.block);
  return found != fences_of.end() && a.clock <= found->second[a.thread];
}
static bool covers(const Seen &seen, const Access &a) {
  for (auto &item : seen) {
    Location &l = locations[item.first];
    auto of_block = l.log.find(a.block);
    if (of_block == l.log.end()) continue;
    for (size_t i = of_block->second.size(); i-- > 0;) {
      const Release &r = of_block->second[i];
      if (r.serial >= item.second) continue;
      bool knew = a.thread == r.thread ? a.clock <= r.clock : a.epoch < r.epoch;
      if (!knew && a.thread / WARP == r.thread / WARP) knew = a.clock <= r.known[a.thread % WARP];
      if (knew && fenced(a, r)) return true;
    }
  }
  return false;
}
static bool by_barriers(const Access &a) {
  if (a.block != block) return false;
  if (a.thread == current || a.epoch < epoch) return true;
  return a.thread / WARP == current / WARP && a.clock <= threads[current].known[a.thread % WARP];
}
static bool by_atomics(const Access &a) {
  return !threads[current].seen.empty() && covers(threads[current].seen, a);
}
static void fence(bool device) {
  Thread &t = threads[current];
  any_fence = true;
  if (device) t.fence = t.clock, t.fence_epoch = epoch;
  t.block_fence = t.clock, t.block_fence_epoch = epoch;
  t.clock++;
  t.known[current % WARP] = t.clock;
  progress++;
}
static void merge(Seen &to, const Seen &from) {
  for (auto &item : from) to[item.first] = std::max(to[item.first], item.second);
}
static void release(u64 where) {
  Thread &t = threads[current];
  if (!t.block_fence) return;  // nothing that it wrote is published
  Location &l = locations[where];
  std::vector<Release> &log = l.log[block];
  for (size_t i = log.size(); i-- > 0 && i + 64 > log.size();)
    if (log[i].thread == current && log[i].block_fence == t.block_fence && log[i].epoch == epoch) return;
  Release r = {l.count++, epoch, t.clock, t.fence, t.fence_epoch, t.block_fence, current, {}};
  memcpy(r.known, t.known, sizeof r.known);
  log.push_back(r);
  merge(l.seen, t.seen);
}
static void acquire(u64 where) {
  auto found = locations.find(where);
  if (found == locations.end()) return;
  threads[current].seen[where] = found->second.count;
  merge(threads[current].seen, found->second.seen);
}

// -------------------------------------------------------------------- memory
static void place_of(char *text, size_t size, int thread) {
  unsigned x = lz_block_dim.x, y = lz_block_dim.y;
  snprintf(text, size, "(%u,%u,%u)", thread % x, thread / x % y, thread / x / y);
}
static const char *verb(int kind) {
  return kind == READ ? "reads" : kind == WRITE ? "writes" : "atomically updates";
}
static std::string element(const Region *r, size_t offset) {
  char text[160];
  if (r->item > 1 || r->code != '?')
    snprintf(text, sizeof text, "%s[%zu]", r->name.c_str(), offset / r->item);
  else
    snprintf(text, sizeof text, "byte %zu of %s", offset, r->name.c_str());
  return text;
}
static Region *find(const char *p) {
  if (last_region && (size_t)(p - last_region->start) < last_region->size) return last_region;
  for (Region *r : regions)
    if ((size_t)(p - r->start) < r->size) return last_region = r;
  return 0;
}
static void outside(const char *p, size_t size, int kind, u32 pc) {
  Region *near = 0;
  size_t best = ~(size_t)0;
  for (Region *r : regions) {
    size_t d = p < r->start ? r->start - p : p - r->start - r->size;
    if (p >= r->start && p < r->start + r->size) d = 0;
    if (p >= r->low && p + size <= r->high && d < best) best = d, near = r;
  }
  char text[400];
  if (!near) {
    if (!p || (uintptr_t)p < 4096)
      snprintf(text, sizeof text, "it %s memory through a null pointer", verb(kind));
    else
      snprintf(text, sizeof text, "it %s %zu bytes at an address that belongs to no array",
               verb(kind), size);
    say_at("bounds", pc, 0, text);
    end_run();
  }
  long long index = (p - near->start) / (long long)near->item;
  if (p < near->start) index = -((near->start - p + near->item - 1) / (long long)near->item);
  snprintf(text, sizeof text, "it %s %s[%lld], and %s has %zu element%s%s", verb(kind),
           near->name.c_str(), index, near->name.c_str(), near->size / near->item,
           near->size / near->item == 1 ? "" : "s",
           near->size % near->item ? " and a part of one" : "");
  say_at("bounds", pc, 0, text);
}
static void race(const Region *r, size_t offset, int kind, u32 pc, const Access &a) {
  char mine[48], theirs[48], text[400];
  place_of(mine, sizeof mine, current);
  place_of(theirs, sizeof theirs, a.thread);
  std::string what = element(r, offset);
  if (a.block == block)
    snprintf(text, sizeof text, "thread %s %s %s, which thread %s %s, and nothing orders them",
             mine, verb(kind), what.c_str(), theirs, verb(a.kind));
  else
    snprintf(text, sizeof text, "thread %s of block %u %s %s, which thread %s of block %u %s, and "
             "nothing orders them", mine, block - 1, verb(kind), what.c_str(), theirs, a.block - 1,
             verb(a.kind));
  say_at("race", pc, &a, text);
}
static bool conflict(int a, int b) { return (a | b) != READ && (a & b) != ATOMIC; }
// Whether all that would clash with the older use clashes with the newer one.
static bool replaces(int newer, int older) {
  return newer == WRITE || newer == older || (older == READ && newer == READ);
}
static void note(Region *r, size_t cell, uint8_t bytes, int kind, u32 pc) {
  Cell &c = r->cells[cell];
  Access *place = 0;
  bool clash = false;
  for (Access &a : c.of) {
    bool live = a.block && (!r->shared || a.block == block);
    if (!live) {
      a.block = 0;
      if (!place) place = &a;
      continue;
    }
    bool before = by_barriers(a);
    if (!before && (a.bytes & bytes) && conflict(a.kind, kind) && !(before = by_atomics(a))) {
      if (!clash) race(r, cell * r->grain, kind, pc, a);
      clash = true;
    }
    if ((before || clash) && replaces(kind, a.kind) && !(a.bytes & ~bytes)) {
      a.block = 0;
      if (!place) place = &a;
    }
  }
  if (!place) place = &c.of[draw() % SLOTS];
  *place = {block, epoch, threads[current].clock, pc, (uint16_t)current, (uint8_t)kind, bytes};
}
static void use(const void *at, size_t size, int kind, u32 pc, bool is_volatile = false) {
  if (!running || stop || !size) return;
  last_pc = pc;
  char *p = (char *)at;
  Thread &t = threads[current];
  if (p >= t.low - GUARD && p < t.high) return;  // the thread's own variables
  Region *r = find(p);
  if (!r) {
    if (p >= __executable_start && p < _end) return;
    return outside(p, size, kind, pc);
  }
  size_t offset = p - r->start;
  if (offset + size > r->size) return outside(p, size, kind, pc);
  if (is_volatile && !r->shared) {
    if (kind == WRITE) release((u64)p);
    else acquire((u64)p);
    if (kind == READ) maybe_yield();
    kind |= ATOMIC;
  }
  int plain = kind & ATOMIC ? ATOMIC : kind;
  bool reads = kind != WRITE && kind != (WRITE | ATOMIC);
  if (reads && r->written) {
    for (size_t i = offset & ~(size_t)3; i < offset + size; i += 4) {
      bool any = false, seen = false;
      for (size_t b = std::max(i, offset); b < std::min(i + 4, offset + size); b++)
        any = any || r->written[b], seen = true;
      if (seen && !any) {
        char text[300];
        snprintf(text, sizeof text, "it reads %s, which nobody has written",
                 element(r, std::max(i, offset)).c_str());
        say_at(r->shared ? "unwritten" : "uninitialised", pc, 0, text);
        break;
      }
    }
  }
  for (size_t cell = offset / r->grain; cell * r->grain < offset + size; cell++) {
    uint8_t bytes = 0;
    for (u32 b = 0; b < r->grain; b++) {
      size_t byte = cell * r->grain + b;
      if (byte >= offset && byte < offset + size) bytes |= 1 << b;
    }
    note(r, cell, bytes, plain, pc);
  }
  if (kind != READ && kind != (READ | ATOMIC)) {
    if (r->written) memset(r->written + offset, 1, size);
    if (offset >= r->highest) r->highest = offset, r->last_store = pc;
  }
}

extern "C" {
void lz_read(const void *p, size_t n, u32 pc) { use(p, n, READ, pc); }
void lz_write(const void *p, size_t n, u32 pc) { use(p, n, WRITE, pc); }
void lz_aligned(const void *p, size_t n, u32 pc) {
  if ((uintptr_t)p % n) {
    char text[200];
    snprintf(text, sizeof text, "an access of %zu bytes at an address that is no multiple of %zu", n, n);
    say_at("misaligned", pc, 0, text);
  }
}
void lz_atomic(const void *p, size_t n, u32 pc) {
  last_pc = pc;
  maybe_yield();
  lz_aligned(p, n, pc);
  acquire((u64)p);
  use(p, n, ATOMIC, pc);
  progress++;
}
void lz_release(const void *p) { release((u64)p); }
#define WATCH(n)                                                                                   \
  void __tsan_read##n(void *p) { use(p, n, READ, PC); }                                            \
  void __tsan_write##n(void *p) { use(p, n, WRITE, PC); }                                          \
  void __tsan_unaligned_read##n(void *p) { use(p, n, READ, PC); }                                  \
  void __tsan_unaligned_write##n(void *p) { use(p, n, WRITE, PC); }                                \
  void __tsan_volatile_read##n(void *p) { use(p, n, READ, PC, true); }                             \
  void __tsan_volatile_write##n(void *p) { use(p, n, WRITE, PC, true); }                           \
  void __tsan_unaligned_volatile_read##n(void *p) { use(p, n, READ, PC, true); }                   \
  void __tsan_unaligned_volatile_write##n(void *p) { use(p, n, WRITE, PC, true); }
WATCH(1) WATCH(2) WATCH(4) WATCH(8) WATCH(16)
void __tsan_read_range(void *p, size_t n) { use(p, n, READ, PC); }
void __tsan_write_range(void *p, size_t n) { use(p, n, WRITE, PC); }
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}

// The sanitizer of undefined behaviour: these know line and column.
struct Place { const char *file; u32 line, column; };
struct Type { uint16_t kind, info; char name[1]; };
struct Bounds { Place at; Type *array, *index; };
struct Mismatch { Place at; Type *type; unsigned char log_align, check; };
struct Overflow { Place at; Type *type; };
static void place_text(char *text, size_t size, const Place &at) {
  snprintf(text, size, "L%u:%u", at.line, at.column);
}
void __ubsan_handle_out_of_bounds(Bounds *data, uintptr_t index) {
  if (!running || stop) return;
  char place[40];
  place_text(place, sizeof place, data->at);
  long long number = data->index->info & 1 && (data->index->info >> 1) == 5 ? (int)index : (long long)index;
  say("bounds", place, 0, "index %lld of an array of type %s", number, data->array->name);
  end_run();
}
void __ubsan_handle_type_mismatch_v1(Mismatch *data, uintptr_t pointer) {
  uintptr_t align = (uintptr_t)1 << data->log_align;
  if (!running || stop || pointer % align == 0) return;
  char place[40];
  place_text(place, sizeof place, data->at);
  say("misaligned", place, 0, "an access to %s at an address that is no multiple of %zu",
      data->type->name, (size_t)align);
}
void __ubsan_handle_divrem_overflow(Overflow *data, uintptr_t, uintptr_t right) {
  if (!running || stop) return;
  char place[40];
  place_text(place, sizeof place, data->at);
  say("crash", place, 0, right ? "the quotient is too large for its type" : "a division by zero");
  end_run();
}

// ------------------------------------------------------------- shared memory
static char *arena, *arena_next;
static const size_t ARENA = 64u << 20, GAP = 64 << 10;
static Region *add_region(char *start, size_t size, bool shared, u32 grain, unsigned item, char code,
                          const char *name, char *low, char *high) {
  Region *r = new Region{start, size, shared, false, grain, code, item ? item : 1, name, 0, 0, low,
                         high, 0, 0};
  size_t cells = size / grain + 1;
  r->cells = (Cell *)mmap(0, cells * sizeof(Cell), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (r->cells == MAP_FAILED) _exit(5);
  if (shared) r->written = (unsigned char *)calloc(size + 1, 1);
  regions.push_back(r);
  return r;
}
// May be called before ``main``, for a declaration outside of functions.
static void begin_arena() {
  if (arena) return;
  arena = (char *)mmap(0, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) _exit(5);
  arena_next = arena + (256 << 10) + 2 * GAP;
  add_region(arena + GAP, 256 << 10, true, 4, 1, '?', "", arena, arena + (256 << 10) + 2 * GAP);
}
// The address of an array that a block shares; ``id`` is the declaration's own variable.
void *lz_shared(void **id, size_t size, size_t item, const char *name) {
  if (*id) return *id;
  begin_arena();
  if (arena_next + size + GAP > arena + ARENA) _exit(5);
  char *start = arena_next;
  arena_next += (size + GAP + 255) / 256 * 256;
  memset(start, fill, size);
  u32 grain = item % 4 == 0 ? 4 : item % 2 == 0 ? 2 : 1;
  add_region(start, size, true, grain, (unsigned)item, '?' + 1, name, start - GAP / 2,
             start + size + GAP / 2);
  static_bytes += size;
  return *id = start;
}
void *lz_dynamic(size_t item, const char *name) {
  begin_arena();
  Region *r = regions[0];
  if (r->name == "") r->name = name, r->item = (unsigned)item, r->code = '?' + 1;
  return r->start;
}

// ------------------------------------------------------------------ barriers
void __threadfence() { fence(true); }
void __threadfence_block() { fence(false); }
void __threadfence_system() { fence(true); }
void lz_pause() { maybe_yield(); }

// Two places where threads wait that should wait at one: the one that the others miss. In a loop,
// that is the later one of two which all have passed before.
static u32 culprit(u32 a, u32 b) {
  u32 first = std::min(a, b), second = std::max(a, b);
  return passes[a] && passes[b] && first != second ? second : first;
}
static int barrier(u32 pc, int predicate, int which) {
  Thread &t = threads[current];
  t.state = AT_BARRIER;
  t.pc = pc;
  barrier_ones += predicate != 0;
  barrier_or |= predicate != 0;
  barrier_and &= predicate != 0;
  if (++barrier_count < count) {
    while (t.state == AT_BARRIER) wait();
    return barrier_result[which];
  }
  u32 other = 0;
  for (int i = 0; i < count; i++)
    if (threads[i].pc != pc) other = threads[i].pc;
  if (other) {
    u32 bad = culprit(pc, other);
    Access a = {block, epoch, 0, bad == pc ? other : pc, 0, 0, 0};
    for (int i = 0; i < count; i++)
      if (threads[i].pc == a.pc) a.thread = i;
    say_at("barrier", bad, &a, "threads of a block wait at different barriers");
  } else {
    passes[pc]++;
  }
  Seen all;
  for (int i = 0; i < count; i++) merge(all, threads[i].seen);
  for (int i = 0; i < count; i++) {
    threads[i].state = READY;
    threads[i].clock++;
    threads[i].known[i % WARP] = threads[i].clock;
    if (!all.empty()) threads[i].seen = all;
  }
  barrier_result[0] = barrier_ones, barrier_result[1] = barrier_and, barrier_result[2] = barrier_or;
  barrier_count = barrier_ones = barrier_or = 0, barrier_and = 1;
  epoch++;
  progress++;
  return barrier_result[which];
}
void __syncthreads() { barrier(PC, 0, 0); }
void lz_barrier(u32 pc) { barrier(pc, 0, 0); }
int __syncthreads_count(int p) { return barrier(PC, p, 0); }
int __syncthreads_and(int p) { return barrier(PC, p, 1); }
int __syncthreads_or(int p) { return barrier(PC, p, 2); }

static bool there(int thread) { return thread < count && threads[thread].state != DONE; }
static u64 combine(int op, u64 a, u64 b) {
  int x = (int)a, y = (int)b;
  unsigned p = (unsigned)a, q = (unsigned)b;
  switch (op) {
    case ADD: return (unsigned)(p + q);
    case SMIN: return (unsigned)std::min(x, y);
    case SMAX: return (unsigned)std::max(x, y);
    case UMIN: return std::min(p, q);
    case UMAX: return std::max(p, q);
    case AND: return p & q;
    case OR: return p | q;
    default: return p ^ q;
  }
}
static void order_lanes(int first, unsigned mask) {
  u32 most[WARP] = {0};
  Seen all;
  for (int l = 0; l < WARP; l++) {
    if (!(mask >> l & 1) || !there(first + l)) continue;
    Thread &t = threads[first + l];
    for (int k = 0; k < WARP; k++) most[k] = std::max(most[k], t.known[k]);
    most[l] = std::max(most[l], t.clock);
    merge(all, t.seen);
  }
  for (int l = 0; l < WARP; l++) {
    if (!(mask >> l & 1) || !there(first + l)) continue;
    Thread &t = threads[first + l];
    memcpy(t.known, most, sizeof most);
    if (!all.empty()) t.seen = all;
    t.clock++;  // what it does from here on the others do not know
  }
}
// Lets the lanes of a mask go on if all that have not ended are there.
static bool complete_warp(int first, int leader) {
  Thread &t = threads[first + leader];
  for (int l = 0; l < WARP; l++) {
    if (!(t.mask >> l & 1) || !there(first + l)) continue;
    Thread &o = threads[first + l];
    if (o.state != AT_WARP || o.op != t.op || o.mask != t.mask) return false;
    if (t.op != SYNC && o.pc != t.pc) return false;
  }
  unsigned mask = t.mask;
  int op = t.op;
  if (op == SYNC) order_lanes(first, mask);
  for (int l = 0; l < WARP; l++) {
    if (!(mask >> l & 1) || !there(first + l)) continue;
    Thread &o = threads[first + l];
    o.result = op == SHUFFLE ? 0 : op == AND ? ~0u : 0;
    bool begun = false;
    for (int k = 0; k < WARP; k++) {
      if (!(mask >> k & 1) || !there(first + k)) continue;
      u64 v = threads[first + k].value;
      if (op == BALLOT) o.result |= (u64)(v != 0) << k;
      else if (op == MATCH) o.result |= (u64)(v == o.value) << k;
      else if (op >= ADD) o.result = begun ? combine(op, o.result, v) : v, begun = true;
    }
    if (op == SHUFFLE) {
      bool is_there = o.source < 0 || (o.source < WARP && mask >> o.source & 1 && there(first + o.source));
      o.source = is_there ? o.source : -2;
      o.result = is_there && o.source >= 0 ? threads[first + o.source].value : o.value;
    }
  }
  for (int l = 0; l < WARP; l++)
    if (mask >> l & 1 && there(first + l)) threads[first + l].state = READY;
  progress++;
  return true;
}
static u64 meet_warp(int op, unsigned mask, u64 value, int source, u32 pc, bool *missing) {
  Thread &t = threads[current];
  int lane = current % WARP, first = current - lane;
  if (!(mask >> lane & 1)) {
    char text[160];
    snprintf(text, sizeof text, "lane %d is not in the mask 0x%08x of what it calls", lane, mask);
    say_at("barrier", pc, 0, text);
    return value;
  }
  t.state = AT_WARP, t.pc = pc, t.op = op, t.mask = mask, t.value = value, t.source = source;
  if (!complete_warp(first, lane))
    while (t.state == AT_WARP) wait();
  if (missing) *missing = t.source == -2;
  return t.result;
}
void lz_syncwarp(unsigned mask, u32 pc) { meet_warp(SYNC, mask, 0, 0, pc, 0); }
// A value of a lane that takes no part is no value: ``code`` says how to make it so.
u64 lz_shuffle(unsigned mask, u64 value, int source, char code, u32 pc) {
  bool missing = false;
  u64 result = meet_warp(SHUFFLE, mask, value, source, pc, &missing);
  if (!missing || (code != 'f' && code != 'd')) return result;
  size_t n = std::find(poisons.begin(), poisons.end(), pc) - poisons.begin();
  if (n == poisons.size()) poisons.push_back(pc);
  return code == 'f' ? 0x7fd5a000u | (n & 0xfff) : 0x7ffd5a5a5a5a0000ull | (n & 0xfff);
}
u64 lz_warp(int op, unsigned mask, u64 value, u32 pc) { return meet_warp(op, mask, value, 0, pc, 0); }
unsigned lz_active(u32 pc) {
  Thread &t = threads[current];
  t.state = AT_ACTIVE;
  t.pc = pc;
  while (t.state == AT_ACTIVE) wait();
  return t.mask;
}
unsigned __activemask() { return lz_active(PC); }
}  // extern "C"

// ------------------------------------------------------------------- running
static void enter() {
  kernel->call(arguments);
  Thread &t = threads[current];
  t.state = DONE;
  progress++;
  int first = current / WARP * WARP;
  for (int l = 0; l < WARP; l++)
    if (there(first + l) && threads[first + l].state == AT_WARP) complete_warp(first, l);
  for (;;) wait();
}
static void go(int i) {
  current = i;
  lz_thread_index = {i % lz_block_dim.x, i / lz_block_dim.x % lz_block_dim.y,
                     i / (lz_block_dim.x * lz_block_dim.y)};
  lz_switch(&scheduler, threads[i].stack);
}
// Lanes that ask who is with them, once no other lane of the warp can go on.
static bool resolve_active(int first) {
  u32 pc = 0;
  unsigned mask = 0;
  for (int l = 0; l < WARP; l++) {
    if (!there(first + l)) continue;
    Thread &t = threads[first + l];
    if (t.state == READY) return false;
    if (t.state == AT_ACTIVE && (!pc || pc == t.pc)) pc = t.pc, mask |= 1u << l;
  }
  for (int l = 0; l < WARP; l++)
    if (mask >> l & 1) threads[first + l].state = READY, threads[first + l].mask = mask;
  if (mask) progress++;
  return mask;
}
static const char *waits_for(const Thread &t) {
  return t.state == AT_BARRIER ? "a barrier of the block" : t.op == SYNC ? "__syncwarp" : "a shuffle or vote";
}
static void report_stall() {
  u32 bad = 0, other = 0;
  int waiting = 0, ended = 0, one = 0, two = 0;
  for (int i = 0; i < count; i++) {
    Thread &t = threads[i];
    if (t.state == DONE) { ended++; continue; }
    waiting++;
    bad = bad ? culprit(bad, t.pc) : t.pc;
  }
  for (int i = 0; i < count; i++)
    if (threads[i].state != DONE) {
      if (threads[i].pc == bad) one = i;
      else other = threads[i].pc, two = i;
    }
  int at_bad = 0;
  for (int i = 0; i < count; i++) at_bad += threads[i].state != DONE && threads[i].pc == bad;
  current = one;
  Access a = {block, epoch, 0, other, (uint16_t)two, 0, 0};
  char text[300];
  snprintf(text, sizeof text, "%d of %d threads wait for ever at %s: %d wait elsewhere, %d have ended",
           at_bad, count, waits_for(threads[one]), waiting - at_bad, ended);
  say_at("barrier", bad, other ? &a : 0, text);
}
static void begin_block(unsigned number) {
  block = number + 1;
  lz_block_index = {number % lz_grid_dim.x, number / lz_grid_dim.x % lz_grid_dim.y,
                    number / (lz_grid_dim.x * lz_grid_dim.y)};
  epoch = 1;
  passes.clear();
  barrier_count = barrier_ones = barrier_or = 0, barrier_and = 1;
  for (Region *r : regions)
    if (r->shared) memset(r->start, fill, r->size), memset(r->written, 0, r->size);
  for (int i = 0; i < count; i++) {
    Thread &t = threads[i];
    t.stack = prepare(t.high, enter);
    t.state = READY;
    t.clock = 1, t.fence = t.fence_epoch = t.block_fence = t.block_fence_epoch = 0;
    memset(t.known, 0, sizeof t.known);
    t.seen.clear();
  }
}
static void run_warp(int w, int style) {
  int first = w * WARP, size = std::min((int)WARP, count - first);
  int start = style ? draw() % size : 0, step = style ? (draw() % 2 ? 1 : size - 1) : 1;
  for (int n = 0, i = start; n < size && !stop; n++, i = (i + step) % size)
    if (threads[first + i].state == READY) go(first + i);
  resolve_active(first);
}
static void run_block(unsigned number, int style) {
  begin_block(number);
  int warps = (count + WARP - 1) / WARP;
  std::vector<int> order(warps), pace(warps);
  for (int i = 0; i < warps; i++) order[i] = i, pace[i] = style ? 1 << draw() % 3 * 2 : 1;
  bool everyone = true;
  for (int left = count; left && !stop;) {
    u64 before = progress;
    bool ready = false;
    for (int i = warps - 1; style && i > 0; i--) std::swap(order[i], order[draw() % (i + 1)]);
    for (int w : order)
      if (everyone || draw() % pace[w] == 0) run_warp(w, style);
    left = 0;
    for (int i = 0; i < count; i++) {
      left += threads[i].state != DONE;
      ready = ready || threads[i].state == READY;
    }
    if (left && before == progress && everyone && !ready && !stop) {
      report_stall();
      stop = true;
    }
    everyone = before == progress;
  }
  if (any_fence) {
    std::vector<u32> &all = fences_of[block];
    for (int i = 0; i < count; i++) all.push_back(threads[i].fence);
  }
}

// ------------------------------------------------------------------- signals
static void on_signal(int number, siginfo_t *info, void *context) {
  char place[200], text[200];
  size_t n = 0;
  place[0] = 0;
#if defined(__x86_64__)
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
  uintptr_t pc = registers[REG_RIP], frame = registers[REG_RBP];
  char *low = threads[current].low, *high = threads[current].high;
  for (int i = 0; i < 8; i++) {
    if (pc < 0xffffffffu) n += snprintf(place + n, sizeof place - n, "%sP%x", n ? "," : "", (u32)pc - (i > 0));
    if ((char *)frame < low || (char *)frame + 16 > high) break;
    pc = ((uintptr_t *)frame)[1], frame = ((uintptr_t *)frame)[0];
  }
#endif
  if (last_pc && number != SIGABRT) n += snprintf(place + n, sizeof place - n, "%sP%x", n ? "," : "", last_pc);
  char *at = number == SIGSEGV || number == SIGBUS ? (char *)info->si_addr : 0;
  const char *kind = "crash";
  if (number == SIGALRM)
    kind = "hang", snprintf(text, sizeof text, "the kernel has not ended within the time limit");
  else if (at && at < threads[current].low && at >= threads[current].low - GUARD)
    snprintf(text, sizeof text, "the stack of a thread has no room left (%d KiB)", STACK >> 10);
  else if (number == SIGABRT)
    snprintf(text, sizeof text, "an assertion failed, or the kernel called abort");
  else if (number == SIGFPE)
    snprintf(text, sizeof text, "a division by zero, or a quotient that is too large");
  else if (number == SIGILL || number == SIGTRAP)
    snprintf(text, sizeof text, "the kernel traps");
  else
    snprintf(text, sizeof text, "an access to address %p, which belongs to no array", (void *)at);
  say(kind, place, 0, "%s", text);
  _exit(write(output, "end\n", 4) == 4 ? 0 : 4);
}
static void catch_signals(double seconds) {
  static char space[64 << 10];
  stack_t other = {space, 0, sizeof space};
  sigaltstack(&other, 0);
  struct sigaction act;
  memset(&act, 0, sizeof act);
  act.sa_sigaction = on_signal;
  act.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGALRM}) sigaction(s, &act, 0);
  struct itimerval limit = {{0, 0}, {(long)seconds, (long)((seconds - (long)seconds) * 1e6)}};
  setitimer(ITIMER_REAL, &limit, 0);
}

// --------------------------------------------------------------------- input
static char *reserve(size_t bytes) {
  char *p = (char *)mmap(0, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) _exit(5);
  return p;
}
static void list() {
  for (int i = 0; i < lz_kernel_count; i++) {
    const Kernel &k = lz_kernels[i];
    printf("%s\t%lx", k.name, (unsigned long)k.entry);
    for (int p = 0; p < k.count; p++)
      printf("\t%c %u %c %u", k.of[p].code, k.of[p].size, k.of[p].item_code, k.of[p].item);
    printf("\n");
  }
}
static void check_results(unsigned blocks) {
  current = 0, block = blocks ? 1 : 0;
  for (Region *r : regions) {
    if (r->must_write) {
      size_t missing = 0, first = 0, items = r->size / r->item;
      for (size_t i = items; i-- > 0;)
        if (!r->written[i * r->item]) missing++, first = i;
      char text[300];
      snprintf(text, sizeof text, "%zu of %zu elements of %s are never written, %s[%zu] is the first",
               missing, items, r->name.c_str(), r->name.c_str(), first);
      u32 pc = r->last_store ? r->last_store : (u32)(uintptr_t)kernel->entry;
      if (missing) say_at("uninitialised", pc, 0, text);
    }
    if (r->shared || r->code != 'f' || !r->last_store) continue;
    for (size_t i = 0; i < r->size / r->item; i++) {
      u64 word = 0;
      memcpy(&word, r->start + i * r->item, r->item > 8 ? 8 : r->item);
      u64 tag = r->item == 4 ? 0x7fd5a : 0x7ffd5a5a5a5a;
      size_t shift = r->item == 4 ? 12 : 16, n = word & 0xfff;
      if ((r->item != 4 && r->item != 8) || word >> shift != tag || n >= poisons.size()) continue;
      say_at("barrier", poisons[n], 0,
             ("lanes read from lanes that take no part, and the value reaches " + element(r, i * r->item)).c_str());
    }
  }
}
// What the kernel leaves behind, as a number: whoever compares launches needs no more.
static void say_memory() {
  u64 sum = 0xcbf29ce484222325ull;
  for (Region *r : regions)
    for (size_t i = 0; !r->shared && i < r->size; i++)
      sum = (sum ^ (unsigned char)r->start[i]) * 0x100000001b3ull;
  dprintf(output, "memory\t\t0\t0\t\t\t\t%lx\n", (unsigned long)sum);
}
// Arguments: the file to read a launch from, and the one to write findings to.
int main(int argc, char **argv) {
  if (argc < 3) return list(), 0;
  FILE *in = fopen(argv[1], "rb");
  output = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!in || output < 0) return 4;
  int index, parts, style;
  double seconds;
  Three &g = lz_grid_dim, &b = lz_block_dim;
  u64 seed;
  if (fscanf(in, "%d %u %u %u %u %u %u %zu %lu %lf %d %d", &index, &g.x, &g.y, &g.z, &b.x, &b.y,
             &b.z, &dynamic_bytes, &seed, &seconds, &fill, &parts) != 12)
    return 4;
  kernel = &lz_kernels[index];
  style = seed > 0;
  random_state = seed * 0x9e3779b97f4a7c15ull + 0x1234567;
  count = b.x * b.y * b.z;
  begin_arena();
  regions[0]->size = dynamic_bytes;
  if (__start_lz_device != __stop_lz_device)
    add_region(__start_lz_device, __stop_lz_device - __start_lz_device, false, 4, 1, '?',
               "the device variables", __start_lz_device, __stop_lz_device);
  std::vector<char *> places, values;
  std::vector<Region *> made;
  for (int i = 0; i < parts; i++) {  // buffers: bytes, grain, item, code, given, required, name
    size_t bytes;
    unsigned grain, item;
    char code, name[200];
    int given, required;
    if (fscanf(in, "%zu %u %u %c %d %d %199s", &bytes, &grain, &item, &code, &given, &required, name) != 7)
      return 4;
    const size_t gap = 64u << 20;
    char *low = reserve(bytes + 2 * gap), *start = low + gap;
    Region *r = add_region(start, bytes, false, grain, item, code, name, low, start + bytes + gap);
    if (!given) memset(start, 0xff, bytes), r->written = (unsigned char *)calloc(bytes + 1, 1);
    r->must_write = required;
    places.push_back(start), made.push_back(r);
    values.push_back(given ? start : 0);
  }
  int total;
  if (fscanf(in, "%d", &total) != 1) return 4;
  std::vector<char *> given(total + 1);
  for (int i = 0; i < total; i++) {  // arguments: b NUMBER for a buffer, v HEX for a value
    char what, text[600];
    if (fscanf(in, " %c %599s", &what, text) != 2) return 4;
    given[i] = (char *)calloc(1, 320);
    if (what == 'b') {
      int n = atoi(text);
      *(void **)given[i] = n < 0 ? 0 : places[n];
    }
    for (size_t k = 0; what == 'v' && text[2 * k] && text[2 * k + 1]; k++)
      sscanf(text + 2 * k, "%2hhx", (unsigned char *)given[i] + k);
  }
  fgetc(in);
  for (int i = 0; i < parts; i++)
    if (values[i] && made[i]->size && fread(values[i], 1, made[i]->size, in) != made[i]->size) return 4;
  fclose(in);
  arguments = given.data();
  size_t each = STACK + GUARD;
  char *stacks = reserve(each * count);
  for (int i = 0; i < count; i++) {
    mprotect(stacks + i * each, GUARD, PROT_NONE);
    threads[i].low = stacks + i * each + GUARD;
    threads[i].high = stacks + (i + 1) * each;
  }
  catch_signals(seconds);
  running = true;
  unsigned blocks = g.x * g.y * g.z;
  std::vector<unsigned> order(blocks);
  for (unsigned i = 0; i < blocks; i++) order[i] = seed == 1 ? blocks - 1 - i : i;
  for (unsigned i = blocks; seed > 1 && i-- > 1;) std::swap(order[i], order[draw() % (i + 1)]);
  for (unsigned n : order)
    if (!stop) run_block(n, style);
  if (static_bytes > 48 << 10) {
    char text[120];
    snprintf(text, sizeof text, "the kernel has %zu bytes of static shared memory, more than 49152", static_bytes);
    say_at("bounds", (u32)(uintptr_t)kernel->entry, 0, text);
  }
  if (!stop) check_results(blocks), say_memory();
  return write(output, "end\n", 4) == 4 ? 0 : 4;
}
