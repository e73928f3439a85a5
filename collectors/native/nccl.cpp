#include "nccl.h"

#include <dlfcn.h>
#include <string.h>

#include <atomic>
#include <mutex>

#include "driver.h"
#include "nccl_around.h"
#include "shared.h"

namespace cctrace {
namespace nccl {
namespace {

using collectives::Kind;

// Libraries in one process that have NCCL inside: torch's, and that of an engine or an extension.
constexpr int kMaxLibraries = 4;

enum Row : int {
#define NCCL(symbol, role, kind, scale, type) k_##symbol,
#include "nccl_api.def"
#undef NCCL
  kRows
};

Function g_functions[kRows] = {
#define NCCL(symbol, role, kind, scale, type) {#symbol, Role::role, Kind::kind, Scale::scale},
#include "nccl_api.def"
#undef NCCL
};

struct Library {
  const void* base;  // where it is loaded; null: none yet
  CountRanks count_ranks;
};

struct Growth {
  std::mutex mutex;
};

// Guarded while it grows; a wrapper that exists has its library already.
Library g_libraries[kMaxLibraries];

template <int kRow, int kLibrary, class F>
struct Hook;

template <int kRow, int kLibrary, class... A>
struct Hook<kRow, kLibrary, Result (*)(A...)> {
  static std::atomic<void*> real;

  static Result call(A... arguments) {
    const auto function = reinterpret_cast<Result (*)(A...)>(real.load(std::memory_order_relaxed));
    Arguments said;
    (read(said, arguments), ...);
    Around around(g_functions[kRow], kRow, g_libraries[kLibrary].count_ranks, said);
    const Result result = function(arguments...);
    around.finish(result);
    return result;
  }
};
template <int kRow, int kLibrary, class... A>
std::atomic<void*> Hook<kRow, kLibrary, Result (*)(A...)>::real{nullptr};

struct Wrapper {
  void* call;
  std::atomic<void*>* real;
};

template <int kRow, int kLibrary, class F>
Wrapper wrapper() {
  using Hooked = Hook<kRow, kLibrary, F>;
  return {reinterpret_cast<void*>(&Hooked::call), &Hooked::real};
}

const Wrapper kWrappers[kRows][kMaxLibraries] = {
#define NCCL(symbol, role, kind, scale, type)                                                      \
  {wrapper<k_##symbol, 0, type>(), wrapper<k_##symbol, 1, type>(), wrapper<k_##symbol, 2, type>(), \
   wrapper<k_##symbol, 3, type>()},
#include "nccl_api.def"
#undef NCCL
};

int row_of(const char* symbol) {
  for (int row = 0; row < kRows; row++) {
    if (!strcmp(g_functions[row].symbol, symbol)) return row;
  }
  return -1;
}

// ncclCommCount of the same library: another one's would misread the communicator.
CountRanks find_count_ranks(const Dl_info& library) {
  void* handle = dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) handle = dlopen(nullptr, RTLD_LAZY);  // NCCL is inside the program itself
  if (!handle) return nullptr;
  void* found = driver::real_dlsym(handle, "ncclCommCount");
  dlclose(handle);
  Dl_info its;
  if (!found || !dladdr(found, &its) || its.dli_fbase != library.dli_fbase) return nullptr;
  return reinterpret_cast<CountRanks>(found);
}

// Number of the library that holds an address; -1 if it is one too many.
int library_of(void* address) {
  Dl_info info;
  if (!dladdr(address, &info)) return -1;
  for (int i = 0; i < kMaxLibraries; i++) {
    if (g_libraries[i].base == info.dli_fbase) return i;
    if (g_libraries[i].base) continue;
    g_libraries[i] = {info.dli_fbase, find_count_ranks(info)};
    return i;
  }
  return -1;
}

bool is_ours(int row, const void* function) {
  for (const Wrapper& wrapper : kWrappers[row]) {
    if (wrapper.call == function) return true;
  }
  return false;
}

}  // namespace

void* wrap(const char* symbol, void* real) {
  const int row = row_of(symbol);
  if (row < 0 || !real || is_ours(row, real)) return real;
  std::lock_guard<std::mutex> lock(shared<Growth>().mutex);
  const int library = library_of(real);
  if (library < 0) return real;
  const Wrapper& wrapper = kWrappers[row][library];
  void* known = nullptr;
  // A library that took the place of another one, or has the function twice: its second is left alone.
  if (!wrapper.real->compare_exchange_strong(known, real) && known != real) return real;
  return wrapper.call;
}

}  // namespace nccl
}  // namespace cctrace
