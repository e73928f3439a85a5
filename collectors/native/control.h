// The page that the recorder and the recorded processes share: window and limits of the recording.
#pragma once

#include <cstdint>

namespace cctrace {
namespace control {

// Maps <spool>/control. Without it there are no limits.
void attach();

// True if records are wanted at this moment; counts nothing.
bool wanted(uint64_t now_ns);

void count_bytes(uint64_t bytes);
void count_step();

}  // namespace control
}  // namespace cctrace
