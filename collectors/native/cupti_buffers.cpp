#include "cupti_buffers.h"

#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "clock.h"
#include "cupti_calls.h"
#include "cupti_records.h"
#include "recorder.h"
#include "spool.h"

namespace cctrace {
namespace cupti {
namespace {

// CUPTI takes one buffer per thread that calls CUDA; servers have hundreds of threads, so it is the least of
// the 1 to 10 MB that its documentation advises.
constexpr size_t kBufferBytes = 1u << 20;

// Records are written in batches of this many: one system call for 64 KiB.
constexpr size_t kBatch = 1024;

// CUPTI computes GPU times by interpolation, so a time may lie a little ahead of the host clock; one that
// lies further away was taken with another tool's clock.
constexpr uint64_t kClockSlackNs = 1000000000;

const Functions* g_functions = nullptr;
std::atomic<bool> g_wanted{true};
std::atomic<uint64_t> g_untimed{0}, g_unfinished{0}, g_foreign_clock{0}, g_unreadable{0}, g_no_memory{0};

struct Pool {
  std::mutex mutex;
  std::vector<uint8_t*> free;
};

Pool& pool() {
  static Pool* it = new Pool;  // used until the process ends: never destroyed
  return *it;
}

uint8_t* take_buffer() {
  {
    std::lock_guard<std::mutex> lock(pool().mutex);
    if (!pool().free.empty()) {
      uint8_t* buffer = pool().free.back();
      pool().free.pop_back();
      return buffer;
    }
  }
  void* fresh = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return fresh == MAP_FAILED ? nullptr : static_cast<uint8_t*>(fresh);
}

void give_buffer(uint8_t* buffer) {
  ::memset(buffer, 0, kBufferBytes);
  std::lock_guard<std::mutex> lock(pool().mutex);
  pool().free.push_back(buffer);
}

void CUPTIAPI buffer_requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  *max_records = 0;
  *buffer = take_buffer();
  *size = *buffer ? kBufferBytes : 0;
  if (!*buffer) g_no_memory++;
}

bool plausible(const Record& record, uint64_t now) {
  return record.start_ns >= recorder::image_start_ns() && record.end_ns <= now + kClockSlackNs;
}

// No lock of ours is held here while CUPTI is called, and the spool calls nothing of CUPTI: the two locks
// cannot cross.
void write_records(uint8_t* buffer, size_t valid) {
  const std::unique_ptr<Record[]> batch(new Record[kBatch]);
  size_t count = 0;
  const uint64_t now = monotonic_ns();
  CUpti_Activity* activity = nullptr;
  CUptiResult result;
  while ((result = g_functions->cuptiActivityGetNextRecord(buffer, valid, &activity)) == CUPTI_SUCCESS) {
    switch (convert(activity, kept_call, &batch[count])) {
      case Outcome::kept:
        if (plausible(batch[count], now)) {
          count++;
        } else {
          g_foreign_clock++;
        }
        break;
      case Outcome::untimed:
        g_untimed++;
        break;
      case Outcome::unfinished:
        g_unfinished++;
        break;
      case Outcome::unwanted:
        break;
    }
    if (count == kBatch) {
      spool::write(batch.get(), count);
      count = 0;
    }
  }
  if (count) spool::write(batch.get(), count);
  if (result != CUPTI_ERROR_MAX_LIMIT_REACHED) g_unreadable++;
}

void CUPTIAPI buffer_completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  if (!buffer) return;
  if (valid && g_wanted && spool::is_open()) write_records(buffer, valid);
  give_buffer(buffer);
}

void report(std::atomic<uint64_t>& counter, const char* reason) {
  if (const uint64_t count = counter.exchange(0)) spool::note_loss(reason, count);
}

}  // namespace

CUptiResult register_buffers(const Functions& functions) {
  g_functions = &functions;
  uint8_t zeroed = 1;
  size_t size = sizeof zeroed;
  const CUptiResult result =
      functions.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed);
  // A library that does not know the attribute zeroes the buffers itself.
  if (result != CUPTI_SUCCESS && result != CUPTI_ERROR_INVALID_PARAMETER) return result;
  return functions.cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed);
}

void keep_records(bool wanted) { g_wanted = wanted; }

void report_losses() {
  report(g_untimed, "CUPTI: no GPU time");
  report(g_unfinished, "CUPTI: unfinished at the end");
  report(g_foreign_clock, "CUPTI: time of another clock");
  report(g_unreadable, "CUPTI: unreadable buffer");
  report(g_no_memory, "CUPTI: no memory for a buffer");
}

}  // namespace cupti
}  // namespace cctrace
