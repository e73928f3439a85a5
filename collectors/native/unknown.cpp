#include "unknown.h"

#include <string.h>

#include <atomic>
#include <initializer_list>
#include <mutex>

#include "clock.h"
#include "hook.h"
#include "recorder.h"
#include "spool.h"

namespace cctrace {
namespace unknown {
namespace {

// More than the submitting entry points that a driver has gained in the last five years together.
constexpr int kSlots = 64;

struct Slot {
  void* real;
  char name[96];
  std::atomic<uint32_t> string_id;
};

Slot g_slots[kSlots];
std::atomic<int> g_used{0};
std::mutex g_mutex;

bool starts_with(const char* text, const char* prefix) { return !strncmp(text, prefix, strlen(prefix)); }

// By the driver's naming rules. Look-ups of attributes and of nodes' parameters start alike and are no
// submissions.
bool looks_like_submission(const char* name) {
  for (const char* prefix :
       {"cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset", "cuMemPrefetch", "cuMemDiscard", "cuStreamWait",
        "cuStreamWrite", "cuStreamBatch", "cuEventRecord"}) {
    if (starts_with(name, prefix)) return true;
  }
  const size_t length = strlen(name);
  return starts_with(name, "cuMem") && length > 5 && strstr(name, "Async");
}

}  // namespace

extern "C" {
extern char cctrace_unknown_first[];
extern char cctrace_unknown_second[];

__attribute__((visibility("hidden"), used)) void* cctrace_unknown_call(uint64_t index) {
  Slot& slot = g_slots[index];
  if (!recorder::start() || !recorder::recording()) return slot.real;
  uint32_t id = slot.string_id.load(std::memory_order_relaxed);
  if (!id) slot.string_id.store(id = spool::intern(slot.name), std::memory_order_relaxed);
  Record r{};
  r.kind = Kind::call;
  r.operation = Operation::unknown;
  r.tid = recorder::thread_id();
  r.start_ns = r.end_ns = monotonic_ns();
  r.name = id;
  r.device = current_device();
  recorder::push(r);
  return slot.real;
}
}

void* wrap_if_submission(const char* name, void* real) {
  if (!looks_like_submission(name) || strlen(name) >= sizeof g_slots[0].name) return real;
  std::lock_guard<std::mutex> lock(g_mutex);
  const size_t stride = static_cast<size_t>(cctrace_unknown_second - cctrace_unknown_first);
  const int used = g_used;
  for (int i = 0; i < used; i++) {
    char* jump = cctrace_unknown_first + static_cast<size_t>(i) * stride;
    if (real == jump || g_slots[i].real == real) return jump;
  }
  if (used == kSlots) return real;
  g_slots[used].real = real;
  strcpy(g_slots[used].name, name);
  g_used = used + 1;
  return cctrace_unknown_first + static_cast<size_t>(used) * stride;
}

}  // namespace unknown
}  // namespace cctrace

// One jump per slot: all argument registers are kept, and the stack is as the caller left it, so that any
// signature passes through. The number of slots is kSlots.
asm(".text\n"
    ".balign 16\n"
    ".hidden cctrace_unknown_first\n.globl cctrace_unknown_first\n"
    ".hidden cctrace_unknown_second\n.globl cctrace_unknown_second\n"
    "cctrace_unknown_first:\n"
    ".set index, 0\n"
    ".rept 64\n"
    ".if index == 1\n"
    "cctrace_unknown_second:\n"
    ".endif\n"
    " endbr64\n"
    " pushq $index\n"
    " jmp cctrace_unknown_common\n"
    " .balign 16\n"
    ".set index, index + 1\n"
    ".endr\n"
    "cctrace_unknown_common:\n"
    " push %rdi\n push %rsi\n push %rdx\n push %rcx\n push %r8\n push %r9\n push %rax\n"
    " sub $128, %rsp\n"
    " movups %xmm0, (%rsp)\n movups %xmm1, 16(%rsp)\n movups %xmm2, 32(%rsp)\n movups %xmm3, 48(%rsp)\n"
    " movups %xmm4, 64(%rsp)\n movups %xmm5, 80(%rsp)\n movups %xmm6, 96(%rsp)\n movups %xmm7, 112(%rsp)\n"
    " mov 184(%rsp), %rdi\n"  // the index, above 128 bytes of vectors and seven registers
    " sub $8, %rsp\n"
    " call cctrace_unknown_call\n"
    " add $8, %rsp\n"
    " mov %rax, %r11\n"
    " movups (%rsp), %xmm0\n movups 16(%rsp), %xmm1\n movups 32(%rsp), %xmm2\n movups 48(%rsp), %xmm3\n"
    " movups 64(%rsp), %xmm4\n movups 80(%rsp), %xmm5\n movups 96(%rsp), %xmm6\n movups 112(%rsp), %xmm7\n"
    " add $128, %rsp\n"
    " pop %rax\n pop %r9\n pop %r8\n pop %rcx\n pop %rdx\n pop %rsi\n pop %rdi\n"
    " add $8, %rsp\n"
    " jmp *%r11\n");
