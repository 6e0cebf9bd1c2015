/* A driver library for the real bindings of CUDA: memory is the host's, kernels do nothing. It shows
   that every call passes the bindings with the types they want, and what the calls cost the host. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static long launches, graphs, changes, copies, allocations;
static void *give(void) { return calloc(1, 64); }

static int fine(void) { return 0; }
static int count(int *out) { *out = 2; return 0; }
static int device_get(int *out, int number) { *out = number; return 0; }
static int object(void **out) { *out = give(); return 0; }
static int name_of(char *out, int length, int device) { strncpy(out, "Null GPU", length); return 0; }
static int total(size_t *out, int device) { *out = (size_t)1 << 34; return 0; }
static int attribute(int *out, int which, int device) {
  *out = which == 75 ? 9 : which == 10 ? 32 : which == 39 ? 2048 : which == 82 ? 65536
       : which == 81 ? 228 << 10 : which == 8 ? 48 << 10 : which == 97 ? 227 << 10 : 0;
  return 0;
}
static int text_of(int code, const char **out) { *out = "an error"; return 0; }
static int allocate(uint64_t *out, size_t size, void *stream) {
  allocations++;
  *out = (uint64_t)aligned_alloc(512, (size + 511) / 512 * 512);
  return *out ? 0 : 2;
}
static int release(uint64_t pointer, void *stream) { free((void *)pointer); return 0; }
static int info(size_t *out, size_t *all) { *out = *all = (size_t)1 << 34; return 0; }
static int pin(void **out, size_t size, unsigned flags) { *out = malloc(size); return 0; }
static int unpin(void *pointer) { free(pointer); return 0; }
static int copy(void *to, const void *from, size_t size, void *stream) {
  copies++;
  memmove(to, from, size);
  return 0;
}
static int across(void *to, void *there, void *from, void *here, size_t size, void *stream) {
  return there == here || !there ? 1 : copy(to, from, size, stream);
}
static int elapsed(float *out, void *start, void *end) { *out = 0.25f; return 0; }
static int reach(int *out, int device, int peer) { *out = 1; return 0; }
static int access_(uint64_t pool, const int *what, size_t number) {
  return number == 1 && what[0] == 1 && what[2] == 3 ? 0 : 1; /* a device, to read and write */
}
static int threshold(void *pool, int what, uint64_t *value) {
  return what == 4 && *value == UINT64_MAX ? 0 : 1;
}
static int launch(void *f, unsigned x, unsigned y, unsigned z, unsigned u, unsigned v, unsigned w,
                  unsigned shared, void *stream, void **parameters, void **extra) {
  launches++;
  return f && x && u && y == 1 && parameters && parameters[0] && !extra ? 0 : 1;
}
typedef struct { void *function; unsigned grid[3], block[3], shared; void **parameters, **extra; } Node;
static int add(void **out, void *graph, void **before, size_t number, const Node *node) {
  *out = give();
  return node->function && node->grid[0] && node->block[0] && *(void **)node->parameters ? 0 : 1;
}
static int change(void *graph, void *node, const Node *settings) {
  changes++;
  return node && settings->function && settings->parameters ? 0 : 1;
}
static int launch_graph(void *graph, void *stream) { graphs++; return graph && stream ? 0 : 1; }

/* Counted for the tests. */
long null_launches(void) { return launches; }
long null_graphs(void) { return graphs; }
long null_copies(void) { return copies; }
long null_allocations(void) { return allocations; }
long null_changes(void) { return changes; }

static const struct { const char *name; void *function; } known[] = {
  {"cuDeviceGetCount", count}, {"cuDeviceGet", device_get}, {"cuDevicePrimaryCtxRetain", object},
  {"cuDeviceGetName", name_of}, {"cuDeviceTotalMem", total}, {"cuDeviceGetAttribute", attribute},
  {"cuGetErrorString", text_of}, {"cuModuleLoadData", object}, {"cuModuleGetFunction", object},
  {"cuMemAllocAsync", allocate}, {"cuMemFreeAsync", release}, {"cuMemGetInfo", info},
  {"cuMemHostAlloc", pin}, {"cuMemFreeHost", unpin}, {"cuMemcpyHtoDAsync", copy},
  {"cuMemcpyDtoHAsync", copy}, {"cuMemcpyDtoDAsync", copy}, {"cuMemcpyPeerAsync", across},
  {"cuStreamCreate", object}, {"cuStreamCreateWithPriority", object}, {"cuEventCreate", object},
  {"cuEventElapsedTime", elapsed}, {"cuDeviceCanAccessPeer", reach},
  {"cuMemPoolSetAccess", access_}, {"cuMemPoolSetAttribute", threshold},
  {"cuDeviceGetDefaultMemPool", object}, {"cuLaunchKernel", launch}, {"cuGraphCreate", object},
  {"cuGraphAddKernelNode", add}, {"cuGraphInstantiate", object}, {"cuGraphInstantiateWithFlags", object},
  {"cuGraphExecKernelNodeSetParams", change}, {"cuGraphLaunch", launch_graph},
};

int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status) {
  if (status) *status = 0;
  *out = (void *)fine;
  if (!strcmp(name, "cuGetProcAddress")) *out = (void *)cuGetProcAddress_v2;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(name, known[i].name)) *out = known[i].function;
  return 0;
}
int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, out, version, flags, 0);
}
