/* NCCL's C interface for processes of one machine: it checks what it is called with, writes down every
   call, and moves the bytes through files that the processes map. "Device memory" is the host's, as it
   is with the emulator. With blocking == 0 calls return ncclInProgress, and ncclCommGetAsyncError goes
   on with the work, so that a rank that does not come is seen as with NCCL.

   MOCK_NCCL_DIR      where the files are (required)
   MOCK_NCCL_LOG      file that gets a line for each call, with the rank behind its name
   MOCK_NCCL_VERSION  what ncclGetVersion says
   MOCK_NCCL_FAIL     NAME=CODE: that function fails
   MOCK_NCCL_ASYNC    NAME=CODE: the communicator fails after that function */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS, CUDA_ERROR, SYSTEM, INTERNAL, ARGUMENT, USAGE, REMOTE, PROGRESS };
enum { MOST_RANKS = 8, ROOM = 1 << 20, MOST_TASKS = 128, MAGIC = 0x51ab };
typedef struct { char internal[128]; } Id;
typedef struct { /* of 2.18 */
  size_t size;
  unsigned magic, version;
  int blocking, cga, min_ctas, max_ctas;
  const char *net;
  int split_share;
} Config;

/* From one rank to another: messages one at a time. */
typedef struct {
  volatile uint64_t posted, taken;
  uint64_t kind, nbytes, total;
  char data[ROOM];
} Channel;
typedef struct {
  volatile uint64_t arrived[MOST_RANKS];
  Channel channels[MOST_RANKS][MOST_RANKS];
} Area;

typedef struct { int sends, peer, kind; char *memory; size_t nbytes, done; } Task;
typedef struct Comm {
  int magic, rank, size, blocking, met, state, splits, count;
  char path[512];
  Area *area;
  Task tasks[MOST_TASKS];
  struct Comm *next; /* in a group */
} Comm;

static __thread int depth;
static __thread Comm *grouped;
static char last_error[256];
static int ids;

static void note(const char *format, ...) {
  const char *path = getenv("MOCK_NCCL_LOG");
  if (!path) return;
  FILE *file = fopen(path, "a");
  if (!file) return;
  va_list list;
  va_start(list, format);
  vfprintf(file, format, list);
  va_end(list);
  fclose(file);
}

static int injected(const char *variable, const char *name) {
  const char *text = getenv(variable);
  size_t length = strlen(name);
  if (!text || strncmp(text, name, length) || text[length] != '=') return 0;
  return atoi(text + length + 1);
}

static int refuse(int code, const char *name, const char *why) {
  snprintf(last_error, sizeof last_error, "mock: %s: %s", name, why);
  note("refused %s: %s\n", name, why);
  return code;
}

#define FAILS(name) do { int code = injected("MOCK_NCCL_FAIL", name); \
    if (code) return refuse(code, name, "as the test wants"); } while (0)

const char *ncclGetErrorString(int code) {
  return code == ARGUMENT ? "invalid argument" : code == USAGE ? "invalid usage"
       : code == REMOTE ? "remote process exited or there was a network error"
       : code == SUCCESS ? "no error" : "some error";
}
const char *ncclGetLastError(Comm *comm) { return last_error; }

int ncclGetVersion(int *version) {
  const char *text = getenv("MOCK_NCCL_VERSION");
  *version = text ? atoi(text) : 22703;
  return SUCCESS;
}

int ncclGetUniqueId(Id *id) {
  FAILS("ncclGetUniqueId");
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "%d-%d-%ld%09ld", getpid(), ids++, now.tv_sec, now.tv_nsec);
  memset(id->internal + 64, 0x5a, 64); /* all 128 bytes have to arrive */
  note("ncclGetUniqueId\n");
  return SUCCESS;
}

static int valid(const Comm *comm) { return comm && comm->magic == MAGIC; }

