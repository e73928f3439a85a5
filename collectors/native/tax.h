// What recording itself costs, measured in the recorded process and stored with the trace.
#pragma once

namespace cctrace {
namespace tax {

// Cost of one recorded call. Runs before anything else is recorded, so that it can use the thread's ring.
void measure();

// Cost of asking the driver for the kinds of a copy's two pointers; once, at the first copy.
void measure_pointer_query(unsigned long long source, unsigned long long destination);

}  // namespace tax
}  // namespace cctrace
