// Calls every entry point of the collector's table once, with arguments that are all zero, through one of the
// doors:
//   dlsym | dlsym_pt | lookup | lookup_pt | linked | linked_pt      (…_pt: flavours for per-thread default
//   streams)
// Prints "symbol version" for each call it made.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "old_types.h"

#undef cuGetProcAddress

// Addresses as the dynamic linker fills them in, for programs that link with -lcuda. An entry without a
// suffix has the same symbol in both flavours.
#define API(operation, name, version, symbol, suffix, type, shape, flags) \
  extern "C" void linked_##symbol##_##version() __asm__(#symbol);         \
  extern "C" void linked_pt_##symbol##_##version() __asm__(#symbol suffix);
#include "driver_api.def"
#undef API

namespace {

template <class... A>
void call(CUresult(CUDAAPI* function)(A...)) {
  function(A{}...);
}

using Look = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

void* g_driver = nullptr;
Look g_look = nullptr;

void* look_up(const char* name, int version, cuuint64_t flags) {
  void* function = nullptr;
  g_look(name, &function, version, flags, nullptr);
  return function;
}

void* address(void (*function)()) { return reinterpret_cast<void*>(function); }

template <class F>
void run(const char* symbol, int version, void* address) {
  if (!address) {
    printf("missing %s %d\n", symbol, version);
    return;
  }
  call(reinterpret_cast<F>(address));
  printf("%s %d\n", symbol, version);
}

}  // namespace

int main(int argc, char** argv) {
  const char* door = argc > 1 ? argv[1] : "";
  const bool per_thread = strstr(door, "_pt") != nullptr;
  g_driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!g_driver) return 2;
  // As libcudart begins: dlsym for the look-up function, and everything else from that.
  g_look = reinterpret_cast<Look>(dlsym(g_driver, "cuGetProcAddress_v2"));
  reinterpret_cast<CUresult (*)(unsigned)>(look_up("cuInit", 2000, 0))(0);
  const auto is = [door](const char* what) { return !strncmp(door, what, strlen(what)); };

#define API(operation, name, version, symbol, suffix, type, shape, flags)                                 \
  if (!per_thread || *suffix) {                                                                           \
    if (is("dlsym")) run<type>(#symbol, version, dlsym(g_driver, per_thread ? #symbol suffix : #symbol)); \
    if (is("lookup")) {                                                                                   \
      run<type>(#symbol, version,                                                                         \
                look_up(#name, version, per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0)); \
    }                                                                                                     \
    if (is("linked")) {                                                                                   \
      run<type>(#symbol, version,                                                                         \
                address(per_thread ? linked_pt_##symbol##_##version : linked_##symbol##_##version));      \
    }                                                                                                     \
  }
#include "driver_api.def"
#undef API

  // An interposed dlsym still finds what follows the caller, and what is global.
  if (!dlsym(RTLD_NEXT, "malloc") || !dlsym(RTLD_DEFAULT, "malloc")) return 3;
  return 0;
}
