// GPU times without CUPTI: a one-thread kernel that notes %globaltimer, as first and last node of captured
// graphs and around sampled eager steps. Adds no host submission to a replay.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cctrace {

struct ThreadState;

namespace stamps {

bool enabled();

// Around a capture. before_capture loads what is needed, which a running capture would forbid.
void before_capture(CUstream stream);
void open_capture(CUstream stream);
void skip_capture();  // one that is left alone
void close_capture(CUstream stream);
// The capture of this stream ended in `graph` (null: it failed).
void end_capture(CUstream stream, CUgraph graph);

// Around sampled eager steps: from the first launch after a wait (or after a step mark) to the last one
// before the next.
void before_wait(ThreadState* state);
void after_wait(ThreadState* state);
void before_launch(ThreadState* state, CUstream stream);
void after_graph(ThreadState* state);
void on_step_begin(ThreadState* state);
void on_step_end(ThreadState* state);

// A stream may go away now: no step that is being timed may end on it.
void on_streams_ending();

// A context may go away now: read what its ring still holds.
void on_contexts_ending();

// It is gone, and its handle may come again: what we had in it is forgotten.
void on_context_gone(CUcontext context);
void on_primary_context_left(CUdevice device);  // gone if nobody else holds it

}  // namespace stamps
}  // namespace cctrace
