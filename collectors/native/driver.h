// The real driver, past our own doors.
#pragma once

namespace cctrace {
namespace driver {

// Address of a libcuda symbol; null if the library is not loaded or lacks it. Never our own wrapper.
void* symbol(const char* name);

// The C library's own dlsym: (handle, name) with our wrapper out of the way.
void* real_dlsym(void* handle, const char* name);

template <class F>
F function(const char* name) {
  return reinterpret_cast<F>(symbol(name));
}

}  // namespace driver
}  // namespace cctrace
