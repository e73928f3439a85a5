// Step marks set by the program through our own hook.
#include <string.h>

#include "clock.h"
#include "record.h"
#include "recorder.h"
#include "ring.h"
#include "spool.h"
#include "stamps.h"

namespace cctrace {
namespace {

struct OpenStep {
  uint64_t start_ns = 0;
  char label[128] = {};
};

thread_local OpenStep t_step;

}  // namespace
}  // namespace cctrace

extern "C" __attribute__((visibility("default"))) void cctrace_step_begin(const char* label) {
  using namespace cctrace;
  t_step.start_ns = 0;
  // A mark alone starts nothing: a process without CUDA leaves no file.
  if (!recorder::recording()) return;
  strncpy(t_step.label, label ? label : "", sizeof t_step.label - 1);
  stamps::on_step_begin(recorder::thread_state());
  t_step.start_ns = monotonic_ns();
}

extern "C" __attribute__((visibility("default"))) void cctrace_step_end(void) {
  using namespace cctrace;
  if (!t_step.start_ns || !recorder::recording()) return;
  Record r{};
  r.kind = Kind::mark;
  r.flags = kStepMark;
  r.tid = recorder::thread_id();
  r.start_ns = t_step.start_ns;
  r.end_ns = monotonic_ns();
  r.name = spool::intern(t_step.label);
  recorder::push(r);
  t_step.start_ns = 0;
  stamps::on_step_end(recorder::thread_state());
  recorder::count_step();
}
