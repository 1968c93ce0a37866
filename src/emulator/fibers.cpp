/* Runs each CUDA thread as a fiber, synchronises the lanes of a warp, and runs launches block after
   block. Supports x86-64 and AArch64. */
#include "emulator/core.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

dim3 emulator_thread, emulator_block, emulator_block_size, emulator_grid_size;

extern "C" void emulator_switch(void **from, void *to);
#if defined(__x86_64__)
asm(".text\n.globl emulator_switch\nemulator_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
#elif defined(__aarch64__)
asm(".text\n.globl emulator_switch\nemulator_switch:\n"
    "sub sp, sp, #160\nstp x30, x19, [sp]\nstp x20, x21, [sp, #16]\nstp x22, x23, [sp, #32]\n"
    "stp x24, x25, [sp, #48]\nstp x26, x27, [sp, #64]\nstp x28, x29, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"
    "stp d14, d15, [sp, #144]\nmov x2, sp\nstr x2, [x0]\nmov sp, x1\n"
    "ldp x30, x19, [sp]\nldp x20, x21, [sp, #16]\nldp x22, x23, [sp, #32]\n"
    "ldp x24, x25, [sp, #48]\nldp x26, x27, [sp, #64]\nldp x28, x29, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\n"
    "ldp d14, d15, [sp, #144]\nadd sp, sp, #160\nret\n");
#else
#error "the emulator switches stacks on x86-64 and AArch64 alone"
#endif

namespace emulated {

const AtOnce *at_once;
Lane *lane;
const Lane *meets;
bool failed;

static Lane lanes[MOST_THREADS]; /* the lanes of the running block */
static int threads_of_block;
static void *scheduler_sp;
static const Call *call; /* the running launch */
static int barrier_value;
static bool has_bounds; /* true if the running kernel has __launch_bounds__ */
static cudaError_t last_error;

__attribute__((noinline)) void leave(State state, uintptr_t pc) {
  Lane *me = lane;
  me->state = state;
  me->pc = pc;
  emulator_switch(&me->sp, scheduler_sp);
}

[[noreturn]] static void end() {
  for (;;) leave(State::ENDED, 0);
}

static sigjmp_buf back; /* stop() jumps back to emulator_call */
static uintptr_t host_stack;
static cudaStream_t the_stream; /* the only stream in which an emulator_call may launch */

[[noreturn]] void stop() {
  failed = true;
  if (!lane && !host_is_fenced) abort();
  if (!lane) siglongjmp(back, 1);
  end();
}

static void run_fiber() {
  void *arguments = __builtin_alloca_with_align(call->bytes, 512);
  memcpy(arguments, call->arguments, call->bytes);
  call->function(arguments);
  end();
}

void start_lane(Lane *l, unsigned thread, Block *block, unsigned char *stack, size_t stack_bytes) {
  *l = {};
  l->thread = (uint16_t)thread;
  l->block = block;
  l->stack = stack;
  l->index = call->block.at(thread);
  l->clock[thread % WARP] = 1;
  /* Stacks start at different offsets in their pages, because cache lines at the same offset would
     share a few sets of the cache. */
  void **top = (void **)(stack + stack_bytes - 64 - thread % 16 * 192);
  top = (void **)((uintptr_t)top & ~(uintptr_t)15);
#if defined(__x86_64__)
  *--top = nullptr; /* run_fiber's return address, which is never used */
  *--top = (void *)run_fiber;
  top -= 6; /* room for the registers that emulator_switch pops */
#else
  top -= 20;
  top[0] = (void *)run_fiber;
#endif
  l->sp = top;
}

static void enter(Lane *l) {
  lane = l;
  emulator_thread = l->index;
  if (at_once) emulator_block.x = l->block->number;
  emulator_switch(&scheduler_sp, l->sp);
  lane = nullptr;
}

static bool meets_with(const Lane &a, const Lane &b) {
  return b.state == State::MEETS && b.mask == a.mask && b.combine == a.combine;
}

/* Completes each emulator_meet for which every lane of the mask waits or has ended. */
static void meet(Lane *first, int count) {
  for (int i = 0; i < count; i++) {
    Lane *l = &first[i];
    if (l->state != State::MEETS) continue;
    unsigned there = 0;
    bool all = true;
    void *mine[WARP] = {};
    for (int k = 0; k < count && all; k++) {
      if (!(l->mask >> k & 1) || first[k].state == State::ENDED) continue;
      all = meets_with(*l, first[k]);
      there |= 1u << k;
      mine[k] = first[k].mine;
    }
    if (!all) continue;
    meets = l;
    if (l->combine) l->combine(mine, there);
    if (l->orders && watched) watch_meeting(first, there);
    for (int k = 0; k < count; k++)
      if (there >> k & 1) first[k].state = State::READY;
  }
}

bool run_warp(Lane *first, int count, uint32_t most) {
  for (bool ran = false;; ran = true) {
    bool again = false;
    for (int k = 0; k < count && !failed && most > 0; k++) {
      Lane *l = &first[k];
      if (l->state != State::READY && l->state != State::FULL) continue;
      enter(l);
      again = true;
      most--;
    }
    if (watched) count_requests(first, count);
    if (failed || !again) return ran;
    meet(first, count);
  }
}

static int count_in(State state) {
  return (int)std::count_if(lanes, lanes + threads_of_block,
                            [=](const Lane &l) { return l.state == state; });
}

static const Lane *first_in(State state) {
  return std::find_if(lanes, lanes + threads_of_block,
                      [=](const Lane &l) { return l.state == state; });
}

/* Returns what a lane does that another lane waits for. %B stands for its place. */
static const char *instead(const Lane &l) {
  if (l.state == State::MEETS) return "waits at another place or with another mask, %B";
  return l.state == State::BARRIER ? "waits at __syncthreads, %B" : "has returned";
}

/* Reports why the emulator_meet for which lane l waits cannot complete. */
static void report_meeting(const Lane *l) {
  const int first = l->thread / WARP * WARP;
  for (int i = first; i < std::min(first + WARP, threads_of_block); i++) {
    const Lane &other = lanes[i];
    if (!(l->mask >> (i - first) & 1) || meets_with(*l, other)) continue;
    find_wrong("meeting",
               "%A: " + who(l->block->number, l->thread) +
                   printed(" waits for the lanes of mask 0x%08x, and thread %d ", l->mask, i) +
                   instead(other),
               l->pc, other.pc);
    return;
  }
}

/* Returns a place as addr2line's places are shown: from kernels/ on. */
static const char *short_of(const char *place) {
  const char *kernels = strstr(place, "kernels/");
  return kernels ? kernels : place;
}

/* Called when no lane can continue. Opens the barrier, and reports lanes that cannot reach it. */
static void pass_barrier() {
  const Lane *at = first_in(State::BARRIER), *ended = first_in(State::ENDED),
             *waits = first_in(State::MEETS), *end = lanes + threads_of_block;
  if (waits != end) {
    report_meeting(waits);
    failed = true;
    return;
  }
  const std::string in = printed("%%A: in block %u, ", at->block->number);
  if (ended != end)
    find_wrong("barrier",
               in + printed("%d threads wait at __syncthreads, and %d have returned without it, "
                            "the first is thread %u",
                            count_in(State::BARRIER), count_in(State::ENDED), ended->thread),
               at->pc);
  barrier_value = 0;
  for (int i = 0; i < threads_of_block; i++) {
    Lane &l = lanes[i];
    if (l.state != State::BARRIER) continue;
    if (strcmp(l.place, at->place) != 0)
      find_wrong("barriers",
                 printed("%s: in block %u, thread %u waits at this __syncthreads, and thread %d at "
                         "that of %s",
                         short_of(at->place), at->block->number, at->thread, i, short_of(l.place)),
                 at->pc, l.pc);
    barrier_value += l.value;
    l.state = State::READY;
    memset(l.clock, 0, sizeof l.clock);
    l.clock[i % WARP] = 1;
  }
  counts.barriers++;
  watch_barrier();
}

/* An asynchronous copy that emulator_await_copies has not yet completed. */
struct Copy {
  void *to;
  size_t size;
  unsigned char value[16];
  uintptr_t pc;
  int group;
};
static std::map<const Lane *, std::deque<Copy>> copies;
constexpr size_t PAGE = 4096;
static unsigned char *stacks; /* stacks of a block's lanes; the first page of each is protected */

bool is_stack(uintptr_t address) {
  return stacks && address - (uintptr_t)stacks < MOST_THREADS * STACK;
}

static void run_block(unsigned number) {
  Block block = {number, emulator_dynamic_shared};
  emulator_block = call->grid.at(number);
  watch_block(number);
  new_shared_memory(emulator_dynamic_shared, call->shared);
  copies.clear();
  for (int i = 0; i < threads_of_block; i++)
    start_lane(&lanes[i], (unsigned)i, &block, stacks + (size_t)i * STACK, STACK);
  while (!failed && count_in(State::ENDED) < threads_of_block) {
    bool ran = false;
    for (int first = 0; first < threads_of_block && !failed; first += WARP)
      ran |= run_warp(&lanes[first], std::min(WARP, threads_of_block - first), UINT32_MAX);
    if (!ran && !failed) pass_barrier();
  }
}

static bool run_blocks(const Call &of) {
  if (!stacks) {
    stacks = reserve(MOST_THREADS * STACK);
    for (int i = 0; i < MOST_THREADS; i++) mprotect(stacks + (size_t)i * STACK, PAGE, PROT_NONE);
  }
  threads_of_block = (int)of.block.count();
  has_bounds = false;
  watch_launch();
  const unsigned blocks = (unsigned)of.grid.count();
  for (unsigned i = only_last_block ? blocks - 1 : 0; i < blocks && !failed; i++) run_block(i);
  if (watched) keep_launch();
  if (!has_bounds) counts.threads = std::max(counts.threads, of.block.count());
  return !failed;
}

} // namespace emulated

alignas(128) unsigned char emulator_dynamic_shared[emulated::MOST_SHARED];

using namespace emulated;

static constexpr size_t STATIC_SHARED = 48 << 10;
static size_t most_shared = MOST_SHARED;
static std::map<const void *, size_t> allowed; /* bytes of dynamic shared memory for each kernel */

static void in_kernel(const char *what, uintptr_t pc) {
  if (lane) return;
  find_wrong("host", std::string("%A: ") + what + " in code of the host", pc);
  stop();
}

void emulator_meet(unsigned mask, void *mine, void (*combine)(void **, unsigned), bool orders) {
  in_kernel("lanes of a warp meet", PC);
  Lane *me = lane;
  if (!(mask >> me->thread % WARP & 1))
    stop_at("mask",
            printed(" is lane %d, which is not in its mask 0x%08x", me->thread % WARP, mask), PC);
  me->mask = mask, me->mine = mine, me->combine = combine, me->orders = orders;
  leave(State::MEETS, PC);
}

void emulator_absent(int from, unsigned mask) {
  find_wrong(
      "absent",
      "%A: " + me() +
          printed(" gets the value of lane %d, which is not there (there are 0x%08x)", from, mask),
      meets->pc);
}

int emulator_barrier(int value, const char *place) {
  in_kernel("__syncthreads() stands", PC);
  lane->value = value, lane->place = place;
  if (at_once) {
    at_once->arrive(0, (int)call->block.x, true);
    return 0;
  }
  leave(State::BARRIER, PC);
  return barrier_value;
}

unsigned emulator_active() {
  in_kernel("lanes of a warp meet", PC);
  const int first = lane->thread / WARP * WARP;
  unsigned active = 0;
  for (int i = first; i < std::min(first + WARP, threads_of_block); i++)
    if (lanes[i].state == State::READY) active |= 1u << (i - first);
  return active;
}

unsigned char *emulator_dynamic() {
  return lane->block->shared;
}

/* Reads `from` now, but emulator_await_copies writes `to`. So a read of `to` before that call gets
   the old value. */
void emulator_copy(void *to, const void *from, int bytes, int size) {
  Copy copy = {to, (size_t)size, {}, PC, lane->groups};
  if (bytes > 0) emulator_access(from, (size_t)bytes, false, (void *)PC);
  memcpy(copy.value, from, (size_t)std::clamp(bytes, 0, 16));
  copies[lane].push_back(copy);
}

void emulator_close_copies() {
  lane->groups++;
}

void emulator_await_copies(int groups) {
  auto &mine = copies[lane];
  for (; !mine.empty() && mine.front().group + groups < lane->groups; mine.pop_front()) {
    const Copy copy = mine.front();
    emulator_access(copy.to, copy.size, true, (void *)copy.pc);
    memcpy(copy.to, copy.value, copy.size);
  }
}

void emulator_bounds(unsigned threads, unsigned, unsigned) {
  has_bounds = true;
  if (emulator_block_size.count() <= threads) return;
  find_wrong(
      "launch",
      printed("%%A: the launch has %llu threads in a block, and __launch_bounds__ of the kernel "
              "allows %u",
              (unsigned long long)emulator_block_size.count(), threads),
      call->pc);
  stop();
}

void emulator_unordered() {
  if (!host_is_fenced) return;
  find_wrong(
      "atomic",
      "%A: " + me() +
          " adds or compares floats atomically, so their order, and with it the bits, differs "
          "from run to run",
      PC);
}

uint64_t emulator_clock() {
  static uint64_t ticks;
  return ++ticks;
}

[[noreturn]] void emulator_trap() {
  stop_at("trap", " calls __trap()", PC);
}

cudaError_t emulator_allow(const void *kernel, size_t bytes) {
  if (bytes > most_shared) return last_error = cudaErrorInvalidValue;
  allowed[kernel] = std::max(allowed[kernel], bytes);
  return cudaSuccess;
}

/* Returns the reason why a GPU would refuse the launch, or "". */
static std::string refusal(const Call &of, const void *kernel) {
  const dim3 g = of.grid, b = of.block;
  if (g.count() == 0) return printed("a grid of %u x %u x %u has no blocks", g.x, g.y, g.z);
  if (b.count() == 0) return printed("a block of %u x %u x %u has no threads", b.x, b.y, b.z);
  if (b.count() > MOST_THREADS || b.z > 64)
    return printed("a block has %u x %u x %u threads, and may have %d, 64 of them in z", b.x, b.y,
                   b.z, MOST_THREADS);
  if (g.x > INT32_MAX || g.y > 65535 || g.z > 65535)
    return printed("a grid has %u x %u x %u blocks, and may have 2147483647 x 65535 x 65535", g.x,
                   g.y, g.z);
  const auto found = allowed.find(kernel);
  const size_t most =
      found == allowed.end() ? STATIC_SHARED : std::max(found->second, STATIC_SHARED);
  if (const size_t fixed = kernel ? static_shared_of(kernel) : 0; fixed > STATIC_SHARED)
    return printed("the kernel has %zu bytes of __shared__ variables, and may have %zu; more is "
                   "dynamic shared memory",
                   fixed, STATIC_SHARED);
  if (kernel && of.shared > most)
    return printed(
        "a block asks for %zu bytes of dynamic shared memory, and may have %zu; more, up to "
        "%zu, needs cudaFuncSetAttribute()",
        of.shared, most, most_shared);
  return of.shared > most_shared ? "a block asks for too much shared memory" : "";
}

static void (*after_launch)(const char *kernel);

void emulator_after_launch(void (*ended)(const char *kernel)) {
  after_launch = ended;
}

cudaError_t emulator_run(dim3 grid, dim3 block, size_t shared, void (*function)(void *),
                         const void *arguments, size_t bytes, const void *kernel,
                         cudaStream_t stream) {
  const Call of = {grid, block, shared, function, arguments, bytes, PC};
  start_memory();
  if (lane) stop_at("launch", " launches a kernel, which the emulator does not know", PC);
  if (const std::string why = refusal(of, kernel); !why.empty()) {
    find_wrong("launch", "%A: " + why, PC);
    return last_error = cudaErrorInvalidConfiguration;
  }
  if (host_is_fenced && stream != the_stream)
    find_wrong("stream",
               "%A: the launch is not in the stream that the function gets, so work of other "
               "streams may come before or after it; pass `stream` as fourth in <<<...>>>",
               PC);
  call = &of;
  emulator_grid_size = of.grid, emulator_block_size = of.block;
  failed = false;
  const bool good = at_once ? at_once->run(of) : run_blocks(of);
  meets = nullptr;
  if (after_launch) after_launch(name_of_kernel(kernel).c_str());
  if (!good && !at_once) last_error = cudaErrorLaunchFailure;
  return good ? cudaSuccess : cudaErrorLaunchFailure;
}

extern "C" cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

extern "C" cudaError_t cudaPeekAtLastError(void) {
  return last_error;
}

/* Turns a signal in a lane or in host code into a finding. */
static void crashed(int number, siginfo_t *info, void *context) {
  if (number == SIGXCPU) return end_at_next_step();
  const mcontext_t &m = ((ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
  const uintptr_t pc = (uintptr_t)m.gregs[REG_RIP] + 1;
#else
  const uintptr_t pc = m.pc + 1;
#endif
  const bool is_full = lane && (uintptr_t)info->si_addr - (uintptr_t)lane->stack < PAGE;
  std::string text = printed(" is ended by %s", number == SIGFPE ? "SIGFPE" : "SIGSEGV");
  if (number == SIGILL)
    text =
        " uses a null pointer or an index outside of a local array"; /* -fsanitize=local-bounds */
  if (is_full)
    text = printed(" has more local variables than the %zu KB that a thread may have", STACK >> 10);
  stop_at("crash", text, pc);
}

bool emulated::host_is_fenced;
const char *emulated::prints_on = "";

bool emulated::is_host_stack(uintptr_t address) {
  char here;
  return address >= (uintptr_t)&here && address < host_stack;
}

extern "C" void emulator_start(const char *students) {
  static unsigned char own[64 << 10];
  const stack_t stack = {.ss_sp = own, .ss_flags = 0, .ss_size = sizeof own};
  struct sigaction action = {};
  start_memory(students);
  action.sa_sigaction = crashed;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaltstack(&stack, nullptr);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGXCPU})
    sigaction(number, &action, nullptr);
}

extern "C" void emulator_shared(size_t bytes) {
  most_shared = std::min(bytes, MOST_SHARED);
}

extern "C" void emulator_print(const char *heading) {
  prints_on = heading;
}

extern "C" void emulator_call(void (*function)(void *), void *context, cudaStream_t stream) {
  the_stream = stream;
  host_stack = (uintptr_t)__builtin_frame_address(0);
  host_is_fenced = true;
  if (sigsetjmp(back, 0) == 0) function(context);
  host_is_fenced = false;
  lane = nullptr;
}
