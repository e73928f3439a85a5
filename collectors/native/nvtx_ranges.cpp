#include "nvtx_ranges.h"

#include <pthread.h>

#include <mutex>
#include <unordered_map>
#include <vector>

#include "clock.h"
#include "record.h"
#include "recorder.h"
#include "shared.h"

namespace cctrace {
namespace nvtx {
namespace {

struct Open {
  uint64_t start_ns = 0;  // 0: opened while nothing was recorded, to be dropped at its end
  labels::Label label;
  uint32_t domain = 0;
  uint32_t tid = 0;
};

Open open_now(const Domain* domain, const char* label) {
  Open open;
  // NVTX alone is no reason to record a process: it may never touch CUDA.
  if (!recorder::recording()) return open;
  open.label = labels::find(label ? label : "");
  open.domain = domain ? labels::find(domain->name.c_str()).id : 0;
  open.tid = recorder::thread_id();
  open.start_ns = monotonic_ns();
  return open;
}

void close_at(const Open& open, uint64_t end_ns) {
  // One that was opened before a fork has the string ids of the parent's spool.
  if (!open.start_ns || open.start_ns < recorder::image_start_ns() || !recorder::recording()) return;
  Record record{};
  record.kind = Kind::mark;
  record.flags = kNvtx;
  record.tid = open.tid;
  record.start_ns = open.start_ns;
  record.end_ns = end_ns;
  record.link = open.domain;
  record.name = open.label.id;
  record.device = kNoDevice;
  recorder::push(record);
  if (open.label.step) recorder::count_step();
}

struct Stack {
  const Domain* domain;
  std::vector<Open> open;
};
using Stacks = std::vector<Stack>;

// Freed through a pthread key, not a destructor: other destructors of a thread may still use NVTX, and then
// start anew.
thread_local Stacks* t_stacks = nullptr;

void free_stacks(void* stacks) {
  delete static_cast<Stacks*>(stacks);
  t_stacks = nullptr;
}

Stack& stack_of(const Domain* domain) {
  static const pthread_key_t key = [] {
    pthread_key_t fresh;
    pthread_key_create(&fresh, free_stacks);
    return fresh;
  }();
  if (!t_stacks) {
    t_stacks = new Stacks;
    pthread_setspecific(key, t_stacks);
  }
  for (Stack& stack : *t_stacks) {
    if (stack.domain == domain) return stack;
  }
  t_stacks->push_back({domain, {}});
  return t_stacks->back();
}

struct Started {
  std::mutex mutex;
  std::unordered_map<uint64_t, Open> open;
  uint64_t next_id = 1;
};

struct Domains {
  std::mutex mutex;
  std::unordered_map<std::string, Domain*> by_name;
};

}  // namespace

Domain* domain(const char* name) {
  const std::string key = name ? name : "";
  Domains& domains = shared<Domains>();
  std::lock_guard<std::mutex> lock(domains.mutex);
  Domain*& found = domains.by_name[key];
  if (!found) found = new Domain{key};
  return found;
}

int push(Domain* domain, const char* label) {
  Stack& stack = stack_of(domain);
  stack.open.push_back(open_now(domain, label));
  return static_cast<int>(stack.open.size()) - 1;
}

int pop(Domain* domain) {
  const uint64_t now = monotonic_ns();
  Stack& stack = stack_of(domain);
  if (stack.open.empty()) return -1;
  close_at(stack.open.back(), now);
  stack.open.pop_back();
  return static_cast<int>(stack.open.size());
}

uint64_t start(Domain* domain, const char* label) {
  const Open open = open_now(domain, label);
  Started& started = shared<Started>();
  std::lock_guard<std::mutex> lock(started.mutex);
  const uint64_t id = started.next_id++;
  if (open.start_ns) started.open.emplace(id, open);
  return id;
}

void end(uint64_t id) {
  const uint64_t now = monotonic_ns();
  Open open;
  {
    Started& started = shared<Started>();
    std::lock_guard<std::mutex> lock(started.mutex);
    auto found = started.open.find(id);
    if (found == started.open.end()) return;
    open = found->second;
    started.open.erase(found);
  }
  close_at(open, now);
}

void mark(Domain* domain, const char* label) {
  const Open open = open_now(domain, label);
  close_at(open, open.start_ns);
}

}  // namespace nvtx
}  // namespace cctrace
