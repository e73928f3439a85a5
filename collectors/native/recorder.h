// Life of the recorder inside a process: started by the first driver call, drained by one thread of its own.
#pragma once

#include <cstdint>

#include "record.h"
#include "truth.h"

namespace cctrace {
namespace recorder {

// Starts recording in this process if it is to be recorded; cheap when it runs already. False: record
// nothing.
bool start();

// True while records are wanted: started, inside the window, no limit reached, not in a forked child.
bool recording();

// Hands one record to the writer, through the calling thread's ring. Never blocks; a full ring counts a loss.
// With it goes what the emulator charged to the call, if it did.
void push(const Record& record, const Charges* charges = nullptr);

// Waits until everything pushed so far is on disk, at most `timeout_ms`.
void flush(int timeout_ms);

// Counts one step mark against --steps.
void count_step();

uint32_t thread_id();

// When this process image was loaded, or forked from its parent.
uint64_t image_start_ns();

// Prints a line on stderr, every distinct one once per process.
void warn_once(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace recorder

// Parts that the writer thread drives. Each is a no-op unless its mode is on.
namespace cupti {
void on_tick();    // about once a second, and before the end
void on_finish();  // last chance, from the writer thread: flush everything, also unfinished records
}  // namespace cupti

namespace nvlink {
void on_tick();  // also before recording() changes
}  // namespace nvlink

namespace stamps {
void on_tick();
void on_finish();
}  // namespace stamps

}  // namespace cctrace
