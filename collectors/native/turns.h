// Copies of one context take turns: the driver encrypts and decrypts one after the other.
#pragma once

#include <cstdint>

namespace cctrace {
namespace turns {

// Takes a turn of `duration_ns` in the calling thread's context, behind all that were taken before and not
// earlier than `now_ns`; returns when it begins. Waits for nothing: the caller lets the time go by.
uint64_t take(uint64_t now_ns, uint64_t duration_ns);

}  // namespace turns
}  // namespace cctrace
