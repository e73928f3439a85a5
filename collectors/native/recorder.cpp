#include "recorder.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_set>

#include "clock.h"
#include "config.h"
#include "control.h"
#include "ring.h"
#include "spin.h"
#include "spool.h"
#include "tax.h"
#include "truth.h"

namespace cctrace {
namespace recorder {
namespace {

constexpr useconds_t kDrainPeriodUs = 10000;
constexpr uint64_t kTickNs = 1000000000;
// A hanging driver must not keep a program from ending.
constexpr int kFinishTimeoutMs = 2000;

enum State : int { kIdle, kRunning, kOff };

std::atomic<int> g_state{kIdle};
std::atomic<bool> g_recording{false};
std::atomic<bool> g_stop{false}, g_finished{false};
std::atomic<uint32_t> g_flush_wanted{0}, g_flush_done{0};
std::atomic<ThreadState*> g_threads{nullptr};
std::atomic<uint64_t> g_lost{0};
uint64_t g_image_start_ns = 0;
pid_t g_pid = 0;
pthread_key_t g_thread_key;
std::mutex g_start_mutex;

thread_local ThreadState* t_state = nullptr;

void on_thread_end(void* state) {
  t_state = nullptr;
  static_cast<ThreadState*>(state)->orphan.store(true, std::memory_order_release);
}

// The writer alone unlinks; other threads only push at the head.
bool unlink_state(ThreadState* previous, ThreadState* state) {
  if (previous) {
    previous->next = state->next;
    return true;
  }
  ThreadState* expected = state;
  return g_threads.compare_exchange_strong(expected, state->next);
}

// Counted where the records are written: what is lost with a record counts no more than the record.
void take_charges(Charges* charges, uint32_t count) {
  if (spool::is_open()) truth::count(charges, count);
  // Places are all zero until a charge is put there.
  for (uint32_t i = 0; i < count; i++) {
    if (!charges[i].none()) charges[i] = {};
  }
}

void drain_one(ThreadState& s) {
  uint32_t tail = s.tail.load(std::memory_order_relaxed);
  const uint32_t head = s.head.load(std::memory_order_acquire);
  while (tail != head) {
    const uint32_t at = tail % ThreadState::kCapacity;
    const uint32_t count =
        head - tail < ThreadState::kCapacity - at ? head - tail : ThreadState::kCapacity - at;
    spool::write(&s.records[at], count);
    if (config().emulation.active) take_charges(&s.charges[at], count);
    tail += count;
    s.tail.store(tail, std::memory_order_release);
  }
}

void drain() {
  ThreadState* previous = nullptr;
  for (ThreadState* s = g_threads.load(std::memory_order_acquire); s;) {
    ThreadState* next = s->next;
    const bool orphan = s->orphan.load(std::memory_order_acquire);
    drain_one(*s);
    g_lost += s->dropped.exchange(0);
    if (orphan && unlink_state(previous, s)) {
      munmap(s, sizeof *s);
    } else {
      previous = s;
    }
    s = next;
  }
  spool::note_loss("ring full", g_lost.exchange(0));
  truth::note();
}

void write_clock() {
  Record r{};
  r.kind = Kind::clock;
  const uint64_t before = monotonic_ns();
  r.end_ns = read_clock(CLOCK_REALTIME);
  const uint64_t after = monotonic_ns();
  r.start_ns = before + (after - before) / 2;
  r.bytes = after - before;
  r.object = read_clock(CLOCK_MONOTONIC_RAW);
  spool::write(&r, 1);
}

void tick() {
  write_clock();
  spool::note_process_name();
  cupti::on_tick();
  nvlink::on_tick();
  stamps::on_tick();
}

void set_recording(bool wanted) {
  // What the GPU did until now belongs to what was.
  if (wanted != g_recording) nvlink::on_tick();
  g_recording = wanted;
}

void* writer(void*) {
  pthread_setname_np(pthread_self(), "cctrace");
  uint64_t next_tick = monotonic_ns() + kTickNs;
  write_clock();
  while (!g_stop) {
    usleep(kDrainPeriodUs);
    const uint32_t wanted = g_flush_wanted;
    const uint64_t now = monotonic_ns();
    set_recording(spool::is_open() && control::wanted(now));
    if (wanted != g_flush_done || now >= next_tick) {
      tick();
      next_tick = now + kTickNs;
    }
    drain();
    g_flush_done = wanted;
  }
  set_recording(false);
  tick();
  cupti::on_finish();
  stamps::on_finish();
  drain();
  g_finished = true;
  return nullptr;
}

template <class Condition>
void wait_until(int timeout_ms, Condition done) {
  // Polling instead of a condition variable: this also runs inside _exit, possibly in a signal handler.
  for (int ms = 0; ms < timeout_ms && !done(); ms++) usleep(1000);
}

void finish() {
  int expected = kRunning;
  if (getpid() != g_pid || !g_state.compare_exchange_strong(expected, kOff)) return;
  g_stop = true;
  wait_until(kFinishTimeoutMs, [] { return g_finished.load(); });
}

void in_child() {
  g_image_start_ns = monotonic_ns();
  if (g_state.exchange(kOff) == kIdle) {
    // Nothing had begun: the child may become a recorded process of its own, as engine processes do.
    g_state = kIdle;
    return;
  }
  // The driver cannot be used in a child of a process that used it; neither can our thread and file.
  g_recording = false;
  t_state = nullptr;
  spool::abandon();
}

bool start_writer() {
  sigset_t all, old;
  sigfillset(&all);
  // Signals belong to the program's own threads.
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  const bool ok = pthread_create(&thread, nullptr, writer, nullptr) == 0;
  if (ok) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return ok;
}

bool start_now() {
  std::lock_guard<std::mutex> lock(g_start_mutex);
  if (g_state != kIdle) return g_state == kRunning;
  g_pid = getpid();
  if (config().spool) control::attach();
  if (!config().spool || pthread_key_create(&g_thread_key, on_thread_end) || !spool::open(g_image_start_ns)) {
    g_state = kOff;
    return false;
  }
  if (config().emulation.active) spin::calibrate();
  tax::measure();
  g_recording = control::wanted(monotonic_ns());
  if (!start_writer()) {
    warn_once("cannot start the writer thread: this process is not recorded");
    g_recording = false;
    g_state = kOff;
    return false;
  }
  atexit(finish);
  at_quick_exit(finish);
  g_state = kRunning;
  return true;
}

__attribute__((constructor)) void on_load() {
  g_image_start_ns = monotonic_ns();
  if (config().spool) pthread_atfork(nullptr, nullptr, in_child);
}

}  // namespace

bool start() {
  const int state = g_state.load(std::memory_order_acquire);
  return state == kIdle ? start_now() : state == kRunning;
}

bool recording() { return g_recording.load(std::memory_order_relaxed); }

ThreadState* thread_state() {
  if (t_state) return t_state;
  // Not malloc: the program may have replaced it, and this may run inside its allocator's own calls.
  void* memory =
      mmap(nullptr, sizeof(ThreadState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  t_state = new (memory) ThreadState;
  pthread_setspecific(g_thread_key, t_state);
  ThreadState* head = g_threads.load(std::memory_order_relaxed);
  do t_state->next = head;
  while (!g_threads.compare_exchange_weak(head, t_state, std::memory_order_release));
  return t_state;
}

void push(const Record& record, const Charges* charges) {
  ThreadState* s = thread_state();
  if (!s) {
    g_lost++;
    return;
  }
  const uint32_t head = s->head.load(std::memory_order_relaxed);
  if (head - s->tail.load(std::memory_order_acquire) >= ThreadState::kCapacity) {
    s->dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  s->records[head % ThreadState::kCapacity] = record;
  if (charges) s->charges[head % ThreadState::kCapacity] = *charges;
  s->head.store(head + 1, std::memory_order_release);
}

void flush(int timeout_ms) {
  if (g_state != kRunning || getpid() != g_pid) return;
  const uint32_t mine = ++g_flush_wanted;
  wait_until(timeout_ms, [mine] { return static_cast<int32_t>(g_flush_done - mine) >= 0; });
}

void count_step() { control::count_step(); }

uint32_t thread_id() {
  static thread_local uint32_t id = 0;
  static thread_local pid_t owner = 0;
  // A forked child's first thread has a new id.
  if (owner != g_pid) {
    id = static_cast<uint32_t>(syscall(SYS_gettid));
    owner = g_pid;
  }
  return id;
}

uint64_t image_start_ns() { return g_image_start_ns; }

void warn_once(const char* format, ...) {
  static std::mutex mutex;
  static auto& seen = *new std::unordered_set<std::string>;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::lock_guard<std::mutex> lock(mutex);
  if (seen.insert(text).second) dprintf(2, "cctrace: %s (process %d)\n", text, static_cast<int>(getpid()));
}

}  // namespace recorder
}  // namespace cctrace

// Programs that end by _exit (forked workers do) skip exit handlers: what they recorded last would be lost.
extern "C" __attribute__((visibility("default"), noreturn)) void _exit(int status) {
  cctrace::recorder::finish();
  for (;;) syscall(SYS_exit_group, status);
}
extern "C" __attribute__((visibility("default"), noreturn)) void _Exit(int status) { _exit(status); }

extern "C" __attribute__((visibility("default"))) void cctrace_flush(void) { cctrace::recorder::flush(1000); }
