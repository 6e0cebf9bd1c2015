/* Threads for kernels whose compiler brings no OpenMP library of its own.

   Compilers that know OpenMP's pragmas turn them into calls of functions named __kmpc_*. Every plan
   has such functions, each of which passes on to this library, by the table at its end: so no name
   of another OpenMP library in the process is met or replaced.

   One team at a time: a region inside of a region, and one that another thread's is in the way of,
   has one thread. Threads that wait spin for a while, then sleep. */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

typedef long long lz_i64;
typedef unsigned long long lz_u64;
enum { MOST = 512, LOOPS = 8, DEPTH = 8, STACK = 8 << 20 };

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, value) __atomic_store_n(&(x), value, __ATOMIC_SEQ_CST)
#define ADD(x, value) __atomic_fetch_add(&(x), value, __ATOMIC_SEQ_CST)

/* Somebody waits here for a number to change. */
struct place {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  unsigned value, sleepers;
};

/* A loop whose shares threads take in turn: the number of the loop, the steps that were given away
   and the threads that are through. */
struct loop {
  unsigned number, through;
  lz_u64 given;
};

/* The threads of one region. */
struct team {
  int count;
  unsigned arrived, singles;
  struct place barrier;
  pthread_mutex_t critical;
  struct loop loops[LOOPS];
};

/* What a thread knows of its region: how many loops and single blocks it has met, and the loop that
   it is in. */
struct member {
  struct team *team;
  struct member *outer;
  int number;
  unsigned loops, singles;
  lz_i64 low, step;
  lz_u64 trips, share, alone;
};

struct worker {
  struct place begin;
  void (*body)(void *, int);
  void *data;
} __attribute__((aligned(128)));

static struct worker workers[MOST];
static struct team team;
static struct place ended;
static unsigned left;  /* workers that are not through with the region */
static int taken;      /* whether a thread uses the team */
static int started;    /* workers that there are */
static int spins, cores;
static struct team one = {.count = 1}, refused = {.count = 1};
static __thread struct member *self;
static __thread int wanted;
static __thread struct member nest[DEPTH]; /* regions of this thread alone */
static __thread int depth;

static void pause_(void)
{
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield" ::: "memory");
#endif
}

static void make_place(struct place *place)
{
  pthread_mutex_init(&place->lock, 0);
  pthread_cond_init(&place->changed, 0);
  place->value = place->sleepers = 0;
}

static void change(struct place *place, unsigned value)
{
  STORE(place->value, value);
  if (LOAD(place->sleepers))
    {
      pthread_mutex_lock(&place->lock);
      pthread_cond_broadcast(&place->changed);
      pthread_mutex_unlock(&place->lock);
    }
}

/* Waits until the number is another one, which it returns. More threads than cores do not spin for
   long: the one that is waited for may need the core. */
static unsigned await(struct place *place, unsigned value, int count)
{
  const int most = count > cores ? spins / 500 : spins;
  for (int i = 0; i < most; i++)
    {
      if (LOAD(place->value) != value)
        return LOAD(place->value);
      pause_();
    }
  pthread_mutex_lock(&place->lock);
  ADD(place->sleepers, 1);
  while (LOAD(place->value) == value)
    pthread_cond_wait(&place->changed, &place->lock);
  ADD(place->sleepers, -1);
  pthread_mutex_unlock(&place->lock);
  return LOAD(place->value);
}

static void take_part(int number, void (*body)(void *, int), void *data)
{
  struct member me = {&team, self, number, 0, 0, 0, 0, 0, 0, 0};
  self = &me;
  body(data, number);
  self = me.outer;
}

static void *serve(void *given)
{
  struct worker *const worker = given;
  unsigned seen = 0;
  for (;;)
    {
      seen = await(&worker->begin, seen, LOAD(team.count));
      take_part((int) (worker - workers) + 1, worker->body, worker->data);
      if (ADD(left, -1) == 1)
        change(&ended, LOAD(ended.value) + 1);
    }
  return 0;
}

/* Starts workers until there are so many; returns how many there are. */
static int start_workers(int count)
{
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  if (started >= count)
    return count;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are for the threads of the program */
  while (started < count)
    {
      make_place(&workers[started].begin);
      if (pthread_create(&thread, &attributes, serve, &workers[started]))
        break;
      started++;
    }
  pthread_sigmask(SIG_SETMASK, &before, 0);
  pthread_attr_destroy(&attributes);
  return started < count ? started : count;
}

