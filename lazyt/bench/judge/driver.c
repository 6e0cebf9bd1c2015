/* Runs a kernel of somebody else: driver LIBRARY IN OUT MEMORY THREADS.

   It obeys lines that come by the descriptor IN and answers each by a line on OUT:

     map N, then N times: offset bytes readonly   maps parts of MEMORY between guard pages
     set CALLS ARRAYS SIZES NUMBERS, then for each call its arrays (part, offset within),
         and once the sizes and the numbers       says what the next calls get
     go                                           makes the calls

   It reads no clock: whoever sent the line takes the time. All that it could be made to say is
   that the calls are over; what they computed is in the memory, where the other process looks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void entry_function(void **arrays, const long *sizes, const double *numbers);

static int out_file;

static void put_number(char **to, unsigned long value)
{
  char digits[24];
  int count = 0;
  do
    digits[count++] = '0' + value % 10;
  while (value /= 10);
  while (count)
    *(*to)++ = digits[--count];
}

/* Only what may be called in a handler. */
static void on_fault(int number, siginfo_t *about, void *context)
{
  char line[80] = "fault ", *to = line + 6;
  (void)context;
  put_number(&to, number);
  *to++ = ' ';
  put_number(&to, (unsigned long)about->si_addr);
  *to++ = '\n';
  if (write(out_file, line, to - line) < 0)
    _exit(4);
  _exit(3);
}

static void answer(const char *text)
{
  dprintf(out_file, "%s\n", text);
}

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#endif

#define DENY(call, code) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code)
#define LOAD(place) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, place))

/* Kernels compute: they need memory and threads, and neither files, nor processes, nor sockets,
   nor a look into other processes. 0 where the system cannot forbid anything. */
static int forbid(void)
{
#ifdef MACHINE
  struct sock_filter rules[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    DENY(__NR_clone3, ENOSYS), /* its arguments cannot be read; libraries then call clone */
#ifdef __NR_fork
    DENY(__NR_fork, EPERM),
    DENY(__NR_vfork, EPERM),
#endif
#ifdef __NR_open
    DENY(__NR_open, EPERM),
    DENY(__NR_creat, EPERM),
    DENY(__NR_unlink, EPERM),
    DENY(__NR_rename, EPERM),
    DENY(__NR_link, EPERM),
    DENY(__NR_symlink, EPERM),
#endif
    DENY(__NR_openat, EPERM),
    DENY(__NR_openat2, EPERM),
    DENY(__NR_open_by_handle_at, EPERM),
    DENY(__NR_unlinkat, EPERM),
    DENY(__NR_renameat2, EPERM),
    DENY(__NR_linkat, EPERM),
    DENY(__NR_symlinkat, EPERM),
    DENY(__NR_memfd_create, EPERM),
    DENY(__NR_execve, EPERM),
    DENY(__NR_execveat, EPERM),
    DENY(__NR_socket, EPERM),
    DENY(__NR_socketpair, EPERM),
    DENY(__NR_ptrace, EPERM),
    DENY(__NR_process_vm_readv, EPERM),
    DENY(__NR_process_vm_writev, EPERM),
    DENY(__NR_pidfd_open, EPERM),
    DENY(__NR_kill, EPERM),
    DENY(__NR_tkill, EPERM),
    DENY(__NR_rt_sigqueueinfo, EPERM),
    DENY(__NR_setsid, EPERM),
    DENY(__NR_setpgid, EPERM),
    DENY(__NR_prctl, EPERM),
    DENY(__NR_setrlimit, EPERM),
    DENY(__NR_shmget, EPERM),
    DENY(__NR_bpf, EPERM),
    DENY(__NR_io_uring_setup, EPERM),
    DENY(__NR_userfaultfd, EPERM),
    DENY(__NR_perf_event_open, EPERM),
    DENY(__NR_personality, EPERM),
    /* clone: threads only */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 4),
    LOAD(args[0]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x00010000, 1, 0), /* CLONE_THREAD */
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    /* signals: to itself only */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_tgkill, 0, 4),
    LOAD(args[0]),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)getpid(), 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