/* The next step of a communicator's work; whether all of it is done. */
static int advance(Comm *comm) {
  if (!comm->met) {
    for (int r = 0; r < comm->size; r++)
      if (!comm->area->arrived[r]) return 0;
    comm->met = 1;
  }
  int all = 1;
  for (int n = 0; n < comm->count; n++) {
    Task *task = &comm->tasks[n];
    int blocked = 0; /* messages between two ranks keep their order */
    for (int m = 0; m < n; m++)
      blocked |= comm->tasks[m].sends == task->sends && comm->tasks[m].peer == task->peer &&
                 comm->tasks[m].done < comm->tasks[m].nbytes;
    if (task->done == task->nbytes) continue;
    all = 0;
    if (blocked) continue;
    Channel *c = task->sends ? &comm->area->channels[comm->rank][task->peer]
                             : &comm->area->channels[task->peer][comm->rank];
    if (task->sends && c->posted == c->taken) {
      size_t part = task->nbytes - task->done < ROOM ? task->nbytes - task->done : ROOM;
      memcpy(c->data, task->memory + task->done, part);
      c->kind = task->kind, c->nbytes = part, c->total = task->nbytes;
      __sync_synchronize();
      c->posted++;
      task->done += part;
    } else if (!task->sends && c->posted > c->taken) {
      if (c->kind != (uint64_t)task->kind || c->total != task->nbytes) {
        comm->state = refuse(USAGE, "progress", "ranks do not call the same, or other sizes");
        return 1;
      }
      memcpy(task->memory + task->done, c->data, c->nbytes);
      task->done += c->nbytes;
      __sync_synchronize();
      c->taken++;
    }
  }
  if (all) comm->count = 0;
  return all;
}

static int run(Comm *comm) {
  if (!comm->blocking) {
    comm->state = advance(comm) ? comm->state == PROGRESS ? SUCCESS : comm->state : PROGRESS;
    return comm->state;
  }
  while (!advance(comm)) usleep(50);
  return comm->state;
}

static Comm *begin(const char *path, int rank, int size, int blocking) {
  Comm *comm = calloc(1, sizeof *comm);
  comm->magic = MAGIC, comm->rank = rank, comm->size = size, comm->blocking = blocking;
  snprintf(comm->path, sizeof comm->path, "%s", path);
  int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Area))) return NULL;
  comm->area = mmap(NULL, sizeof(Area), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (comm->area == MAP_FAILED) return NULL;
  comm->area->arrived[rank] = 1;
  return comm;
}

static int blocking_of(const Config *config) {
  if (config->magic != 0xcafebeef || config->size != 48 || config->version != 21800) return -1;
  if (config->min_ctas != INT_MIN || config->split_share != INT_MIN || config->net) return -1;
  return config->blocking == INT_MIN ? 1 : config->blocking;
}

int ncclCommInitRankConfig(Comm **out, int size, Id id, int rank, Config *config) {
  const char *name = "ncclCommInitRankConfig", *folder = getenv("MOCK_NCCL_DIR");
  char path[512];
  FAILS(name);
  if (!out || size < 1 || size > MOST_RANKS || rank < 0 || rank >= size || !folder)
    return refuse(ARGUMENT, name, "ranks");
  for (int i = 64; i < 128; i++)
    if (id.internal[i] != 0x5a) return refuse(ARGUMENT, name, "the id is damaged");
  int blocking = blocking_of(config);
  if (blocking < 0) return refuse(ARGUMENT, name, "the configuration");
  snprintf(path, sizeof path, "%s/%.63s", folder, id.internal);
  *out = begin(path, rank, size, blocking);
  if (!*out) return refuse(SYSTEM, name, "the file");
  note("%s rank=%d size=%d blocking=%d\n", name, rank, size, blocking);
  return run(*out);
}

int ncclCommGetAsyncError(Comm *comm, int *state) {
  if (!valid(comm)) return refuse(ARGUMENT, "ncclCommGetAsyncError", "no communicator");
  if (comm->state == PROGRESS) run(comm);
  *state = comm->state;
  return SUCCESS;
}

int ncclCommSplit(Comm *comm, int color, int key, Comm **out, Config *config) {
  const char *name = "ncclCommSplit";
  char path[600];
  FAILS(name);
  if (!valid(comm) || !out || comm->count) return refuse(ARGUMENT, name, "the communicator");
  int blocking = config ? blocking_of(config) : comm->blocking;
  if (blocking < 0) return refuse(ARGUMENT, name, "the configuration");
  int mine[2] = {color, key}, every[MOST_RANKS][2];
  for (int r = 0; r < comm->size; r++) {
    comm->tasks[comm->count++] = (Task){1, r, 99, (char *)mine, sizeof mine, 0};
    comm->tasks[comm->count++] = (Task){0, r, 99, (char *)every[r], sizeof mine, 0};
  }
  while (!advance(comm)) usleep(50);
  int rank = 0, size = 0;
  for (int r = 0; r < comm->size; r++)
    if (every[r][0] == color) {
      size++;
      rank += every[r][1] < key;
    }
  snprintf(path, sizeof path, "%s.%d.%d", comm->path, comm->splits++, color);
  *out = color < 0 ? NULL : begin(path, rank, size, blocking);
  note("%s rank=%d color=%d key=%d of=%d\n", name, comm->rank, color, key, size);
  return *out ? run(*out) : SUCCESS;
}

