// The doors through which libraries reach the driver: dlsym, and cuGetProcAddress in both its versions. (The
// third, the symbols themselves, is at the end of interposer.cpp.)
#include <cuda.h>
#include <dlfcn.h>
#include <string.h>

#include "config.h"
#include "driver.h"
#include "interposer.h"
#include "nccl.h"

namespace cctrace {
namespace {

using LookV1 = CUresult (*)(const char*, void**, int, cuuint64_t);
using LookV2 = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

// First version of cuGetProcAddress that has the fifth argument.
constexpr int kFiveArguments = 12000;

CUresult look_v1(const char* name, void** out, int version, cuuint64_t flags);
CUresult look_v2(const char* name, void** out, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status);

void wrap(const char* name, void** out, int version, cuuint64_t flags) {
  if (!name || !out || !*out) return;
  if (!strcmp(name, "cuGetProcAddress")) {
    *out = version >= kFiveArguments ? reinterpret_cast<void*>(look_v2) : reinterpret_cast<void*>(look_v1);
  } else if (!strcmp(name, "cuGetProcAddress_v2")) {
    *out = reinterpret_cast<void*>(look_v2);
  } else {
    *out = interposer::wrap_name(name, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0,
                                 *out);
  }
}

CUresult look_v1(const char* name, void** out, int version, cuuint64_t flags) {
  static const auto real = driver::function<LookV1>("cuGetProcAddress");
  if (!real) return CUDA_ERROR_NOT_FOUND;
  const CUresult result = real(name, out, version, flags);
  if (result == CUDA_SUCCESS && config().spool) wrap(name, out, version, flags);
  return result;
}

CUresult look_v2(const char* name, void** out, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  static const auto real = driver::function<LookV2>("cuGetProcAddress_v2");
  if (!real) return CUDA_ERROR_NOT_FOUND;
  const CUresult result = real(name, out, version, flags, status);
  if (result == CUDA_SUCCESS && config().spool) wrap(name, out, version, flags);
  return result;
}

}  // namespace
}  // namespace cctrace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// cuda.h maps the plain name to the newer one.
#undef cuGetProcAddress
EXPORTED CUresult cuGetProcAddress(const char* name, void** out, int version, cuuint64_t flags) {
  return cctrace::look_v1(name, out, version, flags);
}
EXPORTED CUresult cuGetProcAddress_v2(const char* name, void** out, int version, cuuint64_t flags,
                                      CUdriverProcAddressQueryResult* status) {
  return cctrace::look_v2(name, out, version, flags, status);
}

// What dlsym answers for NCCL's names. The next definition after the caller only the C library can find.
static void* find_nccl(void* handle, const char* name) {
  using namespace cctrace;
  if (handle == RTLD_NEXT) return nullptr;
  void* real = driver::real_dlsym(handle, name);
  return real ? nccl::wrap(name, real) : nullptr;
}

// What dlsym answers for the driver's names and NCCL's; null: not ours, the C library answers. Called from
// the assembly below.
extern "C" __attribute__((visibility("hidden"), used)) void* cctrace_dlsym(void* handle, const char* name) {
  using namespace cctrace;
  if (!name || !config().spool) return nullptr;
  if (!strncmp(name, "nccl", 4)) return find_nccl(handle, name);
  if (name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z') return nullptr;
  void* real = driver::real_dlsym(handle, name);
  if (!real) return nullptr;
  if (!strcmp(name, "cuGetProcAddress")) return reinterpret_cast<void*>(look_v1);
  if (!strcmp(name, "cuGetProcAddress_v2")) return reinterpret_cast<void*>(look_v2);
  void* wrapped = interposer::wrap_symbol(name, real);
  return wrapped == real ? nullptr : wrapped;
}

// A tail jump keeps the caller's return address, by which the C library decides what RTLD_NEXT and
// RTLD_DEFAULT mean.
asm(".text\n"
    ".globl dlsym\n"
    ".type dlsym,@function\n"
    "dlsym:\n"
    " endbr64\n"
    " push %rdi\n"
    " push %rsi\n"
    " sub $8, %rsp\n"
    " call cctrace_dlsym\n"
    " add $8, %rsp\n"
    " pop %rsi\n"
    " pop %rdi\n"
    " test %rax, %rax\n"
    " jne 1f\n"
    " mov cctrace_real_dlsym(%rip), %rax\n"
    " test %rax, %rax\n"
    " je 2f\n"
    " jmp *%rax\n"
    "2:\n"
    " push %rdi\n"
    " push %rsi\n"
    " sub $8, %rsp\n"
    " call cctrace_find_dlsym\n"
    " add $8, %rsp\n"
    " pop %rsi\n"
    " pop %rdi\n"
    " jmp *%rax\n"
    "1:\n"
    " ret\n"
    ".size dlsym, .-dlsym\n");