#else
  return 0;
#endif
}

static void drop_root(void)
{
  if (geteuid() == 0 && (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
    _exit(5);
}

struct part {
  char *address;
  long bytes;
};

static struct part *parts;
static long part_count;

static int map_parts(FILE *in, int memory)
{
  long count, page = sysconf(_SC_PAGESIZE);
  for (long n = 0; n < part_count; n++)
    munmap(parts[n].address - page, parts[n].bytes + 2 * page);
  if (fscanf(in, "%ld", &count) != 1 || count < 0)
    return 0;
  parts = realloc(parts, (count + 1) * sizeof *parts);
  part_count = 0;
  for (long n = 0; n < count; n++) {
    long offset, bytes, readonly;
    if (fscanf(in, "%ld %ld %ld", &offset, &bytes, &readonly) != 3)
      return 0;
    char *base = mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
      return 0;
    int access = readonly ? PROT_READ : PROT_READ | PROT_WRITE;
    if (bytes && mmap(base + page, bytes, access, MAP_SHARED | MAP_FIXED | MAP_POPULATE, memory,
                      offset) == MAP_FAILED)
      return 0;
    parts[n] = (struct part){base + page, bytes};
    part_count = n + 1;
  }
  dprintf(out_file, "mapped");
  for (long n = 0; n < count; n++)
    dprintf(out_file, " %lu", (unsigned long)parts[n].address);
  answer("");
  return 1;
}

int main(int count, char **words)
{
  if (count != 5)
    return 2;
  FILE *in = fdopen(atoi(words[2]), "r");
  out_file = atoi(words[3]);
  int memory = atoi(words[4]);
  static char stack[1 << 16];
  stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&other, NULL);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  for (int n = 0; n < 5; n++)
    sigaction(numbers[n], &action, NULL);
  drop_root();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    dprintf(out_file, "error %s\n", dlerror());
    return 1;
  }
  entry_function *entry = (entry_function *)dlsym(library, "lz_judged");
  if (!entry) {
    answer("error the library has no entry");
    return 1;
  }
  answer(forbid() ? "ready guarded" : "ready open");
  void **arrays = NULL;
  long *sizes = NULL;
  double *scalars = NULL;
  long calls = 0, each = 0, size_count, scalar_count;
  char word[16];
  while (fscanf(in, "%15s", word) == 1) {
    if (!strcmp(word, "map")) {
      if (!map_parts(in, memory)) {
        answer("error the memory cannot be mapped");
        return 1;
      }
    } else if (!strcmp(word, "set")) {
      if (fscanf(in, "%ld %ld %ld %ld", &calls, &each, &size_count, &scalar_count) != 4)
        return 1;
      arrays = realloc(arrays, (calls * each + 1) * sizeof *arrays);
      sizes = realloc(sizes, (size_count + 1) * sizeof *sizes);
      scalars = realloc(scalars, (scalar_count + 1) * sizeof *scalars);
      for (long n = 0; n < calls * each; n++) {
        long part, within;
        if (fscanf(in, "%ld %ld", &part, &within) != 2 || part < 0 || part >= part_count)
          return 1;
        arrays[n] = parts[part].address + within;
      }
      for (long n = 0; n < size_count; n++)
        if (fscanf(in, "%ld", sizes + n) != 1)
          return 1;
      for (long n = 0; n < scalar_count; n++)
        if (fscanf(in, "%lf", scalars + n) != 1)
          return 1;
      answer("set");
    } else if (!strcmp(word, "go")) {
      for (long n = 0; n < calls; n++)
        entry(arrays + n * each, sizes, scalars);
      if (write(out_file, "done\n", 5) != 5)
        return 1;
    } else
      return 1;
  }
  return 0;
}
