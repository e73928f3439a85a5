#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "clock.h"
#include "config.h"
#include "control.h"
#include "recorder.h"

namespace cctrace {
namespace spool {
namespace {

constexpr size_t kMaxText = 4096;
constexpr size_t kBlock = sizeof(Record);

struct File {
  std::mutex mutex;
  std::string path;
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;
  bool failed = false;
  uint64_t dropped = 0;
  uint32_t next_id = 1;
  // Keys point into the leaked copies below.
  std::unordered_map<std::string_view, uint32_t> ids;
};

std::atomic<File*> g_file{nullptr};

bool is_ours(const File& f, int fd) {
  struct stat s;
  return fstat(fd, &s) == 0 && s.st_dev == f.device && s.st_ino == f.inode;
}

// Programs that become daemons close every descriptor, and may then get our number for a file of their own:
// it is looked at before each use, and the spool opened again if need be.
void keep_open(File& f) {
  if (is_ours(f, f.fd)) return;
  f.fd = ::open(f.path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (f.fd >= 0 && is_ours(f, f.fd)) return;
  if (f.fd >= 0) close(f.fd);
  f.fd = -1;  // writing to it fails, and that ends the recording of this process
}

void append(File& f, const void* data, size_t size) {
  if (!f.failed) keep_open(f);
  auto* p = static_cast<const char*>(data);
  size_t left = size;
  while (left && !f.failed) {
    ssize_t n = ::write(f.fd, p, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      f.failed = true;
      recorder::warn_once("cannot write the recording (%s): the rest of this process is not recorded",
                          strerror(errno));
      break;
    }
    p += n;
    left -= static_cast<size_t>(n);
  }
  if (f.failed) f.dropped += left / kBlock;
  control::count_bytes(size - left);
}

uint32_t intern_locked(File& f, const char* text) {
  if (!text) return 0;
  const size_t length = strnlen(text, kMaxText);
  auto found = f.ids.find(std::string_view(text, length));
  if (found != f.ids.end()) return found->second;
  const size_t blocks = (length + kBlock - 1) / kBlock;
  std::string out((1 + blocks) * kBlock, '\0');
  Record r{};
  r.kind = Kind::string;
  r.name = f.next_id++;
  r.bytes = length;
  memcpy(&out[0], &r, sizeof r);
  memcpy(&out[kBlock], text, length);
  append(f, out.data(), out.size());
  f.ids.emplace(*new std::string(text, length), r.name);
  return r.name;
}

void append_state(File& f, Kind kind, const char* key, const char* value, uint64_t number) {
  Record r{};
  r.kind = kind;
  r.start_ns = r.end_ns = monotonic_ns();
  r.name = intern_locked(f, key);
  r.link = intern_locked(f, value);
  r.object = number;
  append(f, &r, sizeof r);
}

void process_name(char (&name)[32]) {
  name[0] = 0;
  int fd = ::open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t n = ::read(fd, name, sizeof name - 1);
  close(fd);
  name[n > 0 ? n : 0] = 0;
  name[strcspn(name, "\n")] = 0;
}

}  // namespace

bool open(uint64_t image_start_ns) {
  char path[4096];
  const uint64_t now = monotonic_ns();
  int n = snprintf(path, sizeof path, "%s/%d-%llu.spool", config().spool, getpid(),
                   static_cast<unsigned long long>(now));
  if (n < 0 || static_cast<size_t>(n) >= sizeof path) return false;
  int fd = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) {
    recorder::warn_once("cannot create %s (%s): this process is not recorded", path, strerror(errno));
    return false;
  }
  auto* f = new File;
  struct stat s;
  if (fstat(fd, &s) != 0) {
    close(fd);
    delete f;
    return false;
  }
  f->path = path;
  f->fd = fd;
  f->device = s.st_dev;
  f->inode = s.st_ino;
  Record header{};
  header.kind = Kind::header;
  header.start_ns = now;
  header.end_ns = read_clock(CLOCK_REALTIME);
  header.tid = static_cast<uint32_t>(getpid());
  header.object = static_cast<uint64_t>(getppid());
  header.link = kSpoolMagic;
  header.bytes = kSpoolVersion;
  header.stream = image_start_ns;
  append(*f, &header, sizeof header);
  g_file = f;
  note_process_name();
  return true;
}

bool is_open() {
  File* f = g_file;
  return f && !f->failed;
}

void write(const Record* records, size_t count) {
  File* f = g_file;
  if (!f || !count) return;
  std::lock_guard<std::mutex> lock(f->mutex);
  append(*f, records, count * sizeof(Record));
}

uint32_t intern(const char* text) {
  File* f = g_file;
  if (!f) return 0;
  std::lock_guard<std::mutex> lock(f->mutex);
  return intern_locked(*f, text);
}

void note_state(const char* key, const char* value, uint64_t number) {
  File* f = g_file;
  if (!f) return;
  std::lock_guard<std::mutex> lock(f->mutex);
  append_state(*f, Kind::state, key, value, number);
}

void note_loss(const char* reason, uint64_t count) {
  File* f = g_file;
  if (!f || !count) return;
  std::lock_guard<std::mutex> lock(f->mutex);
  append_state(*f, Kind::loss, reason, nullptr, count);
}

void note_process_name() {
  static char last[32];
  char name[32];
  process_name(name);
  if (!strcmp(name, last)) return;
  memcpy(last, name, sizeof last);
  note_state("process.name", name);
}

void abandon() {
  // The parent may have held the mutex at the fork: the child gets no file object at all, and leaks this one.
  File* f = g_file.exchange(nullptr);
  if (f && is_ours(*f, f->fd)) close(f->fd);
}

}  // namespace spool
}  // namespace cctrace
