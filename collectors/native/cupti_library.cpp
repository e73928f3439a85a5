#include "cupti_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "driver.h"

namespace cctrace {
namespace cupti {
namespace {

constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12"};

// From a folder with libcudart to one with libcupti: the CUDA 13 wheels and conda, the CUDA 12 wheels, a
// toolkit (lib64 and targets/<arch>/lib).
constexpr const char* kFromCudart[] = {"/", "/../../cuda_cupti/lib/", "/../extras/CUPTI/lib64/",
                                       "/../../../extras/CUPTI/lib64/"};

void* open_mapped(std::string* where) {
  for (const char* name : kNames) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) {
      *where = std::string(name) + " (in use by the program)";
      return handle;
    }
  }
  return nullptr;
}

// Folder of the first libcudart among this process's mappings; empty if there is none (or it is linked
// statically).
std::string cudart_folder() {
  std::string folder;
  FILE* maps = fopen("/proc/self/maps", "re");
  if (!maps) return folder;
  char* line = nullptr;
  size_t size = 0;
  while (folder.empty() && getline(&line, &size, maps) > 0) {
    const char* path = strchr(line, '/');
    const char* file = path ? strrchr(path, '/') : nullptr;
    if (file && !strncmp(file, "/libcudart.so", strlen("/libcudart.so"))) folder.assign(path, file);
  }
  free(line);
  fclose(maps);
  return folder;
}

void* open_beside_cudart(std::string* where) {
  const std::string folder = cudart_folder();
  if (folder.empty()) return nullptr;
  for (const char* name : kNames) {
    for (const char* way : kFromCudart) {
      *where = folder + way + name;
      if (void* handle = dlopen(where->c_str(), RTLD_NOW)) return handle;
    }
  }
  return nullptr;
}

void* open_any(std::string* where) {
  if (void* handle = open_mapped(where)) return handle;
  if (void* handle = open_beside_cudart(where)) return handle;
  if (const char* path = config().libcupti) {
    *where = path;
    if (void* handle = dlopen(path, RTLD_NOW)) return handle;
  }
  for (const char* name : kNames) {
    *where = name;
    if (void* handle = dlopen(name, RTLD_NOW)) return handle;
  }
  *where = "no libcupti found (CCTRACE_LIBCUPTI can name one)";
  return nullptr;
}

}  // namespace

bool load(Functions* functions, std::string* where) {
  void* handle = open_any(where);
  if (!handle) return false;
#define CCTRACE_RESOLVE(f) functions->f = reinterpret_cast<decltype(&::f)>(driver::real_dlsym(handle, #f));
  CCTRACE_CUPTI_REQUIRED(CCTRACE_RESOLVE)
  CCTRACE_CUPTI_OPTIONAL(CCTRACE_RESOLVE)
#undef CCTRACE_RESOLVE
#define CCTRACE_CHECK(f)     \
  if (!functions->f) {       \
    *where += " has no " #f; \
    return false;            \
  }
  CCTRACE_CUPTI_REQUIRED(CCTRACE_CHECK)
#undef CCTRACE_CHECK
  return true;
}

const char* result_text(const Functions& functions, CUptiResult result) {
  const char* text = nullptr;
  if (functions.cuptiGetResultString) functions.cuptiGetResultString(result, &text);
  return text ? text : "unknown error";
}

}  // namespace cupti
}  // namespace cctrace
