#include "nccl_calls.h"

namespace cctrace {
namespace nccl {
namespace {

using collectives::Kind;

// Communicators and streams within one group: one a GPU, where one thread drives them all.
constexpr int kMaxEnqueued = 16;
// Alike sequences of operations get equal numbers, others hardly ever.
constexpr uint64_t kNext = 31;

struct Thread {
  int depth;
  int count;
  bool launching;
  Enqueued enqueued[kMaxEnqueued];
};

thread_local Thread t_thread;

// Sends and receives with one other rank are a copy between two; with more (which includes itself),
// all-to-all.
Kind fused(const Enqueued& all, const Enqueued& one) {
  if (all.kind == Kind::collective || one.kind == Kind::collective) return Kind::collective;
  if (all.kind != one.kind || all.peer != one.peer) return Kind::all_to_all;
  return all.kind;
}

}  // namespace

void enqueue(const Enqueued& one) {
  Thread& t = t_thread;
  for (int i = 0; i < t.count; i++) {
    Enqueued& all = t.enqueued[i];
    if (all.stream != one.stream || all.communicator != one.communicator) continue;
    all.kind = fused(all, one);
    all.operations = all.operations * kNext + one.operations;
    all.bytes += one.bytes;
    if (all.kind != Kind::peer_copy && all.ranks > 1) all.peers = all.ranks - 1;
    return;
  }
  if (t.count < kMaxEnqueued) t.enqueued[t.count++] = one;
}

void group_started() { t_thread.depth++; }

bool in_group() { return t_thread.depth > 0; }

bool in_outermost_group() { return t_thread.depth == 1; }

void group_ended() {
  if (t_thread.depth > 0) t_thread.depth--;
}

void launching() { t_thread.launching = true; }

void launched() {
  t_thread.launching = false;
  t_thread.count = 0;
}

const Enqueued* on_launch(CUstream stream) {
  Thread& t = t_thread;
  if (!t.launching) return nullptr;
  for (int i = 0; i < t.count; i++) {
    // Alone, it is what is launched, also if NCCL chose another stream.
    if (t.enqueued[i].stream != stream && t.count > 1) continue;
    t.enqueued[i].launches++;
    return &t.enqueued[i];
  }
  return nullptr;
}

}  // namespace nccl
}  // namespace cctrace
