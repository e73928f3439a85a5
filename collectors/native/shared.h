// What all threads share behind a mutex.
#pragma once

#include <pthread.h>

#include <atomic>

namespace cctrace {

// The only T, used until the process ends: never destroyed. A forked child gets a fresh one, since another
// thread of the parent may have held its mutex.
template <class T>
T& shared() {
  static std::atomic<T*> it{[] {
    pthread_atfork(nullptr, nullptr, [] { it = new T; });
    return new T;
  }()};
  return *it;
}

}  // namespace cctrace
