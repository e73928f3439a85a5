// Open NVTX ranges, and the marks they become when they end.
#pragma once

#include <cstdint>
#include <string>

#include "labels.h"

namespace cctrace {
namespace nvtx {

// A domain lives until the process ends: programs keep handles in static variables and use them late.
struct Domain {
  std::string name;
};

// The domain of that name, made on first use.
Domain* domain(const char* name);

// Ranges of one thread and domain (null: the default domain) nest. Both return the depth of that range, or a
// negative number for a pop without a push.
int push(Domain* domain, const char* label);
int pop(Domain* domain);

// Ranges that may end on another thread.
uint64_t start(Domain* domain, const char* label);
void end(uint64_t id);

// A moment.
void mark(Domain* domain, const char* label);

}  // namespace nvtx
}  // namespace cctrace
