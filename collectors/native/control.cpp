#include "control.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "record.h"

namespace cctrace {
namespace control {
namespace {

Control* g_page = nullptr;

template <class T>
T load(const T& field) {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}

void stop() { __atomic_store_n(&g_page->stopped, 1u, __ATOMIC_RELAXED); }

}  // namespace

void attach() {
  if (g_page) return;
  char path[4096];
  int n = snprintf(path, sizeof path, "%s/control", config().spool);
  if (n < 0 || static_cast<size_t>(n) >= sizeof path) return;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  struct stat s;
  // A shorter file would turn a read into SIGBUS.
  if (fstat(fd, &s) == 0 && s.st_size >= static_cast<off_t>(sizeof(Control))) {
    void* p = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED && static_cast<Control*>(p)->magic == kControlMagic)
      g_page = static_cast<Control*>(p);
  }
  close(fd);
}

bool wanted(uint64_t now_ns) {
  if (!g_page) return true;
  if (load(g_page->stopped)) return false;
  const uint64_t from = load(g_page->start_at_ns), until = load(g_page->stop_at_ns);
  return now_ns >= from && (!until || now_ns < until);
}

void count_bytes(uint64_t bytes) {
  if (!g_page) return;
  const uint64_t total = __atomic_add_fetch(&g_page->bytes_written, bytes, __ATOMIC_RELAXED);
  const uint64_t limit = load(g_page->bytes_limit);
  if (limit && total >= limit) stop();
}

void count_step() {
  if (!g_page) return;
  const uint64_t seen = __atomic_add_fetch(&g_page->steps_seen, 1, __ATOMIC_RELAXED);
  const uint64_t limit = load(g_page->steps_limit);
  if (limit && seen >= limit) stop();
}

}  // namespace control
}  // namespace cctrace
