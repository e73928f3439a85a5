#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <initializer_list>

extern "C" {
// Where the dlsym door jumps to when a name is not ours; read from assembly.
__attribute__((visibility("hidden"), used)) void* cctrace_real_dlsym = nullptr;
}

namespace cctrace {
namespace driver {
namespace {

using Dlsym = void* (*)(void*, const char*);

// dlvsym is not wrapped by us, so it finds the C library's dlsym behind ours. The versions: since glibc 2.34
// it lives in libc itself; before, in libdl.
void* find_dlsym() {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5"}) {
    if (void* f = dlvsym(RTLD_NEXT, "dlsym", version)) return f;
  }
  static const char message[] =
      "cctrace: the C library's dlsym was not found; unset LD_PRELOAD to run without recording\n";
  if (write(2, message, sizeof message - 1) < 0) abort();
  abort();
}

}  // namespace

// For the dlsym door, should it be used before this library's constructors have run.
extern "C" __attribute__((visibility("hidden"), used)) void* cctrace_find_dlsym() {
  if (!cctrace_real_dlsym) cctrace_real_dlsym = find_dlsym();
  return cctrace_real_dlsym;
}

void* real_dlsym(void* handle, const char* name) {
  return reinterpret_cast<Dlsym>(cctrace_find_dlsym())(handle, name);
}

void* symbol(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library ? real_dlsym(library, name) : nullptr;
}

}  // namespace driver
}  // namespace cctrace