/* A region of this thread alone begins, and ends: one that asked for no more, or was refused them. */
static void enter(struct team *alone)
{
  struct member *const me = depth < DEPTH ? &nest[depth] : malloc(sizeof *me);
  if (!me)
    abort();
  *me = (struct member) {alone, self, 0, 0, 0, 0, 0, 0, 0, 0};
  depth++;
  self = me;
}

static void enter_alone(void)
{
  enter(&one);
}

static void leave(void)
{
  struct member *const me = self;
  self = me->outer;
  if (--depth >= DEPTH)
    free(me);
}

static void make_team(int count)
{
  STORE(team.count, count);
  team.arrived = team.singles = 0;
  for (unsigned i = 0; i < LOOPS; i++)
    team.loops[i] = (struct loop) {i, 0, 0};
}

/* Calls `body(data, number)` in as many threads as were asked for, all at once. */
static void run(void (*body)(void *, int), void *data)
{
  int count = wanted, workers_needed, expected = 0;
  wanted = 0;
  if (count > MOST + 1)
    count = MOST + 1;
  if (count <= 1 || (self && (self->team->count > 1 || self->team == &refused))
      || !__atomic_compare_exchange_n(&taken, &expected, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    {
      enter(count > 1 ? &refused : &one);
      body(data, 0);
      leave();
      return;
    }
  workers_needed = start_workers(count - 1);
  make_team(workers_needed + 1);
  const unsigned before = LOAD(ended.value);
  STORE(left, (unsigned) workers_needed);
  for (int i = 0; i < workers_needed; i++)
    {
      workers[i].body = body;
      workers[i].data = data;
      change(&workers[i].begin, LOAD(workers[i].begin.value) + 1);
    }
  take_part(0, body, data);
  if (workers_needed)
    await(&ended, before, team.count);
  STORE(taken, 0);
}

/* The outlined body of a region takes its own number twice and then what it was given, all of them
   addresses. A call with more arguments than a function has is harmless where the caller removes
   them, as on the processors that kernels are compiled for. */
#define A4(i) a[i], a[i + 1], a[i + 2], a[i + 3]
#define A16(i) A4(i), A4(i + 4), A4(i + 8), A4(i + 12)
#define A64(i) A16(i), A16(i + 16), A16(i + 32), A16(i + 48)
#define A256(i) A64(i), A64(i + 64), A64(i + 128), A64(i + 192)
#define A1024 A256(0), A256(256), A256(512), A256(768)

static int room(int count)
{
  if (count > 1024)
    {
      fputs("lazyt: a parallel region has more than 1024 values from outside\n", stderr);
      abort();
    }
  return count <= 4 ? 4 : count <= 16 ? 16 : count <= 64 ? 64 : count <= 256 ? 256 : 1024;
}

static void call(void (*body)(void), int number, int count, void **a)
{
  int self_ = number, *n = &self_;
  switch (room(count))
    {
    case 4:
      ((void (*)(int *, int *, void *, void *, void *, void *)) body)(n, n, A4(0));
      break;
#define P4 void *, void *, void *, void *
#define P16 P4, P4, P4, P4
#define P64 P16, P16, P16, P16
#define P256 P64, P64, P64, P64
    case 16:
      ((void (*)(int *, int *, P16)) body)(n, n, A16(0));
      break;
    case 64:
      ((void (*)(int *, int *, P64)) body)(n, n, A64(0));
      break;
    case 256:
      ((void (*)(int *, int *, P256)) body)(n, n, A256(0));
      break;
    default:
      ((void (*)(int *, int *, P256, P256, P256, P256)) body)(n, n, A1024);
    }
}

static void ask(int count)
{
  wanted = count;
}

static int number(void)
{
  return self ? self->number : 0;
}

static int count(void)
{
  return self ? self->team->count : 1;
}

static void barrier(void)
{
  struct team *const ours = self ? self->team : 0;
  if (!ours || ours->count == 1)
    return;
  const unsigned before = LOAD(ours->barrier.value);
  if (ADD(ours->arrived, 1) + 1 == (unsigned) ours->count)
    {
      STORE(ours->arrived, 0u);
      change(&ours->barrier, before + 1);
    }
  else
    await(&ours->barrier, before, ours->count);
}

/* Whether this thread is the one that does the block. */
static int single(void)
{
  if (!self || self->team->count == 1)
    return 1;
  unsigned met = self->singles++;
  return __atomic_compare_exchange_n(&self->team->singles, &met, met + 1, 0, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}

static void lock(void)
{
  if (self && self->team->count > 1)
    pthread_mutex_lock(&self->team->critical);
}

static void unlock(void)
{
  if (self && self->team->count > 1)
    pthread_mutex_unlock(&self->team->critical);
}

/* This thread's part of `trips` steps: where it begins, and how many steps it has. */
static void part(lz_u64 trips, lz_u64 *begin, lz_u64 *size)
{
  const lz_u64 threads = count(), me = number(), each = trips / threads, more = trips % threads;
  *begin = me * each + (me < more ? me : more);
  *size = each + (me < more);
}

/* A loop begins whose shares are taken in turn. A thread may be some loops ahead of the others. */
static void begin(lz_i64 low, lz_i64 step, lz_u64 trips, lz_u64 share)
{
  self->low = low;
  self->step = step;
  self->trips = trips;
  self->share = share ? share : 1;
  self->alone = 0;
  if (self->team->count == 1)
    return;
  struct loop *const loop = &self->team->loops[self->loops % LOOPS];
  while (LOAD(loop->number) != self->loops)
    sched_yield();
}

static int give(struct member *me, lz_u64 first, lz_u64 share, lz_i64 *low, lz_i64 *high, int *last)
{
  const lz_u64 end = me->trips - first < share ? me->trips : first + share;
  *low = me->low + (lz_i64) first * me->step;
  *high = me->low + (lz_i64) (end - 1) * me->step;
  *last = end == me->trips;
  return 1;
}

/* The next share of this thread; none where the loop is over, or is to `stop`. With `all` a single
   thread gets everything at once. */
static int next(int stop, int all, lz_i64 *low, lz_i64 *high, lz_i64 *step, int *last)
{
  struct member *const me = self;
  *step = me->step;
  if (me->team->count == 1)
    {
      const lz_u64 first = me->alone, share = all ? me->trips : me->share;
      if (stop || first >= me->trips)
        return 0;
      me->alone = me->trips - first < share ? me->trips : first + share;
      return give(me, first, share, low, high, last);
    }
  struct loop *const loop = &me->team->loops[me->loops % LOOPS];
  const lz_u64 first = stop ? me->trips : ADD(loop->given, me->share);
  if (first < me->trips)
    return give(me, first, me->share, low, high, last);
  const unsigned number = me->loops++;
  if (ADD(loop->through, 1) + 1 == (unsigned) me->team->count)
    {
      STORE(loop->through, 0u);
      STORE(loop->given, 0ull);
      STORE(loop->number, number + LOOPS);
    }
  return 0;
}

/* A child has none of its parent's threads. */
static void after_fork(void)
{
  started = taken = 0;
  left = 0;
  make_place(&ended);
  make_place(&team.barrier);
  pthread_mutex_init(&team.critical, 0);
}

static const struct {
  void (*run)(void (*)(void *, int), void *);
  void (*call)(void (*)(void), int, int, void **);
  void (*enter)(void);
  void (*leave)(void);
  void (*ask)(int);
  int (*number)(void);
  int (*count)(void);
  void (*barrier)(void);
  int (*single)(void);
  void (*lock)(void);
  void (*unlock)(void);
  void (*part)(lz_u64, lz_u64 *, lz_u64 *);
  void (*begin)(lz_i64, lz_i64, lz_u64, lz_u64);
  int (*next)(int, int, lz_i64 *, lz_i64 *, lz_i64 *, int *);
  int (*room)(int);
} table = {run, call, enter_alone, leave, ask, number, count, barrier, single, lock, unlock, part, begin,
           next, room};

/* Called once: how often a thread asks before it sleeps, and the cores that there are. */
__attribute__((visibility("default"))) const void *lz_make_team(int most_spins, int all_cores)
{
  spins = most_spins;
  cores = all_cores;
  after_fork();
  pthread_atfork(0, 0, after_fork);
  return &table;
}