static int enqueue(Comm *comm) {
  if (!depth) return run(comm);
  for (Comm *c = grouped; c; c = c->next)
    if (c == comm) return SUCCESS;
  comm->next = grouped, grouped = comm;
  return SUCCESS;
}

int ncclGroupStart(void) { depth++; note("ncclGroupStart\n"); return SUCCESS; }

int ncclGroupEnd(void) {
  FAILS("ncclGroupEnd");
  if (!depth) return refuse(USAGE, "ncclGroupEnd", "no group");
  note("ncclGroupEnd\n");
  if (--depth) return SUCCESS;
  int found = SUCCESS;
  for (Comm *c = grouped; c; c = c->next) { /* several may wait for each other */
    int state = c->blocking ? SUCCESS : run(c);
    found = state ? state : found;
  }
  for (int left = 1; left;) {
    left = 0;
    for (Comm *c = grouped; c; c = c->next) left |= c->blocking && !advance(c);
  }
  grouped = NULL;
  return found;
}

static int check(const char *name, Comm *comm, const void *from, const void *to, size_t count,
                 int type, void *stream) {
  FAILS(name);
  if (!valid(comm)) return refuse(ARGUMENT, name, "no communicator");
  if (!depth && comm->count) return refuse(USAGE, name, "the communicator is not ready");
  if (type != 1) return refuse(ARGUMENT, name, "bytes are ncclUint8");
  if (!from || !to || !count) return refuse(ARGUMENT, name, "no memory");
  if (!stream) return refuse(ARGUMENT, name, "the default stream");
  if (comm->count + 2 * MOST_RANKS > MOST_TASKS) return refuse(INTERNAL, name, "too many");
  note("%s rank=%d count=%zu type=%d stream=%p\n", name, comm->rank, count, type, stream);
  int code = injected("MOCK_NCCL_ASYNC", name);
  if (code) comm->state = refuse(code, name, "later, as the test wants");
  return code ? PROGRESS : SUCCESS;
}

static void add(Comm *comm, int sends, int peer, int kind, const char *memory, size_t nbytes) {
  comm->tasks[comm->count++] = (Task){sends, peer, kind, (char *)memory, nbytes, 0};
}

int ncclAllGather(const char *from, char *to, size_t count, int type, Comm *comm, void *stream) {
  int code = check("ncclAllGather", comm, from, to, count, type, stream);
  if (code) return code;
  for (int r = 0; r < comm->size; r++) {
    add(comm, 1, r, 1, from, count);
    add(comm, 0, r, 1, to + r * count, count);
  }
  return enqueue(comm);
}

int ncclBroadcast(const char *from, char *to, size_t count, int type, int root, Comm *comm, void *stream) {
  int code = check("ncclBroadcast", comm, from, to, count, type, stream);
  if (code) return code;
  if (root < 0 || root >= comm->size) return refuse(ARGUMENT, "ncclBroadcast", "root");
  for (int r = 0; comm->rank == root && r < comm->size; r++) add(comm, 1, r, 2 + root, from, count);
  add(comm, 0, root, 2 + root, to, count);
  return enqueue(comm);
}

static int message(const char *name, int sends, const char *memory, size_t count, int type, int peer,
                   Comm *comm, void *stream) {
  int code = check(name, comm, memory, memory, count, type, stream);
  if (code) return code;
  if (peer < 0 || peer >= comm->size) return refuse(ARGUMENT, name, "peer");
  add(comm, sends, peer, 50, memory, count);
  return enqueue(comm);
}

int ncclSend(const char *from, size_t count, int type, int peer, Comm *comm, void *stream) {
  return message("ncclSend", 1, from, count, type, peer, comm, stream);
}

int ncclRecv(char *to, size_t count, int type, int peer, Comm *comm, void *stream) {
  return message("ncclRecv", 0, to, count, type, peer, comm, stream);
}

static int end(Comm *comm, const char *name) {
  if (!valid(comm)) return refuse(ARGUMENT, name, "no communicator");
  note("%s rank=%d\n", name, comm->rank);
  comm->magic = 0;
  munmap(comm->area, sizeof(Area));
  if (comm->rank == 0) unlink(comm->path);
  free(comm);
  return SUCCESS;
}

int ncclCommFinalize(Comm *comm) {
  if (!valid(comm)) return refuse(ARGUMENT, "ncclCommFinalize", "no communicator");
  note("ncclCommFinalize rank=%d\n", comm->rank);
  return SUCCESS;
}
int ncclCommDestroy(Comm *comm) { return end(comm, "ncclCommDestroy"); }
int ncclCommAbort(Comm *comm) { return end(comm, "ncclCommAbort"); }
